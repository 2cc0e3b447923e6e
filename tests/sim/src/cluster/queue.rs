//! What will happen, in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::{LeaderEpoch, PartitionIndex};

use super::net::{ConnId, Way};
use super::process::PartitionKey;

/// Something that happens at its time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A connection is made, or cannot be.
    Open(ConnId),
    /// What was sent over a connection may have arrived.
    Arrive(ConnId, Way),
    /// A node's machine runs a process again.
    Start(usize),
    /// A process has something to do by now.
    Tick { node: usize, life: u32 },
    /// A flush that a partition asked for begins.
    FlushBegins { node: usize, life: u32, key: PartitionKey },
    /// A flush that began has come to its end.
    FlushEnds { node: usize, life: u32, key: PartitionKey },
    /// A process reads on in the log of a shard.
    Load { node: usize, life: u32, shard: PartitionIndex, epoch: LeaderEpoch },
    /// A process goes on compacting, or begins.
    Compact { node: usize, life: u32 },
    /// A node finds that nobody listens where another should.
    Suspect { by: usize, suspect: usize },
    /// The quorum looks whether it can commit, or has to elect.
    Quorum,
    /// The quorum tells a node something.
    Tell(usize),
    /// A client has something to do.
    Client(usize),
    /// Something bad may happen.
    Trouble,
}

/// Events that have not happened yet; those of one moment happen in the order they were put in.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    next: u64,
}

impl Queue {
    /// Has an event happen at a time, in microseconds.
    pub(crate) fn push(&mut self, at_us: u64, event: Event) {
        self.heap.push(Reverse((at_us, self.next, event)));
        self.next += 1;
    }

    /// The next event, if it happens before `end_us`.
    pub(crate) fn pop_before(&mut self, end_us: u64) -> Option<(u64, Event)> {
        let Reverse((at_us, ..)) = self.heap.peek()?;
        if *at_us >= end_us {
            return None;
        }
        self.heap.pop().map(|Reverse((at_us, _, event))| (at_us, event))
    }
}
