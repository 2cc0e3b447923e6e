//! A group, its log, its members' clients, a cluster and a clock.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use base::{BrokerId, ErrorCode, Now, Offset, PartitionIndex, TimestampMs, TopicId, TopicName, Uuid};
use metadata::{Broker, Image, MetadataRecord, NewPartition, NewTopic};
use wire::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatRequestTopicPartitions,
};

use super::super::*;
use crate::assign::Partitions;

pub(super) const GROUP: &str = "g";

/// A consumer, as a client plays it.
#[derive(Debug, Clone, Default)]
pub(super) struct Client {
    pub(super) epoch: i32,
    pub(super) instance: Option<String>,
    pub(super) rack: Option<String>,
    pub(super) topics: Vec<String>,
    pub(super) regex: Option<String>,
    /// What it was told to have.
    pub(super) assigned: Partitions,
    /// What it has: it gives back what it should not have when it likes to.
    pub(super) owned: Partitions,
    /// What it last said that it has.
    pub(super) said: Option<Partitions>,
    /// The last answer was lost: it says everything.
    pub(super) unsure: bool,
}

#[derive(Debug)]
pub(super) struct Stage {
    pub(super) group: ConsumerGroup,
    pub(super) image: Image,
    pub(super) now: Duration,
    pub(super) settings: ConsumerGroupSettings,
    pub(super) clients: BTreeMap<String, Client>,
    /// What was written, as bytes.
    pub(super) log: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// The same, to be read.
    pub(super) written: Vec<ConsumerGroupRecord>,
    pub(super) downgraded: Option<ClassicGroup>,
    random: u128,
}

pub(super) fn topic_id(number: u128) -> TopicId {
    TopicId(Uuid(number.to_be_bytes()))
}

impl Stage {
    /// Three brokers in racks a, b and c, and these topics with that many partitions.
    pub(super) fn with(topics: &[(&str, i32)]) -> Self {
        let broker = |(id, rack): (i32, &str)| {
            MetadataRecord::RegisterBroker(Broker {
                id: BrokerId(id),
                epoch: base::BrokerEpoch(1),
                incarnation: Uuid::ZERO,
                endpoints: Vec::new(),
                features: Vec::new(),
                rack: Some(rack.to_owned()),
                fenced: false,
                in_controlled_shutdown: false,
                log_dirs: Vec::new(),
            })
        };
        let records: Vec<MetadataRecord> = [(0, "a"), (1, "b"), (2, "c")].map(broker).into();
        let mut stage = Self {
            group: ConsumerGroup::new(GROUP),
            image: Image::default().after(&records, Offset(1)).0,
            now: Duration::from_secs(1000),
            settings: ConsumerGroupSettings { assignment_interval: Duration::ZERO, ..Default::default() },
            clients: BTreeMap::new(),
            log: Vec::new(),
            written: Vec::new(),
            downgraded: None,
            random: 0,
        };
        for (name, partitions) in topics {
            stage.create(name, *partitions);
        }
        stage
    }

    /// A topic, or more partitions of it; each has one replica, on one broker after the other.
    pub(super) fn create(&mut self, name: &str, partitions: i32) {
        let known = self.image.topic(name).cloned();
        let id = known
            .as_ref()
            .map_or_else(|| topic_id(self.image.end().0.unsigned_abs().into()), |topic| topic.id);
        let name = TopicName::new(name).expect("legal");
        let mut records = Vec::new();
        if known.is_none() {
            records.push(MetadataRecord::Topic(NewTopic { name, id }));
        }
        let first = known.map_or(0, |topic| i32::try_from(topic.partitions().len()).expect("few"));
        for index in first..partitions {
            let replicas = vec![BrokerId(index % 3)];
            let partition = NewPartition::first(id, PartitionIndex(index), replicas.clone(), replicas);
            records.push(MetadataRecord::Partition(partition));
        }
        self.change(&records);
    }

    pub(super) fn delete(&mut self, name: &str) {
        let id = self.image.topic(name).expect("it is there").id;
        self.change(&[MetadataRecord::RemoveTopic(id)]);
    }

    fn change(&mut self, records: &[MetadataRecord]) {
        self.image = self.image.after(records, Offset(self.image.end().0 + 1)).0;
    }

    pub(super) fn now(&self) -> Now {
        let wall = i64::try_from(self.now.as_millis()).expect("soon");
        Now::new(self.now, TimestampMs(wall))
    }

    /// A client that wants these topics; it has not joined yet.
    pub(super) fn client(&mut self, name: &str, topics: &[&str]) -> &mut Client {
        let topics = topics.iter().map(ToString::to_string).collect();
        self.clients.insert(name.to_owned(), Client { topics, ..Client::default() });
        self.clients.get_mut(name).expect("it is there")
    }

    /// A client that wants these topics joins.
    pub(super) fn join(&mut self, name: &str, topics: &[&str]) -> String {
        self.client(name, topics);
        self.beat(name)
    }

    /// A client that gives back at once what it should not have is heard, and hears the answer.
    pub(super) fn beat(&mut self, name: &str) -> String {
        let client = self.clients.get_mut(name).expect("a client");
        client.owned = client.assigned.clone();
        self.slow_beat(name)
    }

    /// The same of a client that gives nothing back.
    pub(super) fn slow_beat(&mut self, name: &str) -> String {
        match self.send(name) {
            Ok(reply) => {
                let client = self.clients.get_mut(name).expect("a client");
                client.epoch = reply.member_epoch;
                client.unsure = false;
                if let Some(assigned) = reply.assignment {
                    for (topic, of) in &assigned {
                        client.owned.entry(*topic).or_default().extend(of);
                    }
                    client.assigned = assigned;
                }
                self.seen(name)
            }
            Err(error) => {
                let client = self.clients.get_mut(name).expect("a client");
                if matches!(
                    error.code(),
                    ErrorCode::FencedMemberEpoch | ErrorCode::UnknownMemberId | ErrorCode::GroupIdNotFound
                ) {
                    // It abandons all that it has, and joins again the next time.
                    *client = Client {
                        instance: client.instance.take(),
                        rack: client.rack.take(),
                        topics: std::mem::take(&mut client.topics),
                        regex: client.regex.take(),
                        ..Client::default()
                    };
                }
                error.code().name().to_owned()
            }
        }
    }

    /// The answer to a client is lost.
    pub(super) fn lost_beat(&mut self, name: &str) {
        let client = self.clients.get_mut(name).expect("a client");
        client.owned = client.assigned.clone();
        drop(self.send(name));
        self.clients.get_mut(name).expect("a client").unsure = true;
    }

    /// A client leaves for good, or for a while.
    pub(super) fn leave(&mut self, name: &str, epoch: i32) -> Result<(), ConsumerGroupError> {
        let client = self.clients.remove(name).expect("a client");
        let request = ConsumerGroupHeartbeatRequest {
            group_id: GROUP,
            member_id: name,
            member_epoch: epoch,
            instance_id: client.instance.as_deref(),
            ..Default::default()
        };
        self.request(&request).map(|_| ())
    }

    /// What a client sends next; whatever did not change it leaves out.
    fn send(&mut self, name: &str) -> Result<HeartbeatReply, ConsumerGroupError> {
        let client = self.clients.get_mut(name).expect("a client");
        let says_all = client.epoch == 0 || client.unsure;
        let says_owned = says_all || client.said.as_ref() != Some(&client.owned);
        if client.epoch == 0 {
            client.owned = Partitions::new();
            client.assigned = Partitions::new();
        }
        client.said = Some(client.owned.clone());
        let client = client.clone();
        let owned = client.owned.iter().map(|(id, of)| ConsumerGroupHeartbeatRequestTopicPartitions {
            topic_id: id.0,
            partitions: of.iter().map(|index| index.0).collect(),
        });
        let request = ConsumerGroupHeartbeatRequest {
            group_id: GROUP,
            member_id: name,
            member_epoch: client.epoch,
            instance_id: client.instance.as_deref(),
            rack_id: client.rack.as_deref().filter(|_| says_all),
            rebalance_timeout_ms: if says_all { 10_000 } else { -1 },
            subscribed_topic_names: says_all.then(|| client.topics.iter().map(String::as_str).collect()),
            subscribed_topic_regex: client.regex.as_deref().filter(|_| says_all),
            server_assignor: None,
            topic_partitions: says_owned.then(|| owned.collect()),
        };
        self.request(&request).map(|decision| decision.reply)
    }

    /// Any request, handled, written and replayed.
    pub(super) fn request(
        &mut self,
        request: &ConsumerGroupHeartbeatRequest<'_>,
    ) -> Result<Decision, ConsumerGroupError> {
        self.random += 1;
        let caller = Caller { version: 1, client_id: "client", client_host: "/host", random: self.random };
        let context = Context { now: self.now(), image: &self.image, settings: &self.settings };
        let decision = self.group.heartbeat(request, &caller, &context)?;
        self.append(&decision.records);
        self.downgraded = decision.downgrade.clone();
        Ok(decision)
    }

    /// Writes records and takes them in, from their bytes.
    pub(super) fn append(&mut self, records: &[ConsumerGroupRecord]) {
        for record in records {
            let (key, value) = record.encode(GROUP).expect("short names");
            let read = ConsumerGroupRecord::decode(&key, value.as_deref()).expect("well-formed");
            assert_eq!(read, Some((GROUP.to_owned(), record.clone())), "what is written is what is read");
            self.group.replay(record);
            self.log.push((key, value));
            self.written.push(record.clone());
        }
    }

    /// Time passes; whatever becomes due happens when it is due.
    pub(super) fn wait(&mut self, ms: u64) -> Vec<Fenced> {
        let end = self.now + Duration::from_millis(ms);
        let mut fenced = Vec::new();
        while let Some(due) = self.group.deadline(&self.settings).filter(|due| *due <= end) {
            self.now = self.now.max(due);
            let context = Context { now: self.now(), image: &self.image, settings: &self.settings };
            let ticked = self.group.on_tick(&context);
            assert!(
                self.group.deadline(&self.settings) != Some(due) || !ticked.records.is_empty(),
                "it goes on"
            );
            self.append(&ticked.records);
            self.downgraded = ticked.downgrade.or(self.downgraded.take());
            fenced.extend(ticked.fenced);
        }
        self.now = end;
        fenced
    }

    /// All clients are heard until nothing is written any more.
    pub(super) fn settle(&mut self) -> String {
        for _ in 0..50 {
            let written = self.written.len();
            for name in self.clients.keys().cloned().collect::<Vec<_>>() {
                self.beat(&name);
            }
            self.wait(1000);
            let state = &self.group.state;
            let is_quiet = written == self.written.len() && state.group_epoch == state.target_epoch;
            if is_quiet && self.clients.values().all(|client| client.epoch > 0) {
                return self.shown();
            }
        }
        panic!("it does not settle: {}", self.shown());
    }

    /// The coordinator moves: another one reads the log.
    pub(super) fn reload(&mut self) {
        let mut group = ConsumerGroup::new(GROUP);
        for (key, value) in &self.log {
            let record = ConsumerGroupRecord::decode(key, value.as_deref()).expect("well-formed");
            group.replay(&record.expect("one of ours").1);
        }
        assert_eq!(group.state, self.group.state, "the records are the state");
        group.on_loaded(self.now(), &self.settings);
        self.group = group;
    }

    /// What a client sees: its epoch and what it has.
    pub(super) fn seen(&self, name: &str) -> String {
        let client = &self.clients[name];
        format!("{name}@{}{}", client.epoch, self.partitions(&client.owned, " "))
    }

    /// The group: how it is, its epoch and the one of its targets, and each member with its epoch, what it has, what it
    /// has to give back, and `…` if it waits for others.
    pub(super) fn shown(&self) -> String {
        let state = &self.group.state;
        let mut text = format!("{} {}/{}", self.group.state().name(), state.group_epoch, state.target_epoch);
        for (id, member) in &state.members {
            let current = &member.current;
            let assigned = self.partitions(&member::partitions_of(&current.assigned), " ");
            let revoking = self.partitions(&member::partitions_of(&current.revoking), " -");
            let waits = if current.state == MemberState::UnreleasedPartitions { " …" } else { "" };
            write!(text, " | {id}@{}{assigned}{revoking}{waits}", current.epoch).expect("a string");
        }
        text
    }

    pub(super) fn partitions(&self, partitions: &Partitions, before: &str) -> String {
        let of = partitions.iter().filter(|(_, of)| !of.is_empty()).map(|(id, of)| {
            let name =
                self.image.topic_by_id(*id).map_or_else(|| "gone".to_owned(), |it| it.name.to_string());
            let indexes: Vec<String> = of.iter().map(|index| index.0.to_string()).collect();
            format!("{before}{name}[{}]", indexes.join(","))
        });
        of.collect()
    }
}
