//! Brokers die, stop, and come back.

use std::time::Duration;

use base::{BrokerEpoch, BrokerId, ErrorCode, Offset, PartitionIndex, Uuid};

use super::super::*;
use super::stage::{Stage, after_power_cut, again, directory, registration};

#[test]
fn one_of_three_dies_and_comes_back() {
    let mut stage = Stage::with(&[1, 2, 3]);
    stage.topic("a", &[&[1, 2, 3], &[2, 3, 1]], "2");
    assert_eq!(stage.line("a", 0), "1@0 isr=1,2,3");
    stage.die(&[1]);
    assert!(stage.image().broker(BrokerId(1)).is_some_and(|broker| broker.fenced));
    assert_eq!(stage.line("a", 0), "2@1 isr=2,3", "a follower leads, and two are enough");
    assert_eq!(stage.line("a", 1), "2@0 isr=2,3", "who led it leads on");
    stage.come(&again(1, 9));
    assert_eq!(stage.line("a", 0), "2@1 isr=2,3", "it has to catch up first");
    let altered = stage.alter("a", 0, &[2, 3, 1]).expect("it has caught up");
    assert_eq!(altered.isr, [2, 3, 1].map(BrokerId));
    stage.elect(ElectionKind::Preferred, "a", 0).expect("it is in sync");
    assert_eq!(stage.line("a", 0), "1@2 isr=2,3,1");
}

#[test]
fn whoever_left_a_set_that_is_too_small_stays_eligible() {
    let mut stage = Stage::with(&[1, 2, 3]);
    stage.topic("a", &[&[1, 2, 3]], "2");
    stage.die(&[3]);
    stage.die(&[2]);
    assert_eq!(
        stage.line("a", 0),
        "1@0 isr=1 elr=2",
        "3 left while two were in sync, and went on without it"
    );
    stage.die(&[1]);
    assert_eq!(stage.line("a", 0), "nobody@1 isr= elr=2,1 last=1");
    stage.come(&again(3, 33));
    assert_eq!(stage.line("a", 0), "nobody@1 isr= elr=2,1 last=1", "3 may lack what was acknowledged");
    stage.come(&again(2, 22));
    assert_eq!(stage.line("a", 0), "2@2 isr=2 elr=1", "2 has all of it");
    stage.come(&again(1, 11));
    stage.alter("a", 0, &[2, 1]).expect("it has caught up");
    assert_eq!(stage.line("a", 0), "2@2 isr=2,1", "two are enough: nobody else is eligible");
}

#[test]
fn a_replica_in_doubt_is_out_before_anything_is_elected() {
    let mut stage = Stage::with(&[1, 2, 3]);
    stage.topic("a", &[&[1, 2, 3]], "2");
    stage.topic("alone", &[&[1]], "1");
    // So fast that nobody noticed.
    stage.come(&after_power_cut(1, 11));
    assert_eq!(stage.line("a", 0), "2@1 isr=2,3");
    assert_eq!(stage.line("alone", 0), "1@1 isr=1", "nobody has more, but the end may be lost");
    stage.die(&[3]);
    stage.die(&[2]);
    assert_eq!(stage.line("a", 0), "nobody@2 isr= elr=3,2 last=2");
    stage.come(&after_power_cut(3, 33));
    stage.come(&after_power_cut(2, 22));
    assert_eq!(
        stage.line("a", 0),
        "2@3 isr=2 recovering",
        "nobody is left: the last leader is as good as any"
    );
}

#[test]
fn what_a_broker_vouches_for_stays_eligible_after_a_crash() {
    let mut stage = Stage::with(&[1, 2]);
    let sure = stage.topic("sure", &[&[1, 2]], "2");
    let lost = stage.topic("lost", &[&[1, 2]], "2");
    assert_ne!(sure, lost);
    stage.die(&[2]);
    let in_doubt = InDoubt::Partitions(vec![(lost, PartitionIndex(0))]);
    let killed = RegisterBroker { after_crash: true, in_doubt, ..again(1, 11) };
    stage.run(Command::RegisterBroker(killed)).expect("it came back");
    assert_eq!(stage.line("sure", 0), "1@1 isr=1 elr=2", "it leads on, and cuts its log where it ends");
    assert_eq!(stage.line("lost", 0), "nobody@1 isr= elr=2 last=1");
    stage.hear(1);
    assert_eq!(stage.line("lost", 0), "nobody@1 isr= elr=2 last=1", "2 has all of it");
    stage.come(&again(2, 22));
    assert_eq!(stage.line("lost", 0), "2@2 isr=2");
}

#[test]
fn logs_of_another_life_are_in_doubt() {
    let mut stage = Stage::with(&[1, 2]);
    stage.topic("a", &[&[1, 2]], "1");
    let first = stage.epoch_of(1);
    let returns = |life, epoch| RegisterBroker { previous_epoch: Some(epoch), ..again(1, life) };
    stage.come(&returns(11, first));
    stage.alter("a", 0, &[2, 1]).expect("it has caught up");
    stage.die(&[2]);
    assert_eq!(stage.line("a", 0), "1@2 isr=1");
    stage.come(&returns(12, first));
    assert_eq!(stage.line("a", 0), "1@4 isr=1 recovering", "a copy of the disk as it was two lives ago");
    let moved = RegisterBroker { log_dirs: vec![directory(7)], ..again(2, 22) };
    stage.come(&moved);
}

#[test]
fn a_directory_that_is_gone_is_in_doubt_and_one_that_fails_loses_its_leaders() {
    let mut stage = Stage::with(&[]);
    let disks = [directory(1), directory(5)];
    stage.come(&RegisterBroker { log_dirs: disks.to_vec(), ..registration(1) });
    stage.come(&registration(2));
    let [a, b] = ["a", "b"].map(|name| stage.topic(name, &[&[1, 2]], "2"));
    let replicas = vec![(a, PartitionIndex(0), disks[0]), (b, PartitionIndex(0), disks[1])];
    let assign = AssignReplicasToDirs { broker: BrokerId(1), epoch: stage.epoch_of(1), replicas };
    stage.run(Command::AssignReplicasToDirs(assign)).expect("it may");
    let failing = BrokerHeartbeat { offline_log_dirs: vec![disks[1]], ..stage.heartbeat(1) };
    assert!(!stage.beat(failing.clone()).is_fenced);
    assert_eq!(stage.line("a", 0), "1@0 isr=1,2");
    assert_eq!(stage.line("b", 0), "2@1 isr=2", "what a disk that failed has kept, nobody knows");
    let records = stage.log.len();
    stage.beat(BrokerHeartbeat { metadata_end: stage.image().end(), ..failing });
    assert_eq!(stage.log.len(), records, "it is known");
    assert!(stage.beat(BrokerHeartbeat { offline_log_dirs: disks.to_vec(), ..stage.heartbeat(1) }).is_fenced);
    assert_eq!(stage.line("a", 0), "2@1 isr=2");
    stage.come(&RegisterBroker { log_dirs: disks.to_vec(), after_crash: true, ..again(1, 11) });
    assert_eq!((stage.line("a", 0), stage.line("b", 0)), ("2@1 isr=2".into(), "2@1 isr=2".into()));
    stage.alter("a", 0, &[2, 1]).expect("it has caught up since");
}

#[test]
fn a_directory_that_is_not_there_is_in_doubt() {
    let mut stage = Stage::with(&[]);
    let disks = [directory(1), directory(5)];
    stage.come(&RegisterBroker { log_dirs: disks.to_vec(), ..registration(1) });
    stage.come(&registration(2));
    let a = stage.topic("a", &[&[1, 2]], "2");
    let alone = stage.topic("alone", &[&[1]], "1");
    let replicas = [a, alone].map(|topic| (topic, PartitionIndex(0), disks[1])).to_vec();
    let assign = AssignReplicasToDirs { broker: BrokerId(1), epoch: stage.epoch_of(1), replicas };
    stage.run(Command::AssignReplicasToDirs(assign)).expect("it may");
    stage.die(&[1]);
    assert_eq!(stage.line("a", 0), "2@1 isr=2 elr=1");
    stage.come(&RegisterBroker { log_dirs: vec![disks[0]], ..again(1, 11) });
    assert_eq!(stage.line("a", 0), "2@1 isr=2", "a copy that is not there has nothing");
    assert_eq!(
        stage.line("alone", 0),
        "nobody@1 isr= elr=1 last=1",
        "so everybody sees that it is not there"
    );
    stage.come(&RegisterBroker { log_dirs: disks.to_vec(), ..again(1, 12) });
    assert_eq!(stage.line("alone", 0), "1@2 isr=1", "nobody has more");
    // Stopped in order it keeps its place, and loses it if it comes back without the disk.
    stage.beat(BrokerHeartbeat { wants_shutdown: true, ..stage.heartbeat(1) });
    stage.hear(2);
    assert!(stage.beat(BrokerHeartbeat { wants_shutdown: true, ..stage.heartbeat(1) }).should_shut_down);
    assert_eq!(stage.line("alone", 0), "1@2 isr=1");
    stage.come(&RegisterBroker { log_dirs: vec![disks[0]], ..again(1, 13) });
    assert_eq!(stage.line("alone", 0), "nobody@3 isr= elr=1 last=1");
    stage.come(&RegisterBroker { log_dirs: disks.to_vec(), ..again(1, 14) });
    assert_eq!(stage.line("alone", 0), "1@4 isr=1");
}

#[test]
fn an_empty_replica_in_the_place_of_a_lost_one_is_not_elected() {
    let mut stage = Stage::with(&[1, 2]);
    let topic = stage.topic("a", &[&[1, 2]], "1");
    let before = stage.epoch_of(1);
    stage.die(&[1]);
    assert_eq!(stage.line("a", 0), "2@1 isr=2");
    let new = Uuid([0x77; 16]);
    stage.come(&RegisterBroker { log_dirs: vec![new], in_doubt: InDoubt::Everything, ..again(1, 11) });
    let replicas = vec![(topic, PartitionIndex(0), new)];
    let assign = |epoch| {
        let (broker, replicas) = (BrokerId(1), replicas.clone());
        Command::AssignReplicasToDirs(AssignReplicasToDirs { broker, epoch, replicas })
    };
    let refused = stage.run(assign(before)).expect_err("a word of the life before comes late");
    assert_eq!(refused.code(), ErrorCode::StaleBrokerEpoch);
    stage.run(assign(stage.epoch_of(1))).expect("it may");
    stage.die(&[2]);
    assert_eq!(stage.line("a", 0), "nobody@2 isr= elr=2 last=2", "it is there, and has nothing");
    stage.come(&again(2, 22));
    assert_eq!(stage.line("a", 0), "2@3 isr=2");
}

#[test]
fn a_directory_that_failed_is_in_doubt_however_the_broker_is_otherwise() {
    let failed =
        |stage: &Stage| BrokerHeartbeat { offline_log_dirs: vec![directory(1)], ..stage.heartbeat(1) };
    let mut stage = Stage::with(&[1, 2]);
    stage.topic("a", &[&[1, 2]], "2");
    stage.topic("alone", &[&[1]], "1");
    stage.die(&[1]);
    assert_eq!(
        (stage.line("a", 0), stage.line("alone", 0)),
        ("2@1 isr=2 elr=1".into(), "nobody@1 isr= elr=1 last=1".into())
    );
    assert!(stage.beat(failed(&stage)).is_fenced, "it was fenced before anybody heard of its disk");
    assert_eq!(
        (stage.line("a", 0), stage.line("alone", 0)),
        ("2@1 isr=2".into(), "nobody@1 isr= elr=1 last=1".into())
    );
    stage.come(&again(1, 11));
    assert_eq!(stage.line("alone", 0), "1@2 isr=1", "nobody has more");
    stage.alter("a", 0, &[2, 1]).expect("it has caught up");
    // On its way out.
    let heard = stage.beat(BrokerHeartbeat { wants_shutdown: true, ..failed(&stage) });
    assert!(heard.is_fenced, "{heard:?}");
    assert_eq!(stage.line("a", 0), "2@1 isr=2");
    assert!(stage.beat(BrokerHeartbeat { wants_shutdown: true, ..failed(&stage) }).should_shut_down);
}

#[test]
fn a_log_that_cannot_be_served_neither_leads_nor_is_in_sync() {
    let mut stage = Stage::with(&[1, 2, 3]);
    let [a, _] = ["a", "b"].map(|name| stage.topic(name, &[&[1, 2, 3]], "2"));
    let in_dir = |stage: &mut Stage, id, topic, directory| {
        let replicas = vec![(topic, PartitionIndex(0), directory)];
        let assign = AssignReplicasToDirs { broker: BrokerId(id), epoch: stage.epoch_of(id), replicas };
        stage.run(Command::AssignReplicasToDirs(assign)).expect("it may");
    };
    in_dir(&mut stage, 1, a, directory(1));
    assert_eq!(stage.line("a", 0), "1@0 isr=1,2,3");
    in_dir(&mut stage, 1, a, metadata::Partition::DIRECTORY_LOST);
    assert_eq!((stage.line("a", 0), stage.line("b", 0)), ("2@1 isr=2,3".into(), "1@0 isr=1,2,3".into()));
    let refused = stage.alter("a", 0, &[2, 3, 1]).expect_err("it serves nothing");
    assert_eq!(refused.code(), ErrorCode::IneligibleReplica);
    let two = stage.topic("two", &[&[1, 2]], "1");
    in_dir(&mut stage, 1, two, metadata::Partition::DIRECTORY_LOST);
    in_dir(&mut stage, 2, two, metadata::Partition::DIRECTORY_LOST);
    assert_eq!(stage.line("two", 0), "nobody@2 isr= last=2");
    in_dir(&mut stage, 1, two, directory(1));
    assert_eq!(stage.line("two", 0), "nobody@2 isr= last=2", "1 may lack what was acknowledged");
    in_dir(&mut stage, 2, two, directory(2));
    assert_eq!(stage.line("two", 0), "2@3 isr=2 recovering", "the file was put back");
}

/// What the old log still has to say must not count for the new one: it may be on its way to the leader.
#[test]
fn a_leadership_begins_anew_with_a_follower_that_does() {
    let mut stage = Stage::with(&[1, 2, 3]);
    let a = stage.topic("a", &[&[1, 2, 3]], "2");
    let in_dir = |stage: &mut Stage, directory| {
        let replicas = vec![(a, PartitionIndex(0), directory)];
        let assign = AssignReplicasToDirs { broker: BrokerId(3), epoch: stage.epoch_of(3), replicas };
        stage.run(Command::AssignReplicasToDirs(assign)).expect("it may");
    };
    in_dir(&mut stage, directory(3));
    assert_eq!(stage.line("a", 0), "1@0 isr=1,2,3", "it is where it was put");
    in_dir(&mut stage, metadata::Partition::DIRECTORY_LOST);
    assert_eq!(stage.line("a", 0), "1@0 isr=1,2");
    in_dir(&mut stage, directory(3));
    assert_eq!(stage.line("a", 0), "1@1 isr=1,2");
    in_dir(&mut stage, directory(3));
    assert_eq!(stage.line("a", 0), "1@1 isr=1,2");
    stage.alter("a", 0, &[1, 2, 3]).expect("it has caught up with that leadership");
}

#[test]
fn a_broker_that_stops_hands_over_first() {
    let mut stage = Stage::with(&[1, 2, 3]);
    stage.topic("a", &[&[1, 2, 3]], "2");
    stage.topic("alone", &[&[1]], "1");
    let stopping = BrokerHeartbeat { wants_shutdown: true, ..stage.heartbeat(1) };
    let heard = stage.beat(stopping.clone());
    assert!(!heard.should_shut_down, "the others do not know yet");
    assert_eq!(stage.line("a", 0), "2@1 isr=2,3");
    assert_eq!(stage.line("alone", 0), "1@0 isr=1", "nobody else can");
    stage.hear(2);
    assert!(!stage.beat(stopping.clone()).should_shut_down, "3 does not know yet");
    stage.hear(3);
    let heard = stage.beat(stopping);
    assert!(heard.should_shut_down && heard.is_fenced, "{heard:?}");
    stage.come(&again(1, 11));
    assert_eq!(stage.line("alone", 0), "1@0 isr=1", "as if nothing had happened");
}

/// A leader that stops keeps its place if nobody else can take it, until somebody can.
#[test]
fn a_leader_that_has_stopped_gives_way_to_an_eligible_replica_that_comes_back() {
    let mut stage = Stage::with(&[1, 2, 3]);
    stage.topic("a", &[&[1, 2]], "2");
    stage.topic("alone", &[&[1]], "1");
    stage.die(&[2]);
    assert_eq!(stage.line("a", 0), "1@0 isr=1 elr=2");
    let stopping = BrokerHeartbeat { wants_shutdown: true, ..stage.heartbeat(1) };
    while !stage.beat(stopping.clone()).should_shut_down {
        stage.hear(3);
    }
    assert_eq!(stage.line("a", 0), "1@0 isr=1 elr=2", "nobody can take it");
    stage.come(&again(2, 22));
    assert_eq!(stage.line("a", 0), "2@1 isr=2 elr=1", "2 has all of it");
    assert_eq!(stage.line("alone", 0), "1@0 isr=1");
}

#[test]
fn a_node_that_is_alone_stops_at_once_and_nothing_of_its_partitions_changes() {
    let mut stage = Stage::with(&[1]);
    stage.topic("a", &[&[1][..]; 100], "1");
    let before = stage.log.len();
    let heard = stage.beat(BrokerHeartbeat { wants_shutdown: true, ..stage.heartbeat(1) });
    assert!(heard.should_shut_down);
    stage.come(&again(1, 11));
    assert_eq!(stage.log.len() - before, 4, "stopping, fenced, registered, unfenced");
}

#[test]
fn a_broker_is_fenced_when_its_connection_breaks() {
    let mut stage = Stage::with(&[1, 2, 3]);
    stage.topic("a", &[&[2, 3, 1]], "2");
    let suspicion = |stage: &Stage, by| {
        let epoch = stage.epoch_of(2);
        Command::BrokerSuspected(BrokerSuspected { suspect: BrokerId(2), epoch, by: BrokerId(by) })
    };
    stage.pass(Duration::from_millis(100), &[1, 2, 3]);
    let of_another = suspicion(&stage, 3);
    stage.run(of_another.clone()).expect("it is heard");
    assert_eq!(stage.line("a", 0), "2@0 isr=2,3,1", "it may be 3 that cannot be reached");
    stage.pass(Duration::from_millis(300), &[1, 2, 3]);
    assert_eq!(stage.line("a", 0), "2@0 isr=2,3,1");
    stage.run(of_another).expect("it is heard");
    stage.pass(Duration::from_millis(700), &[1, 3]);
    assert_eq!(stage.line("a", 0), "3@1 isr=3,1", "it was not heard any more");
    stage.come(&again(2, 22));
    let old = Command::BrokerSuspected(BrokerSuspected {
        suspect: BrokerId(2),
        epoch: BrokerEpoch(0),
        by: BrokerId(1),
    });
    stage.run(old).expect("it is heard");
    assert!(stage.image().broker(BrokerId(2)).is_some_and(|broker| !broker.fenced), "another life is meant");
    stage.run(suspicion(&stage, 1)).expect("it is heard");
    assert!(
        stage.image().broker(BrokerId(2)).is_some_and(|broker| broker.fenced),
        "the controller's own node"
    );
}

#[test]
fn a_zombie_is_told_that_it_is_one() {
    let mut stage = Stage::with(&[1, 2]);
    stage.topic("a", &[&[1, 2]], "1");
    let (zombie, asked) = (stage.heartbeat(1), stage.alteration("a", 0, &[1]));
    stage.die(&[1]);
    let refused = stage.alter_as(1, asked).expect_err("another leads");
    assert_eq!(refused.code(), ErrorCode::FencedLeaderEpoch);
    assert!(!stage.beat(zombie.clone()).is_fenced, "it is the same life, and alive again");
    stage.come(&again(1, 11));
    let stale = stage.run(Command::BrokerHeartbeat(zombie)).expect_err("another life");
    assert_eq!(stale.code(), ErrorCode::StaleBrokerEpoch);
    let stranger = BrokerHeartbeat { id: BrokerId(9), ..stage.heartbeat(1) };
    let refused = stage.run(Command::BrokerHeartbeat(stranger)).expect_err("nobody knows it");
    assert_eq!(refused.code(), ErrorCode::BrokerIdNotRegistered);
}

#[test]
fn a_broker_is_fenced_until_its_metadata_has_its_registration() {
    let mut stage = Stage::with(&[1]);
    stage.run(Command::RegisterBroker(registration(2))).expect("it is new");
    let epoch = stage.epoch_of(2);
    let behind = BrokerHeartbeat { metadata_end: Offset(epoch.0), ..stage.heartbeat(2) };
    let heard = stage.beat(behind);
    assert!(heard.is_fenced && !heard.is_caught_up, "{heard:?}");
    let waits = BrokerHeartbeat { wants_fence: true, ..stage.heartbeat(2) };
    let heard = stage.beat(waits);
    assert!(heard.is_fenced && heard.is_caught_up, "{heard:?}");
    assert!(!stage.hear(2).is_fenced);
    let hides = BrokerHeartbeat { wants_fence: true, ..stage.heartbeat(2) };
    assert!(stage.beat(hides).is_fenced);
}

#[test]
fn brokers_that_ask_to_be_fenced_are_unless_nobody_would_be_left() {
    let mut stage = Stage::with(&[1, 2, 3]);
    stage.topic("a", &[&[1, 2, 3]], "1");
    let stuck = |stage: &Stage, id| BrokerHeartbeat { wants_fence: true, ..stage.heartbeat(id) };
    let stops = BrokerHeartbeat { wants_shutdown: true, ..stage.heartbeat(3) };
    stage.beat(stops);
    let asks = stuck(&stage, 1);
    assert!(stage.beat(asks).is_fenced);
    assert_eq!(stage.partition("a", 0).leader, BrokerId(2));
    let asks = stuck(&stage, 2);
    assert!(!stage.beat(asks).is_fenced, "1 is fenced, and 3 is about to stop");
    assert_eq!(stage.partition("a", 0).leader, BrokerId(2));
    assert!(!stage.hear(1).is_fenced, "its disk answers");
    let asks = stuck(&stage, 2);
    assert!(stage.beat(asks).is_fenced);
}

#[test]
fn who_cannot_be_a_member_is_not_registered() {
    let settings = ControllerSettings { cluster_id: Some("ours".into()), ..super::stage::settings() };
    let mut stage = Stage::new(settings);
    let wrong_cluster = RegisterBroker { cluster_id: "theirs".into(), ..registration(1) };
    let endpoint = registration(1).cluster_address.expect("it has one");
    let cases = [
        (wrong_cluster, ErrorCode::InconsistentClusterId),
        (RegisterBroker { log_dirs: Vec::new(), ..registration(1) }, ErrorCode::InvalidRegistration),
        (
            RegisterBroker { log_dirs: vec![Uuid([1; 16]); 2], ..registration(1) },
            ErrorCode::InvalidRegistration,
        ),
        (RegisterBroker { endpoints: vec![endpoint], ..registration(1) }, ErrorCode::InvalidRegistration),
        (registration(-1), ErrorCode::InvalidRequest),
        // No record can say that.
        (RegisterBroker { rack: Some("r".repeat(40_000)), ..registration(1) }, ErrorCode::PolicyViolation),
    ];
    for (broker, code) in cases {
        let refused = stage.run(Command::RegisterBroker(broker)).expect_err("it must not");
        assert_eq!(refused.code(), code);
    }
    stage.come(&RegisterBroker { cluster_id: "ours".into(), ..registration(1) });
    let broker = stage.image().broker(BrokerId(1)).expect("it is registered");
    assert!(broker.cluster_address().is_some());
    assert_eq!(broker.client_endpoints().count(), 1);
}

#[test]
fn a_broker_that_will_not_come_back_is_taken_out_of_everything() {
    let mut stage = Stage::with(&[1, 2]);
    stage.topic("a", &[&[1, 2]], "1");
    stage.run(Command::UnregisterBroker(UnregisterBroker { id: BrokerId(1) })).expect("it is known");
    assert_eq!(stage.line("a", 0), "2@1 isr=2");
    assert_eq!(&stage.partition("a", 0).replicas[..], [1, 2].map(BrokerId), "until it is moved elsewhere");
    stage.come(&registration(3));
    stage.reassign("a", 0, Some(&[3, 2])).expect("it may");
    assert_eq!(stage.line("a", 0), "2@1 isr=2 adding=3 removing=1");
}

#[test]
fn who_was_forgotten_is_not_taken_for_who_it_was() {
    let mut stage = Stage::with(&[1, 2, 3]);
    stage.topic("a", &[&[1, 2, 3]], "3");
    let first = stage.epoch_of(3);
    stage.die(&[3]);
    assert_eq!(stage.line("a", 0), "1@0 isr=1,2 elr=3");
    stage.run(Command::UnregisterBroker(UnregisterBroker { id: BrokerId(3) })).expect("it is known");
    assert_eq!(stage.line("a", 0), "1@0 isr=1,2 elr=3", "it may come back with what it had");
    // Nobody knows any more whether that was its last life.
    stage.come(&RegisterBroker { previous_epoch: Some(first), ..again(3, 33) });
    assert_eq!(stage.line("a", 0), "1@0 isr=1,2");
}

#[test]
fn a_stranger_does_not_take_the_number_of_one_that_lives() {
    let mut stage = Stage::with(&[1, 2]);
    stage.topic("a", &[&[1, 2]], "1");
    let before = stage.epoch_of(1);
    // Its directories are none of those that are known: it is not who was there.
    let stranger =
        RegisterBroker { log_dirs: vec![Uuid([0x44; 16])], in_doubt: InDoubt::Everything, ..again(1, 7) };
    let refused = stage.run(Command::RegisterBroker(stranger.clone())).expect_err("1 is alive");
    assert_eq!(refused.code(), ErrorCode::DuplicateBrokerRegistration);
    assert_eq!((stage.epoch_of(1), stage.line("a", 0).as_str()), (before, "1@0 isr=1,2"));
    // One that comes back with a directory of its own is, and one whose disks were replaced comes in once the
    // one before it is known to be gone.
    let one_more = RegisterBroker { log_dirs: vec![directory(1), Uuid([0x45; 16])], ..again(1, 8) };
    stage.run(Command::RegisterBroker(one_more)).expect("it is the same broker");
    assert_ne!(stage.epoch_of(1), before);
    stage.run(Command::RegisterBroker(stranger)).expect("the one before has not shown that it lives");
}

#[test]
fn who_stopped_alone_in_sync_holds_up_nobody_who_is_eligible() {
    let mut stage = Stage::with(&[1, 2, 3]);
    stage.topic("a", &[&[3, 1, 2]], "3");
    stage.die(&[1]);
    stage.die(&[2]);
    assert_eq!(stage.line("a", 0), "3@0 isr=3 elr=1,2");
    stage.beat(BrokerHeartbeat { wants_shutdown: true, ..stage.heartbeat(3) });
    assert_eq!(stage.line("a", 0), "3@0 isr=3 elr=1,2", "it keeps its place for its next life");
    stage.come(&after_power_cut(2, 22));
    assert_eq!(stage.line("a", 0), "nobody@1 isr= elr=1,3 last=3", "2 may lack something, 3 does not");
    stage.come(&again(1, 11));
    assert_eq!(stage.line("a", 0), "1@2 isr=1 elr=3");
}
