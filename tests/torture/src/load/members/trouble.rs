//! What is done to a member that goes on living: it is stopped, or cut off, most often for longer than its
//! session lasts. When it goes on, its partitions are another's, and it does not know.

use std::time::Duration;

use anyhow::Result;
use e2e::Chance;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::history::{Away, Event, History};
use crate::net::{Cable, Way};

/// One member of so many has trouble.
const ONE_IN: u64 = 3;
/// When it comes, from the beginning of a life.
const AFTER_MS: std::ops::Range<u64> = 1_500..8_000;
/// A session lasts 6 s.
const LASTS_MS: std::ops::Range<u64> = 2_000..16_000;

/// Who has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Victim<'a> {
    pub(super) who: u32,
    pub(super) process: Pid,
    pub(super) cable: &'a Cable,
    pub(super) history: &'a History,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Stop,
    Cut(Way),
}

/// What happens to one member, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// Nothing if there is none, or it is over.
    kind: Option<Kind>,
    after: Duration,
    lasts: Duration,
    goes_on: bool,
}

impl Trouble {
    /// What the next member has; most have none.
    pub(super) fn draw(chance: &mut Chance) -> Self {
        let kinds = [Kind::Stop, Kind::Stop, Kind::Cut(Way::Both), Kind::Cut(Way::In), Kind::Cut(Way::Out)];
        let kind = *chance.one_of(&kinds);
        let after = Duration::from_millis(chance.pick(AFTER_MS));
        let lasts = Duration::from_millis(chance.pick(LASTS_MS));
        Self { kind: chance.one_in(ONE_IN).then_some(kind), after, lasts, goes_on: false }
    }

    /// Begins it and ends it when it is time. When all is calm it is over.
    pub(super) fn keep(&mut self, victim: &Victim<'_>, lived: Duration, is_calm: bool) -> Result<()> {
        if is_calm || lived >= self.after + self.lasts {
            self.end(victim)
        } else if lived >= self.after && !self.goes_on {
            self.begin(victim)
        } else {
            Ok(())
        }
    }

    fn begin(&mut self, victim: &Victim<'_>) -> Result<()> {
        let Some(kind) = self.kind else { return Ok(()) };
        self.goes_on = true;
        // Before it is so: what it was told until now, it was told in time.
        victim.history.push(Event::Away { who: victim.who, why: kind.away() });
        match kind {
            Kind::Stop => signal(victim.process, Signal::STOP),
            Kind::Cut(way) => victim.cable.cut(way),
        }
    }

    /// Lets it go on.
    pub(super) fn end(&mut self, victim: &Victim<'_>) -> Result<()> {
        let Some(kind) = self.kind.take().filter(|_| self.goes_on) else { return Ok(()) };
        match kind {
            Kind::Stop => signal(victim.process, Signal::CONT)?,
            Kind::Cut(_) => victim.cable.mend()?,
        }
        victim.history.push(Event::Back { who: victim.who });
        Ok(())
    }

    /// It is told to leave: so it must not be stopped, but it may be cut off.
    pub(super) fn let_leave(&mut self, victim: &Victim<'_>) -> Result<()> {
        if self.kind == Some(Kind::Stop) { self.end(victim) } else { Ok(()) }
    }

    /// Its process is gone; its cable is the next one's.
    pub(super) fn survive(self, victim: &Victim<'_>) -> Result<()> {
        if let (Some(kind), true) = (self.kind, self.goes_on) {
            if matches!(kind, Kind::Cut(_)) {
                victim.cable.mend()?;
            }
            victim.history.push(Event::Back { who: victim.who });
        }
        Ok(())
    }
}

impl Kind {
    const fn away(self) -> Away {
        match self {
            Self::Stop => Away::Stopped,
            Self::Cut(_) => Away::CutOff,
        }
    }
}

/// Sends a signal to a process that was not waited for yet.
pub(super) fn signal(process: Pid, signal: Signal) -> Result<()> {
    match kill_process(process, signal) {
        // It has ended: what comes of that is its place's to say.
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(why) => Err(why.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_have_trouble_and_most_of_it_outlasts_a_session() {
        let mut chance = Chance::new(7);
        let drawn: Vec<_> = (0..600).map(|_| Trouble::draw(&mut chance)).collect();
        let had: Vec<_> = drawn.iter().filter(|trouble| trouble.kind.is_some()).collect();
        assert!((150..250).contains(&had.len()), "{}", had.len());
        let long = had.iter().filter(|trouble| trouble.lasts > Duration::from_secs(7)).count();
        assert!(long * 2 > had.len(), "{long} of {}", had.len());
        for way in [Way::Both, Way::In, Way::Out] {
            assert!(had.iter().any(|trouble| trouble.kind == Some(Kind::Cut(way))), "{way:?}");
        }
    }
}
