//! A broker's life, told step by step.

use base::{BrokerId, TimestampMs};
use controller::{HeartbeatReply, InDoubt};
use metadata::{Broker, MetadataRecord};

use super::*;

const ME: BrokerId = BrokerId(2);

fn at(ms: u64) -> Now {
    Now::new(Duration::from_millis(ms), TimestampMs(0))
}

/// What a controller answers that is the active one for certain.
fn sure(reply: &Reply, end: Offset) -> Answer<'_> {
    Answer { reply, end, sure_ago: Some(Duration::ZERO) }
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
            stuck_after: Duration::from_secs(5),
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
        let end = self.image.end();
        self.run(|life, out| life.on_answer(at(ms), Ok(sure(&reply, end)), out))
    }

    fn register(&mut self, ms: u64, epoch: i64) {
        let asked = self.run(|life, out| life.on_tick(at(ms), out));
        assert!(matches!(asked.as_slice(), [Effect::Send(command)]
            if matches!(**command, Command::RegisterBroker(_))));
        let reply = Reply::RegisterBroker(BrokerEpoch(epoch));
        let told = self.run(|life, out| life.on_answer(at(ms), Ok(sure(&reply, Offset::ZERO)), out));
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
    let told = world.run(|life, out| life.on_answer(at(2), Ok(sure(&reply, Offset::ZERO)), out));
    assert_eq!(told.len(), 1);
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
    assert_eq!(world.reply(161, false, true), [Effect::MayStop { leads_on: false }]);
    assert_eq!((world.life.deadline(), world.heartbeat(9_999)), (None, None));
    let mut world = World::serving();
    world.life.stop(at(100));
    for ms in (100..30_100).step_by(1_000) {
        assert_eq!(world.heartbeat(ms), Some((false, true)));
        assert_eq!(world.reply(ms, false, false), [], "others cannot lead yet");
    }
    assert_eq!(world.run(|life, out| life.on_tick(at(30_100), out)), [Effect::MayStop { leads_on: true }]);
    let mut world = World::new();
    world.life.stop(at(0));
    assert_eq!(
        world.run(|life, out| life.on_tick(at(0), out)),
        [Effect::MayStop { leads_on: false }],
        "it serves nothing"
    );
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
    assert_eq!(world.run(|life, out| life.on_tick(at(7_100), out)), [Effect::MayStop { leads_on: true }]);
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
fn it_is_in_touch_from_when_it_spoke_and_once_it_has_acted_on_what_was_decided() {
    let until = |world: &World| world.life.in_touch_until().as_millis();
    let mut world = World::serving();
    assert_eq!(until(&world), 600, "for two heartbeats");
    assert!(world.heartbeat(300).is_some());
    world.reply(450, false, false);
    assert_eq!(until(&world), 900, "it may have been heard at 300");
    // It is stopped with a heartbeat on its way, which was answered long ago when it goes on.
    assert!(world.heartbeat(750).is_some());
    world.reply(60_000, false, false);
    assert_eq!(until(&world), 1_350, "it was fenced since, for all it knows");
    assert!(world.heartbeat(60_300).is_some());
    let reply = Reply::BrokerHeartbeat(HeartbeatReply {
        is_caught_up: true,
        is_fenced: false,
        should_shut_down: false,
    });
    let decided = Offset(world.image.end().0 + 1);
    world.run(|life, out| life.on_answer(at(60_301), Ok(sure(&reply, decided)), out));
    assert_eq!(until(&world), 1_350, "it is alive again, but others lead by now");
    world.see(60_400, 7);
    assert_eq!(until(&world), 60_900);
    assert!(world.heartbeat(60_601).is_some());
    world.reply(60_602, true, false);
    assert_eq!(until(&world), 60_900, "nobody counts on who is fenced");
    // The controller was stopped as long, and does not know that there is another by now.
    for (at_ms, ago, expected) in
        [(61_000, None, 60_900), (61_400, Some(5_000), 60_900), (61_800, Some(50), 62_350)]
    {
        assert!(world.heartbeat(at_ms).is_some());
        let sure_ago = ago.map(Duration::from_millis);
        let answer = Answer { sure_ago, ..sure(&reply, world.image.end()) };
        world.run(|life, out| life.on_answer(at(at_ms + 1), Ok(answer), out));
        assert_eq!(until(&world), expected);
    }
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

#[test]
fn whose_disk_hangs_has_others_lead_until_it_has_answered_for_a_while() {
    let mut world = World::serving();
    let waits = |world: &mut World, ms: u64, held_ms: u64, flushing_ms: u64| {
        let [held, flushing] = [held_ms, flushing_ms].map(Duration::from_millis);
        world.life.on_disk_wait(at(ms), DiskWait { held, flushing });
    };
    waits(&mut world, 100, 5_000, 0);
    waits(&mut world, 200, 0, 9_999);
    assert_eq!(
        world.heartbeat(300),
        Some((false, false)),
        "the process was stopped, or the disk is only slow"
    );
    assert_eq!(world.reply(300, false, false), []);
    assert_eq!(world.life.in_touch_until(), Duration::from_millis(900));
    waits(&mut world, 350, 5_000, 0);
    waits(&mut world, 400, 0, 10_000);
    assert_eq!(world.heartbeat(400), Some((true, false)), "said at once");
    assert_eq!(world.life.in_touch_until(), Duration::ZERO, "others may lead from here on");
    assert_eq!(world.reply(400, true, false), []);
    waits(&mut world, 5_000, 1_000, 0);
    waits(&mut world, 9_999, 999, 1_999);
    assert_eq!(world.heartbeat(9_999), Some((true, false)), "it only just answers");
    assert_eq!(world.reply(9_999, true, false), []);
    waits(&mut world, 10_000, 999, 1_999);
    assert_eq!(world.heartbeat(10_000), Some((false, false)), "said at once");
    assert_eq!(world.reply(10_000, false, false), [], "it serves already");
    assert_eq!(world.life.in_touch_until(), Duration::from_millis(10_600));
}
