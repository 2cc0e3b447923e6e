//! Replies that wait until what they say is committed.
//!
//! They leave in the order in which they were written, so the first is always the one that waits for least. There are as
//! many as requests on their way, which connections bound.
//!
//! What was decided meanwhile is not committed, but it is what the next requests are answered by: a member that was
//! taken out, replaced, or left behind in a generation while it waited would read what is given to others already.
//! Kafka answers it when that happens; here it is found out when its turn comes.

use std::time::Duration;

use base::{Effects, ErrorCode, Now, Offset};

use super::{Effect, Shard};
use crate::group::GroupKind;
use crate::request::Ticket;
use crate::response::{Response, SyncedGroup};

/// A reply that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The high watermark that lets it go.
    pub(super) until: Offset,
    /// When it is given up.
    pub(super) due: Duration,
    pub(super) ticket: Ticket,
    pub(super) response: Response,
}

impl Shard {
    /// Answers once the log is committed up to `until`, if that is within the time since when it waits.
    pub(super) fn reply_once(
        &mut self,
        since: Duration,
        until: Offset,
        ticket: Ticket,
        response: Response,
        out: &mut Effects<Effect>,
    ) {
        if until <= self.committed {
            return out.push(Effect::Reply { ticket, response });
        }
        let until = self.waiting.back().map_or(until, |last| last.until.max(until));
        let due = since + self.settings.commit_timeout;
        self.waiting.push_back(Waiting { until, due, ticket, response });
    }

    /// Answers those whose records are committed.
    pub(super) fn answer_committed(&mut self, out: &mut Effects<Effect>) {
        while let Some(first) = self.waiting.pop_front_if(|first| first.until <= self.committed) {
            let response = match self.check_assigned(&first.response) {
                Ok(()) => first.response,
                Err(error) => first.response.failed(error),
            };
            out.push(Effect::Reply { ticket: first.ticket, response });
        }
    }

    /// Whether an assignment is still that of the member that is to have it. In a group that speaks the new protocol,
    /// too, a member catches up from epoch to epoch: there it has to be a member.
    fn check_assigned(&self, response: &Response) -> Result<(), ErrorCode> {
        let Response::SyncGroup(SyncedGroup { assignee: Some(of), .. }) = response else { return Ok(()) };
        match self.groups.get(&of.group).map(|group| &group.kind) {
            Some(GroupKind::Classic(classic)) => classic.check_assignee(of),
            Some(kind) if kind.has_member(&of.member_id) => Ok(()),
            Some(GroupKind::Consumer(_)) | None => Err(ErrorCode::UnknownMemberId),
        }
    }

    /// About how many bytes the answer takes that was made last, if it is this one's and waits.
    pub fn bytes_waiting(&self, ticket: Ticket) -> usize {
        let waiting = self.waiting.back().map(|last| (last.ticket, &last.response));
        let gathered = self.gathered.held.last().map(|(ticket, response)| (*ticket, response));
        let of = |last: Option<(Ticket, &Response)>| {
            last.filter(|(it, _)| *it == ticket).map(|(_, it)| it.bytes())
        };
        of(waiting).or(of(gathered)).unwrap_or(0)
    }

    /// Tells those who waited for too long. What they asked for may still come to be.
    pub(super) fn give_up_waiting(&mut self, now: Now, out: &mut Effects<Effect>) {
        while let Some(first) = self.waiting.pop_front_if(|first| first.due <= now.elapsed) {
            let response = first.response.failed(ErrorCode::CoordinatorNotAvailable);
            out.push(Effect::Reply { ticket: first.ticket, response });
        }
    }
}
