//! Frames in: whose answer it is, and what was not answered.

use base::{Effects, Now};
use wire::Message;
use wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatResponse;
use wire::messages::find_coordinator::FindCoordinatorResponse;
use wire::messages::heartbeat::HeartbeatResponse;
use wire::messages::join_group::JoinGroupResponse;
use wire::messages::metadata::MetadataResponse;
use wire::messages::offset_commit::OffsetCommitResponse;
use wire::messages::offset_fetch::OffsetFetchResponse;
use wire::messages::sync_group::SyncGroupResponse;

use super::{Asked, Effect, Membership};
use crate::link::{Answer, LinkError};
use crate::links::{ConnectionId, Peer};

impl Membership {
    /// A connection stands.
    pub fn on_connected(&mut self, connection: ConnectionId, now: Now, effects: &mut Effects<Effect>) {
        self.links.on_connected(connection, now, &mut self.net);
        self.step(now, effects);
    }

    /// Why a connection ended, or could not be opened; for people. [`Membership::on_closed`] follows.
    pub fn on_trouble(&mut self, connection: ConnectionId, why: &str, now: Now) {
        self.links.on_trouble(connection, why, now);
    }

    /// A connection ended, or could not be opened.
    pub fn on_closed(&mut self, connection: ConnectionId, now: Now, effects: &mut Effects<Effect>) {
        let peer = self.links.peer(connection);
        let unanswered = self.links.on_closed(connection, now);
        self.on_unanswered(peer, unanswered, now);
        self.step(now, effects);
    }

    /// A frame came, without its size.
    pub fn on_frame(
        &mut self,
        connection: ConnectionId,
        frame: &[u8],
        now: Now,
        effects: &mut Effects<Effect>,
    ) {
        let understood = match self.links.on_frame(connection, frame, &mut self.net) {
            Ok(None) => Ok(()),
            Ok(Some((peer, answer))) => self.on_answer(peer, answer, now),
            Err(error) => Err(error),
        };
        // A broker whose answers make no sense is not asked on.
        if let Err(error) = understood {
            self.links.on_trouble(connection, &format!("an answer cannot be understood: {error}"), now);
            self.close_connection(connection, now);
        }
        self.step(now, effects);
    }

    pub(super) fn close_connection(&mut self, connection: ConnectionId, now: Now) {
        let peer = self.links.peer(connection);
        let unanswered = self.links.close(connection, now, &mut self.net);
        self.on_unanswered(peer, unanswered, now);
    }

    /// What was asked gets no answer.
    pub(super) fn on_unanswered(&mut self, peer: Option<Peer>, unanswered: Vec<Asked>, now: Now) {
        if self.coordinator.is_some_and(|id| peer == Some(Peer::Broker(id))) {
            // Another may be it by now.
            self.lose_coordinator();
        }
        for asked in unanswered {
            match asked {
                Asked::Coordinator => self.finding.failed(&self.settings.retry, now, &mut self.chance),
                Asked::Metadata(_) => self.topics.inquiry.failed(&self.settings.retry, now, &mut self.chance),
                Asked::Join(life) => self.on_join_lost(life, now),
                Asked::Sync(life) => self.on_meeting_lost(life, now),
                Asked::Heartbeat(life) => self.on_heartbeat_lost(life, now),
                Asked::ConsumerHeartbeat(life, _) => self.on_consumer_heartbeat_lost(life, now),
                Asked::Leave => self.is_goodbye_asked = false,
                Asked::Commit => self.on_commit_lost(now),
                Asked::Offsets(asked) => self.on_fetch_lost(&asked, now),
            }
        }
    }

    fn on_answer(&mut self, peer: Peer, answer: Answer<'_, Asked>, now: Now) -> Result<(), LinkError> {
        match &answer.about {
            Asked::Coordinator => {
                let (_, said) = self.read::<FindCoordinatorResponse<'_>>(answer, now)?;
                self.links.throttle(peer, now, said.throttle_time_ms);
                self.on_coordinator(&said, now);
            }
            Asked::Metadata(_) => {
                let (about, said) = self.read::<MetadataResponse<'_>>(answer, now)?;
                self.links.throttle(peer, now, said.throttle_time_ms);
                if let Asked::Metadata(need) = about {
                    self.on_metadata(&need, &said, now);
                }
            }
            Asked::Join(life) => {
                let life = *life;
                let (_, said) = self.read::<JoinGroupResponse<'_>>(answer, now)?;
                self.links.throttle(peer, now, said.throttle_time_ms);
                self.on_joined(life, &said, now);
            }
            Asked::Sync(life) => {
                let life = *life;
                let (_, said) = self.read::<SyncGroupResponse<'_>>(answer, now)?;
                self.links.throttle(peer, now, said.throttle_time_ms);
                self.on_synced(life, &said, now);
            }
            Asked::Heartbeat(life) => {
                let life = *life;
                let (_, said) = self.read::<HeartbeatResponse>(answer, now)?;
                self.links.throttle(peer, now, said.throttle_time_ms);
                self.on_heartbeat(life, said, now);
            }
            Asked::ConsumerHeartbeat(..) => {
                let (about, said) = self.read::<ConsumerGroupHeartbeatResponse<'_>>(answer, now)?;
                self.links.throttle(peer, now, said.throttle_time_ms);
                if let Asked::ConsumerHeartbeat(life, saying) = about {
                    self.on_consumer_heartbeat((life, saying), &said, now);
                }
            }
            // Whatever it says, the member is gone.
            Asked::Leave => self.is_goodbye_asked = false,
            Asked::Commit => {
                let (_, said) = self.read::<OffsetCommitResponse<'_>>(answer, now)?;
                self.links.throttle(peer, now, said.throttle_time_ms);
                self.on_committed(&said, now);
            }
            Asked::Offsets(_) => {
                let (about, said) = self.read::<OffsetFetchResponse<'_>>(answer, now)?;
                self.links.throttle(peer, now, said.throttle_time_ms);
                if let Asked::Offsets(asked) = about {
                    self.on_fetched(asked, &said, now);
                }
            }
        }
        Ok(())
    }

    /// Reads an answer; one that cannot be read is none.
    fn read<'f, M: Message<'f>>(
        &mut self,
        answer: Answer<'f, Asked>,
        now: Now,
    ) -> Result<(Asked, M), LinkError> {
        match answer.read::<M>() {
            (about, Ok(said)) => Ok((about, said)),
            (about, Err(error)) => {
                self.on_unanswered(None, vec![about], now);
                Err(error)
            }
        }
    }
}
