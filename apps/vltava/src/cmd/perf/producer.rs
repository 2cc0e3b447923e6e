//! `vltava perf producer`: Kafka's `kafka-producer-perf-test`, with what it lacks.

mod sending;
mod show;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use bench::chance::Chance;
use bench::histogram::{latency_line, quantiles, rate_line};
use bench::hlog::Hlog;
use bench::keys::Keys;
use bench::payload::Payload;
use bench::schedule::{Arrivals, Rate, Schedule};
use bench::template::{self, Template};
use bench::verify::Verdict;
use client::consumer::Consumer;
use client::producer::Producer;
use serde_json::{Value, json};

use super::metrics;
use super::readback::ReadBack;
use super::settings::{Settings, no_transactions};
use super::stamp::Stamp;
use super::tally::Tally;
use crate::escape::unescaped;
use crate::progress::Progress;
use sending::{Sent, send};
use show::Show;

/// Write records as fast as they are taken, or at a rate, and measure it
///
/// Takes the arguments of Kafka's kafka-producer-perf-test, old and new, and prints its lines. Latencies
/// count from when a record was due: a cluster that stalls is charged for all that had to wait.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", template::PLACES))]
pub(super) struct Arguments {
    /// Brokers to connect to, between commas
    #[arg(long, value_name = "HOST:PORT")]
    bootstrap_server: Option<String>,
    /// Topic to write to
    #[arg(long)]
    topic: String,
    /// How many records to write
    #[arg(long)]
    num_records: u64,
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    payload: PayloadArguments,
    /// What stands between the lines of the payload file
    #[arg(long, default_value = "\\n", value_name = "TEXT")]
    payload_delimiter: String,
    /// With --record-size: bytes of which compression leaves about this share, from 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = share)]
    compressibility: Option<f64>,
    /// Keys of the records: none, round-robin:N, uniform:N, or zipf:N[:EXPONENT], where few have most
    #[arg(long, default_value = "none", value_name = "KEYS")]
    keys: Keys,
    /// What chance begins with: the same seed gives the same records
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Settings of the producer, by Kafka's names; those that only Java's has are passed over
    #[arg(long, num_args = 1.., value_name = "NAME=VALUE", value_parser = crate::cmd::pair)]
    command_property: Vec<(String, String)>,
    /// A file of such settings; those on the command line come before them
    #[arg(long, value_name = "FILE")]
    command_config: Option<PathBuf>,
    /// Kafka's older name of --command-property
    #[arg(long, hide = true, num_args = 1.., value_parser = crate::cmd::pair, conflicts_with = "command_property")]
    producer_props: Vec<(String, String)>,
    /// Kafka's older name of --command-config
    #[arg(long = "producer.config", hide = true, conflicts_with = "command_config")]
    producer_config: Option<PathBuf>,
    /// Print what the producer counted
    #[arg(long)]
    print_metrics: bool,
    /// Leave so many records out of the numbers for the steady state
    #[arg(long, default_value_t = 0)]
    warmup_records: u64,
    /// Milliseconds from one line to the next
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..))]
    reporting_interval: u64,
    /// Producers, each with connections and threads of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    producers: u8,
    /// Threads that send by the same producer, of each
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    threads: u8,
    /// Number the records, read them back, and fail if one is lost, duplicated, reordered or corrupt
    ///
    /// The number and a checksum take the place of the first 24 bytes of --record-size; other and smaller
    /// records get a header for it.
    #[arg(long)]
    verify: bool,
    /// Write histograms of each interval into a file, as HdrHistogram logs them
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
    /// Answer with JSON in the last line, for programs
    #[arg(long)]
    json: bool,
    /// Not supported yet by this tool
    #[arg(long, hide = true)]
    transactional_id: Option<String>,
    /// Not supported yet by this tool
    #[arg(long, hide = true)]
    transaction_duration_ms: Option<u64>,
}

#[derive(clap::Args)]
struct LoadArguments {
    /// Records a second at most, of all producers together; -1 for as fast as they are taken
    #[arg(long, allow_negative_numbers = true, default_value_t = -1.0, value_parser = finite)]
    throughput: f64,
    /// How records follow each other at a rate
    #[arg(long, value_enum, default_value = "fixed")]
    arrivals: Arrivals,
    /// A rate that changes: from so many records a second to so many, in so many seconds
    #[arg(long, value_name = "FROM:TO:SECONDS")]
    ramp: Option<Rate>,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct PayloadArguments {
    /// Bytes of each record: random letters
    #[arg(long, value_name = "BYTES")]
    record_size: Option<usize>,
    /// A file whose lines are sent, drawn by chance
    #[arg(long, value_name = "FILE")]
    payload_file: Option<PathBuf>,
    /// Records are numbers that count up
    #[arg(long)]
    payload_monotonic: bool,
    /// Records are made from a text with places, or from @FILE; see below
    #[arg(long, value_name = "TEXT")]
    payload_template: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  vltava perf producer --bootstrap-server 127.0.0.1:9092 --topic t \\
      --num-records 10000000 --record-size 100 --throughput -1 --command-property acks=1
  vltava perf producer --topic t --num-records 300000 --payload-file lines.txt --throughput 10000 --json
  vltava perf producer --topic t --num-records 100000 --record-size 1000 --throughput 5000 --arrivals poisson
  vltava perf producer --topic t --num-records 500000 --record-size 100 --ramp 1000:20000:30 --hlog run.hlog
  vltava perf producer --topic t --num-records 100000 --keys zipf:10000:1.1 --verify \\
      --payload-template '{\"id\":{{seq}},\"user\":\"{{uuid}}\",\"what\":\"{{word}}\",\"n\":{{int 1 99}}}'";

fn finite(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "expected a number, such as 5000, or -1 for as fast as records are taken".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<()> {
    arguments.check()?;
    arguments.warn(out)?;
    let settings = arguments.settings()?;
    let (servers, builder) = (settings.servers(), settings.producer()?);
    let payloads = arguments.payloads()?;
    crate::reach::reach(servers, super::TIME_MAX)?;
    let read_back = match arguments.verify {
        true => Some(ReadBack::begin(servers, &arguments.topic, super::run_id())?),
        false => None,
    };
    let is_due_by_tag = arguments.schedule(0).is_some();
    let tally = Arc::new(Tally::new(arguments.warmup_records, is_due_by_tag, arguments.verify));
    let producer = |number| {
        let (tally, first) = (tally.clone(), arguments.first_sender(number));
        builder.clone().on_delivery(move |report| tally.on_delivery(first, report)).build()
    };
    let producers = (0..arguments.producers).map(producer).collect::<Result<Vec<_>, _>>()?;
    let hlog = arguments.hlog.as_deref().map(|path| Hlog::create(path, "latency from when a record was due"));
    let started = producers[0].elapsed();
    let progress = Progress::of(arguments.num_records);
    let mut show = Show { started, progress, hlog: hlog.transpose()?, out };
    tally.start(started);
    if arguments.warmup_records > 0 {
        show.progress.line(
            show.out,
            &format!(
                "Warmup first {} records. Steady state results will print after the complete test summary.",
                arguments.warmup_records
            ),
        )?;
    }
    let run = read_back.as_ref().map(ReadBack::run);
    let sent = send(arguments, (&producers, payloads), run, &tally, &mut show)?;
    let ended = producers[0].elapsed();
    show.end(&tally, ended)?;
    for line in tally.total_lines(ended) {
        writeln!(out, "{line}")?;
    }
    if arguments.print_metrics {
        print_metrics(&producers, out)?;
    }
    out.flush()?;
    let may_be_behind = !builder.properties().contains(&("acks", "all".to_owned()));
    let checked = read_back.map(|read_back| {
        let consumer = Consumer::builder(servers).build()?;
        read_back.check(consumer, &sent.records, &sent.given_up, may_be_behind)
    });
    // What could be measured is told, whatever became of it.
    let verdict = checked.as_ref().and_then(|verdict| verdict.as_ref().ok());
    let stamp = Stamp::take(servers, &arguments.topic, builder.properties());
    arguments.print_more((&tally, ended), &sent, verdict, &stamp, out)?;
    let failed = tally.failed();
    if failed > 0 {
        let why = tally.first_failure().unwrap_or_default();
        bail!("{failed} of {} records were not acknowledged: {why}", arguments.num_records);
    }
    checked.map_or(Ok(()), |verdict| verdict?.into_result())
}

/// What chance is used for, so that one use does not change another.
enum Draws {
    Payload,
    Keys,
    Arrivals,
}

impl Arguments {
    fn check(&self) -> Result<()> {
        if self.transactional_id.is_some() {
            return Err(no_transactions("--transactional-id"));
        }
        if self.transaction_duration_ms.is_some() {
            return Err(no_transactions("--transaction-duration-ms"));
        }
        // In Kafka's words.
        ensure!(self.num_records > 0, "--num-records should be greater than zero.");
        ensure!(
            self.warmup_records < self.num_records,
            "The value for --warmup-records must be strictly fewer than the number of records in the test, \
             --num-records."
        );
        ensure!(
            self.compressibility.is_none() || self.payload.record_size.is_some(),
            "--compressibility is for --record-size: other payloads are what they are"
        );
        let LoadArguments { throughput, arrivals, ramp } = &self.load;
        ensure!(
            ramp.is_none() || *throughput <= 0.0,
            "--ramp says the rate: leave out --throughput, or let it be -1"
        );
        ensure!(
            ramp.is_some() || *throughput > 0.0 || *arrivals == Arrivals::Fixed,
            "--arrivals poisson needs a rate: --throughput or --ramp"
        );
        Ok(())
    }

    fn settings(&self) -> Result<Settings> {
        let file = self.command_config.as_ref().or(self.producer_config.as_ref());
        let pairs = [&self.command_property[..], &self.producer_props].concat();
        Settings::read(self.bootstrap_server.as_deref(), file.map(PathBuf::as_path), &pairs)
    }

    /// What Kafka's tool says of its older names.
    fn warn(&self, out: &mut dyn Write) -> Result<()> {
        for (is_used, old, new) in [
            (!self.producer_props.is_empty(), "producer-props", "command-property"),
            (self.producer_config.is_some(), "producer.config", "command-config"),
        ] {
            if is_used {
                writeln!(
                    out,
                    "Option --{old} has been deprecated and will be removed in a future version. Use --{new} instead."
                )?;
            }
        }
        Ok(())
    }

    /// The first of a producer's threads, among all of all producers.
    fn first_sender(&self, producer: u8) -> u16 {
        u16::from(producer) * u16::from(self.threads)
    }

    /// Threads of all producers.
    fn senders(&self) -> u16 {
        u16::from(self.producers) * u16::from(self.threads)
    }

    fn chance(&self, sender: u16, draws: Draws) -> Chance {
        Chance::new(self.seed, u64::from(sender) << 2 | draws as u64)
    }

    /// What each thread sends.
    fn payloads(&self) -> Result<Vec<Payload>> {
        let of_first = self.payload(self.chance(0, Draws::Payload))?;
        let (records, senders) = (self.num_records, u64::from(self.senders()));
        let another = |sender: u16| {
            // As many as those before it send.
            let number = u64::from(sender);
            let first = number * (records / senders) + number.min(records % senders);
            of_first.another(first, self.chance(sender, Draws::Payload))
        };
        let others: Vec<Payload> = (1..self.senders()).map(another).collect();
        Ok([of_first].into_iter().chain(others).collect())
    }

    fn payload(&self, chance: Chance) -> Result<Payload> {
        match (&self.payload, self.compressibility) {
            (PayloadArguments { record_size: Some(size), .. }, Some(share)) => {
                Ok(Payload::compressible(*size, share, chance))
            }
            (PayloadArguments { record_size: Some(size), .. }, None) => Ok(Payload::letters(*size, chance)),
            (PayloadArguments { payload_file: Some(path), .. }, _) => {
                Payload::lines(path, &unescaped(&self.payload_delimiter), chance)
            }
            (PayloadArguments { payload_template: Some(text), .. }, _) => {
                Ok(Payload::Template(Template::new(text, 0, chance)?))
            }
            _ => Ok(Payload::monotonic(0)),
        }
    }

    /// `None` for as fast as records are taken.
    fn schedule(&self, sender: u16) -> Option<Schedule> {
        let LoadArguments { throughput, arrivals, ramp } = self.load;
        let rate = ramp.or_else(|| (throughput > 0.0).then(|| Rate::constant(throughput)))?;
        let chance = self.chance(sender, Draws::Arrivals);
        Some(Schedule::new(arrivals, rate, sender.into(), self.senders().into(), chance))
    }

    /// What Kafka's tool does not say: for people on stderr, for programs in the last line.
    fn print_more(
        &self,
        (tally, now): (&Tally, Duration),
        sent: &Sent,
        verdict: Option<&Verdict>,
        stamp: &Stamp,
        out: &mut dyn Write,
    ) -> Result<()> {
        if self.json {
            let mut said = tally.with_result(|stats| stats.json(now));
            said["send_call_ns"] = quantiles(&sent.call);
            said["failed"] = json!(tally.failed());
            said["producers"] = json!(self.producers);
            said["threads"] = json!(self.threads);
            said["schedule"] = sent.punctuality.json();
            said["verified"] = verdict.map_or(Value::Null, Verdict::json);
            stamp.put_into(&mut said);
            writeln!(out, "{said}")?;
            return Ok(out.flush()?);
        }
        tally.with_result(|stats| {
            eprintln!("{}", rate_line(stats.records, stats.bytes, stats.seconds(now)));
            eprintln!("{}", latency_line("from when it was due", &stats.latency));
            eprintln!("{}", latency_line("from when it was taken", &stats.service));
        });
        eprintln!("{}", latency_line("the call of send", &sent.call));
        if let Some(warning) = sent.punctuality.warning() {
            eprintln!("warning: {warning}");
        }
        eprintln!("verification: {}", verdict.map_or_else(|| "off".to_owned(), Verdict::in_words));
        stamp.lines().iter().for_each(|line| eprintln!("{line}"));
        Ok(())
    }
}

/// What the producers counted, under the names that Java's has for it, as Kafka's tools print it.
fn print_metrics(producers: &[Producer], out: &mut dyn Write) -> Result<()> {
    let mut rows = Vec::new();
    for (producer, number) in producers.iter().zip(1..) {
        let counted = producer.counters();
        let each = |sum: u64, of: u64| if of == 0 { 0.0 } else { sum as f64 / of as f64 };
        for (name, value) in [
            ("batch-size-avg", each(counted.batch_bytes, counted.batches)),
            ("record-retry-total", counted.retries as f64),
            ("record-send-total", counted.records as f64),
            ("records-per-request-avg", each(counted.records, counted.requests)),
            ("request-total", counted.requests as f64),
        ] {
            rows.push((format!("producer-metrics:{name}:{{client-id=perf-producer-{number}}}"), value));
        }
    }
    metrics::print(&rows, out)
}
