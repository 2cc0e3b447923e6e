//! What this node's controller proposes, on its way into the log.

use std::sync::Arc;
use std::time::Duration;

use base::LeaderEpoch;
use bytes::Bytes;
use controller::{MetadataQuorum, Proposal};
use openraft::Raft;
use openraft::errors::{ClientWriteError, Fatal, ForwardReason};
use openraft::raft::ClientWriteResult;
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::batch;
use crate::error::Stopped;
use crate::machine::Machine;
use crate::store::Store;
use crate::types::{Answer, CommittedLeaderId, Records, Types, epoch};
use crate::writer::wall;

/// A batch and the epoch that it may be committed in.
pub(crate) struct Proposed {
    term: u64,
    batch: Bytes,
}

/// Proposes to the quorum. A clone proposes to the same.
#[derive(Clone)]
pub struct Proposer {
    /// Without a bound of its own: the controller has at most `PROPOSALS_MAX` batches of its epoch on their way, and
    /// proposes the next one when one of them is committed; those of an epoch that is over are taken out and dropped.
    queue: UnboundedSender<Proposed>,
    store: Arc<Store>,
}

impl Proposer {
    pub(crate) fn new(queue: UnboundedSender<Proposed>, store: Arc<Store>) -> Self {
        Self { queue, store }
    }
}

impl MetadataQuorum for Proposer {
    fn propose(&mut self, proposal: Proposal) {
        let Ok(term) = u64::try_from(proposal.epoch.0) else { return };
        match batch::propose(&proposal.records, wall()) {
            // If the quorum has stopped, nothing is committed any more.
            Ok(batch) => drop(self.queue.send(Proposed { term, batch })),
            // No record of the epoch may be committed after one that was not, and there is no way back.
            Err(error) => self.store.stop(Stopped(format!("it cannot commit what it decided: {error}"))),
        }
    }
}

/// Hands proposals on, in order, each only when the one before was taken. After one that was refused none of
/// its epoch is taken: it is over.
pub(crate) async fn propose_all(
    core: Raft<Types, Machine>,
    store: Arc<Store>,
    mut proposals: UnboundedReceiver<Proposed>,
    heartbeat: Duration,
) {
    let mut over = LeaderEpoch::NONE;
    while let Some(proposed) = proposals.recv().await {
        let of = epoch(proposed.term);
        while of > over {
            match propose(&core, &proposed).await {
                Ok(Taken::Yes) => break,
                Ok(Taken::NotYet) => tokio::time::sleep(heartbeat).await,
                Ok(Taken::No) => over = of,
                Err(error) => {
                    store.stop(Stopped(error.to_string()));
                    return;
                }
            }
        }
    }
}

/// Whether a proposal is in the leader's log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    Yes,
    /// A majority was not heard of for a while. That may pass, and the epoch with it or not.
    NotYet,
    /// This node does not lead the epoch any more, or is about to hand it over.
    No,
}

async fn propose(core: &Raft<Types, Machine>, proposed: &Proposed) -> Result<Taken, Fatal<Types>> {
    let refused = Arc::new(Mutex::new(None));
    let told = refused.clone();
    let answer = Answer::new(move |outcome: ClientWriteResult<Types>| {
        if let Err(error) = outcome {
            *told.lock() = Some(error);
        }
    });
    let records = Records(proposed.batch.clone());
    core.write(records).with_leader(CommittedLeaderId::new(proposed.term)).responder(answer).await?;
    // What is asked next is answered next: then a refusal is known.
    core.with_raft_state(|_| ()).await?;
    let refused = refused.lock().take();
    Ok(match refused {
        None => Taken::Yes,
        Some(ClientWriteError::ForwardToLeader(to)) if to.reason == ForwardReason::LeaseExpired => {
            Taken::NotYet
        }
        Some(error) => {
            tracing::debug!(%error, epoch = proposed.term, "a proposal was not taken");
            Taken::No
        }
    })
}
