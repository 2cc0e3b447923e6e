//! `vltava consume`: records out, as text, as JSON, or in a format of one's own.

mod format; // how a record is printed
mod places; // where to begin and to end

use std::io::{BufWriter, IsTerminal, Write};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use client::Scratch;
use client::consumer::{Batch, Consumer, Isolation, Reset};

use super::target;
use crate::interrupt;
use crate::progress::Progress;

use format::{Format, Shown};
use places::{Begin, Stop};

/// Read topics and print their records
///
/// Reads all partitions of the topics, from the beginning unless told otherwise, and goes on with what comes
/// until it is interrupted, or to the end with -e. Options are spelled as kcat's. Partitions that a topic is
/// given later are not read.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Topics to read
    #[arg(value_name = "TOPIC", required_unless_present = "topic_option")]
    topics: Vec<String>,
    /// A topic, as kcat takes it
    #[arg(short = 't', long = "topic", value_name = "TOPIC")]
    topic_option: Vec<String>,
    #[command(flatten)]
    cluster: target::Arguments,
    /// Read only this partition; can be given several times
    #[arg(short, long = "partition", value_name = "PARTITION", value_parser = clap::value_parser!(i32).range(0..))]
    partitions: Vec<i32>,
    /// Where to begin: beginning, end, an offset, -N for N before the end, s@MS at a time; and where to stop: e@MS
    #[arg(short, long = "offset", value_name = "OFFSET", allow_hyphen_values = true, value_parser = places::parse)]
    offsets: Vec<places::Bound>,
    /// Stop after so many records
    #[arg(short, long)]
    count: Option<u64>,
    /// Stop at the end: behind the last record there was when this began
    #[arg(short, long = "exit")]
    exits_at_end: bool,
    /// Only what was committed, up to the first transaction that is open
    #[arg(long)]
    read_committed: bool,
    #[command(flatten)]
    printing: format::Arguments,
    /// No progress and no warnings
    #[arg(short, long)]
    quiet: bool,
    /// Accepted for kcat's users: what is printed never waits for more
    #[arg(short, hide = true)]
    unbuffered: bool,
}

const EXAMPLES: &str = "\
Examples:
  vltava consume orders -e                           all records there are, a line for each
  vltava consume orders -o end                       what comes from now on
  vltava consume orders -p 0 -o -10 -e               the last ten of a partition
  vltava consume orders -o s@1795200000000 -o e@1795286400000
  vltava consume orders -e -f '%p %o %T %k: %s\\n'    in a format, as kcat has it
  vltava consume orders payments -e --json | jq .key";

/// How long nothing comes before it is looked whether anything else happened.
const TICK: Duration = Duration::from_millis(100);

/// After so many of them in a row it is said why, if there is a reason.
const SILENT_TICKS: u32 = 50;

/// What is printed leaves in pieces of this size, or when nothing more is there.
const BUFFER_BYTES: usize = 64 << 10;

pub(crate) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<()> {
    let settings = arguments.cluster.settings()?;
    let mut topics = arguments.topics.clone();
    topics.extend(arguments.topic_option.iter().cloned());
    topics.sort();
    topics.dedup();
    let (from, until) = arguments.bounds();
    let mut cluster = settings.connect()?;
    let mut consumer = arguments.consumer(&settings)?;
    let mut places = places::find(&mut cluster, &topics, &arguments.partitions, from, until)?;
    drop(cluster);
    if arguments.is_committed(&settings) && until != Stop::Never {
        places::end_where_stable(&mut consumer, &mut places)?;
    }
    if !arguments.quiet {
        places
            .iter()
            .filter_map(|place| place.warning.as_ref())
            .for_each(|said| eprintln!("warning: {said}"));
    }
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let interrupted = is_interrupted.clone();
    interrupt::on_first(move || interrupted.store(true, Ordering::Relaxed))?;
    let is_read_by_people = std::io::stdout().is_terminal();
    let mut reader = Reader {
        format: arguments.printing.format(),
        places: places::ByPartition::new(places),
        left: arguments.count.unwrap_or(u64::MAX),
        warns: !arguments.quiet,
        progress: Progress::begin(!arguments.quiet && !is_read_by_people),
        scratch: Scratch::default(),
        out: BufWriter::with_capacity(BUFFER_BYTES, out),
    };
    let read = reader.run(&mut consumer, &is_interrupted);
    reader.progress.end();
    // What was read is printed, whatever ended it.
    reader.out.flush()?;
    if is_interrupted.load(Ordering::Relaxed) {
        process::exit(interrupt::EXIT_CODE);
    }
    read
}

impl Arguments {
    fn bounds(&self) -> (Begin, Stop) {
        let mut bounds = (Begin::Beginning, if self.exits_at_end { Stop::End } else { Stop::Never });
        for bound in &self.offsets {
            match bound {
                places::Bound::Begin(from) => bounds.0 = *from,
                places::Bound::Stop(until) => bounds.1 = *until,
            }
        }
        bounds
    }

    fn is_committed(&self, settings: &target::Settings) -> bool {
        let chosen = settings.properties().filter(|(name, _)| *name == "isolation.level").last();
        self.read_committed || chosen.is_some_and(|(_, value)| value.trim() == "read_committed")
    }

    fn consumer(&self, settings: &target::Settings) -> Result<Consumer> {
        // A record that is gone before it was read is told of: nothing is left out in silence.
        let mut builder = Consumer::builder(settings.bootstrap_servers()).reset(Reset::None);
        for (name, value) in settings.properties().filter(|(name, _)| !name.starts_with("group.")) {
            builder = builder.set(name, value)?;
        }
        if self.read_committed {
            builder = builder.isolation(Isolation::ReadCommitted);
        }
        Ok(builder.build()?)
    }
}

/// Prints what comes.
struct Reader<'a> {
    format: Format,
    places: places::ByPartition,
    left: u64,
    /// It was not said yet why nothing comes.
    warns: bool,
    progress: Progress,
    scratch: Scratch,
    out: BufWriter<&'a mut dyn Write>,
}

impl Reader<'_> {
    fn run(&mut self, consumer: &mut Consumer, is_interrupted: &AtomicBool) -> Result<()> {
        consumer.assign(self.places.assignment());
        let (mut is_idle, mut silent_ticks) = (false, 0_u32);
        while self.left > 0 && !self.places.are_done() && !is_interrupted.load(Ordering::Relaxed) {
            let are_passed = is_idle && self.places.are_passed(consumer);
            let batch = match is_idle && !are_passed {
                true => consumer.next_batch_within(TICK)?,
                false => consumer.try_next_batch()?,
            };
            if let Some(batch) = batch {
                (is_idle, silent_ticks) = (false, 0);
                let (topic, partition) = (batch.topic(), batch.partition().0);
                let is_at_end = self.print(&batch).with_context(|| format!("{topic} [{partition}]"))?;
                if is_at_end {
                    // What follows is nobody's concern.
                    let topic = topic.to_owned();
                    consumer.pause(&topic, partition);
                }
                continue;
            }
            if are_passed {
                // All that lies before the ends had come already, and nothing of it is for readers: the marks
                // of transactions, or what was aborted.
                break;
            }
            if !is_idle {
                self.out.flush()?;
            } else if is_closed(&std::io::stdout()) {
                break;
            }
            is_idle = true;
            silent_ticks = silent_ticks.saturating_add(1);
            if self.warns
                && silent_ticks.is_multiple_of(SILENT_TICKS)
                && let Some(why) = consumer.trouble()
            {
                self.warns = false;
                eprintln!("warning: nothing comes: {why}");
            }
        }
        Ok(())
    }

    /// Prints the records of a batch. Whether its partition is at its end then.
    fn print(&mut self, batch: &Batch<'_>) -> Result<bool> {
        let header = *batch.header();
        let (topic, partition) = (batch.topic(), batch.partition().0);
        let Some(end) = self.places.end(topic, partition) else { return Ok(true) };
        let (mut records, mut bytes) = (0, 0);
        for record in batch.records(&mut self.scratch)? {
            let record = record?;
            let offset = record.offset(&header).0;
            if self.left == 0 || offset >= end {
                break;
            }
            let timestamp = record.timestamp(&header).0;
            let timestamp_type = header.attributes.timestamp_type();
            let shown = Shown { topic, partition, offset, timestamp, timestamp_type, record: &record };
            self.format.write(&shown, &mut self.out)?;
            self.left -= 1;
            records += 1;
            bytes +=
                [record.key, record.value].map(|field| field.map_or(0, <[u8]>::len)).iter().sum::<usize>();
        }
        self.progress.add(records, bytes as u64);
        Ok(self.places.read_to(topic, partition, header.next_offset().0))
    }
}

/// Whether nobody reads what is written there any more.
fn is_closed(out: &impl std::os::fd::AsFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut asked = [PollFd::new(out, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&now)).is_ok() && asked[0].revents().contains(PollFlags::ERR)
}
