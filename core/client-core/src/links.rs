//! A client's connections: to whom, since when, and when to try again.

mod about_topics;
mod anyone;
mod silence;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, Effects, Now};
use records::ClosedBatch;
use wire::{ApiKey, Frame, Request};

use crate::backoff::Backoff;
use crate::chance::Chance;
use crate::cluster::Address;
use crate::link::{Answer, Heard, Link, LinkError, Waits};

pub(crate) use anyone::DOUBTED_AFTER;
pub(crate) use silence::ASK_EVERY;

/// One connection, from the wish for it to its end. No other ever has the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Whom a connection leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// One of the addresses that the client was started with: whoever answers there.
    Bootstrap(usize),
    /// The broker with this id.
    Broker(BrokerId),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bootstrap(index) => write!(f, "bootstrap server {index}"),
            Self::Broker(id) => write!(f, "broker {id}"),
        }
    }
}

/// What goes with a request.
#[derive(Debug)]
pub struct Asking<T> {
    /// The version it is said in.
    pub version: i16,
    /// What its sender wants to know of it when it is settled.
    pub about: T,
    /// The batches that it names as being elsewhere, in order.
    pub fills: Vec<Arc<ClosedBatch>>,
    /// Whether the peer answers it; all are answered but Produce with `acks=0`.
    pub is_answered: bool,
}

/// Something to send, in order, on one connection.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// The frame, with holes where batches belong.
    pub frame: Frame,
    /// What fills the holes, in order.
    pub fills: Vec<Arc<ClosedBatch>>,
    /// Whether [`Links::on_written`] is to be called once all of it went out: there is no answer.
    pub is_unanswered: bool,
}

impl Outgoing {
    fn plain(frame: Frame) -> Self {
        Self { frame, fills: Vec::new(), is_unanswered: false }
    }
}

/// What the connections need done.
#[derive(Debug, Clone)]
pub enum NetEffect {
    /// Open a connection; then [`Links::on_connected`] or [`Links::on_closed`].
    Connect {
        /// What it will be called.
        connection: ConnectionId,
        /// Where to.
        address: Address,
    },
    /// Send this behind what was sent before.
    Send {
        /// Where.
        connection: ConnectionId,
        /// What.
        outgoing: Outgoing,
    },
    /// Close it and tell nobody. What the other end did not get yet is not to be sent any more.
    Close {
        /// Which.
        connection: ConnectionId,
    },
}

/// How a client connects.
#[derive(Debug, Clone)]
pub struct LinksSettings {
    /// What the client calls itself; Kafka's `client.id`.
    pub client_id: Arc<str>,
    /// How long an answer is waited for; Kafka's `request.timeout.ms`.
    pub request_timeout: Duration,
    /// How long a connection may take to open; Kafka's `socket.connection.setup.timeout.ms`.
    pub connect_timeout: Duration,
    /// How long to wait before the next try; Kafka's `reconnect.backoff.ms` and `.max.ms`.
    pub reconnect: Backoff,
}

impl Default for LinksSettings {
    fn default() -> Self {
        Self {
            client_id: "vltava".into(),
            request_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            reconnect: Backoff { first: Duration::from_millis(50), max: Duration::from_secs(1) },
        }
    }
}

#[derive(Debug)]
struct Open<T> {
    id: ConnectionId,
    link: Link<T>,
    /// When it was begun.
    since: Duration,
    /// Until when it has to stand, if it does not yet.
    connect_until: Option<Duration>,
    /// The broker asked for nothing before this.
    muted_until: Duration,
    /// Requests that get no answer and did not go out yet, and until when they have to.
    unwritten: VecDeque<(Duration, T)>,
}

#[derive(Debug)]
struct PeerState<T> {
    address: Address,
    open: Option<Open<T>>,
    failures: u32,
    retry_at: Duration,
    /// What went wrong last, and when.
    trouble: Option<(Duration, Arc<str>)>,
}

/// The connections of one client. `T` is what it wants to know of each request.
#[derive(Debug)]
pub struct Links<T> {
    settings: LinksSettings,
    chance: Chance,
    peers: BTreeMap<Peer, PeerState<T>>,
    open: BTreeMap<ConnectionId, Peer>,
    id_next: u64,
    bootstrap_next: usize,
    /// Whether somebody may have a use for a closed connection as soon as its wait is over.
    wanted: bool,
}

/// Nobody is left alone for longer, whatever a broker says.
const THROTTLE_MAX: Duration = Duration::from_secs(5 * 60);

impl<T> Links<T> {
    /// No connections yet, and these addresses to begin with.
    pub fn new(settings: LinksSettings, bootstrap: Vec<Address>, chance: Chance) -> Self {
        let peers = bootstrap.into_iter().enumerate();
        let peers = peers.map(|(index, address)| (Peer::Bootstrap(index), PeerState::new(address)));
        Self {
            settings,
            chance,
            peers: peers.collect(),
            open: BTreeMap::new(),
            id_next: 0,
            bootstrap_next: 0,
            wanted: false,
        }
    }

    /// Its connections are called from this number on: for who has the connections of several in one place.
    pub(crate) const fn with_ids_from(mut self, first: u64) -> Self {
        self.id_next = first;
        self
    }

    /// The brokers there are, with their addresses. Connections to others are left to end by themselves.
    /// Those that moved: their connections were closed, and what was asked there gets no answer.
    pub fn set_brokers(
        &mut self,
        brokers: &BTreeMap<BrokerId, Address>,
        effects: &mut Effects<NetEffect>,
    ) -> Vec<(Peer, Vec<T>)> {
        let mut closed = Vec::new();
        for (&id, address) in brokers {
            let peer = self.peers.entry(Peer::Broker(id)).or_insert_with(|| PeerState::new(address.clone()));
            if peer.address == *address {
                continue;
            }
            // It lives elsewhere: what was sent to the old place gets no answer from it.
            peer.address = address.clone();
            if let Some(open) = peer.open.take() {
                self.open.remove(&open.id);
                effects.push(NetEffect::Close { connection: open.id });
                closed.push((Peer::Broker(id), open.into_unsettled().collect()));
            }
        }
        self.peers.retain(|peer, state| match peer {
            Peer::Bootstrap(_) => true,
            Peer::Broker(id) => brokers.contains_key(id) || state.open.is_some(),
        });
        closed
    }

    /// Whether it is known where the peer is.
    pub fn knows(&self, peer: Peer) -> bool {
        self.peers.contains_key(&peer)
    }

    /// Whether requests can be sent to the peer at once; if not, a connection is begun unless it is too
    /// early for the next try.
    pub fn want(&mut self, peer: Peer, now: Now, effects: &mut Effects<NetEffect>) -> bool {
        let Some(state) = self.peers.get_mut(&peer) else { return false };
        if let Some(open) = &state.open {
            return open.is_usable(now);
        }
        self.wanted = true;
        if now.elapsed < state.retry_at {
            return false;
        }
        let id = ConnectionId(self.id_next);
        self.id_next += 1;
        state.open = Some(Open {
            id,
            link: Link::new(self.settings.client_id.clone()),
            since: now.elapsed,
            connect_until: Some(now.elapsed + self.settings.connect_timeout),
            muted_until: Duration::ZERO,
            unwritten: VecDeque::new(),
        });
        self.open.insert(id, peer);
        effects.push(NetEffect::Connect { connection: id, address: state.address.clone() });
        false
    }

    /// Whom a connection leads to, while it is open.
    pub fn peer(&self, connection: ConnectionId) -> Option<Peer> {
        self.open.get(&connection).copied()
    }

    /// How many requests to a peer are not settled: without their answer, or not written yet.
    pub fn in_flight(&self, peer: Peer) -> usize {
        let open = self.peers.get(&peer).and_then(|state| state.open.as_ref());
        open.map_or(0, |open| open.link.in_flight() + open.unwritten.len())
    }

    /// Since when a peer owes the oldest answer that it owes; `None` if it owes none.
    pub(crate) fn owes_since(&self, peer: Peer) -> Option<Duration> {
        self.link(peer)?.waits_from()
    }

    /// A connection on which such a question waits for its answer.
    pub(crate) fn asked_on(&self, is_such: impl Fn(&T) -> bool) -> Option<ConnectionId> {
        let open = self.peers.values().filter_map(|state| state.open.as_ref());
        open.filter(|open| open.link.asked().any(&is_such)).map(|open| open.id).next()
    }

    /// The version in which to ask a peer that may be asked.
    pub fn version(&self, peer: Peer, key: ApiKey) -> Result<i16, LinkError> {
        self.link(peer).map_or(Err(LinkError::Unsupported(key)), |link| link.version(key))
    }

    fn link(&self, peer: Peer) -> Option<&Link<T>> {
        self.peers.get(&peer)?.open.as_ref().map(|open| &open.link)
    }

    /// Sends a request to a peer that [`Links::want`] said may be asked. What it was about comes back with
    /// its answer; from [`Links::on_written`] if it gets none.
    pub fn send<'a, R: Request<'a>>(
        &mut self,
        (peer, now): (Peer, Now),
        request: &R,
        asking: Asking<T>,
        effects: &mut Effects<NetEffect>,
    ) -> Result<(), LinkError> {
        let waits = Waits { from: now.elapsed, until: now.elapsed + self.settings.request_timeout };
        self.send_patiently((peer, waits), request, asking, effects)
    }

    /// [`Links::send`] of what a broker may take its time to answer.
    pub(crate) fn send_patiently<'a, R: Request<'a>>(
        &mut self,
        (peer, waits): (Peer, Waits),
        request: &R,
        Asking { version, about, fills, is_answered }: Asking<T>,
        effects: &mut Effects<NetEffect>,
    ) -> Result<(), LinkError> {
        let open = self.usable(peer);
        let frame = if is_answered {
            open.link.request(request, version, waits, about)?
        } else {
            let frame = open.link.request_unanswered(request, version)?;
            open.unwritten.push_back((waits.until, about));
            frame
        };
        let outgoing = Outgoing { frame, fills, is_unanswered: !is_answered };
        effects.push(NetEffect::Send { connection: open.id, outgoing });
        Ok(())
    }

    fn usable(&mut self, peer: Peer) -> &mut Open<T> {
        let open = self.peers.get_mut(&peer).and_then(|state| state.open.as_mut());
        open.expect("the caller asked whether the peer may be asked")
    }

    /// All of the oldest request without an answer went out.
    pub fn on_written(&mut self, connection: ConnectionId) -> Option<T> {
        self.open_mut(connection)?.unwritten.pop_front().map(|(_, about)| about)
    }

    /// The connection stands.
    pub fn on_connected(&mut self, connection: ConnectionId, now: Now, effects: &mut Effects<NetEffect>) {
        let until = now.elapsed + self.settings.request_timeout;
        let Some(open) = self.open_mut(connection) else { return };
        open.connect_until = None;
        let frame = open.link.greet(until).expect("our own first words can be written");
        effects.push(NetEffect::Send { connection, outgoing: Outgoing::plain(frame) });
    }

    /// Why a connection is about to end, or cannot be opened; for people.
    pub fn on_trouble(&mut self, connection: ConnectionId, why: &str, now: Now) {
        let peer = self.open.get(&connection).and_then(|peer| self.peers.get_mut(peer));
        if let Some(state) = peer {
            state.trouble = Some((now.elapsed, why.into()));
        }
    }

    /// A connection is about to be closed because an answer, or its opening, is late.
    pub fn on_late(&mut self, connection: ConnectionId, now: Now) {
        let address =
            self.peer(connection).and_then(|peer| self.peers.get(&peer)).map(|state| &state.address);
        if let Some(why) = address.map(|address| format!("{address} does not answer in time")) {
            self.on_trouble(connection, &why, now);
        }
    }

    /// What last went wrong since then, with this peer or with any.
    pub fn trouble(&self, with: Option<Peer>, since: Duration) -> Option<(Duration, Arc<str>)> {
        let peers = self.peers.iter().filter(|&(&peer, _)| with.is_none_or(|with| with == peer));
        let troubles = peers.filter_map(|(_, state)| state.trouble.as_ref());
        troubles.filter(|(at, _)| *at >= since).max_by_key(|(at, _)| *at).cloned()
    }

    /// Why a peer cannot be asked, if it could not be reached when that was last tried.
    pub fn why_lost(&self, peer: Peer) -> Option<Arc<str>> {
        let state = self.peers.get(&peer).filter(|state| state.failures > 0)?;
        state.trouble.as_ref().map(|(_, why)| why.clone())
    }

    /// The connection ended, or could not be opened: what gets no answer for that, oldest first.
    pub fn on_closed(&mut self, connection: ConnectionId, now: Now) -> Vec<T> {
        let Some(peer) = self.open.remove(&connection) else { return Vec::new() };
        let state = self.peers.get_mut(&peer).expect("an open connection leads to a known peer");
        let open = state.open.take().expect("it was open");
        state.failures = state.failures.saturating_add(1);
        state.retry_at = now.elapsed + self.settings.reconnect.after(state.failures, &mut self.chance);
        open.into_unsettled().collect()
    }

    /// Closes a connection of our own will; else as if it had ended.
    pub fn close(&mut self, connection: ConnectionId, now: Now, effects: &mut Effects<NetEffect>) -> Vec<T> {
        if self.open.contains_key(&connection) {
            effects.push(NetEffect::Close { connection });
        }
        self.on_closed(connection, now)
    }

    /// A frame came, without its size: the answer that it is, if it is one. After an error the caller
    /// closes the connection.
    pub fn on_frame<'f>(
        &mut self,
        connection: ConnectionId,
        frame: &'f [u8],
        effects: &mut Effects<NetEffect>,
    ) -> Result<Option<(Peer, Answer<'f, T>)>, LinkError> {
        let Some(&peer) = self.open.get(&connection) else { return Ok(None) };
        let state = self.peers.get_mut(&peer).expect("an open connection leads to a known peer");
        let open = state.open.as_mut().expect("it is open");
        match open.link.on_frame(frame)? {
            Heard::Answer(answer) => Ok(Some((peer, answer))),
            Heard::Greeting(Some(frame)) => {
                effects.push(NetEffect::Send { connection, outgoing: Outgoing::plain(frame) });
                Ok(None)
            }
            Heard::Greeting(None) => {
                state.failures = 0;
                Ok(None)
            }
        }
    }

    /// A broker's answer says for how many milliseconds it wants to be left alone (KIP-219): it may be minutes, and no
    /// more.
    pub fn throttle(&mut self, peer: Peer, now: Now, throttle_time_ms: i32) {
        if throttle_time_ms > 0 {
            let time = Duration::from_millis(throttle_time_ms.unsigned_abs().into());
            self.mute(peer, now.elapsed + time.min(THROTTLE_MAX));
        }
    }

    /// The peer is asked for nothing before this.
    pub fn mute(&mut self, peer: Peer, until: Duration) {
        if let Some(open) = self.peers.get_mut(&peer).and_then(|state| state.open.as_mut()) {
            open.muted_until = open.muted_until.max(until);
        }
    }

    /// Connections whose answer, or whose opening, is late. The caller closes them.
    pub fn late(&self, now: Now) -> Vec<ConnectionId> {
        let opens = self.peers.values().filter_map(|state| state.open.as_ref());
        let late = opens.filter(|open| open.deadline().is_some_and(|until| until <= now.elapsed));
        late.map(|open| open.id).collect()
    }

    /// When something here is due: an answer is late, a wait is over.
    pub fn deadline(&self, now: Now) -> Option<Duration> {
        let due = self.peers.values().filter_map(|state| match &state.open {
            Some(open) => {
                let unmuted = Some(open.muted_until).filter(|&until| until > now.elapsed);
                // Then others may be asked.
                let silent = open.silent_at().filter(|&at| at > now.elapsed);
                [open.deadline(), unmuted, silent].into_iter().flatten().min()
            }
            None => Some(state.retry_at).filter(|&at| self.wanted && at > now.elapsed),
        });
        due.min()
    }

    fn open_mut(&mut self, connection: ConnectionId) -> Option<&mut Open<T>> {
        let peer = self.open.get(&connection)?;
        self.peers.get_mut(peer)?.open.as_mut()
    }
}

impl<T> PeerState<T> {
    fn new(address: Address) -> Self {
        Self { address, open: None, failures: 0, retry_at: Duration::ZERO, trouble: None }
    }
}

impl<T> Open<T> {
    /// Whether its peer wants to be left alone.
    fn is_muted(&self, now: Now) -> bool {
        self.muted_until > now.elapsed
    }

    /// Whether it can be asked something now.
    fn is_usable(&self, now: Now) -> bool {
        self.link.is_greeted() && !self.is_muted(now)
    }

    fn deadline(&self) -> Option<Duration> {
        let unwritten = self.unwritten.front().map(|&(until, _)| until);
        let in_flight = [self.link.deadline(), unwritten].into_iter().flatten().min();
        self.connect_until.or(in_flight)
    }

    fn into_unsettled(self) -> impl Iterator<Item = T> {
        self.unwritten.into_iter().map(|(_, about)| about).chain(self.link.into_unanswered())
    }
}
