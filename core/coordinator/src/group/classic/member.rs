//! A member of a classic group.

use std::sync::Arc;
use std::time::Duration;

use wire::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};

use crate::request::{Caller, Ticket};

/// How long a member that is new is waited for once it asked to join: it does not say that it lives before it is
/// told that it joined, so a client that went away would stay for ever (Kafka's bound).
pub(super) const NEW_MEMBER_JOIN_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// A member.
#[derive(Debug, Clone)]
pub(super) struct Member {
    /// Its `group.instance.id`, if it is static: it keeps what it has while it is away (KIP-345).
    pub(super) instance: Option<Arc<str>>,
    pub(super) client_id: Arc<str>,
    pub(super) client_host: Arc<str>,
    pub(super) rebalance_timeout: Duration,
    pub(super) session_timeout: Duration,
    /// What it can, in the order of its liking.
    pub(super) protocols: Vec<Protocol>,
    /// What the leader gave it; empty until it did.
    pub(super) assignment: Arc<[u8]>,
    /// When it is taken out unless it is heard before.
    pub(super) session_due: Duration,
    /// Whether it has never been told that it joined.
    pub(super) is_new: bool,
    /// It has asked to be in the next generation.
    pub(super) joining: Option<Joining>,
    /// It waits for its assignment.
    pub(super) syncing: Option<Ticket>,
    /// Whether it asked for its assignment in this generation.
    pub(super) has_synced: bool,
    /// A generation began without it since it joined last: what it takes for its own may be another's.
    pub(super) was_passed_over: bool,
}

/// A protocol that a member can.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Protocol {
    pub(super) name: Arc<str>,
    /// What the member says of itself in it.
    pub(super) metadata: Arc<[u8]>,
}

/// A member asked to be in the next generation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joining {
    /// Who is answered; `None` once its connection is gone.
    pub(super) ticket: Option<Ticket>,
}

impl Member {
    /// A member that asks to join for the first time.
    pub(super) fn new(
        now: Duration,
        ticket: Ticket,
        caller: &Caller<'_>,
        asks: &JoinGroupRequest<'_>,
    ) -> Self {
        let mut member = Self {
            instance: asks.group_instance_id.map(Arc::from),
            client_id: caller.client_id.into(),
            client_host: caller.client_host.into(),
            rebalance_timeout: Duration::ZERO,
            session_timeout: Duration::ZERO,
            protocols: Vec::new(),
            assignment: Arc::default(),
            session_due: now + NEW_MEMBER_JOIN_TIMEOUT,
            is_new: true,
            joining: None,
            syncing: None,
            has_synced: false,
            was_passed_over: false,
        };
        member.update(ticket, asks);
        member
    }

    /// It asks to join, with what it can by now.
    pub(super) fn update(&mut self, ticket: Ticket, asks: &JoinGroupRequest<'_>) {
        self.session_timeout = millis(asks.session_timeout_ms);
        // Version 0 has one time for both.
        self.rebalance_timeout = match asks.rebalance_timeout_ms {
            ..0 => self.session_timeout,
            timeout => millis(timeout),
        };
        let protocol = |it: &JoinGroupRequestProtocol<'_>| Protocol {
            name: it.name.into(),
            metadata: it.metadata.into(),
        };
        self.protocols = asks.protocols.iter().map(protocol).collect();
        self.joining = Some(Joining { ticket: Some(ticket) });
    }

    /// It is heard.
    pub(super) fn touch(&mut self, now: Duration) {
        self.session_due = now + self.session_timeout;
    }

    /// Whether it says the same of itself as when it was asked last.
    pub(super) fn matches(&self, protocols: &[JoinGroupRequestProtocol<'_>]) -> bool {
        self.protocols.len() == protocols.len()
            && self
                .protocols
                .iter()
                .zip(protocols)
                .all(|(a, b)| *a.name == *b.name && *a.metadata == *b.metadata)
    }

    /// Whether its connection went away while it waited to be told that it joined.
    pub(super) fn has_hung_up(&self) -> bool {
        self.joining.is_some_and(|joining| joining.ticket.is_none())
    }

    /// What it says of itself in a protocol.
    pub(super) fn metadata(&self, protocol: &str) -> Option<&Arc<[u8]>> {
        self.protocols.iter().find(|it| *it.name == *protocol).map(|it| &it.metadata)
    }

    /// When it is taken out; `None` while it waits for an answer of ours.
    pub(super) fn session_ends(&self) -> Option<Duration> {
        let waits = self.joining.is_some_and(|joining| joining.ticket.is_some()) && !self.is_new;
        (!waits && self.syncing.is_none()).then_some(self.session_due)
    }
}

/// A time that a client said; below zero it is none.
pub(super) fn millis(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
