//! How far partitions on their way are, and nodes that are to vote, and where partitions have arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal};
use std::process;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base::{BrokerId, Uuid};
use client::Admin;
use client::admin::{NewVoter, QuorumDescription};

use super::survey;
use crate::interrupt;
use crate::output::size;

/// From one look to the next.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// From one line to the next where they are not written over.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// The broker that is asked may hear a moment later than another that partitions have arrived.
const HEARD_MAX: Duration = Duration::from_secs(3);
const HEAR_AGAIN: Duration = Duration::from_millis(50);
/// Names of partitions in one sentence.
const NAMES_MAX: usize = 40;

/// A replica that is on its way.
pub(super) struct Copy {
    pub(super) partition: (String, i32),
    pub(super) broker: BrokerId,
    /// How large it will be; 0 if that is not known.
    pub(super) bytes: u64,
}

/// Partitions on their way, and who is to have each of them.
pub(super) type Targets = BTreeMap<(String, i32), BTreeSet<BrokerId>>;

pub(super) fn set(brokers: &[BrokerId]) -> BTreeSet<BrokerId> {
    brokers.iter().copied().collect()
}

/// Shows how far these are until none of them is on its way any more. Ctrl-C leaves them going.
pub(super) fn follow(admin: &Admin, targets: &Targets, copies: &[Copy]) -> Result<()> {
    let (tell, interrupted) = channel();
    interrupt::on_first(move || {
        // Whoever does not listen any more is done.
        let _ = tell.send(());
    })?;
    let (began, mut had_first) = (Instant::now(), None);
    let mut line = Line::new();
    loop {
        let ongoing =
            admin.list_reassignments().wait().context("the partitions may still be on their way")?;
        let left: BTreeSet<(String, i32)> =
            ongoing.into_iter().map(|it| (it.topic, it.partition.0)).collect();
        let left: BTreeSet<&(String, i32)> = targets.keys().filter(|it| left.contains(it)).collect();
        if left.is_empty() {
            return Ok(());
        }
        if line.is_due() {
            let had = copied(admin, &left, copies);
            let total = copies.iter().map(|copy| copy.bytes).sum();
            let counts = (targets.len() - left.len(), targets.len());
            let had_first = *had_first.get_or_insert(had);
            line.show(&progress(counts, (had_first, had, total), began.elapsed()));
        }
        if interrupted.recv_timeout(LOOK_INTERVAL).is_ok() {
            line.end();
            eprintln!("{LEFT_GOING}");
            process::exit(interrupt::EXIT_CODE);
        }
    }
}

pub(super) const TAKEN_BACK: &str = "\
somebody took the move back, or sent it elsewhere; `vltava topic describe` shows where it is";
const LEFT_GOING: &str = "\
the partitions go on moving; `vltava cluster status` and `vltava cluster watch` show how far they are,
`vltava cluster cancel` takes back what is not done";

/// Has a node vote, and shows how far it is behind until it does.
pub(super) fn vote(admin: &Admin, voter: NewVoter) -> Result<()> {
    let (id, directory) = (voter.id, voter.directory);
    let added = admin.add_voter(voter);
    let (tell, done) = channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            // Whoever does not listen any more has failed elsewhere.
            let _ = tell.send(added.wait());
        });
        let (began, mut lag_first) = (Instant::now(), None);
        let mut line = Line::new();
        loop {
            match done.recv_timeout(LOOK_INTERVAL) {
                Ok(added) => return Ok(added?),
                Err(RecvTimeoutError::Disconnected) => bail!("nothing is known of what became of it"),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if !line.is_due() {
                continue;
            }
            // Nobody may lead just now.
            let Ok(quorum) = admin.describe_quorum().wait() else { continue };
            let lag = lag(&quorum, (id, directory)).unwrap_or(0);
            let lag_first = *lag_first.get_or_insert(lag);
            line.show(&behind(id, (lag_first, lag), began.elapsed()));
        }
    })
}

/// How many of the committed records a node lacks; `None` if it does not follow.
pub(super) fn lag(quorum: &QuorumDescription, (id, directory): (BrokerId, Uuid)) -> Option<u64> {
    let mut all = quorum.voters.iter().chain(&quorum.observers);
    let node = all.find(|it| it.id == id && it.directory == directory);
    node.map(|node| (quorum.high_watermark.0 - node.log_end.0).max(0) as u64)
}

/// In words, when a node that lacks so many records has them, as fast as it gets them now.
pub(super) fn when_caught_up(admin: &Admin, node: (BrokerId, Uuid), lag_first: u64) -> String {
    let began = Instant::now();
    if lag_first > 0 {
        // How fast it is shows only in time: there is no event to wait for.
        thread::sleep(LOOK_INTERVAL);
    }
    // Nobody may lead just now: then it did not come nearer.
    let lag = admin.describe_quorum().wait().ok().and_then(|quorum| lag(&quorum, node));
    when((lag_first, lag.unwrap_or(lag_first)), began.elapsed())
}

fn when((lag_first, lag): (u64, u64), elapsed: Duration) -> String {
    if lag == 0 {
        return "at once".to_owned();
    }
    format!("in {}", left(lag, lag_first.saturating_sub(lag) as f64 / elapsed.as_secs_f64()))
}

fn behind(id: BrokerId, (lag_first, lag): (u64, u64), elapsed: Duration) -> String {
    let left = left(lag, lag_first.saturating_sub(lag) as f64 / elapsed.as_secs_f64().max(0.1));
    format!("node {id} is {lag} records behind, {left} left")
}

/// How many bytes of the copies are there. Of a broker that does not say, nothing is.
fn copied(admin: &Admin, left: &BTreeSet<&(String, i32)>, copies: &[Copy]) -> u64 {
    let brokers: BTreeSet<BrokerId> = copies.iter().map(|copy| copy.broker).collect();
    let (disks, _) = survey::disks(admin, &brokers.into_iter().collect::<Vec<_>>());
    let had = |copy: &Copy| {
        if !left.contains(&copy.partition) {
            return copy.bytes;
        }
        let there = disks.get(&copy.broker).and_then(|disks| disks.replicas.get(&copy.partition));
        there.map_or(0, |bytes| (*bytes).min(copy.bytes))
    };
    copies.iter().map(had).sum()
}

/// What was there at first was copied before anybody looked how fast.
fn progress(
    (done, count): (usize, usize),
    (had_first, had, total): (u64, u64, u64),
    elapsed: Duration,
) -> String {
    let rate = had.saturating_sub(had_first) as f64 / elapsed.as_secs_f64().max(0.1);
    let left = left(total.saturating_sub(had), rate);
    let (had, total, rate) = (size(had), size(total), size(rate as u64));
    format!("{done} of {count} partitions done, {had} of {total} copied, {rate}/s, {left} left")
}

/// How long what is missing will take at a rate of as much a second.
fn left(missing: u64, rate: f64) -> String {
    if rate < 1.0 { "some time".to_owned() } else { spell((missing as f64 / rate).ceil() as u64) }
}

/// Those that are not where they were to be, although they are not on their way any more. A topic that was deleted
/// is where it should be.
pub(super) fn elsewhere(admin: &Admin, targets: &Targets) -> Result<Vec<(String, i32)>> {
    let until = Instant::now() + HEARD_MAX;
    loop {
        let mut placed: Targets = BTreeMap::new();
        for topic in admin.list_topics().wait()? {
            let of = topic.partitions.iter();
            placed.extend(of.map(|it| ((topic.name.clone(), it.index.0), set(&it.replicas))));
        }
        let is_elsewhere = |(partition, to): &(&(String, i32), &BTreeSet<BrokerId>)| {
            placed.get(*partition).is_some_and(|has| has != *to)
        };
        let found: Vec<_> = targets.iter().filter(is_elsewhere).map(|(it, _)| it.clone()).collect();
        if found.is_empty() || Instant::now() >= until {
            return Ok(found);
        }
        thread::sleep(HEAR_AGAIN);
    }
}

/// Partitions in words, with their verb.
pub(super) fn named(partitions: &[(String, i32)]) -> String {
    let names: Vec<String> =
        partitions.iter().take(NAMES_MAX).map(|(topic, partition)| format!("{topic}-{partition}")).collect();
    let more = partitions.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let verb = if partitions.len() == 1 { "is" } else { "are" };
    format!("{}{more} {verb}", names.join(", "))
}

/// A line on the terminal that is written over again and again. Elsewhere each is a line of its own, now and then.
struct Line {
    is_terminal: bool,
    is_shown: bool,
    next: Instant,
}

impl Line {
    fn new() -> Self {
        let is_terminal = io::stderr().is_terminal();
        let first = if is_terminal { Duration::ZERO } else { LINE_INTERVAL };
        Self { is_terminal, is_shown: false, next: Instant::now() + first }
    }

    fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    fn show(&mut self, text: &str) {
        if self.is_terminal {
            self.is_shown = true;
            eprint!("\r\x1b[K{text}");
        } else {
            self.next = Instant::now() + LINE_INTERVAL;
            eprintln!("{text}");
        }
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            eprint!("\r\x1b[K");
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.end();
    }
}

/// A time in words.
pub(super) fn spell(seconds: u64) -> String {
    match seconds {
        0..=90 => format!("{seconds} s"),
        91..=5400 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_words() {
        let said = progress((1, 3), (0, 2_000_000, 6_000_000), Duration::from_secs(2));
        assert_eq!(said, "1 of 3 partitions done, 2.0 MB of 6.0 MB copied, 1.0 MB/s, 4 s left");
        let came_late = progress((1, 3), (1_000_000, 2_000_000, 6_000_000), Duration::from_secs(2));
        assert!(came_late.ends_with("2.0 MB of 6.0 MB copied, 500.0 kB/s, 8 s left"), "{came_late}");
        let said = progress((0, 3), (0, 0, 6_000_000), Duration::ZERO);
        assert!(said.ends_with("some time left"), "{said}");
        let said = behind(BrokerId(4), (9_000, 3_000), Duration::from_secs(2));
        assert_eq!(said, "node 4 is 3000 records behind, 1 s left");
        assert_eq!(when((9_000, 3_000), Duration::from_secs(2)), "in 1 s");
        assert_eq!(when((9_000, 9_000), Duration::from_secs(2)), "in some time");
        assert_eq!(when((9_000, 0), Duration::from_secs(2)), "at once");
        assert_eq!((spell(90), spell(91), spell(7300)), ("90 s".into(), "2 min".into(), "2 h 1 min".into()));
    }
}
