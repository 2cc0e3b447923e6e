//! A leader that says nothing any more, on a connection that stands.

use std::time::Duration;

use base::ErrorCode;
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
    let mut waited = Duration::ZERO;
    while stage.sent.is_empty() && waited < Duration::from_secs(3) {
        stage.pass(Duration::from_millis(50));
        waited += Duration::from_millis(50);
    }
    let second = stage.next();
    assert_eq!(second.values, [b"second"]);
    stage.answer(&second, ErrorCode::None, 1);
    assert!(matches!(stage.done[..], [(_, 1, Ok(_)), (_, 1, Ok(_))]), "{:?}", stage.done);
}
