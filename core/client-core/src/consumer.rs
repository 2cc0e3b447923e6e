//! The consumer: which partitions, from where, and what the brokers send of them.
//!
//! ```text
//!   assign, seek ──▶ position ──unknown──▶ ListOffsets ──▶ known ──▶ Fetch ──▶ chunks, lent in order
//!                                                            ▲          │
//!                                                            └── next ──┘
//! ```
//!
//! Each broker has one fetch on its way, for all partitions that are read from it, in a fetch session (KIP-227):
//! a request names only what changed. The next leaves as soon as the answer is in, while its records are
//! being read, as long as what nobody has read yet stays within its bound. A partition is read from its leader, or
//! from a replica nearby if the leader says so (KIP-392).
//!
//! Which partitions are read is said from outside: by the user, or by a group, whose member has its place
//! beside this machine ([`group`](crate::group)) and tells it as the user does.
//!
//! **Invariant:** chunks of a partition come in the order of its log, without gap or overlap, from the
//! position that was asked for; after a seek nothing comes from where it was before.

mod chunk; // what is lent
mod fetch; // what is asked, and what came back
mod position;
mod session;
mod silence; // of brokers
mod upkeep; // metadata, offsets

mod error;
mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, Effects, ErrorCode, LeaderEpoch, Map, Now, Offset, TopicPartition};

use crate::chance::Chance;
use crate::cluster::{Address, Cluster};
use crate::inquiry::Inquiry;
use crate::links::{ConnectionId, Links, NetEffect, Peer};

pub use chunk::{Chunk, LentBatch, LentRecords};
pub use error::ConsumeError;
pub use position::Start;
pub use settings::{ConsumerSettings, Isolation, Reset};

use position::{Part, Position};
use session::Session;

/// What the consumer needs done.
#[derive(Debug)]
pub enum Effect {
    /// Something with a connection.
    Net(NetEffect),
    /// Records came.
    Chunk(Chunk),
    /// A partition cannot be read on until it is assigned or sought anew.
    Failed {
        /// Which.
        of: TopicPartition,
        /// Which assignment or seek of it this is about.
        generation: u32,
        /// Why.
        error: ConsumeError,
    },
}

/// What a request was about.
#[derive(Debug)]
enum Asked {
    Metadata,
    /// Offsets of these partitions, each with the generation that asked.
    Offsets(Vec<(TopicPartition, u32)>),
    Fetch,
}

/// Reads partitions of a cluster.
#[derive(Debug)]
pub struct Consumer {
    settings: ConsumerSettings,
    links: Links<Asked>,
    net: Effects<NetEffect>,
    cluster: Cluster,
    chance: Chance,
    parts: BTreeMap<TopicPartition, Part>,
    sessions: BTreeMap<BrokerId, Session>,
    metadata: Inquiry,
    /// When the cluster last said anything of topics, and of which of them it could not tell.
    told_at: Duration,
    untold: Vec<(Arc<str>, ErrorCode)>,
    /// Bytes of chunks that were handed out and not read.
    unread_bytes: usize,
    /// When a partition may be tried again.
    retry_at: Option<Duration>,
    /// Brokers that live elsewhere by now, and what was asked of them.
    moved: Vec<(Peer, Vec<Asked>)>,
    generation_next: u32,
}

impl Consumer {
    /// A consumer that reads nothing yet and knows nobody but these addresses.
    pub fn new(settings: ConsumerSettings, bootstrap: Vec<Address>, mut chance: Chance) -> Self {
        let links = Links::new(settings.links.clone(), bootstrap, Chance::new(chance.next_u64()));
        Self {
            settings,
            links,
            net: Effects::new(),
            cluster: Cluster::default(),
            chance,
            parts: BTreeMap::new(),
            sessions: BTreeMap::new(),
            metadata: Inquiry::default(),
            told_at: Duration::ZERO,
            untold: Vec::new(),
            unread_bytes: 0,
            retry_at: None,
            moved: Vec::new(),
            generation_next: 0,
        }
    }

    /// Reads exactly these partitions from now on; one that it reads already goes on where it is, unless it
    /// failed. Of a partition that is named twice, the first counts.
    pub fn assign(&mut self, wanted: impl IntoIterator<Item = (TopicPartition, Start)>) {
        let mut parts = BTreeMap::new();
        for (of, start) in wanted {
            if parts.contains_key(&of) {
                continue;
            }
            let known = self.parts.remove(&of).filter(|part| !part.is_failed);
            let part = known.unwrap_or_else(|| self.part(&of, start));
            parts.insert(of, part);
        }
        self.parts = parts;
    }

    /// Reads a partition, too, beside what it reads already: from where it was committed, or as the settings
    /// say if it was not. The error tells that they do not; then it waits for a seek.
    pub fn take(
        &mut self,
        of: &TopicPartition,
        committed: Option<(Offset, LeaderEpoch)>,
    ) -> Result<(), (u32, ConsumeError)> {
        let mut part = self.part(of, Start::Earliest);
        let mut result = Ok(());
        match committed {
            Some((offset, epoch)) => part.position = Position::Known(offset, epoch),
            None if part.reset(self.settings.reset) => {}
            None => {
                part.is_failed = true;
                result = Err((part.generation, ConsumeError::NoOffset));
            }
        }
        self.parts.insert(of.clone(), part);
        result
    }

    /// Reads a partition no more.
    pub fn give_up(&mut self, of: &TopicPartition) {
        self.parts.remove(of);
    }

    /// What is read.
    pub fn assigned(&self) -> impl Iterator<Item = &TopicPartition> {
        self.parts.keys()
    }

    /// Goes on with a partition from elsewhere. Whether it is assigned.
    pub fn seek(&mut self, of: &TopicPartition, start: Start) -> bool {
        if !self.parts.contains_key(of) {
            return false;
        }
        let is_paused = self.parts.get(of).is_some_and(|part| part.is_paused);
        let part = Part { is_paused, ..self.part(of, start) };
        self.parts.insert(of.clone(), part);
        true
    }

    /// The reader cannot go on with a chunk: nothing of its partition is read before it is sought or
    /// assigned anew, also not what was fetched already and lies behind.
    pub fn fail(&mut self, chunk: &Chunk) {
        if !self.is_current(chunk.of(), chunk.generation()) {
            return;
        }
        let generation = self.generation();
        let Some(part) = self.parts.get_mut(chunk.of()) else { return };
        part.generation = generation;
        part.is_failed = true;
        part.position = chunk.position(part.topic_id);
    }

    /// Goes on with a partition where a chunk of it was not lent any further: behind the batch that it went
    /// to, or within it. What lies there comes again. Unlike after [`Consumer::seek`] it is known what was read before, so that a log that was cut
    /// meanwhile is found out.
    pub fn go_back(&mut self, chunk: &Chunk, to: Offset) {
        if !self.is_current(chunk.of(), chunk.generation()) {
            return;
        }
        let generation = self.generation();
        let Some(part) = self.parts.get_mut(chunk.of()) else { return };
        part.generation = generation;
        part.position = chunk.position(part.topic_id).at(to);
        // What failed behind it fails again when it is read up to there.
        part.is_failed = false;
    }

    fn generation(&mut self) -> u32 {
        self.generation_next = self.generation_next.wrapping_add(1);
        self.generation_next
    }

    fn part(&mut self, of: &TopicPartition, start: Start) -> Part {
        let mut part = Part::new(start, self.generation());
        match self.leader_of(of) {
            Some(leader) => part.lead(leader),
            None => self.metadata.is_wanted = true,
        }
        part
    }

    fn leader_of(&self, of: &TopicPartition) -> Option<crate::cluster::Leader> {
        let topic = self.cluster.topic(of.topic.as_str())?;
        topic.partitions.get(usize::try_from(of.partition.0).ok()?).copied()
    }

    /// Whether a partition is not asked for, though it stays assigned.
    pub fn set_paused(&mut self, of: &TopicPartition, is_paused: bool) -> bool {
        self.parts.get_mut(of).map(|part| part.is_paused = is_paused).is_some()
    }

    /// Where the next record of a partition is fetched from, if that is known yet.
    pub fn position(&self, of: &TopicPartition) -> Option<Offset> {
        self.parts.get(of)?.position.known()
    }

    /// [`Consumer::position`], and who led when what lies before it was written, as far as that is known.
    pub fn position_and_epoch(&self, of: &TopicPartition) -> Option<(Offset, LeaderEpoch)> {
        match self.parts.get(of)?.position {
            Position::Known(offset, epoch) => Some((offset, epoch)),
            Position::Wanted(_) | Position::Asked(_) => None,
        }
    }

    /// Whether a chunk or a failure is of what is read now: not of before a seek, nor of a partition that was
    /// taken away.
    pub fn is_current(&self, of: &TopicPartition, generation: u32) -> bool {
        self.parts.get(of).is_some_and(|part| part.generation == generation)
    }

    /// Why nothing comes of a partition that is read, for people; `None` if nothing is known to be in the
    /// way.
    pub fn trouble(&self) -> Option<String> {
        let parts = self.parts.iter().filter(|(_, part)| !part.is_failed && !part.is_paused);
        parts.into_iter().find_map(|(of, part)| {
            let led_by = part.leader.map(Peer::Broker).filter(|&leader| self.links.knows(leader));
            if let Some(leader) = led_by {
                return self.links.why_lost(leader).map(|why| why.as_ref().to_owned());
            }
            // What went wrong before the cluster answered is mended.
            if let Some((_, why)) = self.links.trouble(None, self.told_at) {
                return Some(why.as_ref().to_owned());
            }
            let untold = self.untold.iter().find(|(name, _)| **name == *of.topic.as_str());
            match untold {
                Some((name, code)) => Some(format!("the cluster says {} of topic {name}", code.name())),
                None if self.told_at > Duration::ZERO => Some(format!("{of} has no leader")),
                None => None,
            }
        })
    }

    /// So many bytes of chunks were read or dropped.
    pub fn on_read(&mut self, bytes: usize) {
        self.unread_bytes = self.unread_bytes.saturating_sub(bytes);
    }

    /// Bytes of chunks that were handed out and not read.
    pub const fn unread_bytes(&self) -> usize {
        self.unread_bytes
    }

    /// Does what can be done now: after a change, and when [`Consumer::deadline`] is over.
    pub fn step(&mut self, now: Now, effects: &mut Effects<Effect>) {
        for connection in self.links.late(now) {
            self.links.on_late(connection, now);
            self.close_connection(connection, now);
        }
        self.leave_the_silent(now);
        for (peer, unanswered) in std::mem::take(&mut self.moved) {
            self.on_unanswered(Some(peer), unanswered, now);
        }
        self.retry_at = None;
        self.find_positions(now, effects);
        self.fetch_all(now, effects);
        self.keep_cluster_known(now);
        for effect in self.net.drain() {
            effects.push(Effect::Net(effect));
        }
    }

    /// When to step it although nothing happens.
    pub fn deadline(&self, now: Now) -> Option<Duration> {
        let silence = self.links.ask_others_at(self.told_at, now);
        let all = [self.retry_at, self.links.deadline(now), self.metadata.deadline(now), silence];
        all.into_iter().flatten().min()
    }

    /// A connection stands.
    pub fn on_connected(&mut self, connection: ConnectionId, now: Now, effects: &mut Effects<Effect>) {
        self.links.on_connected(connection, now, &mut self.net);
        self.step(now, effects);
    }

    /// Why a connection ended, or could not be opened; for people. [`Consumer::on_closed`] follows.
    pub fn on_trouble(&mut self, connection: ConnectionId, why: &str, now: Now) {
        self.links.on_trouble(connection, why, now);
    }

    /// A connection ended, or could not be opened.
    pub fn on_closed(&mut self, connection: ConnectionId, now: Now, effects: &mut Effects<Effect>) {
        let peer = self.links.peer(connection);
        let unanswered = self.links.on_closed(connection, now);
        self.on_unanswered(peer, unanswered, now);
        self.step(now, effects);
    }

    /// A frame came, without its size.
    pub fn on_frame(
        &mut self,
        connection: ConnectionId,
        frame: &Arc<Vec<u8>>,
        now: Now,
        effects: &mut Effects<Effect>,
    ) {
        match self.links.on_frame(connection, frame, &mut self.net) {
            Ok(None) => {}
            Ok(Some((peer, answer))) => self.on_answer((connection, peer), answer, frame, (now, effects)),
            Err(error) => {
                self.links.on_trouble(connection, &format!("an answer cannot be understood: {error}"), now);
                self.close_connection(connection, now);
            }
        }
        self.step(now, effects);
    }

    fn close_connection(&mut self, connection: ConnectionId, now: Now) {
        let peer = self.links.peer(connection);
        let unanswered = self.links.close(connection, now, &mut self.net);
        self.on_unanswered(peer, unanswered, now);
    }

    /// What was asked gets no answer.
    fn on_unanswered(&mut self, peer: Option<Peer>, unanswered: Vec<Asked>, now: Now) {
        if let Some(Peer::Broker(id)) = peer {
            // Its session ended with the connection.
            self.sessions.remove(&id);
            // Who is near and cannot be reached, or is too slow, is not waited for: leaders are asked again.
            let until = now.elapsed + self.settings.metadata_age_max;
            let parts = self.parts.values_mut().filter(|part| part.is_nearby(id));
            parts.for_each(|part| part.leave_nearby(until));
        }
        // Whoever cannot be reached may not lead any more, whether or not anything was asked of it.
        self.metadata.is_wanted |= !self.parts.is_empty();
        for asked in unanswered {
            match asked {
                Asked::Metadata => self.metadata.failed(&self.settings.retry, now, &mut self.chance),
                Asked::Fetch => {}
                Asked::Offsets(parts) => {
                    for (of, generation) in parts {
                        self.try_again(&of, generation, now);
                    }
                }
            }
        }
    }

    /// A partition is asked for again after a while.
    fn try_again(&mut self, of: &TopicPartition, generation: u32, now: Now) {
        let Some(part) = self.parts.get_mut(of).filter(|part| part.generation == generation) else { return };
        part.failures = part.failures.saturating_add(1);
        part.retry_at = now.elapsed + self.settings.retry.after(part.failures, &mut self.chance);
        if let Position::Asked(start) = part.position {
            part.position = Position::Wanted(start);
        }
    }

    /// These partitions cannot be asked for at all.
    fn refuse(&mut self, parts: &[TopicPartition], code: ErrorCode, effects: &mut Effects<Effect>) {
        for of in parts {
            if let Some(part) = self.parts.get_mut(of) {
                effects.push(part.fail(of, ConsumeError::Refused(code)));
            }
        }
    }

    /// Partitions that are wanted and may be asked for now, by who is to be asked, as `whom` says if that is known.
    /// What waits is noted.
    fn ready(
        &mut self,
        now: Now,
        is_wanted: impl Fn(&Part) -> bool,
        whom: impl Fn(&mut Part) -> Option<BrokerId>,
    ) -> Map<BrokerId, Vec<TopicPartition>> {
        let mut ready: Map<BrokerId, Vec<TopicPartition>> = Map::default();
        for (of, part) in &mut self.parts {
            if part.is_failed || !is_wanted(part) {
                continue;
            }
            let Some(broker) = whom(part) else {
                self.metadata.is_wanted = true;
                continue;
            };
            if part.retry_at > now.elapsed {
                self.retry_at = Some(self.retry_at.map_or(part.retry_at, |at| at.min(part.retry_at)));
                continue;
            }
            ready.entry(broker).or_default().push(of.clone());
        }
        ready
    }
}
