//! `vltava group reset-offsets`.

mod place; // what the command line can say
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use anyhow::{Context, Result, bail};
use base::{ErrorCode, PartitionIndex, TopicName, TopicPartition};
use client::Admin;
use client::admin::{AdminError, GroupDescription, OffsetAndMetadata, Topic};
use serde_json::{Value, json};

use super::{describe_one, host, logs, say_failures};
use crate::cmd::admin::confirm;
use crate::cmd::cluster::movement::counted;
use place::{Place, Wanted, wanted};
use plan::{Goal, Move, plan, table};

/// Set how far a group came: back, to read again, or forward
#[derive(clap::Args)]
#[command(after_help = "\
The group must have no members: stop them first. What is going to be done is shown before it is done.
Where an offset is asked for that a log does not have, the nearest that it has is taken.

Examples:
  vltava group reset-offsets billing --topic orders --to-earliest --dry-run
  vltava group reset-offsets billing --topic orders:0,3 --to-offset 4711
  vltava group reset-offsets billing --all-topics --to-datetime 2026-11-22T18:00:00Z
  vltava group reset-offsets billing --all-topics --by-duration 2h --yes
  vltava group reset-offsets billing --topic orders --shift-by -100
  vltava group reset-offsets billing --from-file offsets.csv      lines of TOPIC,PARTITION,OFFSET")]
pub(super) struct Arguments {
    /// Which group
    name: String,
    /// A topic, or some partitions of it. Can be given several times
    #[arg(
        long = "topic",
        value_name = "TOPIC[:PARTITION,…]",
        value_parser = wanted,
        required_unless_present_any = ["all_topics", "from_file"]
    )]
    topics: Vec<Wanted>,
    /// Every partition of which the group has committed something
    #[arg(long, conflicts_with = "topics")]
    all_topics: bool,
    #[command(flatten)]
    place: Place,
    /// The group need not be there: it comes to be, with these offsets
    #[arg(long)]
    create: bool,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(admin: &Admin, arguments: &Arguments, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let Arguments { name, create, dry_run, yes, .. } = arguments;
    match describe_one(admin, name) {
        Ok(group) => nobody_is_in(&group)?,
        Err(error) if is_not_there(&error) && *create => {}
        Err(error) if is_not_there(&error) => bail!(
            "group {name}: there is no such group\n  `vltava group list` shows the groups there are; --create makes one that has these offsets"
        ),
        Err(error) => return Err(error.into()),
    }
    let committed = match admin.list_group_offsets([name]).wait().remove(0) {
        Err(error) if is_not_there(&error) => BTreeMap::new(),
        committed => committed?,
    };
    let goals = goals(admin, arguments, &committed)?;
    let logs = logs::find(admin, &goals.keys().cloned().collect());
    let moves = plan(admin, &goals, &committed, &logs)?;
    let chosen: Vec<&Move> = moves.iter().filter(|it| it.to.is_some()).collect();
    if !as_json {
        writeln!(out, "{}", table(&moves))?;
        out.flush()?;
    }
    if chosen.is_empty() {
        bail!("group {name}: there is nothing to set");
    }
    if !dry_run && !yes {
        let partitions = counted(chosen.len(), "partition");
        let question = format!("Set the offsets of {partitions} of group {name}?");
        confirm(&question, "this sets committed offsets", "nothing was set")?;
    }
    let failures = if *dry_run { Vec::new() } else { set(admin, name, &chosen) };
    if as_json {
        let moves = moves.iter().map(Move::as_value).collect::<Value>();
        let done = !dry_run && failures.is_empty();
        writeln!(out, "{:#}", json!({ "group": name, "done": done, "partitions": moves }))?;
    } else if !dry_run {
        let set = counted(chosen.len() - failures.len(), "partition");
        writeln!(out, "set the offsets of {set} of group {name}")?;
    }
    say_failures(failures)
}

/// What could not be set.
fn set(admin: &Admin, group: &str, chosen: &[&Move]) -> Vec<AdminError> {
    let offsets = chosen.iter().filter_map(|it| {
        let to = OffsetAndMetadata::at(it.to?);
        Some((it.of.topic.to_string(), it.of.partition.0, to))
    });
    admin.alter_group_offsets(group, offsets).wait().into_iter().filter_map(Result::err).collect()
}

fn is_not_there(error: &AdminError) -> bool {
    error.code() == Some(ErrorCode::GroupIdNotFound)
}

/// Who reads would commit over what is set, and be where it was.
fn nobody_is_in(group: &GroupDescription) -> Result<()> {
    const NAMED_MAX: usize = 5;
    if group.members.is_empty() {
        return Ok(());
    }
    let name = |place: usize| {
        let member = &group.members[place];
        format!("{} at {}", member.client_id, host(&member.host))
    };
    let named: Vec<String> = (0..group.members.len().min(NAMED_MAX)).map(name).collect();
    let more = match group.members.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (id, members) = (&group.group_id, counted(group.members.len(), "member"));
    let named = named.join(", ");
    bail!(
        "group {id} has {members}: {named}{more}\n  stop them first, or they commit over it; `vltava group members {id}` shows all of them"
    )
}

/// What is to be set where.
fn goals(
    admin: &Admin,
    arguments: &Arguments,
    committed: &BTreeMap<TopicPartition, OffsetAndMetadata>,
) -> Result<BTreeMap<TopicPartition, Goal>> {
    if let Some(path) = &arguments.place.from_file {
        let where_ = || format!("{}", path.display());
        let text = std::fs::read_to_string(path).with_context(where_)?;
        return place::read_file(&text).with_context(where_);
    }
    let goal = arguments.place.goal()?;
    if arguments.all_topics {
        if committed.is_empty() {
            bail!("group {} has committed nothing: name topics with --topic", arguments.name);
        }
        return Ok(committed.keys().map(|of| (of.clone(), goal)).collect());
    }
    let mut goals = BTreeMap::new();
    let described = admin.describe_topics(arguments.topics.iter().map(|wanted| &*wanted.topic)).wait();
    for (wanted, topic) in arguments.topics.iter().zip(described) {
        goals.extend(partitions_of(&topic?, &wanted.partitions)?.into_iter().map(|of| (of, goal)));
    }
    Ok(goals)
}

/// The partitions of a topic: those chosen, or all. Each must be there.
fn partitions_of(topic: &Topic, chosen: &BTreeSet<i32>) -> Result<Vec<TopicPartition>> {
    let name = TopicName::new(&topic.name)?;
    let all: BTreeSet<i32> = topic.partitions.iter().map(|partition| partition.index.0).collect();
    if let Some(index) = chosen.difference(&all).next() {
        bail!("topic {name} has {}, and no partition {index}", counted(all.len(), "partition"));
    }
    let chosen = if chosen.is_empty() { &all } else { chosen };
    let of = |&index: &i32| TopicPartition { topic: name.clone(), partition: PartitionIndex(index) };
    Ok(chosen.iter().map(of).collect())
}
