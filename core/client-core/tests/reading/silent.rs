//! A leader that says nothing any more, on a connection that stands.

use std::time::Duration;

use base::Offset;
use vltava_client_core::consumer::{ConsumerSettings, Start};
use wire::ApiKey;

use crate::stage::Stage;

/// It reads from an offset, and the leader, host `one`, has the fetch.
fn fetching(first: &str, fetch_wait_max: Duration) -> Stage {
    let settings = ConsumerSettings { fetch_wait_max, ..ConsumerSettings::default() };
    let mut stage = Stage::beginning_at(first, settings);
    stage.read(Start::Offset(Offset(7)));
    assert_eq!(asked(&stage), [("one", ApiKey::Fetch, 7)]);
    stage
}

fn asked(stage: &Stage) -> Vec<(&str, ApiKey, i64)> {
    stage.asked.iter().map(|it| (&*it.host, it.key, it.offset)).collect()
}

#[test]
fn reading_goes_on_with_its_successor() {
    for (first, wait) in [("one", Duration::from_millis(500)), ("two", Duration::from_secs(5))] {
        let mut stage = fetching(first, wait);
        assert_eq!(stage.told, [first]);
        stage.cut_off = Some("one");
        let told = stage.told.len();
        stage.pass(wait + Duration::from_millis(999));
        assert_eq!(stage.told.len(), told, "it may park a fetch, and take its time");
        stage.pass(Duration::from_millis(1));
        assert_eq!(stage.told[told..], ["two"], "who does not live where nothing is heard");
        assert_eq!((stage.asked.len(), stage.closed.len()), (1, 0), "it leads still");
        stage.leader = 2;
        stage.pass(Duration::from_millis(249));
        assert_eq!(stage.told.len(), told + 1);
        stage.pass(Duration::from_millis(1));
        assert_eq!(asked(&stage)[1..], [("two", ApiKey::Fetch, 7)]);
        assert_eq!(stage.closed, ["one"]);
    }
}

#[test]
fn as_long_as_nobody_else_leads_it_is_waited_for() {
    let mut stage = fetching("two", Duration::from_millis(500));
    let told = stage.told.len();
    stage.pass(Duration::from_secs(20));
    assert!(stage.closed.is_empty());
    let times = stage.told.len() - told;
    assert!((60..=80).contains(&times), "others were asked {times} times");
    stage.answer_fetch();
    assert_eq!(asked(&stage), [("one", ApiKey::Fetch, -1)], "it knows where");
    let told = stage.told.len();
    stage.pass(Duration::from_millis(1_400));
    assert_eq!(stage.told.len(), told, "it was heard");
}

#[test]
fn its_successor_is_asked_where_a_partition_begins() {
    let mut stage = Stage::new(ConsumerSettings::default());
    stage.read(Start::Earliest);
    assert_eq!(asked(&stage), [("one", ApiKey::ListOffsets, -2)]);
    (stage.cut_off, stage.leader) = (Some("one"), 2);
    stage.pass(Duration::from_millis(1_200));
    assert_eq!(asked(&stage)[1..], [("two", ApiKey::ListOffsets, -2)]);
    assert_eq!(stage.position(), None);
}

#[test]
fn a_leader_that_does_not_greet_is_left_for_its_successor() {
    let mut stage = Stage::new(ConsumerSettings::default());
    stage.cut_off = Some("one");
    stage.read(Start::Offset(Offset(7)));
    stage.pass(Duration::from_millis(1_000));
    assert_eq!(stage.told, ["two", "two"]);
    assert_eq!(asked(&stage), []);
    stage.leader = 2;
    stage.pass(Duration::from_millis(250));
    assert_eq!(asked(&stage), [("two", ApiKey::Fetch, 7)]);
}
