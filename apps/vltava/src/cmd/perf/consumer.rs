//! `vltava perf consumer`: Kafka's `kafka-consumer-perf-test`.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use client::consumer::{Consumer, Start};
use client::{Admin, ConnectOptions, Scratch};
use serde_json::json;

use crate::output;

/// Read a topic as fast as it comes, and measure it
///
/// Takes the arguments of Kafka's kafka-consumer-perf-test, old and new, and prints its lines. It reads
/// all partitions itself, without a group: nothing is waited for before the first record.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Brokers to connect to, between commas
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    bootstrap_server: String,
    /// Topic to read
    #[arg(long)]
    topic: String,
    /// How many records to read
    #[arg(long, alias = "messages")]
    num_records: u64,
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
    /// Accepted for Kafka's scripts: times are printed as Kafka prints them by default, in UTC
    #[arg(long)]
    date_format: Option<String>,
    /// Accepted for Kafka's scripts
    #[arg(long)]
    print_metrics: bool,
    /// Settings of the consumer, by Kafka's names
    #[arg(long, num_args = 1.., value_name = "NAME=VALUE", value_parser = crate::cmd::pair)]
    command_property: Vec<(String, String)>,
    /// A file of such settings; those on the command line come before them
    #[arg(long, alias = "consumer.config", value_name = "FILE")]
    command_config: Option<PathBuf>,
    /// Answer with JSON in the last line, for programs
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  vltava perf consumer --topic t --num-records 10000000
  vltava perf consumer --topic t --messages 1000000 --show-detailed-stats --json";

/// What was read so far.
#[derive(Clone, Copy, Default)]
struct Count {
    records: u64,
    bytes: u64,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<()> {
    let mut consumer = arguments.consumer()?;
    let start = if arguments.from_latest { Start::Latest } else { Start::Earliest };
    let partitions = arguments.partitions()?;
    consumer.assign((0..partitions).map(|index| (&*arguments.topic, index, start)));
    if !arguments.hide_header {
        let time = if arguments.show_detailed_stats { "time, threadId" } else { "start.time, end.time" };
        writeln!(out, "{time}, {HEADLINE}")?;
    }
    let (began, wall_began) = (Instant::now(), now_ms());
    let mut reader = Reader { consumer, scratch: Scratch::default(), count: Count::default() };
    let mut window = (Count::default(), began);
    let interval = Duration::from_millis(arguments.reporting_interval);
    while reader.count.records < arguments.num_records {
        if !reader.read(arguments.num_records, Duration::from_millis(arguments.timeout))? {
            eprintln!(
                "warning: no record came for {} ms: {} of {} were read",
                arguments.timeout, reader.count.records, arguments.num_records
            );
            break;
        }
        if arguments.show_detailed_stats && window.1.elapsed() >= interval {
            let line = line(&reader.count.since(&window.0), &reader.count, window.1.elapsed());
            writeln!(out, "{}, 0, {line}", kafka_time(now_ms()))?;
            out.flush()?;
            window = (reader.count, Instant::now());
        }
    }
    let elapsed = began.elapsed();
    if !arguments.show_detailed_stats {
        let line = line(&reader.count, &reader.count, elapsed);
        writeln!(out, "{}, {}, {line}", kafka_time(wall_began), kafka_time(now_ms()))?;
    }
    if arguments.json {
        let (records, bytes, seconds) =
            (reader.count.records, reader.count.bytes as f64, elapsed.as_secs_f64());
        let said = json!({
            "records": records,
            "seconds": seconds,
            "records_per_sec": records as f64 / seconds,
            "mb_per_sec": bytes / seconds / 1e6,
            "mib_per_sec": bytes / seconds / MIB,
        });
        writeln!(out, "{said}")?;
    }
    Ok(())
}

const HEADLINE: &str = "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, \
                        fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec";
const MIB: f64 = 1024.0 * 1024.0;

impl Arguments {
    fn consumer(&self) -> Result<Consumer> {
        let mut settings = match &self.command_config {
            Some(path) => super::properties(path)?,
            None => Vec::new(),
        };
        settings.extend(self.command_property.iter().cloned());
        let mut builder = Consumer::builder(&self.bootstrap_server).partition_bytes_max(self.fetch_size);
        for (name, value) in &settings {
            // What only Java's client has, and what only a group has.
            let is_javas = name.ends_with(".deserializer") || name.starts_with("group.");
            if !is_javas && name != "bootstrap.servers" {
                builder = builder.set(name, value)?;
            }
        }
        Ok(builder.build()?)
    }

    fn partitions(&self) -> Result<i32> {
        let mut admin = Admin::connect(&self.bootstrap_server, ConnectOptions::default())?;
        let topics = admin.describe_topics(std::slice::from_ref(&self.topic))?;
        let topic = topics.first().with_context(|| format!("topic {} is not there", self.topic))?;
        Ok(i32::try_from(topic.partitions.len())?)
    }
}

struct Reader {
    consumer: Consumer,
    scratch: Scratch,
    count: Count,
}

impl Reader {
    /// Reads the next batch; false if none comes in time.
    fn read(&mut self, records_max: u64, timeout: Duration) -> Result<bool> {
        let Some(batch) = self.consumer.next_batch_within(timeout)? else { return Ok(false) };
        for record in batch.records(&mut self.scratch)? {
            let record = record?;
            let bytes_of = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len) as u64;
            self.count.bytes += bytes_of(record.key) + bytes_of(record.value);
            self.count.records += 1;
            if self.count.records == records_max {
                break;
            }
        }
        Ok(true)
    }
}

impl Count {
    fn since(&self, before: &Self) -> Self {
        Self { records: self.records - before.records, bytes: self.bytes - before.bytes }
    }
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

/// `yyyy-MM-dd HH:mm:ss:SSS`, in UTC.
fn kafka_time(ms: i64) -> String {
    let iso = output::utc(ms);
    let (date, time) = iso.trim_end_matches('Z').split_once('T').unwrap_or_default();
    format!("{date} {}", time.replace('.', ":"))
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
        assert_eq!(kafka_time(1_795_273_682_717), "2026-11-21 15:08:02:717");
    }
}
