//! The end of a node whose metadata cannot be written any more: its log directory failed.
//!
//! What is in that directory is in doubt from then on. Only the other nodes can remember that: when this one
//! comes back, its disk may look as if nothing had happened. So it ends at once, but not before it has tried to
//! tell them.

use std::sync::Arc;
use std::time::Duration;

use broker::lifecycle::Lifecycle;
use controller::{Command, ControllerError};
use tokio::time::{sleep, timeout};
use tracing::{error, info};
use wire::cluster::ClusterRequest;

use super::waiting::Decided;
use super::{ControlThread, RETRY_AFTER};
use crate::cluster::link::Link;

/// How long others have to elect a controller and to listen. Their clients wait for the leaders that this node
/// was, and get others when it is gone.
const LAST_WORD_MAX: Duration = Duration::from_secs(2);

/// How long one of them may take to answer.
const ANSWER_MAX: Duration = Duration::from_millis(500);

impl ControlThread {
    /// Tells the others which directories failed, and ends the process.
    pub(super) fn say_last_word(&self) {
        let (command, links) = (self.lifecycle.as_ref().and_then(Lifecycle::last_word), self.links.all());
        let member = self.seat.member();
        self.cluster.spawn(async move {
            let told = async move {
                // It could not vote nor lead: others are to do without it.
                if let Some(member) = member {
                    let _ = timeout(ANSWER_MAX, member.close()).await;
                }
                tell(command, &links).await;
            };
            if timeout(LAST_WORD_MAX, told).await.is_err() {
                error!(
                    "no other node could be told which log directory failed: nobody knows it when it is back"
                );
            }
            std::process::exit(1);
        });
    }
}

/// Tells whoever is the active controller.
async fn tell(command: Option<Command>, links: &[Arc<Link>]) {
    let Some(body) = command.and_then(|command| serde_json::to_vec(&command).ok()) else { return };
    while !links.is_empty() {
        for link in links {
            let answer = link.ask(ClusterRequest::Command(&body), ANSWER_MAX).await;
            let decided = answer.ok().and_then(|answer| serde_json::from_slice::<Decided>(&answer).ok());
            match decided.map(|decided| decided.result) {
                None | Some(Err(ControllerError::NotController { .. } | ControllerError::Busy)) => {}
                Some(_) => return info!("the others know which log directory failed"),
            }
        }
        sleep(RETRY_AFTER).await;
    }
}
