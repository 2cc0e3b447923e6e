//! Clients of a simulated cluster: they know it by its frames alone.

pub(crate) mod admin;
pub(crate) mod auditor;
#[cfg(test)]
pub(crate) mod caller;
pub(crate) mod deleter;
#[cfg(test)]
pub(crate) mod hand;
pub(crate) mod line;
pub(crate) mod member;
pub(crate) mod producer;
pub(crate) mod reader;

use base::{Now, Offset};

use super::net::{ConnId, Place, Purpose};
use super::process::PartitionKey;

/// What a client wants the world to do.
#[derive(Debug)]
pub(crate) enum ClientAct {
    Connect {
        conn: ConnId,
        to: usize,
    },
    Send {
        conn: ConnId,
        frame: Vec<u8>,
    },
    Close(ConnId),
    /// Be stepped at this time, in microseconds.
    Wake(u64),
    Say(String),
    /// Something that happens too often to be read.
    Hum(String),
    /// A producer was told where a record is.
    Acked {
        key: PartitionKey,
        offset: Offset,
        value: u64,
    },
    /// A reader was given a record by a node.
    Read {
        key: PartitionKey,
        node: usize,
        offset: Offset,
        value: u64,
    },
    /// A reader was told by a node that its place is out of range.
    OutOfRange {
        key: PartitionKey,
        node: usize,
        offset: Offset,
    },
    /// Records before an offset are about to be asked to be deleted.
    Deletes {
        key: PartitionKey,
        upto: Offset,
    },
    /// They are, it was said, and where the log starts now.
    Deleted {
        key: PartitionKey,
        upto: Offset,
        start: Offset,
    },
    /// A reader was given the record at `to` where the one at `offset` comes next.
    Skipped {
        key: PartitionKey,
        node: usize,
        offset: Offset,
        to: Offset,
    },
}

/// A client of any kind.
pub(crate) enum Client {
    Admin(admin::Admin),
    Auditor(auditor::Auditor),
    #[cfg(test)]
    Caller(caller::Caller),
    Deleter(deleter::Deleter),
    #[cfg(test)]
    Hand(hand::Hand),
    Member(Box<member::GroupMember>),
    Producer(producer::ProducerClient),
    Reader(reader::Reader),
}

impl Client {
    pub(crate) fn step(&mut self, now_us: u64, acts: &mut Vec<ClientAct>) {
        match self {
            Self::Admin(admin) => admin.step(now_us, acts),
            Self::Auditor(auditor) => auditor.step(now_us, acts),
            Self::Deleter(deleter) => deleter.step(now_us, acts),
            Self::Member(member) => member.step(now_us, acts),
            #[cfg(test)]
            Self::Caller(caller) => caller.step(now_us, acts),
            #[cfg(test)]
            Self::Hand(hand) => hand.step(now_us, acts),
            Self::Producer(producer) => producer.step(now_us, acts),
            Self::Reader(reader) => reader.step(now_us, acts),
        }
    }

    pub(crate) fn on_connected(&mut self, now_us: u64, conn: ConnId, acts: &mut Vec<ClientAct>) {
        match self {
            Self::Admin(admin) => admin.on_connected(now_us, conn, acts),
            Self::Auditor(auditor) => auditor.on_connected(now_us, conn, acts),
            Self::Deleter(deleter) => deleter.on_connected(now_us, conn, acts),
            Self::Member(member) => member.on_connected(now_us, conn, acts),
            #[cfg(test)]
            Self::Caller(caller) => caller.on_connected(now_us, conn, acts),
            #[cfg(test)]
            Self::Hand(hand) => hand.on_connected(now_us, conn, acts),
            Self::Producer(producer) => producer.on_connected(now_us, conn, acts),
            Self::Reader(reader) => reader.on_connected(now_us, conn, acts),
        }
    }

    pub(crate) fn on_closed(&mut self, now_us: u64, conn: ConnId, acts: &mut Vec<ClientAct>) {
        match self {
            Self::Admin(admin) => admin.on_closed(now_us, conn, acts),
            Self::Auditor(auditor) => auditor.on_closed(now_us, conn, acts),
            Self::Deleter(deleter) => deleter.on_closed(now_us, conn, acts),
            Self::Member(member) => member.on_closed(now_us, conn, acts),
            #[cfg(test)]
            Self::Caller(caller) => caller.on_closed(conn),
            #[cfg(test)]
            Self::Hand(hand) => hand.on_closed(conn),
            Self::Producer(producer) => producer.on_closed(now_us, conn, acts),
            Self::Reader(reader) => reader.on_closed(now_us, conn, acts),
        }
    }

    pub(crate) fn on_frame(&mut self, now_us: u64, conn: ConnId, frame: &[u8], acts: &mut Vec<ClientAct>) {
        match self {
            Self::Admin(admin) => admin.on_frame(now_us, conn, frame, acts),
            Self::Auditor(auditor) => auditor.on_frame(now_us, conn, frame, acts),
            Self::Deleter(deleter) => deleter.on_frame(now_us, conn, frame, acts),
            Self::Member(member) => member.on_frame(now_us, conn, frame, acts),
            #[cfg(test)]
            Self::Caller(caller) => caller.on_frame(conn, frame),
            #[cfg(test)]
            Self::Hand(hand) => hand.on_frame(conn, frame),
            Self::Producer(producer) => producer.on_frame(now_us, conn, frame, acts),
            Self::Reader(reader) => reader.on_frame(now_us, conn, frame, acts),
        }
    }
}

/// A client's clock.
pub(crate) fn at(now_us: u64) -> Now {
    let elapsed = std::time::Duration::from_micros(now_us);
    Now::new(elapsed, super::EPOCH.saturating_add(elapsed))
}

pub(crate) const PURPOSE: Purpose = Purpose::Client;

pub(crate) fn place(client: usize) -> Place {
    Place::Client(client)
}
