//! Leaders and replicas move because somebody asked for it.

use std::time::Duration;

use base::{BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch};

use super::super::*;
use super::stage::{Stage, after_power_cut, again, directory, registration, settings};

fn code<T: std::fmt::Debug>(outcome: Result<T, ControllerError>) -> ErrorCode {
    outcome.expect_err("it should have been refused").code()
}

#[test]
fn a_controller_that_knows_less_than_a_leader_says_nothing_of_its_partition() {
    let mut stage = Stage::with(&[1, 2, 3]);
    stage.topic("a", &[&[1, 2, 3]], "2");
    let asked = stage.alteration("a", 0, &[1, 2]);
    let mut later = [asked.clone(), asked];
    later[0].partition_epoch += 1;
    later[1].leader_epoch.0 += 1;
    for asked in later {
        let partitions = vec![asked];
        let command = AlterPartitions { broker: BrokerId(1), broker_epoch: stage.epoch_of(1), partitions };
        let refused = stage.run(Command::AlterPartitions(command));
        assert_eq!(
            refused,
            Err(ControllerError::NotController { active: None }),
            "it was deposed, and not told"
        );
    }
}

#[test]
fn an_in_sync_set_changes_only_if_nothing_else_did() {
    let mut stage = Stage::with(&[1, 2, 3]);
    stage.topic("a", &[&[1, 2, 3]], "2");
    let late = stage.alteration("a", 0, &[1, 2]);
    stage.alter("a", 0, &[1, 3]).expect("it is the leader's word");
    assert_eq!(code(stage.alter_as(1, late.clone())), ErrorCode::InvalidUpdateVersion);
    assert_eq!(code(stage.alter_as(2, stage.alteration("a", 0, &[2, 3]))), ErrorCode::InvalidRequest);
    assert_eq!(code(stage.alter("a", 0, &[3])), ErrorCode::InvalidRequest, "without the leader");
    assert_eq!(code(stage.alter("a", 0, &[1, 1])), ErrorCode::InvalidRequest, "one of them twice");
    let mut other_life = stage.alteration("a", 0, &[1, 2, 3]);
    other_life.isr[1].1 = BrokerEpoch(stage.epoch_of(2).0 - 1);
    assert_eq!(code(stage.alter_as(1, other_life.clone())), ErrorCode::IneligibleReplica, "KIP-903");
    other_life.isr[1].1 = BrokerEpoch::NONE;
    assert_eq!(
        code(stage.alter_as(1, other_life)),
        ErrorCode::IneligibleReplica,
        "it must be said for who is new"
    );
    let late = stage.alteration("a", 0, &[1, 3, 2]);
    let mut nothing_new = stage.alteration("a", 0, &[1, 3]);
    nothing_new.isr.iter_mut().for_each(|member| member.1 = BrokerEpoch::NONE);
    let altered = stage.alter_as(1, nothing_new).expect("it is so");
    assert_eq!(
        (altered.partition_epoch, stage.line("a", 0)),
        (late.partition_epoch + 1, "1@0 isr=1,3".into())
    );
    assert_eq!(code(stage.alter_as(1, late.clone())), ErrorCode::InvalidUpdateVersion, "it was taken back");
    stage.run(Command::RegisterBroker(again(2, 22))).expect("it came back");
    assert_eq!(code(stage.alter("a", 0, &[1, 2, 3])), ErrorCode::IneligibleReplica, "it is fenced");
    stage.hear(2);
    stage.alter("a", 0, &[1, 2, 3]).expect("it has caught up");
    let nowhere = AlterPartition { partition: base::PartitionIndex(7), ..late };
    assert_eq!(code(stage.alter_as(1, nowhere)), ErrorCode::UnknownTopicOrPartition);
}

#[test]
fn leaders_are_elected_when_asked() {
    let mut stage = Stage::with(&[1, 2, 3]);
    stage.topic("a", &[&[1, 2], &[3, 2]], "1");
    assert_eq!(code(stage.elect(ElectionKind::Preferred, "a", 0)), ErrorCode::ElectionNotNeeded);
    assert_eq!(code(stage.elect(ElectionKind::Unclean, "a", 0)), ErrorCode::ElectionNotNeeded);
    assert_eq!(code(stage.elect(ElectionKind::Preferred, "b", 0)), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(code(stage.elect(ElectionKind::Preferred, "a", 7)), ErrorCode::UnknownTopicOrPartition);
    stage.die(&[1]);
    assert_eq!(code(stage.elect(ElectionKind::Preferred, "a", 0)), ErrorCode::PreferredLeaderNotAvailable);
    stage.come(&again(1, 11));
    assert_eq!(code(stage.elect(ElectionKind::Preferred, "a", 0)), ErrorCode::PreferredLeaderNotAvailable);
    stage.alter("a", 0, &[2, 1]).expect("it has caught up");
    let all = ElectLeaders { kind: ElectionKind::Preferred, partitions: None };
    let reply = stage.run(Command::ElectLeaders(all)).expect("it runs");
    let Reply::ElectLeaders(elected) = reply else { panic!("{reply:?}") };
    assert_eq!(elected.len(), 1, "the others have theirs: {elected:?}");
    assert_eq!(stage.line("a", 0), "1@2 isr=2,1");
}

#[test]
fn an_unclean_leader_is_elected_only_when_it_is_allowed() {
    let mut stage = Stage::with(&[1, 2]);
    stage.topic("a", &[&[1, 2]], "1");
    stage.topic("b", &[&[1, 2]], "1");
    stage.set("b", "unclean.leader.election.enable", "true");
    stage.alter("a", 0, &[1]).expect("2 is far behind");
    stage.alter("b", 0, &[1]).expect("2 is far behind");
    stage.die(&[1]);
    assert_eq!(stage.line("a", 0), "nobody@1 isr= elr=1 last=1");
    assert_eq!(stage.line("b", 0), "2@1 isr=2 recovering", "the topic says so");
    let [a, b] = ["a", "b"].map(|name| stage.image().topic(name).expect("it is there").id);
    assert_eq!(stage.take_unclean(), [(b, 1, 2, 1, false)], "and nothing else is by default");
    stage.elect(ElectionKind::Unclean, "a", 0).expect("somebody says so");
    assert_eq!(stage.line("a", 0), "2@2 isr=2 recovering");
    assert_eq!(stage.take_unclean(), [(a, 1, 2, 2, false)]);
    let both = AlterPartition { recovering: true, ..stage.alteration("a", 0, &[2]) };
    stage.alter_as(2, both).expect("it still does");
    stage.alter("a", 0, &[2]).expect("it has recovered");
    assert_eq!(stage.line("a", 0), "2@2 isr=2");
    stage.come(&again(1, 11));
    stage.alter("a", 0, &[2, 1]).expect("it has caught up");
    stage.elect(ElectionKind::Preferred, "a", 0).expect("it is in sync");
    assert_eq!(stage.line("a", 0), "1@3 isr=2,1");
    assert_eq!(stage.partition("a", 0).unclean_epoch, LeaderEpoch(2), "for those who come back later still");
    assert_eq!(stage.take_unclean(), []);
}

#[test]
fn whoever_allows_an_unclean_election_does_not_wait_for_it() {
    let mut stage = Stage::with(&[1, 2]);
    stage.topic("a", &[&[1, 2]], "1");
    stage.topic("b", &[&[1, 2]], "1");
    for name in ["a", "b"] {
        stage.alter(name, 0, &[1]).expect("2 is far behind");
    }
    stage.die(&[1]);
    assert_eq!(stage.line("a", 0), "nobody@1 isr= elr=1 last=1");
    stage.set("a", "unclean.leader.election.enable", "true");
    assert_eq!(stage.line("a", 0), "2@2 isr=2 recovering");
    assert_eq!(stage.line("b", 0), "nobody@1 isr= elr=1 last=1", "nothing was said of it");
}

/// It keeps its place when it stops, for nobody could take it. Once it is on its way back, nobody is elected that lacks
/// what it has.
#[test]
fn who_comes_back_is_waited_for_although_an_unclean_election_is_allowed() {
    let mut stage = Stage::with(&[1, 2]);
    stage.topic("a", &[&[1, 2]], "1");
    stage.alter("a", 0, &[1]).expect("2 is far behind");
    while !stage.beat(BrokerHeartbeat { wants_shutdown: true, ..stage.heartbeat(1) }).should_shut_down {
        stage.hear(2);
    }
    assert_eq!(stage.line("a", 0), "1@0 isr=1", "it is fenced");
    let epoch = stage.epoch_of(1);
    stage
        .run(Command::RegisterBroker(RegisterBroker { previous_epoch: Some(epoch), ..again(1, 11) }))
        .expect("it may");
    stage.set("a", "unclean.leader.election.enable", "true");
    assert_eq!(stage.line("a", 0), "1@0 isr=1", "it is on its way, and has everything");
    stage.beat(BrokerHeartbeat { wants_fence: false, ..stage.heartbeat(1) });
    while !stage.beat(BrokerHeartbeat { wants_shutdown: true, ..stage.heartbeat(1) }).should_shut_down {
        stage.hear(2);
    }
    assert_eq!(stage.line("a", 0), "2@1 isr=2 recovering", "it stops where that is allowed");
}

#[test]
fn who_stopped_in_order_is_not_waited_for_once_an_unclean_election_is_allowed() {
    let mut stage = Stage::with(&[1, 2]);
    stage.topic("a", &[&[1, 2]], "1");
    stage.alter("a", 0, &[1]).expect("2 is far behind");
    while !stage.beat(BrokerHeartbeat { wants_shutdown: true, ..stage.heartbeat(1) }).should_shut_down {
        stage.hear(2);
    }
    stage.set("a", "unclean.leader.election.enable", "true");
    assert_eq!(stage.line("a", 0), "2@1 isr=2 recovering");
}

#[test]
fn nobody_is_elected_uncleanly_unless_that_is_asked_for() {
    let mut stage = Stage::with(&[1, 2, 3]);
    stage.topic("a", &[&[1, 2, 3], &[2, 3, 1], &[3, 1, 2]], "2");
    for index in 0..3 {
        let leader = stage.partition("a", index).leader.0;
        stage.alter("a", index, &[leader]).expect("the others are far behind");
    }
    stage.set("a", "min.insync.replicas", "1");
    for dead in [[1, 2], [2, 3], [3, 1]] {
        stage.die(&dead);
        let lives = 6 - dead[0] - dead[1];
        for index in 0..3 {
            let line = stage.line("a", index);
            let is_own = stage.partition("a", index).replicas[0] == BrokerId(lives);
            assert_eq!(line.starts_with("nobody"), !is_own, "{lives} lives, {index}: {line}");
        }
        dead.iter().for_each(|&id| stage.come(&again(id, 10 * (1 + dead[0].unsigned_abs() as u8))));
    }
    assert_eq!(stage.take_unclean(), []);
    stage.die(&[1, 2, 3]);
    stage.come(&after_power_cut(2, 99));
    assert_eq!(stage.line("a", 0), "nobody@5 isr= elr=1 last=1");
    assert_eq!(stage.line("a", 1), "2@6 isr=2 recovering", "nobody else can have more");
    let id = stage.image().topic("a").expect("it is there").id;
    assert_eq!(stage.take_unclean(), [(id, 2, 2, 6, true)]);
}

#[test]
fn a_lower_minimum_makes_nobody_eligible_who_will_lack_something() {
    let mut stage = Stage::with(&[1, 2]);
    stage.topic("a", &[&[1, 2]], "2");
    stage.topic("b", &[&[1, 2]], "2");
    stage.die(&[2]);
    assert_eq!(stage.line("a", 0), "1@0 isr=1 elr=2");
    stage.set("a", "min.insync.replicas", "1");
    assert_eq!(stage.line("a", 0), "1@0 isr=1", "1 goes on alone, without 2");
    assert_eq!(stage.line("b", 0), "1@0 isr=1 elr=2");
}

#[test]
fn a_partition_moves_when_those_who_come_are_in_sync() {
    let mut stage = Stage::with(&[1, 2, 3, 4]);
    stage.topic("a", &[&[1, 2]], "2");
    assert_eq!(code(stage.reassign("a", 0, None)), ErrorCode::NoReassignmentInProgress);
    assert_eq!(code(stage.reassign("a", 0, Some(&[]))), ErrorCode::InvalidReplicaAssignment);
    assert_eq!(code(stage.reassign("a", 0, Some(&[9]))), ErrorCode::InvalidReplicaAssignment);
    assert_eq!(code(stage.reassign("a", 0, Some(&[3, 3]))), ErrorCode::InvalidReplicaAssignment);
    stage.reassign("a", 0, Some(&[3, 4])).expect("it may");
    assert_eq!(stage.line("a", 0), "1@0 isr=1,2 adding=3,4 removing=1,2");
    stage.alter("a", 0, &[1, 2, 3]).expect("3 has caught up");
    assert_eq!(stage.line("a", 0), "1@0 isr=1,2,3 adding=3,4 removing=1,2");
    let done = stage.alter("a", 0, &[1, 2, 3, 4]);
    assert_eq!(code(done), ErrorCode::NewLeaderElected);
    assert_eq!(stage.line("a", 0), "3@1 isr=3,4");
    assert_eq!(&stage.partition("a", 0).replicas[..], [3, 4].map(BrokerId));
}

#[test]
fn who_goes_stays_while_the_minimum_is_not_kept_without_it() {
    let mut stage = Stage::with(&[1, 2, 3]);
    stage.topic("a", &[&[1, 2, 3]], "2");
    stage.alter("a", 0, &[1, 3]).expect("2 is far behind");
    stage.die(&[1]);
    assert_eq!(stage.line("a", 0), "3@1 isr=3 elr=1", "what was acknowledged is on 1 and 3");
    stage.reassign("a", 0, Some(&[3, 2])).expect("it may");
    assert_eq!(stage.line("a", 0), "3@1 isr=3 elr=1 removing=1", "without 1 it would be on 3 alone");
    stage.alter("a", 0, &[3, 2]).expect("2 has caught up");
    assert_eq!(stage.line("a", 0), "3@2 isr=3,2");
    assert_eq!(&stage.partition("a", 0).replicas[..], [3, 2].map(BrokerId));
}

#[test]
fn who_comes_stays_while_the_minimum_is_not_kept_without_it() {
    let mut stage = Stage::with(&[1, 2, 3, 4]);
    stage.topic("a", &[&[1, 2]], "2");
    stage.reassign("a", 0, Some(&[3, 4])).expect("it may");
    stage.alter("a", 0, &[1, 2, 3]).expect("3 has caught up");
    stage.alter("a", 0, &[1, 3]).expect("2 has fallen behind");
    let before = "1@0 isr=1,3 adding=3,4 removing=1,2";
    assert_eq!(stage.line("a", 0), before);
    for without_3 in [None, Some(&[4, 1][..])] {
        let refused = stage.reassign("a", 0, without_3);
        assert_eq!(code(refused), ErrorCode::InvalidReplicaAssignment, "what is acknowledged is on 1 and 3");
        assert_eq!(stage.line("a", 0), before);
    }
    stage.alter("a", 0, &[1, 2, 3]).expect("2 has caught up again");
    stage.reassign("a", 0, None).expect("1 and 2 have all");
    assert_eq!(stage.line("a", 0), "1@1 isr=1,2");
}

#[test]
fn who_comes_stays_while_nobody_else_is_in_sync() {
    let mut stage = Stage::with(&[1, 2, 3, 4]);
    stage.topic("a", &[&[1, 2]], "3");
    stage.reassign("a", 0, Some(&[3, 4])).expect("it may");
    stage.alter("a", 0, &[1, 2, 3]).expect("3 has caught up");
    stage.die(&[1, 2]);
    let before = "3@1 isr=3 elr=1,2 adding=3,4 removing=1,2";
    assert_eq!(stage.line("a", 0), before);
    let refused = stage.reassign("a", 0, None).expect_err("nobody would lead it");
    assert_eq!(refused.code(), ErrorCode::InvalidReplicaAssignment);
    let why =
        "None of the replicas of a-0 that would stay is in sync: 3 is, on the way in, and would be dropped.";
    assert!(refused.to_string().starts_with(why), "{refused}");
    assert_eq!(stage.line("a", 0), before);
    stage.come(&again(1, 11));
    stage.alter("a", 0, &[3, 1]).expect("1 has caught up");
    stage.reassign("a", 0, None).expect("1 and 2 have all");
    assert_eq!(stage.line("a", 0), "1@2 isr=1 elr=2");
}

#[test]
fn who_comes_stays_while_nobody_but_it_may_have_all() {
    for fails in ["power", "directory"] {
        let mut stage = Stage::with(&[1, 2, 3, 4]);
        stage.topic("a", &[&[1, 2]], "1");
        stage.reassign("a", 0, Some(&[3, 4])).expect("it may");
        stage.alter("a", 0, &[1, 2, 3]).expect("3 has caught up");
        stage.die(&[1, 2]);
        assert_eq!(stage.line("a", 0), "3@1 isr=3 adding=3,4 removing=1,2", "3 goes on alone");
        if fails == "power" {
            stage.run(Command::RegisterBroker(after_power_cut(3, 33))).expect("it may");
        } else {
            stage.beat(BrokerHeartbeat { offline_log_dirs: vec![directory(3)], ..stage.heartbeat(3) });
        }
        [1, 2].into_iter().for_each(|id| stage.come(&again(id, 11)));
        let before = "nobody@2 isr= last=3 adding=3,4 removing=1,2";
        assert_eq!(stage.line("a", 0), before, "{fails}");
        for without_3 in [None, Some(&[4, 1][..])] {
            let refused = stage.reassign("a", 0, without_3).expect_err("what is acknowledged is on 3 alone");
            assert_eq!(refused.code(), ErrorCode::InvalidReplicaAssignment, "{fails}");
            assert!(refused.to_string().contains("on nobody but 3, on the way in"), "{refused}");
            assert_eq!(stage.line("a", 0), before, "{fails}");
        }
        stage.reassign("a", 0, Some(&[3, 1, 2])).expect("3 stays");
        assert_eq!(stage.line("a", 0), "nobody@2 isr= last=3 adding=3", "{fails}");
        stage.elect(ElectionKind::Unclean, "a", 0).expect("somebody says so");
        stage.reassign("a", 0, None).expect("what 3 alone had was given up before");
        assert_eq!(stage.line("a", 0), "1@4 isr=1 recovering", "{fails}");
    }
}

#[test]
fn a_move_can_be_taken_back_or_turned_elsewhere() {
    let mut stage = Stage::with(&[1, 2, 3, 4]);
    stage.topic("a", &[&[1, 2]], "1");
    stage.reassign("a", 0, Some(&[3, 2])).expect("it may");
    stage.reassign("a", 0, Some(&[4, 2])).expect("somewhere else");
    assert_eq!(stage.line("a", 0), "1@1 isr=1,2 adding=4 removing=1", "what 3 still says counts no more");
    assert_eq!(&stage.partition("a", 0).replicas[..], [4, 2, 1].map(BrokerId), "3 was only coming");
    stage.reassign("a", 0, None).expect("it is under way");
    assert_eq!(stage.line("a", 0), "1@2 isr=1,2");
    stage.reassign("a", 0, Some(&[2])).expect("fewer");
    assert_eq!(stage.line("a", 0), "2@3 isr=2", "nobody has to come first");
    stage.reassign("a", 0, Some(&[2, 3])).expect("more");
    stage.alter("a", 0, &[2, 3]).expect("it has caught up");
    assert_eq!(stage.line("a", 0), "2@3 isr=2,3", "who comes changes nothing for the others");
    let resize = Reassignment {
        topic: "a".into(),
        partition: base::PartitionIndex(0),
        replicas: Some(vec![BrokerId(1)]),
    };
    let strict = AlterReassignments { partitions: vec![resize], allow_replication_factor_change: false };
    let reply = stage.run(Command::AlterReassignments(strict)).expect("it runs");
    let Reply::AlterReassignments(mut outcomes) = reply else { panic!("{reply:?}") };
    assert_eq!(code(outcomes.remove(0)), ErrorCode::InvalidReplicationFactor);
}

#[test]
fn leaderships_go_back_to_who_is_first_in_line() {
    let every = Duration::from_secs(10);
    let mut stage = Stage::new(ControllerSettings { balance_interval: Some(every), ..settings() });
    [1, 2].into_iter().for_each(|id| stage.come(&registration(id)));
    stage.topic("a", &[&[1, 2], &[2, 1]], "1");
    stage.come(&again(1, 11));
    stage.alter("a", 0, &[2, 1]).expect("it has caught up");
    stage.alter("a", 1, &[2, 1]).expect("it has caught up");
    assert_eq!(stage.line("a", 0), "2@1 isr=2,1");
    stage.pass(every, &[1, 2]);
    assert_eq!(stage.line("a", 0), "1@2 isr=2,1");
    assert_eq!(stage.line("a", 1), "2@0 isr=2,1");
}

/// A topic of which nothing is said but its name.
fn by_default(name: &str) -> Command {
    let topic = NewTopic {
        name: name.into(),
        partitions: 1,
        replication_factor: -1,
        assignments: Vec::new(),
        configs: Vec::new(),
        random: name.len() as u128 * 7 + u128::from(name.as_bytes()[0]),
    };
    Command::CreateTopics(CreateTopics { topics: vec![topic], validate_only: false })
}

#[test]
fn a_topic_of_three_can_lose_one_and_of_one_none() {
    let mut stage = Stage::with(&[1]);
    let configs = |stage: &Stage, name: &str| {
        let name = base::TopicName::new(name).expect("legal");
        stage.image().configs(&metadata::ConfigResource::Topic(name)).len()
    };
    let factor = |stage: &mut Stage, name: &str| {
        stage.run(by_default(name)).expect("it runs");
        (stage.partition(name, 0).replicas.len(), configs(stage, name))
    };
    assert_eq!(factor(&mut stage, "a"), (1, 0));
    stage.come(&registration(2));
    assert_eq!(factor(&mut stage, "bb"), (2, 0));
    stage.come(&registration(3));
    stage.come(&registration(4));
    assert_eq!(factor(&mut stage, "ccc"), (3, 1));
    let set =
        stage.image().configs(&metadata::ConfigResource::Topic(base::TopicName::new("ccc").expect("legal")));
    assert_eq!(set.get("min.insync.replicas").map(String::as_str), Some("2"));
}

#[test]
fn a_topic_made_while_a_broker_is_away_has_it_too() {
    let mut stage = Stage::with(&[1, 2, 3]);
    stage.die(&[2]);
    stage.run(by_default("a")).expect("it runs");
    let made = stage.partition("a", 0);
    assert_eq!((made.replicas.len(), made.isr.len()), (3, 2), "{made:?}");
    assert!(!made.isr.contains(&BrokerId(2)), "{made:?}");
}

#[test]
fn a_cluster_that_still_forms_makes_nothing_for_fewer_than_it_will_have() {
    let mut stage = Stage::new(ControllerSettings { brokers_expected: 3, ..settings() });
    let refusal = |reply: Result<Reply, ControllerError>| match reply {
        Ok(Reply::CreateTopics(made)) => made.into_iter().next().and_then(Result::err),
        other => panic!("{other:?}"),
    };
    for id in [1, 2] {
        stage.come(&registration(id));
        let refused = refusal(stage.run(by_default("a"))).map(|why| why.to_string()).unwrap_or_default();
        assert!(refused.contains(&format!("{id} of the 3 brokers of cluster.peers")), "{refused}");
    }
    stage.come(&registration(3));
    assert_eq!(refusal(stage.run(by_default("a"))), None);
    assert_eq!(stage.partition("a", 0).replicas.len(), 3);
}

#[test]
fn replicas_are_spread_over_the_racks_and_leaders_over_the_brokers() {
    let mut stage = Stage::with(&[]);
    for (id, rack) in [(1, "x"), (2, "x"), (3, "y"), (4, "y"), (5, "z"), (6, "z")] {
        stage.come(&RegisterBroker { rack: Some(rack.into()), ..registration(id) });
    }
    let topic = NewTopic {
        name: "a".into(),
        partitions: 60,
        replication_factor: 3,
        assignments: Vec::new(),
        configs: Vec::new(),
        random: 5,
    };
    let create = CreateTopics { topics: vec![topic], validate_only: false };
    stage.run(Command::CreateTopics(create)).expect("it runs");
    let (mut leads, mut has) = ([0; 7], [0; 7]);
    for partition in stage.image().topic("a").expect("it was made").partitions() {
        let mut racks: Vec<i32> = partition.replicas.iter().map(|id| (id.0 - 1) / 2).collect();
        racks.sort_unstable();
        assert_eq!(racks, [0, 1, 2], "{:?}", partition.replicas);
        leads[partition.leader.0 as usize] += 1;
        partition.replicas.iter().for_each(|id| has[id.0 as usize] += 1);
    }
    assert_eq!(leads, [0, 10, 10, 10, 10, 10, 10]);
    assert!(has[1..].iter().all(|count| (24..=36).contains(count)), "{has:?}");
}

#[test]
fn a_feature_goes_where_all_can_follow() {
    let mut stage = Stage::with(&[1]);
    let mut update = |name: &str, level| {
        let direction = FeatureDirection::Upgrade;
        let updates = vec![FeatureUpdate { name: name.into(), level, direction }];
        let command = UpdateFeatures { updates, validate_only: false };
        match stage.run(Command::UpdateFeatures(command)) {
            Ok(Reply::UpdateFeatures(mut outcomes)) => outcomes.remove(0),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(update("metadata.version", metadata::METADATA_VERSION), Ok(()));
    assert_eq!(code(update("metadata.version", 99)), ErrorCode::InvalidUpdateVersion);
    assert_eq!(code(update("no.such", 1)), ErrorCode::InvalidUpdateVersion);
}
