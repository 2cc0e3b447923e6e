//! Requests that are not answered yet, in the order they came.

use std::time::Instant;

use broker::call::{Answer, Finish, ParkedRequest};
use storage::FileSlice;
use telemetry::Gauge;
use tokio::sync::oneshot;
use wire::ApiKey;

use super::Ended;
use super::bell::Bell;
use crate::control::Decision;
use crate::node::Node;

/// A request that is not answered yet.
pub(super) struct Queued {
    pub(super) key: Option<ApiKey>,
    pub(super) since: Instant,
    pub(super) waiting: Waiting,
    /// What it takes of memory.
    pub(super) bytes: u64,
}

/// What it waits for: its turn, or something else.
pub(super) enum Waiting {
    Answer(Answer),
    Parked(ParkedRequest),
    Submitted {
        slot: Slot,
        finish: Finish,
    },
    /// The connection ends here, once all before it is answered.
    Close(Ended),
}

/// The controller's decision, once it is there; `None` if there will be none.
pub(super) enum Slot {
    Empty(oneshot::Receiver<Decision>),
    Filled(Option<Decision>),
}

impl Waiting {
    /// The number that it is counted in while it waits.
    pub(super) fn gauge<'n>(&self, node: &'n Node) -> Option<&'n Gauge> {
        let Self::Parked(parked) = self else { return None };
        let state = &node.metrics.state;
        match parked.key() {
            ApiKey::Produce => Some(&state.parked_produce),
            ApiKey::Fetch => Some(&state.parked_fetch),
            ApiKey::DeleteRecords => Some(&state.parked_delete_records),
            _ => None,
        }
    }

    /// What it takes of memory.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Answer(answer) => {
                answer.frame.bytes.capacity() + answer.slices.capacity() * size_of::<FileSlice>()
            }
            Self::Parked(parked) => parked.bytes(),
            // A command is paid for until it is decided.
            Self::Submitted { .. } | Self::Close(_) => 0,
        };
        bytes as u64
    }
}

/// Waits until it is worth looking at the front of the queue again: at the latest when it is due, if ever.
pub(super) async fn settled(front: Option<&mut Queued>, bell: &Bell, due: Option<tokio::time::Instant>) {
    match front.map(|queued| &mut queued.waiting) {
        None => std::future::pending().await,
        Some(Waiting::Answer(_) | Waiting::Close(_)) => {}
        Some(Waiting::Parked(_)) => match due {
            None => bell.ringing().await,
            Some(due) => tokio::select! {
                () = bell.ringing() => {}
                () = tokio::time::sleep_until(due) => {}
            },
        },
        Some(Waiting::Submitted { slot, .. }) => {
            if let Slot::Empty(decision) = slot {
                *slot = Slot::Filled(decision.await.ok());
            }
        }
    }
}
