//! Limits of what moves copy, on a cluster: set before, and lifted when everything has arrived.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use base::{BrokerId, ErrorCode};
use client::Admin;
use client::admin::{ConfigSource, OngoingReassignment, Resource};
use client::plan::Move;
use client::plan::limits::{Changes, Limits, Throttle};

use super::survey::ids;

/// Each topic has some forty settings: a broker does not tell those of all topics of a large cluster at a time.
const TOPICS_AT_A_TIME: usize = 500;

/// Sees to it that these moves copy no more than so many bytes a second into and out of each broker.
pub(super) fn set(admin: &Admin, moves: &[Move], bytes_per_second: u64) -> Result<Throttle> {
    let nothing_moved = "the copies could not be limited, and nothing was moved";
    let up = up(admin)?;
    let topics: BTreeSet<&str> = moves.iter().map(|it| &*it.topic).collect();
    let brokers = moves.iter().flat_map(|it| it.from.iter().copied().chain(it.copies()));
    let brokers: BTreeSet<BrokerId> = brokers.filter(|id| up.contains(id)).collect();
    let found = look(admin, topics, &brokers).context(nothing_moved)?;
    let throttle = Throttle::of(moves, &up, &found);
    let slowed: Vec<BrokerId> = throttle.slowed().into_iter().collect();
    if !slowed.is_empty() {
        let (whose, has) = if slowed.len() == 1 { ("broker", "has") } else { ("brokers", "have") };
        eprintln!("{whose} {} {has} a limit already, which stays, and holds for these copies", ids(&slowed));
    }
    let (of_brokers, of_topics) = throttle.begin(bytes_per_second);
    // A rate that no broker takes must not leave its topics behind with half of it.
    let begun = change(admin, of_brokers).and_then(|()| change(admin, of_topics));
    if let Err(why) = begun {
        // What cannot be taken back either is the lesser of two misfortunes.
        let _ = lift(admin, &throttle);
        return Err(why.context(nothing_moved));
    }
    Ok(throttle)
}

/// Takes away what was set for moves that are done, and nothing else.
pub(super) fn lift(admin: &Admin, throttle: &Throttle) -> Result<()> {
    if throttle.is_empty() {
        return Ok(());
    }
    change(admin, throttle.unlist())?;
    let found = look(admin, throttle.topics(), &BTreeSet::new())?;
    change(admin, throttle.clear(&found))
}

/// Takes away what was set for moves that somebody else began and is not there to end; of those that were not
/// limited, nothing. They are over: what goes on is not to be named.
pub(super) fn lift_left_behind<'a>(
    admin: &Admin,
    over: impl IntoIterator<Item = &'a OngoingReassignment>,
) -> Result<()> {
    let moves: Vec<Move> = over.into_iter().map(as_move).collect();
    let found = look(admin, moves.iter().map(|it| &*it.topic).collect(), &BTreeSet::new())?;
    lift(admin, &Throttle::left_behind(&moves, &up(admin)?, &found))
}

fn as_move(it: &OngoingReassignment) -> Move {
    let without = |others: &[BrokerId]| {
        it.replicas.iter().copied().filter(|id| !others.contains(id)).collect::<Vec<_>>()
    };
    let (from, to) = (without(&it.adding), without(&it.removing));
    Move { topic: it.topic.clone(), partition: it.partition, from, to, bytes: 0 }
}

/// Only a broker that is up copies anything, and only such a one can be asked for its settings.
fn up(admin: &Admin) -> Result<BTreeSet<BrokerId>> {
    let brokers = admin.describe_cluster().wait()?.brokers;
    Ok(brokers.iter().filter(|broker| !broker.is_fenced).map(|broker| broker.id).collect())
}

/// What limits copies of these topics and of all that are on their way; and which of these brokers have a rate.
fn look(admin: &Admin, topics: BTreeSet<&str>, brokers: &BTreeSet<BrokerId>) -> Result<Limits> {
    let ongoing = admin.list_reassignments().wait()?;
    let topics: BTreeSet<&str> = topics.into_iter().chain(ongoing.iter().map(|it| &*it.topic)).collect();
    let topics: Vec<Resource> = topics.into_iter().map(|topic| Resource::Topic(topic.to_owned())).collect();
    let brokers: Vec<Resource> = brokers.iter().map(|id| Resource::Broker(*id)).collect();
    let mut limits = Limits::default();
    for some in topics.chunks(TOPICS_AT_A_TIME).chain([&*brokers]) {
        for (of, settings) in some.iter().zip(admin.describe_configs(some.to_vec()).wait()) {
            let settings = match settings {
                Err(error) if error.code() == Some(ErrorCode::UnknownTopicOrPartition) => continue,
                settings => settings?,
            };
            let own =
                settings.iter().filter(|it| matches!(it.source, ConfigSource::Topic | ConfigSource::Broker));
            own.for_each(|it| limits.learn(of, &it.name, it.value.as_deref().unwrap_or_default()));
        }
    }
    Ok(limits)
}

/// Changes settings; a topic that is gone needs none.
fn change(admin: &Admin, changes: Changes) -> Result<()> {
    for done in admin.alter_configs(changes).wait() {
        match done {
            Err(error) if error.code() == Some(ErrorCode::UnknownTopicOrPartition) => {}
            done => done?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use base::PartitionIndex;

    use super::*;

    #[test]
    fn what_is_on_its_way_is_a_move_of_those_who_come_and_go() {
        let brokers = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect::<Vec<_>>();
        let ongoing = OngoingReassignment {
            topic: "orders".to_owned(),
            partition: PartitionIndex(0),
            replicas: brokers(&[3, 2, 1]),
            adding: brokers(&[3]),
            removing: brokers(&[1]),
        };
        let it = as_move(&ongoing);
        assert_eq!((&it.from, &it.to), (&brokers(&[2, 1]), &brokers(&[3, 2])));
        assert_eq!(it.copies().collect::<Vec<_>>(), brokers(&[3]));
    }
}
