//! A leader that is gone for certain need not be waited for.
//!
//! ```text
//!   its sockets break, nobody listens ─▶ each voter ends the lease ─▶ one after the other stands for election
//! ```
//!
//! A voter otherwise lets a leader be silent for [`Timing::election_timeout`](crate::Timing) and more, and refuses
//! its vote to others for as long. Who takes a leader for gone that is not gives its vote more freely until the next
//! election; the others keep their leases, so that it finds no majority.

use std::time::Duration;

use base::BrokerId;
use openraft::async_runtime::WatchReceiver;
use openraft::raft::TransferLeaderRequest;

use crate::member::Member;
use crate::types::node;

/// From one candidate to the next: longer than an election takes, and than it takes all to see that a node is gone.
const TURN: Duration = Duration::from_millis(25);

impl Member {
    /// Nobody listens any more where the leader was: its successor is elected at once rather than when it has been
    /// silent for long enough. Nothing happens if that node does not lead, or this one does not vote.
    pub async fn on_leader_gone(&self, id: BrokerId) {
        let gone = node(id);
        let seen = self.core.server_metrics().borrow_watched().clone();
        if seen.current_leader != Some(gone) || !self.is_voter(self.me.id) {
            return;
        }
        let vote = seen.vote;
        // Handed over to nobody, it is a leader without a lease.
        let handed = TransferLeaderRequest::new(vote, gone, None);
        if self.core.handle_transfer_leader(handed).await.is_err() {
            return;
        }
        let voters: Vec<u64> = self.core.voter_ids().filter(|voter| *voter != gone).collect();
        let before = voters.iter().filter(|voter| **voter < node(self.me.id)).count();
        let turn = TURN * u32::try_from(before + 1).unwrap_or(u32::MAX);
        let mut metrics = self.core.server_metrics();
        let is_decided =
            async { while metrics.borrow_watched().vote == vote && metrics.changed().await.is_ok() {} };
        if tokio::time::timeout(turn, is_decided).await.is_err() {
            // If it has stopped, that is told elsewhere.
            let _ = self.core.trigger().elect(true).await;
        }
    }
}
