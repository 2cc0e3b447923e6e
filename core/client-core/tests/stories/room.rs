//! What records occupy stays within `buffer.memory`.

use std::time::Duration;

use base::ErrorCode;
use vltava_client_core::producer::{AppendError, ProducerSettings};

use crate::stage::Stage;

/// Fills the memory of a producer whose user keeps so much for each record: how many it takes.
fn fill(kept_bytes_per_record: usize) -> (Stage, usize) {
    let settings = ProducerSettings {
        memory_bytes_max: 100_000,
        batch_bytes_max: 1_000,
        kept_bytes_per_record,
        ..ProducerSettings::default()
    };
    let mut stage = Stage::new(settings);
    stage.send_value(b"first");
    let mut count = 1;
    let refused = loop {
        match stage.try_send_value(b"one of many") {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, AppendError::Full), "{refused:?}");
    let used = stage.producer.memory_used_bytes();
    assert!((90_000..=100_000).contains(&used), "{used} bytes for {count} records");
    (stage, count)
}

#[test]
fn what_is_kept_for_each_record_counts() {
    let (_, bare) = fill(0);
    let (mut stage, count) = fill(100);
    assert!(count * 4 < bare, "{count} records with 100 bytes each, {bare} without");
    let mut offset = 0;
    while stage.producer.outstanding() > 0 {
        let sent = stage.next();
        stage.answer(&sent, ErrorCode::None, offset);
        offset += i64::from(sent.header.records_count);
    }
    assert_eq!(usize::try_from(offset), Ok(count));
    assert_eq!(stage.producer.memory_used_bytes(), 0, "all of it is given back");
}

/// A batch takes its room when it begins. Of many topics that get a record now and then, none may take as
/// much as one that is full.
#[test]
fn records_of_many_topics_have_room() {
    let mut stage = Stage::new(ProducerSettings::default());
    // Nothing else leaves before this one is answered.
    stage.send_value(b"first");
    let topics: Vec<String> = (0..2_000).map(|number| format!("t{number}")).collect();
    for topic in &topics {
        assert!(stage.try_send_to(topic, b"not known yet").is_err());
    }
    stage.pass(Duration::ZERO);
    for topic in &topics {
        stage.try_send_to(topic, &[0; 100]).unwrap_or_else(|error| panic!("{topic}: {error}"));
    }
    assert_eq!(stage.sent.len(), 1);
}
