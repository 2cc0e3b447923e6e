//! Replicas of one partition that follow each other: what is committed, who is in sync, what is cut.

mod world;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerEpoch, BrokerId, Effects, LeaderEpoch, Now, Offset, TimestampMs, TopicId, Uuid};
use records::{BatchBuilder, BatchLimits, BatchOptions, CheckedBatch, Scratch};
use storage::memory::MemoryDisk;
use storage::{FlushScope, Log, LogSettings};
use vltava_replica::{
    AlterIsr, AppendError, Assignment, Effect, Fetch, FetchError, FlushPolicy, FollowError, FollowerId,
    FromLeader, IsrAnswer, Lane, OffsetSpec, Partition, PartitionSettings, Reader,
};

/// Brokers 1, 2 and 3 with a replica each, and a controller that agrees to whatever is asked in time.
struct Cluster {
    replicas: BTreeMap<i32, Partition>,
    assignment: Assignment,
    now_ms: u64,
    /// What the leaders asked of the controller and got no answer to.
    asked: Vec<AlterIsr>,
    /// Whether the controller answers.
    is_controlled: bool,
    said: Vec<String>,
}

fn batch_of(records: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(1 << 16);
    for _ in 0..records {
        builder.try_append(TimestampMs(1), None, Some(b"value"), &[]).expect("it fits");
    }
    let mut raw = Vec::new();
    builder.finish(&BatchOptions::default(), &mut Scratch::default(), &mut raw).expect("it is small");
    raw
}

impl Cluster {
    /// Broker 2 knows that four records of leader 1 are committed.
    fn of_four_committed() -> Self {
        let mut cluster = Self::new(FlushPolicy::Os, 1);
        cluster.append(1, 4);
        for id in [2, 2, 3, 3, 2] {
            cluster.fetch(id).expect("it follows");
        }
        assert_eq!(cluster.ends()[1], (4, 4));
        cluster
    }

    /// A broker has lost its log.
    fn empty(&mut self, id: i32) {
        let emptied = Self::new(FlushPolicy::Os, 1).replicas.remove(&id).expect("there are three");
        self.replicas.insert(id, emptied);
    }

    fn new(policy: FlushPolicy, isr_min: usize) -> Self {
        let replica = |id: i32| {
            let disk = Arc::new(MemoryDisk::new());
            let (dir, topic) = (PathBuf::from("events-0"), TopicId(Uuid([7; 16])));
            let now = Now::new(Duration::ZERO, TimestampMs(1));
            let log = Log::create(disk, dir, topic, LogSettings::default(), now).expect("memory");
            let settings = PartitionSettings { policy, isr_min };
            (id, Partition::open(BrokerId(id), log, Offset::ZERO, settings))
        };
        let all: Vec<BrokerId> = (1..=3).map(BrokerId).collect();
        let assignment = Assignment {
            leader: None,
            leader_epoch: LeaderEpoch(-1),
            partition_epoch: 0,
            replicas: all.clone(),
            isr: all,
            unclean_epoch: LeaderEpoch::NONE,
        };
        let mut cluster = Self {
            replicas: (1..=3).map(replica).collect(),
            assignment,
            now_ms: 0,
            asked: Vec::new(),
            is_controlled: true,
            said: Vec::new(),
        };
        cluster.lead(1, &[1, 2, 3]);
        cluster
    }

    fn now(&self) -> Now {
        Now::new(Duration::from_millis(self.now_ms), TimestampMs(1))
    }

    fn step<R>(&mut self, id: i32, act: impl FnOnce(&mut Partition, Now, &mut Effects<Effect>) -> R) -> R {
        let (now, mut out) = (self.now(), Effects::new());
        let result = act(self.replicas.get_mut(&id).expect("there are three"), now, &mut out);
        let mut effects: Vec<Effect> = out.drain().collect();
        let lowers = |effect: &Effect| match effect {
            Effect::LowerRecoveryPoint(upto) => Some(*upto),
            _ => None,
        };
        if let Some(upto) = effects.iter().find_map(lowers) {
            let partition = self.replicas.get_mut(&id).expect("there are three");
            partition.cut(now, upto, &mut out).expect("it can be cut");
            effects.extend(out.drain());
        }
        for effect in effects {
            match effect {
                Effect::SaveStart => {
                    let partition = self.replicas.get_mut(&id).expect("there are three");
                    partition.on_start_saved(partition.log().start(), &mut out);
                }
                Effect::AlterIsr(asked) => self.asked.push(asked),
                Effect::Truncated { from, to, .. } => self.said.push(format!("{id} cut {from} to {to}")),
                _ => {}
            }
        }
        result
    }

    /// Another leader, and who is in sync; those who hear of it are all.
    fn lead(&mut self, leader: i32, isr: &[i32]) {
        self.assignment.leader = Some(BrokerId(leader));
        self.assignment.leader_epoch.0 += 1;
        self.assignment.partition_epoch += 1;
        self.assignment.isr = isr.iter().copied().map(BrokerId).collect();
        (1..=3).for_each(|id| self.hear(id));
    }

    fn hear(&mut self, id: i32) {
        let assignment = self.assignment.clone();
        self.step(id, |partition, now, out| partition.assign(now, &assignment, out));
    }

    fn try_append(&mut self, id: i32, records: usize) -> Result<Offset, AppendError> {
        let (raw, mut scratch) = (batch_of(records), Scratch::default());
        let batch = CheckedBatch::check(&raw, &BatchLimits::default(), &mut scratch).expect("a good batch");
        self.step(id, |partition, now, out| partition.append(now, &batch, true, out))
            .map(|appended| appended.base_offset)
    }

    fn append(&mut self, id: i32, records: usize) {
        self.try_append(id, records).expect("it leads");
    }

    /// Has the leader delete what lies before an offset.
    fn delete(&mut self, id: i32, upto: i64) {
        let deleted = self.step(id, |partition, _, out| partition.delete_records(Some(Offset(upto)), out));
        deleted.expect("it is committed");
    }

    fn flush(&mut self, id: i32) {
        self.step(id, |partition, _, out| {
            if let Some(flush) = partition.flush_plan(FlushScope::Records, out) {
                partition.on_flushed(flush.run(), out);
            }
        });
    }

    /// A follower asks its leader once; whether it could ask.
    fn fetch(&mut self, id: i32) -> Result<bool, FollowError> {
        let Some(asks) = self.replicas[&id].next_fetch().ask() else { return Ok(false) };
        let leader = asks.leader.0;
        let fetch = Fetch {
            reader: Reader::Follower(FollowerId { broker: BrokerId(id), epoch: BrokerEpoch(0) }),
            from: asks.from,
            current_epoch: asks.current_epoch,
            last_epoch: asks.last_epoch,
            bytes_max: 1 << 20,
            at_least_one: true,
            committed_only: false,
            log_start: asks.log_start,
            is_again: false,
        };
        let fetched = self.step(leader, |partition, now, out| partition.fetch(now, &fetch, out));
        if let Err(FetchError::OutOfRange { start, end, .. }) = fetched {
            let epoch = asks.current_epoch;
            self.step(id, |partition, _, out| partition.on_out_of_range(epoch, (start, end), out))?;
            return Ok(true);
        }
        let fetched = fetched.unwrap_or_else(|error| panic!("{id} asks {leader}: {error}"));
        let mut records = Vec::new();
        for slice in &fetched.slices {
            let mut part = vec![0; slice.len as usize];
            slice.file.read_at(&mut part, slice.position).expect("memory");
            records.extend(part);
        }
        let said = FromLeader {
            epoch: asks.current_epoch,
            high_watermark: fetched.high_watermark,
            log_start: fetched.log_start,
            diverging: fetched.diverging,
            records: &records,
        };
        self.step(id, |partition, now, out| partition.on_fetched(now, &said, out))?;
        self.agree();
        Ok(true)
    }

    /// The controller does what it is asked, if it was asked in time.
    fn agree(&mut self) {
        for asked in std::mem::take(&mut self.asked) {
            if !self.is_controlled {
                self.asked.push(asked);
                continue;
            }
            let leader = self.assignment.leader.expect("somebody leads").0;
            let is_in_time = asked.partition_epoch == self.assignment.partition_epoch
                && asked.leader_epoch == self.assignment.leader_epoch;
            let answer = if is_in_time {
                self.assignment.partition_epoch += 1;
                self.assignment.isr = asked.isr.iter().map(|&(id, _)| id).collect();
                let isr = self.assignment.isr.clone();
                IsrAnswer::Altered { isr, partition_epoch: self.assignment.partition_epoch }
            } else {
                IsrAnswer::Refused
            };
            self.answer(leader, &asked, answer);
        }
    }

    fn answer(&mut self, leader: i32, asked: &AlterIsr, answer: IsrAnswer) {
        self.step(leader, |partition, _, out| partition.on_isr_answer(asked, answer, out));
    }

    /// Of each replica: up to where it is committed, and where it ends.
    fn ends(&self) -> Vec<(i64, i64)> {
        let ends = |partition: &Partition| (partition.high_watermark().0, partition.log().end().0);
        self.replicas.values().map(ends).collect()
    }

    fn isr(&self) -> Vec<i32> {
        self.assignment.isr.iter().map(|id| id.0).collect()
    }
}

#[test]
fn what_all_in_sync_have_is_committed() {
    let mut cluster = Cluster::new(FlushPolicy::Os, 2);
    cluster.append(1, 2);
    assert_eq!(cluster.ends(), [(0, 2), (0, 0), (0, 0)]);
    for id in [2, 3, 2] {
        assert!(cluster.fetch(id).expect("it follows"));
    }
    assert_eq!(cluster.ends(), [(0, 2), (0, 2), (0, 2)], "nobody said yet that 3 has it");
    cluster.fetch(3).expect("it follows");
    assert_eq!(cluster.ends(), [(2, 2), (0, 2), (2, 2)], "and now it was said, and answered");
}

#[test]
fn only_what_is_durable_everywhere_is_committed_under_ack() {
    let mut cluster = Cluster::new(FlushPolicy::Ack, 2);
    cluster.append(1, 1);
    cluster.fetch(2).expect("it follows");
    cluster.fetch(3).expect("it follows");
    assert!(!cluster.fetch(2).expect("it follows"), "what it has is not durable yet");
    for id in [2, 3] {
        cluster.flush(id);
        assert!(cluster.fetch(id).expect("it follows"));
    }
    assert_eq!(cluster.ends()[0], (0, 1), "the leader's own is not durable");
    cluster.flush(1);
    assert_eq!(cluster.ends()[0], (1, 1));
}

#[test]
fn who_lags_leaves_and_comes_back_when_it_has_caught_up() {
    let mut cluster = Cluster::new(FlushPolicy::Os, 2);
    cluster.append(1, 3);
    cluster.now_ms = 10_000;
    cluster.fetch(2).expect("it follows");
    cluster.fetch(2).expect("it follows");
    cluster.now_ms = 31_000;
    cluster.step(1, |partition, now, out| partition.check_isr(now, Duration::from_secs(30), out));
    cluster.agree();
    assert_eq!((cluster.isr(), cluster.ends()[0]), (vec![1, 2], (3, 3)), "nobody waits for 3 any more");
    cluster.append(1, 1);
    cluster.fetch(3).expect("it follows");
    assert_eq!(cluster.isr(), [1, 2], "it has nothing yet");
    cluster.fetch(3).expect("it follows");
    assert_eq!(cluster.isr(), [1, 2, 3]);
}

/// KAFKA-7128: a new leader that is alone in sync where two are asked for does not know yet what its
/// predecessor committed. Who has all that it knows of may lack that.
#[test]
fn who_has_not_come_to_where_the_leadership_began_is_not_in_sync() {
    let mut cluster = Cluster::new(FlushPolicy::Os, 2);
    cluster.append(1, 3);
    cluster.fetch(2).expect("it follows");
    assert_eq!(cluster.ends(), [(0, 3), (0, 3), (0, 0)]);
    cluster.lead(2, &[2]);
    cluster.fetch(3).expect("it follows");
    assert_eq!((cluster.isr(), cluster.ends()[1]), (vec![2], (0, 3)), "3 had nothing when it asked");
    cluster.fetch(3).expect("it follows");
    assert_eq!((cluster.isr(), cluster.ends()[1]), (vec![2, 3], (3, 3)), "and now it has all");
}

#[test]
fn nothing_is_committed_while_too_few_are_in_sync() {
    let mut cluster = Cluster::new(FlushPolicy::Os, 2);
    cluster.lead(1, &[1]);
    let refused = cluster.try_append(1, 1).expect_err("1 of 2");
    assert_eq!(refused, AppendError::NotEnoughReplicas { in_sync: 1, wanted: 2 });
    cluster.lead(1, &[1, 2]);
    cluster.append(1, 1);
    cluster.lead(1, &[1]);
    assert_eq!(cluster.ends()[0], (0, 1), "what one has is not enough");
}

/// The controller does not answer: who is proposed counts already, and who is to go counts still.
#[test]
fn while_a_proposal_is_on_its_way_both_sets_count() {
    let mut cluster = Cluster::new(FlushPolicy::Os, 1);
    cluster.lead(1, &[1, 2]);
    cluster.append(1, 1);
    cluster.fetch(2).expect("it follows");
    cluster.fetch(2).expect("it follows");
    assert_eq!(cluster.ends()[0], (1, 1));
    cluster.is_controlled = false;
    cluster.fetch(3).expect("it follows");
    cluster.fetch(3).expect("it follows");
    assert_eq!((cluster.isr(), cluster.asked.len()), (vec![1, 2], 1));
    cluster.append(1, 1);
    cluster.fetch(2).expect("it follows");
    cluster.fetch(2).expect("it follows");
    assert_eq!(cluster.ends()[0], (1, 2), "3 may be in sync by now");
    cluster.fetch(3).expect("it follows");
    cluster.fetch(3).expect("it follows");
    assert_eq!(cluster.ends()[0], (2, 2));
}

/// The partition changes while a proposal is on its way, and the leader makes another one: that the first is
/// refused says nothing of the second.
#[test]
fn the_answer_to_an_earlier_proposal_says_nothing_of_a_later_one() {
    let mut cluster = Cluster::new(FlushPolicy::Os, 1);
    cluster.lead(1, &[1, 2]);
    cluster.is_controlled = false;
    cluster.fetch(3).expect("it follows");
    cluster.assignment.partition_epoch += 1;
    cluster.hear(1);
    cluster.fetch(3).expect("it follows");
    let [first, second] = cluster.asked.clone().try_into().expect("it was asked twice");
    cluster.answer(1, &first, IsrAnswer::Refused);
    cluster.append(1, 1);
    cluster.fetch(2).expect("it follows");
    cluster.fetch(2).expect("it follows");
    assert_eq!(cluster.ends()[0], (0, 1), "3 may be in sync by now");
    cluster.answer(1, &second, IsrAnswer::Refused);
    assert_eq!(cluster.ends()[0], (1, 1));
}

/// Nobody knows what became of a proposal, and it is said again: the partition has changed since, for the
/// first copy was heard.
#[test]
fn a_proposal_that_is_outdated_may_have_been_taken() {
    let mut cluster = Cluster::new(FlushPolicy::Os, 1);
    cluster.lead(1, &[1, 2]);
    cluster.is_controlled = false;
    cluster.fetch(3).expect("it follows");
    let asked = cluster.asked.pop().expect("3 has all there is");
    cluster.answer(1, &asked, IsrAnswer::Unknown);
    assert_eq!(cluster.asked, std::slice::from_ref(&asked));
    cluster.answer(1, &asked, IsrAnswer::Outdated);
    cluster.append(1, 1);
    cluster.fetch(2).expect("it follows");
    cluster.fetch(2).expect("it follows");
    assert_eq!(cluster.ends()[0], (0, 1), "3 may be in sync by now");
    cluster.assignment.partition_epoch += 1;
    cluster.hear(1);
    assert_eq!(cluster.ends()[0], (1, 1), "it is not");
}

/// Nobody knows what became of a proposal, and it is said again and refused: the first copy may come to the
/// controller after that, and be taken. So the leader takes it back, and both sets count until that is through.
#[test]
fn a_proposal_that_was_said_twice_and_refused_once_is_taken_back() {
    let mut cluster = Cluster::new(FlushPolicy::Os, 1);
    cluster.lead(1, &[1, 2]);
    cluster.is_controlled = false;
    cluster.fetch(3).expect("it follows");
    let asked = cluster.asked.pop().expect("3 has all there is");
    cluster.answer(1, &asked, IsrAnswer::Unknown);
    assert_eq!(cluster.asked.pop(), Some(asked.clone()), "it is said again");
    cluster.answer(1, &asked, IsrAnswer::Refused);
    let instead = cluster.asked.pop().expect("it is taken back");
    let is_so = instead.isr.iter().map(|(id, _)| id.0).eq([1, 2]);
    assert!(is_so && instead.partition_epoch == asked.partition_epoch, "{instead:?}");
    cluster.append(1, 1);
    cluster.fetch(2).expect("it follows");
    cluster.fetch(2).expect("it follows");
    assert_eq!(cluster.ends()[0], (0, 1), "3 may be in sync by now");
    let isr = vec![BrokerId(1), BrokerId(2)];
    let partition_epoch = asked.partition_epoch + 1;
    cluster.answer(1, &instead, IsrAnswer::Altered { isr, partition_epoch });
    assert_eq!(cluster.ends()[0], (1, 1), "and never will be without being asked for anew");
}

/// Records were deleted on request up to an offset within a batch, which nobody splits.
#[test]
fn who_has_nothing_begins_with_the_batch_that_the_leaders_log_starts_within() {
    let mut cluster = Cluster::new(FlushPolicy::Os, 1);
    cluster.append(1, 4);
    cluster.append(1, 4);
    for id in [2, 2] {
        cluster.fetch(id).expect("it follows");
    }
    cluster.lead(1, &[1, 2]);
    cluster.fetch(2).expect("it follows");
    for upto in [5, 6] {
        cluster.delete(1, upto);
        // It begins at 5, begins anew within the batch, and is told only then that there is less by now.
        for _ in 0..2 {
            cluster.fetch(3).expect("it follows");
        }
    }
    for _ in 0..4 {
        cluster.fetch(3).expect("it follows");
    }
    assert_eq!(cluster.ends()[2], (8, 8));
    assert_eq!(cluster.replicas[&3].log().start(), Offset(6));
    assert_eq!(cluster.isr(), [1, 2, 3]);
    // It has the whole batch, as the leader has, and is followed in its turn.
    cluster.empty(2);
    cluster.lead(3, &[3]);
    cluster.append(3, 1);
    for _ in 0..4 {
        cluster.fetch(2).expect("it follows");
    }
    assert_eq!((cluster.ends()[1], cluster.replicas[&2].log().start()), ((9, 9), Offset(6)));
}

/// Whoever leads next must not have what somebody was told is deleted: all in sync know it, durably, and whoever joins
/// them; and of those that are eligible beside them nobody knows.
#[test]
fn what_is_deleted_is_deleted_with_all_who_may_lead() {
    let mut cluster = Cluster::new(FlushPolicy::Os, 2);
    cluster.append(1, 4);
    for id in [2, 3, 2, 3] {
        cluster.fetch(id).expect("it follows");
    }
    let low = |cluster: &Cluster| cluster.replicas[&1].low_watermark();
    cluster.delete(1, 2);
    for (id, expected) in [(2, 0), (3, 0), (2, 0), (3, 2)] {
        cluster.fetch(id).expect("it follows");
        assert_eq!(low(&cluster), Offset(expected), "{id} has said up to where");
    }
    cluster.lead(1, &[1]);
    cluster.delete(1, 3);
    assert_eq!(low(&cluster), Offset::NONE, "2 and 3 may be eligible");
    cluster.fetch(2).expect("it follows");
    assert_eq!(cluster.isr(), [1], "it has all, and does not know what is deleted");
    cluster.fetch(2).expect("it follows");
    assert_eq!((cluster.isr(), low(&cluster)), (vec![1, 2], Offset(3)));
}

/// KIP-101: a leader is replaced before its last records were committed, and others take their place.
#[test]
fn what_was_not_committed_gives_way_to_what_was_written_instead() {
    let mut cluster = Cluster::new(FlushPolicy::Os, 2);
    cluster.append(1, 1);
    for id in [2, 3, 2, 3] {
        cluster.fetch(id).expect("it follows");
    }
    cluster.append(1, 5);
    cluster.lead(2, &[2, 3]);
    cluster.append(2, 2);
    cluster.fetch(1).expect("it follows");
    assert_eq!(cluster.said, ["1 cut 6 to 1"]);
    for id in [1, 3, 1, 3, 1] {
        cluster.fetch(id).expect("it follows");
    }
    assert_eq!(cluster.isr(), [2, 3, 1]);
    assert_eq!(cluster.ends().iter().map(|&(_, end)| end).collect::<Vec<_>>(), [3, 3, 3]);
    assert_eq!(cluster.ends()[1].0, 3);
}

#[test]
fn a_replica_does_not_give_up_what_is_committed() {
    let mut cluster = Cluster::of_four_committed();
    // A broker that lost its log is made leader by mistake.
    cluster.empty(3);
    cluster.lead(3, &[3]);
    cluster.append(3, 1);
    let error = cluster.fetch(2).expect_err("it would lose records");
    assert!(matches!(error, FollowError::CommittedDiverges { .. }), "{error}");
    assert_eq!(cluster.ends()[1], (4, 4));
}

/// A replica without what was committed was made leader because that was asked for. Whoever had it gives it up,
/// also one that comes back long after the leader has gone on with others.
#[test]
fn a_replica_that_missed_an_unclean_election_gives_up_what_was_lost_in_it() {
    let mut cluster = Cluster::of_four_committed();
    cluster.empty(3);
    cluster.assignment.unclean_epoch = LeaderEpoch(1);
    cluster.lead(3, &[3]);
    cluster.append(3, 1);
    // A later leadership, which began in good order.
    cluster.lead(3, &[3]);
    cluster.append(3, 1);
    for _ in 0..2 {
        cluster.fetch(2).expect("what it had is lost");
    }
    assert_eq!((cluster.ends()[1], &*cluster.said), ((2, 2), &["2 cut 4 to 0".to_owned()][..]));
}

/// It has followed since, so that what it has is what the leader had that was elected uncleanly. Another that
/// lacks some of it has lost it.
#[test]
fn a_replica_that_has_followed_since_an_unclean_election_gives_up_nothing_any_more() {
    for writes in [true, false] {
        let mut cluster = Cluster::new(FlushPolicy::Os, 1);
        cluster.append(1, 4);
        for id in [2, 2, 2] {
            cluster.fetch(id).expect("it follows");
        }
        cluster.lead(1, &[1, 2]);
        for id in [2, 2] {
            cluster.fetch(id).expect("it follows");
        }
        cluster.assignment.unclean_epoch = LeaderEpoch(2);
        cluster.lead(1, &[1]);
        if writes {
            cluster.append(1, 1);
        }
        for id in [2, 2] {
            cluster.fetch(id).expect("it follows");
        }
        let committed = cluster.ends()[1].0;
        assert!(committed >= 4, "{committed}");
        cluster.empty(3);
        cluster.lead(3, &[3]);
        cluster.append(3, 1);
        let error = cluster.fetch(2).expect_err("it would lose records");
        assert!(matches!(error, FollowError::CommittedDiverges { .. }), "{error}");
    }
}

#[test]
fn a_new_leader_does_not_say_where_the_end_is_before_it_knows() {
    let mut cluster = Cluster::new(FlushPolicy::Os, 2);
    cluster.append(1, 3);
    for id in [2, 3, 2, 3] {
        cluster.fetch(id).expect("it follows");
    }
    assert_eq!(cluster.ends(), [(3, 3), (0, 3), (3, 3)]);
    cluster.lead(2, &[2, 3]);
    let found = |cluster: &mut Cluster, spec| {
        cluster.step(2, |partition, _, out| partition.offset_for(spec, LeaderEpoch::NONE, false, out))
    };
    // Nor which record is the first of a time or has the last.
    let specs = [OffsetSpec::Latest, OffsetSpec::MaxTimestamp, OffsetSpec::At(TimestampMs(1))];
    for spec in specs {
        assert!(matches!(found(&mut cluster, spec), Err(FetchError::NotAvailable)), "{spec:?}");
    }
    assert!(found(&mut cluster, OffsetSpec::Earliest).is_ok());
    cluster.fetch(3).expect("it follows");
    let offsets =
        specs.map(|spec| found(&mut cluster, spec).expect("it knows").map(|(_, offset, _)| offset.0));
    assert_eq!(offsets, [Some(3), Some(0), Some(0)]);
    assert_eq!(found(&mut cluster, OffsetSpec::At(TimestampMs(2))).expect("it knows"), None);
}

#[test]
fn an_earlier_life_of_a_follower_is_not_listened_to() {
    let mut cluster = Cluster::new(FlushPolicy::Os, 1);
    cluster.append(1, 1);
    let asks = |epoch| Fetch {
        reader: Reader::Follower(FollowerId { broker: BrokerId(2), epoch: BrokerEpoch(epoch) }),
        from: Offset(1),
        current_epoch: LeaderEpoch(0),
        last_epoch: LeaderEpoch(0),
        bytes_max: 1,
        at_least_one: true,
        committed_only: false,
        log_start: Offset::ZERO,
        is_again: false,
    };
    let mut fetch = |epoch| cluster.step(1, |partition, now, out| partition.fetch(now, &asks(epoch), out));
    assert!(fetch(7).is_ok());
    assert!(matches!(fetch(6), Err(FetchError::UnknownReplica(BrokerId(2)))));
    assert!(fetch(8).is_ok());
}

#[test]
fn a_leader_knows_who_else_has_what_is_at_an_offset() {
    let mut cluster = Cluster::new(FlushPolicy::Os, 1);
    cluster.append(1, 2);
    let with = |cluster: &mut Cluster, offset| {
        cluster.step(1, |partition, _, _| {
            partition.replicas_with(Offset(offset)).map(|(id, end)| (id.0, end.0)).collect::<Vec<_>>()
        })
    };
    assert_eq!(with(&mut cluster, 0), [], "nobody has asked yet");
    cluster.fetch(2).expect("it follows");
    assert_eq!(with(&mut cluster, 0), [(2, 0)], "it has what it asked on from");
    assert_eq!(with(&mut cluster, 1), []);
    cluster.fetch(2).expect("it follows");
    cluster.fetch(3).expect("it follows");
    assert_eq!(with(&mut cluster, 1), [(2, 2)]);
    assert_eq!(with(&mut cluster, 2), [(2, 2)]);
    assert_eq!(with(&mut cluster, 3), []);
    let of_a_follower = cluster.step(2, |partition, _, _| partition.replicas_with(Offset(0)).count());
    assert_eq!(of_a_follower, 0);
}

#[test]
fn a_follower_takes_no_part_of_a_batch_for_the_end() {
    let mut cluster = Cluster::new(FlushPolicy::Os, 1);
    let whole = batch_of(3);
    let mut follow = |records: &[u8]| {
        let (epoch, start) = (LeaderEpoch(0), Offset(0));
        let said = FromLeader { epoch, high_watermark: start, log_start: start, diverging: None, records };
        let done = cluster.step(2, |partition, now, out| partition.on_fetched(now, &said, out).map(drop));
        (done, cluster.replicas[&2].log().end())
    };
    for cut in [1, 60, whole.len() - 1] {
        let (done, end) = follow(&whole[..cut]);
        assert!(matches!(done, Err(FollowError::Unusable(_))), "{cut}: {done:?}");
        assert_eq!(end, Offset(0));
    }
    assert_eq!(follow(&whole).1, Offset(3));
}

#[test]
fn a_follower_says_how_much_it_lacks_of_what_is_committed_and_catches_up_until_it_has_that() {
    let mut cluster = Cluster::new(FlushPolicy::Os, 1);
    let lag =
        |cluster: &mut Cluster, id| cluster.step(id, |partition, _, _| (partition.lag(), partition.lane()));
    assert_eq!(lag(&mut cluster, 2), (0, Lane::KeepingUp), "it was told nothing");
    let follow = |cluster: &mut Cluster, committed: i64, records: &[u8]| {
        let (epoch, log_start) = (LeaderEpoch(0), Offset(0));
        let high_watermark = Offset(committed);
        let said = FromLeader { epoch, high_watermark, log_start, diverging: None, records };
        cluster.step(2, |partition, now, out| partition.on_fetched(now, &said, out)).expect("it follows");
    };
    follow(&mut cluster, 5, &[]);
    assert_eq!(lag(&mut cluster, 2), (5, Lane::CatchingUp));
    follow(&mut cluster, 5, &batch_of(3));
    assert_eq!(lag(&mut cluster, 2), (2, Lane::CatchingUp));
    follow(&mut cluster, 3, &[]);
    assert_eq!(lag(&mut cluster, 2), (0, Lane::KeepingUp), "it has all, if not more");
    assert_eq!(lag(&mut cluster, 1), (0, Lane::KeepingUp), "a leader lacks nothing");

    let mut cluster = Cluster::new(FlushPolicy::Ack, 1);
    follow(&mut cluster, 3, &batch_of(3));
    assert_eq!(lag(&mut cluster, 2), (0, Lane::CatchingUp), "its disk is not there yet");
    cluster.flush(2);
    assert_eq!(lag(&mut cluster, 2), (0, Lane::KeepingUp));
}

#[test]
fn a_leader_says_how_much_the_slowest_of_its_followers_lacks() {
    let mut cluster = Cluster::new(FlushPolicy::Os, 1);
    let lag = |cluster: &Cluster, id: i32| cluster.replicas[&id].followers_lag();
    assert_eq!(lag(&cluster, 1), 0);
    cluster.append(1, 5);
    assert_eq!(lag(&cluster, 1), 5, "nobody has said anything");
    cluster.fetch(2).expect("it follows");
    cluster.fetch(2).expect("it follows");
    assert_eq!(lag(&cluster, 1), 5, "the other has not");
    cluster.fetch(3).expect("it follows");
    assert_eq!(lag(&cluster, 1), 5, "it had nothing when it asked");
    cluster.fetch(3).expect("it follows");
    assert_eq!(lag(&cluster, 1), 0);
    cluster.append(1, 2);
    assert_eq!((lag(&cluster, 1), lag(&cluster, 2)), (2, 0), "who follows leads nobody");
}
