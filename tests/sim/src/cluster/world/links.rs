//! What travels: connections that are made and broken, frames, and what clients are told.

use super::{Event, World, words_of_request};
use crate::cluster::client::{Client, ClientAct, PURPOSE};
use crate::cluster::invariants::{
    i01_acked_is_kept, i02_one_value, i10_reads_go_on, i26_deletion, i27_acked_is_durable,
};
use crate::cluster::net::{ConnId, Parcel, Place, Way};

impl World {
    pub(super) fn connect(&mut self, conn: ConnId, from: Place, to: Place) {
        let takes = if self.net.are_joined(from, to) { self.net.delay() * 2 } else { 1_000_000 };
        self.queue.push(self.now_us + takes, Event::Open(conn));
    }

    pub(crate) fn send(&mut self, conn: ConnId, from: Place, parcel: Parcel) {
        let way = if conn.owner == from { Way::Out } else { Way::Back };
        if let Some(at) = self.net.send(self.now_us, conn, way, parcel) {
            self.queue.push(at, Event::Arrive(conn, way));
        }
    }

    pub(super) fn hang_up(&mut self, conn: ConnId, from: Place) {
        let way = if conn.owner == from { Way::Out } else { Way::Back };
        self.send(conn, from, Parcel::End);
        self.net.deafen(conn, way.other());
    }

    /// A connection is made, or cannot be.
    pub(super) fn open(&mut self, conn: ConnId) {
        let Some((to, purpose)) = self.net.conns.get(&conn).map(|it| (it.to, it.purpose)) else { return };
        let is_up = match to {
            Place::Node(node) => self.nodes[node].process.is_some(),
            Place::Client(_) => false,
        };
        if !is_up || !self.net.are_joined(conn.owner, to) {
            self.net.conns.remove(&conn);
            return self.closed(conn, conn.owner);
        }
        if let Some(it) = self.net.conns.get_mut(&conn) {
            it.is_open = true;
        }
        if let Place::Node(node) = to
            && let Some(process) = &mut self.nodes[node].process
        {
            process.on_accepted(conn, purpose);
        }
        match conn.owner {
            Place::Node(node) => {
                let life = self.nodes[node].life;
                self.step(node, life, |process, now| process.on_connected(now, conn));
            }
            Place::Client(client) => {
                self.client(client, |client, now_us, acts| client.on_connected(now_us, conn, acts));
            }
        }
    }

    pub(super) fn arrive(&mut self, conn: ConnId, way: Way) {
        let Some(receiver) = self.net.receiver(conn, way) else { return };
        match (self.net.take(self.now_us, conn, way), receiver) {
            (None, _) => {}
            (Some(Parcel::End), at) => {
                // Nothing is said to who is gone.
                self.net.deafen(conn, way.other());
                self.closed(conn, at);
            }
            (Some(Parcel::Frame(frame)), Place::Node(node)) => {
                let life = self.nodes[node].life;
                self.step(node, life, |process, now| process.on_frame(now, conn, frame));
            }
            (Some(Parcel::Frame(frame)), Place::Client(client)) => {
                self.hum(|| format!("client {client} is answered on {}: {} bytes", conn.number, frame.len()));
                self.overhear_answer(client, conn, &frame);
                self.client(client, |client, now_us, acts| client.on_frame(now_us, conn, &frame, acts));
            }
        }
    }

    /// A place hears that a connection is no more.
    pub(crate) fn closed(&mut self, conn: ConnId, at: Place) {
        match at {
            Place::Node(node) => {
                let life = self.nodes[node].life;
                self.step(node, life, |process, now| process.on_closed(now, conn));
            }
            Place::Client(client) => {
                self.client(client, |client, now_us, acts| client.on_closed(now_us, conn, acts));
            }
        }
    }

    /// Steps a client and does what it wants.
    pub(crate) fn client(&mut self, client: usize, act: impl FnOnce(&mut Client, u64, &mut Vec<ClientAct>)) {
        let mut acts = Vec::new();
        act(&mut self.clients[client], self.now_us, &mut acts);
        let from = Place::Client(client);
        for act in acts {
            match act {
                ClientAct::Connect { conn, to } => {
                    let to = Place::Node(to);
                    self.net.connect(conn, to, PURPOSE);
                    self.connect(conn, from, to);
                }
                ClientAct::Send { conn, frame } => {
                    self.hum(|| format!("{from:?} asks on {}: {}", conn.number, words_of_request(&frame)));
                    self.overhear(conn, &frame);
                    self.send(conn, from, Parcel::Frame(frame));
                }
                ClientAct::Close(conn) => self.hang_up(conn, from),
                ClientAct::Wake(at) if at < self.wakes[client] => {
                    self.wakes[client] = at;
                    self.queue.push(at, Event::Client(client));
                }
                ClientAct::Wake(_) => {}
                ClientAct::Hum(what) => self.hum(|| format!("client {client}: {what}")),
                ClientAct::Say(what) => self.say(format_args!("client {client}: {what}")),
                told => self.told(client, &told),
            }
        }
        self.look_at_owners(client);
        if let Client::Reader(reader) = &mut self.clients[client] {
            // It asked somebody who knows, not long ago.
            reader.learn(&self.quorum.image(), &self.truth);
        }
        if let Client::Deleter(deleter) = &mut self.clients[client] {
            deleter.learn(&self.truth);
        }
    }

    /// A client was told something by the cluster.
    pub(super) fn told(&mut self, client: usize, told: &ClientAct) {
        self.hum(|| format!("client {client}: {told:?}"));
        let Self { truth, found, .. } = self;
        match *told {
            ClientAct::Acked { key, offset, value } => {
                if let Some(history) = truth.histories.get(&key) {
                    i01_acked_is_kept::check_acked(history, offset, value, found);
                }
                i27_acked_is_durable::check_acked(key, offset, truth, found);
            }
            ClientAct::Read { key, node, offset, value } => {
                if let Some(history) = truth.histories.get(&key) {
                    i02_one_value::check_read(history, node, (offset, value), found);
                }
            }
            ClientAct::OutOfRange { key, node, offset } => {
                if let Some(history) = truth.histories.get(&key) {
                    i10_reads_go_on::check_refused(history, node, offset, found);
                }
            }
            ClientAct::Skipped { key, node, offset, to } => {
                if let Some(history) = truth.histories.get(&key) {
                    i10_reads_go_on::check_skipped(history, node, (offset, to), found);
                }
            }
            ClientAct::Deletes { key, upto } => {
                if let Some(history) = truth.histories.get_mut(&key) {
                    history.deletes_asked = history.deletes_asked.max(upto);
                }
            }
            ClientAct::Deleted { key, upto, start } => {
                if let Some(history) = truth.histories.get_mut(&key) {
                    i26_deletion::check_answer(history, (upto, start), found);
                    history.deleted = history.deleted.max(start);
                }
            }
            _ => unreachable!("it was done"),
        }
    }
}
