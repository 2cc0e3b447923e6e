//! A follower and its leader, with all that is between them but the socket.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerEpoch, BrokerId, Effects, ErrorCode, LeaderEpoch, Offset, PartitionIndex, TopicId, Uuid};
use metadata::settings::TopicSettings;
use metadata::{MetadataRecord, PartitionChange};
use records::BatchOptions;
use replica::{Effect, FollowerFetch, FollowerId, IsrAnswer, NextFetch, Partition};
use storage::memory::MemoryDisk;
use storage::{FlushScope, Log};
use vltava_broker::call::{ParkedRequest, Peer, Session};
use vltava_broker::parked::{Waiter, WaiterId, Wake};
use vltava_broker::partition::{assignment, log_settings, partition_settings};
use vltava_broker::replication::{Fetcher, FetcherLimits, LeaderAnswer, Next, PartitionKey};

use wire::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic};

use crate::requests::produce;
use crate::world::{Bell, Reaction, World, batch};

const FOLLOWER: FollowerId = FollowerId { broker: BrokerId(2), epoch: BrokerEpoch(5) };

/// Broker 2: its partitions, and the one who fetches for them.
struct Follower {
    fetcher: Fetcher,
    partitions: BTreeMap<PartitionKey, Partition>,
    session: Session,
    bell: Arc<Bell>,
    correlation_id: i32,
    /// Whether its disk takes checkpoints.
    writes: bool,
    /// Until when it asks for nothing more, if it has no room for records.
    full_until: Option<Duration>,
}

impl Follower {
    /// Follows all partitions of these topics.
    fn of(world: &World, topics: &[&str]) -> Self {
        let bell = Arc::new(Bell::default());
        let waiter = Waiter { id: WaiterId(2), bell: Arc::clone(&bell) as Arc<dyn Wake> };
        let limits = FetcherLimits {
            wait_max: Duration::from_millis(500),
            response_bytes_max: 10 << 20,
            partition_bytes_max: 1 << 20,
            backoff: Duration::from_millis(100),
        };
        let mut follower = Self {
            fetcher: Fetcher::new(FOLLOWER, limits),
            partitions: BTreeMap::new(),
            session: Session::new(waiter, Peer::Node(FOLLOWER.broker)),
            bell,
            correlation_id: 0,
            writes: true,
            full_until: None,
        };
        for name in topics {
            let topic = world.image().topic(name).unwrap();
            let settings = TopicSettings::resolve(
                name,
                world.image().configs(&metadata::ConfigResource::Topic(topic.name.clone())),
                metadata::settings::Layers {
                    broker: &metadata::ConfigMap::new(),
                    default_broker: &metadata::ConfigMap::new(),
                    fixed: &metadata::ConfigMap::new(),
                },
            );
            for partition in topic.partitions() {
                let key = (topic.id, partition.index);
                let log = log_settings(&settings, Duration::from_secs(60));
                let disk = Arc::new(MemoryDisk::new());
                let log = Log::create(disk, PathBuf::from("log"), topic.id, log, world.now).unwrap();
                let own = partition_settings(&settings);
                let mut opened = Partition::open(FOLLOWER.broker, log, Offset::ZERO, own);
                opened.assign(world.now, &assignment(partition), &mut Effects::new());
                follower.fetcher.set(key, opened.next_fetch());
                follower.partitions.insert(key, opened);
            }
        }
        follower
    }

    /// Sends the next fetch; what waits at the leader, if it does.
    fn ask(&mut self, world: &mut World) -> Option<ParkedRequest> {
        self.correlation_id += 1;
        let frame = self.fetcher.request(world.now, self.correlation_id).unwrap().expect("it has to ask");
        std::mem::swap(&mut world.session, &mut self.session);
        let reaction = world.send(&frame.bytes[4..]);
        std::mem::swap(&mut world.session, &mut self.session);
        self.take(world, reaction)
    }

    fn look(&mut self, world: &mut World, parked: ParkedRequest) -> Option<ParkedRequest> {
        std::mem::swap(&mut world.session, &mut self.session);
        let reaction = world.look(parked);
        std::mem::swap(&mut world.session, &mut self.session);
        self.take(world, reaction)
    }

    fn take(&mut self, world: &World, reaction: Reaction) -> Option<ParkedRequest> {
        if let Reaction::Parked(parked) = reaction {
            return Some(parked);
        }
        let bytes = reaction.bytes();
        let (partitions, writes, full_until) = (&mut self.partitions, self.writes, self.full_until);
        let mut each = |key, mut answer: LeaderAnswer<'_>| {
            let has_failed = matches!(answer, LeaderAnswer::Refused(_));
            if let (LeaderAnswer::Fetched(said), Some(_)) = (&mut answer, full_until) {
                said.records = &[];
            }
            let fetch = step(partitions.get_mut(&key).unwrap(), world, answer, writes);
            Next { fetch, has_failed, rests_until: full_until }
        };
        self.fetcher.on_answer(world.now, self.correlation_id, &bytes, &mut each).unwrap();
        None
    }

    /// Everything that was appended is on the disk.
    fn flush(&mut self) {
        for partition in self.partitions.values_mut() {
            let mut out = Effects::new();
            while let Some(flush) = partition.flush_plan(FlushScope::Records, &mut out) {
                partition.on_flushed(flush.run(), &mut out);
            }
        }
        self.look_at_all();
    }

    /// The bell rang for every partition.
    fn look_at_all(&mut self) {
        for (key, partition) in &self.partitions {
            self.fetcher.set(*key, partition.next_fetch());
        }
    }

    fn ends(&self) -> Vec<(i64, i64)> {
        self.partitions.values().map(|it| (it.log().end().0, it.high_watermark().0)).collect()
    }
}

fn step(partition: &mut Partition, world: &World, answer: LeaderAnswer<'_>, writes: bool) -> NextFetch {
    let mut out = Effects::new();
    match answer {
        LeaderAnswer::Fetched(said) => drop(partition.on_fetched(world.now, &said, &mut out)),
        LeaderAnswer::OutOfRange { epoch, start, end } => {
            partition.on_out_of_range(epoch, (start, end), &mut out).unwrap();
        }
        LeaderAnswer::Refused(_) => {}
    }
    let effects: Vec<Effect> = out.drain().collect();
    if effects.iter().any(|effect| matches!(effect, Effect::SaveStart)) && writes {
        partition.on_start_saved(partition.log().start(), &mut out);
    }
    let lowered = effects.iter().find_map(|effect| match effect {
        Effect::LowerRecoveryPoint(upto) => Some(*upto),
        _ => None,
    });
    if let Some(upto) = lowered {
        match writes {
            true => partition.cut(world.now, upto, &mut out).unwrap(),
            false => partition.put_off_cut(&mut out),
        }
    }
    partition.next_fetch()
}

/// Broker 1 leads topics with two partitions each, which broker 2 has too.
fn leader(topics: &[&str], configs: &[(&str, &str)]) -> World {
    let mut world = World::new();
    topics.iter().for_each(|topic| world.topic(topic, 2, configs));
    world.register(2, 7, false);
    topics.iter().for_each(|topic| share(&mut world, topic, &[1, 2]));
    world
}

fn share(world: &mut World, topic: &str, isr: &[i32]) {
    let id = world.image().topic(topic).unwrap().id;
    for index in 0..2 {
        world.replay(MetadataRecord::PartitionChange(PartitionChange {
            replicas: Some(vec![BrokerId(1), BrokerId(2)]),
            isr: Some(isr.iter().map(|id| BrokerId(*id)).collect()),
            ..PartitionChange::of(id, PartitionIndex(index))
        }));
    }
}

fn sent(world: &mut World, topic: &str, value: &str) -> Reaction {
    let records = batch(&[value], &BatchOptions::default());
    world.request(9, &produce(topic, Uuid::ZERO, &records, -1))
}

/// A leader with one record, and a follower that has it and knows that it is committed.
fn one_committed() -> (World, Follower) {
    let mut world = leader(&["t"], &[("flush.policy", "os")]);
    let mut follower = Follower::of(&world, &["t"]);
    assert!(follower.ask(&mut world).is_none());
    let waiting = follower.ask(&mut world).expect("nothing is there");
    let _ = sent(&mut world, "t", "x").parked();
    assert!(follower.look(&mut world, waiting).is_none());
    assert!(follower.ask(&mut world).is_none(), "the record is committed");
    (world, follower)
}

/// Of the first record.
fn deletion() -> DeleteRecordsRequest<'static> {
    let part = DeleteRecordsPartition { partition_index: 0, offset: 1 };
    let topics = vec![DeleteRecordsTopic { name: "t", partitions: vec![part] }];
    DeleteRecordsRequest { topics, timeout_ms: 1000 }
}

/// What came is thrown away: to ask for it again at once would have it sent again and again.
#[test]
fn who_has_no_room_asks_again_when_its_rest_is_over() {
    let mut world = leader(&["t"], &[("flush.policy", "os")]);
    let mut follower = Follower::of(&world, &["t"]);
    let other = (world.image().topic("t").unwrap().id, PartitionIndex(1));
    follower.fetcher.set(other, NextFetch::Nothing);
    assert!(follower.ask(&mut world).is_none());
    let waiting = follower.ask(&mut world).expect("nothing is there");
    let _ = sent(&mut world, "t", "x").parked();
    let until = world.now.elapsed + Duration::from_secs(5);
    follower.full_until = Some(until);
    assert!(follower.look(&mut world, waiting).is_none());
    assert_eq!((follower.ends()[0], follower.fetcher.due_at()), ((0, 0), Some(until)));
    world.now.elapsed = until;
    follower.full_until = None;
    assert!(follower.ask(&mut world).is_none());
    assert_eq!(follower.ends()[0].0, 1, "there is room");
}

#[test]
fn what_a_producer_waits_for_is_committed_when_the_follower_asks_on() {
    let mut world = leader(&["t"], &[("flush.policy", "os")]);
    let mut follower = Follower::of(&world, &["t"]);
    assert!(follower.ask(&mut world).is_none(), "the first answer tells how far the leader is");
    let waiting = follower.ask(&mut world).expect("nothing is there");
    let produced = sent(&mut world, "t", "x").parked();
    assert_eq!(follower.bell.rang(), 1, "who waits for more is woken by an append");
    assert!(follower.look(&mut world, waiting).is_none());
    assert_eq!(follower.ends(), [(1, 0), (0, 0)], "it has the record, and does not know yet that it counts");
    let produced = world.look(produced).parked();
    assert!(follower.ask(&mut world).is_none(), "the answer is that the record is committed");
    world.look(produced).bytes();
    assert_eq!(follower.ends(), [(1, 1), (0, 0)]);
    follower.ask(&mut world).expect("there is no more to say");
}

#[test]
fn a_follower_whose_disk_is_behind_asks_for_the_rest_meanwhile() {
    let mut world = leader(&["t", "u"], &[("flush.policy", "ack")]);
    let mut follower = Follower::of(&world, &["t", "u"]);
    assert!(follower.ask(&mut world).is_none());
    let produced = sent(&mut world, "t", "x").parked();
    world.partition("t", 0).flush();
    assert!(follower.ask(&mut world).is_none());
    assert_eq!(follower.ends()[0], (1, 0));
    // A bell that rang for what was before changes nothing of that.
    follower.look_at_all();
    assert!(follower.fetcher.is_behind());
    let waiting = follower.ask(&mut world).expect("the other partitions have nothing new");
    let kept = waiting.deadline().saturating_sub(world.now.elapsed);
    assert!(kept <= Duration::from_millis(10), "what catches up meanwhile waits as long as this: {kept:?}");
    let produced = world.look(produced).parked();
    let other = sent(&mut world, "u", "y").parked();
    assert!(follower.look(&mut world, waiting).is_none(), "they are not held up");
    follower.flush();
    assert!(!follower.fetcher.is_behind());
    assert!(follower.ask(&mut world).is_none());
    world.partition("u", 0).flush();
    world.look(produced).bytes();
    world.look(other).bytes();
}

#[test]
fn a_follower_that_cannot_cut_is_told_to_again_after_a_while_and_holds_nobody_up() {
    let mut world = leader(&["t"], &[("flush.policy", "os")]);
    share(&mut world, "t", &[1]);
    drop(sent(&mut world, "t", "x").bytes());
    world.partition("t", 0).act(|partition, out| partition.delete_records(Some(Offset(1)), out)).unwrap();
    let mut follower = Follower { writes: false, ..Follower::of(&world, &["t"]) };
    assert!(follower.ask(&mut world).is_none(), "it is told where the log starts");
    assert!(!follower.fetcher.is_behind());
    let again = follower.fetcher.deadline().expect("it rests");
    assert_eq!(again - world.now.elapsed, Duration::from_millis(100));
    follower.look_at_all();
    follower.ask(&mut world).expect("the other partition has nothing new");
    assert_eq!(follower.ends(), [(0, 0), (0, 0)]);
    follower.writes = true;
    world.now.elapsed = again;
    follower.session = Session::new(follower.session.waiter.clone(), Peer::Node(FOLLOWER.broker));
    follower.fetcher.on_disconnected();
    assert!(follower.ask(&mut world).is_none());
    assert_eq!(follower.ends(), [(1, 1), (0, 0)]);
}

#[test]
fn who_leads_no_more_answers_neither_followers_nor_producers() {
    let mut world = leader(&["t"], &[("flush.policy", "os")]);
    let mut follower = Follower::of(&world, &["t"]);
    assert!(follower.ask(&mut world).is_none());
    let waiting = follower.ask(&mut world).unwrap();
    let produced = sent(&mut world, "t", "x").parked();
    let id = world.image().topic("t").unwrap().id;
    let change = PartitionChange::of(id, PartitionIndex(0));
    world.replay(MetadataRecord::PartitionChange(PartitionChange { leader: Some(BrokerId(2)), ..change }));
    assert!(world.bell.rang() > 0 && follower.bell.rang() > 0);
    let answer = world.look(produced).bytes();
    crate::world::read::<wire::messages::produce::ProduceRequest<'_>, _>(&answer, 9, |response| {
        let code = response.responses[0].partition_responses[0].error_code;
        assert_eq!(ErrorCode::from_i16(code), Some(ErrorCode::NotLeaderOrFollower));
    });
    assert!(follower.look(&mut world, waiting).is_none());
    assert!(follower.fetcher.deadline().is_some(), "it is asked again after a while");
    follower.ask(&mut world).expect("only for the other partition");
    assert_eq!(follower.ends(), [(0, 0), (0, 0)]);
}

/// It was named a moment ago, and its followers have heard of it before it did.
#[test]
fn a_leader_that_may_not_know_yet_is_asked_again_soon_and_less_and_less_often() {
    let mut world = leader(&["t"], &[("flush.policy", "os")]);
    let mut follower = Follower::of(&world, &["t"]);
    let id = world.image().topic("t").unwrap().id;
    let change = PartitionChange::of(id, PartitionIndex(0));
    world.replay(MetadataRecord::PartitionChange(PartitionChange { leader: Some(BrokerId(2)), ..change }));
    let rests = [(); 6].map(|()| {
        assert!(follower.ask(&mut world).is_none());
        let until = follower.fetcher.deadline().expect("it is refused");
        let rest = until - world.now.elapsed;
        world.now.elapsed = until;
        rest.as_millis()
    });
    assert_eq!(rests, [10, 20, 40, 80, 100, 100]);
}

/// What it has waits for records and would keep the question, and producers of the new topic wait for its followers.
#[test]
fn a_leader_that_has_not_heard_of_a_topic_does_not_keep_the_question_for_it() {
    let mut world = leader(&["t"], &[("flush.policy", "os")]);
    let later = leader(&["t", "late"], &[("flush.policy", "os")]);
    let [here, there] = [&world, &later].map(|world| world.image().topic("t").unwrap().id);
    assert_eq!(here, there, "only the other topic is not here yet");
    let mut follower = Follower::of(&later, &["t", "late"]);
    let rests = [(); 3].map(|()| {
        assert!(follower.ask(&mut world).is_none(), "it is told at once");
        let until = follower.fetcher.deadline().expect("it is refused");
        let rest = until - world.now.elapsed;
        world.now.elapsed = until;
        rest.as_millis()
    });
    assert_eq!(rests, [10, 20, 40], "and left in peace for longer each time");
}

/// A leader that did not wait for it would be followed by one that has the records.
#[test]
fn a_deletion_is_answered_once_all_in_sync_have_followed_it() {
    let (mut world, mut follower) = one_committed();
    let waiting = follower.ask(&mut world).expect("there is no more to say");
    follower.bell.rang();
    let deletion = world.request(2, &deletion()).parked();
    world.partition("t", 0).start_saved(1);
    let deletion = world.look(deletion).parked();
    assert_eq!(follower.bell.rang(), 1);
    assert!(follower.look(&mut world, waiting).is_none(), "it hears at once that the log starts later");
    world.bell.rang();
    follower.ask(&mut world).expect("there is no more to say");
    assert_eq!(world.bell.rang(), 1, "it starts there, too");
    crate::world::read::<DeleteRecordsRequest<'_>, _>(&world.look(deletion).bytes(), 2, |response| {
        let part = &response.topics[0].partitions[0];
        assert_eq!((part.error_code, part.low_watermark), (0, 1));
    });
}

/// The leader tells nothing twice: not how far its log is committed, either.
#[test]
fn what_is_told_while_a_follower_writes_down_where_its_log_starts_is_heard() {
    let (mut world, mut follower) = one_committed();
    let _ = world.request(2, &deletion()).parked();
    follower.writes = false;
    assert!(follower.ask(&mut world).is_none(), "it hears of the deletion");
    let waiting = follower.ask(&mut world).expect("there is no more to say");
    for partition in follower.partitions.values_mut() {
        partition.on_start_saved(partition.log().start(), &mut Effects::new());
    }
    follower.look_at_all();
    let _ = sent(&mut world, "t", "y").parked();
    assert!(follower.look(&mut world, waiting).is_none());
    assert_eq!(follower.ends(), [(2, 1), (0, 0)]);
}

#[test]
fn a_deletion_of_a_leader_that_leads_no_more_may_come_back() {
    let mut world = leader(&["t"], &[("flush.policy", "os"), ("min.insync.replicas", "1")]);
    share(&mut world, "t", &[1]);
    let _ = sent(&mut world, "t", "x");
    share(&mut world, "t", &[1, 2]);
    let deletion = world.request(2, &deletion()).parked();
    world.partition("t", 0).start_saved(1);
    world.replay(MetadataRecord::PartitionChange(PartitionChange {
        leader: Some(BrokerId(2)),
        ..PartitionChange::of(world.image().topic("t").unwrap().id, PartitionIndex(0))
    }));
    crate::world::read::<DeleteRecordsRequest<'_>, _>(&world.look(deletion).bytes(), 2, |response| {
        let part = &response.topics[0].partitions[0];
        assert_eq!(ErrorCode::from_i16(part.error_code), Some(ErrorCode::NotLeaderOrFollower));
    });
}

#[test]
fn a_leader_that_forgot_the_session_is_told_everything_again() {
    let mut world = leader(&["t"], &[("flush.policy", "os")]);
    let mut follower = Follower::of(&world, &["t"]);
    assert!(follower.ask(&mut world).is_none());
    follower.ask(&mut world).unwrap();
    // The connection broke, and with it the session.
    let waiter = follower.session.waiter.clone();
    follower.session = Session::new(waiter, Peer::Node(FOLLOWER.broker));
    let _ = sent(&mut world, "t", "x").parked();
    assert!(follower.ask(&mut world).is_none(), "it is told that there is no such session");
    assert!(follower.ask(&mut world).is_none());
    assert_eq!(follower.ends(), [(1, 0), (0, 0)]);
    follower.fetcher.on_disconnected();
    let waiter = follower.session.waiter.clone();
    follower.session = Session::new(waiter, Peer::Node(FOLLOWER.broker));
    assert!(follower.ask(&mut world).is_none());
    assert_eq!(follower.ends(), [(1, 1), (0, 0)]);
}

#[test]
fn who_has_caught_up_is_proposed_and_counts_once_the_controller_agrees() {
    let mut world = leader(&["t"], &[("flush.policy", "os"), ("min.insync.replicas", "2")]);
    share(&mut world, "t", &[1]);
    let refused = sent(&mut world, "t", "x").bytes();
    crate::world::read::<wire::messages::produce::ProduceRequest<'_>, _>(&refused, 9, |response| {
        let code = response.responses[0].partition_responses[0].error_code;
        assert_eq!(ErrorCode::from_i16(code), Some(ErrorCode::NotEnoughReplicas));
    });
    let mut follower = Follower::of(&world, &["t"]);
    assert!(follower.ask(&mut world).is_none());
    let proposals = world.partition("t", 0).take_proposals();
    let [proposal] = proposals.as_slice() else { panic!("{proposals:?}") };
    assert_eq!(proposal.isr, [(BrokerId(1), BrokerEpoch::NONE), (BrokerId(2), FOLLOWER.epoch)]);
    let altered = IsrAnswer::Altered {
        isr: vec![BrokerId(1), BrokerId(2)],
        partition_epoch: proposal.partition_epoch + 1,
    };
    world.partition("t", 0).act(|partition, out| partition.on_isr_answer(proposal, altered, out));
    sent(&mut world, "t", "x").parked();
}

#[test]
fn only_the_node_itself_fetches_as_its_replica() {
    let mut world = leader(&["t"], &[]);
    let mut follower = Follower::of(&world, &["t"]);
    follower.session.peer = Peer::Node(BrokerId(3));
    follower.correlation_id = 1;
    let frame = follower.fetcher.request(world.now, 1).unwrap().unwrap();
    std::mem::swap(&mut world.session, &mut follower.session);
    let bytes = world.send(&frame.bytes[4..]).bytes();
    let error = follower
        .fetcher
        .on_answer(world.now, 1, &bytes, &mut |_, _| panic!("it tells of nothing"))
        .unwrap_err();
    assert_eq!(
        error,
        vltava_broker::replication::FetcherError::Refused(ErrorCode::ClusterAuthorizationFailed)
    );
}

#[test]
fn a_replica_that_was_taken_away_and_given_again_has_to_say_anew_how_far_it_is() {
    let mut world = leader(&["t"], &[("flush.policy", "os")]);
    share(&mut world, "t", &[1]);
    let produced = sent(&mut world, "t", "x").bytes();
    drop(produced);
    let mut follower = Follower::of(&world, &["t"]);
    assert!(follower.ask(&mut world).is_none(), "it is told what is there");
    let mut waiting = follower.ask(&mut world);
    while waiting.is_none() {
        waiting = follower.ask(&mut world);
    }
    let proposed = world.partition("t", 0).take_proposals();
    assert_eq!(proposed.len(), 1, "it has caught up");
    let refused = |partition: &mut Partition, out: &mut Effects<Effect>| {
        partition.on_isr_answer(&proposed[0], IsrAnswer::Refused, out);
    };
    world.partition("t", 0).act(refused);
    // The fetch still waits when the replica goes, and comes back with an empty log.
    let only = |ids: &[i32]| Some(ids.iter().map(|id| BrokerId(*id)).collect::<Vec<_>>());
    world.change("t", 0, |change| (change.replicas, change.isr) = (only(&[1]), only(&[1])));
    world.change("t", 0, |change| (change.replicas, change.isr) = (only(&[1, 2]), only(&[1])));
    let _ = follower.look(&mut world, waiting.expect("it waits"));
    assert_eq!(world.partition("t", 0).take_proposals(), [], "what the old replica had counts no more");
}

#[test]
fn who_is_to_be_filled_slowly_gets_nothing_before_what_it_got_is_paid_for() {
    let slowly = [("flush.policy", "os"), ("leader.replication.throttled.replicas", "0:1,1:1")];
    let mut world = leader(&["t"], &slowly);
    share(&mut world, "t", &[1]);
    world.limit_leader(Some(1_000));
    drop(sent(&mut world, "t", "first").bytes());
    let mut follower = Follower::of(&world, &["t"]);
    assert!(follower.ask(&mut world).is_none());
    assert_eq!(follower.ends()[0].0, 1, "what comes is never cut");
    drop(sent(&mut world, "t", "second").bytes());
    let mut waiting = follower.ask(&mut world);
    if waiting.is_none() {
        // It was told how far the first is committed.
        waiting = follower.ask(&mut world);
    }
    let waiting = waiting.expect("some 75 bytes take 75 ms");
    let paid_at = waiting.deadline();
    let rest = paid_at - world.now.elapsed;
    assert!((50..100).contains(&rest.as_millis()), "{rest:?}");
    assert_eq!(follower.ends()[0].0, 1);
    world.now = base::Now::new(paid_at, world.now.wall);
    assert!(follower.look(&mut world, waiting).is_none(), "there is something to say");
    assert_eq!(follower.ends()[0].0, 2);
    // Who is in sync is waited for by producers, and is never held back.
    share(&mut world, "t", &[1, 2]);
    drop(sent(&mut world, "t", "third"));
    while follower.ends()[0].0 < 3 {
        assert!(follower.ask(&mut world).is_none(), "{:?}", follower.ends());
    }
}

#[test]
fn a_follower_leaves_alone_what_it_may_not_take_in_yet() {
    let mut world = leader(&["t"], &[("flush.policy", "os")]);
    let mut follower = Follower::of(&world, &["t"]);
    let key = *follower.partitions.keys().next().unwrap();
    let until = world.now.elapsed + Duration::from_millis(40);
    follower.fetcher.hold(key, Some(until));
    let waiting = follower.ask(&mut world);
    let deadline = waiting.map(|waiting| waiting.deadline());
    assert!(deadline.is_none_or(|at| at <= until), "the leader keeps it no longer than that: {deadline:?}");
    assert_eq!(follower.fetcher.deadline(), Some(until));
    follower.fetcher.set(key, NextFetch::Nothing);
    follower.fetcher.hold(key, Some(until));
    assert_eq!(follower.fetcher.deadline(), None, "nothing is wanted of it");
}

/// Whoever has no connection to the leader goes by this alone.
#[test]
fn what_was_held_back_is_due_when_it_may_be_taken_in_or_as_soon_as_nobody_holds_it() {
    let mut world = leader(&["t"], &[("flush.policy", "os")]);
    let mut follower = Follower::of(&world, &["t"]);
    let keys: Vec<_> = follower.partitions.keys().copied().collect();
    let until = world.now.elapsed + Duration::from_millis(40);
    keys.iter().for_each(|key| follower.fetcher.hold(*key, Some(until)));
    follower.look_at_all();
    assert_eq!(follower.fetcher.due_at(), Some(until), "a bell that rang changes nothing of that");
    assert!(follower.fetcher.request(world.now, 1).unwrap().is_none());
    follower.fetcher.hold(keys[0], None);
    assert_eq!(follower.fetcher.due_at(), Some(Duration::ZERO), "the limit was lifted");
    follower.fetcher.hold(keys[0], Some(until + Duration::from_millis(7)));
    world.now.elapsed = until;
    assert!(follower.ask(&mut world).is_none(), "the other has its time");
    // That nobody holds it back does not help if the leader refuses it.
    let id = world.image().topic("t").unwrap().id;
    let change = PartitionChange::of(id, keys[1].1);
    world.replay(MetadataRecord::PartitionChange(PartitionChange { leader: Some(BrokerId(2)), ..change }));
    assert!(follower.ask(&mut world).is_none());
    follower.fetcher.hold(keys[1], None);
    assert!(follower.fetcher.request(world.now, 9).unwrap().is_none());
    keys.iter().for_each(|key| follower.fetcher.set(*key, NextFetch::Nothing));
    assert_eq!(follower.fetcher.due_at(), None, "nothing is wanted");
}

/// Each partition is the only one of its topic, and the leader knows none: it answers each time it is asked.
#[test]
fn a_follower_of_more_than_one_request_may_name_asks_for_all_of_them() {
    const PARTITIONS: u32 = 120_000;
    let mut world = World::new();
    let Follower { mut fetcher, mut session, .. } = Follower::of(&world, &[]);
    let next = NextFetch::Ask(FollowerFetch {
        leader: BrokerId(1),
        current_epoch: LeaderEpoch(0),
        from: Offset(0),
        last_epoch: LeaderEpoch::NONE,
        log_start: Offset(0),
    });
    let key = |number: u32| {
        let mut id = [7; 16];
        id[..4].copy_from_slice(&number.to_be_bytes());
        (TopicId(Uuid(id)), PartitionIndex(0))
    };
    (0..PARTITIONS).for_each(|number| fetcher.set(key(number), next));
    let mut ask = |fetcher: &mut Fetcher, id| {
        let frame = fetcher.request(world.now, id).unwrap().expect("it has to ask");
        std::mem::swap(&mut world.session, &mut session);
        let bytes = world.send(&frame.bytes[4..]).bytes();
        std::mem::swap(&mut world.session, &mut session);
        let mut keys = BTreeSet::new();
        let mut each = |key, _: LeaderAnswer<'_>| {
            keys.insert(key);
            Next { fetch: next, has_failed: false, rests_until: None }
        };
        fetcher.on_answer(world.now, id, &bytes, &mut each).unwrap();
        (keys.len(), session.fetch.partitions())
    };
    // What was named before is in the session, and the last request names nothing.
    let asked: Vec<_> = (1..=4).map(|id| ask(&mut fetcher, id)).collect();
    assert_eq!(asked, [50_000, 100_000, 120_000, 120_000].map(|partitions| (partitions, partitions)));
    // What is given up is taken out in the same way.
    (1..PARTITIONS).for_each(|number| fetcher.set(key(number), NextFetch::Nothing));
    let asked: Vec<_> = (5..=7).map(|id| ask(&mut fetcher, id)).collect();
    assert_eq!(asked, [(1, 70_000), (1, 20_000), (1, 1)]);
}
