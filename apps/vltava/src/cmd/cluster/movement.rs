//! Moves of partitions: shown first, then begun, then followed until they are done.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result, bail};
use base::{BrokerId, ErrorCode};
use client::Admin;
use client::admin::{AdminError, ConfigChange, OngoingReassignment, Resource};
use client::plan::{Move, incoming};
use serde_json::{Value, json};

use super::super::admin::{confirm, say_failures, tell};
use super::limits;
use super::progress::{Copy, TAKEN_BACK, Targets, elsewhere, follow, named, set, spell};
use super::survey::{self, ids};
use crate::failure::Asked;
use crate::output::{Table, size};

/// Keeps new replicas away from brokers, or lets them come again.
pub(super) fn cordon(admin: &Admin, brokers: &[BrokerId], is_cordoned: bool) -> Result<()> {
    let change = || match is_cordoned {
        true => ConfigChange::Set(CORDONED.to_owned(), "*".to_owned()),
        false => ConfigChange::Delete(CORDONED.to_owned()),
    };
    let brokers = brokers.iter().map(|id| (Resource::Broker(*id), vec![change()]));
    for done in admin.alter_configs(brokers).wait() {
        done.context("the brokers could not be told whether they get new replicas")?;
    }
    Ok(())
}

/// How a plan is carried out.
#[derive(clap::Args)]
pub(in crate::cmd) struct Carry {
    /// Do not ask before partitions are moved
    #[arg(long)]
    pub(in crate::cmd) yes: bool,
    /// How many megabytes a second each broker may give away and take in for it
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    throttle: Option<u64>,
}

/// What a plan does not know is reckoned with: half of what one gigabit carries, less than any disk.
const BYTES_PER_SECOND_GUESS: u64 = 60_000_000;
const BYTES_PER_MB: u64 = 1_000_000;
const STILL_LIMITED: &str = "the partitions were moved, but the limit of the copies is still set";
/// Rows of a plan that people read.
const ROWS_MAX: usize = 40;
const CORDONED: &str = "cordoned.log.dirs";

/// A plan, and what is known of how long it takes.
pub(in crate::cmd) struct Plan<'a> {
    pub(in crate::cmd) moves: &'a [Move],
    pub(in crate::cmd) carry: &'a Carry,
    /// Brokers that get nothing new from here on, so that what leaves them does not come back.
    pub(in crate::cmd) drained: &'a [BrokerId],
}

impl Plan<'_> {
    fn bytes(&self) -> u64 {
        incoming(self.moves).values().sum()
    }

    fn bytes_per_second(&self) -> u64 {
        self.carry.throttle.map_or(BYTES_PER_SECOND_GUESS, |mb| mb * BYTES_PER_MB)
    }

    /// Brokers copy side by side: it takes as long as the one that gets most.
    fn seconds(&self) -> u64 {
        let most = incoming(self.moves).values().copied().max().unwrap_or(0);
        most.div_ceil(self.bytes_per_second())
    }

    /// The plan for people.
    pub(in crate::cmd) fn show(&self, out: &mut dyn Write) -> Result<()> {
        let mut table = Table::new(&["partition", "from", "to", "copied to", "size"]);
        for one in self.moves.iter().take(ROWS_MAX) {
            let copies: Vec<BrokerId> = one.copies().collect();
            table.row([
                format!("{}-{}", one.topic, one.partition),
                ids(&one.from),
                ids(&one.to),
                if copies.is_empty() { "nobody".to_owned() } else { ids(&copies) },
                size(one.bytes),
            ]);
        }
        writeln!(out, "{table}")?;
        if let Some(more) = self.moves.len().checked_sub(ROWS_MAX).filter(|more| *more > 0) {
            writeln!(out, "and {more} more, which --json shows")?;
        }
        let partitions = counted(self.moves.len(), "partition");
        if self.bytes() == 0 {
            return Ok(writeln!(out, "{partitions}, nothing to copy")?);
        }
        let rate = size(self.bytes_per_second());
        let (bytes, seconds) = (size(self.bytes()), spell(self.seconds()));
        Ok(writeln!(out, "{partitions}, {bytes} to copy: about {seconds} at {rate}/s into each broker")?)
    }

    pub(in crate::cmd) fn as_json(&self, is_done: bool) -> Value {
        let moves = self.moves.iter().map(|one| {
            json!({
                "topic": one.topic,
                "partition": one.partition.0,
                "from": one.from.iter().map(|id| id.0).collect::<Vec<_>>(),
                "to": one.to.iter().map(|id| id.0).collect::<Vec<_>>(),
                "bytes": one.bytes,
            })
        });
        json!({
            "moves": moves.collect::<Value>(),
            "bytes": self.bytes(),
            "seconds": self.seconds(),
            "done": is_done,
        })
    }

    /// Whether somebody is asked before it is carried out.
    pub(in crate::cmd) fn asks(&self, is_trial: bool) -> bool {
        !is_trial && !self.carry.yes
    }

    /// Asks whether what was shown may be done.
    pub(in crate::cmd) fn confirm(&self) -> Result<()> {
        confirm("Move them?", "this moves partitions between brokers", "nothing was moved")
    }

    /// Asks, moves, and follows it to its end. The plan was shown.
    pub(in crate::cmd) fn carry_out(&self, admin: &Admin) -> Result<()> {
        say_failures(self.carry_out_most(admin)?, Asked::Cluster)
    }

    /// As [`Plan::carry_out`]; what could not be begun fails nothing else. Why it could not.
    pub(super) fn carry_out_most(&self, admin: &Admin) -> Result<Vec<AdminError>> {
        if !self.carry.yes {
            self.confirm()?;
        }
        cordon(admin, self.drained, true)?;
        let rate = self.carry.throttle.map(|mb| mb * BYTES_PER_MB);
        let throttle = rate.map(|rate| limits::set(admin, self.moves, rate)).transpose()?;
        let moves = self.moves.iter().map(|it| (it.topic.clone(), it.partition.0, it.to.clone()));
        let (mut failures, mut targets) = (Vec::new(), Targets::new());
        for (one, begun) in self.moves.iter().zip(admin.reassign(moves).wait()) {
            match begun {
                Ok(()) => drop(targets.insert((one.topic.clone(), one.partition.0), set(&one.to))),
                Err(error) => failures.push(error),
            }
        }
        let copies = self.moves.iter().flat_map(|one| {
            one.copies().map(|broker| Copy {
                partition: (one.topic.clone(), one.partition.0),
                broker,
                bytes: one.bytes,
            })
        });
        follow(admin, &targets, &copies.collect::<Vec<_>>())?;
        if let Some(throttle) = &throttle {
            limits::lift(admin, throttle).context(STILL_LIMITED)?;
        }
        let first = self.moves.iter().filter(|it| it.from.first() != it.to.first());
        // Who cannot lead yet will be asked by the controller.
        let _ = admin.elect_preferred_leaders(first.map(|it| (it.topic.clone(), it.partition.0))).wait();
        if !failures.is_empty() {
            return Ok(failures);
        }
        match elsewhere(admin, &targets)?.as_slice() {
            [] => Ok(failures),
            some => bail!("{} not where it was to be: {TAKEN_BACK}", named(some)),
        }
    }
}

/// Follows what somebody else began, to its end, and lifts its limits then.
pub(super) fn watch(admin: &Admin, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let ongoing = admin.list_reassignments().wait()?;
    if ongoing.is_empty() {
        let nothing = if as_json { "{\n  \"done\": true\n}" } else { "nothing is on its way" };
        return Ok(writeln!(out, "{nothing}")?);
    }
    let target = |it: &OngoingReassignment| {
        let stays = it.replicas.iter().copied().filter(|id| !it.removing.contains(id));
        ((it.topic.clone(), it.partition.0), stays.collect())
    };
    let targets: Targets = ongoing.iter().map(target).collect();
    let survey = survey::Survey::take(admin)?;
    let sizes = survey.placed().into_iter().map(|it| ((it.topic, it.partition.0), it.bytes));
    let sizes: BTreeMap<(String, i32), u64> = sizes.collect();
    let copies = ongoing.iter().flat_map(|it| {
        let partition = (it.topic.clone(), it.partition.0);
        let bytes = sizes.get(&partition).copied().unwrap_or(0);
        it.adding.iter().map(move |broker| Copy { partition: partition.clone(), broker: *broker, bytes })
    });
    follow(admin, &targets, &copies.collect::<Vec<_>>())?;
    limits::lift_left_behind(admin, &ongoing).context(STILL_LIMITED)?;
    let back = elsewhere(admin, &targets)?;
    if as_json {
        return Ok(writeln!(out, "{:#}", json!({ "done": back.is_empty() }))?);
    }
    let moved = targets.len() - back.len();
    if moved > 0 || back.is_empty() {
        writeln!(out, "moved {}", counted(moved, "partition"))?;
    }
    if !back.is_empty() {
        writeln!(out, "{} not where it was to be: {TAKEN_BACK}", named(&back))?;
    }
    Ok(())
}

/// Takes back what is on its way.
pub(super) fn cancel(admin: &Admin, yes: bool, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let ongoing = admin.list_reassignments().wait()?;
    if ongoing.is_empty() {
        let nothing = if as_json { "{\n  \"cancelled\": []\n}" } else { "nothing is on its way" };
        return Ok(writeln!(out, "{nothing}")?);
    }
    if !yes {
        tell((as_json, true), out, |out| Ok(writeln!(out, "{}", ongoing_table(&ongoing))?))?;
        confirm("Take them back?", "this takes back moves of partitions", "they go on moving")?;
    }
    let partitions = ongoing.iter().map(|it| (it.topic.clone(), it.partition.0));
    let Cancelled { taken, arrived, failures } =
        Cancelled::of(&ongoing, admin.cancel_reassignments(partitions).wait());
    limits::lift_left_behind(admin, taken.iter().chain(&arrived).copied())
        .context("the moves were taken back, but the limit of the copies is still set")?;
    if as_json {
        let names = taken.iter().map(|it| json!({ "topic": it.topic, "partition": it.partition.0 }));
        writeln!(out, "{:#}", json!({ "cancelled": names.collect::<Value>() }))?;
    } else {
        writeln!(out, "took back {}", counted(taken.len(), "partition"))?;
    }
    say_failures(failures, Asked::Cluster)
}

/// What came of taking moves back.
struct Cancelled<'a> {
    taken: Vec<&'a OngoingReassignment>,
    /// Those that have arrived since it was looked.
    arrived: Vec<&'a OngoingReassignment>,
    /// Why others go on.
    failures: Vec<AdminError>,
}

impl<'a> Cancelled<'a> {
    fn of(
        ongoing: &'a [OngoingReassignment],
        answers: impl IntoIterator<Item = Result<(), AdminError>>,
    ) -> Self {
        let mut cancelled = Self { taken: Vec::new(), arrived: Vec::new(), failures: Vec::new() };
        for (it, back) in ongoing.iter().zip(answers) {
            match back {
                Ok(()) => cancelled.taken.push(it),
                Err(error) if error.code() == Some(ErrorCode::NoReassignmentInProgress) => {
                    cancelled.arrived.push(it);
                }
                Err(error) => cancelled.failures.push(error),
            }
        }
        cancelled
    }
}

/// So many of them, in words.
pub(in crate::cmd) fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// What is on its way, for people.
pub(super) fn ongoing_table(ongoing: &[OngoingReassignment]) -> Table {
    let mut table = Table::new(&["partition", "replicas", "coming", "going"]);
    for it in ongoing.iter().take(ROWS_MAX) {
        let name = format!("{}-{}", it.topic, it.partition);
        table.row([name, ids(&it.replicas), ids(&it.adding), ids(&it.removing)]);
    }
    table
}

#[cfg(test)]
mod tests {
    use base::PartitionIndex;

    use super::*;

    fn one(from: &[i32], to: &[i32], bytes: u64) -> Move {
        let brokers = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
        let (topic, partition) = ("orders".to_owned(), PartitionIndex(0));
        Move { topic, partition, from: brokers(from), to: brokers(to), bytes }
    }

    #[test]
    fn moves_that_cannot_be_taken_back_are_none_of_those_that_are_over() {
        let on_its_way = |index| OngoingReassignment {
            topic: "orders".to_owned(),
            partition: PartitionIndex(index),
            replicas: vec![BrokerId(1)],
            adding: Vec::new(),
            removing: Vec::new(),
        };
        let refused = |index: i32, code| {
            let what = format!("partition orders-{index}");
            Err(AdminError::Refused { what, code, message: None, may_have_been_done: false })
        };
        let ongoing = [0, 1, 2].map(on_its_way);
        let answers = [
            Ok(()),
            refused(1, ErrorCode::InvalidReplicaAssignment),
            refused(2, ErrorCode::NoReassignmentInProgress),
        ];
        let Cancelled { taken, arrived, failures } = Cancelled::of(&ongoing, answers);
        assert_eq!(taken, [&ongoing[0]]);
        assert_eq!(arrived, [&ongoing[2]]);
        assert_eq!(failures.len(), 1);
        assert_eq!(failures[0].code(), Some(ErrorCode::InvalidReplicaAssignment));
    }

    #[test]
    fn a_plan_says_what_is_copied_where_and_how_long_it_takes() {
        let moves = [one(&[1, 2], &[3, 2], 6_000_000_000), one(&[1, 2], &[2, 1], 7_000)];
        let carry = Carry { yes: false, throttle: None };
        let plan = Plan { moves: &moves, carry: &carry, drained: &[] };
        let mut shown = Vec::new();
        plan.show(&mut shown).expect("it is written to memory");
        let shown = String::from_utf8(shown).expect("it is text");
        let expected = "\
PARTITION  FROM  TO   COPIED TO  SIZE
orders-0   1,2   3,2  3          6.0 GB
orders-0   1,2   2,1  nobody     7.0 kB
2 partitions, 6.0 GB to copy: about 2 min at 60.0 MB/s into each broker
";
        assert_eq!(shown, expected);
        let fast = Carry { yes: false, throttle: Some(600) };
        assert_eq!(Plan { moves: &moves, carry: &fast, drained: &[] }.seconds(), 10);
        assert_eq!(plan.as_json(false)["moves"][0]["to"], json!([3, 2]));
    }
}
