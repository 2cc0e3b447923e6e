//! A controller with a quorum that commits when it is told to, and brokers that say what they are told to.

use std::collections::VecDeque;
use std::time::Duration;

use base::{
    BrokerEpoch, BrokerId, Effects, LeaderEpoch, Now, Offset, PartitionIndex, TimestampMs, TopicId, Uuid,
};
use metadata::{Delta, Endpoint, Image, MetadataRecord, Partition};

use super::super::*;

/// Checks what holds after every batch: invariants I18, I19 and I20.
fn check(before: &Image, after: &Image) {
    for topic in after.topics() {
        for partition in topic.partitions() {
            check_partition(partition);
            if let Some(was) = before.partition(topic.id, partition.index) {
                check_change(was, partition);
            }
        }
    }
}

fn check_partition(partition: &Partition) {
    let Partition { leader, isr, replicas, directories, .. } = partition;
    assert!(*leader == BrokerId::NONE || isr.contains(leader), "the leader is in sync: {partition:?}");
    assert!(isr.iter().all(|id| replicas.contains(id)), "who is in sync has it: {partition:?}");
    assert!(partition.eligible().iter().all(|id| replicas.contains(id)), "{partition:?}");
    assert!(partition.eligible().iter().all(|id| !isr.contains(id)), "{partition:?}");
    assert!(partition.adding().iter().chain(partition.removing()).all(|id| replicas.contains(id)));
    assert_eq!(replicas.len(), directories.len());
    let mut once = replicas.to_vec();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), replicas.len(), "each replica once: {partition:?}");
}

fn check_change(was: &Partition, is: &Partition) {
    assert!(is.leader_epoch >= was.leader_epoch && is.partition_epoch >= was.partition_epoch);
    assert_eq!(was == is, was.partition_epoch == is.partition_epoch, "{was:?} -> {is:?}");
    if is.leader != was.leader {
        assert!(is.leader_epoch > was.leader_epoch, "one leader an epoch: {was:?} -> {is:?}");
    }
    let is_elected = is.leader != was.leader && is.leader != BrokerId::NONE;
    if is_elected && !is.recovering {
        let is_eligible = was.eligible().contains(&is.leader) && *is.isr == [is.leader];
        // The leader before said that it has all of it, and handed over at once.
        let was_handed_over = is.isr.contains(&was.leader) || is.replicas != was.replicas;
        let came_in_the_same_batch = is.partition_epoch > was.partition_epoch + 1;
        let had_all = was.isr.contains(&is.leader) || is_eligible;
        let is_in_order = had_all || was_handed_over || came_in_the_same_batch;
        assert!(is_in_order, "{was:?} -> {is:?}");
    }
}

/// The time, the controller of one node, and what its quorum has not committed yet.
pub(super) struct Stage {
    pub(super) controller: Controller,
    pub(super) now: Now,
    pub(super) epoch: LeaderEpoch,
    pub(super) proposed: VecDeque<Proposal>,
    /// All that was committed, and where each batch ended.
    pub(super) log: Vec<MetadataRecord>,
    pub(super) answers: Vec<(CommandId, Result<Reply, ControllerError>, Offset)>,
    pub(super) deltas: Vec<Delta>,
    pub(super) is_slow: bool,
    next: u64,
}

pub(super) fn settings() -> ControllerSettings {
    ControllerSettings { node_id: BrokerId(1), balance_interval: None, ..ControllerSettings::default() }
}

impl Stage {
    pub(super) fn new(settings: ControllerSettings) -> Self {
        let mut stage = Self {
            controller: Controller::new(settings),
            now: Now::new(Duration::from_secs(1), TimestampMs(1_000)),
            epoch: LeaderEpoch(1),
            proposed: VecDeque::new(),
            log: Vec::new(),
            answers: Vec::new(),
            deltas: Vec::new(),
            is_slow: false,
            next: 0,
        };
        stage.tell(QuorumEvent::Elected { epoch: LeaderEpoch(1) });
        stage
    }

    /// A cluster of these brokers, all ready.
    pub(super) fn with(ids: &[i32]) -> Self {
        let mut stage = Self::new(settings());
        ids.iter().for_each(|&id| stage.come(&registration(id)));
        stage
    }

    pub(super) fn image(&self) -> &Image {
        self.controller.image()
    }

    pub(super) fn tell(&mut self, event: QuorumEvent) {
        let mut out = Effects::new();
        self.controller.on_event(self.now, event, &mut out);
        self.perform(out);
    }

    pub(super) fn tick(&mut self) {
        let mut out = Effects::new();
        self.controller.on_tick(self.now, &mut out);
        self.perform(out);
    }

    fn perform(&mut self, mut out: Effects<Effect>) {
        for effect in out.drain() {
            match effect {
                Effect::Propose(proposal) => self.proposed.push_back(proposal),
                Effect::Answer { id, result, end } => self.answers.push((id, result, end)),
                Effect::Changed(delta) => self.deltas.push(delta),
                Effect::Silent { .. } => {}
            }
        }
        while !self.is_slow && self.commit_one() {}
    }

    /// Commits the batch that was proposed first, and checks the cluster after it.
    pub(super) fn commit_one(&mut self) -> bool {
        let Some(Proposal { epoch, records }) = self.proposed.pop_front() else { return false };
        let before = self.image().clone();
        self.log.extend(records.iter().cloned());
        let end = Offset(i64::try_from(self.log.len()).expect("few"));
        self.tell(QuorumEvent::Committed(Committed { epoch, records, end }));
        check(&before, self.image());
        true
    }

    pub(super) fn give(&mut self, command: Command) -> CommandId {
        self.next += 1;
        let id = CommandId(self.next);
        let mut out = Effects::new();
        self.controller.on_command(self.now, id, &command, &mut out);
        self.perform(out);
        id
    }

    pub(super) fn run(&mut self, command: Command) -> Result<Reply, ControllerError> {
        let id = self.give(command);
        let at = self.answers.iter().position(|(answered, ..)| *answered == id).expect("it is answered");
        self.answers.remove(at).1
    }

    /// A broker begins a life, and is ready.
    pub(super) fn come(&mut self, registration: &RegisterBroker) {
        self.run(Command::RegisterBroker(registration.clone())).expect("it may");
        let heard = self.hear(registration.id.0);
        assert!(heard.is_caught_up && !heard.is_fenced, "{heard:?}");
    }

    pub(super) fn epoch_of(&self, id: i32) -> BrokerEpoch {
        self.image().broker(BrokerId(id)).expect("it is registered").epoch
    }

    pub(super) fn heartbeat(&self, id: i32) -> BrokerHeartbeat {
        BrokerHeartbeat {
            id: BrokerId(id),
            epoch: self.epoch_of(id),
            metadata_end: self.image().end(),
            wants_fence: false,
            wants_shutdown: false,
            offline_log_dirs: Vec::new(),
        }
    }

    pub(super) fn beat(&mut self, heartbeat: BrokerHeartbeat) -> HeartbeatReply {
        match self.run(Command::BrokerHeartbeat(heartbeat)) {
            Ok(Reply::BrokerHeartbeat(heard)) => heard,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn hear(&mut self, id: i32) -> HeartbeatReply {
        self.beat(self.heartbeat(id))
    }

    /// Lets time pass in which these brokers are heard, and nobody else.
    pub(super) fn pass(&mut self, time: Duration, heard: &[i32]) {
        let step = Duration::from_millis(100);
        let until = self.now.elapsed + time;
        while self.now.elapsed < until {
            self.now.elapsed += step;
            for &id in heard {
                self.hear(id);
            }
            self.tick();
        }
    }

    /// As [`Stage::pass`], while the quorum commits nothing.
    pub(super) fn pass_slowly(&mut self, time: Duration, heard: &[i32]) {
        let until = self.now.elapsed + time;
        while self.now.elapsed < until {
            self.now.elapsed += Duration::from_millis(100);
            for &id in heard {
                self.give(Command::BrokerHeartbeat(self.heartbeat(id)));
            }
            self.tick();
        }
    }

    /// Brokers die: the others take over.
    pub(super) fn die(&mut self, dead: &[i32]) {
        let alive: Vec<i32> = self.image().brokers_alive().map(|broker| broker.id.0).collect();
        let heard: Vec<i32> = alive.into_iter().filter(|id| !dead.contains(id)).collect();
        self.pass(Duration::from_millis(2_500), &heard);
    }

    pub(super) fn topic(&mut self, name: &str, assignments: &[&[i32]], min_insync: &str) -> TopicId {
        let ids = |brokers: &&[i32]| brokers.iter().map(|&id| BrokerId(id)).collect();
        let topic = NewTopic {
            name: name.into(),
            partitions: -1,
            replication_factor: -1,
            assignments: (0..).map(PartitionIndex).zip(assignments.iter().map(ids)).collect(),
            configs: vec![("min.insync.replicas".into(), Some(min_insync.into()))],
            random: name.bytes().fold(7u128, |sum, c| sum.wrapping_mul(1_000_003) ^ u128::from(c)),
        };
        let command = CreateTopics { topics: vec![topic], validate_only: false };
        match self.run(Command::CreateTopics(command)) {
            Ok(Reply::CreateTopics(made)) => made[0].as_ref().expect("it is legal").id,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn set(&mut self, topic: &str, name: &str, value: &str) {
        let resource = metadata::ConfigResource::Topic(base::TopicName::new(topic).expect("legal"));
        let entries = vec![(name.to_owned(), (ConfigOp::Set, Some(value.to_owned())))];
        let resources = vec![ResourceConfigs { resource, entries }];
        let command = IncrementalAlterConfigs { resources, validate_only: false };
        let reply = self.run(Command::IncrementalAlterConfigs(command)).expect("it runs");
        assert_eq!(reply, Reply::IncrementalAlterConfigs(vec![Ok(())]));
    }

    pub(super) fn partition(&self, topic: &str, index: i32) -> &Partition {
        let topic = self.image().topic(topic).expect("it is there");
        topic.partition(PartitionIndex(index)).expect("it is there")
    }

    /// A partition in a line: leader, epoch, who is in sync, who is eligible, who led last.
    pub(super) fn line(&self, topic: &str, index: i32) -> String {
        let partition = self.partition(topic, index);
        let list = |ids: &[BrokerId]| ids.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(",");
        let mut line = match partition.leader {
            BrokerId::NONE => "nobody".to_owned(),
            leader => format!("{leader}"),
        };
        line += &format!("@{} isr={}", partition.leader_epoch, list(&partition.isr));
        let more = [
            (" elr=", partition.eligible()),
            (" last=", partition.last_known_eligible()),
            (" adding=", partition.adding()),
            (" removing=", partition.removing()),
        ];
        for (name, ids) in more.into_iter().filter(|(_, ids)| !ids.is_empty()) {
            line += name;
            line += &list(ids);
        }
        line + if partition.recovering { " recovering" } else { "" }
    }

    /// Unclean elections since this was asked last: whose partition, who led, who leads, since which epoch, and
    /// whether it was only that one led last.
    pub(super) fn take_unclean(&mut self) -> Vec<(TopicId, i32, i32, i32, bool)> {
        let told = self.deltas.iter_mut().flat_map(|delta| std::mem::take(&mut delta.unclean_elections));
        told.map(|it| (it.topic, it.before.0, it.leader.0, it.epoch.0, it.is_last_known)).collect()
    }

    /// The leader says who is in sync.
    pub(super) fn alter(
        &mut self,
        topic: &str,
        index: i32,
        isr: &[i32],
    ) -> Result<PartitionAltered, ControllerError> {
        let asked = self.alteration(topic, index, isr);
        let leader = self.partition(topic, index).leader;
        self.alter_as(leader.0, asked)
    }

    pub(super) fn alteration(&self, topic: &str, index: i32, isr: &[i32]) -> AlterPartition {
        let partition = self.partition(topic, index);
        AlterPartition {
            topic: self.image().topic(topic).expect("it is there").id,
            partition: partition.index,
            leader_epoch: partition.leader_epoch,
            partition_epoch: partition.partition_epoch,
            isr: isr.iter().map(|&id| (BrokerId(id), self.epoch_of(id))).collect(),
            recovering: false,
        }
    }

    pub(super) fn alter_as(
        &mut self,
        leader: i32,
        asked: AlterPartition,
    ) -> Result<PartitionAltered, ControllerError> {
        let command = AlterPartitions {
            broker: BrokerId(leader),
            broker_epoch: self.epoch_of(leader),
            partitions: vec![asked],
        };
        match self.run(Command::AlterPartitions(command))? {
            Reply::AlterPartitions(mut altered) => altered.pop().expect("one was asked for"),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn elect(
        &mut self,
        kind: ElectionKind,
        topic: &str,
        index: i32,
    ) -> Result<(), ControllerError> {
        let partitions = Some(vec![(topic.to_owned(), PartitionIndex(index))]);
        match self.run(Command::ElectLeaders(ElectLeaders { kind, partitions }))? {
            Reply::ElectLeaders(mut elected) => elected.pop().expect("one was asked for").outcome,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn reassign(
        &mut self,
        topic: &str,
        index: i32,
        to: Option<&[i32]>,
    ) -> Result<(), ControllerError> {
        let replicas = to.map(|ids| ids.iter().map(|&id| BrokerId(id)).collect());
        let asked = Reassignment { topic: topic.to_owned(), partition: PartitionIndex(index), replicas };
        let command = AlterReassignments { partitions: vec![asked], allow_replication_factor_change: true };
        match self.run(Command::AlterReassignments(command))? {
            Reply::AlterReassignments(mut outcomes) => outcomes.pop().expect("one was asked for"),
            other => panic!("{other:?}"),
        }
    }
}

pub(super) fn registration(id: i32) -> RegisterBroker {
    let at = |listener: &str| Endpoint {
        listener: listener.into(),
        host: "localhost".into(),
        port: 9092,
        security_protocol: 0,
    };
    RegisterBroker {
        id: BrokerId(id),
        incarnation: Uuid([id.unsigned_abs() as u8; 16]),
        cluster_id: String::new(),
        endpoints: vec![at("PLAINTEXT")],
        cluster_address: Some(at(Endpoint::CLUSTER)),
        features: Vec::new(),
        rack: None,
        log_dirs: vec![directory(id)],
        after_crash: false,
        previous_epoch: None,
        in_doubt: InDoubt::Nothing,
        is_voter: true,
    }
}

/// The one log directory of a broker.
pub(super) fn directory(id: i32) -> Uuid {
    Uuid([0x80 | id.unsigned_abs() as u8; 16])
}

/// The broker comes back as another process.
pub(super) fn again(id: i32, life: u8) -> RegisterBroker {
    RegisterBroker { incarnation: Uuid([life; 16]), ..registration(id) }
}

/// It was killed, and cannot vouch for what it had.
pub(super) fn after_power_cut(id: i32, life: u8) -> RegisterBroker {
    RegisterBroker { after_crash: true, in_doubt: InDoubt::Everything, ..again(id, life) }
}
