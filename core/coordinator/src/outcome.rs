//! What was decided: who is answered, and what has to be written before.

use std::sync::Arc;
use std::time::Duration;

use base::Offset;

use crate::consumer::ConsumerGroupSettings;
use crate::group_record::Record;
use crate::request::Ticket;
use crate::response::Response;

/// Something to count; metrics are made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// A rebalance began.
    RebalanceBegan(Cause),
    /// A rebalance of a classic group ended: its members may read again.
    Rebalanced {
        /// How many of its members read nothing meanwhile: all but those that rebalance cooperatively and had something.
        members: usize,
        /// How long they stood still, at most.
        took: Duration,
    },
    /// A member of a group of the new protocol has all that it should have, and nothing else.
    Reconciled {
        /// How long after that was decided. It stood still only where it had nothing before.
        took: Duration,
    },
    /// Members that were not heard, or did not join in time, were taken out of their group.
    MembersExpelled(usize),
    /// Offsets that were committed.
    OffsetsCommitted(usize),
    /// Offsets that were forgotten because nobody needed them for long.
    OffsetsExpired(usize),
    /// Offsets that were deleted by request, with their group or with their topic.
    OffsetsDeleted(usize),
}

/// Why a group rebalances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A member is new.
    MemberJoined,
    /// A member wants or can something else.
    MemberChanged,
    /// The leader asked for it: it saw that topics or partitions changed.
    LeaderRejoined,
    /// A member left.
    MemberLeft,
    /// A member was not heard for its session timeout.
    SessionExpired,
    /// A member did not fetch its assignment in time.
    SyncMissed,
    /// The assignment could not be written.
    WriteFailed,
    /// There is something else to read; only the coordinator of a group of the new protocol sees it by itself.
    TopicsChanged,
}

/// What a step decided about one group, before anything of it happens.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Answers that need nothing of this step's to be written.
    pub(crate) replies: Vec<(Ticket, Response)>,
    /// What those answers were read from is committed up to here; [`Offset::ZERO`] if they show nothing that lasts.
    pub(crate) read_to: Offset,
    /// To be written, all or nothing.
    pub(crate) records: Vec<Record>,
    /// Answers that say that the records are committed.
    pub(crate) held: Vec<(Ticket, Response)>,
    /// To be counted at once.
    pub(crate) counts: Vec<Count>,
    /// To be counted if the records are written.
    pub(crate) counts_held: Vec<Count>,
    /// The group whose own record is among them: it has to hear of it if that cannot be written.
    pub(crate) of_group: Option<Arc<str>>,
    /// What the group becomes once they are.
    pub(crate) turn: Option<Turn>,
}

/// A group changes its protocol.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It speaks the new one from here on, and keeps to this; it may be new as well.
    Consumer(Arc<ConsumerGroupSettings>),
    /// It is left with members of the classic protocol.
    Classic,
}

impl Outcome {
    /// Answers.
    pub(crate) fn reply(&mut self, ticket: Ticket, response: Response) {
        self.replies.push((ticket, response));
    }

    /// Answers with what is committed up to `read_to`.
    pub(crate) fn reply_once_committed(&mut self, ticket: Ticket, response: Response, read_to: Offset) {
        self.reply(ticket, response);
        self.read_to = self.read_to.max(read_to);
    }
}
