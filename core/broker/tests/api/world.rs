//! A broker without an edge: its doors are plain values, its disk is memory, its time stands still.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use base::{
    BrokerEpoch, BrokerId, Effects, Now, Offset, PartitionIndex, ProducerId, TimestampMs, TopicId, Uuid,
};
use controller::{BrokerHeartbeat, Command, Controller, ControllerSettings, InDoubt, RegisterBroker};
use metadata::settings::{BrokerSettings, Layers, TopicSettings};
use metadata::{BrokerChange, ConfigMap, ConfigResource, Endpoint, Image, MetadataRecord, PartitionChange};
use parking_lot::Mutex;
use records::{BatchBuilder, BatchOptions, Scratch};
use replica::{AlterIsr, Partition};
use storage::memory::MemoryDisk;
use storage::{FlushScope, Known, Log};
use vltava_broker::call::{Answer, CloseReason, Context, Outcome, ParkedRequest, Peer, Session};
use vltava_broker::fetch_session::FetchSessionRoom;
use vltava_broker::groups::{OFFSETS_TOPIC, partition_of};
use vltava_broker::host::{Effect, Host, Hosted, HostedPartition, HostedShard, LogDir};
use vltava_broker::parked::{Waiter, WaiterId, Wake};
use vltava_broker::partition::{assignment, log_settings, partition_settings};
use vltava_broker::replication::Throttle;
use wire::{Message, Request};

use crate::shards::TestShard;

pub(crate) const CLUSTER: &str = "5L6g3nShT-eMCtK--X86sw";

/// A partition, its settings, what was asked for (a flush, a save of its start), and whether its disk is full.
pub(crate) struct TestPartition {
    state: Mutex<(Hosted, bool)>,
    settings: Mutex<Arc<TopicSettings>>,
    save_asked: AtomicBool,
    proposals: Mutex<Vec<AlterIsr>>,
    full: AtomicBool,
    then: Mutex<Option<Meanwhile>>,
}

/// What somebody else does to a partition.
type Meanwhile = Box<dyn FnOnce(&mut Hosted, &mut Effects<Effect>) + Send>;

impl HostedPartition for TestPartition {
    fn settings(&self) -> Arc<TopicSettings> {
        Arc::clone(&self.settings.lock())
    }

    fn append_step(&self, act: &mut dyn FnMut(&mut Hosted, &mut Effects<Effect>)) {
        self.step(act);
    }

    fn has_room(&self) -> bool {
        !self.full.load(Ordering::Relaxed)
    }

    fn save_start(&self) {
        self.save_asked.store(true, Ordering::Relaxed);
    }

    fn step(&self, act: &mut dyn FnMut(&mut Hosted, &mut Effects<Effect>)) {
        let mut effects = Effects::new();
        act(&mut self.state.lock().0, &mut effects);
        if let Some(then) = self.then.lock().take() {
            then(&mut self.state.lock().0, &mut effects);
        }
        for effect in effects.drain() {
            match effect {
                Effect::Flush => self.state.lock().1 = true,
                Effect::Appended { .. } => {}
                Effect::Wake(waiter) => waiter.bell.wake(),
                Effect::AlterIsr(proposal) => self.proposals.lock().push(proposal),
                Effect::FetchOn => {}
                Effect::LowerRecoveryPoint(_) | Effect::Truncated { .. } | Effect::SaveStart => {
                    panic!("nobody is followed")
                }
                Effect::Retire(error) | Effect::Offline(error) | Effect::Refused(error) => panic!("{error}"),
                Effect::Damaged(why) => panic!("{why}"),
                // Who asks for the same again and again does so on purpose.
                Effect::Suspect(_) => {}
            }
        }
    }
}

impl TestPartition {
    pub(crate) fn flush(&self) {
        self.step(&mut |hosted, out| {
            if let Some(flush) =
                hosted.with(out, |partition, out| partition.flush_plan(FlushScope::Records, out))
            {
                let result = flush.run();
                hosted.with(out, |partition, out| partition.on_flushed(result, out));
            }
        });
        self.state.lock().1 = false;
    }

    pub(crate) fn wants_flush(&self) -> bool {
        self.state.lock().1
    }

    /// A step of the partition itself.
    pub(crate) fn act<R>(&self, act: impl FnOnce(&mut Partition, &mut Effects<replica::Effect>) -> R) -> R {
        let mut act = Some(act);
        let mut result = None;
        self.step(&mut |hosted, out| result = act.take().map(|act| hosted.with(out, act)));
        result.unwrap()
    }

    /// The log is saved to begin at `start`.
    pub(crate) fn start_saved(&self, start: i64) {
        self.step(&mut |hosted, out| hosted.on_start_saved(Offset(start), out));
    }

    /// Whether the start was to be saved, since the last call.
    pub(crate) fn wants_save(&self) -> bool {
        self.save_asked.swap(false, Ordering::Relaxed)
    }

    /// The in-sync sets that were asked for since the last call.
    pub(crate) fn take_proposals(&self) -> Vec<AlterIsr> {
        std::mem::take(&mut self.proposals.lock())
    }

    /// Somebody else does this right after the next step.
    pub(crate) fn after_a_step(&self, then: impl FnOnce(&mut Hosted, &mut Effects<Effect>) + Send + 'static) {
        *self.then.lock() = Some(Box::new(then));
    }

    /// Its disk has room for more records, or has not.
    pub(crate) fn fill_disk(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().0.parked.len()
    }
}

type Partitions = BTreeMap<(TopicId, PartitionIndex), Arc<TestPartition>>;

#[derive(Default)]
struct Doors {
    partitions: Arc<Mutex<Partitions>>,
    shards: Mutex<BTreeMap<PartitionIndex, Arc<TestShard>>>,
    producer_ids: Mutex<VecDeque<i64>>,
    dirs: Mutex<Vec<LogDir>>,
    sessions: AtomicI32,
    random: AtomicU64,
    leader_throttle: Mutex<Throttle>,
    in_touch_until: Mutex<Option<Duration>>,
}

impl FetchSessionRoom for Doors {
    fn begin(&self, _: usize) -> Option<i32> {
        Some(self.sessions.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn begin_of_node(&self) -> i32 {
        self.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn resize(&self, _: usize, _: usize) -> bool {
        true
    }

    fn end(&self, _: usize) {}
}

impl Host for Doors {
    fn shard(&self, partition: PartitionIndex) -> Option<Arc<dyn HostedShard>> {
        self.shards.lock().get(&partition).map(|shard| Arc::clone(shard) as Arc<dyn HostedShard>)
    }

    fn shards(&self) -> Vec<Arc<dyn HostedShard>> {
        self.shards.lock().values().map(|shard| Arc::clone(shard) as Arc<dyn HostedShard>).collect()
    }

    fn partition(&self, topic: TopicId, partition: PartitionIndex) -> Option<Arc<dyn HostedPartition>> {
        self.partitions.lock().get(&(topic, partition)).map(|p| Arc::clone(p) as Arc<dyn HostedPartition>)
    }

    fn is_offline(&self, topic: TopicId, partition: PartitionIndex) -> bool {
        let partitions = self.partitions.lock();
        partitions.get(&(topic, partition)).is_none_or(|p| p.state.lock().0.partition.is_failed())
    }

    fn log_dirs(&self) -> Vec<LogDir> {
        self.dirs.lock().clone()
    }

    fn producer_id(&self) -> Option<ProducerId> {
        self.producer_ids.lock().pop_front().map(ProducerId)
    }

    fn add_producer_ids(&self, block: Range<i64>) {
        self.producer_ids.lock().extend(block);
    }

    fn random(&self) -> u128 {
        u128::from(self.random.fetch_add(1, Ordering::Relaxed) + 1) << 64 | 7
    }

    fn in_touch_until(&self) -> Duration {
        self.in_touch_until.lock().unwrap_or(Duration::MAX)
    }

    fn fetch_sessions(&self) -> &dyn FetchSessionRoom {
        self
    }

    fn leader_throttle(&self, act: &mut dyn FnMut(&mut Throttle)) {
        act(&mut self.leader_throttle.lock());
    }
}

#[derive(Default)]
pub(crate) struct Bell(AtomicU64);

impl Wake for Bell {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    pub(crate) fn rang(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// One node, one connection.
pub(crate) struct World {
    pub(crate) controller: Controller,
    pub(crate) settings: BrokerSettings,
    pub(crate) session: Session,
    pub(crate) bell: Arc<Bell>,
    pub(crate) now: Now,
    doors: Doors,
    image: Arc<Image>,
    scratch: Scratch,
    disk: Arc<MemoryDisk>,
    lives: u8,
    /// What the next commands come to, without being decided.
    scripted: VecDeque<Decision>,
    /// Commands that came to what was scripted.
    pub(crate) asked: Vec<Command>,
}

type Decision = Result<controller::Reply, controller::ControllerError>;

pub(crate) fn registration(id: BrokerId, incarnation: u8, after_crash: bool) -> RegisterBroker {
    RegisterBroker {
        id,
        incarnation: Uuid([incarnation; 16]),
        endpoints: vec![Endpoint {
            listener: "PLAINTEXT".into(),
            host: "127.0.0.1".into(),
            port: 9092,
            security_protocol: 0,
        }],
        features: Vec::new(),
        rack: None,
        log_dirs: vec![Uuid([8; 16])],
        cluster_id: String::new(),
        cluster_address: None,
        previous_epoch: None,
        in_doubt: InDoubt::Nothing,
        is_voter: true,
        after_crash,
    }
}

fn ready(id: BrokerId, epoch: i64) -> Command {
    Command::BrokerHeartbeat(BrokerHeartbeat {
        id,
        epoch: BrokerEpoch(epoch),
        metadata_end: Offset(i64::MAX),
        wants_fence: false,
        wants_shutdown: false,
        offline_log_dirs: Vec::new(),
    })
}

/// What a request came to.
pub(crate) enum Reaction {
    Bytes(Vec<u8>, Vec<u8>),
    Silent,
    Parked(ParkedRequest),
    Closed(CloseReason),
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    pub(crate) fn with(settings: &[(&str, &str)]) -> Self {
        let settings = BrokerSettings::parse(settings.iter().copied()).unwrap();
        let mut controller = Controller::new(ControllerSettings {
            delete_topics: settings.delete_topics,
            ..ControllerSettings::default()
        });
        let now = Now::new(Duration::from_secs(1), TimestampMs(1_700_000_000_000));
        let rack = settings.rack.clone();
        let register = RegisterBroker { rack, ..registration(settings.node_id, 9, false) };
        let register = Command::RegisterBroker(register);
        for command in [register, ready(settings.node_id, 0)] {
            let (_, records) = controller.handle(now, &command).unwrap();
            let end = controller.image().end().0 + records.len() as i64;
            controller.replay_batch(&records, Offset(end));
        }
        let bell = Arc::new(Bell::default());
        let waiter = Waiter { id: WaiterId(1), bell: Arc::clone(&bell) as Arc<dyn Wake> };
        let image = Arc::new(controller.image().clone());
        Self {
            controller,
            settings,
            session: Session::new(waiter, Peer::Client),
            bell,
            now,
            doors: Doors::default(),
            image,
            scratch: Scratch::default(),
            disk: Arc::new(MemoryDisk::new()),
            lives: 0,
            scripted: VecDeque::new(),
            asked: Vec::new(),
        }
    }

    pub(crate) fn node(&self) -> BrokerId {
        self.settings.node_id
    }

    pub(crate) fn image(&self) -> &Image {
        &self.image
    }

    pub(crate) fn partition(&self, topic: &str, index: i32) -> Arc<TestPartition> {
        let id = self.image.topic(topic).unwrap().id;
        Arc::clone(&self.doors.partitions.lock()[&(id, PartitionIndex(index))])
    }

    /// The next command that a request waits for comes to this.
    pub(crate) fn script(&mut self, decision: Decision) {
        self.scripted.push_back(decision);
    }

    /// The log directories that the node says it has.
    pub(crate) fn log_dirs(&self, dirs: Vec<LogDir>) {
        *self.doors.dirs.lock() = dirs;
    }

    /// The log of a partition cannot be found any more.
    pub(crate) fn lose(&self, topic: &str, index: i32) {
        self.losing(topic, index)();
    }

    /// As [`World::lose`], when it is called.
    pub(crate) fn losing(&self, topic: &str, index: i32) -> impl FnOnce() + Send + use<> {
        let id = self.image.topic(topic).unwrap().id;
        let partitions = Arc::clone(&self.doors.partitions);
        move || drop(partitions.lock().remove(&(id, PartitionIndex(index))).unwrap())
    }

    /// Changes the cluster behind the controller's back.
    pub(crate) fn replay(&mut self, record: MetadataRecord) {
        self.controller.replay_batch(&[record], self.image.end());
        self.image = Arc::new(self.controller.image().clone());
        self.host();
    }

    /// Another broker, of which nothing but its registration is there.
    pub(crate) fn register(&mut self, id: i32, incarnation: u8, after_crash: bool) {
        self.join(registration(BrokerId(id), incarnation, after_crash));
    }

    /// Another broker as it says it is.
    pub(crate) fn join(&mut self, broker: RegisterBroker) {
        let id = broker.id.0;
        self.decide(&Command::RegisterBroker(broker)).unwrap();
        let epoch = self.image.broker(BrokerId(id)).unwrap().epoch;
        self.decide(&ready(BrokerId(id), epoch.0)).unwrap();
    }

    /// A broker is not alive, which changes nothing else.
    pub(crate) fn fence(&mut self, id: i32) {
        let (broker, fenced) = (BrokerId(id), Some(true));
        let epoch = self.image.broker(broker).unwrap().epoch;
        let change = BrokerChange { broker, epoch, fenced, in_controlled_shutdown: false, log_dirs: None };
        self.replay(MetadataRecord::BrokerChange(change));
    }

    /// A partition is as this says.
    pub(crate) fn change(&mut self, topic: &str, index: i32, as_this: impl FnOnce(&mut PartitionChange)) {
        let id = self.image.topic(topic).unwrap().id;
        let mut change = PartitionChange::of(id, PartitionIndex(index));
        as_this(&mut change);
        self.replay(MetadataRecord::PartitionChange(change));
    }

    /// No controller is heard any more.
    pub(crate) fn lose_touch(&self) {
        *self.doors.in_touch_until.lock() = Some(self.now.elapsed);
    }

    /// One is heard again.
    pub(crate) fn find_touch(&self) {
        *self.doors.in_touch_until.lock() = None;
    }

    /// Others lead all partitions that keep groups.
    pub(crate) fn lose_shards(&self) {
        self.doors.shards.lock().clear();
    }

    /// Limits what broker 1 gives away to replicas that lack something.
    pub(crate) fn limit_leader(&mut self, rate: Option<u64>) {
        self.doors.leader_throttle.lock().set_rate(rate);
    }

    /// A new broker leads the partition instead, alone. The id of its topic.
    pub(crate) fn hand_over(&mut self, topic: &str, index: i32, to: BrokerId) -> TopicId {
        self.register(to.0, 7, false);
        let id = self.image.topic(topic).unwrap().id;
        self.lose(topic, index);
        self.replay(MetadataRecord::PartitionChange(PartitionChange {
            leader: Some(to),
            replicas: Some(vec![to]),
            isr: Some(vec![to]),
            ..PartitionChange::of(id, PartitionIndex(index))
        }));
        id
    }

    /// The node was killed and comes back: what it leads has another epoch.
    pub(crate) fn crash(&mut self) {
        self.doors.partitions.lock().clear();
        self.lives += 1;
        self.register(self.settings.node_id.0, 9 + self.lives, true);
    }

    /// Decides a command and makes the partitions it asks for.
    pub(crate) fn decide(
        &mut self,
        command: &Command,
    ) -> Result<controller::Reply, controller::ControllerError> {
        let (reply, records) = self.controller.handle(self.now, command)?;
        self.controller.replay_batch(&records, self.image.end());
        self.image = Arc::new(self.controller.image().clone());
        self.host();
        self.coordinate();
        Ok(reply)
    }

    /// Makes the shards of the group coordinator that are new.
    fn coordinate(&self) {
        let Some(topic) = self.image.topic(OFFSETS_TOPIC) else { return };
        for partition in topic.partitions().iter().filter(|it| it.leader == self.settings.node_id) {
            let mut shards = self.doors.shards.lock();
            let led = self.partition(OFFSETS_TOPIC, partition.index.0);
            shards.entry(partition.index).or_insert_with(|| TestShard::new(self.now, led));
        }
    }

    /// The shard that keeps a group.
    pub(crate) fn shard_of(&self, group: &str) -> Arc<TestShard> {
        let partitions = self.image.topic(OFFSETS_TOPIC).unwrap().partitions().len();
        Arc::clone(&self.doors.shards.lock()[&partition_of(group, partitions)])
    }

    /// Makes the partitions that are new, and has all of them do what was decided.
    fn host(&mut self) {
        let topics: Vec<_> = self.image.topics().cloned().collect();
        self.doors.partitions.lock().retain(|(id, _), _| topics.iter().any(|topic| topic.id == *id));
        for topic in topics {
            let overrides = self.image.configs(&ConfigResource::Topic(topic.name.clone()));
            let none = ConfigMap::new();
            let layers = Layers { broker: &none, default_broker: &none, fixed: &self.settings.fixed };
            let settings = Arc::new(TopicSettings::resolve(topic.name.as_str(), overrides, layers));
            for partition in
                topic.partitions().iter().filter(|known| known.replicas.contains(&self.settings.node_id))
            {
                let key = (topic.id, partition.index);
                if let Some(known) = self.doors.partitions.lock().get(&key) {
                    *known.settings.lock() = Arc::clone(&settings);
                    known.act(|known, out| known.assign(self.now, &assignment(partition), out));
                    continue;
                }
                let dir = PathBuf::from(format!("{}-{}", topic.id, partition.index));
                let disk = Arc::clone(&self.disk) as Arc<dyn storage::disk::Disk>;
                let log_settings = log_settings(&settings, Duration::from_secs(86_400));
                let (recovery_point, log_start) = (Offset::ZERO, Offset::ZERO);
                let known = Known { recovery_point, log_start, clean: false, adopted: false };
                let log = match disk.list(&dir) {
                    Ok(_) => Log::open(disk, dir, log_settings, known, self.now).unwrap().0,
                    Err(_) => Log::create(disk, dir, topic.id, log_settings, self.now).unwrap(),
                };
                let high_watermark = log.start();
                let node = self.settings.node_id;
                let mut opened = Partition::open(node, log, high_watermark, partition_settings(&settings));
                opened.assign(self.now, &assignment(partition), &mut Effects::new());
                let made = TestPartition {
                    state: Mutex::new((Hosted::new(opened), false)),
                    settings: Mutex::new(Arc::clone(&settings)),
                    save_asked: AtomicBool::new(false),
                    proposals: Mutex::default(),
                    full: AtomicBool::new(false),
                    then: Mutex::default(),
                };
                self.doors.partitions.lock().insert(key, Arc::new(made));
            }
        }
    }

    fn context<'a>(&'a self) -> Context<'a> {
        Context {
            node: self.settings.node_id,
            cluster_id: CLUSTER,
            settings: &self.settings,
            image: &self.image,
            host: &self.doors,
            now: self.now,
        }
    }

    /// Sends a frame, without its size; controller commands are decided at once.
    pub(crate) fn send(&mut self, frame: &[u8]) -> Reaction {
        let Self { settings, image, doors, session, scratch, now, .. } = self;
        let context =
            Context { node: settings.node_id, cluster_id: CLUSTER, settings, image, host: doors, now: *now };
        let dispatched = session.on_request(context, frame, scratch);
        for command in dispatched.background {
            let _ = self.decide(&command);
        }
        self.react(dispatched.outcome)
    }

    pub(crate) fn react(&mut self, outcome: Outcome) -> Reaction {
        match outcome {
            Outcome::Answer(answer) => {
                let Answer { frame, slices, .. } = answer;
                let mut records = Vec::new();
                for slice in slices {
                    let mut bytes = vec![0; slice.len as usize];
                    slice.file.read_at(&mut bytes, slice.position).unwrap();
                    records.extend(bytes);
                }
                let mut rest = records.as_slice();
                let mut whole = Vec::new();
                for part in frame.parts() {
                    match part {
                        wire::Part::Bytes(bytes) => whole.extend_from_slice(bytes),
                        wire::Part::Hole(hole) => {
                            let (filling, after) = rest.split_at(hole.len as usize);
                            whole.extend_from_slice(filling);
                            rest = after;
                        }
                    }
                }
                Reaction::Bytes(whole.split_off(4), records)
            }
            Outcome::Silent => Reaction::Silent,
            Outcome::Parked(parked) => Reaction::Parked(parked),
            Outcome::Close(reason) => Reaction::Closed(reason),
            Outcome::Submit(submission) => {
                let decision = match self.scripted.pop_front() {
                    Some(scripted) => {
                        self.asked.push(submission.command);
                        scripted
                    }
                    None => self.decide(&submission.command),
                };
                let outcome = (submission.finish)(&self.context(), decision);
                self.react(outcome)
            }
        }
    }

    /// Asks a parked request again.
    pub(crate) fn look(&mut self, parked: ParkedRequest) -> Reaction {
        let Self { settings, image, doors, session, now, .. } = self;
        let context =
            Context { node: settings.node_id, cluster_id: CLUSTER, settings, image, host: doors, now: *now };
        let outcome = parked.look(context, session);
        self.react(outcome)
    }

    /// The connection of a parked request is gone.
    pub(crate) fn abandon(&mut self, parked: ParkedRequest) {
        parked.abandon(self.context(), &self.session);
    }

    pub(crate) fn request<'a, R: Request<'a>>(&mut self, version: i16, request: &R) -> Reaction {
        let frame = wire::encode_request(7, Some("test"), version, request).unwrap();
        self.send(&frame.bytes[4..])
    }

    /// Sends a request and gives its answer's body to `check`.
    pub(crate) fn ask<'a, R: Request<'a>, T>(
        &mut self,
        version: i16,
        request: &R,
        check: impl for<'r> FnOnce(R::Response<'r>) -> T,
    ) -> T {
        let bytes = self.request(version, request).bytes();
        read::<R, T>(&bytes, version, check)
    }

    /// Makes a topic, with settings.
    pub(crate) fn topic(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) {
        use wire::messages::create_topics::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
        let configs =
            configs.iter().map(|(name, value)| CreatableTopicConfig { name, value: Some(value) }).collect();
        let topic = CreatableTopic {
            name,
            num_partitions: partitions,
            replication_factor: -1,
            configs,
            ..CreatableTopic::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
        self.ask(7, &request, |response| assert_eq!(response.topics[0].error_code, 0, "{response:?}"));
    }
}

impl Reaction {
    pub(crate) fn bytes(self) -> Vec<u8> {
        self.both().0
    }

    pub(crate) fn both(self) -> (Vec<u8>, Vec<u8>) {
        match self {
            Self::Bytes(bytes, records) => (bytes, records),
            Self::Silent => panic!("no answer"),
            Self::Parked(_) => panic!("the request waits"),
            Self::Closed(reason) => panic!("closed: {reason}"),
        }
    }

    pub(crate) fn parked(self) -> ParkedRequest {
        match self {
            Self::Parked(parked) => parked,
            Self::Bytes(bytes, _) => panic!("answered: {bytes:?}"),
            Self::Silent => panic!("no answer"),
            Self::Closed(reason) => panic!("closed: {reason}"),
        }
    }

    pub(crate) fn closed(self) -> CloseReason {
        match self {
            Self::Closed(reason) => reason,
            Self::Bytes(bytes, _) => panic!("answered: {bytes:?}"),
            Self::Silent => panic!("no answer"),
            Self::Parked(_) => panic!("the request waits"),
        }
    }
}

/// Gives the body of an answer to `check`.
pub(crate) fn read<'a, R: Request<'a>, T>(
    bytes: &[u8],
    version: i16,
    check: impl for<'r> FnOnce(R::Response<'r>) -> T,
) -> T {
    let (correlation_id, mut body) = wire::decode_response_header(bytes, R::KEY, version).unwrap();
    assert_eq!(correlation_id, 7);
    check(R::Response::decode(&mut body, version).unwrap())
}

/// A batch of records with these values.
pub(crate) fn batch(values: &[&str], options: &BatchOptions) -> Vec<u8> {
    let mut builder = BatchBuilder::new(1 << 20);
    for value in values {
        builder.try_append(TimestampMs(1_700_000_000_000), None, Some(value.as_bytes()), &[]).unwrap();
    }
    let mut out = Vec::new();
    builder.finish(options, &mut Scratch::default(), &mut out).unwrap();
    out
}
