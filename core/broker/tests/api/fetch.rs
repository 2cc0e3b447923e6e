//! Fetch: what is read, what waits, and what a session remembers.

use std::time::Duration;

use base::{BrokerId, ErrorCode, Offset, ProducerEpoch, ProducerId, TimestampMs, Uuid};
use records::{BatchLimits, BatchOptions, CheckedBatch, EndMarker, Producer, Scratch};
use vltava_broker::call::CloseReason;
use wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic, ForgottenTopic};

use crate::requests::{fetch_of, hex, produced, with_topic};
use crate::world::{World, batch, read};

#[test]
fn g08_g09_what_a_fetch_without_records_looks_like() {
    let mut world = with_topic();
    produced(&mut world, "t", &batch(&["a", "b", "c"], &BatchOptions::default()));
    world.partition("t", 0).act(|partition, out| partition.delete_records(Some(Offset(1)), out)).unwrap();
    // error, high watermark, last stable offset, log start, aborted null, preferred replica, records
    let (three, one) = ("0000000000000003", "0000000000000001");
    let tail = "ffffffff".to_owned() + "01" + "000000";
    let at_end = "00000000".to_owned() + "0000" + three + three + one + "00" + &tail;
    let beyond = "00000000".to_owned() + "0001" + &"ff".repeat(24) + "00" + &tail;
    let unknown = "00000000".to_owned() + "0003" + &"ff".repeat(24) + "01" + &tail;
    for (topic, from, partition) in
        [("t", 3, &at_end), ("t", 4, &beyond), ("t", 0, &beyond), ("nope", 0, &unknown)]
    {
        let bytes = hex(&world.request(12, &fetch_of(topic, Uuid::ZERO, from)).bytes());
        assert!(bytes.ends_with(partition), "{topic} from {from}: {bytes}");
    }
}

#[test]
fn g10_an_incremental_fetch_without_changes_waits_on_the_whole_session() {
    let mut world = with_topic();
    let mut first = fetch_of("t", Uuid::ZERO, 0);
    first.session_epoch = 0;
    let session_id = world.ask(12, &first, |response| response.session_id);
    assert_ne!(session_id, 0);
    let idle = FetchRequest {
        session_id,
        session_epoch: 1,
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 1 << 20,
        ..FetchRequest::default()
    };
    let parked = world.request(12, &idle).parked();
    assert_eq!(produced(&mut world, "t", &batch(&["x"], &BatchOptions::default())), (ErrorCode::None, 0));
    assert_eq!(world.bell.rang(), 1, "an append wakes the fetch");
    let (bytes, records) = world.look(parked).both();
    read::<FetchRequest<'_>, _>(&bytes, 12, |response| assert_eq!(response.responses.len(), 1));
    assert!(!records.is_empty());
    assert_eq!(world.partition("t", 0).waiting(), 0);
}

#[test]
fn g10_a_fetch_that_waited_in_vain_is_answered_empty_at_its_deadline() {
    let mut world = with_topic();
    let mut request = fetch_of("t", Uuid::ZERO, 0);
    request.max_wait_ms = 500;
    let parked = world.request(12, &request).parked();
    let parked = world.look(parked).parked();
    world.now.elapsed = parked.deadline();
    let (_, records) = world.look(parked).both();
    assert!(records.is_empty());
    assert_eq!(world.partition("t", 0).waiting(), 0, "it no longer waits");
}

#[test]
fn a_partition_that_goes_before_a_fetch_waits_at_it_is_told_of() {
    let mut world = with_topic();
    let mut request = fetch_of("t", Uuid::ZERO, 0);
    request.max_wait_ms = 500;
    let lose = world.losing("t", 0);
    world.partition("t", 0).after_a_step(move |_, _| lose());
    let bytes = world.request(12, &request).bytes();
    read::<FetchRequest<'_>, _>(&bytes, 12, |response| {
        let code = response.responses[0].partitions[0].error_code;
        assert_eq!(code, ErrorCode::KafkaStorageError.code());
    });
}

/// Two fetches of one connection wait at the same partition, and are one to it.
#[test]
fn a_fetch_that_need_not_wait_leaves_those_before_it_waiting() {
    let mut world = with_topic();
    world.topic("u", 1, &[("flush.policy", "os")]);
    let records = batch(&["x"], &BatchOptions::default());
    produced(&mut world, "u", &records);
    let mut of_t = fetch_of("t", Uuid::ZERO, 0);
    of_t.max_wait_ms = 500;
    let mut of_both = FetchRequest { max_wait_ms: 500, ..fetch_of("u", Uuid::ZERO, 0) };
    of_both.topics.extend(of_t.topics.clone());
    let first = world.request(12, &of_t).parked();
    // Answered at once.
    world.request(12, &of_both).bytes();
    assert_eq!((world.partition("t", 0).waiting(), world.bell.rang()), (1, 0));
    // It waits, but what comes between its look and its wait is enough.
    of_both.topics[0].partitions[0].fetch_offset = 1;
    let (now, limits) = (world.now, BatchLimits::default());
    world.partition("u", 0).after_a_step(move |hosted, out| {
        let batch = CheckedBatch::check(&records, &limits, &mut Scratch::default()).unwrap();
        hosted.with(out, |partition, out| partition.append(now, &batch, false, out)).unwrap();
    });
    world.request(12, &of_both).bytes();
    assert_eq!(world.bell.rang(), 1, "the first has to look again: nobody would wake it");
    let first = world.look(first).parked();
    assert_eq!([world.partition("t", 0).waiting(), world.partition("u", 0).waiting()], [1, 0]);
    world.abandon(first);
    assert_eq!(world.partition("t", 0).waiting(), 0);
}

#[test]
fn g12_forgotten_partitions_leave_the_session() {
    let mut world = with_topic();
    let mut first = fetch_of("t", Uuid::ZERO, 0);
    first.session_epoch = 0;
    let session_id = world.ask(12, &first, |response| response.session_id);
    produced(&mut world, "t", &batch(&["x"], &BatchOptions::default()));
    let forgotten = ForgottenTopic { topic: "t", partitions: vec![0], ..ForgottenTopic::default() };
    let forget = FetchRequest {
        session_id,
        session_epoch: 1,
        forgotten_topics_data: vec![forgotten],
        min_bytes: 1,
        max_bytes: 1 << 20,
        ..FetchRequest::default()
    };
    world.ask(12, &forget, |response| assert!(response.responses.is_empty(), "{response:?}"));
    let gone = FetchRequest { session_id, session_epoch: 2, ..forget };
    world.ask(12, &gone, |response| {
        assert_eq!(response.error_code, ErrorCode::FetchSessionIdNotFound.code());
    });
}

#[test]
fn g18_leader_epochs_fence_those_who_know_older_or_newer_ones() {
    let mut world = with_topic();
    world.crash();
    world.crash();
    let node = world.node().0;
    let cases = [
        (-1, ErrorCode::None),
        (1, ErrorCode::FencedLeaderEpoch),
        (2, ErrorCode::None),
        (3, ErrorCode::UnknownLeaderEpoch),
    ];
    let id = world.image().topic("t").unwrap().id.0;
    for (epoch, code) in cases {
        for version in [12, 15, 16] {
            let mut request = fetch_of(if version < 13 { "t" } else { "" }, id, 0);
            request.topics[0].topic_id = if version < 13 { Uuid::ZERO } else { id };
            request.topics[0].partitions[0].current_leader_epoch = epoch;
            world.ask(version, &request, |response| {
                let part = &response.responses[0].partitions[0];
                assert_eq!(part.error_code, code.code(), "epoch {epoch}");
                let is_hinted = version >= 16 && code == ErrorCode::FencedLeaderEpoch;
                let leader = if is_hinted { (node, 2) } else { (-1, -1) };
                assert_eq!((part.current_leader.leader_id, part.current_leader.leader_epoch), leader);
                let nodes: Vec<i32> = response.node_endpoints.iter().map(|n| n.node_id).collect();
                assert_eq!(nodes, if is_hinted { vec![node] } else { vec![] });
            });
        }
    }
}

#[test]
fn g37_a_session_that_does_not_fit_is_an_error_and_no_more() {
    let mut world = with_topic();
    let id = world.image().topic("t").unwrap().id.0;
    let mut first = fetch_of("t", Uuid::ZERO, 0);
    first.session_epoch = 0;
    let session_id = world.ask(12, &first, |response| response.session_id);
    let mut by_id = fetch_of("", id, 0);
    (by_id.session_id, by_id.session_epoch) = (session_id, 1);
    world.ask(13, &by_id, |response| {
        assert_eq!(response.error_code, ErrorCode::FetchSessionTopicIdError.code());
    });
}

#[test]
fn a_fetch_as_a_follower_is_refused() {
    let mut world = with_topic();
    let mut request = fetch_of("t", Uuid::ZERO, 0);
    request.replica_id = 2;
    world.ask(12, &request, |response| {
        assert_eq!(response.error_code, ErrorCode::ClusterAuthorizationFailed.code());
    });
}

/// A fetch of several topics by name, each partition 0 from 0, in a new session if `epoch` is 0.
fn fetch_all<'a>(topics: &[&'a str], epoch: i32) -> FetchRequest<'a> {
    let mut request = fetch_of("", Uuid::ZERO, 0);
    let all = topics.iter().map(|topic| fetch_of(topic, Uuid::ZERO, 0).topics.remove(0));
    request.topics = all.collect();
    (request.session_epoch, request.max_wait_ms) = (epoch, 500);
    request
}

#[test]
fn g10_a_topic_that_is_not_there_does_not_hurry_a_fetch() {
    let mut world = with_topic();
    let parked = world.request(12, &fetch_all(&["t", "nope"], 0)).parked();
    world.now.elapsed += Duration::from_millis(500);
    let bytes = world.look(parked).bytes();
    let session_id = read::<FetchRequest<'_>, _>(&bytes, 12, |response| {
        assert_eq!(response.responses.len(), 2);
        response.session_id
    });
    let next = FetchRequest { session_id, session_epoch: 1, topics: Vec::new(), ..fetch_all(&[], 1) };
    let parked = world.request(12, &next).parked();
    produced(&mut world, "t", &batch(&["x"], &BatchOptions::default()));
    let bytes = world.look(parked).bytes();
    read::<FetchRequest<'_>, _>(&bytes, 12, |response| {
        let codes = response.responses.iter().map(|topic| (topic.topic, topic.partitions[0].error_code));
        assert_eq!(codes.collect::<Vec<_>>(), [("t", 0), ("nope", 3)], "it is told of with the next answer");
    });
    world.request(12, &fetch_all(&["nope"], -1)).bytes();
}

#[test]
fn a_fetch_hears_at_once_that_its_topic_was_deleted() {
    use wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
    let mut world = with_topic();
    world.topic("u", 1, &[]);
    let parked = world.request(12, &fetch_all(&["t", "u"], -1)).parked();
    let parked = world.look(parked).parked();
    let topic = DeleteTopicState { name: Some("u"), ..DeleteTopicState::default() };
    let delete = DeleteTopicsRequest { topics: vec![topic], ..DeleteTopicsRequest::default() };
    world.ask(6, &delete, |response| assert_eq!(response.responses[0].error_code, 0));
    let bytes = world.look(parked).bytes();
    read::<FetchRequest<'_>, _>(&bytes, 12, |response| {
        let codes = response.responses.iter().map(|topic| topic.partitions[0].error_code);
        assert_eq!(codes.collect::<Vec<_>>(), [0, ErrorCode::UnknownTopicOrPartition.code()]);
    });
}

#[test]
fn a_fetch_waits_for_no_more_than_it_may_have() {
    let mut world = with_topic();
    produced(&mut world, "t", &batch(&["x"], &BatchOptions::default()));
    let mut request = fetch_of("t", Uuid::ZERO, 0);
    (request.min_bytes, request.max_bytes, request.max_wait_ms) = (i32::MAX, 10, 500);
    let (_, records) = world.request(12, &request).both();
    assert!(!records.is_empty());
}

#[test]
fn a_reader_whose_log_has_parted_is_told_where() {
    let mut world = with_topic();
    produced(&mut world, "t", &batch(&["a", "b"], &BatchOptions::default()));
    world.crash();
    produced(&mut world, "t", &batch(&["c"], &BatchOptions::default()));
    let read = |world: &mut World, last: i32, from: i64| {
        let mut request = fetch_of("t", Uuid::ZERO, from);
        request.topics[0].partitions[0].last_fetched_epoch = last;
        world.ask(12, &request, |response| {
            let part = &response.responses[0].partitions[0];
            let parted = (part.diverging_epoch.epoch, part.diverging_epoch.end_offset);
            let told = (part.high_watermark, part.last_stable_offset, part.log_start_offset);
            (part.error_code, parted, told)
        })
    };
    assert_eq!(read(&mut world, 0, 3), (0, (0, 2), (3, 3, 0)));
    assert_eq!(read(&mut world, 0, 2).1, (-1, -1));
    let nobody = (ErrorCode::OffsetOutOfRange.code(), (-1, -1), (-1, -1, -1));
    assert_eq!(read(&mut world, 2, 3), nobody, "nobody has led in epoch 2");
}

#[test]
fn a_leader_that_may_be_one_no_more_does_not_say_that_records_are_gone() {
    let mut world = with_topic();
    produced(&mut world, "t", &batch(&["a", "b"], &BatchOptions::default()));
    let read = |world: &mut World, version: i16, last: i32, from: i64| {
        let mut request = fetch_of("t", Uuid::ZERO, from);
        request.topics[0].partitions[0].last_fetched_epoch = last;
        world.ask(version, &request, |response| {
            let part = &response.responses[0].partitions[0];
            (ErrorCode::from_i16(part.error_code).unwrap(), part.diverging_epoch.epoch)
        })
    };
    let gone = (ErrorCode::OffsetOutOfRange, -1);
    assert_eq!(read(&mut world, 8, -1, 3), gone, "who leads for certain says so at once");
    assert_eq!(read(&mut world, 12, 1, 2), gone);
    assert_eq!(read(&mut world, 12, 0, 3), (ErrorCode::None, 0), "it has parted");
    world.lose_touch();
    let ask_others = (ErrorCode::NotLeaderOrFollower, -1);
    assert_eq!(read(&mut world, 8, -1, 3), ask_others);
    assert_eq!(read(&mut world, 12, 1, 2), ask_others, "somebody may have led in epoch 1");
    assert_eq!(read(&mut world, 12, 0, 3), ask_others);
    assert_eq!(read(&mut world, 12, 0, 0), (ErrorCode::None, -1), "what is here is committed");
    assert_eq!(read(&mut world, 12, -1, -5), gone, "no leader has that");
}

#[test]
fn g19_who_knows_the_epoch_of_a_topic_that_was_made_again_is_told() {
    use wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
    let mut world = with_topic();
    world.crash();
    let before = world.image().topic("t").unwrap().id;
    let topic = DeleteTopicState { name: Some("t"), ..DeleteTopicState::default() };
    let delete = DeleteTopicsRequest { topics: vec![topic], ..DeleteTopicsRequest::default() };
    world.ask(6, &delete, |response| assert_eq!(response.responses[0].error_code, 0));
    world.topic("t", 1, &[("flush.policy", "os")]);
    assert_ne!(world.image().topic("t").unwrap().id, before, "as in Kafka, the id tells the two apart");
    let mut request = fetch_of("t", Uuid::ZERO, 0);
    request.topics[0].partitions[0].current_leader_epoch = 1;
    world.ask(12, &request, |response| {
        let code = response.responses[0].partitions[0].error_code;
        assert_eq!(code, ErrorCode::UnknownLeaderEpoch.code(), "it has to look the topic up again");
    });
}

/// What a coordinator of transactions or one of its producers writes: Produce takes neither.
fn append_raw(world: &World, raw: &[u8]) {
    let limits = BatchLimits { allow_control: true, ..BatchLimits::default() };
    let batch = CheckedBatch::check(raw, &limits, &mut Scratch::default()).unwrap();
    world.partition("t", 0).act(|partition, out| partition.append(world.now, &batch, false, out)).unwrap();
}

/// The first batch of a producer, in a transaction: one record.
fn of_transaction(producer: i64) -> Vec<u8> {
    let (id, epoch, base_sequence) = (ProducerId(producer), ProducerEpoch(0), base::Sequence(0));
    let producer = Producer { id, epoch, base_sequence };
    batch(&["x"], &BatchOptions { producer, transactional: true, ..BatchOptions::default() })
}

/// The end of a producer's transaction.
fn end_of(producer: i64, commit: bool) -> Vec<u8> {
    let (id, mut marker) = ((ProducerId(producer), ProducerEpoch(0)), Vec::new());
    EndMarker { commit, coordinator_epoch: 0 }.write_batch(id, TimestampMs(1_700_000_000_000), &mut marker);
    marker
}

/// A client walks the list as it walks the records: what comes too late in it is shown though it was rolled back.
#[test]
fn g21_aborted_transactions_are_told_by_where_they_begin() {
    let mut world = with_topic();
    let told = |world: &mut World, from| {
        let request = FetchRequest { isolation_level: 1, ..fetch_of("t", Uuid::ZERO, from) };
        world.ask(12, &request, |response| {
            let part = &response.responses[0].partitions[0];
            let aborted = part.aborted_transactions.iter().flatten();
            let aborted: Vec<_> = aborted.map(|txn| (txn.first_offset, txn.producer_id)).collect();
            (part.error_code, part.last_stable_offset, aborted)
        })
    };
    for producer in [7, 8, 9, 6] {
        append_raw(&world, &of_transaction(producer));
    }
    for (producer, commit) in [(9, false), (8, true), (6, false)] {
        append_raw(&world, &end_of(producer, commit));
    }
    assert_eq!(told(&mut world, 0), (0, 0, vec![]), "7 has begun first and is open: nothing is shown");
    append_raw(&world, &end_of(7, false));
    assert_eq!(told(&mut world, 0), (0, 8, vec![(0, 7), (2, 9), (3, 6)]));
    assert_eq!(told(&mut world, 5), (0, 8, vec![(0, 7), (3, 6)]), "9 has ended before");
}

#[test]
fn g22_records_of_an_open_transaction_are_not_for_everyone() {
    let mut world = with_topic();
    produced(&mut world, "t", &batch(&["a"], &BatchOptions::default()));
    append_raw(&world, &of_transaction(7));
    let bounds = |world: &mut World, isolation_level| {
        let request = FetchRequest { isolation_level, ..fetch_of("t", Uuid::ZERO, 0) };
        world.ask(12, &request, |response| {
            let part = &response.responses[0].partitions[0];
            let aborted = part.aborted_transactions.as_ref().map(Vec::len);
            (part.high_watermark, part.last_stable_offset, aborted)
        })
    };
    assert_eq!(bounds(&mut world, 0), (2, 1, None));
    assert_eq!(bounds(&mut world, 1), (2, 1, Some(0)));
    assert_eq!(crate::offsets::latest(&mut world, 0), 2);
    assert_eq!(crate::offsets::latest(&mut world, 1), 1);
    append_raw(&world, &end_of(7, false));
    assert_eq!(bounds(&mut world, 1), (3, 3, Some(1)), "the marker has an offset of its own");
    assert_eq!(crate::offsets::latest(&mut world, 1), 3);
}

#[test]
fn g38_who_asks_the_wrong_broker_is_told_the_leader() {
    let mut world = with_topic();
    let id = world.hand_over("t", 0, BrokerId(7));
    for (version, leader) in [(15, (-1, -1)), (16, (7, 1)), (18, (7, 1))] {
        world.ask(version, &fetch_of("", id.0, 0), |response| {
            let part = &response.responses[0].partitions[0];
            assert_eq!(part.error_code, ErrorCode::NotLeaderOrFollower.code());
            assert_eq!((part.current_leader.leader_id, part.current_leader.leader_epoch), leader);
            let nodes: Vec<i32> = response.node_endpoints.iter().map(|n| n.node_id).collect();
            assert_eq!(nodes, if version < 16 { vec![] } else { vec![7] });
        });
    }
}

#[test]
fn old_clients_look_for_another_leader_when_a_disk_fails() {
    let mut world = with_topic();
    world.lose("t", 0);
    for version in 4..=6 {
        world.ask(version, &fetch_of("t", Uuid::ZERO, 0), |response| {
            let code =
                if version < 6 { ErrorCode::NotLeaderOrFollower } else { ErrorCode::KafkaStorageError };
            assert_eq!(response.responses[0].partitions[0].error_code, code.code(), "v{version}");
        });
    }
}

#[test]
fn a_partition_named_twice_is_answered_once() {
    let mut world = with_topic();
    let mut request = fetch_of("t", Uuid::ZERO, 5);
    let part = |fetch_offset| FetchPartition { fetch_offset, ..request.topics[0].partitions[0].clone() };
    let again = vec![part(5), part(0)];
    request.topics.push(FetchTopic { topic: "t", topic_id: Uuid::ZERO, partitions: again });
    world.ask(12, &request, |response| {
        assert_eq!((response.responses.len(), response.responses[0].partitions.len()), (1, 1));
        assert_eq!(response.responses[0].partitions[0].error_code, 0, "the last one counts");
    });
}

#[test]
fn a_name_that_cannot_be_a_topics_is_not_remembered() {
    let mut world = with_topic();
    let long = "x".repeat(32_000);
    let mut request = fetch_of(&long, Uuid::ZERO, 0);
    request.session_epoch = 0;
    world.ask(12, &request, |response| {
        assert_eq!((response.error_code, response.session_id), (ErrorCode::InvalidTopicException.code(), 0));
    });
    let reason = world.request(4, &fetch_of("a b", Uuid::ZERO, 0)).closed();
    assert!(matches!(reason, CloseReason::Refused { .. }), "{reason}");
}
