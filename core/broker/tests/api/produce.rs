//! Produce: what is stored, what is refused, and when it is answered.

use base::{BrokerId, ErrorCode, Offset, PartitionIndex, TimestampMs, Uuid};
use metadata::{MetadataRecord, PartitionChange};
use records::{BatchOptions, Compression, Producer};
use wire::messages::produce::{PartitionProduceData, ProduceRequest};

use crate::requests::{fetch_of, produce, produced, with_topic};
use crate::world::{Reaction, World, batch, read};

#[test]
fn g34_a_damaged_batch_is_refused_and_never_stored() {
    let mut world = with_topic();
    let good = batch(&["a", "b"], &BatchOptions::default());
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        let (code, _) = produced(&mut world, "t", &bad);
        // The leader epoch is the broker's to write: what a client has there means nothing.
        if !(12..16).contains(&at) {
            assert_ne!(code, ErrorCode::None, "byte {at}");
        }
    }
    let (code, _) = produced(&mut world, "t", &[good.clone(), good.clone()].concat());
    assert_ne!(code, ErrorCode::None, "two batches");
    let (code, offset) = produced(&mut world, "t", &good);
    assert_eq!((code, offset), (ErrorCode::None, 4 * 2), "only the four that differ in the epoch are there");
}

#[test]
fn acks_all_waits_for_the_disk_and_readers_do_too() {
    let mut world = World::new();
    world.topic("t", 1, &[]);
    let records = batch(&["x"], &BatchOptions::default());
    let parked = world.request(9, &produce("t", Uuid::ZERO, &records, -1)).parked();
    let (_, seen) = world.request(12, &fetch_of("t", Uuid::ZERO, 0)).both();
    assert!(seen.is_empty(), "what a power cut could take is not shown");
    let parked = world.look(parked).parked();
    let partition = world.partition("t", 0);
    assert!(partition.wants_flush());
    partition.flush();
    assert_eq!(world.bell.rang(), 1);
    let bytes = world.look(parked).bytes();
    read::<ProduceRequest<'_>, _>(&bytes, 9, |response| {
        let part = &response.responses[0].partition_responses[0];
        assert_eq!((part.error_code, part.base_offset), (0, 0));
    });
    let (_, seen) = world.request(12, &fetch_of("t", Uuid::ZERO, 0)).both();
    assert!(!seen.is_empty());
}

#[test]
fn acks_all_that_is_not_committed_in_time_says_so() {
    let mut world = World::new();
    world.topic("t", 1, &[]);
    let records = batch(&["x"], &BatchOptions::default());
    let parked = world.request(9, &produce("t", Uuid::ZERO, &records, -1)).parked();
    world.now.elapsed = parked.deadline();
    let bytes = world.look(parked).bytes();
    read::<ProduceRequest<'_>, _>(&bytes, 9, |response| {
        assert_eq!(
            response.responses[0].partition_responses[0].error_code,
            ErrorCode::RequestTimedOut.code()
        );
    });
}

#[test]
fn acks_0_is_never_answered_and_a_failure_closes() {
    let mut world = with_topic();
    let records = batch(&["x"], &BatchOptions::default());
    assert!(matches!(world.request(9, &produce("t", Uuid::ZERO, &records, 0)), Reaction::Silent));
    world.request(9, &produce("nope", Uuid::ZERO, &records, 0)).closed();
    world.ask(9, &produce("t", Uuid::ZERO, &records, 2), |response| {
        assert_eq!(
            response.responses[0].partition_responses[0].error_code,
            ErrorCode::InvalidRequiredAcks.code()
        );
    });
}

#[test]
fn a_batch_sent_again_has_the_offsets_of_the_first_time() {
    let mut world = with_topic();
    let sent = |sequence| {
        let producer = Producer {
            id: base::ProducerId(5),
            epoch: base::ProducerEpoch(0),
            base_sequence: base::Sequence(sequence),
        };
        batch(&["a", "b"], &BatchOptions { producer, ..BatchOptions::default() })
    };
    assert_eq!(produced(&mut world, "t", &sent(0)), (ErrorCode::None, 0));
    assert_eq!(produced(&mut world, "t", &sent(2)), (ErrorCode::None, 2));
    assert_eq!(produced(&mut world, "t", &sent(0)), (ErrorCode::None, 0));
    assert_eq!(produced(&mut world, "t", &sent(7)), (ErrorCode::OutOfOrderSequenceNumber, -1));
    assert_eq!(produced(&mut world, "t", &sent(4)), (ErrorCode::None, 4));
}

#[test]
fn a_produce_request_whose_time_is_up_leaves_nothing_behind() {
    let mut world = World::new();
    world.topic("t", 1, &[]);
    let records = batch(&["x"], &BatchOptions::default());
    let parked = world.request(9, &produce("t", Uuid::ZERO, &records, -1)).parked();
    assert_eq!(world.partition("t", 0).waiting(), 1);
    world.now.elapsed = parked.deadline();
    world.look(parked).bytes();
    assert_eq!(world.partition("t", 0).waiting(), 0);
}

#[test]
fn what_was_committed_before_the_disk_failed_is_acknowledged() {
    let mut world = World::new();
    world.topic("t", 1, &[]);
    let records = batch(&["x"], &BatchOptions::default());
    let first = world.request(9, &produce("t", Uuid::ZERO, &records, -1)).parked();
    world.partition("t", 0).flush();
    let second = world.request(9, &produce("t", Uuid::ZERO, &records, -1)).parked();
    world.partition("t", 0).act(|partition, _| partition.retire());
    for (parked, code) in [(first, ErrorCode::None), (second, ErrorCode::KafkaStorageError)] {
        let bytes = world.look(parked).bytes();
        read::<ProduceRequest<'_>, _>(&bytes, 9, |response| {
            assert_eq!(response.responses[0].partition_responses[0].error_code, code.code());
        });
    }
}

#[test]
fn a_full_disk_takes_no_records_and_others_do() {
    let mut world = World::new();
    world.topic("t", 2, &[("flush.policy", "os")]);
    let records = batch(&["x"], &BatchOptions::default());
    let mut request = produce("t", Uuid::ZERO, &records, -1);
    let second = PartitionProduceData { index: 1, ..request.topic_data[0].partition_data[0].clone() };
    request.topic_data[0].partition_data.push(second);
    let sent = |world: &mut World| {
        world.ask(9, &request, |response| {
            let parts = response.responses[0].partition_responses.iter();
            let told = parts.map(|part| {
                let code = ErrorCode::from_i16(part.error_code).unwrap();
                (part.index, code, part.base_offset, part.error_message.is_some())
            });
            told.collect::<Vec<_>>()
        })
    };
    let full = world.partition("t", 0);
    full.fill_disk(true);
    let (refused, stored) = (ErrorCode::KafkaStorageError, ErrorCode::None);
    assert_eq!(sent(&mut world), [(0, refused, -1, true), (1, stored, 0, false)]);
    let end = |index| world.partition("t", index).act(|partition, _| partition.log().end());
    assert_eq!([0, 1].map(end), [Offset(0), Offset(1)]);
    full.fill_disk(false);
    assert_eq!(sent(&mut world), [(0, stored, 0, false), (1, stored, 1, false)]);
}

#[test]
fn with_too_few_replicas_in_sync_nothing_is_stored() {
    let mut world = World::new();
    world.topic("t", 1, &[("flush.policy", "os"), ("min.insync.replicas", "2")]);
    let records = batch(&["x"], &BatchOptions::default());
    let sent = |world: &mut World, acks| {
        world.ask(9, &produce("t", Uuid::ZERO, &records, acks), |response| {
            let part = &response.responses[0].partition_responses[0];
            (ErrorCode::from_i16(part.error_code).unwrap(), part.base_offset)
        })
    };
    assert_eq!(sent(&mut world, -1), (ErrorCode::None, 0), "a topic cannot ask for more than it has");
    let (node, id) = (world.node(), world.image().topic("t").unwrap().id);
    world.replay(MetadataRecord::PartitionChange(PartitionChange {
        replicas: Some(vec![node, BrokerId(7)]),
        isr: Some(vec![node]),
        ..PartitionChange::of(id, PartitionIndex(0))
    }));
    assert_eq!(sent(&mut world, -1), (ErrorCode::NotEnoughReplicas, -1));
    assert_eq!(sent(&mut world, 1), (ErrorCode::None, 1), "it asked for no more than the leader");
}

#[test]
fn g38_who_sends_to_the_wrong_broker_is_told_the_leader() {
    let mut world = with_topic();
    let id = world.hand_over("t", 0, BrokerId(7));
    let records = batch(&["x"], &BatchOptions::default());
    for version in [9, 10, 13] {
        let request = produce(if version < 13 { "t" } else { "" }, id.0, &records, 1);
        let request = match version {
            13 => request,
            _ => produce("t", Uuid::ZERO, &records, 1),
        };
        world.ask(version, &request, |response| {
            let part = &response.responses[0].partition_responses[0];
            assert_eq!(part.error_code, ErrorCode::NotLeaderOrFollower.code());
            let (leader, epoch) = if version < 10 { (-1, -1) } else { (7, 1) };
            assert_eq!((part.current_leader.leader_id, part.current_leader.leader_epoch), (leader, epoch));
            let nodes: Vec<_> = response.node_endpoints.iter().map(|n| (n.node_id, n.host, n.port)).collect();
            assert_eq!(nodes, if version < 10 { vec![] } else { vec![(7, "127.0.0.1", 9092)] });
        });
    }
}

#[test]
fn a_topic_may_put_the_brokers_time_on_its_records() {
    let mut world = World::new();
    world.topic("t", 1, &[("flush.policy", "os"), ("message.timestamp.type", "LogAppendTime")]);
    let records = batch(&["x"], &BatchOptions::default());
    world.now.wall = TimestampMs(1_800_000_000_000);
    world.ask(9, &produce("t", Uuid::ZERO, &records, 1), |response| {
        let part = &response.responses[0].partition_responses[0];
        assert_eq!((part.error_code, part.log_append_time_ms), (0, 1_800_000_000_000));
    });
    let (_, stored) = world.request(12, &fetch_of("t", Uuid::ZERO, 0)).both();
    let header = *records::StoredBatch::check(&stored).unwrap().header();
    assert_eq!(header.max_timestamp, TimestampMs(1_800_000_000_000));
}

#[test]
fn timestamps_far_from_the_brokers_are_refused() {
    let mut world = World::new();
    let hour = "3600000";
    world.topic("old", 1, &[("flush.policy", "os"), ("message.timestamp.before.max.ms", hour)]);
    world.topic("new", 1, &[("flush.policy", "os"), ("message.timestamp.after.max.ms", hour)]);
    let records = batch(&["x"], &BatchOptions::default());
    for (topic, wall, code) in [
        ("old", 1_700_003_600_000, ErrorCode::None),
        ("old", 1_700_003_600_001, ErrorCode::InvalidTimestamp),
        ("new", 1_699_996_400_000, ErrorCode::None),
        ("new", 1_699_996_399_999, ErrorCode::InvalidTimestamp),
    ] {
        world.now.wall = TimestampMs(wall);
        assert_eq!(produced(&mut world, topic, &records).0, code, "{topic} {wall}");
    }
}

#[test]
fn a_topic_may_choose_how_its_records_are_compressed() {
    for (name, codec) in
        [("uncompressed", Compression::None), ("gzip", Compression::Gzip), ("zstd", Compression::Zstd)]
    {
        let mut world = World::new();
        world.topic("t", 1, &[("flush.policy", "os"), ("compression.type", name)]);
        let options = BatchOptions { compression: Compression::Lz4, ..BatchOptions::default() };
        assert_eq!(produced(&mut world, "t", &batch(&["x", "y"], &options)), (ErrorCode::None, 0));
        let (_, stored) = world.request(12, &fetch_of("t", Uuid::ZERO, 0)).both();
        let header = *records::StoredBatch::check(&stored).unwrap().header();
        assert_eq!(header.attributes.compression().unwrap(), codec, "{name}");
    }
}

#[test]
fn zstd_is_for_clients_that_know_it() {
    let mut world = World::new();
    world.topic("t", 1, &[("flush.policy", "os"), ("compression.type", "zstd")]);
    let options = BatchOptions { compression: Compression::Zstd, ..BatchOptions::default() };
    let records = batch(&["x"], &options);
    for version in 3..=9 {
        world.ask(version, &produce("t", Uuid::ZERO, &records, 1), |response| {
            let code = if version < 7 { ErrorCode::UnsupportedCompressionType } else { ErrorCode::None };
            assert_eq!(response.responses[0].partition_responses[0].error_code, code.code(), "v{version}");
        });
    }
    for version in 4..=12 {
        world.ask(version, &fetch_of("t", Uuid::ZERO, 0), |response| {
            let code = if version < 10 { ErrorCode::UnsupportedCompressionType } else { ErrorCode::None };
            assert_eq!(response.responses[0].partitions[0].error_code, code.code(), "v{version}");
        });
    }
}
