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
    /// The broker may stop: others lead what others can.
    MayStop,
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
    /// How long it waits while no controller answers: by then one of those left would have been elected.
    pub unanswered_max: Duration,
}

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
    is_serving: bool,
    /// Whether a command is on its way.
    is_asking: bool,
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
            is_serving: false,
            is_asking: false,
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
            return self.end(Effect::MayStop, out);
        }
        if self.is_asking || now.elapsed < self.next_at {
            return;
        }
        self.is_asking = true;
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
            wants_fence: !(self.has_seen_itself() && self.are_logs_open),
            wants_shutdown: self.stop_by.is_some(),
            offline_log_dirs: self.offline_log_dirs.clone(),
        })
    }

    /// The controller answered, or nobody did.
    pub fn on_answer(
        &mut self,
        now: Now,
        answer: Result<&Reply, &ControllerError>,
        out: &mut Effects<Effect>,
    ) {
        self.is_asking = false;
        if self.is_over {
            return;
        }
        self.next_at = now.elapsed + self.times.retry_after;
        match answer {
            Ok(Reply::RegisterBroker(epoch)) => {
                self.epoch = Some(*epoch);
                self.next_at = now.elapsed;
                out.push(Effect::Registered(*epoch));
            }
            Ok(Reply::BrokerHeartbeat(reply)) => {
                self.answered_at = now.elapsed;
                self.next_at = now.elapsed + self.times.heartbeat_every;
                if self.stop_by.is_some() {
                    self.next_at = now.elapsed + self.times.retry_after;
                    if reply.should_shut_down {
                        return self.end(Effect::MayStop, out);
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

    fn end(&mut self, last: Effect, out: &mut Effects<Effect>) {
        self.is_over = true;
        out.push(last);
    }

    /// The broker has acted on this image.
    pub fn on_image(&mut self, now: Now, image: &Image) {
        let had_seen_itself = self.has_seen_itself();
        self.metadata_end = image.end();
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

#[cfg(test)]
mod tests {
    use base::{BrokerId, TimestampMs};
    use controller::{HeartbeatReply, InDoubt};
    use metadata::{Broker, MetadataRecord};

    use super::*;

    const ME: BrokerId = BrokerId(2);

    fn at(ms: u64) -> Now {
        Now::new(Duration::from_millis(ms), TimestampMs(0))
    }

    struct World {
        life: Lifecycle,
        image: Image,
    }

    impl World {
        fn new() -> Self {
            let registration = RegisterBroker {
                id: ME,
                incarnation: Uuid([3; 16]),
                cluster_id: "c".into(),
                endpoints: Vec::new(),
                cluster_address: None,
                features: Vec::new(),
                rack: None,
                log_dirs: Vec::new(),
                after_crash: false,
                previous_epoch: None,
                in_doubt: InDoubt::Nothing,
                is_voter: false,
            };
            let times = LifecycleTimes {
                heartbeat_every: Duration::from_millis(300),
                retry_after: Duration::from_millis(50),
                stop_max: Duration::from_secs(30),
                unanswered_max: Duration::from_secs(2),
            };
            Self { life: Lifecycle::new(registration, times), image: Image::default() }
        }

        fn run(&mut self, act: impl FnOnce(&mut Lifecycle, &mut Effects<Effect>)) -> Vec<Effect> {
            let mut out = Effects::new();
            act(&mut self.life, &mut out);
            out.drain().collect()
        }

        /// The heartbeat that is given at this time: whether it wants to be fenced, and to stop.
        fn heartbeat(&mut self, ms: u64) -> Option<(bool, bool)> {
            let effects = self.run(|life, out| life.on_tick(at(ms), out));
            match effects.as_slice() {
                [] => None,
                [Effect::Send(command)] => match &**command {
                    Command::BrokerHeartbeat(beat) => Some((beat.wants_fence, beat.wants_shutdown)),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
        }

        fn reply(&mut self, ms: u64, is_fenced: bool, should_shut_down: bool) -> Vec<Effect> {
            let reply =
                Reply::BrokerHeartbeat(HeartbeatReply { is_caught_up: true, is_fenced, should_shut_down });
            self.run(|life, out| life.on_answer(at(ms), Ok(&reply), out))
        }

        fn register(&mut self, ms: u64, epoch: i64) {
            let asked = self.run(|life, out| life.on_tick(at(ms), out));
            assert!(matches!(asked.as_slice(), [Effect::Send(command)]
                if matches!(**command, Command::RegisterBroker(_))));
            let reply = Reply::RegisterBroker(BrokerEpoch(epoch));
            let told = self.run(|life, out| life.on_answer(at(ms), Ok(&reply), out));
            assert_eq!(told, [Effect::Registered(BrokerEpoch(epoch))]);
        }

        fn see(&mut self, ms: u64, epoch: i64) {
            let broker = Broker {
                id: ME,
                epoch: BrokerEpoch(epoch),
                incarnation: Uuid([3; 16]),
                endpoints: Vec::new(),
                features: Vec::new(),
                rack: None,
                fenced: true,
                in_controlled_shutdown: false,
                log_dirs: Vec::new(),
            };
            let end = self.image.end().next();
            self.image = self.image.after(&[MetadataRecord::RegisterBroker(broker)], end).0;
            self.life.on_image(at(ms), &self.image);
        }

        fn serving() -> Self {
            let mut world = Self::new();
            world.register(0, 7);
            world.see(0, 7);
            world.life.on_logs_open(at(0));
            assert_eq!(world.heartbeat(0), Some((false, false)));
            assert_eq!(world.reply(0, false, false), [Effect::Serving]);
            world
        }
    }

    #[test]
    fn it_stays_fenced_until_it_has_seen_itself_and_its_logs_are_open() {
        let mut world = World::new();
        world.register(0, 7);
        assert_eq!(world.heartbeat(0), Some((true, false)));
        assert_eq!(world.heartbeat(1), None, "one command at a time");
        assert_eq!(world.reply(1, true, false), []);
        world.see(2, 6);
        assert_eq!(world.heartbeat(2), None, "that was an earlier life");
        world.see(3, 7);
        assert_eq!(world.heartbeat(3), Some((true, false)), "the logs are not open");
        assert_eq!(world.reply(3, true, false), []);
        world.life.on_logs_open(at(4));
        assert_eq!(world.heartbeat(4), Some((false, false)), "what changed is said at once");
        assert_eq!(world.reply(5, false, false), [Effect::Serving]);
        assert_eq!((world.heartbeat(304), world.heartbeat(305)), (None, Some((false, false))));
    }

    #[test]
    fn it_may_see_itself_before_it_is_told_who_it_is() {
        let mut world = World::new();
        let asked = world.run(|life, out| life.on_tick(at(0), out));
        assert_eq!(asked.len(), 1);
        world.see(1, 7);
        world.life.on_logs_open(at(1));
        let reply = Reply::RegisterBroker(BrokerEpoch(7));
        assert_eq!(world.run(|life, out| life.on_answer(at(2), Ok(&reply), out)).len(), 1);
        assert_eq!(world.heartbeat(2), Some((false, false)), "nothing else may ever change");
    }

    #[test]
    fn what_got_nowhere_is_given_again() {
        let mut world = World::new();
        let asked = world.run(|life, out| life.on_tick(at(0), out));
        assert_eq!(asked.len(), 1);
        let lost = ControllerError::NotController { active: None };
        assert_eq!(world.run(|life, out| life.on_answer(at(10), Err(&lost), out)), []);
        assert_eq!(world.life.deadline(), Some(Duration::from_millis(60)));
        world.register(60, 7);
    }

    #[test]
    fn it_stops_once_others_lead_or_its_patience_is_over() {
        let mut world = World::serving();
        world.life.stop(at(100));
        assert_eq!(world.heartbeat(100), Some((false, true)));
        assert_eq!(world.reply(110, false, false), []);
        assert_eq!(world.heartbeat(160), Some((false, true)));
        assert_eq!(world.reply(161, false, true), [Effect::MayStop]);
        assert_eq!((world.life.deadline(), world.heartbeat(9_999)), (None, None));
        let mut world = World::serving();
        world.life.stop(at(100));
        for ms in (100..30_100).step_by(1_000) {
            assert_eq!(world.heartbeat(ms), Some((false, true)));
            assert_eq!(world.reply(ms, false, false), [], "others cannot lead yet");
        }
        assert_eq!(world.run(|life, out| life.on_tick(at(30_100), out)), [Effect::MayStop]);
        let mut world = World::new();
        world.life.stop(at(0));
        assert_eq!(world.run(|life, out| life.on_tick(at(0), out)), [Effect::MayStop], "it serves nothing");
    }

    #[test]
    fn a_stop_does_not_wait_for_a_quorum_that_is_gone() {
        let mut world = World::serving();
        world.life.stop(at(5_000));
        assert_eq!(world.heartbeat(5_000), Some((false, true)));
        assert_eq!(world.reply(5_100, false, false), []);
        assert_eq!(world.heartbeat(5_150), Some((false, true)));
        assert_eq!(world.life.deadline(), Some(Duration::from_millis(7_100)), "the answer may never come");
        let lost = ControllerError::NotController { active: None };
        assert_eq!(world.run(|life, out| life.on_answer(at(5_200), Err(&lost), out)), []);
        assert_eq!(world.heartbeat(7_099), Some((false, true)));
        assert_eq!(world.run(|life, out| life.on_tick(at(7_100), out)), [Effect::MayStop]);
    }

    #[test]
    fn a_process_that_was_replaced_is_told_and_asks_no_more() {
        let mut world = World::serving();
        assert!(world.heartbeat(300).is_some());
        let stale = ControllerError::StaleBrokerEpoch { expected: BrokerEpoch(9), got: BrokerEpoch(7) };
        let told = world.run(|life, out| life.on_answer(at(301), Err(&stale), out));
        assert_eq!(told, [Effect::Replaced(Replaced::ByAnother)]);
        assert_eq!(world.heartbeat(9_999), None);
    }

    #[test]
    fn a_failed_directory_is_told_at_once() {
        let mut world = World::serving();
        world.life.on_log_dir_failed(at(10), Uuid([5; 16]));
        let effects = world.run(|life, out| life.on_tick(at(10), out));
        let [Effect::Send(command)] = effects.as_slice() else { panic!("{effects:?}") };
        let Command::BrokerHeartbeat(beat) = &**command else { panic!("{command:?}") };
        assert_eq!(beat.offline_log_dirs, [Uuid([5; 16])]);
    }
}
