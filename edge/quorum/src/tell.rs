//! What the controller is told, in one order.
//!
//! Leadership is known in two places, where votes are saved and where entries are applied, and each may be
//! behind the other. Here both come together: an epoch that was left is never led again, and whoever leads
//! was told of all that was committed before.

use base::{BrokerId, LeaderEpoch};
use controller::{Committed, QuorumEvent};
use metadata::Image;
use parking_lot::Mutex;

use crate::types::{Vote, broker, epoch};

/// Where events go. It is called from several threads, by one at a time, and must not block.
pub type Tell = Box<dyn FnMut(QuorumEvent) + Send>;

pub(crate) struct Teller(Mutex<Told>);

struct Told {
    tell: Tell,
    node: u64,
    /// The epoch that this node was elected for in this life of its process: it leads once all that came
    /// before is applied. What it won in another is over.
    won: Option<LeaderEpoch>,
    /// The epoch that this node was told to lead, as long as it does.
    led: Option<LeaderEpoch>,
    /// The newest epoch that is known of, and whose it is.
    known: (LeaderEpoch, Option<BrokerId>),
}

impl Teller {
    pub(crate) fn new(node: u64, tell: Tell) -> Self {
        Self(Mutex::new(Told { tell, node, won: None, led: None, known: (LeaderEpoch::NONE, None) }))
    }

    pub(crate) fn committed(&self, committed: Committed) {
        (self.0.lock().tell)(QuorumEvent::Committed(committed));
    }

    pub(crate) fn snapshot(&self, image: Image) {
        (self.0.lock().tell)(QuorumEvent::Snapshot(image));
    }

    /// The first entry of an epoch was committed.
    pub(crate) fn began(&self, of: LeaderEpoch) {
        let mut told = self.0.lock();
        if told.won == Some(of) && told.known.0 <= of && told.led != Some(of) {
            told.led = Some(of);
            told.known = (of, Some(broker(told.node)));
            (told.tell)(QuorumEvent::Elected { epoch: of });
        }
    }

    /// A vote is on the disk.
    pub(crate) fn voted(&self, vote: &Vote) {
        let mut told = self.0.lock();
        let leader = vote.committed.then(|| broker(vote.leader_id.voted_for));
        if leader == Some(broker(told.node)) {
            told.won = Some(epoch(vote.leader_id.term));
            return;
        }
        told.follow(epoch(vote.leader_id.term), leader);
    }

    /// This node follows: as an observer, or because it is no voter any more.
    pub(crate) fn following(&self, of: LeaderEpoch, leader: Option<BrokerId>) {
        self.0.lock().follow(of, leader);
    }

    /// The epoch that this node was told to lead.
    pub(crate) fn led(&self) -> Option<LeaderEpoch> {
        self.0.lock().led
    }
}

impl Told {
    fn follow(&mut self, of: LeaderEpoch, leader: Option<BrokerId>) {
        let is_news = of > self.known.0
            || (of == self.known.0 && (self.led.is_some() || (leader.is_some() && leader != self.known.1)));
        if is_news {
            self.led = None;
            self.known = (of, leader);
            (self.tell)(QuorumEvent::Following { epoch: of, leader });
        }
    }
}
