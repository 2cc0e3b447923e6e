//! Something that is asked of the cluster again and again: when it is due.

use std::time::Duration;

use base::Now;

use crate::backoff::Backoff;
use crate::chance::Chance;
use crate::links::{DOUBTED_AFTER, Peer};

/// Questions that are as far apart as this have nothing to do with each other.
const RECENT: Duration = Duration::from_secs(30);

/// A question, of which one is on its way at most.
#[derive(Debug, Default)]
pub(crate) struct Inquiry {
    /// Something is missing or turned out wrong.
    pub(crate) is_wanted: bool,
    pub(crate) is_asked: bool,
    /// It is wanted only since somebody is late with an answer.
    pub(crate) is_for_the_late: bool,
    failures: u32,
    not_before: Duration,
    /// When what is known is too old.
    refresh_at: Option<Duration>,
    /// Who was asked how often, closely one after the other, and when last.
    asked_of: Vec<(Peer, u32)>,
    asked_at: Duration,
}

impl Inquiry {
    /// Whether to ask now.
    pub(crate) fn is_due(&self, now: Now) -> bool {
        let is_old = self.refresh_at.is_some_and(|at| at <= now.elapsed);
        !self.is_asked && (self.is_wanted || is_old) && self.not_before <= now.elapsed
    }

    /// Who was asked how often in a row, and what he said was not enough or turned out wrong. Somebody who is cut off
    /// from the others would say the same for ever.
    pub(crate) fn in_vain(&self, now: Now) -> &[(Peer, u32)] {
        if self.is_wanted && now.elapsed < self.asked_at + RECENT { &self.asked_of } else { &[] }
    }

    /// It is on its way, if there was anybody to ask.
    pub(crate) fn asked(&mut self, of: Option<Peer>, now: Now) {
        self.is_asked = of.is_some();
        let Some(peer) = of else { return };
        let is_counted = self.is_wanted && !std::mem::take(&mut self.is_for_the_late);
        if now.elapsed >= self.asked_at + RECENT {
            self.asked_of.clear();
        }
        self.asked_at = now.elapsed;
        if !is_counted {
            return;
        }
        match self.asked_of.iter_mut().find(|(asked, _)| *asked == peer) {
            Some((_, times)) => *times = times.saturating_add(1),
            None => self.asked_of.push((peer, 1)),
        }
        // Who is asked for the first time is soon asked as often as all others.
        if self.asked_of.iter().all(|&(_, times)| times >= 2 * DOUBTED_AFTER) {
            self.asked_of.iter_mut().for_each(|(_, times)| *times -= DOUBTED_AFTER);
        }
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

    /// Nothing is to be asked any more, until something is wanted again: the answer may turn out wrong.
    pub(crate) fn settled(&mut self) {
        let asked_of = std::mem::take(&mut self.asked_of);
        *self = Self { asked_of, asked_at: self.asked_at, ..Self::default() };
    }
}
