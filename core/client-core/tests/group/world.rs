//! Members, two brokers, and a clock that goes from one event to the next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::{Effects, LeaderEpoch, Now, Offset, TimestampMs, TopicName, TopicPartition};
use vltava_client_core::group::{
    Effect, GroupError, GroupSettings, Membership, OffsetAndMetadata, Pattern, RevocationId, Subscription,
};
use vltava_client_core::{Address, Chance, ConnectionId, NetEffect};

use super::coordinator::Coordinator;

/// One member and its owner.
pub(crate) struct One {
    pub(crate) membership: Membership,
    effects: Effects<Effect>,
    /// What the owner was told it may read, and has not given back.
    pub(crate) owned: BTreeSet<TopicPartition>,
    /// What the owner was told, in words.
    pub(crate) told: Vec<String>,
    pub(crate) failed: Option<GroupError>,
    /// How long the owner takes to give something back; `None`: it never does.
    pub(crate) gives_back_after_ms: Option<u64>,
    /// Where a connection leads, by its host.
    pub(crate) open: BTreeMap<ConnectionId, Arc<str>>,
    /// What it was told to give back, and may be about to.
    revoking: Option<RevocationId>,
    /// Whether it hears at once of what it lost.
    pub(crate) hears_of_losses: bool,
    /// It was killed: nothing of it moves any more.
    pub(crate) is_dead: bool,
}

pub(crate) enum Event {
    Connected(ConnectionId),
    Closed(ConnectionId),
    /// A request arrives at a broker.
    Request(ConnectionId, Vec<u8>),
    Answer(ConnectionId, Vec<u8>),
    GiveBack(RevocationId, BTreeSet<TopicPartition>),
}

pub(crate) struct World {
    pub(crate) all: Vec<One>,
    pub(crate) brokers: Coordinator,
    /// Which broker keeps the group.
    pub(crate) keeper: i32,
    pub(crate) down: BTreeSet<&'static str>,
    /// Where connections stand, and nothing is answered.
    pub(crate) hung: BTreeSet<&'static str>,
    /// How often a broker said who keeps the group.
    pub(crate) found: usize,
    pub(crate) now_ms: u64,
    queue: BTreeMap<(u64, u64), (usize, Event)>,
    order: u64,
    pub(crate) chance: Chance,
    /// Each way takes up to so long.
    pub(crate) delay_ms_max: u64,
    /// Requests of this kind take nine tenths of a second.
    pub(crate) slow: Option<wire::ApiKey>,
    /// One of so many requests breaks its connection instead of arriving; 0: none.
    pub(crate) lost_one_in: u64,
    /// When what was sent on a connection last arrives.
    last: BTreeMap<(usize, ConnectionId), u64>,
    /// A broker answers one request of a connection after the other: what waits behind one.
    busy: BTreeMap<(usize, ConnectionId), VecDeque<Vec<u8>>>,
}

impl World {
    pub(crate) fn new(speaks_epochs: bool, seed: u64) -> Self {
        Self {
            all: Vec::new(),
            brokers: Coordinator::new(speaks_epochs),
            keeper: 1,
            down: BTreeSet::new(),
            hung: BTreeSet::new(),
            found: 0,
            now_ms: 1_000,
            queue: BTreeMap::new(),
            order: 0,
            chance: Chance::new(seed),
            delay_ms_max: 0,
            slow: None,
            lost_one_in: 0,
            last: BTreeMap::new(),
            busy: BTreeMap::new(),
        }
    }

    /// One more member; it wants nothing yet.
    pub(crate) fn add(&mut self, settings: GroupSettings) -> usize {
        let bootstrap = ["one", "two"].map(|host| Address { host: host.into(), port: 1 });
        let chance = Chance::new(self.chance.next_u64());
        self.all.push(One {
            membership: Membership::new(settings, bootstrap.to_vec(), chance),
            effects: Effects::new(),
            owned: BTreeSet::new(),
            told: Vec::new(),
            failed: None,
            gives_back_after_ms: Some(0),
            open: BTreeMap::new(),
            revoking: None,
            hears_of_losses: true,
            is_dead: false,
        });
        self.all.len() - 1
    }

    /// One more member, that wants these topics and waits for records.
    pub(crate) fn join(&mut self, settings: GroupSettings, topics: &[&str]) -> usize {
        let who = self.add(settings);
        self.subscribe(who, topics);
        let now = self.now();
        self.all[who].membership.on_waiting(now);
        who
    }

    pub(crate) fn subscribe(&mut self, who: usize, topics: &[&str]) {
        let topics = topics.iter().map(|name| TopicName::new(name).expect("legal"));
        let now = self.now();
        self.all[who].membership.subscribe(Subscription::Topics(topics.collect()), now);
    }

    pub(crate) fn subscribe_pattern(&mut self, who: usize, pattern: &str) {
        let now = self.now();
        let pattern = Pattern::new(pattern).expect("it is one");
        self.all[who].membership.subscribe(Subscription::Pattern(pattern), now);
        self.all[who].membership.on_waiting(now);
    }

    pub(crate) fn now(&self) -> Now {
        Now::new(Duration::from_millis(self.now_ms), TimestampMs(0))
    }

    /// What an owner reads, in words.
    pub(crate) fn owned(&self, who: usize) -> String {
        let all: Vec<String> = self.all[who].owned.iter().map(ToString::to_string).collect();
        all.join(" ")
    }

    /// What an owner was told since this was asked last.
    pub(crate) fn told(&mut self, who: usize) -> Vec<String> {
        std::mem::take(&mut self.all[who].told)
    }

    pub(crate) fn kill(&mut self, who: usize) {
        self.all[who].is_dead = true;
        self.all[who].owned.clear();
    }

    /// The owner has read so far, of all that it reads.
    pub(crate) fn read(&mut self, who: usize, upto: i64) {
        let One { membership, owned, .. } = &mut self.all[who];
        for of in owned.iter() {
            let leader_epoch = LeaderEpoch(5);
            membership.on_read(of, OffsetAndMetadata { leader_epoch, ..OffsetAndMetadata::at(Offset(upto)) });
        }
    }

    /// The group moves to the other broker, which knows all that was decided.
    pub(crate) fn move_group(&mut self) {
        self.keeper = 3 - self.keeper;
        self.brokers.classic.forget_waiting();
    }

    /// A broker stops, and its connections break.
    pub(crate) fn stop(&mut self, host: &'static str) {
        self.down.insert(host);
        for who in 0..self.all.len() {
            let broken = self.all[who].open.iter().filter(|(_, to)| &***to == host);
            let broken: Vec<ConnectionId> = broken.map(|(id, _)| *id).collect();
            for connection in broken {
                self.break_off(who, connection);
            }
        }
    }

    /// The connections of a member to a broker.
    pub(crate) fn connections(&self, who: usize, host: &str) -> Vec<ConnectionId> {
        self.all[who].open.iter().filter(|(_, to)| &***to == host).map(|(id, _)| *id).collect()
    }

    /// Connections of a member on which such a request is about to arrive.
    pub(crate) fn on_their_way(&self, who: usize, key: wire::ApiKey) -> Vec<ConnectionId> {
        let key = key.code().to_be_bytes();
        let requests = self.queue.values().filter_map(|(whose, event)| match event {
            Event::Request(connection, frame) if *whose == who && frame.starts_with(&key) => {
                Some(*connection)
            }
            _ => None,
        });
        requests.collect()
    }

    /// Goes on until such a request of a member is about to arrive.
    pub(crate) fn run_until_asked(&mut self, who: usize, key: wire::ApiKey) {
        let came = (0..20_000).any(|_| {
            let is_asked = !self.on_their_way(who, key).is_empty();
            if !is_asked {
                self.run(1);
            }
            is_asked
        });
        assert!(came, "{key:?} is not asked in twenty seconds");
    }

    pub(crate) fn break_off(&mut self, who: usize, connection: ConnectionId) {
        self.all[who].open.remove(&connection);
        self.queue.retain(|_, (whose, event)| {
            let of = match event {
                Event::Request(of, _) | Event::Answer(of, _) => Some(*of),
                Event::Connected(_) | Event::Closed(_) | Event::GiveBack(..) => None,
            };
            *whose != who || of != Some(connection)
        });
        self.put(who, 0, Event::Closed(connection));
    }

    /// A request was answered: the next of its connection is served.
    pub(crate) fn serve_next(&mut self, who: usize, connection: ConnectionId) {
        let mut waiting = self.busy.remove(&(who, connection)).unwrap_or_default();
        if let Some(frame) = waiting.pop_front() {
            self.busy.insert((who, connection), waiting);
            self.serve(who, connection, &frame);
        }
    }

    fn put(&mut self, who: usize, after_ms: u64, event: Event) {
        self.order += 1;
        self.queue.insert((self.now_ms + after_ms, self.order), (who, event));
    }

    /// On its way, behind what was sent before on the same connection.
    pub(crate) fn put_in_order(&mut self, who: usize, connection: ConnectionId, event: Event) {
        let delay = self.chance.below(self.delay_ms_max + 1);
        let last = self.last.entry((who, connection)).or_default();
        *last = (*last).max(self.now_ms + delay);
        let after = *last - self.now_ms;
        self.put(who, after, event);
    }

    pub(crate) fn run(&mut self, for_ms: u64) {
        let end = self.now_ms + for_ms;
        loop {
            self.settle();
            let due = self.all.iter().filter(|one| !one.is_dead);
            let due = due.filter_map(|one| one.membership.deadline(self.now()));
            let due = due.min().map(|at| (at.as_micros() as u64).div_ceil(1_000).max(self.now_ms + 1));
            let queued = self.queue.keys().next().map(|&(at, _)| at);
            // The coordinator looks at its clock, too.
            let tick = Some(self.now_ms + 1_000);
            let next = [due, queued, tick].into_iter().flatten().min().unwrap_or(end);
            if next > end {
                break;
            }
            self.now_ms = self.now_ms.max(next);
            while let Some((&(at, order), _)) = self.queue.iter().next()
                && at <= self.now_ms
            {
                let (who, event) = self.queue.remove(&(at, order)).expect("it was seen");
                self.happen(who, event);
            }
            self.keep_group();
            if next == end && self.queue.keys().next().is_none_or(|&(at, _)| at > end) {
                break;
            }
        }
        self.now_ms = end;
        self.settle();
    }

    fn happen(&mut self, who: usize, event: Event) {
        let now = self.now();
        let one = &mut self.all[who];
        if one.is_dead {
            return;
        }
        match event {
            Event::Connected(id) => one.membership.on_connected(id, now, &mut one.effects),
            Event::Closed(id) => one.membership.on_closed(id, now, &mut one.effects),
            Event::Answer(id, frame) => one.membership.on_frame(id, &frame, now, &mut one.effects),
            // It was lost, and may be its own again.
            Event::GiveBack(id, _) if one.revoking != Some(id) => {}
            Event::GiveBack(id, partitions) => {
                one.revoking = None;
                one.owned.retain(|of| !partitions.contains(of));
                one.membership.release(id, BTreeMap::new(), now);
            }
            Event::Request(id, frame) => match self.busy.get_mut(&(who, id)) {
                Some(waiting) => waiting.push_back(frame),
                None => {
                    self.busy.insert((who, id), VecDeque::new());
                    self.serve(who, id, &frame);
                }
            },
        }
        self.settle();
    }

    /// Members do what they have to, and those who own them what they are told.
    fn settle(&mut self) {
        let now = self.now();
        for who in 0..self.all.len() {
            let one = &mut self.all[who];
            if one.is_dead {
                continue;
            }
            one.membership.step(now, &mut one.effects);
            let effects: Vec<Effect> = one.effects.drain().collect();
            effects.into_iter().for_each(|effect| self.perform(who, effect));
        }
    }

    fn perform(&mut self, who: usize, effect: Effect) {
        match effect {
            Effect::Net(NetEffect::Connect { connection, address }) => {
                assert!(connection >= Membership::CONNECTIONS_FROM);
                if self.down.contains(&&*address.host) {
                    return self.put(who, 1, Event::Closed(connection));
                }
                self.all[who].open.insert(connection, address.host);
                self.put_in_order(who, connection, Event::Connected(connection));
            }
            Effect::Net(NetEffect::Close { connection }) => {
                self.all[who].open.remove(&connection);
            }
            Effect::Net(NetEffect::Send { connection, outgoing }) => {
                let host = self.all[who].open.get(&connection);
                if host.is_some_and(|host| self.hung.contains(&**host)) {
                    return;
                }
                if self.lost_one_in > 0 && self.chance.below(self.lost_one_in) == 0 {
                    return self.break_off(who, connection);
                }
                let frame = outgoing.frame.bytes[4..].to_vec();
                if self.slow.is_some_and(|key| frame.starts_with(&key.code().to_be_bytes())) {
                    return self.put(who, 900, Event::Request(connection, frame));
                }
                self.put_in_order(who, connection, Event::Request(connection, frame));
            }
            Effect::Assigned(found) => self.on_assigned(who, found),
            Effect::Revoking { id, partitions } => {
                self.all[who].told.push(format!("revoke {}", words(partitions.iter())));
                self.all[who].revoking = Some(id);
                if let Some(after) = self.all[who].gives_back_after_ms {
                    let more = self.chance.below(self.delay_ms_max + 1);
                    self.put(who, after + more, Event::GiveBack(id, partitions));
                }
            }
            Effect::Lost(partitions) => {
                let one = &mut self.all[who];
                one.told.push(format!("lost {}", words(partitions.iter())));
                one.owned.retain(|of| !partitions.contains(of));
                assert!(one.owned.is_empty(), "all is lost at once");
                one.revoking = None;
                if one.hears_of_losses {
                    one.membership.on_loss_heard(&partitions);
                }
                self.brokers.fenced.remove(&who);
            }
            Effect::Committed { result, .. } => {
                self.all[who].told.push(match result {
                    Ok(()) => "committed".to_owned(),
                    Err(error) => format!("not committed: {error:?}"),
                });
            }
            Effect::Fetched { result, .. } => {
                let found = result.map(|all| all.into_values().map(|it| it.map(|it| it.offset.0)).collect());
                let found: Result<Vec<_>, GroupError> = found;
                self.all[who].told.push(format!("found {found:?}"));
            }
            Effect::Failed(error) => self.all[who].failed = Some(error),
        }
    }

    fn on_assigned(&mut self, who: usize, found: BTreeMap<TopicPartition, Option<OffsetAndMetadata>>) {
        let from = |(of, at): (&TopicPartition, &Option<OffsetAndMetadata>)| match at {
            Some(at) => format!("{of}@{}", at.offset.0),
            None => of.to_string(),
        };
        let said: Vec<String> = found.iter().map(from).collect();
        self.all[who].told.push(format!("assign {}", said.join(" ")));
        for of in found.into_keys() {
            for (other, one) in self.all.iter().enumerate() {
                let is_others = other != who && !one.is_dead && one.owned.contains(&of);
                let is_known = !self.brokers.fenced.contains(&other) && !self.brokers.fenced.contains(&who);
                assert!(!is_others || !is_known, "{of} is read by {other} and by {who} at {}", self.now_ms);
            }
            assert!(self.all[who].owned.insert(of.clone()), "{of} was given twice");
        }
    }

    /// What the coordinator does by itself, and the answers that became due.
    pub(crate) fn keep_group(&mut self) {
        self.brokers.classic.on_time(self.now_ms);
        self.brokers.epochs.on_time(self.now_ms);
        self.assign_epochs();
        let thrown_out = [&mut self.brokers.classic.thrown_out, &mut self.brokers.epochs.thrown_out];
        for who in thrown_out.into_iter().flat_map(std::mem::take) {
            self.brokers.fenced.insert(who);
        }
        for (reply, due) in std::mem::take(&mut self.brokers.classic.due) {
            if let Some(said) = due.joined() {
                self.answer(reply, &said);
            }
            if let Some(said) = due.synced() {
                self.answer(reply, &said);
            }
        }
    }
}

fn words<'a>(parts: impl Iterator<Item = &'a TopicPartition>) -> String {
    parts.map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
