//! A broker's life in its cluster.
//!
//! ```text
//!   Registering ──epoch──▶ Starting ──has seen itself, logs open──▶ Running ──stop──▶ Stopping ──▶ MayStop
//!        ▲                 heartbeats, fenced                       heartbeats        heartbeats until
//!        └── the controller does not know it                                          others lead
//! ```
//!
//! One command is on its way at a time. Which of the controllers is active, and how to reach it, is not
//! known here: a command that got nowhere is given again.
//!
//! A process that was stopped for a while, or cut off, may have been fenced meanwhile, and others lead what it takes
//! itself to lead. It cannot know, but it knows until when it cannot be so: see [`Lifecycle::in_touch_until`].

#[cfg(test)]
mod tests;

use std::time::Duration;

use base::{BrokerEpoch, Effects, Now, Offset, Uuid};
use controller::{BrokerHeartbeat, Command, ControllerError, RegisterBroker, Reply};
use metadata::Image;

/// What the caller of a step has to do, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Give a command to the active controller, and bring the answer to [`Lifecycle::on_answer`].
    Send(Box<Command>),
    /// A life has begun: what this broker says from now on carries its epoch.
    Registered(BrokerEpoch),
    /// The broker is unfenced, for the first time in this life.
    Serving,
    /// The broker may stop.
    MayStop {
        /// Whether it may lead something that others could: nobody said in time that they do.
        leads_on: bool,
    },
    /// The cluster does not want this process any more. It has to stop.
    Replaced(Replaced),
}

/// Why a process has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Replaced {
    /// Another process has registered with the same `node.id`.
    #[error("another process has registered as this node: give each node its own node.id and directory")]
    ByAnother,
    /// The broker was taken out of the cluster.
    #[error(
        "this node was removed from the cluster; to bring it back, start it with an empty data directory"
    )]
    Removed,
}

/// When to do what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifecycleTimes {
    /// `broker.heartbeat.interval.ms`.
    pub heartbeat_every: Duration,
    /// How long after a command that got nowhere it is given again.
    pub retry_after: Duration,
    /// How long a stop waits for others to take over.
    pub stop_max: Duration,
    /// A [`DiskWait`] over this has its disk taken for one that hangs.
    pub stuck_after: Duration,
    /// How long it waits while no controller answers: by then one of those left would have been elected.
    pub unanswered_max: Duration,
}

/// How long a disk has been waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskWait {
    /// Somebody holds a partition, and everybody else who wants it waits.
    pub held: Duration,
    /// No flush has ended, of those without which nothing is acknowledged.
    pub flushing: Duration,
}

impl DiskWait {
    /// Whether it is so long: for flushes twice as long, of which a slow disk makes few.
    pub fn is_over(self, bound: Duration) -> bool {
        self.held >= bound || self.flushing >= bound * 2
    }
}

/// What the controller answered.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// To the command.
    pub reply: &'a Reply,
    /// The end of the metadata that have all that it had decided by then.
    pub end: Offset,
    /// How long before it answered it was certainly the active one: a majority of the quorum had not turned to another.
    /// `None` if that is not known.
    pub sure_ago: Option<Duration>,
}

/// Heartbeats that a controller may miss before it fences a broker that somebody suspects; of others it misses more.
const HEARTBEATS_MISSED: u32 = 2;

/// See the module.
#[derive(Debug)]
pub struct Lifecycle {
    times: LifecycleTimes,
    registration: RegisterBroker,
    epoch: Option<BrokerEpoch>,
    /// What the metadata that was acted on say.
    metadata_end: Offset,
    /// The life of this broker that they know of.
    seen: Option<BrokerEpoch>,
    are_logs_open: bool,
    offline_log_dirs: Vec<Uuid>,
    /// Whether the last look at the disks found one that may hang.
    seems_stuck: bool,
    /// When a disk was last seen to hang, if that was not long ago.
    stuck_at: Option<Duration>,
    is_serving: bool,
    /// Whether a command is on its way, and since when: the last one's time if none is.
    is_asking: bool,
    asked_at: Duration,
    /// The end of the metadata that have all that was decided before the controller counted on this broker until
    /// then, and which were not acted on yet.
    counted_on: Option<(Offset, Duration)>,
    in_touch_until: Duration,
    /// When the next one is due.
    next_at: Duration,
    /// Until when to wait for others to take over, once it is to stop.
    stop_by: Option<Duration>,
    /// When a controller last answered, or the stop began.
    answered_at: Duration,
    is_over: bool,
}

impl Lifecycle {
    /// A broker that will introduce itself like this. Its logs are not open yet.
    pub fn new(registration: RegisterBroker, times: LifecycleTimes) -> Self {
        Self {
            times,
            registration,
            epoch: None,
            metadata_end: Offset::ZERO,
            seen: None,
            are_logs_open: false,
            offline_log_dirs: Vec::new(),
            seems_stuck: false,
            stuck_at: None,
            is_serving: false,
            is_asking: false,
            asked_at: Duration::ZERO,
            counted_on: None,
            in_touch_until: Duration::ZERO,
            next_at: Duration::ZERO,
            stop_by: None,
            answered_at: Duration::ZERO,
            is_over: false,
        }
    }

    /// The epoch of this life, once it is registered.
    pub fn epoch(&self) -> Option<BrokerEpoch> {
        self.epoch
    }

    /// When to call [`Lifecycle::on_tick`], by `Now::elapsed`; `None` while an answer is awaited.
    pub fn deadline(&self) -> Option<Duration> {
        match (self.is_asking, self.patience_ends()) {
            _ if self.is_over => None,
            (false, _) => Some(self.next_at),
            (true, patience_ends) => patience_ends,
        }
    }

    /// When nobody is waited for any longer, once it is to stop.
    fn patience_ends(&self) -> Option<Duration> {
        self.stop_by.map(|by| by.min(self.answered_at + self.times.unanswered_max))
    }

    /// Time has passed.
    pub fn on_tick(&mut self, now: Now, out: &mut Effects<Effect>) {
        if self.is_over {
            return;
        }
        if self.patience_ends().is_some_and(|by| now.elapsed >= by) {
            return self.end(Effect::MayStop { leads_on: self.is_serving }, out);
        }
        if self.is_asking || now.elapsed < self.next_at {
            return;
        }
        (self.is_asking, self.asked_at) = (true, now.elapsed);
        if self.is_stuck() {
            // Others are given what it leads as soon as this is heard.
            (self.in_touch_until, self.counted_on) = (Duration::ZERO, None);
        }
        out.push(Effect::Send(Box::new(self.command())));
    }

    fn command(&self) -> Command {
        let Some(epoch) = self.epoch else {
            return Command::RegisterBroker(self.registration.clone());
        };
        Command::BrokerHeartbeat(BrokerHeartbeat {
            id: self.registration.id,
            epoch,
            metadata_end: self.metadata_end,
            wants_fence: !(self.has_seen_itself() && self.are_logs_open) || self.is_stuck(),
            wants_shutdown: self.stop_by.is_some(),
            offline_log_dirs: self.offline_log_dirs.clone(),
        })
    }

    /// The controller answered, or nobody did.
    pub fn on_answer(
        &mut self,
        now: Now,
        answer: Result<Answer<'_>, &ControllerError>,
        out: &mut Effects<Effect>,
    ) {
        self.is_asking = false;
        if self.is_over {
            return;
        }
        self.next_at = now.elapsed + self.times.retry_after;
        match answer.map(|answer| (answer.reply, answer)) {
            Ok((Reply::RegisterBroker(epoch), _)) => {
                self.epoch = Some(*epoch);
                self.next_at = now.elapsed;
                out.push(Effect::Registered(*epoch));
            }
            Ok((Reply::BrokerHeartbeat(reply), answer)) => {
                self.answered_at = now.elapsed;
                if !reply.is_fenced {
                    self.on_counted_on(&answer);
                }
                self.next_at = now.elapsed + self.times.heartbeat_every;
                if self.stop_by.is_some() {
                    self.next_at = now.elapsed + self.times.retry_after;
                    if reply.should_shut_down {
                        return self.end(Effect::MayStop { leads_on: false }, out);
                    }
                }
                if !reply.is_fenced && !self.is_serving {
                    self.is_serving = true;
                    out.push(Effect::Serving);
                }
            }
            Err(ControllerError::StaleBrokerEpoch { .. }) => {
                self.end(Effect::Replaced(Replaced::ByAnother), out);
            }
            Err(ControllerError::UnknownBroker(_)) => self.end(Effect::Replaced(Replaced::Removed), out),
            Ok(_) | Err(_) => {}
        }
    }

    /// Until when no controller fences this broker, whatever others say of it: it was heard, at the earliest, when the
    /// heartbeat left, by one that was certainly the active one not long before, and it has acted on all that was
    /// decided until then. What its metadata say that it leads nobody else was given to lead because it was silent. By
    /// [`Now::elapsed`].
    pub fn in_touch_until(&self) -> Duration {
        self.in_touch_until
    }

    fn on_counted_on(&mut self, answer: &Answer<'_>) {
        // A controller that was stopped with its broker answers it, too, before it hears that it is deposed.
        let sure_at = answer.sure_ago.and_then(|ago| self.asked_at.checked_sub(ago));
        if let Some(sure_at) = sure_at {
            let until = sure_at + self.times.heartbeat_every * HEARTBEATS_MISSED;
            // One that is not acted on yet is of more use than a later one, which would have to wait longer.
            self.counted_on.get_or_insert((answer.end, until));
        }
        self.act_on_counted_on();
    }

    fn act_on_counted_on(&mut self) {
        let metadata_end = self.metadata_end;
        if let Some((_, until)) = self.counted_on.take_if(|(end, _)| *end <= metadata_end) {
            self.in_touch_until = self.in_touch_until.max(until);
        }
    }

    fn end(&mut self, last: Effect, out: &mut Effects<Effect>) {
        self.is_over = true;
        out.push(last);
    }

    /// The broker has acted on this image.
    pub fn on_image(&mut self, now: Now, image: &Image) {
        let had_seen_itself = self.has_seen_itself();
        self.metadata_end = image.end();
        self.act_on_counted_on();
        self.seen = image.broker(self.registration.id).map(|broker| broker.epoch);
        self.hasten(now, self.has_seen_itself() && !had_seen_itself);
    }

    /// Its registration and the answer to it may come in any order.
    fn has_seen_itself(&self) -> bool {
        self.epoch.is_some() && self.seen == self.epoch
    }

    /// The logs of this broker are open.
    pub fn on_logs_open(&mut self, now: Now) {
        self.hasten(now, !self.are_logs_open);
        self.are_logs_open = true;
    }

    /// A log directory failed.
    pub fn on_log_dir_failed(&mut self, now: Now, directory: Uuid) {
        if !self.offline_log_dirs.contains(&directory) {
            self.offline_log_dirs.push(directory);
            self.hasten(now, true);
        }
    }

    /// Its disks have been waited for as long as this, at most. Who cannot write leads in name only: it asks that others
    /// do, until its disks have answered for a while. The controller sees to it that one is left.
    pub fn on_disk_wait(&mut self, now: Now, longest: DiskWait) {
        let was_stuck = self.is_stuck();
        let stuck_after = self.times.stuck_after;
        // One that only just answers would come and go.
        let is_long = longest.is_over(if was_stuck { stuck_after / 5 } else { stuck_after });
        // A process that was stopped is late itself, and finds so once.
        if std::mem::replace(&mut self.seems_stuck, is_long) && is_long {
            self.stuck_at = Some(now.elapsed);
        }
        self.stuck_at.take_if(|at| now.elapsed >= *at + stuck_after);
        self.hasten(now, self.is_stuck() != was_stuck);
    }

    /// Whether a disk of this broker hangs, or did not long ago.
    pub fn is_stuck(&self) -> bool {
        self.stuck_at.is_some()
    }

    /// What a process says that has to end at once: which directories failed. `None` if it is no broker yet.
    pub fn last_word(&self) -> Option<Command> {
        self.epoch.map(|_| self.command())
    }

    /// The broker is to stop. It goes on serving until [`Effect::MayStop`].
    pub fn stop(&mut self, now: Now) {
        if self.stop_by.is_none() {
            // Who serves nothing leads nothing.
            let patience = if self.is_serving { self.times.stop_max } else { Duration::ZERO };
            self.stop_by = Some(now.elapsed + patience);
            self.answered_at = now.elapsed;
            self.hasten(now, true);
        }
    }

    /// Has the next command given at once.
    fn hasten(&mut self, now: Now, is_urgent: bool) {
        if is_urgent {
            self.next_at = self.next_at.min(now.elapsed);
        }
    }
}
