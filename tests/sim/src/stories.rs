//! Stories: what happened once, or must never happen, told step by step with what came of it.
//!
//! A story says everything it does in the same words, so that its text is its expectation.

mod crash;
mod damage;
mod failure;

use std::fmt::Write as _;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TopicId, Uuid};
use records::{BatchBuilder, BatchLimits, BatchOptions, CheckedBatch, Producer, Scratch};
use storage::disk::{Disk, OpenMode};
use storage::layout::{FileKind, file_name};
use storage::{FlushScope, Log, LogSettings};

use crate::clock::Clock;
use crate::disk::{PowerCut, SimDisk};
use crate::keeper::Keeper;
use crate::random::Random;
use crate::trace::Trace;

/// A power cut that takes everything that is not behind a barrier.
const TAKE_ALL: PowerCut = PowerCut { kept_per_thousand: 0, torn: false, rubbish: false };
/// A power cut behind which everything is there all the same.
const KEEP_ALL: PowerCut = PowerCut { kept_per_thousand: 1000, torn: false, rubbish: false };

/// One log and what is done with it.
struct Story {
    disk: SimDisk,
    keeper: Keeper,
    log: Option<Log>,
    clock: Clock,
    settings: LogSettings,
    sequence: i32,
    text: String,
}

impl Story {
    /// A new log with small segments.
    fn new() -> Self {
        Self::with(LogSettings { index_interval_bytes: 0, ..LogSettings::tiny() })
    }

    fn with(settings: LogSettings) -> Self {
        let disk = SimDisk::new(Random::stream(1, "story"), Trace::default());
        let mut keeper = Keeper::new(Arc::new(disk.clone()), None);
        keeper.start().expect("a new disk works");
        let clock = Clock::new();
        let dir = keeper.partition_dir();
        let topic = TopicId(Uuid::from_random(1));
        let log = Log::create(Arc::new(disk.clone()), dir, topic, settings.clone(), clock.now());
        let log = Some(log.expect("a new disk works"));
        Self { disk, keeper, log, clock, settings, sequence: 0, text: String::new() }
    }

    fn say(&mut self, what: impl std::fmt::Display) {
        writeln!(self.text, "{what}").expect("a String takes everything");
    }

    fn log(&mut self) -> &mut Log {
        self.log.as_mut().expect("the log is open")
    }

    /// Appends a batch of one record of this many bytes, of an idempotent producer.
    fn append(&mut self, bytes: usize) {
        let now = self.clock.now();
        self.clock.pass(1);
        let mut builder = BatchBuilder::new(1 << 20);
        builder.try_append(now.wall, None, Some(&vec![b'v'; bytes]), &[]).expect("there is room");
        let base_sequence = Sequence(self.sequence);
        let producer = Producer { id: ProducerId(7), epoch: ProducerEpoch(0), base_sequence };
        let (mut scratch, mut raw) = (Scratch::default(), Vec::new());
        let options = BatchOptions { producer, ..BatchOptions::default() };
        builder.finish(&options, &mut scratch, &mut raw).expect("small");
        let batch = CheckedBatch::check(&raw, &BatchLimits::default(), &mut scratch).expect("built right");
        match self.log().append(now, &batch, LeaderEpoch(0)) {
            Ok(appended) => {
                self.sequence += 1;
                self.say(format!("append {}", appended.base_offset));
            }
            Err(error) => self.say(format!("append: {error}")),
        }
    }

    fn flush(&mut self, scope: FlushScope) {
        let flushed = self.log().flush(scope);
        let log = self.log();
        let (durable, point) = (log.durable_end(), log.recovery_point());
        match flushed {
            Ok(()) => self.say(format!("flush {scope:?}: durable {durable}, recovery point {point}")),
            Err(error) => self.say(format!("flush {scope:?}: {error}")),
        }
    }

    /// Writes down the recovery point and the start.
    fn checkpoint(&mut self) {
        let (point, start) = (self.log().recovery_point(), self.log().start());
        self.keeper.keep_recovery_point(point).expect("the disk works");
        self.keeper.keep_log_start(start).expect("the disk works");
        self.say(format!("checkpoint {point}"));
    }

    fn close(&mut self) {
        self.log().close().expect("the disk works");
        self.checkpoint();
        self.keeper.mark_clean().expect("the disk works");
        self.log = None;
        self.say("close");
    }

    fn cut_power(&mut self, cut: PowerCut) {
        self.log = None;
        self.disk.restore_power(cut);
        self.say("power cut");
    }

    /// Opens the log and says what became of it.
    fn open(&mut self) {
        let known = self.keeper.start().expect("the disk works");
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let opened =
            Log::open(disk, self.keeper.partition_dir(), self.settings.clone(), known, self.clock.now());
        match opened {
            Ok((log, recovered)) => {
                let how = if recovered.clean { "clean" } else { "recovered" };
                let cut = recovered.cut.map(|cut| format!(", cut {} bytes: {}", cut.bytes, cut.damage));
                let rebuilt = match recovered.tables_rebuilt {
                    0 => String::new(),
                    count => format!(", {count} tables rebuilt"),
                };
                let (start, end) = (log.start(), log.end());
                self.log = Some(log);
                self.say(format!("open: {start}..{end} {how}{}{rebuilt}", cut.unwrap_or_default()));
                self.sequence = end.0 as i32;
            }
            Err(error) => self.say(format!("open: {error}")),
        }
    }

    /// Looks a few things up.
    fn look(&mut self) {
        let log = self.log();
        let batches = crate::world::World::read_all(log, log.start(), 1 << 20).expect("can be read");
        let count = records::batches(&batches).filter(Result::is_ok).count();
        let latest = log.max_timestamp().expect("can be looked up").map(|found| found.offset.0);
        let producers: Vec<_> = log.producers().map(|p| (p.id.0, p.last_sequence.0)).collect();
        self.say(format!("look: {count} batches, latest {latest:?}, producers {producers:?}"));
    }

    fn path(&self, kind: FileKind, base: i64) -> PathBuf {
        self.keeper.partition_dir().join(file_name(kind, Offset(base)))
    }

    /// Changes a file behind everybody's back.
    fn write(&self, path: &Path, position: usize, bytes: &[u8]) {
        let file = self.disk.open(path, OpenMode::Write).expect("the file is there");
        file.write_at(&[IoSlice::new(bytes)], position as u64).expect("the disk works");
        file.sync().expect("the disk works");
    }

    fn len(&self, path: &Path) -> usize {
        self.disk.peek(path).expect("the file is there").len()
    }

    #[track_caller]
    fn tells(&self, expected: &str) {
        let expected: String = expected.trim().lines().map(|line| format!("{}\n", line.trim())).collect();
        assert_eq!(self.text, expected, "\n--- the story went:\n{}", self.text);
    }
}
