//! `vltava perf e2e-latency`: Kafka's `kafka-e2e-latency`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::chance::Chance;
use bench::histogram::{MIB, histogram, latency_line, quantiles, rate_line};
use bench::hlog::Intervals;
use bench::mark::{Form, Marker};
use bench::payload::Payload;
use bench::verify::{Checker, Verdict};
use client::admin::{At, Topic};
use client::consumer::Consumer;
use client::producer::{Acks, Producer, Record};
use client::{Admin, Header};
use hdrhistogram::Histogram;
use serde_json::json;

use super::millis::Millis;
use super::readback::{self, Reader};
use super::settings::Settings;
use super::stamp::Stamp;
use crate::progress::Progress;

/// How long until a record is read, from when it was sent; one at a time
///
/// Takes the arguments of Kafka's kafka-e2e-latency, old and new, and prints its lines. Every record has a
/// number and a checksum, in the place of its first 24 bytes, or in a header if it is smaller: one that is
/// lost, duplicated, reordered or corrupt fails the run.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Brokers to connect to, between commas
    #[arg(long, value_name = "HOST:PORT")]
    bootstrap_server: Option<String>,
    /// Topic to write to and read from
    #[arg(long, required_unless_present = "positional")]
    topic: Option<String>,
    /// How many records to send
    #[arg(long, required_unless_present = "positional")]
    num_records: Option<u64>,
    /// Who has to have a record before it counts as sent: 1 or all
    #[arg(long, default_value = "all")]
    producer_acks: String,
    /// Bytes of each record
    #[arg(long, required_unless_present = "positional")]
    record_size: Option<usize>,
    /// Bytes of each key; none if 0
    #[arg(long, default_value_t = 0)]
    record_key_size: usize,
    /// Headers of each record
    #[arg(long, default_value_t = 0)]
    num_headers: usize,
    /// Bytes of the name of each header
    #[arg(long, default_value_t = 0)]
    record_header_key_size: usize,
    /// Bytes of the value of each header; -1 for a header without a value
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-1..))]
    record_header_size: i32,
    /// A file of settings, by Kafka's names; --producer-acks comes before its acks
    #[arg(long, value_name = "FILE")]
    command_config: Option<PathBuf>,
    /// Send so many records before those that count
    #[arg(long, default_value_t = 0)]
    warmup_records: u64,
    /// Milliseconds after which a record that did not come counts as lost
    #[arg(long, default_value_t = 60_000)]
    timeout: u64,
    /// Write histograms of each interval into a file, as HdrHistogram logs them
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
    /// Milliseconds from one interval of that file to the next
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..))]
    reporting_interval: u64,
    /// Answer with JSON in the last line, for programs
    #[arg(long)]
    json: bool,
    /// As Kafka's tool had them: brokers topic records acks size [file of settings]
    #[arg(hide = true, num_args = 5..=6)]
    positional: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  vltava perf e2e-latency --topic t --num-records 10000 --producer-acks all --record-size 100
  vltava perf e2e-latency --topic t --num-records 100000 --record-size 100 --warmup-records 5000 --json
  vltava perf e2e-latency 127.0.0.1:9092 t 10000 1 100";

/// What Kafka's tool says of arguments without names.
const POSITIONAL: &str = "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. \
                          Please use named arguments instead: --bootstrap-server, --topic, --num-records, \
                          --producer-acks, --record-size, --command-config";

/// What is measured, however it was said.
struct Plan {
    topic: String,
    records: u64,
    acks: Acks,
    record_bytes: usize,
    settings: Settings,
}

/// What was measured.
struct Measured {
    /// From send to read.
    both: Histogram<u64>,
    /// From send to acknowledgement.
    sent: Histogram<u64>,
    /// From send to read, for Kafka's lines.
    millis: Millis,
    total: Duration,
    records: u64,
    verdict: Verdict,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<()> {
    let plan = arguments.plan()?;
    if !arguments.positional.is_empty() {
        writeln!(out, "{POSITIONAL}")?;
    }
    let mut pair = Pair::start(&plan, out)?;
    let measured = arguments.measure(&plan, &mut pair, out)?;
    if measured.verdict.is_clean() {
        writeln!(out, "{}", summary(measured.total, measured.records, &measured.millis))?;
        out.flush()?;
    }
    let stamp = Stamp::take(plan.settings.servers(), &plan.topic, pair.properties);
    measured.print_more(arguments.json, plan.record_bytes, &stamp, out)?;
    measured.verdict.into_result()
}

impl Measured {
    /// What Kafka's tool does not say: for people on stderr, for programs in the last line.
    fn print_more(
        &self,
        is_json: bool,
        record_bytes: usize,
        stamp: &Stamp,
        out: &mut dyn Write,
    ) -> Result<()> {
        let seconds = self.total.as_secs_f64().max(1e-9);
        let bytes = self.records * record_bytes as u64;
        if is_json {
            let mut said = json!({
                "records": self.records,
                "seconds": seconds,
                "records_per_sec": self.records as f64 / seconds,
                "mb_per_sec": bytes as f64 / seconds / 1e6,
                "mib_per_sec": bytes as f64 / seconds / MIB,
                "latency_ns": quantiles(&self.both),
                "send_to_ack_ns": quantiles(&self.sent),
                "verified": self.verdict.json(),
            });
            stamp.put_into(&mut said);
            writeln!(out, "{said}")?;
            return Ok(out.flush()?);
        }
        eprintln!("{}", rate_line(self.records, bytes, seconds));
        eprintln!("{}", latency_line("until it was read", &self.both));
        eprintln!("{}", latency_line("until it was acknowledged", &self.sent));
        eprintln!("verification: {}", self.verdict.in_words());
        stamp.lines().iter().for_each(|line| eprintln!("{line}"));
        Ok(())
    }
}

impl Arguments {
    fn measure(&self, plan: &Plan, pair: &mut Pair, out: &mut dyn Write) -> Result<Measured> {
        let mut log =
            Intervals::new(self.hlog.as_deref(), "latency from send to read", self.reporting_interval)?;
        let mut progress = Progress::of(plan.records);
        let (mut both, mut sent, mut total) = (histogram(), histogram(), Duration::ZERO);
        let mut millis = Millis::default();
        let mut payload = Payload::letters(plan.record_bytes, Chance::new(1, 0));
        let mut marker = Marker::new(pair.run, 0, Form::of(payload.free_bytes()));
        let key = vec![b'k'; self.record_key_size];
        let key = (!key.is_empty()).then_some(&key[..]);
        let header_key = vec![b'h'; self.record_header_key_size];
        let header_value = usize::try_from(self.record_header_size).ok().map(|bytes| vec![b'v'; bytes]);
        let timeout = Duration::from_millis(self.timeout);
        let (mut records, mut is_clean) = (0, true);
        for number in 0..self.warmup_records + plan.records {
            let marked = marker.mark(key, payload.next_value(), 0);
            let header = Header { key: &header_key, value: header_value.as_deref() };
            let mut headers = vec![header; self.num_headers];
            headers.extend(marked.header);
            let mut record = Record::to(&plan.topic).value(marked.value).headers(&headers);
            if let Some(key) = key {
                record = record.key(key);
            }
            let began = Instant::now();
            let delivery = pair.producer.send_blocking(&record)?;
            delivery.wait().with_context(|| format!("record {number}"))?;
            let acknowledged = began.elapsed();
            is_clean = pair.read(number + 1, timeout).with_context(|| format!("record {number}"))?;
            if !is_clean {
                break;
            }
            let elapsed = began.elapsed();
            let Some(number) = number.checked_sub(self.warmup_records) else { continue };
            sent.saturating_record(acknowledged.as_nanos() as u64);
            both.saturating_record(elapsed.as_nanos() as u64);
            millis.record(elapsed);
            log.record(elapsed)?;
            total += elapsed;
            records += 1;
            progress.set(records);
            if number % 1_000 == 0 {
                progress.line(out, &line(number, elapsed))?;
            }
        }
        progress.end();
        log.finish()?;
        if is_clean {
            pair.read_to_end(timeout, plan.acks != Acks::All)?;
        }
        let verdict =
            std::mem::replace(&mut pair.reader.checker, Checker::new(None)).verdict_on(&[pair.sent], &[]);
        Ok(Measured { both, sent, millis, total, records, verdict })
    }

    fn plan(&self) -> Result<Plan> {
        let settings = |servers: Option<&str>, file: Option<&Path>| Settings::read(servers, file, &[]);
        if let [servers, topic, records, acks, size, rest @ ..] = &self.positional[..] {
            return Ok(Plan {
                topic: topic.clone(),
                records: records.parse().context("the number of records")?,
                acks: acks_of(acks)?,
                record_bytes: size.parse().context("the size of a record")?,
                settings: settings(Some(servers), rest.first().map(Path::new))?,
            });
        }
        Ok(Plan {
            topic: self.topic.clone().context("--topic is missing")?,
            records: self.num_records.context("--num-records is missing")?,
            acks: acks_of(&self.producer_acks)?,
            record_bytes: self.record_size.context("--record-size is missing")?,
            settings: settings(self.bootstrap_server.as_deref(), self.command_config.as_deref())?,
        })
    }
}

/// Kafka's line about a record: milliseconds as Java prints them, with a digit behind the point at least.
fn line(number: u64, elapsed: Duration) -> String {
    format!("{number}\t{:?}", elapsed.as_nanos() as f64 / 1_000.0 / 1_000.0)
}

/// Kafka's lines about all of them.
fn summary(total: Duration, records: u64, millis: &Millis) -> String {
    let average = total.as_nanos() as f64 / records as f64 / 1_000.0 / 1_000.0;
    let at = |share| millis.at(share);
    format!(
        "Avg latency: {average:.4} ms\nPercentiles: 50th = {}, 99th = {}, 99.9th = {}",
        at(0.5),
        at(0.99),
        at(0.999)
    )
}

/// Latency until a record can be read means nothing for one that nobody acknowledges.
fn acks_of(text: &str) -> Result<Acks> {
    match text {
        "1" => Ok(Acks::Leader),
        "all" | "-1" => Ok(Acks::All),
        _ => bail!("latency is measured for synchronous acknowledgement: --producer-acks is 1 or all"),
    }
}

/// A producer, and a consumer that waits at the end of the topic.
struct Pair {
    producer: Producer,
    reader: Reader,
    admin: Admin,
    topic: Topic,
    run: u64,
    /// Records that were acknowledged.
    sent: u64,
    /// Of the producer, and those that only the consumer has.
    properties: Vec<(&'static str, String)>,
}

impl Pair {
    fn start(plan: &Plan, out: &mut dyn Write) -> Result<Self> {
        let servers = plan.settings.servers();
        let (producer, consumer) = plan.settings.pair(Consumer::builder(servers))?;
        // As Kafka's tool has it: a record is sent at once, whatever a file says.
        let producer = producer.acks(plan.acks).linger(Duration::ZERO);
        let admin = super::admin(servers)?;
        // The end is asked for before anything is sent behind it.
        let (topic, ends) = match readback::topic(&admin, &plan.topic)? {
            Some(topic) => {
                let ends = readback::offsets(&admin, &topic, At::Latest)?;
                (topic, ends)
            }
            None => {
                writeln!(
                    out,
                    "Topic \"{}\" does not exist. Will create topic with 1 partition(s) and replication factor = 1",
                    plan.topic
                )?;
                readback::create(&admin, &plan.topic)?
            }
        };
        let run = super::run_id();
        let mut properties = producer.properties();
        let known: Vec<_> = properties.iter().map(|(name, _)| *name).collect();
        properties.extend(consumer.properties().into_iter().filter(|(name, _)| !known.contains(name)));
        let reader = Reader::new(consumer.build()?, &topic, &ends, Checker::new(Some(run)));
        Ok(Self { producer: producer.build()?, reader, admin, topic, run, sent: 0, properties })
    }

    /// Reads until so many records came; false if something was wrong with one of them, or none came.
    fn read(&mut self, records: u64, timeout: Duration) -> Result<bool> {
        self.sent = records;
        while self.reader.checker.so_far().arrived() < records {
            if !self.reader.read(timeout)? {
                return Ok(false);
            }
            let so_far = self.reader.checker.so_far();
            ensure!(
                so_far.unmarked() == 0,
                "another record came than was sent: is somebody else writing to {}?",
                self.topic.name
            );
        }
        Ok(self.reader.checker.so_far().is_clean())
    }

    /// Reads what came behind the last record, which is one too many.
    fn read_to_end(&mut self, timeout: Duration, may_be_behind: bool) -> Result<()> {
        let ends = readback::offsets(&self.admin, &self.topic, At::Latest)?;
        while !self.reader.has_reached(&ends) && self.reader.read(timeout)? {}
        if may_be_behind { self.reader.read_late() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that Apache Kafka's EndToEndLatency 4.3.1 printed, from latencies that give its numbers.
    #[test]
    fn lines_are_those_of_kafkas_tool() {
        for (number, nanos, printed) in [
            (0, 43_088_790, "0\t43.08879"),
            (1_000, 517_027, "1000\t0.517027"),
            (2_000, 1_000_000, "2000\t1.0"),
        ] {
            assert_eq!(line(number, Duration::from_nanos(nanos)), printed);
        }
        let mut millis = Millis::default();
        for (latency, records) in [(0, 900), (1, 90), (4, 9), (9, 1), (43, 1)] {
            (0..records).for_each(|_| millis.record(Duration::from_millis(latency)));
        }
        assert_eq!(
            summary(Duration::from_micros(774_974), 1_001, &millis),
            "Avg latency: 0.7742 ms\nPercentiles: 50th = 0, 99th = 4, 99.9th = 9"
        );
    }
}
