//! The controller comes and goes, and the quorum takes its time.

use std::time::Duration;

use base::{BrokerId, ErrorCode, LeaderEpoch, Offset};
use metadata::Image;

use super::super::*;
use super::stage::{Stage, again, settings};

fn create(name: &str) -> Command {
    let topic = NewTopic {
        name: name.into(),
        partitions: 1,
        replication_factor: 1,
        assignments: Vec::new(),
        configs: Vec::new(),
        random: name.bytes().fold(7u128, |sum, c| sum.wrapping_mul(1_000_003) ^ u128::from(c)),
    };
    Command::CreateTopics(CreateTopics { topics: vec![topic], validate_only: false })
}

#[test]
fn a_reply_waits_until_all_it_builds_on_is_committed() {
    let mut stage = Stage::with(&[1]);
    stage.is_slow = true;
    let ids = ["a", "b", "c", "d", "e", "f", "g", "a"].map(|name| stage.give(create(name)));
    assert!(stage.answers.is_empty());
    assert!(stage.image().topic("a").is_none(), "nothing is committed");
    assert_eq!(stage.proposed.len(), 4, "and what came later gathers");
    let mut answered = Vec::new();
    while stage.commit_one() {
        answered.push(stage.answers.len());
    }
    assert_eq!(answered, [1, 2, 3, 4, 8], "the last ones went together");
    assert_eq!(stage.answers.iter().map(|(id, ..)| *id).collect::<Vec<_>>(), ids, "in their order");
    let (_, again, end) = stage.answers.pop().expect("eight were answered");
    assert!(
        matches!(again, Ok(Reply::CreateTopics(outcomes)) if outcomes[0].is_err()),
        "it was there by then"
    );
    assert_eq!(end, stage.image().end());
}

#[test]
fn no_batch_is_larger_than_a_quorum_takes() {
    let large = |count: usize| {
        let throttled = ("0:1,".repeat(7_999) + "0:1").into_boxed_str();
        let name = "leader.replication.throttled.replicas";
        let topics = (0..count).map(|index| NewTopic {
            name: format!("large-{index}-of-{count}"),
            partitions: 1,
            replication_factor: 1,
            assignments: Default::default(),
            configs: vec![(name.to_owned(), Some(throttled.to_string()))],
            random: (index as u128) << 64 | count as u128,
        });
        Command::CreateTopics(CreateTopics { topics: topics.collect(), validate_only: false })
    };
    let mut stage = Stage::with(&[1]);
    stage.is_slow = true;
    for count in 40..50 {
        stage.give(large(count));
    }
    while let Some(proposal) = stage.proposed.front() {
        let mut bytes = Vec::new();
        proposal.records.iter().for_each(|record| record.encode(&mut bytes).expect("it can be written"));
        assert!(bytes.len() <= BATCH_BYTES_MAX, "{} bytes", bytes.len());
        stage.commit_one();
    }
    assert!(stage.answers.drain(..).all(|(_, result, _)| result.is_ok()));
    let id = stage.give(large(300));
    let (answered, result, _) = stage.answers.pop().expect("it is refused at once");
    assert!(answered == id && matches!(result, Err(ControllerError::PolicyViolation(_))), "{result:?}");
    assert!(stage.image().topic("large-0-of-300").is_none());
}

#[test]
fn the_controller_before_has_to_be_heard_sooner_than_others() {
    let mut stage = Stage::with(&[1, 2, 3]);
    stage.topic("a", &[&[2, 3, 1], &[3, 2, 1]], "2");
    stage.tell(QuorumEvent::Following { epoch: LeaderEpoch(2), leader: Some(BrokerId(2)) });
    stage.tell(QuorumEvent::Following { epoch: LeaderEpoch(3), leader: None });
    stage.epoch = LeaderEpoch(3);
    stage.tell(QuorumEvent::Elected { epoch: stage.epoch });
    stage.pass(Duration::from_millis(500), &[1]);
    assert_eq!((stage.line("a", 0), stage.line("a", 1)), ("2@0 isr=2,3,1".into(), "3@0 isr=3,2,1".into()));
    stage.pass(Duration::from_millis(200), &[1]);
    assert_eq!((stage.line("a", 0), stage.line("a", 1)), ("3@1 isr=3,1".into(), "3@0 isr=3,1".into()));
    assert!(stage.image().broker(BrokerId(3)).is_some_and(|broker| !broker.fenced), "it has a whole session");
}

#[test]
fn who_does_not_lead_decides_nothing_and_knows_everything() {
    let mut stage = Stage::with(&[1, 2]);
    let (mut follower, log) = (Controller::new(settings()), stage.log.clone());
    let mut out = base::Effects::new();
    follower.on_event(
        stage.now,
        QuorumEvent::Following { epoch: LeaderEpoch(1), leader: Some(BrokerId(1)) },
        &mut out,
    );
    let end = Offset(log.len() as i64);
    let committed = Committed { epoch: LeaderEpoch(1), records: log, end };
    follower.on_event(stage.now, QuorumEvent::Committed(committed), &mut out);
    assert_eq!(follower.image(), stage.image());
    follower.on_command(stage.now, CommandId(1), &create("a"), &mut out);
    follower.on_tick(stage.now, &mut out);
    let effects: Vec<Effect> = out.drain().collect();
    let [Effect::Changed(delta), Effect::Answer { result, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(delta.brokers_changed.len(), 2);
    assert_eq!(*result, Err(ControllerError::NotController { active: Some(BrokerId(1)) }));
    assert_eq!(follower.deadline(), None);
    stage.give(create("a"));
}

#[test]
fn what_was_not_committed_never_was() {
    let mut stage = Stage::with(&[1]);
    stage.is_slow = true;
    stage.give(create("a"));
    stage.give(create("b"));
    let log = stage.log.len();
    stage.tell(QuorumEvent::Following { epoch: LeaderEpoch(2), leader: None });
    let refused: Vec<ErrorCode> =
        stage.answers.drain(..).map(|(_, result, _)| result.expect_err("it was lost").code()).collect();
    assert_eq!(refused, [ErrorCode::NotController; 2]);
    stage.proposed.clear();
    stage.epoch = LeaderEpoch(3);
    stage.tell(QuorumEvent::Elected { epoch: LeaderEpoch(3) });
    stage.is_slow = false;
    assert_eq!(stage.log.len(), log);
    let reply = stage.run(create("a")).expect("it runs");
    assert!(matches!(reply, Reply::CreateTopics(outcomes) if outcomes[0].is_ok()));
}

#[test]
fn a_new_controller_gives_everybody_a_whole_session() {
    let mut stage = Stage::with(&[1, 2]);
    stage.pass(Duration::from_millis(1_800), &[1]);
    stage.tell(QuorumEvent::Following { epoch: LeaderEpoch(2), leader: None });
    stage.tell(QuorumEvent::Elected { epoch: LeaderEpoch(3) });
    stage.pass(Duration::from_millis(1_800), &[1]);
    assert_eq!(stage.image().brokers_alive().count(), 2);
    stage.pass(Duration::from_millis(300), &[1]);
    assert_eq!(stage.image().brokers_alive().count(), 1);
}

#[test]
fn a_controller_that_slept_does_not_blame_the_others() {
    let mut stage = Stage::with(&[1, 2]);
    stage.now.elapsed += Duration::from_secs(60);
    stage.tick();
    assert_eq!(stage.image().brokers_alive().count(), 2, "nobody could be heard");
    stage.pass(Duration::from_millis(2_500), &[1]);
    assert_eq!(stage.image().brokers_alive().count(), 1);
}

/// Heartbeats are answered once all is committed that was decided before, and a broker has one on its way at a time.
#[test]
fn a_quorum_that_commits_nothing_for_a_while_silences_nobody() {
    let mut stage = Stage::with(&[1, 2, 3]);
    stage.topic("a", &[&[2, 3, 1]], "2");
    stage.is_slow = true;
    stage.give(create("b"));
    for id in [1, 2, 3] {
        stage.give(Command::BrokerHeartbeat(stage.heartbeat(id)));
    }
    stage.pass_slowly(Duration::from_secs(10), &[]);
    stage.is_slow = false;
    while stage.commit_one() {}
    assert_eq!(stage.answers.len(), 4, "they are told now");
    stage.pass(Duration::from_millis(1_500), &[]);
    assert_eq!(stage.image().brokers_alive().count(), 3, "they could not say more");
    stage.pass(Duration::from_millis(1_000), &[1, 3]);
    assert_eq!(stage.line("a", 0), "3@1 isr=3,1", "2 said nothing since");
}

/// However slow the quorum is: it commits, so whoever died can be fenced.
#[test]
fn a_quorum_that_is_slow_for_good_keeps_nobody_alive() {
    let mut stage = Stage::with(&[1, 2, 3]);
    stage.topic("a", &[&[2, 3, 1]], "2");
    stage.is_slow = true;
    for second in 0..8 {
        stage.give(create(&format!("b{second}")));
        stage.pass_slowly(Duration::from_millis(1_500), &[1, 3]);
        stage.commit_one();
    }
    assert_eq!(stage.line("a", 0), "3@1 isr=3,1");
}

#[test]
fn what_the_controller_before_left_undone_is_done() {
    let mut stage = Stage::with(&[1, 2]);
    stage.topic("a", &[&[1]], "1");
    stage.die(&[1]);
    assert_eq!(stage.line("a", 0), "nobody@1 isr= elr=1 last=1");
    // Committed up to the middle of what brings a broker back.
    stage.run(Command::RegisterBroker(again(1, 11))).expect("it came back");
    stage.is_slow = true;
    stage.give(Command::BrokerHeartbeat(stage.heartbeat(1)));
    let mut cut = stage.proposed.pop_front().expect("it is unfenced");
    cut.records.truncate(1);
    stage.tell(QuorumEvent::Following { epoch: LeaderEpoch(2), leader: None });
    let end = Offset(stage.image().end().0 + 1);
    let committed = Committed { epoch: LeaderEpoch(1), records: cut.records, end };
    stage.tell(QuorumEvent::Committed(committed));
    stage.is_slow = false;
    assert_eq!(stage.line("a", 0), "nobody@1 isr= elr=1 last=1");
    stage.tell(QuorumEvent::Elected { epoch: LeaderEpoch(3) });
    assert_eq!(stage.line("a", 0), "1@2 isr=1");
}

#[test]
fn a_snapshot_says_what_changed_meanwhile() {
    let mut stage = Stage::with(&[1, 2]);
    stage.topic("gone", &[&[1]], "1");
    let (before, log) = (stage.image().clone(), stage.log.len());
    let mut behind = Controller::new(settings());
    let mut out = base::Effects::new();
    behind.on_event(stage.now, QuorumEvent::Snapshot(before.clone()), &mut out);
    assert_eq!(out.drain().count(), 1);
    stage.topic("new", &[&[1, 2]], "2");
    stage
        .run(Command::DeleteTopics(DeleteTopics { topics: vec![TopicKey::Name("gone".into())] }))
        .expect("runs");
    stage.die(&[2]);
    behind.on_event(stage.now, QuorumEvent::Snapshot(stage.image().clone()), &mut out);
    let (_, whole) = before.after(&stage.log[log..], stage.image().end());
    assert_eq!(out.drain().collect::<Vec<_>>(), [Effect::Changed(whole)]);
    assert_eq!(behind.image(), stage.image());
}

#[test]
fn ten_thousand_partitions_change_hands_in_batches() {
    let mut stage = Stage::with(&[1, 2]);
    let replicas: Vec<&[i32]> = vec![&[1, 2]; 10_000];
    stage.topic("a", &replicas, "1");
    stage.topic("b", &replicas[..5_000], "1");
    stage.is_slow = true;
    let suspect = BrokerSuspected { suspect: BrokerId(1), epoch: stage.epoch_of(1), by: BrokerId(2) };
    let mut out = base::Effects::new();
    let mut fencer = Controller::new(ControllerSettings { node_id: BrokerId(2), ..settings() });
    fencer.on_event(stage.now, QuorumEvent::Snapshot(stage.image().clone()), &mut out);
    fencer.on_event(stage.now, QuorumEvent::Elected { epoch: LeaderEpoch(2) }, &mut out);
    out.drain().for_each(drop);
    fencer.on_command(stage.now, CommandId(1), &Command::BrokerSuspected(suspect), &mut out);
    let batches: Vec<usize> = out
        .drain()
        .map(|effect| match effect {
            Effect::Propose(proposal) => proposal.records.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(batches, [10_000, 5_001]);
}

#[test]
fn a_full_controller_has_room_for_what_brokers_say() {
    let mut stage = Stage::with(&[1]);
    stage.is_slow = true;
    for _ in 0..8_192 {
        stage.give(create("a"));
    }
    assert!(stage.answers.is_empty());
    stage.give(create("b"));
    let (_, refused, _) = stage.answers.pop().expect("it is refused at once");
    assert_eq!(refused, Err(ControllerError::Busy));
    stage.give(Command::BrokerHeartbeat(stage.heartbeat(1)));
    assert!(stage.answers.is_empty(), "it waits with the others");
    assert_ne!(stage.image(), &Image::default());
}
