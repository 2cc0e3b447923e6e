//! Frames that do not pass.
//!
//! ```text
//!   isolated      b1 ╳ all              bridge     b1 ╳ controller, b1 ── followers ── controller
//!   one way       b1 ─▶ all, b1 ╳◀ all  in two     b1 b2 ╳ b3 b4 b5
//!   brokers only  b1 ╳ brokers, b1 ── clients      ring: each sees its neighbours
//! ```

use anyhow::Result;
use e2e::Chance;

use super::{Heal, names};
use crate::cluster::Cluster;
use crate::net::{Place, Rule, RulesId, between};

/// Frames of a hundred.
const LOST_MAX: u64 = 30;

pub(super) fn begin(cluster: &mut Cluster, nodes: &[i32], chance: &mut Chance) -> Result<(String, Heal)> {
    let count = cluster.nodes().len() as i32;
    let one = nodes[0];
    let (what, rules) = match chance.pick(0..if count > 1 { 7 } else { 3 }) {
        0 => (format!("b{one} sees nobody"), everything(one, count, true)),
        1 => (format!("b{one} hears nobody"), one_way(one, count, false)),
        2 => (format!("nobody hears b{one}"), one_way(one, count, true)),
        3 => (format!("b{one} sees no broker, but clients"), everything(one, count, false)),
        4 => {
            let controller = cluster.controller().unwrap_or(one);
            if controller == one {
                (format!("b{one} sees no broker, but clients"), everything(one, count, false))
            } else {
                let rules = between(Place::Node(one), Place::Node(controller)).to_vec();
                (format!("b{one} does not see the controller b{controller}"), rules)
            }
        }
        5 => {
            let controller = cluster.controller().filter(|id| *id != one);
            let others = (1..=count).filter(|id| *id != one && Some(*id) != controller);
            let rules = others.flat_map(|id| between(Place::Node(one), Place::Node(id))).collect();
            (format!("b{one} sees no broker but the controller"), rules)
        }
        _ if count > 3 && chance.one_in(2) => {
            let with = one % count + 1;
            let far = others(one, count).filter(|other| *other != Place::Node(with));
            let rules = far.flat_map(|other| [one, with].map(|id| between(Place::Node(id), other)));
            (format!("b{one} and b{with} see no other broker"), rules.flatten().collect())
        }
        _ => ("each broker sees its neighbours only".to_owned(), ring(count)),
    };
    Ok((what, Heal::Lift(cluster.net.impose(rules)?)))
}

/// Some frames get lost, in both directions.
pub(super) fn lose(cluster: &mut Cluster, nodes: &[i32], chance: &mut Chance) -> Result<(String, Heal)> {
    let percent = 1 + chance.pick(0..LOST_MAX) as u8;
    let count = cluster.nodes().len() as i32;
    let rules = nodes.iter().flat_map(|one| everything(*one, count, true));
    let rules = rules.map(|rule| Rule { percent, ..rule }).collect();
    let what = format!("{percent} % of the frames of {} get lost", names(nodes));
    Ok((what, Heal::Lift(cluster.net.impose(rules)?)))
}

/// Cuts a node off from all brokers, and from the clients if they are to be.
pub fn isolate(cluster: &mut Cluster, one: i32, clients: bool) -> Result<RulesId> {
    let count = cluster.nodes().len() as i32;
    cluster.net.impose(everything(one, count, clients))
}

fn others(one: i32, count: i32) -> impl Iterator<Item = Place> {
    (1..=count).filter(move |id| *id != one).map(Place::Node)
}

fn everything(one: i32, count: i32, clients: bool) -> Vec<Rule> {
    let clients = clients.then_some(Place::Clients);
    others(one, count).chain(clients).flat_map(|other| between(Place::Node(one), other)).collect()
}

fn one_way(one: i32, count: i32, out: bool) -> Vec<Rule> {
    let rule = |other| {
        let (from, to) = if out { (Place::Node(one), other) } else { (other, Place::Node(one)) };
        Rule { from, to, percent: 100 }
    };
    others(one, count).chain([Place::Clients]).map(rule).collect()
}

/// With three brokers, one of the three pairs; with five, all that are no neighbours.
fn ring(count: i32) -> Vec<Rule> {
    let pairs = (1..=count).flat_map(|a| (a + 1..=count).map(move |b| (a, b)));
    let apart = |(a, b): &(i32, i32)| {
        let far = (b - a).min(count - (b - a));
        if count > 3 { far > 1 } else { (*a, *b) == (1, count) }
    };
    pairs.filter(apart).flat_map(|(a, b)| between(Place::Node(a), Place::Node(b))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_ring_everybody_sees_two() {
        let rules = ring(5);
        for id in 1..=5 {
            let cut = rules.iter().filter(|rule| rule.from == Place::Node(id)).count();
            assert_eq!(cut, 2, "b{id}");
        }
        assert_eq!(ring(3), between(Place::Node(1), Place::Node(3)));
    }

    #[test]
    fn one_way_is_half_of_everything() {
        let both = everything(2, 3, true);
        assert_eq!(both.len(), 6);
        for out in [false, true] {
            let half = one_way(2, 3, out);
            assert_eq!(half.len(), 3);
            assert!(half.iter().all(|rule| both.contains(rule)));
        }
    }
}
