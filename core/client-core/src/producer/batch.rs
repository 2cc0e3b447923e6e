//! The batches of one partition: the open one, those that wait, those whose answer is due.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, ErrorCode, LeaderEpoch, Now, ProducerEpoch, Sequence};
use records::{BatchBuilder, ClosedBatch};

use crate::cluster::Leader;

/// How often a batch may be refused and still be sent sooner than after the usual wait.
pub(super) const HURRIES_MAX: u32 = 4;

/// How long after its last acknowledgement a broker is trusted to know a producer. Brokers forget those
/// that were silent for `producer.id.expiration.ms`, which is a day unless chosen; nobody says so.
const REMEMBERED: Duration = Duration::from_secs(60);

/// A batch, from its first record to its last word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchId {
    /// Its place among the batches there are; another's once this one is done.
    pub slot: u32,
    /// Tells it from those that had the place before.
    pub(crate) serial: u32,
}

/// A batch that takes records.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) id: BatchId,
    pub(crate) builder: BatchBuilder,
    /// What the memory counts for its buffer.
    pub(crate) counted_bytes: usize,
    pub(crate) created: Duration,
}

/// A batch that takes no more records.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) id: BatchId,
    /// Its place among the batches of its partition.
    pub(crate) order: u64,
    /// Which record of the batch its first one is: not 0 if that was too large and is sent in parts.
    pub(crate) first: usize,
    /// `None` while it is being compressed elsewhere.
    pub(crate) body: Option<Arc<ClosedBatch>>,
    pub(crate) records: usize,
    pub(crate) counted_bytes: usize,
    pub(crate) sent: Option<Sent>,
    /// When it first left for a broker.
    pub(crate) left_at: Option<Duration>,
    /// Whether its header says so already.
    pub(crate) is_sealed: bool,
    /// Whether a try has no answer, or one that does not say whether it was written.
    pub(crate) is_in_doubt: bool,
    pub(crate) failures: u32,
    pub(crate) last_error: Option<ErrorCode>,
}

/// As whom a batch was sent. It is sent so again: that is how the broker knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) epoch: ProducerEpoch,
    pub(crate) sequence: Sequence,
}

/// One partition that records go to.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) leader: Option<BrokerId>,
    pub(crate) leader_epoch: LeaderEpoch,
    pub(crate) open: Option<Open>,
    /// In the order of their records.
    pub(crate) waiting: VecDeque<Closed>,
    /// In the order in which they were sent.
    pub(crate) in_flight: VecDeque<Closed>,
    order_next: u64,
    /// Which life of the producer this partition knows, and what it expects next. Each partition has its
    /// own: the broker keeps them apart, and so one that lost its way disturbs no other.
    pub(crate) epoch: ProducerEpoch,
    pub(crate) sequence_next: Sequence,
    /// When the broker last acknowledged a batch of this epoch.
    pub(crate) met_at: Option<Duration>,
    /// Nothing is sent before, since the last try failed.
    pub(crate) retry_at: Duration,
    /// Whether it is in the producer's list of those with something to send.
    pub(crate) is_listed: bool,
}

impl Partition {
    pub(crate) const fn new(leader: Leader) -> Self {
        Self {
            leader: leader.broker,
            leader_epoch: leader.epoch,
            open: None,
            waiting: VecDeque::new(),
            in_flight: VecDeque::new(),
            order_next: 0,
            epoch: ProducerEpoch(0),
            sequence_next: Sequence(0),
            met_at: None,
            retry_at: Duration::ZERO,
            is_listed: false,
        }
    }

    /// Who leads it, since when. One of a later epoch has refused nothing yet: it is asked at once, unless brokers go
    /// on naming each other.
    pub(crate) fn lead(&mut self, leader: Leader) {
        let is_later = leader.broker.is_some() && leader.epoch > self.leader_epoch;
        let failures = self.waiting.front().map_or(0, |batch| batch.failures);
        if is_later && failures <= HURRIES_MAX {
            self.retry_at = Duration::ZERO;
        }
        (self.leader, self.leader_epoch) = (leader.broker, leader.epoch);
    }

    /// How many batches are not done.
    pub(crate) fn batches(&self) -> usize {
        usize::from(self.open.is_some()) + self.waiting.len() + self.in_flight.len()
    }

    pub(crate) fn has_unsent(&self) -> bool {
        self.open.is_some() || !self.waiting.is_empty()
    }

    /// Whether there never was a batch.
    pub(crate) const fn is_untouched(&self) -> bool {
        self.order_next == 0 && self.open.is_none()
    }

    /// The open batch takes no more records.
    pub(crate) fn close_open(&mut self) -> Option<&mut Closed> {
        let open = self.open.take()?;
        let order = self.order_next;
        self.order_next += 1;
        self.waiting.push_back(Closed {
            id: open.id,
            order,
            first: 0,
            records: usize::try_from(open.builder.count()).unwrap_or(0),
            body: Some(Arc::new(open.builder.close())),
            counted_bytes: open.counted_bytes,
            sent: None,
            left_at: None,
            is_sealed: false,
            is_in_doubt: false,
            failures: 0,
            last_error: None,
        });
        self.waiting.back_mut()
    }

    /// Whether a batch may leave now, as far as the partition's order is concerned.
    ///
    /// With idempotence several may be on their way, for the broker refuses what would come out of order;
    /// without it only one, for nobody would. Nor would a broker that does not know the producer: it takes
    /// whatever batch comes first for the beginning; and so does one that forgot it, for which it was silent
    /// long enough. And what comes back waits until all that went with it are back: they were refused for
    /// the lack of it.
    pub(crate) fn may_send(&self, in_flight_max: usize, now: Now) -> bool {
        let is_known = self.met_at.is_some_and(|met_at| now.elapsed < met_at + REMEMBERED);
        let in_flight_max = if is_known { in_flight_max } else { 1 };
        // The broker remembers the last five batches: one that is older than those would be a stranger to
        // it when it comes again. So it is the distance to the oldest open one that counts, not how many.
        let next = self.waiting.front().map_or(self.order_next, |first| first.order);
        let oldest = self.in_flight.iter().map(|batch| batch.order).min().unwrap_or(next);
        if next >= oldest + in_flight_max as u64 {
            return false;
        }
        match self.waiting.front() {
            Some(first) => first.body.is_some() && (first.failures == 0 || self.in_flight.is_empty()),
            None => true,
        }
    }

    /// A batch whose answer is due.
    pub(crate) fn take_in_flight(&mut self, id: BatchId) -> Option<Closed> {
        let place = self.in_flight.iter().position(|batch| batch.id == id)?;
        self.in_flight.remove(place)
    }

    /// There will be one more batch behind the one of this order.
    pub(crate) fn make_place_behind(&mut self, order: u64) {
        let all = self.in_flight.iter_mut().chain(&mut self.waiting);
        all.filter(|batch| batch.order > order).for_each(|batch| batch.order += 1);
        self.order_next += 1;
    }

    /// A batch has to be sent again: it goes back to its place.
    pub(crate) fn put_back(&mut self, batch: Closed) {
        let place = self.waiting.partition_point(|other| other.order < batch.order);
        self.waiting.insert(place, batch);
    }

    /// The broker lost count: begin anew with it, and number what waits again. Those that may have been written are
    /// given back: they would be taken for others.
    ///
    /// Only while nothing is in flight.
    pub(crate) fn begin_epoch(&mut self) -> VecDeque<Closed> {
        debug_assert!(self.in_flight.is_empty(), "an answer may still say that a batch was written");
        self.epoch = ProducerEpoch(self.epoch.0.checked_add(1).unwrap_or(0));
        self.sequence_next = Sequence(0);
        self.met_at = None;
        let (in_doubt, mut waiting): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|batch| batch.is_in_doubt);
        for batch in &mut waiting {
            batch.sent = None;
            batch.is_sealed = false;
        }
        self.waiting = waiting;
        in_doubt
    }
}
