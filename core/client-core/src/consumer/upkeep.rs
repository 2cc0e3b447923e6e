//! What is asked of the cluster by the way: who leads what, and where logs begin and end.

use base::{Effects, ErrorCode, LeaderEpoch, Now, Offset, TopicPartition};
use wire::ApiKey;
use wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopic,
};
use wire::messages::metadata::MetadataResponse;

use super::position::{Part, Position};
use super::{Asked, ConsumeError, Consumer, Effect, Isolation, Start};
use crate::links::{Asking, Peer};

/// The first version of ListOffsets that says whether transactions count that are open still.
const VERSION_WITH_ISOLATION_MIN: i16 = 2;

impl Consumer {
    /// Asks for the metadata of what is assigned if something is missing or old.
    pub(super) fn keep_cluster_known(&mut self, now: Now) {
        if self.parts.is_empty() || !self.metadata.is_due(now) {
            return;
        }
        let wanted = self.parts.iter().filter(|(_, part)| !part.is_failed);
        let mut names: Vec<&str> = wanted.map(|(of, _)| of.topic.as_str()).collect();
        names.dedup();
        // Whoever reads a topic that is not there is to hear so, not to make it.
        let names = names.into_iter();
        let (in_vain, about) = (self.metadata.in_vain(now), (Asked::Metadata, now));
        match self.links.ask_about_topics(names, false, in_vain, about, &mut self.net) {
            Ok(asked) => self.metadata.asked(asked, now),
            Err(_) => self.metadata.failed(&self.settings.retry, now, &mut self.chance),
        }
    }

    pub(super) fn on_metadata(
        &mut self,
        said: &MetadataResponse<'_>,
        (now, effects): (Now, &mut Effects<Effect>),
    ) {
        let refused = self.cluster.absorb(said);
        self.told_at = now.elapsed;
        // Whatever befell a broker that cannot say it may be over the next time.
        let is_passing = |code: ErrorCode| code.is_retriable() || code == ErrorCode::UnknownServerError;
        let mut is_incomplete = refused.iter().any(|(_, code)| is_passing(*code));
        for (of, part) in &mut self.parts {
            let code = refused.iter().find(|(name, _)| **name == *of.topic.as_str()).map(|&(_, code)| code);
            if let Some(code) = code.filter(|code| !is_passing(*code) && !part.is_failed) {
                effects.push(part.fail(of, ConsumeError::Refused(code)));
            }
            let topic = self.cluster.topic(of.topic.as_str());
            let index = usize::try_from(of.partition.0).ok();
            match topic.zip(index).and_then(|(topic, index)| topic.partitions.get(index)) {
                Some(leader) => part.lead(*leader),
                None => part.leader = None,
            }
            // A leader that nobody says the address of is as good as none.
            let is_known = part.leader.is_some_and(|leader| self.cluster.brokers().contains_key(&leader));
            is_incomplete |= !is_known && !part.is_failed;
        }
        self.untold = refused;
        if is_incomplete {
            self.metadata.failed(&self.settings.retry, now, &mut self.chance);
        } else {
            self.metadata.answered(now, self.settings.metadata_age_max);
        }
        self.learn_brokers();
    }

    /// Takes over where the brokers are.
    pub(super) fn learn_brokers(&mut self) {
        let brokers = self.cluster.brokers();
        for part in self.parts.values_mut() {
            part.nearby = part.nearby.filter(|(broker, _)| brokers.contains_key(broker));
        }
        self.moved.extend(self.links.set_brokers(self.cluster.brokers(), &mut self.net));
    }

    /// Asks where partitions begin and end, for those that are to be read from there.
    pub(super) fn find_positions(&mut self, now: Now, effects: &mut Effects<Effect>) {
        let is_wanted = |part: &Part| matches!(part.position, Position::Wanted(_));
        let ready = self.ready(now, is_wanted, |part| part.leader);
        for (broker, parts) in ready {
            let peer = Peer::Broker(broker);
            self.metadata.is_wanted |= !self.links.knows(peer);
            if !self.links.want(peer, now, &mut self.net) {
                continue;
            }
            let knows_all = |&version: &i16| {
                version >= VERSION_WITH_ISOLATION_MIN || self.settings.isolation == Isolation::ReadUncommitted
            };
            let version = self.links.version(peer, ApiKey::ListOffsets).ok().filter(knows_all);
            let Some(version) = version else {
                self.refuse(&parts, ErrorCode::UnsupportedVersion, effects);
                continue;
            };
            let mut topics: Vec<ListOffsetsTopic<'_>> = Vec::new();
            let mut about = Vec::new();
            for of in &parts {
                let Some(part) = self.parts.get_mut(of) else { continue };
                let Position::Wanted(start) = part.position else { continue };
                part.position = Position::Asked(start);
                about.push((of.clone(), part.generation));
                if topics.last().is_none_or(|topic| topic.name != of.topic.as_str()) {
                    topics.push(ListOffsetsTopic { name: of.topic.as_str(), partitions: Vec::new() });
                }
                topics.last_mut().expect("one was pushed").partitions.push(ListOffsetsPartition {
                    partition_index: of.partition.0,
                    current_leader_epoch: part.leader_epoch.0,
                    timestamp: start.timestamp().expect("an offset is known already"),
                });
            }
            let request = ListOffsetsRequest {
                replica_id: -1,
                isolation_level: self.settings.isolation.code(),
                topics,
                timeout_ms: i32::try_from(self.settings.links.request_timeout.as_millis())
                    .unwrap_or(i32::MAX),
            };
            let asking =
                Asking { version, about: Asked::Offsets(about), fills: Vec::new(), is_answered: true };
            let sent = self.links.send((peer, now), &request, asking, &mut self.net);
            sent.expect("a request of names that the cluster said can be written");
        }
    }

    pub(super) fn on_offsets(
        &mut self,
        mut asked: Vec<(TopicPartition, u32)>,
        said: &ListOffsetsResponse<'_>,
        (now, effects): (Now, &mut Effects<Effect>),
    ) {
        for topic in &said.topics {
            for part in &topic.partitions {
                let is_asked = |(of, _): &(TopicPartition, u32)| {
                    of.topic.as_str() == topic.name && of.partition.0 == part.partition_index
                };
                let Some(place) = asked.iter().position(is_asked) else { continue };
                let (of, generation) = asked.swap_remove(place);
                self.on_offset(&of, generation, part, (now, effects));
            }
        }
        for (of, generation) in asked {
            self.try_again(&of, generation, now);
        }
    }

    fn on_offset(
        &mut self,
        of: &TopicPartition,
        generation: u32,
        said: &ListOffsetsPartitionResponse,
        (now, effects): (Now, &mut Effects<Effect>),
    ) {
        let Some(part) = self.parts.get_mut(of).filter(|part| part.generation == generation) else { return };
        let code = ErrorCode::from_i16(said.error_code).unwrap_or(ErrorCode::UnknownServerError);
        match code {
            ErrorCode::None if said.offset >= 0 => {
                part.failures = 0;
                part.position = Position::Known(Offset(said.offset), LeaderEpoch::NONE);
            }
            // Where a log ends, every broker knows.
            ErrorCode::None if part.position == Position::Asked(Start::Latest) => {
                self.try_again(of, generation, now);
            }
            // No record is as late as was asked for.
            ErrorCode::None => part.position = Position::Wanted(Start::Latest),
            code if code.is_retriable() || code == ErrorCode::UnknownServerError => {
                self.metadata.is_wanted = true;
                self.try_again(of, generation, now);
            }
            code => {
                effects.push(part.fail(of, ConsumeError::Refused(code)));
            }
        }
    }
}
