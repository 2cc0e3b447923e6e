//! Something that is asked of the cluster again and again: when it is due.

use std::time::Duration;

use base::Now;

use crate::backoff::Backoff;
use crate::chance::Chance;
use crate::links::Peer;

/// Who was asked the same so often in a row is doubted: a leader that dies has a successor sooner.
const DOUBTED_AFTER: u32 = 4;
/// Questions that are as far apart as this have nothing to do with each other.
const RECENT: Duration = Duration::from_secs(5);

/// Somebody who was asked.
#[derive(Debug, Clone, Copy)]
struct AskedOf {
    peer: Peer,
    /// How often, closely one after the other.
    times: u32,
    last: Duration,
}

impl AskedOf {
    fn is_recent(self, now: Now) -> bool {
        now.elapsed < self.last + RECENT
    }
}

/// A question, of which one is on its way at most.
#[derive(Debug, Default)]
pub(crate) struct Inquiry {
    /// Something is missing or turned out wrong.
    pub(crate) is_wanted: bool,
    pub(crate) is_asked: bool,
    failures: u32,
    not_before: Duration,
    /// When what is known is too old.
    refresh_at: Option<Duration>,
    /// Who was asked last.
    asked_of: Option<AskedOf>,
}

impl Inquiry {
    /// Whether to ask now.
    pub(crate) fn is_due(&self, now: Now) -> bool {
        let is_old = self.refresh_at.is_some_and(|at| at <= now.elapsed);
        !self.is_asked && (self.is_wanted || is_old) && self.not_before <= now.elapsed
    }

    /// Who is rather not to be asked now: again and again what was heard from there was not enough, or turned out
    /// wrong. Somebody who is cut off from the others would say the same for ever.
    pub(crate) fn doubted(&self, now: Now) -> Option<Peer> {
        let asked = self.asked_of.filter(|asked| self.is_wanted && asked.is_recent(now))?;
        (asked.times >= DOUBTED_AFTER).then_some(asked.peer)
    }

    /// It is on its way, if there was anybody to ask.
    pub(crate) fn asked(&mut self, of: Option<Peer>, now: Now) {
        self.is_asked = of.is_some();
        let Some(peer) = of else { return };
        let before = self.asked_of.filter(|asked| asked.peer == peer && asked.is_recent(now));
        let times = before.map_or(0, |asked| asked.times).saturating_add(1);
        self.asked_of = Some(AskedOf { peer, times, last: now.elapsed });
    }

    /// When it will be, if nothing happens.
    pub(crate) fn deadline(&self, now: Now) -> Option<Duration> {
        if self.is_asked {
            return None;
        }
        let again = self.is_wanted.then_some(self.not_before);
        let at = [again, self.refresh_at.map(|at| at.max(self.not_before))].into_iter().flatten().min();
        // What is due already waits for a connection, which has a deadline of its own.
        at.filter(|&at| at > now.elapsed)
    }

    /// No answer, or one that does not say all: it is asked again after a while.
    pub(crate) fn failed(&mut self, backoff: &Backoff, now: Now, chance: &mut Chance) {
        self.is_asked = false;
        self.is_wanted = true;
        self.failures = self.failures.saturating_add(1);
        self.not_before = now.elapsed + backoff.after(self.failures, chance);
    }

    /// What is known since now is good for so long, or for as long as was said before.
    pub(crate) fn keep_fresh(&mut self, now: Now, age_max: Duration) {
        self.refresh_at.get_or_insert(now.elapsed + age_max);
    }

    /// The answer came, says all, and is good for so long.
    pub(crate) fn answered(&mut self, now: Now, age_max: Duration) {
        self.settled();
        self.refresh_at = Some(now.elapsed + age_max);
    }

    /// Nothing is to be asked any more, until something is wanted again.
    pub(crate) fn settled(&mut self) {
        *self = Self { asked_of: self.asked_of, ..Self::default() };
    }
}
