//! `vltava perf e2e-latency`: Kafka's `kafka-e2e-latency`.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use client::admin::At;
use client::consumer::{Consumer, Start};
use client::producer::{Acks, Producer, Record};
use client::{Admin, ConnectOptions, Header, Scratch};
use serde_json::json;

use super::payload::Payload;
use super::stats::{histogram, in_words, quantiles};

/// How long until a record is read, from when it was sent; one at a time
///
/// Takes the arguments of Kafka's kafka-e2e-latency, old and new, and prints its lines.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Brokers to connect to, between commas
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    bootstrap_server: String,
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
    /// Bytes of the value of each header
    #[arg(long, default_value_t = 0)]
    record_header_size: usize,
    /// A file of settings, by Kafka's names
    #[arg(long, value_name = "FILE")]
    command_config: Option<PathBuf>,
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
  vltava perf e2e-latency 127.0.0.1:9092 t 10000 1 100";

/// What is measured, however it was said.
struct Plan {
    bootstrap_server: String,
    topic: String,
    records: u64,
    acks: Acks,
    record_bytes: usize,
    settings: Vec<(String, String)>,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<()> {
    let plan = arguments.plan()?;
    let mut pair = Pair::start(&plan)?;
    let (mut both, mut sent) = (histogram(), histogram());
    let mut payload = Payload::random(plan.record_bytes, 0x5eed);
    let key = vec![b'k'; arguments.record_key_size];
    let header_key = vec![b'h'; arguments.record_header_key_size];
    let header_value = vec![b'v'; arguments.record_header_size];
    let headers = vec![Header { key: &header_key, value: Some(&header_value) }; arguments.num_headers];
    let mut total = Duration::ZERO;
    for number in 0..plan.records {
        let mut record = Record::to(&plan.topic).headers(&headers);
        if !key.is_empty() {
            record = record.key(&key);
        }
        let value = payload.next();
        let began = Instant::now();
        pair.producer
            .send_blocking(&record.value(value))?
            .wait()
            .with_context(|| format!("record {number}"))?;
        sent.saturating_record(began.elapsed().as_nanos() as u64);
        pair.read(value).with_context(|| format!("record {number}"))?;
        let elapsed = began.elapsed();
        both.saturating_record(elapsed.as_nanos() as u64);
        total += elapsed;
        if number % 1_000 == 0 {
            writeln!(out, "{number}\t{}", elapsed.as_nanos() as f64 / 1e6)?;
            out.flush()?;
        }
    }
    let at = |quantile| both.value_at_quantile(quantile) / 1_000_000;
    writeln!(out, "Avg latency: {:.4} ms", total.as_secs_f64() * 1e3 / plan.records.max(1) as f64)?;
    writeln!(out, "Percentiles: 50th = {}, 99th = {}, 99.9th = {}", at(0.5), at(0.99), at(0.999))?;
    if arguments.json {
        let said = json!({
            "records": plan.records,
            "latency_ns": quantiles(&both),
            "send_to_ack_ns": quantiles(&sent),
        });
        writeln!(out, "{said}")?;
        return Ok(());
    }
    for (what, histogram) in [("until it was read", &both), ("until it was acknowledged", &sent)] {
        let at = |quantile| in_words(histogram.value_at_quantile(quantile));
        eprintln!("{what}: p50 {}, p99 {}, p99.9 {}, p99.99 {}", at(0.5), at(0.99), at(0.999), at(0.9999));
    }
    Ok(())
}

impl Arguments {
    fn plan(&self) -> Result<Plan> {
        let settings = |path: Option<&PathBuf>| path.map_or(Ok(Vec::new()), |path| super::properties(path));
        if let [servers, topic, records, acks, size, rest @ ..] = &self.positional[..] {
            return Ok(Plan {
                bootstrap_server: servers.clone(),
                topic: topic.clone(),
                records: records.parse().context("the number of records")?,
                acks: acks_of(acks)?,
                record_bytes: size.parse().context("the size of a record")?,
                settings: settings(rest.first().map(PathBuf::from).as_ref())?,
            });
        }
        Ok(Plan {
            bootstrap_server: self.bootstrap_server.clone(),
            topic: self.topic.clone().context("--topic is missing")?,
            records: self.num_records.context("--num-records is missing")?,
            acks: acks_of(&self.producer_acks)?,
            record_bytes: self.record_size.context("--record-size is missing")?,
            settings: settings(self.command_config.as_ref())?,
        })
    }
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
    consumer: Consumer,
    scratch: Scratch,
}

impl Pair {
    fn start(plan: &Plan) -> Result<Self> {
        let mut producer = Producer::builder(&plan.bootstrap_server).acks(plan.acks);
        let mut consumer = Consumer::builder(&plan.bootstrap_server);
        for (name, value) in &plan.settings {
            // A file may have the settings of either.
            producer = producer.clone().set(name, value).unwrap_or(producer);
            consumer = consumer.clone().set(name, value).unwrap_or(consumer);
        }
        let mut admin = Admin::connect(&plan.bootstrap_server, ConnectOptions::default())?;
        let topics = admin.describe_topics(std::slice::from_ref(&plan.topic))?;
        let topic = topics.first().with_context(|| format!("topic {} is not there", plan.topic))?;
        // The end is asked for before anything is sent behind it.
        let ends = admin.list_offsets(topic, At::Latest)?;
        let mut assigned = Vec::new();
        for (index, end) in ends {
            let end = end.map_err(|code| anyhow!("partition {index}: {}", code.message()))?;
            assigned.push((&*plan.topic, index.0, Start::Offset(end)));
        }
        ensure!(assigned.len() == topic.partitions.len(), "a partition of {} has no leader", plan.topic);
        let mut consumer = consumer.build()?;
        consumer.assign(assigned);
        Ok(Self { producer: producer.build()?, consumer, scratch: Scratch::default() })
    }

    /// Reads the next record, which must be the one that was sent.
    fn read(&mut self, value: &[u8]) -> Result<()> {
        let batch = self.consumer.next_batch_within(Duration::from_secs(60))?;
        let batch = batch.context("it was acknowledged and did not come within 60 s")?;
        let mut records = batch.records(&mut self.scratch)?;
        let record = records.next().context("the batch is empty")??;
        ensure!(record.value == Some(value), "another record came than was sent: is somebody else writing?");
        ensure!(records.next().is_none(), "more came than was sent: is somebody else writing?");
        Ok(())
    }
}
