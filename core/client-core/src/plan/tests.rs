//! What plans promise.

use proptest::prelude::*;

use super::*;

fn node(id: i32, rack: &str) -> Node {
    let rack = (!rack.is_empty()).then(|| rack.to_owned());
    Node { id: BrokerId(id), rack, is_up: true, bytes_usable: None }
}

fn nodes(count: i32) -> Vec<Node> {
    (1..=count).map(|id| node(id, "")).collect()
}

fn placed(topic: &str, partition: i32, replicas: &[i32], bytes: u64) -> Placed {
    Placed {
        topic: topic.to_owned(),
        partition: PartitionIndex(partition),
        replicas: brokers(replicas),
        bytes,
    }
}

fn brokers(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}

fn said(moves: &[Move]) -> Vec<String> {
    let ids = |ids: &[BrokerId]| ids.iter().map(|id| id.0.to_string()).collect::<Vec<_>>().join(",");
    let one = |it: &Move| format!("{}-{} {}>{}", it.topic, it.partition, ids(&it.from), ids(&it.to));
    moves.iter().map(one).collect()
}

#[test]
fn a_broker_is_drained_onto_those_that_have_least() {
    let has = [placed("t", 0, &[1, 2], 10), placed("t", 1, &[2, 3], 20), placed("t", 2, &[3, 1], 30)];
    let moves = drain(&nodes(4), &has, &brokers(&[3])).unwrap();
    assert_eq!(said(&moves), ["t-1 2,3>2,4", "t-2 3,1>4,1"]);
    assert_eq!(incoming(&moves), [(BrokerId(4), 50)].into());
    assert_eq!(drain(&nodes(4), &has, &brokers(&[4])), Ok(Vec::new()));
    assert_eq!(drain(&nodes(4), &has, &brokers(&[9])), Err(PlanError::UnknownBroker(BrokerId(9))));
}

#[test]
fn who_cannot_go_anywhere_is_named() {
    let has = [placed("t", 0, &[1, 2, 3], 10)];
    let refused = drain(&nodes(3), &has, &brokers(&[3])).unwrap_err();
    assert!(refused.to_string().starts_with("t-0 has nowhere to go: 3 replicas"), "{refused}");
    let mut four = nodes(4);
    four[3].is_up = false;
    assert!(drain(&four, &has, &brokers(&[3])).is_err(), "it is down");
    four[3] = Node { bytes_usable: Some(9), ..node(4, "") };
    assert!(drain(&four, &has, &brokers(&[3])).is_err(), "it has no room");
    four[3].bytes_usable = Some(10);
    assert_eq!(said(&drain(&four, &has, &brokers(&[3])).unwrap()), ["t-0 1,2,3>1,2,4"]);
    let two = [placed("t", 0, &[1, 2, 3], 10), placed("t", 1, &[1, 2, 3], 10)];
    assert!(drain(&four, &two, &brokers(&[3])).is_err(), "it has room for one");
}

#[test]
fn what_has_nowhere_to_go_keeps_its_place_and_the_rest_is_moved() {
    let has = [placed("t", 0, &[1, 2, 9], 10), placed("t", 1, &[9, 1], 10), placed("t", 2, &[1, 2], 10)];
    let two = nodes(2);
    let Evacuation { moves, stays } = evacuate(&two, &has, &brokers(&[9]));
    assert_eq!(said(&moves), ["t-1 9,1>2,1"]);
    assert_eq!(stays, [has[0].clone()], "two cannot have three replicas");
    let Evacuation { moves, stays } = evacuate(&nodes(3), &has, &brokers(&[9]));
    assert_eq!((said(&moves), stays), (vec!["t-0 1,2,9>1,2,3".to_owned(), "t-1 9,1>3,1".to_owned()], vec![]));
}

#[test]
fn replicas_are_in_different_racks_where_they_can_be() {
    let racks = [node(1, "a"), node(2, "a"), node(3, "b"), node(4, "b")];
    let has = [placed("t", 0, &[1], 1), placed("u", 0, &[3], 1), placed("u", 1, &[4], 1)];
    assert_eq!(
        said(&resize(&racks, &has, "t", 2).unwrap()),
        ["t-0 1>1,3"],
        "2 has less, and is in the same rack"
    );
    assert_eq!(said(&resize(&racks, &has, "t", 3).unwrap()), ["t-0 1>1,3,2"]);
    assert!(resize(&racks, &has, "t", 5).is_err());
}

#[test]
fn who_is_down_goes_first() {
    let mut three = nodes(3);
    three[0].is_up = false;
    let has = [placed("t", 0, &[1, 2, 3], 1), placed("t", 1, &[2, 3], 1)];
    assert_eq!(said(&resize(&three, &has, "t", 2).unwrap()), ["t-0 1,2,3>2,3"]);
    assert_eq!(said(&resize(&three, &has, "t", 1).unwrap()), ["t-0 1,2,3>2", "t-1 2,3>2"]);
    assert_eq!(resize(&three, &has, "t", 0), Err(PlanError::NoReplicas));
}

#[test]
fn who_goes_leaves_no_rack_empty_that_another_could_have_kept() {
    let mut racks = [node(1, "a"), node(2, "a"), node(3, "b"), node(4, "b"), node(5, "")];
    let shrunk = |racks: &[Node], replicas: &[i32], wanted| {
        said(&resize(racks, &[placed("t", 0, replicas, 1)], "t", wanted).unwrap())
    };
    assert_eq!(shrunk(&racks, &[1, 2, 3], 2), ["t-0 1,2,3>1,3"], "the last one has a rack of its own");
    assert_eq!(shrunk(&racks, &[1, 3, 2], 2), ["t-0 1,3,2>1,3"]);
    assert_eq!(shrunk(&racks, &[1, 3, 4], 2), ["t-0 1,3,4>1,3"]);
    assert_eq!(shrunk(&racks, &[1, 2, 3, 4], 2), ["t-0 1,2,3,4>1,3"]);
    assert_eq!(shrunk(&racks, &[3, 4, 1, 5], 2), ["t-0 3,4,1,5>3,1"], "two racks are all that two can have");
    assert_eq!(shrunk(&racks, &[1, 2, 3], 1), ["t-0 1,2,3>1"], "the preferred leader stays");
    racks[2].is_up = false;
    assert_eq!(shrunk(&racks, &[1, 2, 3], 2), ["t-0 1,2,3>1,2"], "a rack whose broker is down is no gain");
    racks[0].is_up = false;
    assert_eq!(shrunk(&racks, &[1, 2, 4], 2), ["t-0 1,2,4>2,4"], "who is down leads nothing");
}

#[test]
fn a_new_broker_gets_its_share_and_no_more_is_moved() {
    let has: Vec<Placed> = (0..9).map(|it| placed("t", it, &[1 + it % 3, 1 + (it + 1) % 3], 10)).collect();
    let moves = rebalance(&nodes(4), &has);
    let copies: usize = moves.iter().map(|it| it.copies().count()).sum();
    assert_eq!(copies, 4, "18 replicas on 4 brokers: {:?}", said(&moves));
    assert_eq!(incoming(&moves), [(BrokerId(4), 40)].into());
    assert_eq!(rebalance(&nodes(3), &has), [], "nothing is to be done");
}

#[test]
fn leaderships_are_shared_without_moving_anything() {
    let has: Vec<Placed> = (0..6).map(|it| placed("t", it, &[1, 2, 3], 10)).collect();
    let moves = rebalance(&nodes(3), &has);
    assert_eq!(incoming(&moves), BTreeMap::new());
    let mut leads = BTreeMap::new();
    for one in &has {
        let to = moves.iter().find(|it| it.partition == one.partition).map_or(&one.replicas, |it| &it.to);
        *leads.entry(to[0]).or_insert(0) += 1;
    }
    assert_eq!(leads, [(BrokerId(1), 2), (BrokerId(2), 2), (BrokerId(3), 2)].into());
}

/// Some cluster: brokers in racks, some of them down, and partitions with distinct replicas.
fn cluster() -> impl Strategy<Value = (Vec<Node>, Vec<Placed>)> {
    let node = (0_u8..3, proptest::bool::weighted(0.9));
    let partition = (proptest::collection::vec(0_usize..100, 1..4), 0_u64..1000);
    (proptest::collection::vec(node, 1..7), proptest::collection::vec(partition, 0..40)).prop_map(
        |(nodes, partitions)| {
            let nodes: Vec<Node> =
                (1..).zip(nodes).map(|(id, (rack, is_up))| Node { is_up, ..node_in(id, rack) }).collect();
            let place = |(index, (picks, bytes)): (i32, (Vec<usize>, u64))| {
                let mut replicas: Vec<i32> = Vec::new();
                for pick in picks {
                    let id = nodes[pick % nodes.len()].id.0;
                    if !replicas.contains(&id) {
                        replicas.push(id);
                    }
                }
                placed("t", index, &replicas, bytes)
            };
            let placed = (0..).zip(partitions).map(place).collect();
            (nodes, placed)
        },
    )
}

fn node_in(id: i32, rack: u8) -> Node {
    node(id, ["", "a", "b"][usize::from(rack)])
}

/// What holds for every plan.
fn check(nodes: &[Node], placed: &[Placed], moves: &[Move]) {
    for one in moves {
        let distinct: BTreeSet<_> = one.to.iter().collect();
        assert_eq!(distinct.len(), one.to.len(), "{one:?}");
        assert_ne!(one.from, one.to);
        for id in one.copies() {
            assert!(nodes.iter().any(|node| node.id == id && node.is_up), "{one:?}");
        }
        assert!(placed.iter().any(|it| it.partition == one.partition && it.replicas == one.from));
    }
}

proptest! {
    #[test]
    fn who_is_drained_has_nothing_left((nodes, placed) in cluster(), leaving in 1_i32..7) {
        prop_assume!(nodes.iter().any(|node| node.id.0 == leaving));
        let Ok(moves) = drain(&nodes, &placed, &brokers(&[leaving])) else { return Ok(()) };
        check(&nodes, &placed, &moves);
        let had = placed.iter().filter(|it| it.replicas.contains(&BrokerId(leaving))).count();
        prop_assert_eq!(moves.len(), had);
        for one in &moves {
            prop_assert!(!one.to.contains(&BrokerId(leaving)) && one.to.len() == one.from.len());
            prop_assert_eq!(one.copies().count(), 1);
        }
    }

    #[test]
    fn a_balance_is_fair_and_stays((nodes, placed) in cluster()) {
        let moves = rebalance(&nodes, &placed);
        check(&nodes, &placed, &moves);
        let mut after = placed.clone();
        for one in &moves {
            let at = after.iter_mut().find(|it| it.partition == one.partition).unwrap();
            at.replicas.clone_from(&one.to);
        }
        let again: usize = rebalance(&nodes, &after).iter().map(|it| it.copies().count()).sum();
        prop_assert_eq!(again, 0, "what was balanced is");
        if nodes.iter().all(|node| node.is_up && node.rack.is_none()) {
            let count = |id| after.iter().filter(|it| it.replicas.contains(&id)).count();
            let counts: Vec<usize> = nodes.iter().map(|node| count(node.id)).collect();
            prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() < 2, "{:?}", counts);
        }
    }

    #[test]
    fn a_topic_has_as_many_replicas_as_were_asked_for((nodes, placed) in cluster(), wanted in 1_usize..5) {
        let Ok(moves) = resize(&nodes, &placed, "t", wanted) else { return Ok(()) };
        check(&nodes, &placed, &moves);
        prop_assert_eq!(moves.len(), placed.iter().filter(|it| it.replicas.len() != wanted).count());
        prop_assert!(moves.iter().all(|it| it.to.len() == wanted));
        if nodes.iter().all(|node| node.is_up) {
            let draft = Draft::new(&nodes, &placed);
            let racks = |ids: &[BrokerId]| draft.racks(ids.iter().copied());
            for one in moves.iter().filter(|it| it.to.len() < it.from.len()) {
                prop_assert_eq!(racks(&one.to), racks(&one.from).min(wanted), "{:?}", one);
                prop_assert_eq!(one.to.first(), one.from.first());
            }
        }
    }
}
