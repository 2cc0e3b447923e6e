//! Whatever is asked and answered comes through JSON as it was.

use std::collections::BTreeMap;

use base::{
    BrokerId, LeaderEpoch, Offset, PartitionIndex, ProducerId, TimestampMs, TopicId, TopicName,
    TopicNameError, Uuid,
};
use metadata::settings::SettingError;
use metadata::{ConfigResource, Endpoint};
use proptest::prelude::*;

use super::*;

/// Makes one of everything, each time another.
struct Maker(u64);

impl Maker {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn is(&mut self) -> bool {
        self.below(2) == 0
    }

    fn one_of<T: Clone>(&mut self, these: &[T]) -> T {
        let at = self.below(these.len() as u64) as usize;
        these[at].clone()
    }

    fn some<T>(&mut self, make: impl Fn(&mut Self) -> T) -> Option<T> {
        self.is().then(|| make(self))
    }

    fn list<T>(&mut self, make: impl Fn(&mut Self) -> T) -> Vec<T> {
        let len = self.below(4);
        (0..len).map(|_| make(self)).collect()
    }

    fn long(&mut self) -> i64 {
        let high = self.below(1 << 31) as i64;
        self.one_of(&[-1, 0, i64::MAX, i64::MIN, high << 31])
    }

    fn int(&mut self) -> i32 {
        self.long() as i32
    }

    fn uuid(&mut self) -> Uuid {
        let bits = u128::from(self.below(u64::MAX)) << 77 | u128::from(self.below(1 << 31));
        Uuid(bits.to_be_bytes())
    }

    fn text(&mut self) -> String {
        self.one_of(&["", "a", "\"quoted\"\n\u{0}", "ä€😀", "x.y_z-9"]).to_owned()
    }

    fn name(&mut self) -> TopicName {
        TopicName::new(self.one_of(&["a", "x.y_z-9"])).expect("legal")
    }

    fn topic(&mut self) -> TopicId {
        TopicId(self.uuid())
    }

    fn partition(&mut self) -> PartitionIndex {
        PartitionIndex(self.int())
    }

    fn broker(&mut self) -> BrokerId {
        BrokerId(self.int())
    }

    fn life(&mut self) -> BrokerEpoch {
        BrokerEpoch(self.long())
    }

    fn leader_epoch(&mut self) -> LeaderEpoch {
        LeaderEpoch(self.int())
    }

    fn endpoint(&mut self) -> Endpoint {
        Endpoint { listener: self.text(), host: self.text(), port: self.int() as u16, security_protocol: 0 }
    }

    fn resource(&mut self) -> ConfigResource {
        match self.below(4) {
            0 => ConfigResource::Topic(self.name()),
            1 => ConfigResource::Broker(self.broker()),
            2 => ConfigResource::Group(self.text()),
            _ => ConfigResource::DefaultBroker,
        }
    }

    fn resources<T>(&mut self, entry: impl Fn(&mut Self) -> T) -> Vec<ResourceConfigs<T>> {
        self.list(|it| ResourceConfigs {
            resource: it.resource(),
            entries: it.list(|it| (it.text(), entry(it))),
        })
    }

    fn new_topic(&mut self) -> NewTopic {
        NewTopic {
            name: self.text(),
            partitions: self.int(),
            replication_factor: self.int() as i16,
            assignments: self.list(|it| (it.partition(), it.list(Self::broker))),
            configs: self.list(|it| (it.text(), it.some(Self::text))),
            random: u128::from_be_bytes(self.uuid().0),
        }
    }

    fn register(&mut self) -> RegisterBroker {
        RegisterBroker {
            id: self.broker(),
            incarnation: self.uuid(),
            cluster_id: self.text(),
            endpoints: self.list(Self::endpoint),
            cluster_address: self.some(Self::endpoint),
            features: self.list(|it| (it.text(), it.int() as i16, it.int() as i16)),
            rack: self.some(Self::text),
            log_dirs: self.list(Self::uuid),
            after_crash: self.is(),
            previous_epoch: self.some(Self::life),
            in_doubt: match self.below(3) {
                0 => InDoubt::Nothing,
                1 => InDoubt::Partitions(self.list(|it| (it.topic(), it.partition()))),
                _ => InDoubt::Everything,
            },
            is_voter: self.is(),
        }
    }

    fn found(&mut self) -> BTreeMap<PartitionIndex, FoundPartition> {
        let found = |it: &mut Self| FoundPartition { last_epoch: it.leader_epoch(), directory: it.uuid() };
        self.list(|it| (it.partition(), found(it))).into_iter().collect()
    }

    fn alter_partition(&mut self) -> AlterPartition {
        AlterPartition {
            topic: self.topic(),
            partition: self.partition(),
            leader_epoch: self.leader_epoch(),
            partition_epoch: self.int(),
            isr: self.list(|it| (it.broker(), it.life())),
            recovering: self.is(),
        }
    }

    fn feature_update(&mut self) -> FeatureUpdate {
        use FeatureDirection::{SafeDowngrade, UnsafeDowngrade, Upgrade};
        let direction = self.one_of(&[Upgrade, SafeDowngrade, UnsafeDowngrade]);
        FeatureUpdate { name: self.text(), level: self.int() as i16, direction }
    }

    /// Every command there is.
    fn commands(&mut self) -> Vec<Command> {
        let op = [ConfigOp::Set, ConfigOp::Delete, ConfigOp::Append, ConfigOp::Subtract];
        let key = |it: &mut Self| if it.is() { TopicKey::Name(it.text()) } else { TopicKey::Id(it.topic()) };
        let growth = |it: &mut Self| TopicGrowth {
            name: it.text(),
            count: it.int(),
            assignments: it.some(|it| it.list(|it| it.list(Self::broker))),
        };
        let reassignment = |it: &mut Self| Reassignment {
            topic: it.text(),
            partition: it.partition(),
            replicas: it.some(|it| it.list(Self::broker)),
        };
        vec![
            Command::CreateTopics(CreateTopics {
                topics: self.list(Self::new_topic),
                validate_only: self.is(),
            }),
            Command::DeleteTopics(DeleteTopics { topics: self.list(key) }),
            Command::CreatePartitions(CreatePartitions {
                topics: self.list(growth),
                validate_only: self.is(),
            }),
            Command::IncrementalAlterConfigs(IncrementalAlterConfigs {
                resources: self.resources(|it| (it.one_of(&op), it.some(Self::text))),
                validate_only: self.is(),
            }),
            Command::AlterConfigs(AlterConfigs {
                resources: self.resources(|it| it.some(Self::text)),
                validate_only: self.is(),
            }),
            Command::UpdateFeatures(UpdateFeatures {
                updates: self.list(Self::feature_update),
                validate_only: self.is(),
            }),
            Command::RegisterBroker(self.register()),
            Command::BrokerHeartbeat(BrokerHeartbeat {
                id: self.broker(),
                epoch: self.life(),
                metadata_end: Offset(self.long()),
                wants_fence: self.is(),
                wants_shutdown: self.is(),
                offline_log_dirs: self.list(Self::uuid),
            }),
            Command::BrokerSuspected(BrokerSuspected {
                suspect: self.broker(),
                epoch: self.life(),
                by: self.broker(),
            }),
            Command::UnregisterBroker(UnregisterBroker { id: self.broker() }),
            Command::AlterPartitions(AlterPartitions {
                broker: self.broker(),
                broker_epoch: self.life(),
                partitions: self.list(Self::alter_partition),
            }),
            Command::ElectLeaders(ElectLeaders {
                kind: self.one_of(&[ElectionKind::Preferred, ElectionKind::Unclean]),
                partitions: self.some(|it| it.list(|it| (it.text(), it.partition()))),
            }),
            Command::AlterReassignments(AlterReassignments {
                partitions: self.list(reassignment),
                allow_replication_factor_change: self.is(),
            }),
            Command::AllocateProducerIds(AllocateProducerIds { broker: self.broker(), epoch: self.life() }),
            Command::SkipProducerIds(SkipProducerIds {
                broker: self.broker(),
                largest: ProducerId(self.long()),
            }),
            Command::AdoptTopic(AdoptTopic {
                name: self.name(),
                id: self.topic(),
                partitions: self.found(),
                broker: self.broker(),
            }),
            Command::AssignReplicasToDirs(AssignReplicasToDirs {
                broker: self.broker(),
                epoch: self.life(),
                replicas: self.list(|it| (it.topic(), it.partition(), it.uuid())),
            }),
            Command::Quorum(QuorumCommand::Describe),
            Command::Quorum(QuorumCommand::AddVoter(NewVoter {
                id: self.broker(),
                directory: self.uuid(),
                endpoint: self.endpoint(),
            })),
            Command::Quorum(QuorumCommand::RemoveVoter { id: self.broker(), directory: self.uuid() }),
        ]
    }

    fn quorum_replica(&mut self) -> QuorumReplica {
        QuorumReplica {
            id: self.broker(),
            directory: self.uuid(),
            log_end: Offset(self.long()),
            fetched_at: self.some(|it| TimestampMs(it.long())),
            caught_up_at: self.some(|it| TimestampMs(it.long())),
            endpoint: self.some(Self::endpoint),
        }
    }

    fn quorum(&mut self) -> QuorumStatus {
        QuorumStatus {
            leader: self.broker(),
            leader_epoch: self.leader_epoch(),
            high_watermark: Offset(self.long()),
            voters: self.list(Self::quorum_replica),
            observers: self.list(Self::quorum_replica),
        }
    }

    fn error(&mut self) -> ControllerError {
        use ControllerError as Error;
        let (text, id, epoch) = (self.text(), self.broker(), self.int());
        let (current, got) = (LeaderEpoch(epoch), self.leader_epoch());
        let (expected, stale) = (self.life(), self.life());
        let name = self.text();
        let errors = [
            Error::TopicName(TopicNameError::Empty),
            Error::TopicName(TopicNameError::TooLong(text.clone())),
            Error::TopicCollision { name: name.clone(), other: text.clone() },
            Error::UnknownTopicId(self.topic()),
            Error::InconsistentTopicId { name: name.clone(), has: self.topic(), asked: self.topic() },
            Error::DeletionDisabled,
            Error::InvalidRequest(text.clone()),
            Error::Setting(SettingError::Invalid {
                name: name.clone(),
                value: text.clone(),
                why: text.clone(),
            }),
            Error::Setting(SettingError::ReadOnly(text.clone())),
            Error::UnknownBroker(id),
            Error::StaleBrokerEpoch { expected, got: stale },
            Error::NotController { active: self.some(Self::broker) },
            Error::Busy,
            Error::InconsistentClusterId { expected: name, got: text.clone() },
            Error::UnknownPartition { topic: text.clone(), partition: self.partition() },
            Error::FencedLeaderEpoch { current, got },
            Error::InvalidUpdateVersion { current: epoch, got: self.int() },
            Error::IneligibleReplica(text),
            Error::NewLeaderElected { leader: id },
            Error::DuplicateVoter(self.text()),
            Error::VoterNotFound(self.text()),
            Error::UnsupportedVersion(self.text()),
            Error::NoRoom,
        ];
        self.one_of(&errors)
    }

    fn outcomes<T>(&mut self, make: impl Fn(&mut Self) -> T) -> Outcomes<T> {
        self.list(|it| if it.is() { Ok(make(it)) } else { Err(it.error()) })
    }

    fn created(&mut self) -> TopicCreated {
        TopicCreated {
            name: self.name(),
            id: self.topic(),
            partitions: self.int(),
            replication_factor: self.int() as i16,
        }
    }

    fn altered(&mut self) -> PartitionAltered {
        PartitionAltered {
            leader: self.broker(),
            leader_epoch: self.leader_epoch(),
            isr: self.list(Self::broker),
            recovering: self.is(),
            partition_epoch: self.int(),
        }
    }

    fn elected(&mut self) -> Elected {
        let outcome = if self.is() { Ok(()) } else { Err(self.error()) };
        Elected { topic: self.text(), partition: self.partition(), outcome }
    }

    /// Every reply there is, and a refusal.
    fn replies(&mut self) -> Vec<Result<Reply, ControllerError>> {
        let heard =
            HeartbeatReply { is_caught_up: self.is(), is_fenced: self.is(), should_shut_down: self.is() };
        let replies = vec![
            Reply::CreateTopics(self.outcomes(Self::created)),
            Reply::DeleteTopics(self.outcomes(|it| TopicDeleted { name: it.name(), id: it.topic() })),
            Reply::CreatePartitions(
                self.outcomes(|it| PartitionsCreated { name: it.name(), count: it.int() }),
            ),
            Reply::IncrementalAlterConfigs(self.outcomes(|_| ())),
            Reply::AlterConfigs(self.outcomes(|_| ())),
            Reply::UpdateFeatures(self.outcomes(|_| ())),
            Reply::RegisterBroker(self.life()),
            Reply::BrokerHeartbeat(heard),
            Reply::BrokerSuspected,
            Reply::UnregisterBroker,
            Reply::AlterPartitions(self.outcomes(Self::altered)),
            Reply::ElectLeaders(self.list(Self::elected)),
            Reply::AlterReassignments(self.outcomes(|_| ())),
            Reply::AllocateProducerIds(ProducerIdBlock { first: ProducerId(self.long()), len: self.int() }),
            Reply::SkipProducerIds,
            Reply::AdoptTopic(self.created()),
            Reply::AssignReplicasToDirs,
            Reply::Quorum(QuorumReply::Describe(self.quorum())),
            Reply::Quorum(QuorumReply::AddVoter),
            Reply::Quorum(QuorumReply::RemoveVoter),
        ];
        let refused = Err(self.error());
        replies.into_iter().map(Ok).chain([refused]).collect()
    }
}

proptest! {
    #[test]
    fn commands_and_replies_come_through_json_as_they_were(seed: u64) {
        let mut maker = Maker(seed);
        for command in maker.commands() {
            let json = serde_json::to_vec(&command).expect("everything in it has a form");
            prop_assert_eq!(serde_json::from_slice::<Command>(&json).expect("it was just written"), command);
        }
        for reply in maker.replies() {
            let json = serde_json::to_vec(&reply).expect("everything in it has a form");
            let read: Result<Reply, ControllerError> = serde_json::from_slice(&json).expect("just written");
            prop_assert_eq!(read, reply);
        }
    }
}

#[test]
fn a_reply_answers_its_command_and_no_other() {
    let mut maker = Maker(7);
    let asked: Vec<Command> =
        maker.commands().into_iter().filter(|it| !matches!(it, Command::ElectLeaders(_))).collect();
    let said = maker.replies();
    let names = |text: String| text.split(['(', ' ']).next().unwrap_or_default().to_owned();
    for command in &asked {
        for reply in said.iter().flatten() {
            let is_alike = names(format!("{command:?}")) == names(format!("{reply:?}"));
            assert!(is_alike || !command.is_answered_by(reply), "{command:?} {reply:?}");
        }
    }
    let elect =
        |partitions| Command::ElectLeaders(ElectLeaders { kind: ElectionKind::Preferred, partitions });
    let elected = Reply::ElectLeaders(vec![maker.elected()]);
    assert!(elect(None).is_answered_by(&elected));
    assert!(elect(Some(vec![("t".into(), PartitionIndex(0))])).is_answered_by(&elected));
    assert!(!elect(Some(Vec::new())).is_answered_by(&elected));
    let describe = Command::Quorum(QuorumCommand::Describe);
    assert!(!describe.is_answered_by(&Reply::Quorum(QuorumReply::AddVoter)));
    assert!(describe.is_answered_by(&Reply::Quorum(QuorumReply::Describe(maker.quorum()))));
}

#[test]
fn what_a_newer_release_adds_is_passed_over_and_what_an_older_one_lacks_has_a_default() {
    let json = r#"{"BrokerHeartbeat": {"id": 1, "epoch": 2, "metadata_end": 3, "mood": "good"}}"#;
    let read: Command = serde_json::from_str(json).expect("it is a heartbeat");
    let heartbeat = BrokerHeartbeat {
        id: BrokerId(1),
        epoch: BrokerEpoch(2),
        metadata_end: Offset(3),
        wants_fence: false,
        wants_shutdown: false,
        offline_log_dirs: Vec::new(),
    };
    assert_eq!(read, Command::BrokerHeartbeat(heartbeat));
}

#[test]
fn what_cannot_be_is_refused_when_it_is_read() {
    for json in [
        r#"{"UnregisterBroker": {"id": "one"}}"#,
        r#"{"DeleteTopics": {"topics": [{"Id": "short"}]}}"#,
        r#"{"Nonsense": {}}"#,
    ] {
        assert!(serde_json::from_str::<Command>(json).is_err(), "{json}");
    }
    let id = TopicId(Uuid([1; 16]));
    let command = Command::DeleteTopics(DeleteTopics { topics: vec![TopicKey::Id(id)] });
    let json = serde_json::to_string(&command).expect("it has a form");
    assert_eq!(json, format!(r#"{{"DeleteTopics":{{"topics":[{{"Id":"{id}"}}]}}}}"#), "an id is its text");
}
