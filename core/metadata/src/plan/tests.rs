//! Plans for small clusters, and what holds for all plans.

use proptest::prelude::*;

use super::*;

fn name(text: &str) -> TopicName {
    TopicName::new(text).expect("legal")
}

fn layout(brokers: &[(i32, &str)], partitions: &[&[i32]]) -> Layout {
    let rack = |rack: &str| Some(rack.to_owned()).filter(|rack| !rack.is_empty());
    let placed = |(index, replicas): (i32, &&[i32])| Placed {
        topic: name("a"),
        partition: PartitionIndex(index),
        replicas: replicas.iter().map(|&id| BrokerId(id)).collect(),
    };
    Layout {
        brokers: brokers.iter().map(|(id, of)| (BrokerId(*id), rack(of))).collect(),
        partitions: (0..).zip(partitions).map(placed).collect(),
    }
}

/// The layout once a plan is carried out.
fn after(layout: &Layout, plan: &Plan) -> Layout {
    let mut after = layout.clone();
    for step in &plan.moves {
        let found = after.partitions.iter_mut().find(|placed| placed.partition == step.partition);
        let placed = found.expect("only what is there is moved");
        assert_eq!(placed.replicas, step.from);
        placed.replicas = step.to.clone();
    }
    after
}

fn lines(plan: &Plan) -> Vec<String> {
    let list = |ids: &[BrokerId]| ids.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(",");
    plan.moves.iter().map(|it| format!("{}: {} -> {}", it.partition, list(&it.from), list(&it.to))).collect()
}

#[test]
fn what_a_broker_has_goes_to_who_has_least() {
    let cluster = layout(&[(1, ""), (2, ""), (3, ""), (4, "")], &[&[1, 2], &[2, 3], &[3, 1]]);
    let plan = cluster.drain(&[BrokerId(1)]).expect("there are others");
    assert_eq!(lines(&plan), ["0: 1,2 -> 4,2", "2: 3,1 -> 3,4"]);
    assert_eq!(plan.moves[0].copies().collect::<Vec<_>>(), [BrokerId(4)]);
    let all_but_one = [1, 2, 3].map(BrokerId);
    let refused = cluster.drain(&all_but_one).expect_err("two replicas need two brokers");
    assert!(refused.to_string().contains("1 brokers are left"), "{refused}");
}

#[test]
fn a_broker_that_was_added_gets_its_share() {
    let cluster = layout(&[(1, ""), (2, ""), (3, "")], &[&[1], &[2], &[1], &[2], &[1], &[2]]);
    let plan = cluster.rebalance();
    assert_eq!(lines(&plan), ["0: 1 -> 3", "1: 2 -> 3"]);
    assert_eq!(after(&cluster, &plan).rebalance(), Plan::default(), "there is nothing left to do");
}

#[test]
fn racks_are_kept_apart() {
    let brokers = [(1, "x"), (2, "x"), (3, "y"), (4, "y")];
    let cluster = layout(&brokers, &[&[1, 3], &[1, 3], &[3, 1]]);
    let plan = cluster.drain(&[BrokerId(1)]).expect("there are others");
    assert_eq!(lines(&plan), ["0: 1,3 -> 2,3", "1: 1,3 -> 2,3", "2: 3,1 -> 3,2"]);
    let plan = cluster.resize(&[name("a")], 3).expect("there are enough");
    assert!(plan.moves.iter().all(|it| it.to.len() == 3));
    let back = after(&cluster, &plan).resize(&[name("a")], 2).expect("fewer");
    for placed in after(&after(&cluster, &plan), &back).partitions {
        let racks: Vec<bool> = placed.replicas.iter().map(|id| id.0 <= 2).collect();
        assert_ne!(racks[0], racks[1], "{placed:?}");
    }
    assert_eq!(cluster.resize(&[name("a")], 0), Err(PlanError::NoReplicas));
    assert_eq!(cluster.resize(&[name("b")], 7), Ok(Plan::default()), "there is no such topic");
}

proptest! {
    #[test]
    fn a_plan_does_what_it_is_for_and_nothing_else(
        (brokers, partitions) in (2..7i32).prop_flat_map(|brokers| {
            let ids: Vec<i32> = (1..=brokers).collect();
            let replicas = (1..=(brokers - 1).min(3) as usize)
                .prop_flat_map(move |len| Just(ids.clone()).prop_shuffle().prop_map(move |ids| ids[..len].to_vec()));
            (Just(brokers), proptest::collection::vec(replicas, 0..40))
        })
    ) {
        let ids: Vec<(i32, &str)> = (1..=brokers).map(|id| (id, "")).collect();
        let cluster = layout(&ids, &partitions.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let drained = cluster.drain(&[BrokerId(1)]).expect("one is left for each");
        let without = after(&cluster, &drained);
        let balanced = after(&cluster, &cluster.rebalance());
        for ((before, drained), balanced) in
            cluster.partitions.iter().zip(&without.partitions).zip(&balanced.partitions)
        {
            prop_assert!(!drained.replicas.contains(&BrokerId(1)));
            for placed in [drained, balanced] {
                let mut once = placed.replicas.clone();
                once.sort_unstable();
                once.dedup();
                prop_assert_eq!(once.len(), before.replicas.len());
            }
            let stays = before.replicas.iter().filter(|id| **id != BrokerId(1));
            prop_assert!(stays.clone().all(|id| drained.replicas.contains(id)), "no more moves than it must");
        }
        let counts = Counts::of(&balanced);
        let has = |of: fn(&(usize, usize)) -> usize| counts.has.values().map(of).collect::<Vec<_>>();
        let spread = |has: Vec<usize>| has.iter().max().unwrap_or(&0) - has.iter().min().unwrap_or(&0);
        if partitions.iter().all(|replicas| replicas.len() == 1) {
            prop_assert!(spread(has(|it| it.0)) <= 1, "{:?}", counts.has);
        }
        prop_assert_eq!(balanced.rebalance(), Plan::default());
    }
}
