//! How fast moves may copy: what they set for that, and give back at their end.
//!
//! ```text
//!   broker   leader.replication.throttled.rate          bytes a second that it gives ─┐ to and from those
//!            follower.replication.throttled.rate        bytes a second that it takes ─┤ replicas only
//!   topic    leader.replication.throttled.replicas      partition:broker of who gives ┤ that are listed
//!            follower.replication.throttled.replicas    partition:broker of who takes ┘
//! ```
//! The settings are Kafka's, and there is one of each for all who limit something: other moves, other tools, people. So
//! a move lists what nobody had listed, gives a rate to those that had none, and takes away the same. Moves at the same
//! time go by the same rates, and the last of them takes these away.
//!
//! **Invariant:** what was set before a move is set after it, as it was. A rate does not say who set it: that of a broker
//! with several moves at a time, or with one whose limits somebody else lifts ([`Throttle::left_behind`]), goes with the
//! last of them, whoever set it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use base::BrokerId;

use super::Move;
use crate::admin::{ConfigChange, Resource};

/// Settings to be changed, by what has them.
pub type Changes = Vec<(Resource, Vec<ConfigChange>)>;

/// What is limited: that a replica gives records to others, or takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Gives,
    Takes,
}

impl Side {
    const ALL: [Self; 2] = [Self::Gives, Self::Takes];

    const fn rate(self) -> &'static str {
        match self {
            Self::Gives => "leader.replication.throttled.rate",
            Self::Takes => "follower.replication.throttled.rate",
        }
    }

    const fn replicas(self) -> &'static str {
        match self {
            Self::Gives => "leader.replication.throttled.replicas",
            Self::Takes => "follower.replication.throttled.replicas",
        }
    }
}

/// Replicas by topic, each as `partition:broker`; or `*`, for all of the topic.
type Listed = BTreeMap<(String, Side), BTreeSet<String>>;

const ALL: &str = "*";

fn names(listed: &str, broker: BrokerId) -> bool {
    let of = listed.split_once(':').and_then(|(_, of)| of.trim().parse().ok());
    listed == ALL || of == Some(broker.0)
}

/// What limits copies, as far as somebody looked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    rates: BTreeSet<(BrokerId, Side)>,
    listed: Listed,
}

impl Limits {
    /// Takes in a setting that somebody gave a broker or a topic; those that limit no copies mean nothing here.
    pub fn learn(&mut self, of: &Resource, name: &str, value: &str) {
        match of {
            Resource::Broker(id) => {
                let side = Side::ALL.into_iter().find(|side| side.rate() == name);
                self.rates.extend(side.map(|side| (*id, side)));
            }
            Resource::Topic(topic) => {
                let Some(side) = Side::ALL.into_iter().find(|side| side.replicas() == name) else { return };
                let replicas = value.split(',').map(|one| one.trim().to_owned());
                let replicas = replicas.filter(|one| !one.is_empty()).collect();
                self.listed.insert((topic.clone(), side), replicas);
            }
            Resource::AllBrokers
            | Resource::BrokerLogger(_)
            | Resource::ClientMetrics(_)
            | Resource::Group(_) => {}
        }
    }

    fn listed(&self, of: &(String, Side)) -> impl Iterator<Item = &String> {
        self.listed.get(of).into_iter().flatten()
    }

    /// Whether replicas on a broker are listed, besides those.
    fn concern(&self, broker: BrokerId, besides: &[&Listed]) -> bool {
        self.listed.iter().any(|(of, replicas)| {
            let is_besides = |one: &String| {
                besides.iter().any(|listed| listed.get(of).is_some_and(|replicas| replicas.contains(one)))
            };
            replicas.iter().any(|one| names(one, broker) && !is_besides(one))
        })
    }
}

/// What moves set so that they copy no faster than they may.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Throttle {
    /// Replicas that nobody else listed.
    listed: Listed,
    /// Rates that are to be set.
    new: BTreeSet<(BrokerId, Side)>,
    /// Rates that somebody else set.
    known: BTreeSet<(BrokerId, Side)>,
    /// Rates that go, if nobody goes by them any more: the new ones, and those that other moves set.
    lent: BTreeSet<(BrokerId, Side)>,
    /// What was listed before, and did without the new rates.
    before: Listed,
}

impl Throttle {
    /// What these moves need. `found` is what limits copies of their topics and of all that are on their way, and the
    /// brokers; those that are not in `up` copy nothing.
    pub fn of(moves: &[Move], up: &BTreeSet<BrokerId>, found: &Limits) -> Self {
        let mut throttle = Self { before: found.listed.clone(), ..Self::default() };
        for (of, wanted) in wanted(moves) {
            if found.listed(&of).any(|one| one == ALL) {
                continue;
            }
            let new: BTreeSet<String> =
                wanted.into_iter().filter(|one| !found.listed(&of).any(|known| known == one)).collect();
            if !new.is_empty() {
                throttle.listed.insert(of, new);
            }
        }
        let brokers = moves.iter().flat_map(|one| one.from.iter().copied().chain(one.copies()));
        for id in brokers.filter(|id| up.contains(id)).collect::<BTreeSet<_>>() {
            for rate in Side::ALL.map(|side| (id, side)) {
                let is_known = found.rates.contains(&rate);
                let into = if is_known { &mut throttle.known } else { &mut throttle.new };
                into.insert(rate);
                // A rate for which nothing is listed was not set by a move.
                if !is_known || found.concern(id, &[]) {
                    throttle.lent.insert(rate);
                }
            }
        }
        throttle
    }

    /// What somebody set who began these moves, and is not there to lift it. Who did not limit them set nothing.
    pub fn left_behind(moves: &[Move], up: &BTreeSet<BrokerId>, found: &Limits) -> Self {
        let mut throttle = Self::default();
        for (of, wanted) in wanted(moves) {
            let left: BTreeSet<String> =
                found.listed(&of).filter(|one| wanted.contains(*one)).cloned().collect();
            let concerned = up.iter().filter(|id| left.iter().any(|one| names(one, **id)));
            throttle.lent.extend(concerned.flat_map(|id| Side::ALL.map(|side| (*id, side))));
            if !left.is_empty() {
                throttle.listed.insert(of, left);
            }
        }
        throttle
    }

    /// Whether there is nothing to lift.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.lent.is_empty()
    }

    /// The topics to look at again at the end: those whose replicas are listed, and those that had some before.
    pub fn topics(&self) -> BTreeSet<&str> {
        self.listed.keys().chain(self.before.keys()).map(|(topic, _)| &**topic).collect()
    }

    /// Brokers that have a rate already, which holds for these moves, too.
    pub fn slowed(&self) -> BTreeSet<BrokerId> {
        self.known.iter().map(|(id, _)| *id).collect()
    }

    /// What to set for it: first of brokers, so many bytes a second, then of topics.
    pub fn begin(&self, bytes_per_second: u64) -> (Changes, Changes) {
        let rate = bytes_per_second.to_string();
        let rates = self.new.iter().map(|(id, side)| {
            (Resource::Broker(*id), vec![ConfigChange::Set(side.rate().to_owned(), rate.clone())])
        });
        (by_resource(rates), self.edit_lists(ConfigChange::Append))
    }

    /// What to change of topics at the end.
    pub fn unlist(&self) -> Changes {
        self.edit_lists(ConfigChange::Subtract)
    }

    fn edit_lists(&self, edit: fn(String, String) -> ConfigChange) -> Changes {
        let lists = self.listed.iter().map(|((topic, side), own)| {
            let own: Vec<&str> = own.iter().map(String::as_str).collect();
            (Resource::Topic(topic.clone()), vec![edit(side.replicas().to_owned(), own.join(","))])
        });
        by_resource(lists)
    }

    /// What to take away then, seeing what still limits copies of these topics and of those on their way: lists in
    /// which nothing is left, and rates that nobody goes by.
    pub fn clear(&self, found: &Limits) -> Changes {
        let own = self.listed.iter().filter(|(of, own)| found.listed(of).all(|one| own.contains(one)));
        let lists = own.map(|((topic, side), _)| {
            (Resource::Topic(topic.clone()), vec![ConfigChange::Delete(side.replicas().to_owned())])
        });
        let unused = self.lent.iter().filter(|rate| match self.new.contains(rate) {
            true => !found.concern(rate.0, &[&self.listed, &self.before]),
            false => !found.concern(rate.0, &[&self.listed]),
        });
        let rates = unused
            .map(|(id, side)| (Resource::Broker(*id), vec![ConfigChange::Delete(side.rate().to_owned())]));
        by_resource(lists.chain(rates))
    }
}

/// The replicas that moves are about: who has a partition gives, who gets it takes.
fn wanted(moves: &[Move]) -> Listed {
    let mut wanted = Listed::new();
    for one in moves {
        let mut list = |side, id: BrokerId| {
            let of = (one.topic.clone(), side);
            wanted.entry(of).or_default().insert(format!("{}:{id}", one.partition));
        };
        one.from.iter().for_each(|id| list(Side::Gives, *id));
        one.copies().for_each(|id| list(Side::Takes, id));
    }
    wanted
}

/// One entry for each resource, of changes in which those of one stand together.
fn by_resource(changes: impl Iterator<Item = (Resource, Vec<ConfigChange>)>) -> Changes {
    let mut all = Changes::new();
    for (of, changes) in changes {
        match all.last_mut().filter(|(last, _)| *last == of) {
            Some((_, known)) => known.extend(changes),
            None => all.push((of, changes)),
        }
    }
    all
}
