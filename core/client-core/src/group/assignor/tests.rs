//! What the assignors give, and what must be true of it whatever they are given.

use proptest::prelude::*;

use super::*;

fn topic(name: &str) -> TopicName {
    TopicName::new(name).expect("legal")
}

fn member(topics: &[&str]) -> Member {
    Member { topics: topics.iter().map(|name| topic(name)).collect(), generation: -1, ..Member::default() }
}

fn members<const N: usize>(all: [(&str, Member); N]) -> Members {
    all.into_iter().map(|(id, member)| (id.into(), member)).collect()
}

fn topics(all: &[(&str, i32)]) -> BTreeMap<TopicName, i32> {
    all.iter().map(|&(name, count)| (topic(name), count)).collect()
}

fn shown(assigned: &Assignment) -> Vec<String> {
    let show = |(id, parts): (&Arc<str>, &BTreeSet<TopicPartition>)| {
        let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
        format!("{id}: {}", parts.join(" "))
    };
    assigned.iter().map(show).collect()
}

#[test]
fn a_range_gives_the_first_members_one_more() {
    let all = members([("a", member(&["t", "u"])), ("b", member(&["t"])), ("c", member(&["t", "u"]))]);
    let assigned = Assignor::Range.assign(&all, &topics(&[("t", 4), ("u", 3), ("v", 9)]));
    assert_eq!(shown(&assigned), ["a: t-0 t-1 u-0 u-1", "b: t-2", "c: t-3 u-2"]);
}

#[test]
fn round_robin_passes_over_who_does_not_want_it() {
    let all = members([("a", member(&["t"])), ("b", member(&["t", "u"]))]);
    let assigned = Assignor::RoundRobin.assign(&all, &topics(&[("t", 3), ("u", 2), ("v", 9)]));
    assert_eq!(shown(&assigned), ["a: t-0 t-2", "b: t-1 u-0 u-1"]);
}

#[test]
fn a_static_member_gets_the_same_under_another_id() {
    let named = |instance: &str| Member { instance_id: Some(instance.into()), ..member(&["t"]) };
    let before = members([("x", named("1")), ("y", named("2")), ("a", member(&["t"]))]);
    let after = members([("x", named("1")), ("b", named("2")), ("a", member(&["t"]))]);
    let topics = topics(&[("t", 3)]);
    let [before, after] = [before, after].map(|all| Assignor::Range.assign(&all, &topics));
    assert_eq!(before["y"], after["b"]);
    assert_eq!(before["x"], after["x"]);
}

#[test]
fn what_moves_is_nobodys_until_it_is_given_up() {
    let owning = |parts: &[i32]| Member {
        owned: parts.iter().map(|&index| partition(&topic("t"), index)).collect(),
        generation: 3,
        ..member(&["t"])
    };
    let topics = topics(&[("t", 4)]);
    let all = members([("a", owning(&[0, 1, 2, 3])), ("b", member(&["t"]))]);
    let first = Assignor::CooperativeSticky.assign(&all, &topics);
    assert_eq!(shown(&first), ["a: t-0 t-1", "b: "]);
    let all = members([("a", owning(&[0, 1])), ("b", member(&["t"]))]);
    let second = Assignor::CooperativeSticky.assign(&all, &topics);
    assert_eq!(shown(&second), ["a: t-0 t-1", "b: t-2 t-3"]);
}

fn world() -> impl Strategy<Value = (Members, BTreeMap<TopicName, i32>)> {
    let names = ["t", "u", "v"];
    let topics = prop::collection::vec(0..12_i32, 3);
    let wants = prop::collection::vec(prop::collection::vec(any::<bool>(), 3), 1..7);
    let claims = prop::collection::vec((0..7_usize, 0..3_usize, 0..14_i32), 0..30);
    (topics, wants, claims, prop::collection::vec(0..3_i32, 7)).prop_map(
        move |(counts, wants, claims, ages)| {
            let topics = names.iter().zip(counts).map(|(name, count)| (topic(name), count)).collect();
            let mut all = Vec::new();
            for (place, wants) in wants.iter().enumerate() {
                let wanted: Vec<&str> =
                    names.iter().zip(wants).filter(|(_, is)| **is).map(|(n, _)| *n).collect();
                let owned = claims.iter().filter(|(of, ..)| *of == place);
                let owned = owned.map(|&(_, name, index)| partition(&topic(names[name]), index)).collect();
                let claiming = Member { owned, generation: ages[place], ..member(&wanted) };
                all.push((Arc::from(format!("m{place}")), claiming));
            }
            (all.into_iter().collect(), topics)
        },
    )
}

proptest! {
    /// Everything that is wanted goes to one who wants it; what is held back, somebody else claims.
    #[test]
    fn each_partition_has_one_reader((members, topics) in world()) {
        for assignor in [Assignor::Range, Assignor::RoundRobin, Assignor::CooperativeSticky] {
            let assigned = assignor.assign(&members, &topics);
            prop_assert!(assigned.keys().eq(members.keys()));
            let mut readers: BTreeMap<&TopicPartition, &Arc<str>> = BTreeMap::new();
            for (id, parts) in &assigned {
                for part in parts {
                    prop_assert!(readers.insert(part, id).is_none(), "{part} twice");
                    prop_assert!(members[id].topics.contains(&part.topic));
                    prop_assert!(part.partition.0 < topics[&part.topic]);
                    if assignor.is_cooperative() {
                        let others = members.iter().filter(|(other, _)| *other != id);
                        prop_assert!(others.into_iter().all(|(_, other)| !other.owned.contains(part)));
                    }
                }
            }
            for (topic, &count) in &topics {
                let is_wanted = members.values().any(|member| member.topics.contains(topic));
                for index in (0..count).filter(|_| is_wanted) {
                    let part = partition(topic, index);
                    let is_claimed = members.values().any(|member| member.owned.contains(&part));
                    let may_be_left = assignor.is_cooperative() && is_claimed;
                    prop_assert!(may_be_left || readers.contains_key(&part), "{assignor:?}: {part}");
                }
            }
        }
    }

    /// With the same wishes, nobody gets two more than another, and nothing moves that need not.
    #[test]
    fn a_sticky_assignment_is_even_and_stays(heads in 1..8_usize, count in 0..40_i32, gone in 0..8_usize) {
        let topics = topics(&[("t", count)]);
        let mut all: Members =
            (0..heads).map(|place| (Arc::from(format!("m{place}")), member(&["t"]))).collect();
        let first = Assignor::CooperativeSticky.assign(&all, &topics);
        for (id, member) in &mut all {
            member.owned = first[id].clone();
            member.generation = 1;
        }
        prop_assert_eq!(&Assignor::CooperativeSticky.assign(&all, &topics), &first);
        all.remove(format!("m{gone}").as_str());
        let second = Assignor::CooperativeSticky.assign(&all, &topics);
        let loads = || second.values().map(BTreeSet::len);
        prop_assert!(loads().max().unwrap_or(0) <= loads().min().unwrap_or(0) + 1);
        for (id, parts) in &second {
            prop_assert!(parts.is_superset(&first[id]), "{id} loses what it had");
        }
    }
}
