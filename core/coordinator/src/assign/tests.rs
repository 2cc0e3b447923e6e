//! What holds for every assignment, and what holds for each assignor.

use base::Uuid;
use proptest::prelude::*;

use super::*;

/// Members and topics in plain numbers.
#[derive(Debug, Clone)]
struct Case {
    /// Partitions of each topic.
    topics: Vec<usize>,
    /// The topics that each member wants, ascending.
    wishes: Vec<Vec<usize>>,
    /// The rack of each member.
    racks: Vec<Option<&'static str>>,
    /// The racks of each topic's partitions.
    replicas: Vec<Vec<Vec<&'static str>>>,
    /// What each member had.
    owned: Vec<Partitions>,
}

const RACKS: [&str; 3] = ["a", "b", "c"];

fn id(topic: usize) -> TopicId {
    TopicId(Uuid(u128::try_from(topic + 1).expect("small").to_be_bytes()))
}

fn name(member: usize) -> String {
    format!("m{member:03}")
}

impl Case {
    /// Members that want all topics and had nothing, without racks.
    fn plain(members: usize, topics: &[usize]) -> Self {
        Self {
            topics: topics.to_vec(),
            wishes: vec![(0..topics.len()).collect(); members],
            racks: vec![None; members],
            replicas: vec![Vec::new(); topics.len()],
            owned: vec![Partitions::new(); members],
        }
    }

    fn run(&self, assignor: Assignor) -> Vec<Partitions> {
        self.run_as(assignor, &(0..self.wishes.len()).collect::<Vec<_>>())
    }

    /// With the members in this order; the answer is in the order of the case.
    fn run_as(&self, assignor: Assignor, order: &[usize]) -> Vec<Partitions> {
        let names: Vec<String> = (0..self.wishes.len()).map(name).collect();
        let member = |&at: &usize| Subscriber {
            id: &names[at],
            instance_id: None,
            rack: self.racks[at],
            topics: &self.wishes[at],
            owned: Some(&self.owned[at]),
        };
        let topics = self.topics.iter().zip(&self.replicas).enumerate();
        let topic = |(at, (&partitions, racks)): (usize, (&usize, &Vec<Vec<&'static str>>))| Topic {
            id: id(at),
            partitions,
            racks: racks.clone(),
        };
        let members: Vec<Subscriber<'_>> = order.iter().map(member).collect();
        let given = assign(assignor, &members, &topics.map(topic).collect::<Vec<_>>());
        let mut answer = vec![Partitions::new(); order.len()];
        for (partitions, &at) in given.into_iter().zip(order) {
            answer[at] = partitions;
        }
        answer
    }

    /// How many partitions each member keeps.
    fn kept(&self, given: &[Partitions]) -> Vec<usize> {
        given
            .iter()
            .zip(&self.owned)
            .map(|(after, before)| numbers(after).intersection(&numbers(before)).count())
            .collect()
    }

    /// How many partitions have a replica in the rack of their reader.
    fn near(&self, given: &[Partitions]) -> usize {
        let near = |(at, (topic, partition)): (usize, (usize, usize))| {
            self.racks[at].is_some_and(|rack| self.replicas[topic][partition].contains(&rack))
        };
        let all =
            given.iter().enumerate().flat_map(|(at, of)| numbers(of).into_iter().map(move |it| (at, it)));
        all.filter(|&it| near(it)).count()
    }
}

/// Partitions as numbers of topics and of partitions.
fn numbers(partitions: &Partitions) -> BTreeSet<(usize, usize)> {
    let topic = |id: &TopicId| usize::try_from(u128::from_be_bytes(id.0.0)).expect("small") - 1;
    let number = |index: &PartitionIndex| usize::try_from(index.0).expect("not negative");
    partitions.iter().flat_map(|(id, of)| of.iter().map(move |index| (topic(id), number(index)))).collect()
}

fn partitions(numbers: impl IntoIterator<Item = (usize, usize)>) -> Partitions {
    let mut answer = Partitions::new();
    for (topic, partition) in numbers {
        answer.entry(id(topic)).or_default().insert(index(partition));
    }
    answer
}

fn loads(given: &[Partitions]) -> Vec<usize> {
    given.iter().map(|of| numbers(of).len()).collect()
}

/// Every partition that somebody wants is given to exactly one member, which wants it.
fn check(case: &Case, given: &[Partitions]) {
    let mut seen = BTreeSet::new();
    for (member, of) in given.iter().enumerate() {
        assert!(of.values().all(|indexes| !indexes.is_empty()), "no topic without partitions");
        for (topic, partition) in numbers(of) {
            assert!(
                case.wishes[member].contains(&topic),
                "{member} has {topic}-{partition}, which it does not want"
            );
            assert!(seen.insert((topic, partition)), "{topic}-{partition} is given twice");
        }
    }
    let wanted = |topic: &usize| case.wishes.iter().any(|wish| wish.contains(topic));
    let all: usize = (0..case.topics.len()).filter(wanted).map(|topic| case.topics[topic]).sum();
    assert_eq!(seen.len(), all, "all partitions that somebody wants");
}

/// Any members and topics. What members had may overlap, may be gone, and may not be wanted.
fn cases() -> impl Strategy<Value = Case> {
    (1..7usize, proptest::collection::vec(0..12usize, 1..6)).prop_flat_map(|(members, topics)| {
        let count = topics.len();
        let wish = proptest::collection::btree_set(0..count, 0..=count);
        let rack = proptest::option::of(proptest::sample::select(RACKS.to_vec()));
        let replicas = proptest::collection::vec(proptest::sample::subsequence(RACKS.to_vec(), 1..=3), 12);
        let owned = proptest::collection::btree_set((0..count + 1, 0..14usize), 0..20);
        (
            proptest::collection::vec(wish, members),
            proptest::collection::vec(rack, members),
            proptest::collection::vec(replicas, count),
            proptest::collection::vec(owned, members),
            any::<bool>(),
        )
            .prop_map(move |(wishes, racks, replicas, owned, same)| {
                let wishes: Vec<Vec<usize>> =
                    wishes.into_iter().map(|wish| wish.into_iter().collect()).collect();
                Case {
                    topics: topics.clone(),
                    wishes: if same { vec![wishes[0].clone(); members] } else { wishes },
                    racks,
                    replicas,
                    owned: owned.into_iter().map(partitions).collect(),
                }
            })
    })
}

/// What each member would keep if as many as possible stay: those who have most get what is left over.
fn kept_at_best(case: &Case, before: &[Partitions]) -> usize {
    let total: usize = case.wishes[0].iter().map(|&topic| case.topics[topic]).sum();
    let mut had = loads(before);
    had.sort_unstable_by(|a, b| b.cmp(a));
    let (share, over) = (total / had.len(), total % had.len());
    had.iter().enumerate().map(|(at, &had)| had.min(share + usize::from(at < over))).sum()
}

proptest! {
    #[test]
    fn whatever_comes_in_each_partition_has_one_reader(case in cases()) {
        for assignor in Assignor::ALL {
            check(&case, &case.run(assignor));
        }
    }

    #[test]
    fn the_order_of_the_members_does_not_matter(case in cases(), seed in any::<u64>()) {
        let mut order: Vec<usize> = (0..case.wishes.len()).collect();
        order.sort_by_key(|&at| (at as u64 + 1).wrapping_mul(seed | 1).rotate_left(23));
        for assignor in Assignor::ALL {
            prop_assert_eq!(case.run(assignor), case.run_as(assignor, &order));
        }
    }

    #[test]
    fn uniform_cannot_be_made_more_even_by_one_move(case in cases()) {
        let given = case.run(Assignor::Uniform);
        let loads = loads(&given);
        for (giver, of) in given.iter().enumerate() {
            for (topic, partition) in numbers(of) {
                for (receiver, wish) in case.wishes.iter().enumerate() {
                    let evener = wish.contains(&topic) && loads[receiver] + 2 <= loads[giver];
                    prop_assert!(!evener, "{topic}-{partition} from {giver} to {receiver}: {loads:?}");
                }
            }
        }
    }

    #[test]
    fn uniform_moves_no_more_than_it_must(
        topics in proptest::collection::vec(1..12usize, 1..5),
        before in 1..9usize,
        after in 1..9usize,
        grown in 0..6usize,
    ) {
        let mut case = Case::plain(before, &topics);
        let old = case.run(Assignor::Uniform);
        case = Case::plain(after, &topics);
        case.topics[0] += grown;
        case.owned.iter_mut().zip(old).for_each(|(owned, old)| *owned = old);
        let given = case.run(Assignor::Uniform);
        check(&case, &given);
        let loads = loads(&given);
        prop_assert!(loads.iter().max().expect("members") - loads.iter().min().expect("members") <= 1, "{loads:?}");
        prop_assert_eq!(case.kept(&given).iter().sum::<usize>(), kept_at_best(&case, &case.owned));
    }

    #[test]
    fn range_gives_the_same_numbers_of_topics_of_one_size(
        members in 1..8usize, partitions in 1..20usize, topics in 1..4usize,
        replicas in proptest::collection::vec(proptest::sample::subsequence(RACKS.to_vec(), 1..=3), 20),
    ) {
        let mut case = Case::plain(members, &vec![partitions; topics]);
        case.racks = (0..members).map(|at| RACKS.get(at % 4).copied()).collect();
        case.replicas = vec![replicas; topics];
        let given = case.run(Assignor::Range);
        for of in &given {
            let lists: BTreeSet<_> = of.values().collect();
            prop_assert!(lists.len() <= 1, "{lists:?}");
            let each = of.values().next().map_or(0, BTreeSet::len);
            prop_assert!(each == partitions / members || each == partitions.div_ceil(members));
        }
        // Racks never make it worse.
        let mut blind = case.clone();
        blind.racks = vec![None; members];
        prop_assert!(case.near(&given) >= case.near(&blind.run(Assignor::Range)));
    }
}

#[test]
fn uniform_goes_round_and_range_is_cut() {
    let case = Case::plain(3, &[8]);
    let shown = |assignor| -> Vec<Vec<usize>> {
        let indexes = |of: &Partitions| numbers(of).into_iter().map(|(_, partition)| partition).collect();
        case.run(assignor).iter().map(indexes).collect()
    };
    assert_eq!(shown(Assignor::Uniform), [vec![0, 3, 6], vec![1, 4, 7], vec![2, 5]]);
    assert_eq!(shown(Assignor::Range), [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7]]);
}

#[test]
fn a_member_that_leaves_moves_only_what_it_had() {
    let mut case = Case::plain(5, &[13, 7]);
    case.owned = case.run(Assignor::Uniform);
    let left = case.owned[2].clone();
    case.wishes[2] = Vec::new();
    let given = case.run(Assignor::Uniform);
    check(&case, &given);
    for at in [0, 1, 3, 4] {
        assert!(numbers(&given[at]).is_superset(&numbers(&case.owned[at])), "{at} keeps what it had");
    }
    assert_eq!(numbers(&left).len(), 4);
}

#[test]
fn those_who_want_something_else_are_evened_out() {
    // 0 wants both topics and had all of the first; 1 wants the first alone, 2 the second alone.
    let mut case = Case::plain(3, &[6, 6]);
    case.wishes = vec![vec![0, 1], vec![0], vec![1]];
    case.owned[0] = partitions((0..6).map(|partition| (0, partition)));
    let given = case.run(Assignor::Uniform);
    check(&case, &given);
    assert_eq!(loads(&given), [4, 3, 5], "four each would take two moves at once");
}

#[test]
fn partitions_go_to_their_racks_if_that_costs_nothing() {
    for assignor in Assignor::ALL {
        // Each partition in one rack, nine in each; one member in each rack, in the wrong order for a range.
        let mut case = Case::plain(3, &[27]);
        case.racks = vec![Some("c"), Some("b"), Some("a")];
        case.replicas = vec![(0..27).map(|partition| vec![RACKS[partition / 9]]).collect()];
        let given = case.run(assignor);
        assert_eq!(loads(&given), [9, 9, 9]);
        assert_eq!(case.near(&given), 27, "{assignor:?}");
        // A rack with most of the partitions does not get more than its share of them.
        case.replicas = vec![vec![vec!["a"]; 27]];
        let given = case.run(assignor);
        assert_eq!(loads(&given), [9, 9, 9]);
        assert_eq!(case.near(&given), 9, "{assignor:?}");
    }
}

#[test]
fn nobody_and_nothing_are_cases_too() {
    for assignor in Assignor::ALL {
        assert!(assign(assignor, &[], &[]).is_empty());
        let given = Case::plain(2, &[0, 1]).run(assignor);
        assert_eq!(loads(&given), [1, 0]);
    }
}
