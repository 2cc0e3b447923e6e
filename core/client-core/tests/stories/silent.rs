//! A leader that says nothing any more, on a connection that stands.

use std::time::Duration;

use base::{ErrorCode, ProducerId};
use vltava_client_core::producer::ProducerSettings;

use crate::stage::Stage;

#[test]
fn what_it_has_not_answered_goes_to_its_successor() {
    let mut stage = Stage::new(ProducerSettings::default());
    stage.send_value(b"first");
    let first = stage.next();
    let asked = stage.asked.len();
    stage.pass(Duration::from_millis(999));
    assert_eq!(stage.asked.len(), asked, "it may take its time");
    stage.pass(Duration::from_millis(1));
    assert_eq!(stage.asked.len(), asked + 1, "somebody else may know");
    assert!(stage.sent.is_empty(), "it leads still");
    stage.pass(Duration::from_millis(249));
    assert_eq!(stage.asked.len(), asked + 1);
    stage.leader = 2;
    stage.pass(Duration::from_millis(1));
    assert!(stage.asked.len() > asked + 1);
    stage.pass(Duration::from_secs(2));
    let again = stage.next();
    assert_ne!(again.connection, first.connection);
    assert_eq!(again.told(), first.told(), "its successor may have it");
    stage.answer(&again, ErrorCode::None, 0);
    assert!(matches!(stage.done[..], [(0, 1, Ok(_))]), "{:?}", stage.done);
}

#[test]
fn what_it_was_asked_about_the_cluster_is_asked_of_another() {
    let metadata_age_max = Duration::from_millis(500);
    let mut stage = Stage::new(ProducerSettings { metadata_age_max, ..ProducerSettings::default() });
    stage.send_value(b"first");
    let first = stage.next();
    stage.answer(&first, ErrorCode::None, 0);
    // All connections there are lead to it.
    stage.cut_off = Some("one");
    stage.send_value(b"second");
    let asked = stage.asked.len();
    stage.pass(metadata_age_max);
    assert_eq!(stage.asked.len(), asked, "the question is lost");
    stage.leader = 2;
    until(&mut stage, |stage| !stage.sent.is_empty());
    let second = stage.next();
    assert_eq!(second.values, [b"second"]);
    stage.answer(&second, ErrorCode::None, 1);
    assert!(matches!(stage.done[..], [(_, 1, Ok(_)), (_, 1, Ok(_))]), "{:?}", stage.done);
}

/// A record waits until its producer is known, and the one that was asked who it is says nothing any more.
fn unknown() -> Stage {
    let mut stage = Stage::new(ProducerSettings::default());
    (stage.leader, stage.identity_code) = (2, ErrorCode::CoordinatorLoadInProgress);
    stage.send_value(b"first");
    (stage.hangs_at_identity, stage.identity_code) = (Some("one"), ErrorCode::None);
    until(&mut stage, |stage| stage.cut_off.is_some());
    assert_eq!(stage.sent.len(), 0);
    stage
}

fn until(stage: &mut Stage, is_so: impl Fn(&Stage) -> bool) {
    let mut waited = Duration::ZERO;
    while !is_so(stage) {
        assert!(waited < Duration::from_secs(3), "{:?}", stage.done);
        stage.pass(Duration::from_millis(50));
        waited += Duration::from_millis(50);
    }
}

#[test]
fn who_the_producer_is_is_asked_of_another_and_stays() {
    let mut stage = unknown();
    stage.producer_id = 8;
    until(&mut stage, |stage| !stage.sent.is_empty());
    let first = stage.next();
    assert_eq!((&first.values[..], first.header.producer_id), (&[b"first".to_vec()][..], ProducerId(8)));
    stage.answer(&first, ErrorCode::None, 0);
    // Leaders know the records by the one who sent them.
    stage.producer_id = 9;
    stage.answer_identity_late();
    stage.send_value(b"second");
    let second = stage.next();
    assert_eq!((second.header.producer_id, second.told()), (ProducerId(8), (0, 1, 1)));
    stage.answer(&second, ErrorCode::None, 1);
    assert!(matches!(stage.done[..], [(_, 1, Ok(_)), (_, 1, Ok(_))]), "{:?}", stage.done);
}

#[test]
fn a_refusal_that_comes_late_harms_nobody_who_is_known_by_then() {
    let mut stage = unknown();
    until(&mut stage, |stage| !stage.sent.is_empty());
    stage.identity_code = ErrorCode::ClusterAuthorizationFailed;
    stage.answer_identity_late();
    let first = stage.next();
    stage.answer(&first, ErrorCode::None, 0);
    stage.send_value(b"second");
    stage.next();
}
