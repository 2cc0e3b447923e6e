//! Many members on one thread: each is the member that a consumer of ours is, without what it would read.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use base::{Effects, Now, TimestampMs, TopicName};
use client_core::group::{Effect, GroupSettings, Membership, Subscription};
use client_core::{Address, Chance, ConnectionId, NetEffect};

use super::owners::{MemberId, Owners};
use super::setup::{Setup, Shared};
use super::wires::{Heard, WireId, Wires};
use super::{LOOK_EVERY, resolve};

/// The members, by their places.
pub(super) struct Crowd {
    since: Instant,
    wires: Wires,
    members: Vec<Option<Member>>,
    /// Whose connection it is.
    whose: BTreeMap<WireId, (MemberId, ConnectionId)>,
    /// When each is to be stepped although nothing happens.
    due: BTreeSet<(Duration, MemberId)>,
    owners: Shared<Owners>,
    heard: Vec<Heard>,
}

struct Member {
    membership: Membership,
    wires: BTreeMap<ConnectionId, WireId>,
    due: Option<Duration>,
    /// It is not stepped before this.
    not_before: Duration,
}

impl Crowd {
    /// So many members of nothing yet. They are the same each time.
    pub(super) fn new(setup: &Setup<'_>, count: usize, owners: Shared<Owners>) -> Result<Self> {
        let Some((host, port)) = setup.broker.rsplit_once(':') else {
            bail!("{} is no address", setup.broker)
        };
        let bootstrap = Address { host: host.into(), port: port.parse()? };
        let settings = GroupSettings {
            protocol: setup.protocol.group_protocol(),
            assignors: setup.protocol.assignors(),
            session_timeout: setup.session,
            heartbeat_interval: setup.heartbeat_interval(),
            ..GroupSettings::new(setup.group)
        };
        let member = |place: usize| {
            let chance = Chance::new(place as u64);
            let membership = Membership::new(settings.clone(), vec![bootstrap.clone()], chance);
            Some(Member { membership, wires: BTreeMap::new(), due: None, not_before: Duration::ZERO })
        };
        Ok(Self {
            since: Instant::now(),
            wires: Wires::new()?,
            members: (0..count).map(member).collect(),
            whose: BTreeMap::new(),
            due: BTreeSet::new(),
            owners,
            heard: Vec::new(),
        })
    }

    /// All of them want to read this.
    pub(super) fn subscribe(&mut self, topic: &str) -> Result<()> {
        let topics: BTreeSet<TopicName> = [TopicName::new(topic)?].into();
        for place in 0..self.members.len() {
            let subscription = Subscription::Topics(topics.clone());
            self.touch(place, |membership, now, effects| {
                membership.subscribe(subscription, now);
                // As one that has nothing to do but to wait for records.
                membership.on_waiting(now);
                membership.step(now, effects);
            })?;
        }
        Ok(())
    }

    /// From now on the heartbeats of all are spread over so much time, as those of members that did not join
    /// at once are: else all hear of a change either at the moment of it or a whole interval later.
    pub(super) fn spread(&mut self, over: Duration) -> Result<()> {
        let count = u32::try_from(self.members.len())?;
        for (place, number) in (0..count).enumerate() {
            let now = self.now().elapsed;
            if let Some(member) = &mut self.members[place] {
                member.not_before = member.due.unwrap_or(now) + over * number / count;
            }
            self.touch(place, |_, _, _| {})?;
        }
        Ok(())
    }

    /// One is gone, and says nothing.
    pub(super) fn crash(&mut self, place: MemberId) {
        let Some(member) = self.members[place].take() else { return };
        for wire in member.wires.into_values() {
            self.whose.remove(&wire);
            self.wires.close(wire);
        }
        if let Some(due) = member.due {
            self.due.remove(&(due, place));
        }
        self.owners.lock().forget(place);
    }

    /// All leave in good order; those that have not within this time are left alone.
    pub(super) fn leave(&mut self, time_max: Duration) -> Result<()> {
        let until = Instant::now() + time_max;
        for place in 0..self.members.len() {
            self.owners.lock().forget(place);
            self.touch(place, |membership, now, effects| {
                membership.unsubscribe(now);
                membership.step(now, effects);
            })?;
        }
        while Instant::now() < until {
            self.turn()?;
            if self.members.iter().flatten().all(|member| member.membership.has_left()) {
                break;
            }
        }
        Ok(())
    }

    /// Lets things happen until this is so, and says when it was; an error if it takes longer, or if a partition
    /// has two owners meanwhile.
    pub(super) fn until(
        &mut self,
        what: &str,
        time_max: Duration,
        mut is_so: impl FnMut(&Owners) -> Result<bool>,
    ) -> Result<Instant> {
        let until = Instant::now() + time_max;
        loop {
            {
                let owners = self.owners.lock();
                if let Some(wrong) = owners.wrong() {
                    bail!("{wrong}");
                }
                if is_so(&owners)? {
                    return Ok(Instant::now());
                }
                if Instant::now() > until {
                    let trouble = self.members.iter().flatten().find_map(|it| it.membership.trouble());
                    bail!("{what}: not within {} s; {}; {trouble:?}", time_max.as_secs(), owners.words());
                }
            }
            self.turn()?;
        }
    }

    /// Lets things happen for so long.
    pub(super) fn rest(&mut self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        self.until("resting", time * 2, |_| Ok(Instant::now() >= until)).map(drop)
    }

    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now::new(self.since.elapsed(), TimestampMs(i64::try_from(wall.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Waits for what happens next, and does what follows from it.
    fn turn(&mut self) -> Result<()> {
        let now = self.now().elapsed;
        let first = self.due.first().map_or(LOOK_EVERY, |(due, _)| due.saturating_sub(now));
        self.wires.wait(first.min(LOOK_EVERY), &mut self.heard)?;
        for heard in std::mem::take(&mut self.heard) {
            let (id, frame) = match heard {
                Heard::Connected(id) => (id, None),
                Heard::Frame(id, frame) => (id, Some(frame)),
                Heard::Closed(id) => {
                    let Some((place, connection)) = self.whose.remove(&id) else { continue };
                    self.touch(place, |membership, now, effects| {
                        membership.on_closed(connection, now, effects)
                    })?;
                    continue;
                }
            };
            let Some(&(place, connection)) = self.whose.get(&id) else { continue };
            self.touch(place, |membership, now, effects| match &frame {
                None => membership.on_connected(connection, now, effects),
                Some(frame) => membership.on_frame(connection, frame, now, effects),
            })?;
        }
        let now = self.now().elapsed;
        let due: Vec<MemberId> = self.due.range(..=(now, MemberId::MAX)).map(|(_, place)| *place).collect();
        for place in due {
            self.touch(place, Membership::step)?;
        }
        Ok(())
    }

    /// Something happened to one of them.
    fn touch(
        &mut self,
        place: MemberId,
        event: impl FnOnce(&mut Membership, Now, &mut Effects<Effect>),
    ) -> Result<()> {
        let now = self.now();
        let Some(mut member) = self.members[place].take() else { return Ok(()) };
        let mut effects = Effects::new();
        event(&mut member.membership, now, &mut effects);
        while !effects.is_empty() {
            let all: Vec<Effect> = effects.drain().collect();
            for effect in all {
                self.perform(place, &mut member, effect, now, &mut effects)?;
            }
        }
        let due = member.membership.deadline(now).map(|due| due.max(member.not_before));
        if due != member.due {
            if let Some(before) = member.due {
                self.due.remove(&(before, place));
            }
            self.due.extend(due.map(|due| (due, place)));
            member.due = due;
        }
        self.members[place] = Some(member);
        Ok(())
    }

    fn perform(
        &mut self,
        place: MemberId,
        member: &mut Member,
        effect: Effect,
        now: Now,
        more: &mut Effects<Effect>,
    ) -> Result<()> {
        match effect {
            Effect::Net(effect) => self.perform_net(place, member, effect)?,
            Effect::Assigned(offsets) => self.owners.lock().take(place, offsets.keys()),
            Effect::Revoking { id, partitions } => {
                self.owners.lock().give(place, partitions.iter());
                member.membership.release(id, BTreeMap::new(), now);
                member.membership.step(now, more);
            }
            Effect::Lost(partitions) => {
                self.owners.lock().give(place, partitions.iter());
                member.membership.on_loss_heard(&partitions);
            }
            Effect::Failed(error) => bail!("member {place} cannot be one: {error}"),
            Effect::Committed { .. } | Effect::Fetched { .. } => {}
        }
        Ok(())
    }

    fn perform_net(&mut self, place: MemberId, member: &mut Member, effect: NetEffect) -> Result<()> {
        match effect {
            NetEffect::Connect { connection, address } => {
                let wire = self.wires.connect(resolve(&address.host, address.port)?, Some(host_of(place)))?;
                self.whose.insert(wire, (place, connection));
                member.wires.insert(connection, wire);
            }
            NetEffect::Send { connection, outgoing } => {
                if let Some(wire) = member.wires.get(&connection) {
                    self.wires.send(*wire, &outgoing.frame.bytes);
                }
            }
            NetEffect::Close { connection } => {
                if let Some(wire) = member.wires.remove(&connection) {
                    self.whose.remove(&wire);
                    self.wires.close(wire);
                }
            }
        }
        Ok(())
    }
}

/// Where a member lives: each has a host, as far as a broker can tell, which may be slow to take very many
/// connections from one.
fn host_of(place: MemberId) -> Ipv4Addr {
    let [high, low] = u16::try_from(place).unwrap_or(u16::MAX).to_be_bytes();
    Ipv4Addr::new(127, 1, high, low)
}
