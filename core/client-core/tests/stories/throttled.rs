//! A broker that wants to be left alone for a while (KIP-219).

use std::time::Duration;

use base::ErrorCode;
use vltava_client_core::producer::ProducerSettings;

use crate::stage::Stage;

#[test]
fn it_is_sent_nothing_before() {
    let mut stage = Stage::new(ProducerSettings::default());
    stage.send_value(b"first");
    let sent = stage.next();
    stage.throttle_time_ms = 300;
    stage.answer(&sent, ErrorCode::None, 0);
    stage.send_value(b"second");
    assert!(stage.sent.is_empty());
    stage.pass(Duration::from_millis(299));
    assert!(stage.sent.is_empty());
    stage.pass(Duration::from_millis(1));
    assert_eq!(stage.next().values, [b"second"]);
}

#[test]
fn it_is_asked_nothing_before() {
    let mut stage = Stage::new(ProducerSettings::default());
    stage.throttle_time_ms = 2_000;
    stage.topic_code = ErrorCode::UnknownTopicOrPartition;
    assert!(stage.try_send_value(b"first").is_err());
    for _ in 0..20 {
        stage.pass(Duration::from_millis(100));
        assert!(stage.try_send_value(b"first").is_err());
    }
    let asked = stage.asked.len();
    assert!((2..=3).contains(&asked), "others are asked, and each says so in its answer: {asked}");
    stage.pass(Duration::from_millis(200));
    assert!(stage.asked.len() > asked);
}
