//! `vltava perf producer`: Kafka's `kafka-producer-perf-test`, with what it lacks.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use client::producer::{DeliveryReport, Producer, ProducerBuilder, PropertyError, Record, Reported};
use hdrhistogram::Histogram;
use serde_json::json;

use super::load::{Load, wait_until};
use super::payload::Payload;
use super::stats::{Stats, histogram, in_words, quantiles};

/// Write records as fast as they are taken, or at a rate, and measure it
///
/// Takes the arguments of Kafka's kafka-producer-perf-test, old and new, and prints its lines. Latencies
/// count from when a record was due: a cluster that stalls is charged for all that had to wait.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
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
    /// Records a second at most, of all producers together; -1 for as fast as they are taken
    #[arg(long, allow_negative_numbers = true, default_value_t = -1.0)]
    throughput: f64,
    #[command(flatten)]
    payload: PayloadArguments,
    /// What stands between the lines of the payload file
    #[arg(long, default_value = "\\n", value_name = "TEXT")]
    payload_delimiter: String,
    /// Settings of the producer, by Kafka's names
    #[arg(long, alias = "producer-props", num_args = 1.., value_name = "NAME=VALUE", value_parser = crate::cmd::pair)]
    command_property: Vec<(String, String)>,
    /// A file of such settings; those on the command line come before them
    #[arg(long, alias = "producer.config", value_name = "FILE")]
    command_config: Option<PathBuf>,
    /// Print what the producer counted
    #[arg(long)]
    print_metrics: bool,
    /// Leave so many records out of the numbers for the steady state
    #[arg(long, default_value_t = 0)]
    warmup_records: u64,
    /// Milliseconds from one line to the next
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..))]
    reporting_interval: u64,
    /// Producers, each with a connection and a thread of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    producers: u16,
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
}

const EXAMPLES: &str = "\
Examples:
  vltava perf producer --bootstrap-server 127.0.0.1:9092 --topic t \\
      --num-records 10000000 --record-size 100 --throughput -1 --command-property acks=1
  vltava perf producer --topic t --num-records 300000 --payload-file lines.txt --throughput 10000 --json";

/// Everything that the producers tell of.
struct Run {
    window: Mutex<Stats>,
    total: Mutex<Stats>,
    steady: Mutex<Option<Stats>>,
    acknowledged: AtomicU64,
    failed: AtomicU64,
    first_failure: Mutex<Option<String>>,
    warmup_records: u64,
    is_steady_said: AtomicBool,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<()> {
    if arguments.transactional_id.is_some() || arguments.transaction_duration_ms.is_some() {
        bail!(
            "this producer has no transactions: leave out --transactional-id and --transaction-duration-ms"
        );
    }
    let run = Arc::new(Run::new(arguments));
    let producers = (0..arguments.producers).map(|_| arguments.producer(&run)).collect::<Result<Vec<_>>>()?;
    let clock = producers[0].clone();
    let started = clock.elapsed();
    run.start(started);
    if arguments.warmup_records > 0 {
        let first = arguments.warmup_records;
        writeln!(
            out,
            "Warmup first {first} records. Steady state results will print after the complete test summary."
        )?;
        out.flush()?;
    }
    let call = std::thread::scope(|scope| -> Result<Histogram<u64>> {
        // Nothing is sent here: the last sender that goes says that all threads are done.
        let (working, all_done) = mpsc::channel::<()>();
        let spawn = |(producer, number)| {
            let working = working.clone();
            scope.spawn(move || {
                let _working = working;
                send_all(arguments, producer, number)
            })
        };
        let threads: Vec<_> = producers.iter().zip(0..).map(spawn).collect();
        drop(working);
        let interval = Duration::from_millis(arguments.reporting_interval);
        while let Err(RecvTimeoutError::Timeout) =
            all_done.recv_timeout(run.until_next_line(clock.elapsed(), interval))
        {
            run.print_progress(clock.elapsed(), interval, out)?;
        }
        let mut call = histogram();
        for thread in threads {
            let of_thread = thread.join().map_err(|_| anyhow::anyhow!("a producer's thread panicked"))??;
            call.add(&of_thread).context("histograms have the same bounds")?;
        }
        Ok(call)
    })?;
    producers.iter().for_each(Producer::flush_blocking);
    let ended = clock.elapsed();
    run.print_total(ended, out)?;
    if arguments.print_metrics {
        print_metrics(&producers, out)?;
    }
    run.print_more(arguments, ended, &call, out)?;
    let failed = run.failed.load(Ordering::Relaxed);
    if failed > 0 {
        let first = run.first_failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        bail!(
            "{failed} of {} records were not acknowledged: {}",
            arguments.num_records,
            first.unwrap_or_default()
        );
    }
    Ok(())
}

impl Arguments {
    fn producer(&self, run: &Arc<Run>) -> Result<Producer> {
        let mut settings = match &self.command_config {
            Some(path) => super::properties(path)?,
            None => Vec::new(),
        };
        settings.extend(self.command_property.iter().cloned());
        let of_settings =
            settings.iter().rfind(|(name, _)| name == "bootstrap.servers").map(|(_, value)| value);
        let servers = self.bootstrap_server.as_ref().or(of_settings).map_or("127.0.0.1:9092", String::as_str);
        let mut builder = Producer::builder(servers);
        for (name, value) in &settings {
            builder = set(builder, name, value)?;
        }
        let run = run.clone();
        Ok(builder.on_delivery(move |report| run.on_delivery(report)).build()?)
    }

    fn payload(&self, number: u64) -> Result<Payload> {
        let of_each = self.num_records / u64::from(self.producers);
        let seed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match (self.payload.record_size, &self.payload.payload_file) {
            (Some(size), _) => Ok(Payload::random(size, seed)),
            (None, Some(path)) => Payload::lines(path, &self.payload_delimiter, seed),
            (None, None) => Ok(Payload::monotonic(number * of_each)),
        }
    }
}

/// Settings of Java's client that mean nothing here are passed over in silence.
fn set(builder: ProducerBuilder, name: &str, value: &str) -> Result<ProducerBuilder> {
    const JAVA_ONLY: [&str; 6] = [
        "bootstrap.servers",
        "key.serializer",
        "value.serializer",
        "metric.reporters",
        "send.buffer.bytes",
        "receive.buffer.bytes",
    ];
    if JAVA_ONLY.contains(&name) {
        return Ok(builder);
    }
    builder.set(name, value).map_err(|error| match error {
        PropertyError::Unknown(_) => {
            anyhow::anyhow!("{error}; `vltava perf producer --help` shows the way to say it")
        }
        error => error.into(),
    })
}

/// Sends the records of one producer; how long each call of `send` took.
fn send_all(arguments: &Arguments, producer: &Producer, number: u64) -> Result<Histogram<u64>> {
    let mut call = histogram();
    let mut payload = arguments.payload(number)?;
    let producers = u64::from(arguments.producers);
    let records = arguments.num_records / producers + u64::from(number < arguments.num_records % producers);
    let load = Load::new(arguments.throughput / f64::from(arguments.producers));
    let started = producer.elapsed();
    for index in 0..records {
        let due = load.due(index).map(|due| started + due);
        if let Some(due) = due {
            wait_until(due, || producer.elapsed());
        }
        let value = payload.next();
        let record = Record::to(&arguments.topic).value(value);
        // Tag 0 is for a record that was due when its turn came.
        let record = record.tag(due.map_or(0, |due| due.as_nanos() as u64));
        // At full speed each look at the clock would be measured, too: every eighth call stands for all.
        if due.is_some() || index % 8 == 0 {
            let before = producer.elapsed();
            producer.send_blocking(&record)?;
            call.saturating_record((producer.elapsed() - before).as_nanos() as u64);
        } else {
            producer.send_blocking(&record)?;
        }
    }
    Ok(call)
}

impl Run {
    fn new(arguments: &Arguments) -> Self {
        Self {
            window: Mutex::new(Stats::since(Duration::ZERO)),
            total: Mutex::new(Stats::since(Duration::ZERO)),
            steady: Mutex::new(None),
            acknowledged: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            first_failure: Mutex::new(None),
            warmup_records: arguments.warmup_records,
            is_steady_said: AtomicBool::new(false),
        }
    }

    fn start(&self, at: Duration) {
        *lock(&self.window) = Stats::since(at);
        *lock(&self.total) = Stats::since(at);
    }

    fn on_delivery(&self, report: &DeliveryReport<'_>) {
        if let Err(error) = report.outcome {
            self.failed.fetch_add(report.records.len() as u64, Ordering::Relaxed);
            lock(&self.first_failure).get_or_insert_with(|| error.to_string());
            return;
        }
        let count = report.records.len() as u64;
        let before = self.acknowledged.fetch_add(count, Ordering::Relaxed);
        // The last record of the warm-up may be any of a batch.
        let left = self.warmup_records.checked_sub(before).filter(|left| (1..=count).contains(left));
        let (warm_up, rest) = report.records.split_at(left.unwrap_or(0) as usize);
        self.record(warm_up, report.at);
        if left.is_some() {
            self.begin_steady_state(report.at);
        }
        self.record(rest, report.at);
    }

    fn record(&self, records: &[Reported], at: Duration) {
        let mut window = lock(&self.window);
        for record in records {
            let service = at.saturating_sub(Duration::from_nanos(record.taken_ns));
            let latency = match record.tag {
                0 => service,
                due => at.saturating_sub(Duration::from_nanos(due)),
            };
            window.record(record.value_bytes.into(), latency, service);
        }
    }

    /// What came before is warm-up.
    fn begin_steady_state(&self, at: Duration) {
        let mut steady = lock(&self.steady);
        if steady.is_none() {
            self.take_window(at);
            *steady = Some(Stats::since(at));
        }
    }

    /// Adds the window to all that it belongs to, and begins the next.
    fn take_window(&self, at: Duration) -> Stats {
        let window = std::mem::replace(&mut *lock(&self.window), Stats::since(at));
        lock(&self.total).add(&window);
        window
    }

    /// How long until an interval is over.
    fn until_next_line(&self, now: Duration, interval: Duration) -> Duration {
        (lock(&self.window).started() + interval).saturating_sub(now)
    }

    /// Says when the steady state begins, and a line for each interval.
    fn print_progress(&self, now: Duration, interval: Duration, out: &mut dyn Write) -> Result<()> {
        if lock(&self.steady).is_some() && !self.is_steady_said.swap(true, Ordering::Relaxed) {
            writeln!(out, "In steady state.")?;
        }
        if now < lock(&self.window).started() + interval {
            return Ok(());
        }
        let window = self.take_window(now);
        if let Some(steady) = &mut *lock(&self.steady) {
            steady.add(&window);
        }
        writeln!(out, "{}", window.window_line(now))?;
        Ok(out.flush()?)
    }

    fn print_total(&self, now: Duration, out: &mut dyn Write) -> Result<()> {
        let window = self.take_window(now);
        writeln!(out, "{}", lock(&self.total).total_line(now, false))?;
        if let Some(steady) = &mut *lock(&self.steady) {
            steady.add(&window);
            writeln!(out, "{}", steady.total_line(now, true))?;
        }
        Ok(out.flush()?)
    }

    /// What Kafka's tool does not say: for people on stderr, for programs in the last line.
    fn print_more(
        &self,
        arguments: &Arguments,
        now: Duration,
        call: &Histogram<u64>,
        out: &mut dyn Write,
    ) -> Result<()> {
        let total = lock(&self.total);
        if arguments.json {
            let mut said = lock(&self.steady).as_ref().unwrap_or(&total).json(now);
            said["send_call_ns"] = quantiles(call);
            said["failed"] = json!(self.failed.load(Ordering::Relaxed));
            said["producers"] = json!(arguments.producers);
            said["settings"] = json!(
                arguments.command_property.iter().cloned().collect::<std::collections::BTreeMap<_, _>>()
            );
            writeln!(out, "{said}")?;
            return Ok(());
        }
        for (what, histogram) in [
            ("from when it was due", &total.latency),
            ("from when it was taken", &total.service),
            ("the call of send", call),
        ] {
            let at = |quantile| in_words(histogram.value_at_quantile(quantile));
            eprintln!(
                "{what}: p50 {}, p99 {}, p99.9 {}, p99.99 {}, p99.999 {}, max {}",
                at(0.5),
                at(0.99),
                at(0.999),
                at(0.9999),
                at(0.99999),
                in_words(histogram.max())
            );
        }
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
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    writeln!(out, "\n{:<width$}   Value", "Metric Name")?;
    for (name, value) in rows {
        writeln!(out, "{name:<width$} : {value:.3}")?;
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
