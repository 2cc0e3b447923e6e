//! Members come, go, are slow, and are not heard.

use super::super::*;
use super::stage::{Client, Stage};

#[test]
fn the_first_member_reads_all_at_once() {
    let mut stage = Stage::with(&[("t", 4)]);
    assert_eq!(stage.join("a", &["t"]), "a@1 t[0,1,2,3]");
    assert_eq!(stage.shown(), "Stable 1/1 | a@1 t[0,1,2,3]");
    let kinds: Vec<String> =
        stage.written.iter().map(|it| format!("{it:?}").split('(').next().unwrap_or("").into()).collect();
    let expected = [
        "MemberMetadata",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
    ];
    assert_eq!(kinds, expected);
    let written = stage.written.len();
    assert_eq!(stage.beat("a"), "a@1 t[0,1,2,3]");
    assert_eq!(stage.written.len(), written, "nothing new, nothing written");
}

#[test]
fn g28_what_moves_is_given_back_before_it_is_given_away() {
    let mut stage = Stage::with(&[("t", 4)]);
    stage.join("a", &["t"]);
    assert_eq!(stage.join("b", &["t"]), "b@2", "all of it is taken");
    assert_eq!(stage.shown(), "Reconciling 2/2 | a@1 t[0,1,2,3] | b@2 …");
    assert_eq!(stage.slow_beat("a"), "a@1 t[0,1,2,3]", "it has not given anything back yet");
    assert_eq!(stage.shown(), "Reconciling 2/2 | a@1 t[0,1] -t[2,3] | b@2 …");
    assert_eq!(stage.beat("b"), "b@2", "so the other one goes on waiting");
    assert_eq!(stage.beat("a"), "a@2 t[0,1]", "now it has");
    assert_eq!(stage.beat("b"), "b@2 t[2,3]");
    assert_eq!(stage.shown(), "Stable 2/2 | a@2 t[0,1] | b@2 t[2,3]");
}

#[test]
fn a_third_member_takes_from_one_and_the_other_does_not_notice() {
    let mut stage = Stage::with(&[("t", 5)]);
    stage.join("a", &["t"]);
    stage.join("b", &["t"]);
    assert_eq!(stage.settle(), "Stable 2/2 | a@2 t[0,1,2] | b@2 t[3,4]");
    stage.join("c", &["t"]);
    assert_eq!(stage.settle(), "Stable 3/3 | a@3 t[0,1] | b@3 t[3,4] | c@3 t[2]");
}

#[test]
fn whoever_waits_is_asked_to_hurry_and_so_are_all_while_others_may_come() {
    let mut stage = Stage::with(&[("t", 2)]);
    stage.join("a", &["t"]);
    let request = |id| wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest {
        group_id: "g",
        member_id: id,
        rebalance_timeout_ms: 10_000,
        subscribed_topic_names: Some(vec!["t"]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    let reply = stage.request(&request("b")).expect("it joins").reply;
    assert_eq!(reply.heartbeat_interval, HURRY);
    let told = wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest {
        member_epoch: 1,
        group_id: "g",
        member_id: "a",
        ..Default::default()
    };
    // It is to give up half, and others may come yet.
    assert_eq!(stage.request(&told).expect("it is there").reply.heartbeat_interval, HURRY);

    // All is well for a while, or another coordinates that knows nothing of that.
    for moves in [false, true] {
        all_is_well(moves);
    }
}

fn all_is_well(moves: bool) {
    let mut stage = Stage::with(&[("t", 2)]);
    stage.join("a", &["t"]);
    stage.join("b", &["t"]);
    stage.settle();
    if moves {
        stage.reload();
    } else {
        stage.wait(5_000);
    }
    for member_id in ["a", "b"] {
        let told = wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest {
            member_epoch: 2,
            group_id: "g",
            member_id,
            ..Default::default()
        };
        let reply = stage.request(&told).expect("it is there").reply;
        assert_eq!(reply.heartbeat_interval, Duration::from_secs(5), "all is well");
    }
}

#[test]
fn a_silent_member_is_out_when_its_session_ends() {
    let mut stage = Stage::with(&[("t", 2)]);
    stage.join("a", &["t"]);
    stage.join("b", &["t"]);
    stage.settle();
    stage.wait(30_000);
    stage.beat("a");
    let fenced = stage.wait(20_000);
    assert_eq!(fenced, [Fenced { member: "b".into(), because: FencedBecause::Silent }]);
    assert_eq!(stage.shown(), "Reconciling 3/3 | a@2 t[0]", "the targets are made at once");
    assert_eq!(stage.beat("a"), "a@3 t[0,1]");
    assert_eq!(stage.beat("b"), "UNKNOWN_MEMBER_ID");
    assert_eq!(stage.beat("b"), "b@4", "it joins again");
}

#[test]
fn a_slow_member_is_out_when_it_had_its_time() {
    let mut stage = Stage::with(&[("t", 2)]);
    stage.join("a", &["t"]);
    stage.join("b", &["t"]);
    stage.slow_beat("a");
    for _ in 0..9 {
        assert_eq!(stage.wait(1000), []);
        assert_eq!(stage.slow_beat("a"), "a@1 t[0,1]");
        assert_eq!(stage.beat("b"), "b@2");
    }
    let fenced = stage.wait(1000);
    assert_eq!(fenced, [Fenced { member: "a".into(), because: FencedBecause::Slow }]);
    assert_eq!(stage.beat("b"), "b@3 t[0,1]");
}

/// What it has to give back was told to the process before it, if to any.
#[test]
fn a_slow_member_that_joins_again_has_all_its_time() {
    let mut stage = Stage::with(&[("t", 2)]);
    stage.join("a", &["t"]);
    stage.join("b", &["t"]);
    stage.slow_beat("a");
    assert_eq!(stage.wait(9000), []);
    stage.join("a", &["t"]);
    assert_eq!(stage.wait(9000), []);
    assert_eq!(stage.beat("a"), "a@2 t[0]");
    assert_eq!(stage.beat("b"), "b@2 t[1]");
}

#[test]
fn a_lost_answer_is_said_again() {
    let mut stage = Stage::with(&[("t", 4)]);
    stage.client("a", &["t"]);
    stage.lost_beat("a");
    assert_eq!(stage.beat("a"), "a@1 t[0,1,2,3]", "the answer to the join");
    stage.join("b", &["t"]);
    stage.lost_beat("a");
    assert_eq!(stage.beat("a"), "a@1 t[0,1,2,3]", "what it should have now");
    stage.lost_beat("a");
    assert_eq!(
        stage.shown(),
        "Reconciling 2/2 | a@2 t[0,1] | b@2 …",
        "it gave back, but does not know its epoch"
    );
    assert_eq!(stage.beat("a"), "a@2 t[0,1]", "the epoch before will do");
    assert_eq!(stage.beat("b"), "b@2 t[2,3]");
}

/// A request that its own retry overtook says what the member had before that: it is no word about what it has now.
#[test]
fn a_request_that_comes_late_gives_nothing_back() {
    let mut stage = Stage::with(&[("t", 2)]);
    stage.join("a", &["t"]);
    stage.join("b", &["t"]);
    assert_eq!(stage.settle(), "Stable 2/2 | a@2 t[0] | b@2 t[1]");
    let late = Client { unsure: true, ..stage.clients["a"].clone() };
    stage.leave("b", EPOCH_LEAVE).expect("it is there");
    assert_eq!(stage.beat("a"), "a@3 t[0,1]");
    stage.join("c", &["t"]);
    let comes_late = |stage: &mut Stage| {
        let now = stage.clients.insert("a".into(), late.clone()).expect("it is there");
        stage.lost_beat("a");
        stage.clients.insert("a".into(), now);
    };
    comes_late(&mut stage);
    assert_eq!(stage.beat("c"), "c@4", "a reads all of it");
    assert_eq!(stage.slow_beat("a"), "a@3 t[0,1]");
    assert_eq!(stage.shown(), "Reconciling 4/4 | a@3 t[0] -t[1] | c@4 …");
    comes_late(&mut stage);
    assert_eq!(stage.beat("c"), "c@4", "and goes on until it says otherwise");
    assert_eq!(stage.beat("a"), "a@4 t[0]");
    assert_eq!(stage.beat("c"), "c@4 t[1]");
}

/// Whoever lost the answer in which it got something is told so, and asked for it, one after the other.
#[test]
fn what_a_member_was_never_told_of_is_given_back_in_time() {
    let mut stage = Stage::with(&[("t", 2)]);
    stage.join("a", &["t"]);
    stage.join("b", &["t"]);
    stage.settle();
    stage.leave("b", EPOCH_LEAVE).expect("it is there");
    stage.lost_beat("a");
    stage.join("c", &["t"]);
    assert_eq!(stage.beat("a"), "a@3 t[0,1]");
    assert_eq!(stage.settle(), "Stable 4/4 | a@4 t[0] | c@4 t[1]");
}

#[test]
fn an_answer_that_is_too_old_does_not_pass() {
    let mut stage = Stage::with(&[("t", 4)]);
    stage.join("a", &["t"]);
    stage.join("b", &["t"]);
    stage.settle();
    let old = stage.clients["a"].clone();
    stage.join("c", &["t"]);
    stage.settle();
    stage.join("d", &["t"]);
    stage.settle();
    stage.clients.insert("a".into(), old);
    assert_eq!(stage.beat("a"), "FENCED_MEMBER_EPOCH", "it is two epochs late");
    assert_eq!(stage.beat("a"), "a@4 t[0]", "and joins again");
}

#[test]
fn a_member_that_joins_under_its_own_id_gets_its_answer_and_takes_nothing_from_others() {
    let mut stage = Stage::with(&[("t", 4)]);
    stage.join("a", &["t"]);
    stage.join("b", &["t"]);
    stage.slow_beat("a");
    assert_eq!(stage.join("a", &["t"]), "a@1 t[0,1]", "its process began anew");
    assert_eq!(stage.beat("b"), "b@2", "until it says what it has, nobody else gets it");
    assert_eq!(stage.beat("a"), "a@2 t[0,1]");
    assert_eq!(stage.beat("b"), "b@2 t[2,3]");
}

#[test]
fn a_static_member_comes_back_to_what_it_had() {
    let mut stage = Stage::with(&[("t", 4)]);
    stage.client("a", &["t"]).instance = Some("one".into());
    stage.beat("a");
    stage.join("b", &["t"]);
    assert_eq!(stage.settle(), "Stable 2/2 | a@2 t[0,1] | b@2 t[2,3]");
    stage.client("x", &["t"]).instance = Some("one".into());
    assert_eq!(stage.beat("x"), "UNRELEASED_INSTANCE_ID", "the other one is there");
    stage.clients.remove("x");
    stage.leave("a", EPOCH_LEFT_STATIC).expect("it is static");
    assert_eq!(stage.shown(), "Reconciling 2/2 | a@-2 t[0,1] | b@2 t[2,3]");
    stage.client("c", &["t"]).instance = Some("one".into());
    assert_eq!(stage.beat("c"), "c@2 t[0,1]", "under another id, in the same epoch");
    assert_eq!(stage.shown(), "Stable 2/2 | b@2 t[2,3] | c@2 t[0,1]");
    stage.client("a", &["t"]).instance = Some("one".into());
    stage.clients.get_mut("a").expect("a client").epoch = 2;
    assert_eq!(stage.beat("a"), "FENCED_INSTANCE_ID");
}

#[test]
fn a_static_member_that_stays_away_is_out_when_its_session_ends() {
    let mut stage = Stage::with(&[("t", 2)]);
    stage.client("a", &["t"]).instance = Some("one".into());
    stage.beat("a");
    stage.leave("a", EPOCH_LEFT_STATIC).expect("it is static");
    assert_eq!(stage.wait(46_000).len(), 1);
    assert_eq!(stage.shown(), "Empty 2/1");
}

#[test]
fn whoever_leaves_for_good_leaves_at_once() {
    let mut stage = Stage::with(&[("t", 2)]);
    stage.join("a", &["t"]);
    stage.join("b", &["t"]);
    stage.settle();
    stage.leave("a", EPOCH_LEAVE).expect("it is there");
    assert_eq!(stage.beat("b"), "b@3 t[0,1]");
    stage.leave("b", EPOCH_LEAVE).expect("it is there");
    assert_eq!(stage.shown(), "Empty 4/3");
    assert_eq!(stage.join("c", &["t"]), "c@5 t[0,1]", "the epochs go on");
}

#[test]
fn targets_are_made_once_for_many_that_come_together() {
    let mut stage = Stage::with(&[("t", 8)]);
    stage.settings.assignment_interval = Duration::from_secs(1);
    stage.join("a", &["t"]);
    for name in ["b", "c", "d"] {
        stage.wait(100);
        assert_eq!(stage.join(name, &["t"]), format!("{name}@1"), "there are no targets for it yet");
    }
    assert_eq!(stage.shown(), "Assigning 4/1 | a@1 t[0,1,2,3,4,5,6,7] | b@1 | c@1 | d@1");
    stage.wait(700);
    assert_eq!(stage.shown(), "Reconciling 4/4 | a@1 t[0,1,2,3,4,5,6,7] | b@1 | c@1 | d@1");
    assert_eq!(stage.settle(), "Stable 4/4 | a@4 t[0,1] | b@4 t[4,7] | c@4 t[3,6] | d@4 t[2,5]");
}

#[test]
fn another_coordinator_goes_on_where_this_one_was() {
    let mut stage = Stage::with(&[("t", 4)]);
    stage.join("a", &["t"]);
    stage.join("b", &["t"]);
    stage.slow_beat("a");
    stage.reload();
    assert_eq!(stage.beat("b"), "b@2");
    stage.wait(11_000);
    assert_eq!(stage.beat("a"), "UNKNOWN_MEMBER_ID", "its time to give back began anew, and is over");
    stage.reload();
    assert_eq!(stage.settle(), "Stable 4/4 | a@4 t[2,3] | b@4 t[0,1]");
}

#[test]
fn what_the_log_does_not_take_changes_nothing() {
    let mut stage = Stage::with(&[("t", 2)]);
    let request = wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest {
        group_id: "g",
        member_id: "a",
        rebalance_timeout_ms: 10_000,
        subscribed_topic_names: Some(vec!["t"]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    let caller = Caller { version: 1, client_id: "client", client_host: "/host", random: 0 };
    let context = Context { now: stage.now(), image: &stage.image, settings: &stage.settings };
    let first = stage.group.heartbeat(&request, &caller, &context).expect("it joins");
    let second = stage.group.heartbeat(&request, &caller, &context).expect("it joins");
    assert_eq!(first, second);
    assert_eq!(stage.group.state(), GroupState::Dead);
    assert_eq!(stage.wait(60_000), [], "nobody is there who could be silent");
    assert_eq!(stage.group.deadline(&stage.settings), None);
    assert_eq!(stage.join("a", &["t"]), "a@1 t[0,1]");
    // Nor is a silent member forgotten whose end could not be written.
    stage.now += Duration::from_secs(46);
    let context = Context { now: stage.now(), image: &stage.image, settings: &stage.settings };
    assert_eq!(stage.group.on_tick(&context).fenced.len(), 1);
    assert_eq!(stage.group.on_tick(&context).fenced.len(), 0, "not at once");
    assert_eq!(stage.wait(1000).len(), 1);
    assert_eq!(stage.shown(), "Empty 2/1");
}
