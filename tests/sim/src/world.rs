//! One run: a log, the disk under it, the clock, and what must be true of them.
//!
//! ```text
//!   seed ─▶ options ─▶ step: workload acts on Log ─▶ Disk ─▶ SimDisk
//!                        │                     │
//!                        ▼ Model               ▼ power goes, process is killed, bytes rot
//!                     invariants  ◀────────  restart
//! ```

use std::sync::Arc;

use base::{Offset, TopicId, Uuid};
use records::Scratch;
use storage::disk::Disk;
use storage::layout::{FileKind, FileName, parse_file_name};
use storage::{Flush, Log, LogSettings, ReadError};

use crate::clock::Clock;
use crate::disk::SimDisk;
use crate::found::{Edges, Restart, State};
use crate::keeper::Keeper;
use crate::model::{Model, Written};
use crate::options::Options;
use crate::plant::Plant;
use crate::random::Random;
use crate::trace::Trace;
use crate::violation::Violation;

/// Everything a run consists of.
pub struct World {
    /// The seed of the run.
    pub seed: u64,
    /// What the seed chose.
    pub options: Options,
    /// Both clocks.
    pub clock: Clock,
    /// What happened.
    pub trace: Trace,
    /// The disk.
    pub disk: SimDisk,
    /// The disk as the log sees it.
    pub door: Arc<dyn Disk>,
    /// The server's own files.
    pub keeper: Keeper,
    /// The log; `None` while the server is down.
    pub log: Option<Log>,
    /// What the log must hold.
    pub model: Model,
    /// What is being done, so that a crash in the middle of it can be judged.
    pub pending: Pending,
    /// A flush that was planned and not run yet.
    pub flush: Option<Flush>,
    /// Up to where readers are served.
    pub high_watermark: Offset,
    /// What a restart may find.
    pub promised: Promised,
    /// The last restart, for those who judge it.
    pub restart: Option<Restart>,
    /// The last retention, for those who judge it.
    pub retention: Option<Retention>,
    /// The edges of the log when they were last looked at.
    pub seen: Edges,
    /// What the workload itself found wrong.
    pub complaints: Vec<Violation>,
    /// Judges a restart that is about to be undone; what judges cannot be named from here.
    pub judge_restart: fn(&mut World, &mut Vec<Violation>),
    /// Whether invariants that read the whole log are due.
    pub look_closely: bool,
    /// Whether there is nothing more to learn: records are gone for good, and the log said so.
    pub over: bool,
    /// Whether a table has rotted: its format has no checksum, so that only the records themselves can
    /// be relied on.
    pub doubted: bool,
    /// Chance for the workload.
    pub random: Random,
    /// Counts values, so that each is unique.
    pub value_next: u64,
    /// Room for decompressing.
    pub scratch: Scratch,
}

/// What a call is about to change, until it has returned well.
#[derive(Debug, Clone, Default)]
pub enum Pending {
    /// Nothing.
    #[default]
    Nothing,
    /// A batch that may be there or not.
    Append(Written),
    /// A cut at this offset.
    Cut(Offset),
    /// Everything goes, and the log starts at this offset.
    StartOver(Offset),
    /// The start may have moved, up to this offset.
    Start(Offset),
}

/// What a restart has to find.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Promised {
    /// Up to where batches survive a power cut.
    pub durable: Offset,
    /// The recovery point in the checkpoint.
    pub recovery_point: Offset,
    /// The recovery point that was last to be written there, whether it could be or not.
    pub recovery_point_tried: Offset,
    /// The log start in the checkpoint.
    pub log_start: Offset,
    /// The log start that was last to be written there, whether it could be or not.
    pub log_start_tried: Offset,
}

/// What retention started from and what it left.
#[derive(Debug, Clone)]
pub struct Retention {
    /// The edges before.
    pub before: Edges,
    /// Bytes of the log before.
    pub bytes_before: u64,
    /// The start after.
    pub start: Offset,
    /// The high watermark it was given.
    pub high_watermark: Offset,
    /// The clock it was given.
    pub now: base::Now,
}

impl World {
    /// A world in which the log was just made.
    pub fn new(seed: u64, options: Options, judge_restart: fn(&mut World, &mut Vec<Violation>)) -> Self {
        let trace = Trace::default();
        let disk = SimDisk::new(Random::stream(seed, "disk"), trace.clone());
        let door = Plant::behind_door(options.plant, Arc::new(disk.clone()));
        let mut keeper = Keeper::new(door.clone(), options.plant);
        let clock = Clock::new();
        keeper.start().expect("a new disk works");
        let topic = TopicId(Uuid::from_random(u128::from(seed)));
        let dir = keeper.partition_dir();
        let log = Log::create(door.clone(), dir, topic, options.settings.clone(), clock.now());
        disk.set_writeback(options.writeback_per_thousand);
        Self {
            seed,
            clock,
            trace,
            disk,
            door,
            keeper,
            log: Some(log.expect("a new disk works")),
            model: Model::default(),
            pending: Pending::Nothing,
            flush: None,
            high_watermark: Offset::ZERO,
            promised: Promised::default(),
            restart: None,
            retention: None,
            seen: Edges::default(),
            complaints: Vec::new(),
            judge_restart,
            look_closely: false,
            over: false,
            doubted: false,
            random: Random::stream(seed, "workload"),
            value_next: 0,
            scratch: Scratch::default(),
            options,
        }
    }

    /// The log, which is open.
    pub fn log(&mut self) -> &mut Log {
        self.log.as_mut().expect("the log is open between restarts")
    }

    /// Notes something that must not happen.
    pub fn complain(&mut self, invariant: &'static str, what: String) {
        self.trace.event(format!("!! {invariant}: {what}"));
        self.complaints.push(Violation { invariant, what });
    }

    /// Lets the high watermark follow, as a partition with one replica does.
    pub fn advance_high_watermark(&mut self) {
        let Some(log) = self.log.as_mut() else { return };
        let upto = if self.options.durable_reads { log.durable_end() } else { log.end() };
        self.high_watermark = self.high_watermark.max(upto).min(log.end());
        log.on_high_watermark(self.high_watermark);
    }

    /// The base offset and the bytes of each file of records, in order.
    pub fn segments(&self) -> Vec<(Offset, u64)> {
        let dir = self.keeper.partition_dir();
        let of_log = self.disk.files().into_iter().filter(|path| path.parent() == Some(&dir));
        let segments = of_log.filter_map(|path| match parse_file_name(path.file_name()?.to_str()?) {
            FileName::Part(FileKind::Log, base) => Some((base, self.disk.peek(&path)?.len() as u64)),
            _ => None,
        });
        let mut segments: Vec<_> = segments.collect();
        segments.sort();
        segments
    }

    /// How the log is set up, or was to be.
    pub fn settings(&self) -> LogSettings {
        match self.options.plant {
            Some(Plant::RetentionForgotten) => {
                LogSettings { retention_bytes: None, retention_age: None, ..self.options.settings.clone() }
            }
            _ => self.options.settings.clone(),
        }
    }

    /// What the log knows.
    pub fn state(log: &Log) -> State {
        State {
            edges: Edges { start: log.start(), end: log.end() },
            epochs: log.epochs().collect(),
            producers: log.producers().collect(),
        }
    }

    /// Reads whole batches from `from` on, at most `bytes_max` at a time, up to the end of the log.
    pub fn read_all(log: &Log, from: Offset, bytes_max: u32) -> Result<Vec<u8>, ReadError> {
        let mut bytes = Vec::new();
        let mut next = from;
        while next < log.end() {
            let plan = log.plan_read(next, log.end(), bytes_max, true)?;
            if plan.next <= next {
                break;
            }
            bytes.extend(Self::fetch(&plan)?);
            next = plan.next;
        }
        Ok(bytes)
    }

    /// The bytes of a plan.
    pub fn fetch(plan: &storage::ReadPlan) -> Result<Vec<u8>, ReadError> {
        let mut bytes = Vec::new();
        for slice in &plan.slices {
            let from = bytes.len();
            bytes.resize(from + slice.len as usize, 0);
            let read = slice.file.read_at(&mut bytes[from..], slice.position);
            let read = read.map_err(|error| ReadError::Lookup(error.into()))?;
            bytes.truncate(from + read);
        }
        Ok(bytes)
    }
}
