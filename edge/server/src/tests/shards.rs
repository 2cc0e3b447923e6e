//! Shards of the group coordinator that fail, and what a node that stops does with them.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use base::{ErrorCode, PartitionIndex, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use broker::groups::{OFFSETS_TOPIC, partition_of};
use broker::host::{Asked, HostedShard};
use broker::parked::{Waiter, WaiterId, Wake};
use coordinator::record::OffsetCommitValue;
use coordinator::{Caller, ConnectionId, GroupRecord, Request, Response, Shard, Ticket};
use records::{BatchBuilder, BatchLimits, BatchOptions, CheckedBatch, EndMarker, Producer, Scratch};
use wire::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};

use super::{Life, Site, log_file};
use crate::coordinators::{Coordinators, ShardCell};

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// How often it rang.
#[derive(Default)]
struct Bell {
    rang: Mutex<u32>,
    heard: Condvar,
}

impl Wake for Bell {
    fn wake(&self) {
        *self.rang.lock().unwrap() += 1;
        self.heard.notify_all();
    }
}

impl Bell {
    /// An answer to the request that it rings for.
    fn answer(&self, shard: &ShardCell, ticket: Ticket) -> Response {
        let rang = self.rang.lock().unwrap();
        let (rang, waited) = self.heard.wait_timeout_while(rang, PATIENCE, |rang| *rang == 0).unwrap();
        drop(rang);
        assert!(!waited.timed_out(), "waited for: an answer");
        shard.take(ticket).expect("it rings when the answer is there")
    }
}

impl Life {
    fn coordinators(&self) -> &Arc<Coordinators> {
        &self.started.node.coordinators
    }

    /// The shard that keeps a group, once its log is read.
    fn shard_of(&self, group: &str, partitions: usize) -> Arc<ShardCell> {
        let place = partition_of(group, partitions);
        until("the shard is loaded", || {
            let shard = self.coordinators().get(place)?;
            shard.with(Shard::is_active).then_some(shard)
        })
    }

    fn ask(&self, shard: &ShardCell, request: Request<'_>, bell: &Arc<Bell>) -> Asked {
        let node = &self.started.node;
        let (now, image) = (node.clock.now(), node.image.load_full());
        let connection = ConnectionId(1);
        let caller = Caller { version: 3, client_id: "", client_host: "/127.0.0.1", random: 7, connection };
        let waiter = Waiter { id: WaiterId(1), bell: Arc::clone(bell) as Arc<dyn Wake> };
        shard.ask((now, &image), caller, request, &waiter)
    }

    fn answered(&self, shard: &ShardCell, request: Request<'_>) -> Response {
        let bell = Arc::default();
        match self.ask(shard, request, &bell) {
            Asked::Said(response) => response,
            Asked::Waits(ticket, _) => bell.answer(shard, ticket),
        }
    }

    fn commit(&self, shard: &ShardCell, group: &str, offset: i64) -> Response {
        let partition = OffsetCommitRequestPartition {
            committed_offset: offset,
            committed_leader_epoch: -1,
            ..OffsetCommitRequestPartition::default()
        };
        let topic = OffsetCommitRequestTopic {
            name: "t",
            partitions: vec![partition],
            ..OffsetCommitRequestTopic::default()
        };
        let asks = OffsetCommitRequest {
            group_id: group,
            generation_id_or_member_epoch: -1,
            topics: vec![topic],
            ..OffsetCommitRequest::default()
        };
        self.answered(shard, Request::OffsetCommit(&asks))
    }

    fn committed(&self, shard: &ShardCell, group: &str) -> Result<i64, ErrorCode> {
        let topic = OffsetFetchRequestTopics {
            name: "t",
            partition_indexes: vec![0],
            ..OffsetFetchRequestTopics::default()
        };
        let asks = OffsetFetchRequestGroup {
            group_id: group,
            topics: Some(vec![topic]),
            ..OffsetFetchRequestGroup::default()
        };
        let Response::OffsetFetch(fetched) = self.answered(shard, Request::OffsetFetch(&asks)) else {
            panic!("it answers what it was asked")
        };
        match fetched.error {
            ErrorCode::None => Ok(fetched.topics[0].partitions[0].offset),
            error => Err(error),
        }
    }

    /// A member joins, and waits for others.
    fn join(&self, shard: &ShardCell, group: &str, bell: &Arc<Bell>) -> Ticket {
        let protocol = JoinGroupRequestProtocol { name: "range", metadata: b"" };
        let asks = JoinGroupRequest {
            group_id: group,
            session_timeout_ms: 30_000,
            rebalance_timeout_ms: 30_000,
            protocol_type: "consumer",
            protocols: vec![protocol],
            ..JoinGroupRequest::default()
        };
        match self.ask(shard, Request::JoinGroup(&asks), bell) {
            Asked::Waits(ticket, _) => ticket,
            Asked::Said(said) => panic!("{said:?}"),
        }
    }
}

fn joined(response: &Response) -> (ErrorCode, i32) {
    match response {
        Response::JoinGroup(joined) => (joined.error, joined.generation),
        other => panic!("{other:?}"),
    }
}

/// Two groups, each in a shard of its own.
fn two_groups() -> [&'static str; 2] {
    let other = ["b", "c", "d"].into_iter().find(|other| partition_of(other, 2) != partition_of("a", 2));
    ["a", other.expect("not all of them fall on one")]
}

#[test]
fn a_shard_that_panicked_is_read_anew_and_the_others_go_on() {
    let site = Site::new();
    let life = site.start(&["d"]);
    life.create("t", 1);
    life.create(OFFSETS_TOPIC, 2);
    let [failing, other] = two_groups();
    let (shard, beside) = (life.shard_of(failing, 2), life.shard_of(other, 2));
    for (shard, group) in [(&shard, failing), (&beside, other)] {
        let Response::OffsetCommit(topics) = life.commit(shard, group, 5) else { panic!("it commits") };
        assert_eq!(topics[0].partitions, [(0, ErrorCode::None)]);
    }
    let bell = Arc::<Bell>::default();
    let ticket = life.join(&shard, "waiting", &bell);

    // Whoever stepped it is not hurt; who waited is sent away, and who comes is, too.
    shard.step(|_, _, _| panic!("on purpose"));
    let told = shard.take(ticket).expect("nobody waits for a shard that is gone");
    assert_eq!(joined(&told), (ErrorCode::NotCoordinator, -1));
    assert_eq!(*bell.rang.lock().unwrap(), 1);
    assert_eq!(life.committed(&shard, failing), Err(ErrorCode::NotCoordinator));

    let anew = life.shard_of(failing, 2);
    assert!(!Arc::ptr_eq(&anew, &shard));
    assert_eq!(life.committed(&anew, failing), Ok(5));
    let Response::OffsetCommit(topics) = life.commit(&anew, failing, 6) else { panic!("it commits") };
    assert_eq!(topics[0].partitions, [(0, ErrorCode::None)]);

    // The timer is there for the others, and for the one that came.
    assert!(Arc::ptr_eq(&beside, &life.shard_of(other, 2)), "that is none of its concern");
    for (shard, group) in [(&beside, other), (&anew, failing)] {
        let bell = Arc::default();
        let ticket = life.join(shard, group, &bell);
        assert_eq!(joined(&bell.answer(shard, ticket)), (ErrorCode::None, 1));
    }
    life.stop();
}

/// As a log would that makes the shard fail which reads it.
#[test]
fn a_shard_that_panics_while_it_is_loaded_keeps_nobody_from_being_loaded() {
    let site = Site::new();
    let life = site.start(&["d"]);
    life.create("t", 1);
    life.create(OFFSETS_TOPIC, 2);
    let [failing, other] = two_groups();
    let shard = life.shard_of(failing, 2);
    life.commit(&shard, failing, 5);
    // It is there already, and does not expect a record to be read.
    life.coordinators().load_again(Arc::clone(&shard));
    let anew = until("another takes its place", || {
        let there = life.coordinators().get(partition_of(failing, 2))?;
        (!Arc::ptr_eq(&there, &shard) && there.with(Shard::is_active)).then_some(there)
    });
    assert_eq!(life.committed(&anew, failing), Ok(5));
    // The second time it waits a while, and says that it loads.
    life.coordinators().load_again(Arc::clone(&anew));
    let third = until("another takes its place", || {
        let there = life.coordinators().get(partition_of(failing, 2))?;
        (!Arc::ptr_eq(&there, &anew)).then_some(there)
    });
    assert_eq!(life.committed(&third, failing), Err(ErrorCode::CoordinatorLoadInProgress));
    assert_eq!(life.committed(&life.shard_of(other, 2), other), Ok(-1));
    assert_eq!(life.committed(&life.shard_of(failing, 2), failing), Ok(5));
    life.stop();
}

/// As a bad sector would that can be read again later.
#[test]
fn a_log_that_cannot_be_read_is_read_again() {
    is_read_again(|_| Vec::new());
    // A batch that seems to reach beyond the end of the log is not that end.
    is_read_again(|bytes| [&bytes[..9], &[bytes[9] ^ 1], &bytes[10..]].concat());
}

fn is_read_again(damaged: impl Fn(&[u8]) -> Vec<u8>) {
    let site = Site::new();
    let life = site.start(&["d"]);
    life.create("t", 1);
    let topic = life.create(OFFSETS_TOPIC, 2).id;
    let [group, _] = two_groups();
    let shard = life.shard_of(group, 2);
    life.commit(&shard, group, 5);
    let path = log_file(&life.dir_of(topic, partition_of(group, 2).0));
    let bytes = std::fs::read(&path).unwrap();

    std::fs::write(&path, damaged(&bytes)).unwrap();
    shard.step(|_, _, _| panic!("on purpose"));
    let renewed = |before: &Arc<ShardCell>| {
        until("another takes its place", || {
            let there = life.coordinators().get(partition_of(group, 2))?;
            (!Arc::ptr_eq(&there, before)).then_some(there)
        })
    };
    let unread = renewed(&shard);
    let third = renewed(&unread);
    assert_eq!(life.committed(&unread, group), Err(ErrorCode::NotCoordinator));
    assert_eq!(life.committed(&third, group), Err(ErrorCode::CoordinatorLoadInProgress));
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(life.committed(&life.shard_of(group, 2), group), Ok(5));
    life.stop();
}

/// A log that Kafka wrote, whose groups committed in transactions.
#[test]
fn offsets_of_transactions_count_as_their_ends_say() {
    let site = Site::new();
    let life = site.start(&["d"]);
    life.create("t", 1);
    let topic = life.create(OFFSETS_TOPIC, 1).id;
    let shard = life.shard_of("a", 1);
    let cell = life.started.node.partitions.get(topic, PartitionIndex(0)).unwrap();
    let limits = BatchLimits { allow_control: true, ..BatchLimits::default() };
    let append = |raw: &[u8]| {
        let batch = CheckedBatch::check(raw, &limits, &mut Scratch::default()).unwrap();
        let now = life.started.node.clock.now();
        cell.act(|partition, out| partition.append(now, &batch, false, out)).unwrap();
    };
    let commit = |group: &str, offset: i64, producer: Producer| {
        let value = OffsetCommitValue { offset, ..OffsetCommitValue::default() };
        let record =
            GroupRecord::OffsetCommit { group, topic: "t", partition: 0, value: Some(value) }.encode();
        let mut builder = BatchBuilder::new(1 << 20);
        builder.try_append(TimestampMs(1), Some(&record.key), record.value.as_deref(), &[]).unwrap();
        let options =
            BatchOptions { producer, transactional: producer != Producer::NONE, ..BatchOptions::default() };
        let mut raw = Vec::new();
        builder.finish(&options, &mut Scratch::default(), &mut raw).unwrap();
        append(&raw);
    };
    let end = |producer: Producer, commit: bool| {
        let mut raw = Vec::new();
        let marker = EndMarker { commit, coordinator_epoch: 0 };
        marker.write_batch((producer.id, producer.epoch), TimestampMs(1), &mut raw);
        append(&raw);
    };
    let producer = |id| Producer { id: ProducerId(id), epoch: ProducerEpoch(0), base_sequence: Sequence(0) };
    for group in ["committed", "aborted", "open"] {
        commit(group, 5, Producer::NONE);
    }
    commit("committed", 7, producer(1));
    commit("aborted", 7, producer(2));
    commit("open", 7, producer(3));
    end(producer(2), false);
    end(producer(1), true);
    disk::FlushJob::flush(cell.as_ref());
    shard.step(|_, _, _| panic!("on purpose"));
    let anew = until("another takes its place", || {
        let there = life.coordinators().get(PartitionIndex(0))?;
        (!Arc::ptr_eq(&there, &shard) && there.with(Shard::is_active)).then_some(there)
    });
    let found = ["committed", "aborted", "open"].map(|group| life.committed(&anew, group));
    assert_eq!(found, [Ok(7), Ok(5), Ok(5)]);
    drop(cell);
    life.stop();
}

/// What is decided while it stops comes late, and must not have it begin again.
#[test]
fn a_node_that_stops_takes_up_no_shard_any_more() {
    let site = Site::new();
    let life = site.start(&["d"]);
    life.create(OFFSETS_TOPIC, 1);
    let shard = life.shard_of("a", 1);
    life.coordinators().stop();
    assert_eq!(life.committed(&shard, "a"), Err(ErrorCode::NotCoordinator));
    life.create("late", 1);
    let image = life.started.node.image.load_full();
    life.coordinators().take_roles(&image);
    // Nor one that was given up before.
    shard.step(|_, _, _| panic!("on purpose"));
    assert!(life.coordinators().get(PartitionIndex(0)).is_none());
    life.stop();
}
