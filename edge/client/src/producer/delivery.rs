//! What becomes of a record.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use base::{Offset, PartitionIndex, TimestampMs};
use client_core::producer::{self as core, DeliveryError};
use parking_lot::Mutex;

use super::Shared;

/// Where a record was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: PartitionIndex,
    /// The offset; `None` with `acks=0`, where no broker says.
    pub offset: Option<Offset>,
    /// The timestamp, in milliseconds since 1970: the record's own, or the broker's if the topic has it
    /// so.
    pub timestamp: TimestampMs,
}

/// What became of the records of one batch, or of a part of one that was too large for the broker, for [`ProducerBuilder::on_delivery`](super::ProducerBuilder::on_delivery).
#[derive(Debug)]
pub struct DeliveryReport<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: PartitionIndex,
    /// The records, in their order.
    pub records: &'a [Reported],
    /// When they first left for a broker, by the same clock; `None` if they never did. Until then they
    /// waited in this producer.
    pub left_at: Option<Duration>,
    /// When their fate became known, by the producer's clock ([`Producer::elapsed`](super::Producer::elapsed)).
    pub at: Duration,
    /// The offset of the first record (`None` with `acks=0`), or what went wrong.
    pub outcome: Result<Option<Offset>, &'a DeliveryError>,
}

/// A record of a [`DeliveryReport`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported {
    /// The tag it was sent with; 0 if none.
    pub tag: u64,
    /// When it was taken, by the producer's clock, in nanoseconds.
    pub taken_ns: u64,
    /// Bytes of its value.
    pub value_bytes: u32,
}

/// Who wants to know of every batch.
pub(super) type OnDelivery = Arc<dyn Fn(&DeliveryReport<'_>) + Send + Sync>;

/// What becomes of a batch, shared by its records.
pub(super) struct Fate {
    pub(super) topic: Arc<str>,
    pub(super) partition: PartitionIndex,
    /// Who sees to it.
    shared: Weak<Shared>,
    state: Mutex<FateState>,
}

struct FateState {
    /// What is known of which records: of all at once, unless the batch was too large and went in parts.
    parts: Vec<(Range<usize>, Result<core::Written, DeliveryError>)>,
    /// What became of the others, if nobody will say.
    rest: Option<DeliveryError>,
    is_known: bool,
    wakers: Vec<Waker>,
}

impl Fate {
    pub(super) fn new(topic: &str, partition: PartitionIndex, shared: Weak<Shared>) -> Self {
        let state = FateState { parts: Vec::new(), rest: None, is_known: false, wakers: Vec::new() };
        Self { topic: topic.into(), partition, shared, state: Mutex::new(state) }
    }

    /// Whether it is known what became of a record.
    fn is_known(&self, record: usize) -> bool {
        self.state.lock().outcome_of(record).is_some()
    }

    /// What became of these records is known now; with the last of them all of it is.
    pub(super) fn settle(
        &self,
        records: Range<usize>,
        outcome: Result<core::Written, DeliveryError>,
        is_last: bool,
    ) {
        self.learn(|state| {
            state.parts.push((records, outcome));
            state.is_known = is_last;
        });
    }

    /// Of what is not known, nobody will say more.
    pub(super) fn settle_rest(&self, error: DeliveryError) {
        self.learn(|state| {
            state.rest = Some(error);
            state.is_known = true;
        });
    }

    fn learn(&self, learn: impl FnOnce(&mut FateState)) {
        let wakers = {
            let mut state = self.state.lock();
            if state.is_known {
                return;
            }
            learn(&mut state);
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until all of it is known.
    pub(super) fn known(&self) -> Known<'_> {
        Known(self)
    }

    /// What `find` finds among what is known, once it does.
    fn poll<T>(&self, context: &Context<'_>, find: impl FnOnce(&FateState) -> Option<T>) -> Poll<T> {
        let mut state = self.state.lock();
        if let Some(found) = find(&state) {
            return Poll::Ready(found);
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

impl FateState {
    /// What became of a record, if that is known: with whom it went, and how.
    fn outcome_of(&self, record: usize) -> Option<(usize, Result<core::Written, DeliveryError>)> {
        let part = self.parts.iter().find(|(records, _)| records.contains(&record));
        let part = part.map(|(records, outcome)| (records.start, outcome.clone()));
        part.or_else(|| Some((0, Err(self.rest.clone()?))))
    }
}

/// A batch's fate, once it is known.
pub(super) struct Known<'a>(&'a Fate);

/// Of a batch whose fate is known: how many records were not acknowledged.
pub(super) struct Settled {
    unacknowledged: usize,
}

impl Settled {
    pub(super) const fn unacknowledged(&self) -> usize {
        self.unacknowledged
    }
}

impl Future for Known<'_> {
    type Output = Settled;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Settled> {
        self.0.poll(context, |state| {
            let failed = state.parts.iter().filter(|(_, outcome)| outcome.is_err());
            let unacknowledged = failed.map(|(records, _)| records.len()).sum();
            state.is_known.then_some(Settled { unacknowledged })
        })
    }
}

/// The acknowledgement of one record, to come. Dropping it changes nothing for the record.
pub struct Delivery {
    fate: Arc<Fate>,
    offset_delta: i32,
    timestamp: TimestampMs,
}

impl Delivery {
    #[inline]
    pub(super) const fn new(fate: Arc<Fate>, offset_delta: i32, timestamp: TimestampMs) -> Self {
        Self { fate, offset_delta, timestamp }
    }

    /// Which of its batch it is about.
    fn record(&self) -> usize {
        usize::try_from(self.offset_delta).unwrap_or(0)
    }

    /// Waits for it on a thread that may block.
    pub fn wait(self) -> Result<Written, DeliveryError> {
        let record = self.record();
        if !self.fate.is_known(record)
            && let Some(shared) = self.fate.shared.upgrade()
            && shared.may_be_driven()
        {
            shared.driver.drive(&*shared, None, || self.fate.is_known(record));
        }
        crate::block::on(self)
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (topic, partition) = (&self.fate.topic, self.fate.partition);
        f.debug_struct("Delivery")
            .field("topic", topic)
            .field("partition", &partition)
            .finish_non_exhaustive()
    }
}

impl Future for Delivery {
    type Output = Result<Written, DeliveryError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let delta = self.record();
        let (first, outcome) = std::task::ready!(self.fate.poll(context, |state| state.outcome_of(delta)));
        Poll::Ready(outcome.map(|written| Written {
            topic: self.fate.topic.clone(),
            partition: self.fate.partition,
            offset: written.base_offset.map(|base| Offset(base.0.saturating_add((delta - first) as i64))),
            timestamp: written.append_time.unwrap_or(self.timestamp),
        }))
    }
}
