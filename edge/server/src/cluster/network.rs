//! Carries the quorum's messages.

use std::sync::Arc;
use std::time::Duration;

use base::BrokerId;
use bytes::Bytes;
use quorum::{Network, SendError, Sending, Voter};
use wire::cluster::ClusterRequest;

use super::link::{LinkError, Source};
use super::links::Links;

/// See the module.
pub(crate) struct QuorumNetwork(pub(crate) Arc<Links>);

impl Network for QuorumNetwork {
    fn send(&self, to: &Voter, request: Bytes, deadline: Duration) -> Sending {
        let link = self.0.to(to.id, Source::Quorum, &to.address);
        Box::pin(async move {
            let answer = link.ask(ClusterRequest::Quorum(&request), deadline).await;
            answer.map(Bytes::from).map_err(|why| match why {
                LinkError::Dead { .. } | LinkError::Unreachable { .. } | LinkError::Refused(_) => {
                    SendError::Unreachable(why.to_string())
                }
                LinkError::Broken(_) | LinkError::Late(_) => SendError::NoAnswer(why.to_string()),
            })
        })
    }

    fn heard(&self, from: BrokerId, address: &str) {
        self.0.to(from, Source::Said, address);
    }
}
