//! Stories: what is asked, what is answered, and what the cluster is afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{
    BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, Now, Offset, PartitionIndex, ProducerId, TimestampMs,
    TopicId, TopicName, Uuid,
};
use metadata::{ConfigMap, ConfigResource, Delta, Endpoint, Image};

use super::*;

mod config_bytes;
mod kept;

const NOW: Now = Now::new(Duration::ZERO, TimestampMs(1_000));

/// A controller whose records are replayed as soon as they are made, and which checks after each command
/// that the image is nothing but the replay of all records.
struct Cluster {
    controller: Controller,
    log: Vec<metadata::MetadataRecord>,
}

impl Cluster {
    fn new(settings: ControllerSettings, brokers: &[i32]) -> Self {
        let mut cluster = Self { controller: Controller::new(settings), log: Vec::new() };
        for &id in brokers {
            cluster.come(broker(id));
        }
        cluster
    }

    /// A broker begins a life, and is ready.
    fn come(&mut self, broker: RegisterBroker) {
        let id = broker.id;
        self.run(Command::RegisterBroker(broker)).expect("it may");
        self.run(heartbeat(self.controller.image(), id)).expect("it is registered");
    }

    fn of(brokers: &[i32]) -> Self {
        Self::new(ControllerSettings::default(), brokers)
    }

    fn run(&mut self, command: Command) -> Result<(Reply, Delta), ControllerError> {
        let (reply, records) = self.controller.handle(NOW, &command)?;
        self.log.extend(records.iter().cloned());
        let end = Offset(i64::try_from(self.log.len()).expect("few"));
        let delta = self.controller.replay_batch(&records, end);
        let (replayed, _) = Image::default().after(&self.log, end);
        assert_eq!(&replayed, self.controller.image(), "after {command:?}");
        Ok((reply, delta))
    }

    fn create(&mut self, topics: Vec<NewTopic>) -> Outcomes<TopicCreated> {
        match self.run(Command::CreateTopics(CreateTopics { topics, validate_only: false })) {
            Ok((Reply::CreateTopics(outcomes), _)) => outcomes,
            other => panic!("{other:?}"),
        }
    }

    fn create_one(&mut self, topic: NewTopic) -> Result<TopicCreated, ControllerError> {
        self.create(vec![topic]).pop().expect("one was asked for")
    }

    fn delete(&mut self, topics: Vec<TopicKey>) -> Outcomes<TopicDeleted> {
        match self.run(Command::DeleteTopics(DeleteTopics { topics })) {
            Ok((Reply::DeleteTopics(outcomes), _)) => outcomes,
            other => panic!("{other:?}"),
        }
    }

    fn grow(&mut self, name: &str, count: i32) -> Result<PartitionsCreated, ControllerError> {
        self.grow_to(TopicGrowth { name: name.into(), count, assignments: None })
    }

    fn grow_to(&mut self, growth: TopicGrowth) -> Result<PartitionsCreated, ControllerError> {
        let command = CreatePartitions { topics: vec![growth], validate_only: false };
        match self.run(Command::CreatePartitions(command)) {
            Ok((Reply::CreatePartitions(mut outcomes), _)) => outcomes.pop().expect("one was asked for"),
            other => panic!("{other:?}"),
        }
    }

    fn alter(
        &mut self,
        resource: ConfigResource,
        entries: &[(&str, ConfigOp, Option<&str>)],
    ) -> Result<(), ControllerError> {
        let entry = |&(name, op, value): &(&str, ConfigOp, Option<&str>)| {
            (name.to_owned(), (op, value.map(str::to_owned)))
        };
        let resources = vec![ResourceConfigs { resource, entries: entries.iter().map(entry).collect() }];
        let command = IncrementalAlterConfigs { resources, validate_only: false };
        match self.run(Command::IncrementalAlterConfigs(command)) {
            Ok((Reply::IncrementalAlterConfigs(mut outcomes), _)) => {
                outcomes.pop().expect("one was asked for")
            }
            other => panic!("{other:?}"),
        }
    }

    fn configs(&self, resource: &ConfigResource) -> Vec<(&str, &str)> {
        let map: &ConfigMap = self.controller.image().configs(resource);
        map.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
}

/// What a broker says that is ready.
fn heartbeat(image: &Image, id: BrokerId) -> Command {
    Command::BrokerHeartbeat(BrokerHeartbeat {
        id,
        epoch: image.broker(id).expect("it is registered").epoch,
        metadata_end: image.end(),
        wants_fence: false,
        wants_shutdown: false,
        offline_log_dirs: Vec::new(),
    })
}

fn broker(id: i32) -> RegisterBroker {
    let endpoint =
        Endpoint { listener: "PLAINTEXT".into(), host: "localhost".into(), port: 9092, security_protocol: 0 };
    RegisterBroker {
        id: BrokerId(id),
        incarnation: Uuid([id.unsigned_abs() as u8; 16]),
        cluster_id: String::new(),
        endpoints: vec![endpoint],
        cluster_address: None,
        features: Vec::new(),
        rack: None,
        log_dirs: [1, 7, 8].map(|id| Uuid([id; 16])).to_vec(),
        after_crash: false,
        previous_epoch: None,
        in_doubt: InDoubt::Nothing,
        is_voter: true,
    }
}

/// A topic whose id is made of its name.
fn topic(name: &str, partitions: i32, replication_factor: i16) -> NewTopic {
    let random = name.bytes().fold(7u128, |sum, c| sum.wrapping_mul(1_000_003) ^ u128::from(c));
    NewTopic {
        name: name.into(),
        partitions,
        replication_factor,
        assignments: Vec::new(),
        configs: Vec::new(),
        random,
    }
}

fn assigned(name: &str, assignments: &[(i32, &[i32])]) -> NewTopic {
    let assignments = assignments.iter().map(|(index, brokers)| (PartitionIndex(*index), ids(brokers)));
    NewTopic { assignments: assignments.collect(), ..topic(name, -1, -1) }
}

fn with_config(topic: NewTopic, name: &str, value: Option<&str>) -> NewTopic {
    NewTopic { configs: vec![(name.into(), value.map(Into::into))], ..topic }
}

fn ids(numbers: &[i32]) -> Vec<BrokerId> {
    numbers.iter().map(|&number| BrokerId(number)).collect()
}

fn name(text: &str) -> TopicName {
    TopicName::new(text).expect("legal")
}

fn of_topic(text: &str) -> ConfigResource {
    ConfigResource::Topic(name(text))
}

fn by_name(text: &str) -> TopicKey {
    TopicKey::Name(text.into())
}

/// The code and the words of a refusal.
fn refusal<T: std::fmt::Debug>(outcome: Result<T, ControllerError>) -> (ErrorCode, String) {
    let error = outcome.expect_err("it should have been refused");
    (error.code(), error.to_string())
}

#[test]
fn a_topic_is_made_with_the_defaults() {
    let settings = ControllerSettings { partitions_default: 3, ..ControllerSettings::default() };
    let mut cluster = Cluster::new(settings, &[1]);
    let created = cluster.create_one(topic("a", -1, -1)).expect("nothing is against it");
    assert_eq!((created.name.as_str(), created.partitions, created.replication_factor), ("a", 3, 1));
    let image = cluster.controller.image();
    let made = image.topic("a").expect("it was made");
    assert_eq!((made.id, made.partitions().len()), (created.id, 3));
    for partition in made.partitions() {
        assert_eq!((partition.leader, partition.leader_epoch), (BrokerId(1), LeaderEpoch::FIRST));
        assert_eq!((&partition.replicas[..], &partition.isr[..]), (&ids(&[1])[..], &ids(&[1])[..]));
    }
}

#[test]
fn what_a_topic_may_be_called() {
    let mut cluster = Cluster::of(&[1]);
    for bad in ["", ".", "..", "a/b", "ä", &"x".repeat(250)] {
        let (code, words) = refusal(cluster.create_one(topic(bad, 1, 1)));
        assert_eq!(code, ErrorCode::InvalidTopicException, "{bad}");
        assert!(words.starts_with("Topic name is invalid"), "{words}");
    }
    let (code, _) = refusal(cluster.create_one(topic("__cluster_metadata", 1, 1)));
    assert_eq!(code, ErrorCode::InvalidRequest);
    cluster.create_one(topic("a.b", 1, 1)).expect("legal");
    let again = refusal(cluster.create_one(topic("a.b", 1, 1)));
    assert_eq!(again, (ErrorCode::TopicAlreadyExists, "Topic 'a.b' already exists.".into()));
    let collides = refusal(cluster.create_one(topic("a_b", 1, 1)));
    let words = "Topic 'a_b' collides with existing topic: a.b";
    assert_eq!(collides, (ErrorCode::InvalidTopicException, words.into()));
    // So many marks that not every way to write them is tried.
    cluster.create_one(topic("a.b.c.d.e.f.g.h.i.j", 1, 1)).expect("legal");
    let (code, _) = refusal(cluster.create_one(topic("a_b.c.d.e.f.g.h.i.j", 1, 1)));
    assert_eq!(code, ErrorCode::InvalidTopicException);
}

#[test]
fn topics_of_one_request_fail_one_by_one() {
    let mut cluster = Cluster::of(&[1]);
    let outcomes = cluster.create(vec![
        topic("good", 1, 1),
        topic("twice", 1, 1),
        topic("twice", 1, 1),
        topic("x.y", 1, 1),
        topic("x_y", 1, 1),
    ]);
    let codes: Vec<Option<ErrorCode>> =
        outcomes.iter().map(|outcome| outcome.as_ref().err().map(ControllerError::code)).collect();
    let twice = Some(ErrorCode::InvalidRequest);
    assert_eq!(codes, [None, twice, twice, None, Some(ErrorCode::InvalidTopicException)]);
    assert_eq!(cluster.controller.image().topic_count(), 2);
}

#[test]
fn only_asking_changes_nothing() {
    let mut cluster = Cluster::of(&[1]);
    let command = CreateTopics { topics: vec![topic("a", 2, 1)], validate_only: true };
    let (reply, delta) = cluster.run(Command::CreateTopics(command)).expect("it is legal");
    let Reply::CreateTopics(outcomes) = reply else { panic!("{reply:?}") };
    let would_be = outcomes[0].as_ref().expect("it is legal");
    assert_eq!((would_be.partitions, would_be.id), (2, TopicId(Uuid::ZERO)));
    assert!(delta.is_empty() && cluster.controller.image().topic_count() == 0);
}

#[test]
fn without_room_nothing_is_made_and_all_else_is_answered_as_ever() {
    let mut cluster = Cluster::of(&[1]);
    cluster.create_one(topic("a", 1, 1)).expect("there is room");
    cluster.controller.on_room(false);
    let outcomes = cluster.create(vec![topic("a", 1, 1), topic("b", 0, 1), topic("c", 1, 1)]);
    let codes: Vec<_> = outcomes.into_iter().map(|outcome| refusal(outcome).0).collect();
    let expected =
        [ErrorCode::TopicAlreadyExists, ErrorCode::InvalidPartitions, ErrorCode::KafkaStorageError];
    assert_eq!(codes, expected);
    assert_eq!(refusal(cluster.grow("a", 1)).0, ErrorCode::InvalidPartitions);
    assert_eq!(refusal(cluster.grow("a", 2)).0, ErrorCode::KafkaStorageError);
    let only_asked = CreateTopics { topics: vec![topic("c", 1, 1)], validate_only: true };
    let (reply, _) = cluster.run(Command::CreateTopics(only_asked)).expect("it is legal");
    assert!(matches!(reply, Reply::CreateTopics(outcomes) if outcomes[0].is_ok()));
    assert!(cluster.delete(vec![by_name("a")])[0].is_ok());
    cluster.controller.on_room(true);
    cluster.create_one(topic("c", 1, 1)).expect("there is room again");
}

#[test]
fn counts_that_do_not_do() {
    let mut cluster = Cluster::of(&[1]);
    assert_eq!(refusal(cluster.create_one(topic("a", 0, 1))).0, ErrorCode::InvalidPartitions);
    assert_eq!(refusal(cluster.create_one(topic("a", -2, 1))).0, ErrorCode::InvalidPartitions);
    assert_eq!(refusal(cluster.create_one(topic("a", 1, 0))).0, ErrorCode::InvalidReplicationFactor);
    let (code, words) = refusal(cluster.create_one(topic("a", 1, 3)));
    assert_eq!(code, ErrorCode::InvalidReplicationFactor);
    assert_eq!(
        words,
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached \
         because only 1 broker(s) are registered."
    );
    let many = Command::CreateTopics(CreateTopics {
        topics: vec![topic("a", 10_000, 1), topic("b", 1, 1)],
        validate_only: false,
    });
    assert_eq!(refusal(cluster.run(many)).0, ErrorCode::PolicyViolation);
    assert_eq!(cluster.create_one(topic("a", 10_000, 1)).map(|created| created.partitions), Ok(10_000));
}

#[test]
fn without_a_living_broker_nothing_is_made() {
    let mut cluster = Cluster::of(&[]);
    assert_eq!(refusal(cluster.create_one(topic("a", 1, 1))).0, ErrorCode::InvalidReplicationFactor);
    cluster.run(Command::RegisterBroker(broker(1))).expect("it is new");
    assert_eq!(refusal(cluster.create_one(topic("a", 1, 1))).0, ErrorCode::InvalidReplicationFactor);
    let (code, words) = refusal(cluster.create_one(assigned("a", &[(0, &[1])])));
    assert_eq!(code, ErrorCode::InvalidReplicaAssignment);
    assert!(words.contains("are fenced"), "{words}");
}

#[test]
fn replicas_are_spread_over_the_brokers() {
    let mut cluster = Cluster::of(&[1, 2, 3]);
    cluster.create_one(topic("a", 12, 2)).expect("three brokers can hold two replicas");
    let image = cluster.controller.image();
    let made = image.topic("a").expect("it was made");
    let mut pairs = BTreeMap::new();
    for partition in made.partitions() {
        assert_ne!(partition.replicas[0], partition.replicas[1]);
        *pairs.entry((partition.replicas[0], partition.replicas[1])).or_insert(0) += 1;
    }
    assert_eq!(pairs.values().copied().collect::<Vec<i32>>(), [2; 6], "every pair as often as any other");
}

#[test]
fn replicas_can_be_assigned_by_hand() {
    let mut cluster = Cluster::of(&[1, 2]);
    cluster.run(Command::RegisterBroker(broker(3))).expect("it is new, and fenced");
    cluster.create_one(assigned("a", &[(1, &[1, 2]), (0, &[3, 2])])).expect("legal");
    let image = cluster.controller.image();
    let first = image.topic("a").and_then(|a| a.partition(PartitionIndex(0))).expect("it was made");
    assert_eq!((&first.replicas[..], &first.isr[..]), (&ids(&[3, 2])[..], &ids(&[2])[..]));
    assert_eq!(first.leader, BrokerId(2), "who is fenced does not lead");

    let refused: [(NewTopic, ErrorCode, &str); 7] = [
        (
            NewTopic { replication_factor: 1, ..assigned("b", &[(0, &[1])]) },
            ErrorCode::InvalidRequest,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            NewTopic { partitions: 1, ..assigned("b", &[(0, &[1])]) },
            ErrorCode::InvalidRequest,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            assigned("b", &[(1, &[1])]),
            ErrorCode::InvalidReplicaAssignment,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            assigned("b", &[(0, &[])]),
            ErrorCode::InvalidReplicaAssignment,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            assigned("b", &[(0, &[9])]),
            ErrorCode::InvalidReplicaAssignment,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            assigned("b", &[(0, &[1, 1])]),
            ErrorCode::InvalidReplicaAssignment,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            assigned("b", &[(0, &[1]), (1, &[1, 2])]),
            ErrorCode::InvalidReplicaAssignment,
            "The manual partition assignment includes a partition with 2 replica(s), but this is not \
             consistent with previous partitions, which have 1 replica(s).",
        ),
    ];
    for (topic, code, words) in refused {
        assert_eq!(refusal(cluster.create_one(topic)), (code, words.into()));
    }
}

#[test]
fn a_topic_begins_with_its_settings() {
    let mut cluster = Cluster::of(&[1]);
    cluster.create_one(with_config(topic("a", 1, 1), "retention.ms", Some("5"))).expect("legal");
    assert_eq!(cluster.configs(&of_topic("a")), [("retention.ms", "5")]);
    let refused = [
        (Some("-5"), "Invalid value -5 for configuration retention.ms: Value must be at least -1"),
        (None, "Null value not supported for topic configs: retention.ms"),
    ];
    for (value, words) in refused {
        let outcome = cluster.create_one(with_config(topic("b", 1, 1), "retention.ms", value));
        assert_eq!(refusal(outcome), (ErrorCode::InvalidConfig, words.into()));
    }
    let unknown = cluster.create_one(with_config(topic("b", 1, 1), "retention", Some("5")));
    assert_eq!(refusal(unknown), (ErrorCode::InvalidConfig, "Unknown topic config name: retention".into()));
    assert_eq!(cluster.controller.image().topic_count(), 1);
}

#[test]
fn topics_are_deleted_by_name_and_by_id() {
    let mut cluster = Cluster::of(&[1]);
    cluster.create_one(with_config(topic("a", 2, 1), "retention.ms", Some("5"))).expect("legal");
    let id = cluster.create_one(topic("b", 1, 1)).expect("legal").id;
    let nobody = TopicId(Uuid([9; 16]));
    let outcomes = cluster.delete(vec![by_name("a"), TopicKey::Id(id), by_name("c"), TopicKey::Id(nobody)]);
    assert_eq!(outcomes[0].as_ref().map(|deleted| deleted.name.as_str()), Ok("a"));
    assert_eq!(outcomes[1].as_ref().map(|deleted| deleted.name.as_str()), Ok("b"));
    assert_eq!(refusal(outcomes[2].clone()).0, ErrorCode::UnknownTopicOrPartition);
    assert_eq!(refusal(outcomes[3].clone()).0, ErrorCode::UnknownTopicId);
    assert_eq!(cluster.controller.image().partition_count(), 0);
    assert!(cluster.configs(&of_topic("a")).is_empty());

    let again = NewTopic { random: 1, ..topic("a", 1, 1) };
    cluster.create_one(again).expect("the name is free");
    assert!(cluster.configs(&of_topic("a")).is_empty(), "nothing of the old topic is left");
}

#[test]
fn a_topic_is_deleted_once() {
    let mut cluster = Cluster::of(&[1]);
    let id = cluster.create_one(topic("a", 1, 1)).expect("legal").id;
    let outcomes = cluster.delete(vec![by_name("a"), TopicKey::Id(id)]);
    for outcome in outcomes {
        assert_eq!(refusal(outcome).0, ErrorCode::InvalidRequest);
    }
    assert_eq!(cluster.controller.image().topic_count(), 1);
    let settings = ControllerSettings { delete_topics: false, ..ControllerSettings::default() };
    let mut cautious = Cluster::new(settings, &[1]);
    cautious.create_one(topic("a", 1, 1)).expect("legal");
    let refused = cautious.delete(vec![by_name("a")]).pop().expect("one was asked for");
    assert_eq!(refusal(refused).0, ErrorCode::TopicDeletionDisabled);
}

#[test]
fn a_topic_grows_and_never_shrinks() {
    let mut cluster = Cluster::of(&[1, 2]);
    cluster.create_one(topic("a", 2, 2)).expect("legal");
    let same = (ErrorCode::InvalidPartitions, "Topic already has 2 partition(s).".to_owned());
    assert_eq!(refusal(cluster.grow("a", 2)), same);
    let (code, words) = refusal(cluster.grow("a", 1));
    assert_eq!(code, ErrorCode::InvalidPartitions);
    assert_eq!(words, "The topic a currently has 2 partition(s); 1 would not be an increase.");
    assert_eq!(refusal(cluster.grow("b", 1)).0, ErrorCode::UnknownTopicOrPartition);
    assert_eq!(cluster.grow("a", 5).map(|grown| grown.count), Ok(5));
    let by_hand = |assignments: &[&[i32]]| TopicGrowth {
        name: "a".into(),
        count: 6,
        assignments: Some(assignments.iter().map(|brokers| ids(brokers)).collect()),
    };
    for wrong in [&[][..], &[&[1][..]], &[&[1, 2][..], &[1, 2]], &[&[1, 9][..]]] {
        let outcome = cluster.grow_to(by_hand(wrong));
        assert_eq!(refusal(outcome).0, ErrorCode::InvalidReplicaAssignment, "{wrong:?}");
    }
    cluster.grow_to(by_hand(&[&[2, 1]])).expect("as many replicas as the others have");
    let image = cluster.controller.image();
    let grown = image.topic("a").expect("it was made");
    assert_eq!(grown.partitions().len(), 6);
    assert!(grown.partitions().iter().all(|partition| partition.replicas.len() == 2));
    assert_eq!(grown.partition(PartitionIndex(5)).map(|partition| partition.leader), Some(BrokerId(2)));
    assert_eq!(
        refusal(cluster.run(Command::CreatePartitions(CreatePartitions {
            topics: vec![TopicGrowth { name: "a".into(), count: 10_007, assignments: None }],
            validate_only: false,
        })))
        .0,
        ErrorCode::PolicyViolation
    );
}

/// Groups are found by their ids in as many partitions as there are.
#[test]
fn the_topic_of_committed_offsets_does_not_grow() {
    let mut cluster = Cluster::of(&[1]);
    cluster.create_one(topic("__consumer_offsets", 50, 1)).expect("legal");
    let by_hand = vec![ids(&[1])];
    for assignments in [None, Some(by_hand)] {
        let growth = TopicGrowth { name: "__consumer_offsets".into(), count: 51, assignments };
        let (code, words) = refusal(cluster.grow_to(growth));
        assert_eq!(code, ErrorCode::InvalidRequest);
        assert!(
            words.starts_with("The number of partitions of __consumer_offsets cannot be changed"),
            "{words}"
        );
    }
    let kept = cluster.controller.image().topic("__consumer_offsets").expect("it was made");
    assert_eq!(kept.partitions().len(), 50);
}

#[test]
fn single_settings_change() {
    use ConfigOp::{Append, Delete, Set, Subtract};
    let mut cluster = Cluster::of(&[1]);
    cluster.create_one(topic("a", 1, 1)).expect("legal");
    let a = of_topic("a");
    cluster
        .alter(a.clone(), &[("retention.ms", Set, Some("5")), ("preallocate", Set, Some("true"))])
        .expect("legal");
    cluster.alter(a.clone(), &[("preallocate", Delete, None)]).expect("legal");
    assert_eq!(cluster.configs(&a), [("retention.ms", "5")]);
    cluster.alter(a.clone(), &[("cleanup.policy", Append, Some("compact"))]).expect("it is a list");
    assert_eq!(cluster.configs(&a)[0], ("cleanup.policy", "delete,compact"), "it began at the default");
    cluster.alter(a.clone(), &[("cleanup.policy", Subtract, Some("delete"))]).expect("it is a list");
    cluster.alter(a.clone(), &[("cleanup.policy", Append, Some("compact"))]).expect("it has it already");
    assert_eq!(cluster.configs(&a)[0], ("cleanup.policy", "compact"));

    let null = cluster.alter(a.clone(), &[("retention.ms", Set, None), ("preallocate", Append, None)]);
    let words = "Null value not supported for : retention.ms,preallocate".to_owned();
    assert_eq!(refusal(null), (ErrorCode::InvalidRequest, words));
    let refused: [(&str, ConfigOp, Option<&str>, &str); 4] = [
        ("retention.ms", Append, Some("1"), "Can't APPEND to key retention.ms because its type is not LIST."),
        (
            "retention.ms",
            Set,
            Some("x"),
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        ("no.such", Set, Some("1"), "Unknown topic config name: no.such"),
        (
            "cleanup.policy",
            Append,
            Some("shred"),
            "Invalid value compact,shred for configuration cleanup.policy: String must be one of: compact, delete",
        ),
    ];
    for (name, op, value, words) in refused {
        let outcome = cluster.alter(a.clone(), &[(name, op, value), ("flush.ms", Set, Some("1"))]);
        assert_eq!(refusal(outcome), (ErrorCode::InvalidConfig, words.to_owned()));
    }
    assert_eq!(cluster.configs(&a).len(), 2, "a resource changes as a whole or not at all");
    let long = "9".repeat(40_000);
    let outcome = cluster.alter(a.clone(), &[("leader.replication.throttled.replicas", Set, Some(&long))]);
    assert_eq!(refusal(outcome).0, ErrorCode::InvalidConfig);
    let twice = cluster.alter(a, &[("flush.ms", Set, Some("1")), ("flush.ms", Delete, None)]);
    assert_eq!(refusal(twice).0, ErrorCode::InvalidRequest);
    let nobody = cluster.alter(of_topic("b"), &[("flush.ms", Set, Some("1"))]);
    assert_eq!(refusal(nobody).0, ErrorCode::UnknownTopicOrPartition);
}

#[test]
fn a_change_that_changes_nothing_commits_nothing() {
    let mut cluster = Cluster::of(&[1]);
    cluster.create_one(topic("a", 1, 1)).expect("legal");
    cluster.alter(of_topic("a"), &[("flush.ms", ConfigOp::Set, Some("1"))]).expect("legal");
    let records = cluster.log.len();
    cluster.alter(of_topic("a"), &[("flush.ms", ConfigOp::Set, Some("1"))]).expect("legal");
    cluster.alter(of_topic("a"), &[("retention.ms", ConfigOp::Delete, None)]).expect("legal");
    assert_eq!(cluster.log.len(), records);
}

#[test]
fn brokers_have_settings_too() {
    use ConfigOp::Set;
    let mut cluster = Cluster::of(&[1]);
    let one = ConfigResource::Broker(BrokerId(1));
    cluster.alter(one.clone(), &[("log.retention.ms", Set, Some("5"))]).expect("it is dynamic");
    cluster
        .alter(ConfigResource::DefaultBroker, &[("log.cleanup.policy", ConfigOp::Append, Some("compact"))])
        .expect("it is dynamic");
    assert_eq!(cluster.configs(&one), [("log.retention.ms", "5")]);
    assert_eq!(cluster.configs(&ConfigResource::DefaultBroker), [("log.cleanup.policy", "delete,compact")]);
    let (code, words) = refusal(cluster.alter(one.clone(), &[("node.id", Set, Some("5"))]));
    assert_eq!(
        (code, words.as_str()),
        (ErrorCode::InvalidRequest, "Cannot update these configs dynamically: [node.id]")
    );
    let bad = cluster.alter(one.clone(), &[("message.max.bytes", Set, Some("many"))]);
    assert_eq!(refusal(bad).0, ErrorCode::InvalidRequest);
    assert_eq!(refusal(cluster.alter(one, &[("no.such", Set, Some("5"))])).0, ErrorCode::InvalidConfig);
    let nobody = ConfigResource::Broker(BrokerId(9));
    let (code, words) = refusal(cluster.alter(nobody, &[("log.retention.ms", Set, Some("5"))]));
    assert_eq!(
        (code, words.as_str()),
        (ErrorCode::BrokerIdNotRegistered, "Broker ID 9 is not currently registered")
    );
}

/// Who is still eligible depends on it, so that it is the same on every node, whatever each was given at start.
#[test]
fn the_minimum_of_all_topics_changes_and_is_not_taken_back() {
    use ConfigOp::{Delete, Set};
    let mut cluster = Cluster::of(&[1]);
    let all = ConfigResource::DefaultBroker;
    let name = "min.insync.replicas";
    cluster.alter(all.clone(), &[(name, Delete, None)]).expect("there is nothing to take back");
    cluster.alter(all.clone(), &[(name, Set, Some("2"))]).expect("it is dynamic");
    let (code, words) = refusal(cluster.alter(all.clone(), &[(name, Delete, None)]));
    assert_eq!(code, ErrorCode::InvalidConfig);
    assert!(words.contains("set it to 1"), "{words}");
    let resources = vec![ResourceConfigs { resource: all.clone(), entries: Vec::new() }];
    let (reply, _) = cluster
        .run(Command::AlterConfigs(AlterConfigs { resources, validate_only: false }))
        .expect("it runs");
    let Reply::AlterConfigs(outcomes) = reply else { panic!("{reply:?}") };
    assert_eq!(refusal(outcomes[0].clone()).0, ErrorCode::InvalidConfig, "not by leaving it out either");
    cluster.alter(all.clone(), &[(name, Set, Some("1"))]).expect("it can be lowered");
    assert_eq!(cluster.configs(&all), [(name, "1")]);
}

#[test]
fn all_settings_are_replaced_at_once() {
    let mut cluster = Cluster::of(&[1]);
    cluster.create_one(with_config(topic("a", 1, 1), "retention.ms", Some("5"))).expect("legal");
    let replace = |entries: &[(&str, Option<&str>)], validate_only| {
        let entries = entries.iter().map(|&(name, value)| (name.to_owned(), value.map(str::to_owned)));
        let resources = vec![ResourceConfigs { resource: of_topic("a"), entries: entries.collect() }];
        Command::AlterConfigs(AlterConfigs { resources, validate_only })
    };
    let _ = cluster.run(replace(&[("flush.ms", Some("1"))], true)).expect("it runs");
    assert_eq!(cluster.configs(&of_topic("a")), [("retention.ms", "5")], "it was only asked");
    let (_, delta) = cluster.run(replace(&[("flush.ms", Some("1"))], false)).expect("it runs");
    assert_eq!(cluster.configs(&of_topic("a")), [("flush.ms", "1")]);
    assert_eq!(delta.configs_changed, [of_topic("a")].into());
    let (reply, _) = cluster.run(replace(&[("flush.ms", None)], false)).expect("it runs");
    let Reply::AlterConfigs(outcomes) = reply else { panic!("{reply:?}") };
    assert_eq!(refusal(outcomes[0].clone()).0, ErrorCode::InvalidRequest);
}

#[test]
fn the_same_resource_twice_is_refused_both_times() {
    let mut cluster = Cluster::of(&[1]);
    cluster.create_one(topic("a", 1, 1)).expect("legal");
    let asked = ResourceConfigs { resource: of_topic("a"), entries: Vec::new() };
    let command = AlterConfigs { resources: vec![asked.clone(), asked], validate_only: false };
    let (reply, _) = cluster.run(Command::AlterConfigs(command)).expect("it runs");
    let Reply::AlterConfigs(outcomes) = reply else { panic!("{reply:?}") };
    assert_eq!(outcomes.len(), 2);
    for outcome in outcomes {
        assert_eq!(
            refusal(outcome),
            (ErrorCode::InvalidRequest, "Each resource must appear at most once.".into())
        );
    }
}

#[test]
fn each_life_of_a_broker_has_a_later_epoch() {
    let mut cluster = Cluster::of(&[1]);
    cluster.create_one(topic("a", 1, 1)).expect("legal");
    let epoch = |cluster: &Cluster| cluster.controller.image().broker(BrokerId(1)).expect("registered").epoch;
    let first = epoch(&cluster);
    let (reply, delta) =
        cluster.run(Command::RegisterBroker(broker(1))).expect("the same process asks again");
    assert_eq!((reply, delta.is_empty()), (Reply::RegisterBroker(first), true));
    let next = RegisterBroker { incarnation: Uuid([8; 16]), ..broker(1) };
    cluster.run(Command::RegisterBroker(next)).expect("it came back");
    assert!(epoch(&cluster) > first);
    let stale = AllocateProducerIds { broker: BrokerId(1), epoch: first };
    let refused = cluster.run(Command::AllocateProducerIds(stale));
    assert_eq!(refusal(refused).0, ErrorCode::StaleBrokerEpoch);
    let gone = Command::UnregisterBroker(UnregisterBroker { id: BrokerId(1) });
    cluster.run(gone.clone()).expect("it was there");
    assert_eq!(refusal(cluster.run(gone)).0, ErrorCode::BrokerIdNotRegistered);
    assert_eq!(refusal(cluster.run(Command::RegisterBroker(broker(-1)))).0, ErrorCode::InvalidRequest);
}

#[test]
fn after_a_crash_what_a_broker_leads_gets_a_new_epoch() {
    let mut cluster = Cluster::of(&[1, 2]);
    cluster.create_one(assigned("a", &[(0, &[1]), (1, &[2])])).expect("legal");
    let again = RegisterBroker { incarnation: Uuid([8; 16]), after_crash: true, ..broker(1) };
    let (_, delta) = cluster.run(Command::RegisterBroker(again)).expect("it came back");
    assert_eq!(delta.partitions_changed.len(), 1);
    let image = cluster.controller.image();
    let epochs = image.topic("a").expect("it was made").partitions().iter().map(|p| p.leader_epoch.0);
    assert_eq!(epochs.collect::<Vec<_>>(), [1, 0]);
}

#[test]
fn the_cluster_has_a_last_partition() {
    let mut controller = Controller::new(ControllerSettings::default());
    let mut run = |command: Command| {
        let (reply, records) = controller.handle(NOW, &command)?;
        controller.replay_batch(&records, Offset(0));
        Ok::<_, ControllerError>(reply)
    };
    run(Command::RegisterBroker(broker(1))).expect("it is new");
    let ready = BrokerHeartbeat {
        id: BrokerId(1),
        epoch: BrokerEpoch(0),
        metadata_end: Offset(1),
        wants_fence: false,
        wants_shutdown: false,
        offline_log_dirs: Vec::new(),
    };
    run(Command::BrokerHeartbeat(ready)).expect("it is registered");
    let create = |i: usize, partitions: i32| {
        let topic = NewTopic { random: (i as u128 + 1) << 90, ..topic(&format!("t{i}"), partitions, 1) };
        Command::CreateTopics(CreateTopics { topics: vec![topic], validate_only: false })
    };
    let each = PARTITIONS_PER_COMMAND_MAX;
    for i in 0..PARTITIONS_MAX / each {
        run(create(i, each as i32)).expect("there is room");
    }
    assert!(matches!(run(create(99, 1)), Err(ControllerError::PolicyViolation(_))));
    let growth = TopicGrowth { name: "t0".into(), count: each as i32 + 1, assignments: None };
    let grow = Command::CreatePartitions(CreatePartitions { topics: vec![growth], validate_only: false });
    assert!(matches!(run(grow), Err(ControllerError::PolicyViolation(_))));
}

#[test]
fn no_producer_id_is_given_twice() {
    let mut cluster = Cluster::of(&[1]);
    let epoch = cluster.controller.image().broker(BrokerId(1)).expect("registered").epoch;
    let ask = Command::AllocateProducerIds(AllocateProducerIds { broker: BrokerId(1), epoch });
    let firsts: Vec<i64> = (0..3)
        .map(|_| match cluster.run(ask.clone()) {
            Ok((Reply::AllocateProducerIds(block), _)) if block.len == 1000 => block.first.0,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(firsts, [0, 1000, 2000]);
    let stranger = AllocateProducerIds { broker: BrokerId(7), epoch: BrokerEpoch(0) };
    let refused = cluster.run(Command::AllocateProducerIds(stranger));
    assert_eq!(refusal(refused).0, ErrorCode::BrokerIdNotRegistered);
}

fn directories(cluster: &Cluster, topic: &str) -> Vec<Uuid> {
    let topic = cluster.controller.image().topic(topic).expect("it is there");
    topic.partitions().iter().flat_map(|p| p.directories.to_vec()).collect()
}

#[test]
fn a_broker_says_where_its_replicas_lie() {
    let mut cluster = Cluster::of(&[1]);
    let created = cluster.create_one(topic("a", 2, 1)).expect("it may");
    let unassigned = metadata::Partition::DIRECTORY_UNASSIGNED;
    assert_eq!(directories(&cluster, "a"), [unassigned, unassigned], "nobody has made the logs yet");
    let epoch = cluster.controller.image().broker(BrokerId(1)).expect("it is registered").epoch;
    let assign = |index: i32, id: u8| {
        let replicas = vec![
            (created.id, PartitionIndex(index), Uuid([id; 16])),
            (TopicId(Uuid([1; 16])), PartitionIndex(0), Uuid([id; 16])),
            (created.id, PartitionIndex(9), Uuid([id; 16])),
        ];
        Command::AssignReplicasToDirs(AssignReplicasToDirs { broker: BrokerId(1), epoch, replicas })
    };
    let (_, delta) = cluster.run(assign(1, 7)).expect("what is not there is passed over");
    assert_eq!(delta.partitions_changed.len(), 1);
    assert_eq!(directories(&cluster, "a"), [unassigned, Uuid([7; 16])]);
    let (leader_epoch, records) = (cluster.controller.image().topic("a"), cluster.log.len());
    assert_eq!(leader_epoch.expect("it is there").partitions()[1].leader_epoch, LeaderEpoch(0));
    cluster.run(assign(1, 7)).expect("it is known");
    assert_eq!(cluster.log.len(), records);
    cluster.run(assign(1, 8)).expect("it moved");
    assert_eq!(directories(&cluster, "a"), [unassigned, Uuid([8; 16])]);
    let stranger = AssignReplicasToDirs { broker: BrokerId(7), epoch, replicas: Vec::new() };
    let refused = cluster.run(Command::AssignReplicasToDirs(stranger));
    assert_eq!(refusal(refused).0, ErrorCode::BrokerIdNotRegistered);
}

#[test]
fn producer_ids_that_are_in_logs_are_not_given_out() {
    let mut cluster = Cluster::of(&[1]);
    let skip = |largest| {
        Command::SkipProducerIds(SkipProducerIds { broker: BrokerId(1), largest: ProducerId(largest) })
    };
    cluster.run(skip(4711)).expect("it may");
    assert_eq!(cluster.controller.image().producer_id_next(), ProducerId(4712));
    let records = cluster.log.len();
    cluster.run(skip(4711)).expect("it is known");
    assert_eq!(cluster.log.len(), records);
}

#[test]
fn a_topic_found_on_a_disk_is_adopted() {
    let mut cluster = Cluster::of(&[1]);
    let id = TopicId(Uuid([5; 16]));
    let found = |partitions: &[(i32, i32)]| {
        let found = |epoch| FoundPartition { last_epoch: LeaderEpoch(epoch), directory: Uuid([9; 16]) };
        let partitions = partitions.iter().map(|&(index, epoch)| (PartitionIndex(index), found(epoch)));
        AdoptTopic { name: name("a"), id, partitions: partitions.collect(), broker: BrokerId(1) }
    };
    cluster.run(Command::AdoptTopic(found(&[(0, 4), (2, -1)]))).expect("nobody has it");
    let epochs = |cluster: &Cluster| {
        let image = cluster.controller.image();
        let topic = image.topic("a").expect("it was adopted");
        topic.partitions().iter().map(|p| p.leader_epoch.0).collect::<Vec<_>>()
    };
    assert_eq!(epochs(&cluster), [5, 0, 0], "above what its log has; the missing one is there, empty");
    let unassigned = metadata::Partition::DIRECTORY_UNASSIGNED;
    assert_eq!(directories(&cluster, "a"), [Uuid([9; 16]), unassigned, Uuid([9; 16])]);
    let records = cluster.log.len();
    cluster.run(Command::AdoptTopic(found(&[(0, 4)]))).expect("it is there");
    assert_eq!(cluster.log.len(), records);
    cluster.run(Command::AdoptTopic(found(&[(3, 1)]))).expect("one more was found");
    assert_eq!(epochs(&cluster), [5, 0, 0, 2]);

    let other_id = AdoptTopic { id: TopicId(Uuid([6; 16])), ..found(&[(0, 0)]) };
    assert_eq!(refusal(cluster.run(Command::AdoptTopic(other_id))).0, ErrorCode::InconsistentTopicId);
    let other_name = AdoptTopic { name: name("b"), ..found(&[(0, 0)]) };
    assert_eq!(refusal(cluster.run(Command::AdoptTopic(other_name))).0, ErrorCode::InvalidRequest);
    let no_id = AdoptTopic { name: name("b"), id: TopicId(Uuid::ZERO), ..found(&[(0, 0)]) };
    assert_eq!(refusal(cluster.run(Command::AdoptTopic(no_id))).0, ErrorCode::InvalidRequest);
    let absurd = AdoptTopic { name: name("c"), id: TopicId(Uuid([7; 16])), ..found(&[(i32::MAX, 0)]) };
    assert_eq!(refusal(cluster.run(Command::AdoptTopic(absurd))).0, ErrorCode::InvalidPartitions);
}

#[test]
fn a_random_history_is_its_records() {
    let mut seed = 42u64;
    let mut next = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut cluster = Cluster::of(&[1, 2, 3]);
    for step in 0..300u64 {
        // What is refused is as good a step as any: `run` checks the image after each.
        let of = format!("t{}", next(8));
        let random = u128::from(step) << 64 | u128::from(next(u64::MAX));
        match next(6) {
            0 | 1 => {
                let count = i32::try_from(next(4)).expect("small");
                let _ = cluster.create_one(NewTopic { random, ..topic(&of, count, 2) });
            }
            2 => drop(cluster.delete(vec![by_name(&of)])),
            3 => drop(cluster.grow(&of, i32::try_from(next(9)).expect("small"))),
            4 => {
                let op = if next(2) == 0 { ConfigOp::Set } else { ConfigOp::Delete };
                let value = next(100).to_string();
                let _ = cluster.alter(of_topic(&of), &[("retention.ms", op, Some(&value))]);
            }
            _ => {
                let again = RegisterBroker {
                    incarnation: Uuid(random.to_be_bytes()),
                    after_crash: next(2) == 0,
                    ..broker(1 + i32::try_from(next(3)).expect("small"))
                };
                cluster.come(again);
            }
        }
    }
    assert!(cluster.controller.image().topic_count() > 0);
}

#[test]
fn a_cordoned_broker_gets_nothing_new_until_it_is_forgotten() {
    let mut cluster = Cluster::of(&[1, 2, 3]);
    let cordon = |cluster: &mut Cluster, id: i32, dirs: Option<&str>| {
        let op = if dirs.is_some() { ConfigOp::Set } else { ConfigOp::Delete };
        cluster.alter(ConfigResource::Broker(BrokerId(id)), &[("cordoned.log.dirs", op, dirs)])
    };
    cluster.create_one(topic("before", 2, 2)).expect("three are alive");
    cordon(&mut cluster, 3, Some("*")).expect("it is legal");
    assert!(cordon(&mut cluster, 3, Some("/a")).is_err(), "all directories, or none");
    cluster.create_one(topic("after", 6, -1)).expect("two are left");
    cluster.grow("before", 8).expect("two are left");
    let on_third = |cluster: &Cluster, name: &str| {
        let topic = cluster.controller.image().topic(name).expect("it is there");
        topic.partitions().iter().filter(|partition| partition.replicas.contains(&BrokerId(3))).count()
    };
    assert_eq!(on_third(&cluster, "after"), 0);
    let after = cluster.controller.image().topic("after").expect("it is there");
    assert!(after.partitions().iter().all(|partition| partition.replicas.len() == 2), "two count");
    assert!(on_third(&cluster, "before") <= 2, "what was there stays, and nothing came");
    let refused = cluster.create_one(topic("three", 1, 3)).expect_err("two are left");
    assert!(refused.to_string().contains("cordoned"), "{refused}");
    let refused = cluster.create_one(assigned("named", &[(0, &[3, 1])])).expect_err("it is named");
    assert_eq!(refused.code(), ErrorCode::InvalidReplicaAssignment);
    let moved =
        Reassignment { topic: "after".into(), partition: PartitionIndex(0), replicas: Some(ids(&[3, 1])) };
    let command = AlterReassignments { partitions: vec![moved], allow_replication_factor_change: true };
    match cluster.run(Command::AlterReassignments(command)) {
        Ok((Reply::AlterReassignments(outcomes), _)) => {
            assert_eq!(
                outcomes[0].as_ref().expect_err("it is new").code(),
                ErrorCode::InvalidReplicaAssignment
            );
        }
        other => panic!("{other:?}"),
    }
    cluster.run(Command::UnregisterBroker(UnregisterBroker { id: BrokerId(3) })).expect("it is known");
    assert!(cluster.configs(&ConfigResource::Broker(BrokerId(3))).is_empty());
    cluster.come(broker(3));
    cluster.create_one(topic("again", 1, 3)).expect("another with its number is not meant");
    cordon(&mut cluster, 3, Some("*")).expect("it is legal");
    cordon(&mut cluster, 3, None).expect("it is legal");
    cluster.create_one(topic("back", 1, 3)).expect("it takes some again");
}
