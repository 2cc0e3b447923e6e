//! A partition that is led by another broker from now on: nothing waits longer than it has to.

use std::time::Duration;

use base::ErrorCode;
use vltava_client_core::Backoff;
use vltava_client_core::producer::ProducerSettings;
use wire::messages::produce::LeaderIdAndEpoch;

use crate::stage::{Sent, Stage};

/// A broker leads since an epoch.
fn leads(leader_id: i32, leader_epoch: i32) -> Option<LeaderIdAndEpoch> {
    Some(LeaderIdAndEpoch { leader_id, leader_epoch })
}

/// Two batches on their way to the first broker, and one that gathers.
fn on_their_way() -> (Stage, Sent, Sent) {
    let settings = ProducerSettings { batch_bytes_max: 200, ..ProducerSettings::default() };
    let mut stage = Stage::new(settings);
    stage.send_value(b"the broker meets the producer");
    let known = stage.next();
    stage.answer(&known, ErrorCode::None, 0);
    // Each fills a batch; the last one gathers while others are on their way.
    for value in 1..=3 {
        stage.send_value(&[value; 150]);
    }
    let (first, second) = (stage.next(), stage.next());
    (stage, first, second)
}

/// Answers the next batch, which went to another broker than this one did.
fn acknowledged_elsewhere(stage: &mut Stage, refused: &Sent) {
    let again = stage.next();
    assert_ne!(again.connection, refused.connection);
    assert_eq!(again.values, refused.values);
    stage.answer(&again, ErrorCode::None, 1);
}

#[test]
fn all_that_the_old_leader_refuses_goes_to_the_one_it_names() {
    let (mut stage, first, second) = on_their_way();
    stage.hint = leads(2, 1);
    // The second answer names nobody new any more.
    stage.answer(&first, ErrorCode::NotLeaderOrFollower, -1);
    stage.answer(&second, ErrorCode::NotLeaderOrFollower, -1);
    stage.pass(Duration::ZERO);
    acknowledged_elsewhere(&mut stage, &first);
    acknowledged_elsewhere(&mut stage, &second);
    assert!(stage.done.iter().all(|(.., outcome)| outcome.is_ok()), "{:?}", stage.done);
}

#[test]
fn whoever_is_heard_to_lead_is_asked_at_once() {
    let (mut stage, first, second) = on_their_way();
    stage.leader = 2;
    // Nobody is named, but everybody may know.
    stage.lose(&first);
    stage.pass(Duration::ZERO);
    acknowledged_elsewhere(&mut stage, &first);
    acknowledged_elsewhere(&mut stage, &second);
}

#[test]
fn a_leader_that_has_not_heard_of_it_is_asked_again_soon() {
    let (mut stage, first, second) = on_their_way();
    stage.hint = leads(2, 1);
    stage.answer(&first, ErrorCode::NotLeaderOrFollower, -1);
    stage.answer(&second, ErrorCode::NotLeaderOrFollower, -1);
    stage.pass(Duration::ZERO);
    let early = stage.next();
    stage.hint = leads(1, 0);
    stage.answer(&early, ErrorCode::NotLeaderOrFollower, -1);
    stage.pass(Duration::ZERO);
    assert!(stage.sent.is_empty(), "a moment is left to it");
    stage.pass(Duration::from_millis(24));
    let again = stage.next();
    assert_eq!((again.connection, again.told()), (early.connection, early.told()));
}

#[test]
fn brokers_that_send_it_back_and_forth_are_not_asked_without_end() {
    let (mut stage, mut refused, _) = on_their_way();
    for epoch in 1.. {
        // Each says that the other leads by now.
        stage.hint = leads(1 + epoch % 2, epoch);
        stage.answer(&refused, ErrorCode::NotLeaderOrFollower, -1);
        stage.pass(Duration::ZERO);
        match stage.sent.pop_front() {
            Some(again) => refused = again,
            None => return,
        }
        assert!(epoch < 10, "it never rests");
    }
}

/// The one that is asked first what the cluster looks like is cut off from it, and says what it said before, under
/// whatever name.
#[test]
fn a_broker_that_is_behind_does_not_speak_for_the_cluster() {
    for (bootstrap, code) in [
        ("one", ErrorCode::NotLeaderOrFollower),
        ("alias of one", ErrorCode::NotLeaderOrFollower),
        ("one", ErrorCode::NotEnoughReplicas),
        ("one", ErrorCode::RequestTimedOut),
    ] {
        let mut stage = Stage::reached_at(bootstrap, ProducerSettings::default());
        stage.send_value(b"written where nobody is left");
        let mut refused = stage.next();
        stage.leader = 2;
        stage.is_one_behind = true;
        let since = stage.now().elapsed;
        loop {
            stage.answer(&refused, code, -1);
            while stage.sent.is_empty() {
                stage.pass(Duration::from_millis(50));
            }
            let again = stage.next();
            if again.connection != refused.connection {
                stage.answer(&again, ErrorCode::None, 1);
                break;
            }
            refused = again;
            assert!(
                stage.now().elapsed < since + Duration::from_secs(20),
                "nobody else is asked: {bootstrap}"
            );
        }
        assert!(matches!(stage.done[..], [(.., Ok(_))]), "{:?}", stage.done);
    }
}

#[test]
fn the_cluster_is_not_asked_each_time_that_replicas_are_missing() {
    let often = Backoff { first: Duration::from_millis(100), max: Duration::from_millis(100) };
    let mut stage = Stage::new(ProducerSettings { retry: often, ..ProducerSettings::default() });
    stage.send_value(b"not for now");
    let asked = stage.asked.len();
    for _ in 0..100 {
        let refused = stage.next();
        stage.answer(&refused, ErrorCode::NotEnoughReplicas, -1);
        while stage.sent.is_empty() {
            stage.pass(Duration::from_millis(50));
        }
    }
    let (times, seconds) = (stage.asked.len() - asked, stage.now().elapsed.as_secs() as usize);
    assert!((1..=seconds).contains(&times), "{times} times in {seconds} s");
}

/// Both answer that the other leads, and neither knows since when.
#[test]
fn brokers_that_name_each_other_in_their_metadata_are_not_asked_without_end() {
    let (mut stage, mut refused, _) = on_their_way();
    stage.leader_epoch = Some(-1);
    for round in 0..10 {
        stage.leader = 2 - round % 2;
        stage.answer(&refused, ErrorCode::NotLeaderOrFollower, -1);
        stage.pass(Duration::ZERO);
        match stage.sent.pop_front() {
            Some(again) => refused = again,
            None => return,
        }
    }
    panic!("it never rests");
}
