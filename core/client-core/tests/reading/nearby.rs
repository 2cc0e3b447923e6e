//! A leader that sends the reader to a replica in its rack (KIP-392).

use std::time::Duration;

use base::Offset;
use vltava_client_core::Backoff;
use vltava_client_core::consumer::{ConsumerSettings, Start};

use crate::stage::Stage;

const WAIT: Duration = Duration::from_millis(500);
const LEASE: Duration = Duration::from_secs(60);
/// The least and the most that is waited after a first failure.
const RETRY: [Duration; 2] = [Duration::from_millis(80), Duration::from_millis(120)];

/// It was sent to host `two`, which has its fetch; host `one` leads.
fn sent_away() -> Stage {
    let settings = ConsumerSettings {
        rack: Some("here".into()),
        fetch_wait_max: WAIT,
        metadata_age_max: LEASE,
        retry: Backoff { first: Duration::from_millis(100), max: Duration::from_secs(1) },
        ..ConsumerSettings::default()
    };
    let mut stage = Stage::beginning_at("two", settings);
    stage.read(Start::Offset(Offset(7)));
    assert_eq!(asked(&stage), ["one from 7 in here"]);
    stage.send_to(2);
    assert_eq!(asked(&stage), ["two from 7 in here"]);
    stage
}

fn asked(stage: &Stage) -> Vec<String> {
    let said = |it: &crate::stage::Asked| format!("{} from {} in {}", it.host, it.offset, it.rack);
    stage.asked.iter().map(said).collect()
}

#[test]
fn it_is_read_there_until_the_leader_is_to_say_so_again() {
    let mut stage = sent_away();
    let second = Duration::from_secs(1);
    for _ in 1..LEASE.as_secs() {
        stage.pass(second);
        stage.answer_fetch();
        assert_eq!(asked(&stage), ["two from -1 in here"], "it knows where");
    }
    stage.pass(second);
    assert_eq!(asked(&stage)[1..], ["one from 7 in here"]);
}

#[test]
fn what_it_says_against_the_leader_is_not_believed() {
    let mut stage = sent_away();
    stage.contradict();
    assert_eq!(asked(&stage), [""; 0], "and it is not asked as fast as it answers");
    stage.pass(RETRY[0] - Duration::from_millis(1));
    assert_eq!(asked(&stage), [""; 0]);
    stage.pass(RETRY[1]);
    assert_eq!(asked(&stage), ["one from 7 in "], "and does not name the same again");
}

#[test]
fn who_is_silent_is_left_for_the_leader() {
    let mut stage = sent_away();
    stage.cut_off = Some("two");
    stage.pass(WAIT + Duration::from_millis(999));
    assert_eq!(asked(&stage), ["two from 7 in here"], "it may park a fetch, and take its time");
    stage.pass(Duration::from_millis(1));
    assert_eq!(asked(&stage)[1..], ["one from 7 in "], "who would name it again");
    assert_eq!(stage.closed, ["two"]);
    let second = Duration::from_secs(1);
    for _ in 1..LEASE.as_secs() {
        stage.pass(second);
        stage.answer_fetch();
    }
    stage.pass(second);
    stage.answer_fetch();
    let last = asked(&stage).pop();
    assert_eq!(last.as_deref(), Some("one from -1 in here"), "which is named again, and may answer by then");
}

#[test]
fn a_leader_that_sends_it_there_all_the_same_is_believed_after_a_while() {
    let mut stage = sent_away();
    stage.cut_off = Some("two");
    stage.pass(WAIT + Duration::from_secs(1));
    assert_eq!(asked(&stage)[1..], ["one from 7 in "]);
    stage.cut_off = None;
    stage.asked.remove(0);
    stage.send_to(2);
    assert_eq!(asked(&stage), [""; 0], "not as fast as it answers");
    stage.pass(Duration::from_secs(1));
    assert_eq!(asked(&stage), ["one from 7 in "]);
    stage.pass(Duration::from_millis(200));
    stage.send_to(2);
    let last = asked(&stage).pop();
    assert_eq!(last.as_deref(), Some("two from 7 in here"), "it gives nothing itself");
}

#[test]
fn nobody_is_sent_where_nobody_is() {
    for replica in [1, 9] {
        let mut stage = sent_away();
        stage.contradict();
        stage.pass(RETRY[1]);
        assert_eq!(asked(&stage), ["one from 7 in "]);
        stage.send_to(replica);
        assert_eq!(asked(&stage), [""; 0], "it is not asked as fast as it answers");
        stage.pass(Duration::from_secs(1));
        assert_eq!(asked(&stage), ["one from 7 in "]);
    }
}
