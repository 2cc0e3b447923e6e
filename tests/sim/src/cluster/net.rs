//! Connections between nodes and clients, over links that delay, stop, and break.
//!
//! ```text
//!   Connect ─▶ Opening ─▶ Open ── frames in order, each way its own delay ──▶ End, or Broken
//! ```
//!
//! Frames of one connection arrive in order or not at all. Where links are slow, the
//! connections from one machine to another share them. What is sent over a link that is cut waits, as
//! it does with TCP, until the link is whole again or the connection is given up. A frame that was on its
//! way when its sender gave the connection up still arrives.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::random::Random;

/// A machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Node(usize),
    Client(usize),
}

impl Place {
    /// The node that it is, if it is one.
    pub(crate) const fn node(self) -> Option<usize> {
        match self {
            Self::Node(node) => Some(node),
            Self::Client(_) => None,
        }
    }
}

/// A connection. Its owner numbers those that it makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnId {
    pub(crate) owner: Place,
    pub(crate) number: u64,
}

/// Which way something travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// From the one who connected.
    Out,
    /// Back to it.
    Back,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Kafka's requests of a client.
    Client,
    /// Records for a follower.
    Records,
    /// Commands for a controller.
    Control,
}

#[derive(Debug)]
pub(crate) enum Parcel {
    Frame(Vec<u8>),
    /// Nothing more comes: the other side is gone.
    End,
}

impl Parcel {
    fn bytes(&self) -> u64 {
        match self {
            Self::Frame(frame) => frame.len() as u64,
            Self::End => 0,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) to: Place,
    pub(crate) purpose: Purpose,
    pub(crate) is_open: bool,
    out: Lane,
    back: Lane,
}

#[derive(Debug, Default)]
struct Lane {
    /// Each with the time at which it arrives at the earliest.
    parcels: VecDeque<(u64, Parcel)>,
    last_us: u64,
    /// Until when the link carries what was sent.
    taken_us: u64,
    /// Whether the receiver is gone.
    is_deaf: bool,
    /// Whether the sender has said its last.
    has_ended: bool,
}

impl Conn {
    fn lane(&mut self, way: Way) -> &mut Lane {
        match way {
            Way::Out => &mut self.out,
            Way::Back => &mut self.back,
        }
    }
}

/// How fast links are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delays {
    /// What every frame takes, in microseconds.
    pub(crate) least_us: u64,
    /// What it may take beyond, on average.
    pub(crate) mean_us: u64,
    /// In a thousand frames, how many take `late_us` more.
    pub(crate) late_per_thousand: u32,
    pub(crate) late_us: u64,
    /// What each KiB takes of a link, which the connections that use it share; 0 if that is no time.
    pub(crate) kib_us: u64,
}

/// All links and connections.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) conns: BTreeMap<ConnId, Conn>,
    cut: BTreeSet<(Place, Place)>,
    random: Random,
    delays: Delays,
}

impl Network {
    pub(crate) fn new(random: Random, delays: Delays) -> Self {
        Self { conns: BTreeMap::new(), cut: BTreeSet::new(), random, delays }
    }

    /// How long something takes over a link.
    pub(crate) fn delay(&mut self) -> u64 {
        let Delays { least_us, mean_us, late_per_thousand, late_us, kib_us: _ } = self.delays;
        // The sum of two even draws: most are near the mean, some are quick.
        let spread = self.random.below(mean_us + 1) + self.random.below(mean_us + 1);
        let late = if self.random.chance(late_per_thousand) { self.random.below(late_us + 1) } else { 0 };
        least_us + spread + late
    }

    pub(crate) fn is_cut(&self, from: Place, to: Place) -> bool {
        self.cut.contains(&(from, to))
    }

    /// Whether two places hear each other.
    pub(crate) fn are_joined(&self, a: Place, b: Place) -> bool {
        a == b || !(self.is_cut(a, b) || self.is_cut(b, a))
    }

    pub(crate) fn cut(&mut self, from: Place, to: Place) {
        self.cut.insert((from, to));
    }

    /// Makes links whole again; each connection as often as something waits on it.
    pub(crate) fn mend(&mut self, is_meant: impl Fn(Place, Place) -> bool) -> Vec<(ConnId, Way)> {
        self.cut.retain(|&(from, to)| !is_meant(from, to));
        let mut waiting = Vec::new();
        for (id, conn) in &self.conns {
            for (way, lane) in [(Way::Out, &conn.out), (Way::Back, &conn.back)] {
                waiting.extend(lane.parcels.iter().map(|_| (*id, way)));
            }
        }
        waiting
    }

    /// Nothing is late any more: members of groups have sessions that are shorter than what is late may take.
    pub(crate) fn calm(&mut self) {
        self.delays.late_per_thousand = 0;
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.cut.is_empty()
    }

    pub(crate) fn connect(&mut self, id: ConnId, to: Place, purpose: Purpose) {
        let conn = Conn { to, purpose, is_open: false, out: Lane::default(), back: Lane::default() };
        self.conns.insert(id, conn);
    }

    /// From where to where something travels.
    fn ends(&self, id: ConnId, way: Way) -> Option<(Place, Place)> {
        let to = self.conns.get(&id)?.to;
        Some(if way == Way::Out { (id.owner, to) } else { (to, id.owner) })
    }

    /// Who is at the receiving end.
    pub(crate) fn receiver(&self, id: ConnId, way: Way) -> Option<Place> {
        self.ends(id, way).map(|(_, to)| to)
    }

    /// Sends a parcel behind those that were sent before; when it arrives at the earliest.
    pub(crate) fn send(&mut self, now_us: u64, id: ConnId, way: Way, parcel: Parcel) -> Option<u64> {
        let delay = self.delay();
        let kib_us = match self.delays.kib_us {
            0 => 0,
            alone => alone * self.sharers(now_us, id, way)?,
        };
        let lane = self.conns.get_mut(&id)?.lane(way);
        if lane.is_deaf || lane.has_ended {
            return None;
        }
        lane.has_ended = matches!(parcel, Parcel::End);
        lane.taken_us = now_us.max(lane.taken_us) + parcel.bytes() * kib_us / 1024;
        lane.last_us = lane.last_us.max(lane.taken_us + delay);
        lane.parcels.push_back((lane.last_us, parcel));
        Some(lane.last_us)
    }

    /// How many connections share a link while one of them sends over it: as TCP does it, none waits until
    /// what another was given is through.
    fn sharers(&self, now_us: u64, id: ConnId, way: Way) -> Option<u64> {
        let link = self.ends(id, way)?;
        let lanes = self
            .conns
            .iter()
            .flat_map(|(&id, conn)| [(id, Way::Out, &conn.out), (id, Way::Back, &conn.back)]);
        let busy = lanes.filter(|&(other, its_way, lane)| {
            (other, its_way) != (id, way) && lane.taken_us > now_us && self.ends(other, its_way) == Some(link)
        });
        Some(1 + busy.count() as u64)
    }

    /// Nothing that is sent this way from here on arrives before `until_us`.
    pub(crate) fn hold(&mut self, id: ConnId, way: Way, until_us: u64) {
        if let Some(conn) = self.conns.get_mut(&id) {
            let lane = conn.lane(way);
            lane.last_us = lane.last_us.max(until_us);
        }
    }

    /// A connection breaks: what is on its way is lost, but for what has come so far that it arrives.
    pub(crate) fn lose_some(&mut self, id: ConnId) {
        let Self { conns, random, .. } = self;
        let Some(conn) = conns.get_mut(&id) else { return };
        for lane in [&mut conn.out, &mut conn.back] {
            let kept = random.index(lane.parcels.len() + 1);
            lane.parcels.truncate(kept);
            lane.taken_us = 0;
        }
    }

    /// The receiver of what travels this way is gone: nothing reaches it any more.
    pub(crate) fn deafen(&mut self, id: ConnId, way: Way) {
        if let Some(conn) = self.conns.get_mut(&id) {
            let lane = conn.lane(way);
            (lane.is_deaf, lane.taken_us) = (true, 0);
            lane.parcels.clear();
            self.forget_dead(id);
        }
    }

    /// What has arrived, if the link is whole.
    pub(crate) fn take(&mut self, now_us: u64, id: ConnId, way: Way) -> Option<Parcel> {
        let (from, to) = self.ends(id, way)?;
        if self.is_cut(from, to) || !self.conns.get(&id)?.is_open {
            return None;
        }
        let lane = self.conns.get_mut(&id)?.lane(way);
        let (_, parcel) = lane.parcels.pop_front_if(|(at_us, _)| *at_us <= now_us)?;
        if matches!(parcel, Parcel::End) {
            lane.is_deaf = true;
            self.forget_dead(id);
        }
        Some(parcel)
    }

    fn forget_dead(&mut self, id: ConnId) {
        if self.conns.get(&id).is_some_and(|conn| conn.out.is_deaf && conn.back.is_deaf) {
            self.conns.remove(&id);
        }
    }

    /// The connections of a place: each with the way in which the place sends.
    pub(crate) fn of(&self, place: Place) -> Vec<(ConnId, Way)> {
        let mut found = Vec::new();
        for (id, conn) in &self.conns {
            if id.owner == place {
                found.push((*id, Way::Out));
            }
            if conn.to == place {
                found.push((*id, Way::Back));
            }
        }
        found
    }
}

impl Way {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Out => Self::Back,
            Self::Back => Self::Out,
        }
    }
}
