//! What becomes of a record.

use std::fmt;
use std::future::Future;
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

/// What became of the records of one batch, for [`ProducerBuilder::on_delivery`](super::ProducerBuilder::on_delivery).
#[derive(Debug)]
pub struct DeliveryReport<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: PartitionIndex,
    /// The records, in their order.
    pub records: &'a [Reported],
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
    outcome: Option<Result<core::Written, DeliveryError>>,
    records: usize,
    wakers: Vec<Waker>,
}

impl Fate {
    pub(super) fn new(topic: &str, partition: PartitionIndex, shared: Weak<Shared>) -> Self {
        let state = FateState { outcome: None, records: 0, wakers: Vec::new() };
        Self { topic: topic.into(), partition, shared, state: Mutex::new(state) }
    }

    fn is_known(&self) -> bool {
        self.state.lock().outcome.is_some()
    }

    /// It is known now.
    pub(super) fn settle(&self, outcome: Result<core::Written, DeliveryError>, records: usize) {
        let wakers = {
            let mut state = self.state.lock();
            if state.outcome.is_some() {
                return;
            }
            state.outcome = Some(outcome);
            state.records = records;
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until it is known.
    pub(super) fn known(&self) -> Known<'_> {
        Known(self)
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Result<core::Written, DeliveryError>> {
        let mut state = self.state.lock();
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(outcome.clone());
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
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
        let outcome = std::task::ready!(self.0.poll(context));
        let records = self.0.state.lock().records;
        Poll::Ready(Settled { unacknowledged: if outcome.is_ok() { 0 } else { records } })
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

    /// Waits for it on a thread that may block.
    pub fn wait(self) -> Result<Written, DeliveryError> {
        if !self.fate.is_known()
            && let Some(shared) = self.fate.shared.upgrade()
            && shared.may_be_driven()
        {
            shared.driver.drive(&*shared, None, || self.fate.is_known());
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
        let outcome = std::task::ready!(self.fate.poll(context));
        Poll::Ready(outcome.map(|written| Written {
            topic: self.fate.topic.clone(),
            partition: self.fate.partition,
            offset: written.base_offset.map(|base| Offset(base.0 + i64::from(self.offset_delta))),
            timestamp: written.append_time.unwrap_or(self.timestamp),
        }))
    }
}
