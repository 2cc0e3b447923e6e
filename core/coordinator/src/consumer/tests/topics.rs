//! What there is to read changes, and what members want of it.

use super::super::*;
use super::stage::Stage;

#[test]
fn a_topic_that_grows_is_shared_anew() {
    let mut stage = Stage::with(&[("t", 2)]);
    stage.join("a", &["t"]);
    stage.join("b", &["t"]);
    assert_eq!(stage.settle(), "Stable 2/2 | a@2 t[0] | b@2 t[1]");
    stage.create("t", 4);
    assert_eq!(stage.settle(), "Stable 3/3 | a@3 t[0,2] | b@3 t[1,3]", "and nobody gives anything back");
}

#[test]
fn a_topic_that_somebody_waits_for_is_read_once_it_is_there() {
    let mut stage = Stage::with(&[]);
    assert_eq!(stage.join("a", &["t"]), "a@1");
    stage.create("other", 1);
    stage.beat("a");
    assert_eq!(stage.shown(), "Stable 1/1 | a@1", "what nobody wants does not matter");
    stage.create("t", 1);
    assert_eq!(stage.beat("a"), "a@2 t[0]");
}

#[test]
fn a_topic_that_is_deleted_and_made_again_is_another_one() {
    let mut stage = Stage::with(&[("t", 1)]);
    stage.join("a", &["t"]);
    let before = stage.clients["a"].owned.clone();
    stage.delete("t");
    stage.beat("a");
    assert_eq!(stage.beat("a"), "a@2");
    stage.create("t", 1);
    assert_eq!(stage.beat("a"), "a@3 t[0]");
    assert_ne!(stage.clients["a"].owned, before);
}

#[test]
fn a_member_that_wants_less_gives_the_rest_back() {
    let mut stage = Stage::with(&[("t", 2), ("u", 2)]);
    stage.join("a", &["t", "u"]);
    assert_eq!(stage.join("b", &["u"]), "b@2");
    assert_eq!(stage.settle(), "Stable 2/2 | a@2 t[0,1] | b@2 u[0,1]");
    let a = stage.clients.get_mut("a").expect("a client");
    (a.topics, a.unsure) = (vec!["u".into()], true);
    assert_eq!(stage.settle(), "Stable 3/3 | a@3 u[1] | b@3 u[0]");
}

#[test]
fn what_a_member_no_longer_wants_it_gives_back_before_there_are_new_targets() {
    let mut stage = Stage::with(&[("t", 1), ("u", 1)]);
    stage.settings.assignment_interval = Duration::from_secs(10);
    stage.join("a", &["t", "u"]);
    stage.join("b", &["t"]);
    let a = stage.clients.get_mut("a").expect("a client");
    (a.topics, a.unsure) = (vec!["u".into()], true);
    stage.slow_beat("a");
    assert_eq!(stage.shown(), "Assigning 3/1 | a@1 u[0] -t[0] | b@1");
    stage.beat("a");
    assert_eq!(stage.shown(), "Assigning 3/1 | a@1 u[0] | b@1");
}

#[test]
fn a_pattern_finds_topics_as_they_come() {
    let mut stage = Stage::with(&[("logs.a", 1), ("other", 1)]);
    stage.client("a", &[]).regex = Some("logs\\..*|exact".into());
    assert_eq!(stage.beat("a"), "a@1 logs.a[0]");
    stage.create("logs.b", 1);
    stage.create("prefix.logs.c", 1);
    assert_eq!(stage.beat("a"), "a@1 logs.a[0]", "patterns are not looked up at every heartbeat");
    stage.wait(1000);
    assert_eq!(stage.beat("a"), "a@2 logs.a[0] logs.b[0]");
    stage.delete("logs.a");
    stage.wait(1000);
    stage.beat("a");
    assert_eq!(stage.beat("a"), "a@3 logs.b[0]");
    assert!(stage.group.is_subscribed("logs.b") && !stage.group.is_subscribed("other"));
    stage.reload();
    // Another one wants the same pattern and a name on top; then the pattern is given up.
    stage.client("b", &["other"]).regex = Some("logs\\..*|exact".into());
    assert_eq!(stage.settle(), "Stable 4/4 | a@4 logs.b[0] | b@4 other[0]");
    let a = stage.clients.get_mut("a").expect("a client");
    (a.topics, a.regex, a.unsure) = (vec!["other".into()], Some(String::new()), true);
    stage.settle();
    stage.leave("b", EPOCH_LEAVE).expect("it is there");
    assert_eq!(stage.settle(), "Stable 6/6 | a@6 other[0]");
    assert!(matches!(
        stage.written.iter().rev().find(|it| matches!(it, ConsumerGroupRecord::RegularExpression(..))),
        Some(ConsumerGroupRecord::RegularExpression(_, None))
    ));
}

/// Who reads what the cluster writes down of it reads its own commits, for ever.
#[test]
fn no_pattern_finds_topics_of_the_clusters_own() {
    let own = ["__consumer_offsets", "__share_group_state", "__transaction_state"];
    let mut stage = Stage::with(&own.map(|topic| (topic, 1)));
    stage.create("__mine", 1);
    stage.client("a", &[]).regex = Some(".*".into());
    assert_eq!(stage.beat("a"), "a@1 __mine[0]");
    stage.leave("a", EPOCH_LEAVE).expect("it is there");
    assert_eq!(
        stage.join("b", &["__consumer_offsets"]),
        "b@3 __consumer_offsets[0]",
        "who names one wants it"
    );
}

#[test]
fn a_pattern_that_is_new_is_looked_up_alone() {
    let mut stage = Stage::with(&[("logs.a", 1), ("other", 1)]);
    stage.client("a", &[]).regex = Some("logs\\..*".into());
    stage.beat("a");
    stage.create("logs.b", 1);
    let written = stage.written.len();
    stage.client("b", &[]).regex = Some("oth.*|logs\\.b".into());
    stage.beat("b");
    let looked_up = |stage: &Stage, from: usize| -> Vec<String> {
        let of = |it: &ConsumerGroupRecord| match it {
            ConsumerGroupRecord::RegularExpression(regex, Some(it)) => {
                Some(format!("{regex} → {}", it.topics.join(",")))
            }
            _ => None,
        };
        stage.written[from..].iter().filter_map(of).collect()
    };
    assert_eq!(looked_up(&stage, written), ["oth.*|logs\\.b → logs.b,other"]);
    stage.wait(1000);
    stage.beat("b");
    assert_eq!(looked_up(&stage, written + 1).last().map(String::as_str), Some("logs\\..* → logs.a,logs.b"));
    // Who comes with one that is known, or leaves one to others, has nothing looked up.
    let written = stage.written.len();
    stage.client("c", &[]).regex = Some("logs\\..*".into());
    stage.beat("c");
    stage.leave("c", EPOCH_LEAVE).expect("it is there");
    assert_eq!(looked_up(&stage, written), [] as [&str; 0]);
    assert_eq!(stage.group.soft.patterns.known(), ["logs\\..*", "oth.*|logs\\.b"]);
    let b = stage.clients.get_mut("b").expect("a client");
    (b.regex, b.unsure) = (Some("logs\\..*".into()), true);
    stage.settle();
    assert_eq!(stage.group.soft.patterns.known(), ["logs\\..*"], "what nobody has is not kept");
}

#[test]
fn a_pattern_is_looked_up_again_after_a_while_although_nothing_happened() {
    let mut stage = Stage::with(&[("logs.a", 1)]);
    stage.settings.regex_refresh_interval = Duration::from_secs(10);
    stage.client("a", &[]).regex = Some("logs\\..*".into());
    stage.beat("a");
    stage.wait(1_000);
    stage.beat("a");
    let (looked_up, written) = (stage.group.soft.resolved, stage.written.len());
    stage.wait(9_999);
    stage.beat("a");
    assert_eq!(stage.group.soft.resolved, looked_up);
    stage.wait(1);
    assert_eq!(stage.beat("a"), "a@1 logs.a[0]");
    assert_eq!(stage.group.soft.resolved, Some(stage.now));
    assert_eq!(stage.written.len(), written, "it matches what it did");
}

#[test]
fn members_are_given_what_is_near_them() {
    let mut stage = Stage::with(&[("t", 6)]);
    for (name, rack) in [("m", "c"), ("n", "b"), ("o", "a")] {
        stage.client(name, &["t"]).rack = Some(rack.into());
        stage.settings.assignment_interval = Duration::from_secs(10);
        stage.beat(name);
    }
    stage.wait(10_000);
    stage.settings.assignment_interval = Duration::ZERO;
    // All but the first were without targets; what the first one gives up goes to where it is near.
    assert_eq!(stage.settle(), "Stable 3/3 | m@3 t[2,5] | n@3 t[1,4] | o@3 t[0,3]");
}
