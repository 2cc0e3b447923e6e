//! `vltava perf consumer`: Kafka's `kafka-consumer-perf-test`.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use bench::histogram::{MIB, histogram, latency_line, quantiles, rate_line};
use bench::hlog::Intervals;
use bench::verify::{Checker, ReadAt, Verdict};
use client::Scratch;
use client::consumer::{Consumer, Start};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::date_format::{self, DateFormat};
use super::metrics;
use super::places::Places;
use super::settings::Settings;
use super::stamp::Stamp;
use crate::progress::Progress;

/// Read a topic as fast as it comes, and measure it
///
/// Takes the arguments of Kafka's kafka-consumer-perf-test, old and new, and prints its lines. It reads
/// all partitions itself, without a group: nothing is waited for before the first record.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Brokers to connect to, between commas
    #[arg(long, value_name = "HOST:PORT")]
    bootstrap_server: Option<String>,
    #[command(flatten)]
    topics: Topics,
    /// How many records to read
    #[arg(long, required_unless_present = "messages")]
    num_records: Option<u64>,
    /// Kafka's older name of --num-records
    #[arg(long, hide = true, conflicts_with = "num_records")]
    messages: Option<u64>,
    /// Accepted for Kafka's scripts: this tool needs no group
    #[arg(long)]
    group: Option<String>,
    /// Bytes of a partition in an answer, at most
    #[arg(long, default_value_t = 1 << 20)]
    fetch_size: i32,
    /// Begin behind the last record
    #[arg(long)]
    from_latest: bool,
    /// Accepted for Kafka's scripts: the system knows better
    #[arg(long)]
    socket_buffer_size: Option<u64>,
    /// Milliseconds without a record after which it gives up
    #[arg(long, default_value_t = 10_000)]
    timeout: u64,
    /// Milliseconds from one line to the next, with --show-detailed-stats
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..))]
    reporting_interval: u64,
    /// Print a line for each interval
    #[arg(long)]
    show_detailed_stats: bool,
    /// Leave out the headline
    #[arg(long)]
    hide_header: bool,
    /// How times are printed, in the time zone of this system: a pattern of Java's SimpleDateFormat
    #[arg(long, default_value = date_format::KAFKAS, value_parser = DateFormat::parse)]
    date_format: DateFormat,
    /// Print what the consumer counted
    #[arg(long)]
    print_metrics: bool,
    /// Settings of the consumer, by Kafka's names; those that only Java's has are passed over
    #[arg(long, num_args = 1.., value_name = "NAME=VALUE", value_parser = crate::cmd::pair)]
    command_property: Vec<(String, String)>,
    /// A file of such settings; those on the command line come before them
    #[arg(long, value_name = "FILE")]
    command_config: Option<PathBuf>,
    /// Kafka's older name of --command-config
    #[arg(long = "consumer.config", hide = true, conflicts_with = "command_config")]
    consumer_config: Option<PathBuf>,
    /// Fail if a record that `vltava perf producer --verify` wrote is lost, duplicated, reordered or corrupt
    #[arg(long)]
    verify: bool,
    /// Write histograms of each interval into a file, as HdrHistogram logs them: of how long each batch
    /// was waited for
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
    /// Answer with JSON in the last line, for programs
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Topics {
    /// Topic to read
    #[arg(long)]
    topic: Option<String>,
    /// Read all topics whose names match this regular expression
    #[arg(long, value_name = "REGEX")]
    include: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  vltava perf consumer --topic t --num-records 10000000
  vltava perf consumer --topic t --messages 1000000 --show-detailed-stats --json
  vltava perf consumer --include 'orders-.*' --num-records 1000000
  vltava perf consumer --topic t --num-records 1000000 --verify";

/// What was read so far.
#[derive(Clone, Copy, Default)]
struct Count {
    records: u64,
    bytes: u64,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<()> {
    arguments.warn(out)?;
    let settings = arguments.settings()?;
    let servers = settings.servers();
    let builder = settings.consumer(Consumer::builder(servers).partition_bytes_max(arguments.fetch_size))?;
    let admin = super::admin(servers)?;
    let topics = &arguments.topics;
    let places = Places::find(&admin, topics.topic.as_deref(), topics.include.as_deref())?;
    let consumer = builder.clone().build()?;
    if !arguments.hide_header {
        let time = if arguments.show_detailed_stats { "time, threadId" } else { "start.time, end.time" };
        writeln!(out, "{time}, {HEADLINE}")?;
        out.flush()?;
    }
    let mut reader = Reader {
        consumer,
        places,
        scratch: Scratch::default(),
        count: Count::default(),
        waited: histogram(),
        log: Intervals::new(arguments.hlog.as_deref(), "wait for each batch", arguments.reporting_interval)?,
        checker: arguments.verify.then(|| Checker::new(None)),
    };
    let (began, wall_began) = (Instant::now(), now_ms());
    // Fetching begins here.
    let start = if arguments.from_latest { Start::Latest } else { Start::Earliest };
    reader.consumer.assign(reader.places.iter().map(|(topic, index)| (topic, index, start)));
    arguments.read(&mut reader, out)?;
    let elapsed = began.elapsed();
    if !arguments.show_detailed_stats {
        let line = line(&reader.count, &reader.count, elapsed);
        let [from, to] = [wall_began, now_ms()].map(|ms| arguments.date_format.format(ms));
        writeln!(out, "{from}, {to}, {line}")?;
        out.flush()?;
    }
    if arguments.print_metrics {
        print_metrics(&reader.count, out)?;
    }
    reader.log.finish()?;
    let verdict = match reader.checker {
        Some(checker) => {
            let extents = reader.places.extents(&admin, arguments.from_latest)?;
            let mut verdict = checker.verdict_within(&extents);
            verdict.lose(arguments.records().saturating_sub(reader.count.records));
            Some(verdict)
        }
        None => None,
    };
    let stamp = Stamp::take(servers, reader.places.first_topic(), builder.properties());
    let measured = Measured { count: reader.count, elapsed, waited: reader.waited };
    measured.print_more(arguments.json, verdict.as_ref(), &stamp, out)?;
    let Some(verdict) = verdict else { return Ok(()) };
    ensure!(
        verdict.checked() > 0 || reader.count.records == 0,
        "none of {} records was written by `vltava perf producer --verify`: there is nothing to verify",
        reader.count.records
    );
    verdict.into_result()
}

const HEADLINE: &str = "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, \
                        fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec";

/// What was measured.
struct Measured {
    count: Count,
    elapsed: Duration,
    waited: Histogram<u64>,
}

impl Measured {
    /// What Kafka's tool does not say: for people on stderr, for programs in the last line.
    fn print_more(
        &self,
        is_json: bool,
        verdict: Option<&Verdict>,
        stamp: &Stamp,
        out: &mut dyn Write,
    ) -> Result<()> {
        let Count { records, bytes } = self.count;
        let seconds = self.elapsed.as_secs_f64().max(1e-9);
        if is_json {
            let mut said = json!({
                "records": records,
                "seconds": seconds,
                "records_per_sec": records as f64 / seconds,
                "mb_per_sec": bytes as f64 / seconds / 1e6,
                "mib_per_sec": bytes as f64 / seconds / MIB,
                "latency_ns": quantiles(&self.waited),
                "verified": verdict.map_or(Value::Null, Verdict::json),
            });
            stamp.put_into(&mut said);
            writeln!(out, "{said}")?;
            return Ok(out.flush()?);
        }
        eprintln!("{}", rate_line(records, bytes, seconds));
        eprintln!("{}", latency_line("until the next batch", &self.waited));
        eprintln!("verification: {}", verdict.map_or_else(|| "off".to_owned(), Verdict::in_words));
        stamp.lines().iter().for_each(|line| eprintln!("{line}"));
        Ok(())
    }
}

impl Arguments {
    fn records(&self) -> u64 {
        self.num_records.or(self.messages).unwrap_or_default()
    }

    fn settings(&self) -> Result<Settings> {
        let file = self.command_config.as_ref().or(self.consumer_config.as_ref());
        let file = file.map(PathBuf::as_path);
        Settings::read(self.bootstrap_server.as_deref(), file, &self.command_property)
    }

    /// What Kafka's tool says of its older names.
    fn warn(&self, out: &mut dyn Write) -> Result<()> {
        if self.messages.is_some() {
            writeln!(out, "Warning: --messages is deprecated. Use --num-records instead.")?;
        }
        if self.consumer_config.is_some() {
            writeln!(out, "Warning: --consumer.config is deprecated. Use --command-config instead.")?;
        }
        Ok(())
    }

    /// Reads until there were enough records, or none came for too long.
    fn read(&self, reader: &mut Reader, out: &mut dyn Write) -> Result<()> {
        let mut progress = Progress::of(self.records());
        let interval = Duration::from_millis(self.reporting_interval);
        let mut window = (Count::default(), Instant::now());
        while reader.count.records < self.records() {
            if !reader.read(self.records(), Duration::from_millis(self.timeout))? {
                let timeout = self.timeout;
                progress.line(out, &format!(
                        "WARNING: Exiting before consuming the expected number of records: timeout ({timeout} ms) \
                         exceeded. You can use the --timeout option to increase the timeout."
                    ))?;
                break;
            }
            progress.set(reader.count.records);
            if self.show_detailed_stats && window.1.elapsed() >= interval {
                let line = line(&reader.count.since(&window.0), &reader.count, window.1.elapsed());
                let time = self.date_format.format(now_ms());
                progress.line(out, &format!("{time}, 0, {line}"))?;
                window = (reader.count, Instant::now());
            }
        }
        progress.end();
        Ok(())
    }
}

struct Reader {
    consumer: Consumer,
    places: Places,
    scratch: Scratch,
    count: Count,
    /// How long each batch was waited for.
    waited: Histogram<u64>,
    log: Intervals,
    checker: Option<Checker>,
}

impl Reader {
    /// Reads the next batch; false if none comes in time.
    fn read(&mut self, records_max: u64, timeout: Duration) -> Result<bool> {
        let asked = Instant::now();
        let Some(batch) = self.consumer.next_batch_within(timeout)? else { return Ok(false) };
        let waited = asked.elapsed();
        self.waited.saturating_record(waited.as_nanos() as u64);
        self.log.record(waited)?;
        let (header, mut next) = (*batch.header(), batch.header().next_offset());
        let place = match self.checker {
            Some(_) => self.places.at(batch.topic(), batch.partition().0).context("it was not asked for")?,
            None => 0,
        };
        let (topic, partition) = (batch.topic(), batch.partition());
        for record in batch.records(&mut self.scratch)? {
            let record = record?;
            let bytes_of = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len) as u64;
            self.count.bytes += bytes_of(record.key) + bytes_of(record.value);
            self.count.records += 1;
            if let Some(checker) = &mut self.checker {
                let offset = record.offset(&header);
                checker.check(ReadAt { place, topic, partition, offset }, &record)?;
            }
            if self.count.records == records_max {
                next = record.offset(&header).next();
                break;
            }
        }
        if self.checker.is_some() {
            self.places.set_next(place, next);
        }
        Ok(true)
    }
}

impl Count {
    fn since(&self, before: &Self) -> Self {
        Self { records: self.records - before.records, bytes: self.bytes - before.bytes }
    }
}

/// What was counted, under the names that Java's consumer has for it, as Kafka's tools print it.
fn print_metrics(count: &Count, out: &mut dyn Write) -> Result<()> {
    let name = |name| format!("consumer-fetch-manager-metrics:{name}:{{client-id=perf-consumer-client}}");
    metrics::print(
        &[
            (name("bytes-consumed-total"), count.bytes as f64),
            (name("records-consumed-total"), count.records as f64),
        ],
        out,
    )
}

/// Kafka's numbers for what was read in a time, behind the totals.
fn line(read: &Count, total: &Count, elapsed: Duration) -> String {
    let millis = elapsed.as_millis().max(1);
    let seconds = millis as f64 / 1_000.0;
    let (mib, records) = (read.bytes as f64 / MIB / seconds, read.records as f64 / seconds);
    let total_mib = total.bytes as f64 / MIB;
    format!("{total_mib:.4}, {mib:.4}, {}, {records:.4}, 0, {millis}, {mib:.4}, {records:.4}", total.records)
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of Apache Kafka's ConsumerPerformance 4.3.1.
    #[test]
    fn lines_are_those_of_kafkas_tool() {
        let read = Count { records: 20_000_000, bytes: 2_000_000_000 };
        let line = line(&read, &read, Duration::from_millis(4_198));
        assert_eq!(line, "1907.3486, 454.3470, 20000000, 4764173.4159, 0, 4198, 454.3470, 4764173.4159");
    }
}
