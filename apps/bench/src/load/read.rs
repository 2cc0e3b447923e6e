//! The readers of a run: each reads its partitions by a consumer of its own, up to their ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use base::Offset;
use client::Scratch;
use client::consumer::{Consumer, Start};

use super::Run;
use super::clock::{Clock, Shift};
use super::send::{Sent, counting, form};
use super::topics::{Ends, Topics};
use crate::mark::{Form, due_ns};
use crate::meter::{Counts, Measured, Meter};
use crate::verify::{Checker, Piece, ReadAt, Verdict};
use crate::workload::Workload;

/// From one look at whether all is read to the next.
const LOOK: Duration = Duration::from_millis(100);
/// A reader that gets nothing for so long, though there is more, gets nothing more.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// All readers, ready to start.
pub(super) struct Reading<'a> {
    topics: &'a Topics,
    run: u64,
    clock: Clock,
    shift: Shift,
    stop: &'a AtomicBool,
    readers: Vec<Reader>,
    subscriptions: u16,
    /// When senders begin, if any do: readers that are there before wait for them.
    started: Duration,
    /// Where everything ends, once that is known.
    ends: OnceLock<Ends>,
}

/// One of them.
struct Reader {
    subscription: u16,
    /// The places that it reads, in order.
    places: Vec<usize>,
    consumer: Mutex<Option<Consumer>>,
    meter: Arc<Meter>,
    looks_at: LooksAt,
}

/// What a reader looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LooksAt {
    /// Each record is read, and that is all: there is one behind the other, as the offsets have it.
    Records,
    /// Each record is checked, and when it was due if its mark says so; those without marks are counted.
    Marks(Option<Form>),
}

/// What the readers came to.
pub(crate) struct Readers {
    /// Of each subscription: what was seen of marks, and how many records there were.
    subscriptions: Vec<(Checker, u64)>,
}

/// A reader's thread: its subscription, and what it saw.
pub(super) type Handle<'scope> = ScopedJoinHandle<'scope, Result<(u16, Checker, u64)>>;

impl<'a> Reading<'a> {
    /// Starts the consumers of the workload; nothing is read. Those of what is `checked` look at each mark.
    pub(super) fn prepare(
        run: &Run<'a>,
        (started, steady_from): (Duration, Duration),
        checked: bool,
    ) -> Result<Self> {
        let workload = run.target.workload;
        let looks_at = if checked { LooksAt::Marks(form(workload)) } else { LooksAt::Records };
        let mut readers = Vec::new();
        for subscription in 0..workload.subscriptions {
            let at =
                |number: u16| u32::from(subscription) * u32::from(workload.consumers) + u32::from(number);
            for number in (0..workload.consumers).filter(|number| run.share.has(at(*number))) {
                let consumers = usize::from(workload.consumers);
                let is_its = |place: &usize| place % consumers == usize::from(number);
                let places = (0..run.topics.places()).filter(is_its).collect();
                readers.push(Reader::new(run, subscription, places, steady_from, looks_at)?);
            }
        }
        Ok(Self { started, ..Self::with(run, readers, workload.subscriptions) })
    }

    /// One reader that reads and checks everything, unmeasured.
    pub(super) fn of_all(run: &Run<'a>) -> Result<Self> {
        let places = (0..run.topics.places()).collect();
        let looks_at = LooksAt::Marks(form(run.target.workload));
        Ok(Self::with(run, vec![Reader::new(run, 0, places, Duration::MAX, looks_at)?], 1))
    }

    fn with(run: &Run<'a>, readers: Vec<Reader>, subscriptions: u16) -> Self {
        let Run { topics, id, clock, shift, .. } = *run;
        let (stop, started, ends) = (run.target.stop, Duration::ZERO, OnceLock::new());
        Self { topics, run: id, clock, shift, stop, readers, subscriptions, started, ends }
    }

    pub(super) fn meters(&self) -> Vec<Arc<Meter>> {
        self.readers.iter().map(|reader| reader.meter.clone()).collect()
    }

    /// The steady state of all of them.
    pub(super) fn measured(&self) -> Measured {
        let mut sum = Measured::default();
        self.readers.iter().for_each(|reader| sum.add(reader.meter.lock().steady()));
        sum
    }

    /// Says where everything ends: whoever has read so far is done.
    pub(super) fn end_at(&self, ends: Ends) {
        self.ends.get_or_init(|| ends);
    }

    /// Starts their threads, each of which holds `working` while it works.
    pub(super) fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        working: mpsc::Sender<()>,
    ) -> Vec<Handle<'scope>> {
        let start = |reader: &'scope Reader| {
            let working = working.clone();
            scope.spawn(move || {
                let _working = working;
                self.read_all(reader)
            })
        };
        self.readers.iter().map(start).collect()
    }

    /// Waits for all of them.
    pub(super) fn join(&self, handles: Vec<Handle<'_>>) -> Result<Readers> {
        let mut all = Readers::nothing(self.run, self.subscriptions);
        for handle in handles {
            let (subscription, checker, records) =
                handle.join().map_err(|_| anyhow!("a thread that reads panicked"))??;
            all.add(subscription, checker, records)?;
        }
        Ok(all)
    }

    fn read_all(&self, reader: &Reader) -> Result<(u16, Checker, u64)> {
        let consumer = reader.consumer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut consumer = consumer.context("it was started before")?;
        let mut checker = reader.looks_at.checker(self.run);
        let mut next: Ends = vec![Offset(0); self.topics.places()];
        let places = reader.places.iter().map(|place| self.topics.at(*place));
        reader.meter.lock().begin(self.started.max(self.clock.now()));
        consumer.assign(places.map(|(topic, partition)| (topic, partition, Start::Earliest)));
        let (mut scratch, mut dues, mut records) = (Scratch::default(), Vec::new(), 0);
        let mut heard = Instant::now();
        while !self.is_done(reader, &next) {
            let Some(batch) = consumer.next_batch_within(LOOK)? else {
                // As long as nobody knows where it ends, there may be nothing to read.
                if self.ends.get().is_none() {
                    heard = Instant::now();
                }
                ensure!(
                    heard.elapsed() < SILENCE_MAX,
                    "a reader got nothing for {SILENCE_MAX:?}, and was not at the end"
                );
                continue;
            };
            heard = Instant::now();
            let (at, mut untimed) = (self.clock.now(), Counts::default());
            let place =
                self.topics.place(batch.topic(), batch.partition().0).context("it was not asked for")?;
            ensure!(
                batch.header().base_offset >= next[place],
                "offset {} came behind {}",
                batch.header().base_offset,
                next[place]
            );
            let header = *batch.header();
            next[place] = header.next_offset();
            let (topic, partition) = (batch.topic(), batch.partition());
            for record in batch.records(&mut scratch)? {
                let record = record?;
                records += 1;
                let bytes = record.value.unwrap_or_default().len() as u64;
                let mut due = None;
                if let LooksAt::Marks(form) = reader.looks_at {
                    let offset = record.offset(&header);
                    checker.check(ReadAt { place, topic, partition, offset }, &record)?;
                    due = due_ns(&record).filter(|_| form.is_some_and(Form::is_timed));
                }
                match due {
                    Some(due) => dues.push((self.shift.here(Duration::from_nanos(due)), bytes)),
                    None => untimed.add(Counts { records: 1, bytes }),
                }
            }
            reader.count(&mut dues, untimed, at);
        }
        Ok((reader.subscription, checker, records))
    }

    fn is_done(&self, reader: &Reader, next: &Ends) -> bool {
        let is_stopped = self.stop.load(Ordering::Relaxed);
        // What is read to be checked is read whole, also if nothing more is sent.
        if is_stopped && reader.looks_at == LooksAt::Records {
            return true;
        }
        let Some(ends) = self.ends.get() else { return is_stopped };
        reader.places.iter().all(|place| ends.get(*place).is_none_or(|end| next[*place] >= *end))
    }
}

impl LooksAt {
    fn checker(self, run: u64) -> Checker {
        match self {
            Self::Marks(Some(Form::Short)) => Checker::of_short_marks(run),
            Self::Marks(_) | Self::Records => Checker::new(Some(run)),
        }
    }
}

impl Reader {
    fn new(
        run: &Run<'_>,
        subscription: u16,
        places: Vec<usize>,
        steady_from: Duration,
        looks_at: LooksAt,
    ) -> Result<Self> {
        let consumer = Mutex::new(Some(run.clients.consumer()?.build()?));
        let meter = Arc::new(Meter::new(steady_from, counting(run.target.workload)));
        Ok(Self { subscription, places, consumer, meter, looks_at })
    }

    /// Counts a batch that came at that time: records that say when they were due, and others.
    fn count(&self, dues: &mut Vec<(Duration, u64)>, untimed: Counts, at: Duration) {
        let mut meter = self.meter.lock();
        if untimed.records > 0 {
            meter.record_untimed(untimed, at);
        }
        for (due, bytes) in dues.drain(..) {
            meter.record(due, None, at, bytes);
        }
    }
}

impl Readers {
    /// Nobody read anything yet.
    pub(crate) fn nothing(run: u64, subscriptions: u16) -> Self {
        Self { subscriptions: (0..subscriptions).map(|_| (Checker::new(Some(run)), 0)).collect() }
    }

    /// Adds what another reader, of another machine perhaps, saw for a subscription.
    pub(crate) fn add(&mut self, subscription: u16, checker: Checker, records: u64) -> Result<()> {
        let (all, count) =
            self.subscriptions.get_mut(usize::from(subscription)).context("there is no such subscription")?;
        all.absorb(checker)?;
        *count += records;
        Ok(())
    }

    /// Adds some of what a reader of another machine saw.
    pub(crate) fn add_piece(&mut self, subscription: u16, piece: Piece, records: u64) -> Result<()> {
        let (all, count) =
            self.subscriptions.get_mut(usize::from(subscription)).context("there is no such subscription")?;
        all.absorb_piece(piece)?;
        *count = count.checked_add(records).context("nobody reads so many records")?;
        Ok(())
    }

    /// What was seen for each subscription, and how many records there were.
    pub(crate) fn into_parts(self) -> Vec<(Checker, u64)> {
        self.subscriptions
    }

    /// Fails if the readers of a subscription of what is stored got less than all of it, or more, unless they were
    /// told to stop.
    pub(crate) fn must_be_all(&self, sent: &Sent, stop: &AtomicBool) -> Result<()> {
        let (least, most) = (sent.acknowledged(), sent.records.iter().sum::<u64>());
        for (number, (_, found)) in self.subscriptions.iter().enumerate() {
            ensure!(
                stop.load(Ordering::Relaxed) || (least..=most).contains(found),
                "readers of subscription {number} got {found} records of {least}"
            );
        }
        Ok(())
    }

    /// Whether each subscription got what was sent, and nothing else.
    pub(crate) fn verdict(self, sent: &Sent, workload: &Workload) -> Result<Verdict> {
        let is_marked = form(workload).is_some();
        let mut worst = None;
        for (checker, records) in self.subscriptions {
            let verdict = match is_marked {
                true => checker.verdict_on(&sent.records, &sent.given_up).of_own_topics(),
                // Records that are too small for a mark are counted.
                false => Verdict::of_counts(sent.acknowledged(), sent.records.iter().sum(), records),
            };
            if worst.is_none() || !verdict.is_clean() {
                worst = Some(verdict);
            }
        }
        worst.context("nobody read what was written")
    }
}

#[cfg(test)]
mod tests {
    use base::PartitionIndex;
    use client::Record;
    use records::Headers;

    use super::*;

    #[test]
    fn records_that_come_without_their_marks_are_lost() {
        let sent = |workload: &Workload| Sent { records: vec![1_000], ..Sent::nothing(workload) };
        let verdict = |record_bytes: usize| {
            let workload = Workload { record_bytes, ..Workload::default() };
            let mut readers = Readers::nothing(7, 1);
            readers.add(0, Checker::new(Some(7)), 1_000).expect("it is the first subscription");
            readers.verdict(&sent(&workload), &workload).expect("somebody read")
        };
        assert!(verdict(7).is_clean(), "there is no room for a mark: they are counted");
        for record_bytes in [8, 100] {
            let found = verdict(record_bytes);
            assert!(!found.is_clean(), "all came, and none is what was sent: {}", found.in_words());
        }
    }

    #[test]
    fn a_record_of_others_is_wrong_where_nobody_else_writes() {
        let mut checker = Checker::new(Some(7));
        let at = ReadAt { place: 0, topic: "bench-0", partition: PartitionIndex(0), offset: Offset(3) };
        let value = Some(&b"what an earlier topic of that name had"[..]);
        let record =
            Record { offset_delta: 0, timestamp_delta: 0, key: None, value, headers: Headers::default() };
        checker.check(at, &record).expect("it is passed over");
        let mut readers = Readers::nothing(7, 1);
        readers.add(0, checker, 1).expect("it is the first subscription");
        let workload = Workload { record_bytes: 100, ..Workload::default() };
        let verdict = readers.verdict(&Sent::nothing(&workload), &workload).expect("somebody read");
        let wrong = verdict.into_result().expect_err("nobody sent it").to_string();
        assert_eq!(wrong, "verification failed: records 1 foreign: 1 records are none that were sent");
    }
}
