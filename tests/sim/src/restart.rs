//! Going down, one way or another, and coming back.

use std::path::{Path, PathBuf};

use base::Offset;
use storage::disk::Failed;
use storage::layout::{FileKind, FileName, parse_file_name};
use storage::{Known, Log, OpenError};

use crate::disk::{Fault, FaultKind, Halt, Operation, SimDisk};
use crate::found::{Edges, Found, Restart, Rotten, State, Stop};
use crate::model::Model;
use crate::world::{Pending, Promised, World};

/// How often a recovery may be disturbed.
const TROUBLES_WHILE_RECOVERING: u32 = 3;

impl World {
    /// Takes the server down, lets something happen to its disk, and starts it again.
    pub fn restart(&mut self, stop: Stop, harm: impl FnOnce(&mut Self, &Model) -> Option<Rotten>) {
        self.trace.event(format!("-- {stop:?}"));
        (self.flush, self.retention) = (None, None);
        let mut promised_end = self.promise(stop);
        // After an orderly stop everything is on the media, so that even a power cut takes nothing.
        let power_is_cut = match stop {
            Stop::PowerCut => true,
            Stop::Clean => self.random.chance(500),
            Stop::Killed => false,
        };
        self.log = None;
        match power_is_cut {
            true => self.disk.restore_power(self.options.cut),
            false => self.disk.kill_process(),
        }
        let history = self.history();
        let rotten = harm(self, &history);
        let harmed = self.disk.has_lied() || rotten.is_some();
        let restart = self.come_up(stop, history, harmed, &mut promised_end);
        self.take_over(restart, rotten);
    }

    /// What the log promised by now: up to where batches must be there after this stop.
    fn promise(&mut self, stop: Stop) -> Offset {
        let limit = match &self.pending {
            Pending::Nothing | Pending::Append(_) | Pending::Start(_) => self.model.end,
            Pending::Cut(at) => *at,
            Pending::StartOver(_) => Offset::ZERO,
        };
        if let Some(log) = &self.log {
            self.promised.durable = log.durable_end();
        }
        self.promised.durable = self.promised.durable.min(limit);
        match stop {
            Stop::Clean => self.model.end,
            // A barrier that failed may have taken pages out of the cache.
            Stop::Killed if self.disk.has_failed_to_sync() => self.promised.durable,
            Stop::Killed => self.model.end.min(limit),
            Stop::PowerCut => self.promised.durable,
        }
    }

    /// What was written, what was only being written included.
    fn history(&self) -> Model {
        let mut history = self.model.clone();
        if let Pending::Append(batch) = &self.pending {
            history.append(batch.clone());
        }
        history
    }

    fn come_up(&mut self, stop: Stop, history: Model, mut harmed: bool, must_end: &mut Offset) -> Restart {
        let start = self.start_range();
        let mut empty_at = vec![self.promised.log_start, self.promised.log_start_tried];
        if let Pending::StartOver(at) = self.pending {
            empty_at.push(at);
        }
        let mut troubles = if self.options.trouble_while_recovering { TROUBLES_WHILE_RECOVERING } else { 0 };
        let recovery_point = self.least_recovery_point();
        let (intact, found) = loop {
            if troubles > 0 {
                troubles -= 1;
                self.trouble_recovery();
            }
            let dir = self.keeper.partition_dir();
            let intact = intact(&self.disk, &dir, &history, SimDisk::peek_uncached);
            let found = self.open(&history);
            let (halted, struck) = (self.disk.halted(), self.disk.has_struck());
            // An error is never taken for damage: only a start that was refused is tried again.
            if halted.is_none() && !(struck && matches!(found, Found::Refused { .. })) {
                self.check_recovery_failures(&found);
                self.disk.disarm();
                break (intact, found);
            }
            self.log = None;
            if halted == Some(Halt::Power) || self.disk.has_failed_to_sync() {
                *must_end = self.promised.durable.min(*must_end);
            }
            harmed |= self.disk.has_lied();
            match halted {
                Some(Halt::Power) => self.disk.restore_power(self.options.cut),
                Some(Halt::Process) | None => self.disk.kill_process(),
            }
        };
        let must_end = *must_end;
        Restart { stop, history, must_end, start, empty_at, recovery_point, intact, harmed, found }
    }

    /// Something that is to happen to the next recovery.
    fn trouble_recovery(&mut self) {
        const FAILING: [Operation; 8] = [
            Operation::Read,
            Operation::Read,
            Operation::Open,
            Operation::List,
            Operation::Write,
            Operation::Sync,
            Operation::SetLen,
            Operation::Remove,
        ];
        let after = self.random.below(20);
        match self.random.below(3) {
            0 => self.disk.halt_after(after, Halt::Power),
            1 => self.disk.halt_after(after, Halt::Process),
            _ => {
                let (on, kind) = (self.random.pick(&FAILING), FaultKind::Io);
                self.disk.arm(Fault { on, after, kind, suffix: "" });
            }
        }
    }

    /// A log that opens over a write that failed must know of it.
    fn check_recovery_failures(&mut self, found: &Found) {
        let dir = self.keeper.partition_dir();
        let strikes = self.disk.strikes();
        let wrote =
            strikes.iter().find(|(on, path)| on.breaks() == Failed::Directory && path.starts_with(&dir));
        let poisoned = self.log.as_ref().is_some_and(|log| log.poison().is_some());
        if let (Some((on, path)), Found::Opened { .. }, false) = (wrote, found, poisoned) {
            let what = format!("{} {} failed, and the log opened", on.name(), path.display());
            self.complain("poison", what);
        }
    }

    /// Between which offsets the log may start: the checkpoint has what was last written to it, or
    /// what was to be written when the power went.
    fn start_range(&self) -> (Offset, Offset) {
        let Promised { log_start, log_start_tried, .. } = self.promised;
        let high = match self.pending {
            Pending::Start(upto) | Pending::StartOver(upto) => upto.max(self.model.start),
            Pending::Nothing | Pending::Append(_) | Pending::Cut(_) => self.model.start,
        };
        (log_start.min(log_start_tried).min(high), high.max(log_start).max(log_start_tried))
    }

    /// The least that the checkpoint can say, which counts as far as it lies behind the log's start.
    fn least_recovery_point(&self) -> Offset {
        let Promised { recovery_point, recovery_point_tried, log_start, log_start_tried, .. } = self.promised;
        let least = recovery_point.min(recovery_point_tried);
        if least > log_start.max(log_start_tried) { least } else { Offset::ZERO }
    }

    fn open(&mut self, history: &Model) -> Found {
        let known = match self.keeper.start() {
            Ok(known) => known,
            Err(error) => return Found::Refused { error: error.to_string() },
        };
        let before = record_files(&self.disk);
        match self.open_log(known) {
            Ok(log) => self.opened(log, history),
            Err(error @ OpenError::Quarantined { .. }) => {
                let is_changed = |(path, bytes): &(PathBuf, Vec<u8>)| {
                    let after = self.disk.peek_uncached(path).unwrap_or_default();
                    // What lies above the recovery point was a torn end, and may be cut.
                    after.len() < bytes_below(history, path, known.recovery_point).min(bytes.len())
                        || !bytes.starts_with(&after)
                };
                let changed = before.into_iter().find(is_changed).map(|(path, _)| path);
                Found::Quarantined { error, changed }
            }
            Err(error) => Found::Refused { error: error.to_string() },
        }
    }

    fn opened(&mut self, log: Log, history: &Model) -> Found {
        let read = |log: &Log| World::read_all(log, log.start(), 1 << 20).map_err(|error| error.to_string());
        let state = World::state(&log);
        if !self.disk.has_struck() {
            self.disk.believe_again();
        }
        self.disk.hold_faults(true);
        let content = read(&log);
        self.disk.hold_faults(false);
        self.log = Some(log);
        let dir = self.keeper.partition_dir();
        let on_media = intact(&self.disk, &dir, history, SimDisk::on_media);
        let intact = content
            .as_ref()
            .is_ok_and(|content| *content == history.bytes(state.edges.start, state.edges.end));
        let again = (intact && self.random.chance(300)).then(|| self.recover_again()).flatten();
        Found::Opened { state, content, again, on_media }
    }

    /// Recovers a second time, as after a kill right behind the first.
    fn recover_again(&mut self) -> Option<State> {
        if self.disk.halted().is_some() || self.disk.has_struck() {
            return None;
        }
        let armed = self.disk.halt_pending();
        self.log = None;
        self.disk.kill_process();
        if let Some((operations, halt)) = armed {
            self.disk.halt_after(operations, halt);
        }
        let known = self.keeper.start().ok()?;
        let log = self.open_log(Known { clean: false, ..known }).ok()?;
        let state = World::state(&log);
        self.log = Some(log);
        Some(state)
    }

    fn open_log(&self, known: Known) -> Result<Log, OpenError> {
        let dir = self.keeper.partition_dir();
        let opened = Log::open(self.door.clone(), dir, self.settings(), known, self.clock.now());
        match opened {
            Ok((log, recovered)) => {
                self.trace.event(format!(
                    "opened with {known:?}: {}..{}, {recovered:?}",
                    log.start(),
                    log.end()
                ));
                Ok(log)
            }
            Err(error) => {
                self.trace.event(format!("not opened with {known:?}: {error}"));
                Err(error)
            }
        }
    }

    /// Goes on with what a restart found.
    fn take_over(&mut self, restart: Restart, rotten: Option<Rotten>) {
        let undetected = restart.is_undetected();
        let quarantined = matches!(restart.found, Found::Quarantined { .. });
        // What was cut does not come back with the bits; there may be other damage that was not met.
        let was_cut = restart.is_shorter_than_promised();
        let judged = restart.judge().is_ok();
        let stop = restart.stop;
        self.doubted = rotten.as_ref().is_some_and(|rotten| rotten.lasts);
        if let Found::Opened { state, .. } = &restart.found
            && judged
            && !undetected
        {
            self.go_on_from(&restart.history, state.edges);
        } else {
            self.over = true;
        }
        self.restart = Some(restart);
        if let Some(rotten) = rotten.filter(|rotten| !rotten.lasts)
            && judged
            && (quarantined || (undetected && !was_cut))
        {
            self.make_good(stop, &rotten);
        }
    }

    /// Turns the bits back: then the log must come up as if nothing had been.
    fn make_good(&mut self, stop: Stop, rotten: &Rotten) {
        let mut found = Vec::new();
        (self.judge_restart)(self, &mut found);
        self.complaints.extend(found);
        self.over = false;
        self.log = None;
        self.disk.kill_process();
        self.disk.rot(&rotten.path, rotten.position, rotten.mask);
        let history = self.history();
        let mut promised_end = match stop {
            Stop::Clean => self.model.end,
            Stop::Killed | Stop::PowerCut => self.promised.durable,
        };
        let harmed = self.disk.has_lied();
        let restart = self.come_up(stop, history, harmed, &mut promised_end);
        self.take_over(restart, None);
    }

    fn go_on_from(&mut self, history: &Model, edges: Edges) {
        self.model = history.clone();
        if edges.end <= history.end && history.is_boundary(edges.end) {
            self.model.cut(edges.end);
            self.model.start = edges.start;
        } else {
            self.model.start_over(edges.start);
        }
        if let Some(log) = self.log.as_ref().filter(|_| edges.start == edges.end)
            && log.last_epoch() != self.model.epochs.last().map(|&(epoch, _)| epoch)
        {
            // Epochs without records may be kept or forgotten. Those that are kept began before.
            let before = Offset(edges.start.0 - 1);
            self.model.epochs = log.epochs().map(|(epoch, start)| (epoch, start.min(before))).collect();
        }
        self.pending = Pending::Nothing;
        self.promised.durable = edges.end;
        let least = self.promised.recovery_point.min(self.promised.recovery_point_tried);
        (self.promised.recovery_point, self.promised.recovery_point_tried) = (least, least);
        // Whichever of the two it is, the log has started there.
        if self.promised.log_start != self.promised.log_start_tried {
            let at = edges.start;
            (self.promised.log_start, self.promised.log_start_tried) = (at, at);
        }
        self.high_watermark = self.high_watermark.min(edges.end).max(edges.start);
        self.seen = edges;
        self.look_closely = true;
    }
}

/// Up to where the files of a partition hold what was written, as one looks at them.
fn intact(
    disk: &SimDisk,
    dir: &Path,
    history: &Model,
    look: impl Fn(&SimDisk, &Path) -> Option<Vec<u8>>,
) -> Offset {
    let mut segments: Vec<(Offset, PathBuf)> = disk
        .files()
        .into_iter()
        .filter(|path| path.parent() == Some(dir))
        .filter_map(|path| match parse_file_name(path.file_name()?.to_str()?) {
            FileName::Part(FileKind::Log, base) => Some((base, path)),
            _ => None,
        })
        .collect();
    segments.sort();
    let mut end = segments.first().map_or(Offset::ZERO, |(base, _)| *base);
    for (place, (base, path)) in segments.iter().enumerate() {
        let next = segments.get(place + 1).map_or(history.end, |(next, _)| *next);
        let bytes = look(disk, path).unwrap_or_default();
        let mut position = 0;
        for batch in history.from(*base).iter().take_while(|batch| batch.next() <= next) {
            let stored = bytes.get(position..position + batch.bytes.len());
            if batch.base() != end || stored != Some(&batch.bytes[..]) {
                return end;
            }
            position += batch.bytes.len();
            end = batch.next();
        }
    }
    end
}

/// How many bytes of a file of records lie below an offset.
fn bytes_below(history: &Model, path: &Path, offset: Offset) -> usize {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let FileName::Part(FileKind::Log, base) = parse_file_name(name) else { return 0 };
    history.bytes(base, offset).len()
}

/// All files of records and their bytes.
fn record_files(disk: &SimDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let logs = disk.files().into_iter().filter(|path| path.extension().is_some_and(|e| e == "log"));
    logs.filter_map(|path| disk.peek_uncached(&path).map(|bytes| (path, bytes))).collect()
}
