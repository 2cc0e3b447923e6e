//! Writes records with librdkafka, from one thread; each is acknowledged and its report counted.

use std::ffi::CString;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rdkafka::bindings as c;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientConfig, ClientContext};
use serde_json::Value;

use crate::{Letters, PATIENCE, Way};

/// Records from one look at the reports to the next.
const RECORDS_BETWEEN: u64 = 1_000;
/// Records of one call that takes many.
const RECORDS_OF_CALL: u64 = 500;
/// How long a report is waited for when the queue is full.
const WAIT: Duration = Duration::from_millis(10);

/// Writes `records` values of so many bytes.
pub(crate) fn run(config: &ClientConfig, topic: &str, load: (u64, usize), way: Way) -> Result<Value> {
    let (records, bytes) = load;
    let producer: BaseProducer<Reports> = config.create_with_context(Reports::default())?;
    // What is sent is made before the clock runs.
    let letters = Letters::new(bytes);
    let since = Instant::now();
    let reports = match way {
        Way::Crate => by_crate(&producer, topic, records, letters),
        Way::Bulk => bulk(&producer, topic, records, letters)?,
    };
    let said = crate::result(records, records * bytes as u64, since);
    let [arrived, lost] = [&reports.arrived, &reports.lost].map(|count| count.load(Ordering::Relaxed));
    ensure!(
        arrived == records && lost == 0,
        "{arrived} of {records} records were acknowledged, {lost} refused"
    );
    Ok(said)
}

/// What became of the records.
#[derive(Default)]
struct Reports {
    arrived: AtomicU64,
    lost: AtomicU64,
}

impl Reports {
    /// Only one thread looks at reports, so nothing is lost between reading and writing.
    fn add(&self, arrived: u64, lost: u64) {
        self.arrived.store(self.arrived.load(Ordering::Relaxed) + arrived, Ordering::Relaxed);
        self.lost.store(self.lost.load(Ordering::Relaxed) + lost, Ordering::Relaxed);
    }

    fn lack(&self, records: u64) -> bool {
        self.arrived.load(Ordering::Relaxed) + self.lost.load(Ordering::Relaxed) < records
    }
}

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        self.add(u64::from(result.is_ok()), u64::from(result.is_err()));
    }
}

/// With the calls of the crate.
fn by_crate<'a>(
    producer: &'a BaseProducer<Reports>,
    topic: &str,
    records: u64,
    mut letters: Letters,
) -> &'a Reports {
    for number in 0..records {
        let value = letters.next();
        while producer.send(BaseRecord::<(), [u8]>::to(topic).payload(value)).is_err() {
            producer.poll(WAIT);
        }
        if number % RECORDS_BETWEEN == 0 {
            producer.poll(Duration::ZERO);
        }
    }
    let (reports, since) = (producer.context(), Instant::now());
    while reports.lack(records) && since.elapsed() < PATIENCE {
        producer.poll(WAIT);
    }
    reports
}

/// With librdkafka's own calls that take many records at once, and give many reports at once.
fn bulk<'a>(
    producer: &'a BaseProducer<Reports>,
    topic: &str,
    records: u64,
    mut letters: Letters,
) -> Result<&'a Reports> {
    let (native, reports, name) = (producer.client().native_ptr(), producer.context(), CString::new(topic)?);
    // SAFETY: the producer lives longer than what is made of it here, and the name than the call.
    let (to, queue) = unsafe {
        (c::rd_kafka_topic_new(native, name.as_ptr(), null_mut()), c::rd_kafka_queue_get_main(native))
    };
    ensure!(!to.is_null() && !queue.is_null(), "librdkafka does not take the topic");
    let mut batch = Vec::new();
    let mut left = records;
    while left > 0 {
        let count = left.min(RECORDS_OF_CALL);
        batch.extend((0..count).map(|_| message(letters.next())));
        left -= count;
        while !batch.is_empty() {
            // SAFETY: the messages point into the letters, which stay; librdkafka copies them.
            let taken = unsafe {
                let count = i32::try_from(batch.len())?;
                c::rd_kafka_produce_batch(to, UNASSIGNED, c::RD_KAFKA_MSG_F_COPY, batch.as_mut_ptr(), count)
            };
            if taken as usize == batch.len() {
                batch.clear();
            } else {
                batch.retain(|message| message.err != c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR);
                next_event(queue, WAIT, reports);
            }
            while next_event(queue, Duration::ZERO, reports) {}
        }
    }
    let since = Instant::now();
    while reports.lack(records) && since.elapsed() < PATIENCE {
        next_event(queue, WAIT, reports);
    }
    // SAFETY: neither is used again.
    unsafe {
        c::rd_kafka_queue_destroy(queue);
        c::rd_kafka_topic_destroy(to);
    }
    Ok(reports)
}

/// The partition of records that librdkafka puts where it likes.
const UNASSIGNED: i32 = -1;

fn message(value: &[u8]) -> c::rd_kafka_message_t {
    c::rd_kafka_message_t {
        err: c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR,
        rkt: null_mut(),
        partition: UNASSIGNED,
        payload: value.as_ptr().cast_mut().cast(),
        len: value.len(),
        key: null_mut(),
        key_len: 0,
        offset: 0,
        _private: null_mut(),
    }
}

/// Counts the reports of the next event; false if none comes.
fn next_event(queue: *mut c::rd_kafka_queue_t, wait: Duration, reports: &Reports) -> bool {
    let mut messages = [null(); 1024];
    // SAFETY: the event and its messages are used until it is destroyed, here, by nobody else.
    unsafe {
        let event = c::rd_kafka_queue_poll(queue, wait.as_millis() as i32);
        if event.is_null() {
            return false;
        }
        if c::rd_kafka_event_type(event) == c::RD_KAFKA_EVENT_DR {
            loop {
                let count = c::rd_kafka_event_message_array(event, messages.as_mut_ptr(), messages.len());
                if count == 0 {
                    break;
                }
                let arrived = |message: &&*const c::rd_kafka_message_t| {
                    (***message).err == c::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
                };
                let arrived = messages[..count].iter().filter(arrived).count();
                reports.add(arrived as u64, (count - arrived) as u64);
            }
        }
        c::rd_kafka_event_destroy(event);
    }
    true
}
