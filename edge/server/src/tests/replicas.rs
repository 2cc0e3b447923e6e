//! Stories of replicas that others have as well.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use base::{BrokerId, Offset, TopicName};
use broker::replication::{FetcherLimits, LeaderAnswer, Next};
use controller::{
    AlterConfigs, AlterReassignments, AssignReplicasToDirs, BrokerHeartbeat, ElectLeaders, ElectionKind,
    InDoubt, Reassignment, RegisterBroker, ResourceConfigs,
};
use metadata::{ConfigResource, Endpoint, MetadataRecord, NewPartition, Partition};
use replica::{Assignment, FromLeader, Lane, NextFetch};

use super::*;
use crate::cluster::identity::Identity;
use crate::directories::{Directories, Locked};
use crate::followers::{Followers, Lanes, step};
use crate::hosting::Hosting;
use crate::log_dir::DiskReserve;
use crate::requests::Outbox;

const OTHER: BrokerId = BrokerId(77);

/// How long anything may take.
const TIME_MAX: Duration = Duration::from_secs(30);

impl Life {
    fn me(&self) -> BrokerId {
        self.started.node.settings.node_id
    }

    /// Another broker is there, as far as the controller knows, where other nodes are to find it.
    fn another_comes(&self, cluster_address: Option<Endpoint>) {
        let me = self.started.node.image.load().broker(self.me()).map(|me| me.endpoints.clone());
        let registered = self.decide(Command::RegisterBroker(RegisterBroker {
            id: OTHER,
            incarnation: Uuid([77; 16]),
            cluster_id: self.started.node.cluster_id.clone(),
            endpoints: me.expect("this broker is registered"),
            cluster_address,
            features: Vec::new(),
            rack: None,
            log_dirs: vec![Uuid([78; 16])],
            after_crash: false,
            previous_epoch: None,
            in_doubt: InDoubt::Nothing,
            is_voter: false,
        }));
        let Reply::RegisterBroker(epoch) = registered else { panic!("{registered:?}") };
        self.decide(Command::BrokerHeartbeat(BrokerHeartbeat {
            id: OTHER,
            epoch,
            metadata_end: Offset(i64::MAX),
            wants_fence: false,
            wants_shutdown: false,
            offline_log_dirs: Vec::new(),
        }));
    }

    /// The same, where it listens.
    fn another_listens(&self) -> TcpListener {
        let listens = TcpListener::bind("127.0.0.1:0").unwrap();
        listens.set_nonblocking(true).unwrap();
        let (listener, host) = (Endpoint::CLUSTER.to_owned(), "127.0.0.1".to_owned());
        let port = listens.local_addr().unwrap().port();
        self.another_comes(Some(Endpoint { listener, host, port, security_protocol: 0 }));
        listens
    }

    /// This broker gets a replica of a topic that the other one leads.
    fn gets_a_replica(&self, topic: &str) {
        let (topic, partition) = (topic.to_owned(), PartitionIndex(0));
        let replicas = Some(vec![OTHER, self.me()]);
        self.decide(Command::AlterReassignments(AlterReassignments {
            partitions: vec![Reassignment { topic, partition, replicas }],
            allow_replication_factor_change: true,
        }));
    }

    /// Sets these, and nothing else any more.
    fn configure(&self, resource: ConfigResource, entries: &[(&str, &str)]) {
        let entries = entries.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())));
        let resources = vec![ResourceConfigs { resource, entries: entries.collect() }];
        self.decide(Command::AlterConfigs(AlterConfigs { resources, validate_only: false }));
    }

    fn create_on(&self, name: &str, replicas: &[BrokerId]) -> TopicId {
        let topic = NewTopic {
            name: name.to_owned(),
            partitions: -1,
            replication_factor: -1,
            assignments: [(PartitionIndex(0), replicas.to_vec())].into(),
            configs: Vec::new(),
            random: crate::random::random(),
        };
        let command = CreateTopics { topics: vec![topic], validate_only: false };
        match self.decide(Command::CreateTopics(command)) {
            Reply::CreateTopics(mut outcomes) => outcomes.pop().unwrap().unwrap().id,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the metadata say this of a partition.
    fn wait_for(&self, topic: TopicId, what: &str, is_so: impl Fn(&Partition) -> bool) {
        until(what, || {
            let image = self.started.node.image.load_full();
            is_so(image.partition(topic, PartitionIndex(0)).expect("it was made"))
        });
    }
}

#[test]
fn a_damaged_log_is_not_counted_on_and_begins_anew_if_another_leads() {
    let site = Site::new();
    let life = site.start_with(&["a"], &[PATIENT]);
    let me = life.me();
    life.another_comes(None);
    let shared = life.create_on("shared", &[me, OTHER]);
    let alone = life.create_on("alone", &[me]);
    for topic in [shared, alone] {
        life.append(topic, 0, 5).unwrap();
    }
    life.checkpoint();
    site.kill(life);
    let intact = fs::read(log_file(&site.at("a/alone-0"))).unwrap();
    let damaged = damage(&site.at("a/shared-0"));
    damage(&site.at("a/alone-0"));
    for _ in 0..2 {
        let life = site.start_with(&["a"], &[PATIENT]);
        let home = life.started.node.dirs[0].id;
        life.wait_for(shared, "it begins anew, behind who leads", |partition| {
            let is_counted_on = partition.isr.contains(&me) || partition.eligible().contains(&me);
            partition.directories[0] == home && !is_counted_on && partition.leader == OTHER
        });
        life.wait_for(alone, "nobody has more", |partition| partition.leader == me);
        until("it is served", || life.offline() == 1);
        assert_eq!(life.bounds(shared, 0), Some((0, 0)));
        let kept = fs::read_dir(site.at("a")).unwrap().map(|entry| entry.unwrap().path());
        let kept: Vec<_> = kept.filter(|path| path.to_string_lossy().ends_with("-stray")).collect();
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert_eq!(fs::read(log_file(&kept[0])).unwrap(), damaged);
        site.kill(life);
    }
    fs::write(log_file(&site.at("a/alone-0")), intact).unwrap();
    let life = site.start_with(&["a"], &[PATIENT]);
    assert_eq!((life.offline(), life.bounds(alone, 0)), (0, Some((0, 5))), "it was put back from a backup");
    life.stop();
}

/// As long as nobody else leads, only the lost disk may have what was acknowledged.
const PATIENT: (&str, &str) = ("broker.session.timeout.ms", "600000");

/// A node with two disks that has, on the second, one partition which another has, too, and one of its own.
fn with_two_disks(site: &Site) -> (Life, TopicId, TopicId) {
    let life = site.start_with(&["a", "b"], &[PATIENT]);
    let me = life.me();
    life.another_comes(None);
    life.create_on("first", &[me]);
    let shared = life.create_on("shared", &[me, OTHER]);
    life.create_on("third", &[me]);
    let alone = life.create_on("alone", &[me]);
    for topic in [shared, alone] {
        life.append(topic, 0, 5).unwrap();
        assert!(life.dir_of(topic, 0).starts_with(site.at("b")));
    }
    (life, shared, alone)
}

#[test]
fn what_was_on_a_disk_that_was_replaced_is_filled_by_whoever_leads() {
    let site = Site::new();
    let (life, shared, alone) = with_two_disks(&site);
    let me = life.me();
    site.kill(life);
    fs::rename(site.at("b"), site.at("old")).unwrap();
    let life = site.start_with(&["a", "b"], &[PATIENT]);
    assert_eq!(life.bounds(shared, 0), Some((0, 0)), "it begins anew");
    assert_eq!((life.offline(), life.bounds(alone, 0)), (1, None), "nobody has what was in this one");
    let new = life.started.node.dirs[1].id;
    life.wait_for(shared, "it is known where it is", |partition| {
        partition.directories[0] == new && partition.leader == OTHER && !partition.isr.contains(&me)
    });
    site.kill(life);
    // The old disk is found again: what was filled since is not served from there, nor thrown away.
    fs::rename(site.at("b"), site.at("new")).unwrap();
    fs::rename(site.at("old"), site.at("b")).unwrap();
    let life = site.start_with(&["a", "b", "new"], &[PATIENT]);
    assert_eq!((life.offline(), life.bounds(alone, 0)), (0, Some((0, 5))));
    assert_eq!(life.bounds(shared, 0), Some((0, 0)));
    assert!(life.dir_of(shared, 0).starts_with(site.at("new")));
    let names = fs::read_dir(site.at("b")).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    let stray = names.iter().find(|name| name.starts_with("shared-0.") && name.ends_with("-stray"));
    let stray = stray.unwrap_or_else(|| panic!("{names:?}"));
    assert!(!fs::read(log_file(&site.at("b").join(stray))).unwrap().is_empty());
    life.stop();
}

#[test]
fn what_was_on_a_disk_that_was_replaced_waits_until_another_leads() {
    let site = Site::new();
    let (life, shared, _) = with_two_disks(&site);
    let epoch = life.started.node.image.load().broker(OTHER).unwrap().epoch;
    life.decide(Command::BrokerHeartbeat(BrokerHeartbeat {
        id: OTHER,
        epoch,
        metadata_end: Offset(i64::MAX),
        wants_fence: true,
        wants_shutdown: false,
        offline_log_dirs: Vec::new(),
    }));
    life.wait_for(shared, "only the lost disk has all of it", |partition| partition.isr.len() == 1);
    site.kill(life);
    fs::rename(site.at("b"), site.at("old")).unwrap();
    let life = site.start_with(&["a", "b"], &[PATIENT]);
    life.wait_for(shared, "nobody leads", |partition| partition.leader == BrokerId::NONE);
    assert_eq!((life.offline(), life.bounds(shared, 0)), (2, None));
    life.another_comes(None);
    let partitions = Some(vec![("shared".to_owned(), PartitionIndex(0))]);
    life.decide(Command::ElectLeaders(ElectLeaders { kind: ElectionKind::Unclean, partitions }));
    life.wait_for(shared, "another leads", |partition| partition.leader == OTHER);
    until("it begins anew", || life.bounds(shared, 0) == Some((0, 0)));
    assert_eq!(life.offline(), 1);
    life.stop();
}

/// A node that lagged hears at once of a topic's end and of another of its name.
#[test]
fn a_topic_that_comes_with_the_end_of_one_of_its_name_keeps_its_log() {
    let site = Site::new();
    let life = site.start(&["a"]);
    let node = &life.started.node;
    let hosting = Hosting {
        node: life.me(),
        settings: node.settings.clone(),
        table: Arc::clone(&node.partitions),
        dirs: node.dirs.clone(),
        clock: node.clock,
        metrics: Arc::clone(&node.metrics),
        image: Arc::clone(&node.image),
        outbox: Arc::new(Outbox::default()),
        throttles: Arc::clone(&node.throttles),
        coordinators: Arc::clone(&node.coordinators),
    };
    let [old, new] = [7, 8].map(|id| TopicId(Uuid([id; 16])));
    let made = |id| {
        let (name, replicas) = (TopicName::new("t").unwrap(), || vec![life.me()]);
        let partition = NewPartition::first(id, PartitionIndex(0), replicas(), replicas());
        [MetadataRecord::Topic(metadata::NewTopic { name, id }), MetadataRecord::Partition(partition)]
    };
    let mut image = node.image.load_full();
    for records in
        [Vec::from(made(old)), [vec![MetadataRecord::RemoveTopic(old)], Vec::from(made(new))].concat()]
    {
        let (next, delta) = image.after(&records, image.end().next());
        hosting.table.add(hosting.make_new(&next, &delta));
        hosting.clear(&next, &delta);
        image = Arc::new(next);
        let topic = image.topic("t").unwrap().id;
        assert_eq!(life.append(topic, 0, 5), Some(5));
    }
    assert!(life.bounds(old, 0).is_none());
    assert!(!fs::read(log_file(&site.at("a/t-0"))).unwrap().is_empty(), "it is where it is looked for");
    let is_stray = |entry: fs::DirEntry| entry.file_name().to_string_lossy().ends_with("-stray");
    assert!(
        !fs::read_dir(site.at("a")).unwrap().map(Result::unwrap).any(is_stray),
        "the old one is nobody's"
    );
    life.stop();
}

/// As if a replica had been taken from a node and given back, and the node had heard of neither.
#[test]
fn a_log_of_which_it_is_not_known_any_more_where_it_is_is_told_of_again() {
    let site = Site::new();
    let life = site.start(&["a", "b"]);
    let topic = life.create("t", 1).id;
    life.append(topic, 0, 5);
    let image = life.started.node.image.load_full();
    let home = image.partition(topic, PartitionIndex(0)).unwrap().directories[0];
    life.decide(Command::AssignReplicasToDirs(AssignReplicasToDirs {
        broker: life.me(),
        epoch: image.broker(life.me()).unwrap().epoch,
        replicas: vec![(topic, PartitionIndex(0), Partition::DIRECTORY_UNASSIGNED)],
    }));
    life.wait_for(topic, "its directory is known", |partition| {
        partition.partition_epoch > image.partition(topic, PartitionIndex(0)).unwrap().partition_epoch
            && partition.directories[0] == home
    });
    assert_eq!(life.bounds(topic, 0), Some((0, 5)));
    life.stop();
}

/// Under `ack` nothing is in doubt, so it is not noted which logs there are; others have to be, also those that
/// were made under `ack`, or elsewhere.
#[test]
fn what_a_log_counted_since_it_was_opened_is_in_doubt_after_a_crash() {
    let site = Site::new();
    let life = site.start(&["a"]);
    let topic = life.create("t", 1).id;
    life.append(topic, 0, 5);
    life.stop();
    for (dir, is_lax) in [("a", false), ("a", true), ("b", true)] {
        let policy = if is_lax { "os" } else { "ack" };
        let life = site.start_with(&["a", "b"], &[("flush.policy", policy)]);
        assert!(life.dir_of(topic, 0).starts_with(site.at(dir)));
        let node = Arc::clone(&life.started.node);
        site.kill(life);
        let locked = Locked::lock(&node.settings).unwrap();
        let found = Directories::open(locked, &node.cluster_id, &node.settings, &node.metrics).unwrap();
        let left = found.last_stop();
        let lax = vec![(topic, PartitionIndex(0))];
        let in_doubt = if is_lax { InDoubt::Partitions(lax) } else { InDoubt::Nothing };
        assert_eq!((left.after_crash, left.in_doubt), (true, in_doubt), "{policy} in {dir}");
        drop((found, node));
        if is_lax && dir == "a" {
            fs::rename(site.at("a/t-0"), site.at("b/t-0")).unwrap();
        }
    }
}

/// A process without descriptors, say: what it could not write down it can a moment later.
#[test]
fn a_cut_that_cannot_be_noted_is_made_when_the_leader_says_so_again() {
    let site = Site::new();
    let life = site.start(&["a"]);
    let topic = life.create("t", 1).id;
    life.append(topic, 0, 3);
    life.append(topic, 0, 3);
    let cell = life.started.node.partitions.get(topic, PartitionIndex(0)).unwrap();
    let epoch = LeaderEpoch(1);
    cell.assign(&Assignment {
        leader: Some(OTHER),
        leader_epoch: epoch,
        partition_epoch: 1,
        replicas: vec![life.me(), OTHER],
        isr: vec![OTHER],
        unclean_epoch: LeaderEpoch(1),
    });
    let asks = || cell.with(|partition| partition.next_fetch());
    let asked = asks();
    assert!(asked.ask().is_some_and(|fetch| fetch.from == Offset(6)), "{asked:?}");
    let is_told_where_to_cut = || {
        let diverging = Some((LeaderEpoch(0), Offset(3)));
        let (high_watermark, log_start) = (Offset(3), Offset(0));
        let said = FromLeader { epoch, high_watermark, log_start, diverging, records: &[] };
        step(&life.followers(), &cell, (OTHER, Lane::KeepingUp), LeaderAnswer::Fetched(said)).fetch
    };
    let in_the_way = site.at("a/recovery-point-offset-checkpoint.tmp");
    let placed = cell.dir.mark(|_| {
        fs::create_dir(&in_the_way).unwrap();
        Ok(())
    });
    assert_eq!(placed, Some(()), "while nobody writes there");
    assert_eq!(is_told_where_to_cut(), asked, "the same, which is asked again after a while only");
    assert_eq!((asks(), life.bounds(topic, 0)), (asked, Some((0, 6))), "nothing was cut");
    fs::remove_dir(in_the_way).unwrap();
    let next = is_told_where_to_cut();
    assert!(next.ask().is_some_and(|fetch| fetch.from == Offset(3)), "{next:?}");
    assert_eq!((asks(), life.bounds(topic, 0)), (next, Some((0, 3))));
    drop(cell);
    life.stop();
}

/// A node that is to be filled by another, no faster than a limit, and owes for what it took before.
struct Filled {
    life: Life,
    leader: TcpListener,
}

impl Filled {
    fn new(site: &Site, owes: Duration) -> Self {
        const BYTES_A_SECOND: u32 = 1_000;
        let life = site.start_with(&["a"], &[("broker.session.timeout.ms", "600000")]);
        let leader = life.another_listens();
        life.create_on("t", &[OTHER]);
        let all = ("follower.replication.throttled.replicas", "*");
        life.configure(ConfigResource::Topic("t".to_owned().try_into().unwrap()), &[all]);
        let rate = BYTES_A_SECOND.to_string();
        life.configure(ConfigResource::Broker(life.me()), &[("follower.replication.throttled.rate", &rate)]);
        let bytes = owes.as_millis() as u64 * u64::from(BYTES_A_SECOND) / 1_000;
        let node = &life.started.node;
        until("there is a limit", || {
            node.throttles.follower.lock().charge(node.clock.now(), bytes);
            node.throttles.follower.lock().until(node.clock.now()).is_some()
        });
        life.gets_a_replica("t");
        Self { life, leader }
    }

    /// Whether somebody has come to the leader to ask.
    fn asks(&self) -> bool {
        is_asked(&self.leader)
    }

    /// Until when the node takes nothing more, if it owes for anything.
    fn owes_until(&self) -> Option<Duration> {
        let node = &self.life.started.node;
        node.throttles.follower.lock().until(node.clock.now())
    }
}

/// Whether somebody has come to ask.
fn is_asked(listens: &TcpListener) -> bool {
    match listens.accept() {
        Ok(_) => true,
        Err(why) if why.kind() == ErrorKind::WouldBlock => false,
        Err(why) => panic!("{why}"),
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < TIME_MAX, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_replica_whose_node_owes_for_what_it_took_is_filled_as_soon_as_that_is_paid_for() {
    let site = Site::new();
    let filled = Filled::new(&site, Duration::from_secs(1));
    until("the leader is asked", || {
        let owes = filled.owes_until();
        let asks = filled.asks();
        assert!(!asks || owes.is_none_or(|until| until <= filled.life.started.node.clock.now().elapsed));
        asks
    });
    filled.life.stop();
}

#[test]
fn a_limit_that_is_lifted_holds_nothing_back_any_more() {
    let site = Site::new();
    let filled = Filled::new(&site, Duration::from_secs(3_600));
    let life = &filled.life;
    until("the replica is here", || life.bounds(life.topic("t"), 0).is_some());
    assert!(filled.owes_until().is_some() && !filled.asks());
    life.configure(ConfigResource::Broker(life.me()), &[]);
    until("the leader is asked", || filled.asks());
    filled.life.stop();
}

impl Life {
    fn followers(&self) -> Followers {
        let node = &self.started.node;
        let identity = Arc::new(Identity::new(self.me(), None));
        let limits = FetcherLimits {
            wait_max: Duration::from_millis(500),
            response_bytes_max: 1 << 20,
            partition_bytes_max: 1 << 20,
            backoff: Duration::from_millis(100),
        };
        let with = (limits, Arc::clone(&node.throttles));
        let thread = self.runtime.handle();
        let lanes = Lanes { keeping_up: thread.clone(), catching_up: thread.clone() };
        Followers::new(identity, Arc::clone(&node.partitions), node.clock, with, lanes)
    }

    /// The leader of a partition tells of five records, and where its own log starts; what comes of it.
    fn hears(&self, topic: TopicId, log_start: i64) -> Next {
        self.hears_in(Lane::KeepingUp, topic, (log_start, log_start))
    }

    /// The same in a lane, and up to where all is committed.
    fn hears_in(&self, lane: Lane, topic: TopicId, (log_start, committed): (i64, i64)) -> Next {
        let cell = self.started.node.partitions.get(topic, PartitionIndex(0)).unwrap();
        let NextFetch::Ask(asked) = cell.with(|partition| partition.next_fetch()).of(OTHER) else {
            panic!("it follows {OTHER}")
        };
        let leader_epoch = asked.current_epoch;
        let options = BatchOptions { base_offset: asked.from, leader_epoch, ..BatchOptions::default() };
        let said = FromLeader {
            epoch: leader_epoch,
            high_watermark: Offset(committed),
            log_start: Offset(log_start),
            diverging: None,
            records: &self.batch(5, &options),
        };
        step(&self.followers(), &cell, (OTHER, lane), LeaderAnswer::Fetched(said))
    }
}

#[test]
fn a_replica_without_room_takes_no_records_but_deletions_until_there_is_some() {
    let site = Site::new();
    let patient = ("broker.session.timeout.ms", "600000");
    let full = ("log.dir.reserve.bytes", &*i64::MAX.to_string());
    let life = site.start_with(&["a"], &[patient]);
    life.another_comes(None);
    let topic = life.create_on("t", &[OTHER, life.me()]);
    assert_eq!(life.hears(topic, 0).rests_until, None);
    assert_eq!(life.bounds(topic, 0), Some((0, 5)));
    life.stop();
    let life = site.start_with(&["a"], &[patient, full]);
    let next = life.hears(topic, 3);
    assert_eq!(life.bounds(topic, 0), Some((3, 5)), "it takes deletions and no records");
    assert!(next.rests_until.is_some(), "it is not asked for all the time");
    assert!(life.started.node.dirs.iter().all(|dir| !dir.is_retired()));
    life.stop();
    let life = site.start_with(&["a"], &[patient]);
    assert_eq!(life.hears(topic, 3).rests_until, None);
    assert_eq!(life.bounds(topic, 0), Some((3, 10)));
    life.stop();
}

#[test]
fn a_replica_that_came_while_there_was_no_room_is_made_and_filled_once_there_is() {
    let site = Site::new();
    let patient = ("broker.session.timeout.ms", "600000");
    let full = ("log.dir.reserve.bytes", &*i64::MAX.to_string());
    let life = site.start_with(&["a"], &[patient]);
    let leader = life.another_listens();
    let topic = life.create_on("t", &[OTHER]);
    life.stop();
    let life = site.start_with(&["a"], &[patient, full]);
    life.gets_a_replica("t");
    let node = &life.started.node;
    let is_made = || node.partitions.get(topic, PartitionIndex(0)).is_some();
    assert_eq!((is_made(), node.partitions.offline_count()), (false, 1));
    // The node looks as well, and finds no room.
    until("it is made", || {
        node.dirs.iter().for_each(|dir| dir.look_at_space(DiskReserve(Some(0))));
        is_made()
    });
    assert_eq!(node.partitions.offline_count(), 0);
    until("its leader is asked for what it has", || is_asked(&leader));
    life.stop();
}

#[test]
fn a_replica_whose_log_could_not_be_made_is_tried_again_although_nothing_changes() {
    let site = Site::new();
    let life = site.start_with(&["a"], &[("broker.session.timeout.ms", "600000")]);
    life.another_comes(None);
    let topic = life.create_on("t", &[OTHER]);
    let in_the_way = site.at("a/t-0");
    fs::write(&in_the_way, "no directory").unwrap();
    life.gets_a_replica("t");
    let table = &life.started.node.partitions;
    assert_eq!(table.offline_count(), 1);
    fs::remove_file(&in_the_way).unwrap();
    until("it is made", || table.get(topic, PartitionIndex(0)).is_some());
    assert_eq!(table.offline_count(), 0);
    life.stop();
}

#[test]
fn a_replica_is_asked_for_in_another_lane_from_when_it_learns_how_much_it_lacks_until_it_has_that() {
    let site = Site::new();
    let life = site.start_with(&["a"], &[("broker.session.timeout.ms", "600000")]);
    life.another_comes(None);
    let topic = life.create_on("t", &[OTHER, life.me()]);
    let cell = life.started.node.partitions.get(topic, PartitionIndex(0)).unwrap();
    let asks = || Lane::ALL.map(|lane| cell.next_fetch(OTHER, lane) != NextFetch::Nothing);
    let hears = |lane| {
        until("its disk has all", || matches!(cell.with(|it| it.next_fetch()), NextFetch::Ask(_)));
        life.hears_in(lane, topic, (0, 12)).fetch != NextFetch::Nothing
    };
    assert_eq!(asks(), [true, false], "nothing is known of the leader yet");
    assert!(!hears(Lane::KeepingUp));
    assert_eq!(asks(), [false, true], "it lacks seven of those that are committed");
    assert!(hears(Lane::CatchingUp));
    assert_eq!(asks(), [false, true], "it lacks two");
    hears(Lane::CatchingUp);
    until("its disk has those, too", || asks() == [true, false]);
    assert_eq!(life.bounds(topic, 0), Some((0, 15)));
    life.stop();
}
