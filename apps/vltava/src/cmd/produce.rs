//! `vltava produce`: lines, files or JSON in, records out.

mod input; // where records come from
mod tally; // what became of them

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use base::ErrorCode;
use client::admin::AdminError;
use client::producer::{Producer, Record, SendError};
use client::{Admin, Compression};

use super::target;
use crate::failure::{self, Asked};
use crate::interrupt;
use crate::progress::Progress;

use input::{Input, Reading};
use tally::Tally;

/// Write records to a topic: lines, files or JSON
///
/// Reads lines from standard input and writes each as a record. Options are spelled as kcat's. Every record
/// is acknowledged by the cluster before this ends; if one is not, the exit code says so.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Topic to write to
    #[arg(value_name = "TOPIC", required_unless_present = "topic_option")]
    topic: Option<OsString>,
    /// Files to read instead of standard input (-): each is one record, or with -l or -J has one in each line
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The topic, as kcat takes it; then every argument is a file
    #[arg(short = 't', long = "topic", value_name = "TOPIC")]
    topic_option: Option<String>,
    #[command(flatten)]
    cluster: target::Arguments,
    #[command(flatten)]
    input: Input,
    /// Partition to write to; else the key chooses, and without a key the producer
    #[arg(short, long, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-1..))]
    partition: Option<i32>,
    /// none, gzip, snappy, lz4 or zstd
    #[arg(short = 'z', long, value_name = "CODEC")]
    compression: Option<Compression>,
    /// Who must have a record before it counts as written: 0, 1 or all, which it is unless chosen
    #[arg(short, long)]
    acks: Option<String>,
    /// Stop after so many records
    #[arg(short, long)]
    count: Option<u64>,
    /// No progress
    #[arg(short, long)]
    quiet: bool,
    /// Say in the end, on stderr, how many records were written
    #[arg(long)]
    summary: bool,
}

const EXAMPLES: &str = "\
Examples:
  echo hello | vltava produce orders                 a record for each line
  vltava produce orders -K : <<< 'customer 7:apples' with a key
  vltava produce orders -H trace=4711 picture.png    the whole file, with a header
  vltava produce orders -l day.log -z zstd --summary
  vltava consume orders -e --json | vltava produce copy --json
                                                     a copy with keys, headers and times";

pub(crate) fn run(mut arguments: Arguments) -> Result<()> {
    let topic = arguments.take_topic()?;
    let run = Run::begin(&arguments)?;
    run.clone().finish_on_signal()?;
    let sent = run.send_all(&arguments, &topic);
    run.producer.flush_blocking();
    if sent.is_ok() && run.is_interrupted() {
        // Whoever interrupted it tells how it ended, and ends the process.
        park();
    }
    run.finish(sent)
}

impl Arguments {
    /// The topic; with `-t` the first argument is a file, too.
    fn take_topic(&mut self) -> Result<String> {
        let Some(topic) = self.topic_option.take() else {
            let topic = self.topic.take().unwrap_or_default();
            return topic.into_string().ok().context("the name of a topic is plain text");
        };
        if let Some(file) = self.topic.take() {
            self.files.insert(0, file.into());
        }
        Ok(topic)
    }
}

/// What the sender and whoever interrupts it share.
#[derive(Clone)]
struct Run {
    producer: Producer,
    tally: Arc<Tally>,
    places: Arc<input::Places>,
    is_interrupted: Arc<AtomicBool>,
    bootstrap_servers: String,
    /// How long the first record waits for a word about its topic, if that is not the producer's to say.
    patience: Option<Duration>,
    with_summary: bool,
    record_bytes_max: usize,
}

/// Somebody who mistyped the name of a topic does not wait for the minute of max.block.ms.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it is asked why nothing is known of the topic.
const ASK_MAX: Duration = Duration::from_secs(5);

impl Run {
    fn begin(arguments: &Arguments) -> Result<Self> {
        let settings = arguments.cluster.settings()?;
        // A server that is not there is told of at once, and not when max.block.ms is over.
        settings.reach()?;
        let mut builder = Producer::builder(settings.bootstrap_servers());
        // Java's default, and the builder's.
        let mut record_bytes_max = 1 << 20;
        let mut patience = Some(PATIENCE);
        for (name, value) in settings.properties() {
            builder = builder.set(name, value)?;
            if name == "max.request.size" {
                record_bytes_max = value.trim().parse().unwrap_or(record_bytes_max);
            }
            if name == "max.block.ms" {
                patience = None;
            }
        }
        if let Some(acks) = &arguments.acks {
            builder = builder.set("acks", acks)?;
        }
        if let Some(compression) = arguments.compression {
            builder = builder.compression(compression, None);
        }
        let tally = Arc::new(Tally::default());
        let told = tally.clone();
        let producer = builder.on_delivery(move |report| told.on_delivery(report)).build()?;
        let places = Arc::new(arguments.input.places(&arguments.files));
        Ok(Self {
            producer,
            tally,
            places,
            is_interrupted: Arc::default(),
            bootstrap_servers: settings.bootstrap_servers().to_owned(),
            patience,
            with_summary: arguments.summary,
            record_bytes_max,
        })
    }

    fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::Acquire)
    }

    /// What was read is written before the process ends.
    fn finish_on_signal(self) -> Result<()> {
        let finish = move || {
            // Said first: who sends takes the closed producer for the end, not for a failure.
            self.is_interrupted.store(true, Ordering::Release);
            // From here on nothing more is taken, and what was taken is waited for.
            self.producer.clone().close_blocking(Duration::MAX);
            if let Err(error) = self.finish(Ok(())) {
                eprintln!("{}", failure::describe(&error, Asked::Records));
            }
            process::exit(interrupt::EXIT_CODE);
        };
        Ok(interrupt::on_first(finish)?)
    }

    fn send_all(&self, arguments: &Arguments, topic: &str) -> Result<()> {
        // A line of progress would stand in the middle of what somebody types.
        let is_typed = arguments.files.is_empty() && std::io::stdin().is_terminal();
        let mut progress = Progress::begin(!arguments.quiet && !is_typed);
        let mut reading = Reading::new(&arguments.input, &self.places, self.record_bytes_max);
        let (mut left, partition) = (arguments.count.unwrap_or(u64::MAX), arguments.partition);
        let mut is_first = true;
        while left > 0 && !self.tally.has_failed() {
            let Some(entry) = reading.next()? else { break };
            let headers = entry.headers();
            let mut record = entry.record(topic, &headers);
            if let Some(partition) = partition.filter(|index| *index >= 0) {
                record = record.partition(partition);
            }
            let sent = match is_first {
                true => self.send_first(record, topic),
                false => self.producer.send_blocking(&record).map(drop).map_err(Into::into),
            };
            if self.is_interrupted() && sent.as_ref().is_err_and(is_closed) {
                break;
            }
            sent.with_context(|| {
                format!("{} was not sent, nor what follows it", self.places.name(entry.tag()))
            })?;
            progress.add(1, entry.bytes());
            is_first = false;
            left -= 1;
        }
        Ok(())
    }

    /// The first record waits for the first word about its topic. One that is not there, and that the cluster
    /// does not make by itself, is told of sooner than when max.block.ms is over, unless that was chosen.
    fn send_first(&self, record: Record<'_>, topic: &str) -> Result<()> {
        let sent = match self.patience {
            None => self.producer.send_blocking(&record),
            Some(patience) => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
                let send = async { tokio::time::timeout(patience, self.producer.send(record)).await };
                runtime.block_on(send).unwrap_or(Err(SendError::TopicNotKnownYet { why: None }))
            }
        };
        match sent {
            Err(SendError::TopicNotKnownYet { .. }) => {
                self.why_not_known(topic)?;
                // It is there, and the rest of max.block.ms is for the producer to learn of it.
                self.producer.send_blocking(&record).map(drop).map_err(Into::into)
            }
            sent => Ok(sent.map(drop)?),
        }
    }

    /// Asks about a topic that the producer has heard nothing of; fails unless it is there.
    fn why_not_known(&self, topic: &str) -> Result<()> {
        let admin = Admin::builder(&self.bootstrap_servers).timeout(ASK_MAX).build()?;
        match admin.describe_topic(topic).wait() {
            Ok(_) => Ok(()),
            Err(AdminError::Refused { code: ErrorCode::UnknownTopicOrPartition, .. }) => Err(anyhow!(
                "there is no topic {topic}, and the cluster does not make it by itself: `vltava topic create \
                 {topic}` makes it"
            )),
            Err(error) => Err(error.into()),
        }
    }

    /// Tells how it ended, when the last word about each record is known.
    fn finish(&self, sent: Result<()>) -> Result<()> {
        if self.tally.is_told() {
            // A signal came while the last records were on their way: whoever was first ends the process.
            park();
        }
        if self.with_summary {
            eprintln!("{}", self.tally.in_words());
        }
        match self.tally.failure() {
            Some((tag, error)) => {
                let counted = self.tally.in_words();
                let first = self.places.name(tag);
                Err(anyhow::Error::from(error).context(format!("{counted}; the first that was not: {first}")))
            }
            None => sent,
        }
    }
}

fn is_closed(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(SendError::Closed))
}

/// Waits for another thread to end the process.
fn park() -> ! {
    loop {
        std::thread::park();
    }
}
