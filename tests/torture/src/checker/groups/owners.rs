//! Who owned a partition, by the members' own words.

/// How a member's ownership ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It was asked for it, and gave it back.
    Revoked,
    /// The same, but it was away meanwhile: it may have been asked long before.
    RevokedLate,
    /// It was told that it is another's.
    Lost,
    /// It left: whether the group still knew it, it cannot know.
    Left,
    /// Its process ended.
    Gone,
}

/// Which of the times that a partition was given to somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GrantId(usize);

/// A partition was given to a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) who: u32,
    pub(super) at: u64,
    is_open: bool,
    /// The group took it for the owner afterwards. One that was out of touch may have been told late what was
    /// not so any more.
    pub(super) is_proved: bool,
}

/// A partition of a group.
#[derive(Debug, Default)]
pub(super) struct Owners {
    grants: Vec<Grant>,
}

impl Owners {
    pub(super) fn give(&mut self, who: u32, at: u64) {
        // Who has it already has had it all the time.
        if self.held(who).is_none() {
            self.grants.push(Grant { who, at, is_open: true, is_proved: false });
        }
    }

    /// The member's, if it believes to be the owner.
    pub(super) fn held(&self, who: u32) -> Option<GrantId> {
        self.grants.iter().rposition(|grant| grant.is_open && grant.who == who).map(GrantId)
    }

    pub(super) fn get(&self, id: GrantId) -> Grant {
        self.grants[id.0]
    }

    /// The last after this one that was another's.
    pub(super) fn after(&self, id: GrantId) -> Option<GrantId> {
        let who = self.grants[id.0].who;
        let last = self.grants.iter().rposition(|grant| grant.who != who)?;
        (last > id.0).then_some(GrantId(last))
    }

    pub(super) fn prove(&mut self, id: GrantId) {
        self.grants[id.0].is_proved = true;
    }

    pub(super) fn end(&mut self, id: GrantId, end: End) {
        let grant = &mut self.grants[id.0];
        grant.is_open = false;
        grant.is_proved |= end == End::Revoked;
    }
}
