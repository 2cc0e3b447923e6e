//! What is limited before, during and after moves, in a cluster that keeps settings as Kafka does.

use base::PartitionIndex;
use proptest::prelude::*;

use super::*;

/// What is set, by what has it and by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Settings(Vec<(Resource, String, String)>);

impl Settings {
    fn get(&self, of: &Resource, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(resource, known, _)| resource == of && known == name);
        found.map(|(.., value)| &**value)
    }

    fn set(&mut self, of: &Resource, name: &str, value: Option<String>) {
        self.0.retain(|(resource, known, _)| resource != of || known != name);
        self.0.extend(value.map(|value| (of.clone(), name.to_owned(), value)));
        self.0.sort_by_key(|(of, name, _)| (format!("{of:?}"), name.clone()));
    }

    fn change(&mut self, changes: Changes) {
        for (of, changes) in changes {
            for change in changes {
                let listed = |name: &str| {
                    let listed = self.get(&of, name).unwrap_or_default().split(',');
                    listed.filter(|one| !one.is_empty()).map(str::to_owned).collect::<Vec<_>>()
                };
                let (name, value) = match change {
                    ConfigChange::Set(name, value) => (name, Some(value)),
                    ConfigChange::Delete(name) => (name, None),
                    ConfigChange::Append(name, value) => {
                        let all = listed(&name).into_iter().chain([value]).collect::<Vec<_>>();
                        (name, Some(all.join(",")))
                    }
                    // A list from which all is taken is set, and empty.
                    ConfigChange::Subtract(name, value) => {
                        let gone: Vec<&str> = value.split(',').collect();
                        let mut left = listed(&name);
                        left.retain(|one| !gone.contains(&&**one));
                        (name, Some(left.join(",")))
                    }
                };
                self.set(&of, &name, value);
            }
        }
    }

    fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        self.0.iter().for_each(|(of, name, value)| limits.learn(of, name, value));
        limits
    }

    fn begin(&mut self, moves: &[Move]) -> Throttle {
        let throttle = Throttle::of(moves, &up(), &self.limits());
        let (brokers, topics) = throttle.begin(50);
        self.change(brokers);
        self.change(topics);
        throttle
    }

    /// Nothing is on its way any more but what is of the same topics.
    fn lift(&mut self, throttle: &Throttle) {
        self.change(throttle.unlist());
        let (mut found, topics) = (self.limits(), throttle.topics());
        found.listed.retain(|(topic, _), _| topics.contains(&**topic));
        self.change(throttle.clear(&found));
    }

    /// Whether each copy of these moves is limited on both of its ends.
    fn limit(&self, moves: &[Move]) -> bool {
        let (limits, wanted) = (self.limits(), wanted(moves));
        let is_listed =
            |of: &(String, Side), one: &String| limits.listed(of).any(|it| it == one || it == ALL);
        let has_rate = |of: &(String, Side), one: &String| {
            limits.rates.iter().any(|(id, side)| *side == of.1 && names(one, *id))
        };
        wanted.iter().all(|(of, all)| all.iter().all(|one| is_listed(of, one) && has_rate(of, one)))
    }
}

fn up() -> BTreeSet<BrokerId> {
    (1..=4).map(BrokerId).collect()
}

fn one(topic: &str, partition: i32, from: &[i32], to: &[i32]) -> Move {
    let brokers = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
    let (topic, partition) = (topic.to_owned(), PartitionIndex(partition));
    Move { topic, partition, from: brokers(from), to: brokers(to), bytes: 1 }
}

fn topic(name: &str) -> Resource {
    Resource::Topic(name.to_owned())
}

#[test]
fn what_somebody_else_limits_is_added_to_and_given_back() {
    let mut settings = Settings::default();
    settings.set(&Resource::Broker(BrokerId(1)), Side::Gives.rate(), Some("7".to_owned()));
    settings.set(&topic("t"), Side::Gives.replicas(), Some("9:4,0:1".to_owned()));
    let before = settings.clone();
    let moves = [one("t", 0, &[1, 2], &[3, 2])];
    let throttle = settings.begin(&moves);
    assert_eq!(settings.get(&topic("t"), Side::Gives.replicas()), Some("9:4,0:1,0:2"));
    assert_eq!(settings.get(&topic("t"), Side::Takes.replicas()), Some("0:3"));
    let rates = [1, 2, 3, 4]
        .map(|id| Side::ALL.map(|side| settings.get(&Resource::Broker(BrokerId(id)), side.rate())));
    assert_eq!(
        rates,
        [[Some("7"), Some("50")], [Some("50"), Some("50")], [Some("50"), Some("50")], [None, None]]
    );
    assert_eq!(throttle.slowed(), [BrokerId(1)].into());
    settings.lift(&throttle);
    assert_eq!(settings, before);
}

#[test]
fn of_two_moves_the_last_one_takes_the_rates_away() {
    let moves = [[one("t", 0, &[1, 2], &[3, 2])], [one("t", 1, &[2, 3], &[2, 4])]];
    for [first, last] in [[0, 1], [1, 0]] {
        let mut settings = Settings::default();
        let throttles = [settings.begin(&moves[0]), settings.begin(&moves[1])];
        settings.lift(&throttles[first]);
        assert!(settings.limit(&moves[last]), "{settings:?}");
        settings.lift(&throttles[last]);
        assert_eq!(settings, Settings::default());
    }
}

#[test]
fn what_was_left_behind_is_lifted_by_whoever_sees_it_arrive() {
    let mut settings = Settings::default();
    settings.set(&Resource::Broker(BrokerId(4)), Side::Takes.rate(), Some("7".to_owned()));
    settings.set(&topic("t"), Side::Takes.replicas(), Some("8:4".to_owned()));
    let before = settings.clone();
    let (limited, free) = ([one("t", 0, &[1, 2], &[3, 2])], [one("u", 0, &[4], &[1])]);
    let begun = settings.begin(&limited);
    let of_others = Throttle::left_behind(&free, &up(), &settings.limits());
    assert!(of_others.is_empty(), "nobody limited it: {of_others:?}");
    let left = Throttle::left_behind(&limited, &up(), &settings.limits());
    settings.lift(&left);
    assert_eq!(settings, before);
    settings.lift(&begun);
    assert_eq!(settings, before, "whoever began it may be there all the same");
}

#[test]
fn who_is_down_is_not_asked_to_limit_anything() {
    let moves = [one("t", 0, &[1, 2], &[3, 2])];
    let throttle = Throttle::of(&moves, &[BrokerId(2), BrokerId(3)].into(), &Limits::default());
    let (brokers, _) = throttle.begin(50);
    let asked: Vec<&Resource> = brokers.iter().map(|(of, _)| of).collect();
    assert_eq!(asked, [&Resource::Broker(BrokerId(2)), &Resource::Broker(BrokerId(3))]);
}

/// What other people set: rates of some brokers, replicas of partitions that do not move, or of all.
fn others() -> impl Strategy<Value = Settings> {
    let rate = (1..=4, 0_usize..2);
    let list = ("[tu]", 0_usize..2, prop_oneof![Just("*"), Just("9:1"), Just("9:2,0:1"), Just("0:1,0:3")]);
    let rates = proptest::collection::vec(rate, 0..6);
    (rates, proptest::collection::vec(list, 0..4)).prop_map(|(rates, lists)| {
        let mut settings = Settings::default();
        for (id, side) in rates {
            settings.set(&Resource::Broker(BrokerId(id)), Side::ALL[side].rate(), Some("7".to_owned()));
        }
        for (name, side, replicas) in lists {
            settings.set(&topic(&name), Side::ALL[side].replicas(), Some(replicas.to_owned()));
        }
        settings
    })
}

/// Moves of several partitions.
fn moves() -> impl Strategy<Value = Vec<Move>> {
    let ids = || Just(vec![1, 2, 3, 4]).prop_shuffle();
    let partition = ("[tu]", ids(), ids(), 1_usize..4);
    proptest::collection::vec(partition, 1..4).prop_map(|all| {
        let place = |(partition, (topic, from, to, count)): (i32, (String, Vec<i32>, Vec<i32>, usize))| {
            one(&topic, partition, &from[..count], &to[..count])
        };
        (0..).zip(all).map(place).collect()
    })
}

proptest! {
    #[test]
    fn a_move_is_limited_and_leaves_everything_as_it_was(before in others(), moves in moves()) {
        let mut settings = before.clone();
        let throttle = settings.begin(&moves);
        prop_assert!(settings.limit(&moves), "{:?}", settings);
        settings.lift(&throttle);
        prop_assert_eq!(settings, before);
    }
}
