//! The admin: questions and commands in, one result for each thing they are about.
//!
//! ```text
//!   begin ── Call: items ──▶ whom to ask ──▶ one request for each broker ──▶ answers
//!              ▲                 │ nobody knows: Metadata                      │
//!              └── again, after a wait ◀── refused for now, no answer ─────────┤
//!   take ◀── Effect::Done ◀── every item has its result, or time is over ◀─────┘
//! ```
//!
//! What can be asked is an [`Ask`], a file each. A call is one of them with its items: topics, partitions,
//! resources, brokers. Each item is routed, tried again and settled on its own.
//!
//! A command whose answer is lost is said again, as Kafka's admin does: whether it was carried out nobody
//! knows. So when the last word about an item is an error, it says whether what was asked for may have been
//! done all the same.
//!
//! **Invariant:** a call ends at its deadline at the latest, with exactly one result for each item.

mod ask; // start here
mod call;
mod coordinators;
mod resource;
mod silence; // of brokers
mod world;

mod alter_configs;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_quorum;
mod elect_leaders;
mod find_coordinators;
mod group_offsets;
mod list_groups;
mod list_offsets;
mod reassignments;
mod record_times;
mod remove_members;
mod topics;
mod unregister_brokers;
mod update_features;
mod voters;

mod error;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use base::{Effects, Now};
use wire::ApiKey;
use wire::messages::find_coordinator::FindCoordinatorResponse;
use wire::messages::metadata::MetadataResponse;

use crate::backoff::Backoff;
use crate::chance::Chance;
use crate::cluster::Address;
use crate::link::{Answer, LinkError};
use crate::links::{Asking, ConnectionId, LinksSettings, NetEffect, Peer};

pub use alter_configs::{AlterConfigs, Alteration, ConfigChange};
pub use ask::{Ask, Each, How, Name, Refusal, Response, Route};
pub use create_partitions::{CreatePartitions, MorePartitions};
pub use create_topics::{CreateTopics, CreatedTopic, NewTopic};
pub use delete_groups::DeleteGroups;
pub use delete_records::{DeleteBefore, DeleteRecords};
pub use delete_topics::DeleteTopics;
pub use describe_cluster::{Broker, ClusterDescription, DescribeCluster};
pub use describe_configs::{ConfigSource, DescribeConfigs, Setting};
pub use describe_groups::{DescribeClassicGroups, DescribeConsumerGroups, GroupDescription, GroupMember};
pub use describe_log_dirs::{DescribeLogDirs, LogDir, ReplicaSize};
pub use describe_quorum::{DescribeQuorum, QuorumDescription, QuorumMember};
pub use elect_leaders::{ElectLeaders, Election, PartitionOf};
pub use error::{AdminError, Cause};
pub use find_coordinators::{FindCoordinators, GroupCoordinator};
pub use group_offsets::{AlterGroupOffsets, DeleteGroupOffsets, ListGroupOffsets, OffsetTo};
pub use list_groups::{ListGroups, ListedGroup};
pub use list_offsets::{At, FoundOffset, ListOffsets, OffsetOf};
pub use reassignments::{AlterReassignments, ListReassignments, OngoingReassignment, Reassignment};
pub use record_times::{Place, RecordTimes};
pub use remove_members::{MemberRef, RemoveMembers};
pub use resource::{Named, Resource};
pub use topics::{DescribeTopics, ListTopics, Partition, Topic, TopicRef};
pub use unregister_brokers::UnregisterBrokers;
pub use update_features::{FeatureChange, FeatureWay, UpdateFeatures};
pub use voters::{AddVoters, NewVoter, RemoveVoters, VoterId};

use call::{Call, Running};
use world::World;

/// The settings of an admin, with the names and meanings of Kafka's.
#[derive(Clone, Debug)]
pub struct AdminSettings {
    /// `retry.backoff.ms` and `retry.backoff.max.ms`.
    pub retry: Backoff,
    /// `metadata.max.age.ms`.
    pub metadata_age_max: Duration,
    /// How to connect.
    pub links: LinksSettings,
}

impl Default for AdminSettings {
    fn default() -> Self {
        Self {
            retry: Backoff { first: Duration::from_millis(100), max: Duration::from_secs(1) },
            metadata_age_max: Duration::from_secs(300),
            links: LinksSettings::default(),
        }
    }
}

/// One call of an admin. No other ever has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// What the results of a call are taken with.
#[derive(Debug)]
pub struct Ticket<A> {
    id: CallId,
    of: PhantomData<fn() -> A>,
}

impl<A> Ticket<A> {
    /// Which call.
    pub const fn id(&self) -> CallId {
        self.id
    }
}

/// What the admin needs done.
#[derive(Debug)]
pub enum Effect {
    /// Something with a connection.
    Net(NetEffect),
    /// The results of a call can be taken.
    Done(CallId),
}

/// What a request was about.
#[derive(Debug)]
enum Asked {
    Metadata,
    /// Who keeps these groups.
    Coordinators(Vec<Arc<str>>),
    /// These items of a call.
    Items(CallId, Vec<usize>),
}

/// Manages a cluster.
#[derive(Debug)]
pub struct Admin {
    world: World,
    calls: BTreeMap<CallId, Box<dyn Running>>,
    call_next: u64,
    /// Brokers that live elsewhere by now, and what was asked of them.
    moved: Vec<(Peer, Vec<Asked>)>,
}

impl Admin {
    /// An admin that knows nobody but these addresses.
    pub fn new(settings: AdminSettings, bootstrap: Vec<Address>, chance: Chance) -> Self {
        let world = World::new(settings, bootstrap, chance);
        Self { world, calls: BTreeMap::new(), call_next: 0, moved: Vec::new() }
    }

    /// Begins a call, which ends at `until` at the latest. An item that has the name of one before it is
    /// refused.
    pub fn begin<A: Ask>(&mut self, ask: A, items: Vec<A::Item>, until: Duration, now: Now) -> Ticket<A> {
        let id = CallId(self.call_next);
        self.call_next += 1;
        self.calls.insert(id, Box::new(Call::new(id, ask, items, (now, until))));
        Ticket { id, of: PhantomData }
    }

    /// The results of a call that is done, in the order of its items. They can be taken once.
    pub fn take<A: Ask>(&mut self, ticket: &Ticket<A>) -> Option<Vec<Result<A::Said, AdminError>>> {
        if !self.calls.get(&ticket.id)?.is_done() {
            return None;
        }
        let call = self.calls.remove(&ticket.id)?.into_any().downcast::<Call<A>>();
        Some(call.expect("a ticket says what its call asks").into_results())
    }

    /// Nobody wants the results of a call any more. What it has sent may still be carried out.
    pub fn forget(&mut self, call: CallId) {
        self.calls.remove(&call);
    }

    /// Does what can be done now: after a call was begun, and when [`Admin::deadline`] is over.
    pub fn step(&mut self, now: Now, effects: &mut Effects<Effect>) {
        for connection in self.world.links.late(now) {
            self.close_late(connection, now);
        }
        self.leave_the_silent(now);
        for (peer, unanswered) in std::mem::take(&mut self.moved) {
            self.on_unanswered(peer, unanswered, &Cause::NoAnswer, now);
        }
        for call in self.calls.values_mut() {
            call.step(&mut self.world, now);
        }
        self.keep_cluster_known(now);
        self.find_coordinators(now);
        for (&id, call) in &mut self.calls {
            if call.is_news() {
                effects.push(Effect::Done(id));
            }
        }
        for effect in self.world.net.drain() {
            effects.push(Effect::Net(effect));
        }
    }

    /// When to step it although nothing happens.
    pub fn deadline(&self, now: Now) -> Option<Duration> {
        let calls = self.calls.values().filter_map(|call| call.deadline(now)).min();
        // Without a call nothing is waited for but idle connections, which need no care.
        calls?;
        let World { links, metadata, coordinators, told_at, .. } = &self.world;
        let links = [links.deadline(now), links.ask_others_at(*told_at, now)];
        let all = [calls, metadata.deadline(now), coordinators.inquiry.deadline(now)];
        all.into_iter().chain(links).flatten().min()
    }

    /// A connection stands.
    pub fn on_connected(&mut self, connection: ConnectionId, now: Now, effects: &mut Effects<Effect>) {
        self.world.links.on_connected(connection, now, &mut self.world.net);
        self.step(now, effects);
    }

    /// A connection ended, or could not be opened; `why`, for people.
    pub fn on_closed(
        &mut self,
        connection: ConnectionId,
        why: String,
        now: Now,
        effects: &mut Effects<Effect>,
    ) {
        self.world.trouble = Some((now.elapsed, why));
        if let Some(peer) = self.world.links.peer(connection) {
            let unanswered = self.world.links.on_closed(connection, now);
            self.on_unanswered(peer, unanswered, &Cause::NoAnswer, now);
        }
        self.step(now, effects);
    }

    /// A frame came, without its size.
    pub fn on_frame(
        &mut self,
        connection: ConnectionId,
        frame: &[u8],
        now: Now,
        effects: &mut Effects<Effect>,
    ) {
        let understood = match self.world.links.on_frame(connection, frame, &mut self.world.net) {
            Ok(None) => Ok(()),
            Ok(Some((peer, answer))) => self.on_answer(peer, answer, now),
            Err(error) => Err(error),
        };
        // A broker whose answers make no sense is not asked on.
        if let Err(error) = understood {
            if let Some(peer) = self.world.links.peer(connection) {
                self.world.trouble = Some((now.elapsed, format!("{peer} cannot be understood: {error}")));
            }
            self.close_connection(connection, now);
        }
        self.step(now, effects);
    }

    fn on_answer(&mut self, peer: Peer, answer: Answer<'_, Asked>, now: Now) -> Result<(), LinkError> {
        let id = match &answer.about {
            Asked::Items(id, _) => *id,
            Asked::Coordinators(_) => return self.on_coordinators(peer, answer, now),
            Asked::Metadata => {
                let (about, said) = answer.read::<MetadataResponse<'_>>();
                return match said {
                    Ok(said) => {
                        self.on_metadata(&said, now);
                        Ok(())
                    }
                    Err(error) => {
                        self.on_unanswered(peer, vec![about], &Cause::Unreadable, now);
                        Err(error)
                    }
                };
            }
        };
        // Nobody waits for it if the call is over.
        let Some(call) = self.calls.get_mut(&id) else { return Ok(()) };
        call.on_answer(peer, answer, &mut self.world, now)
    }

    fn close_late(&mut self, connection: ConnectionId, now: Now) {
        if let Some(peer) = self.world.links.peer(connection) {
            self.world.trouble = Some((now.elapsed, format!("{peer} does not answer in time")));
        }
        self.close_connection(connection, now);
    }

    fn close_connection(&mut self, connection: ConnectionId, now: Now) {
        let Some(peer) = self.world.links.peer(connection) else { return };
        let unanswered = self.world.links.close(connection, now, &mut self.world.net);
        self.on_unanswered(peer, unanswered, &Cause::NoAnswer, now);
    }

    /// What was asked gets no answer.
    fn on_unanswered(&mut self, peer: Peer, unanswered: Vec<Asked>, cause: &Cause, now: Now) {
        // Whoever was to answer, or could not be reached, may not be the one to ask any more.
        self.world.metadata.is_wanted = true;
        for asked in unanswered {
            match asked {
                Asked::Metadata => {
                    self.world.metadata.failed(&self.world.settings.retry, now, &mut self.world.chance);
                }
                Asked::Coordinators(_) => {
                    let World { coordinators, settings, chance, .. } = &mut self.world;
                    coordinators.inquiry.failed(&settings.retry, now, chance);
                }
                Asked::Items(id, places) => {
                    let Some(call) = self.calls.get_mut(&id) else { continue };
                    call.on_lost((peer, &places), cause, &mut self.world, now);
                }
            }
        }
    }

    /// Asks who is who if something is missing or old, and somebody wants to know.
    fn keep_cluster_known(&mut self, now: Now) {
        if self.calls.values().all(|call| call.is_done()) || !self.world.metadata.is_due(now) {
            return;
        }
        let mut topics = BTreeSet::new();
        for call in self.calls.values() {
            call.topics(&mut topics);
        }
        self.world.ask_metadata(&topics, now);
    }

    /// Asks who keeps the groups that calls are about.
    fn find_coordinators(&mut self, now: Now) {
        if self.calls.values().all(|call| call.is_done()) {
            return self.world.coordinators.want_nothing();
        }
        if !self.world.coordinators.inquiry.is_due(now) {
            return;
        }
        let World { links, net, coordinators, settings, chance, .. } = &mut self.world;
        let Some(peer) = links.want_any(coordinators.inquiry.in_vain(now), now, net) else { return };
        let version = links.version(peer, ApiKey::FindCoordinator).unwrap_or(-1);
        let groups = coordinators.next(version);
        let request = coordinators::request(&groups, version);
        let about = Asked::Coordinators(groups.clone());
        let asking = Asking { version, about, fills: Vec::new(), is_answered: true };
        match links.send((peer, now), &request, asking, net) {
            Ok(()) => coordinators.inquiry.asked(Some(peer), now),
            Err(_) => coordinators.inquiry.failed(&settings.retry, now, chance),
        }
    }

    fn on_coordinators(&mut self, peer: Peer, answer: Answer<'_, Asked>, now: Now) -> Result<(), LinkError> {
        let (about, said) = answer.read::<FindCoordinatorResponse<'_>>();
        let (Asked::Coordinators(groups), Ok(said)) = (&about, &said) else {
            self.on_unanswered(peer, vec![about], &Cause::Unreadable, now);
            return said.map(|_| ());
        };
        self.world.told_at = now.elapsed;
        let World { coordinators, settings, chance, cluster, .. } = &mut self.world;
        let (refused, is_again) = coordinators.learn(groups, said, cluster);
        if is_again {
            coordinators.inquiry.failed(&settings.retry, now, chance);
        } else {
            coordinators.inquiry.settled();
            coordinators.inquiry.is_wanted = coordinators.is_any_wanted();
        }
        for call in self.calls.values_mut() {
            call.on_no_coordinator(&refused, now);
        }
        self.moved.extend(self.world.learn_brokers());
        Ok(())
    }

    fn on_metadata(&mut self, said: &MetadataResponse<'_>, now: Now) {
        let refused = self.world.learn(said, now);
        let mut is_incomplete = false;
        for call in self.calls.values_mut() {
            is_incomplete |= call.on_metadata(&refused, &self.world, now);
        }
        let World { metadata, settings, chance, .. } = &mut self.world;
        if is_incomplete {
            metadata.failed(&settings.retry, now, chance);
        } else {
            metadata.answered(now, settings.metadata_age_max);
        }
        self.moved.extend(self.world.learn_brokers());
    }
}
