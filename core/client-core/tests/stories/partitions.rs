//! A topic that gets more partitions, or is made anew with fewer.

use std::collections::BTreeSet;
use std::time::Duration;

use base::{ErrorCode, Uuid};
use vltava_client_core::producer::{NewRecord, ProducerSettings, partition_for_key};

use crate::stage::Stage;

const SETTINGS_AGE: Duration = Duration::from_secs(300);

/// Where records with and without keys go.
fn destinations(stage: &mut Stage, count: usize) -> (BTreeSet<i32>, BTreeSet<i32>) {
    let (mut keyed, mut keyless) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..200_u32 {
        let key = number.to_be_bytes();
        let record = NewRecord { key: Some(&key), value: Some(&key), ..NewRecord::default() };
        let partition = stage.send(&record, None).partition.0;
        assert_eq!(partition as usize, partition_for_key(&key, count), "as Java has it");
        keyed.insert(partition);
        let record = NewRecord { value: Some(&[0; 300]), ..NewRecord::default() };
        keyless.insert(stage.send(&record, None).partition.0);
        while let Some(sent) = stage.sent.pop_front() {
            stage.answer(&sent, ErrorCode::None, 0);
        }
    }
    (keyed, keyless)
}

fn stage() -> Stage {
    let settings = ProducerSettings {
        batch_bytes_max: 400,
        metadata_age_max: SETTINGS_AGE,
        // One batch a request.
        request_bytes_max: 401,
        ..ProducerSettings::default()
    };
    Stage::new(settings)
}

#[test]
fn partitions_that_come_are_written_to_once_the_metadata_is_old() {
    let mut stage = stage();
    stage.partitions = 2;
    let all = |count| (0..count).collect::<BTreeSet<i32>>();
    assert_eq!(destinations(&mut stage, 2), (all(2), all(2)));
    stage.partitions = 5;
    assert_eq!(destinations(&mut stage, 2), (all(2), all(2)), "nobody said so yet");
    stage.pass(SETTINGS_AGE);
    assert_eq!(destinations(&mut stage, 5), (all(5), all(5)));
}

#[test]
fn a_topic_that_is_made_anew_with_fewer_is_written_where_it_is() {
    let mut stage = stage();
    stage.partitions = 5;
    let all = |count| (0..count).collect::<BTreeSet<i32>>();
    assert_eq!(destinations(&mut stage, 5), (all(5), all(5)));
    (stage.partitions, stage.topic_id) = (2, Uuid([2; 16]));
    stage.pass(SETTINGS_AGE);
    assert_eq!(destinations(&mut stage, 2), (all(2), all(2)));
}

#[test]
fn each_has_its_turn_when_not_all_fit_into_a_request() {
    let settings = ProducerSettings {
        batch_bytes_max: 512,
        // Two batches.
        request_bytes_max: 1_100,
        in_flight_max: 1,
        ..ProducerSettings::default()
    };
    let mut stage = Stage::new(settings);
    stage.partitions = 5;
    for _ in 0..4 {
        for partition in 0..5 {
            // One fills its batch.
            stage.send(&NewRecord { value: Some(&[7; 400]), ..NewRecord::default() }, Some(partition));
        }
    }
    stage.acknowledge_request();
    let mut counts = [0_usize; 5];
    for _ in 0..5 {
        stage.acknowledge_request().into_iter().for_each(|partition| counts[partition as usize] += 1);
        let [least, most] = [counts.iter().min(), counts.iter().max()].map(|count| count.copied());
        assert!(most <= least.map(|least| least + 1), "{counts:?}");
    }
    assert_eq!(counts, [2; 5], "ten batches of five partitions");
}
