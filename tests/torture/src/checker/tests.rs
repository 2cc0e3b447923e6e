//! Histories made by hand: one for each thing that must not be, and some that only look so.

use std::time::Instant;

use super::*;
use crate::history::Promises;

const P: i32 = 0;
const TAIL: u32 = 1;
const LAST: u32 = 9;

fn sent(by: u32, first: u64, count: u32) -> Sent {
    Sent { by, partition: P, first, count }
}

fn invoke(by: u32, first: u64, count: u32) -> Event {
    Event::Invoke(sent(by, first, count))
}

fn ok(by: u32, first: u64, count: u32, offset: i64) -> Event {
    Event::Ok { sent: sent(by, first, count), offset: Some(offset) }
}

fn info(by: u32, first: u64, count: u32) -> Event {
    Event::Info { sent: sent(by, first, count), why: "no answer".to_owned() }
}

fn fail(by: u32, first: u64, count: u32) -> Event {
    Event::Fail { sent: sent(by, first, count), why: "refused".to_owned() }
}

fn assign(who: u32, offset: i64) -> Event {
    Event::Assign { who, partition: P, offset }
}

fn poll(who: u32, runs: &[(i64, u32, u64, u32)]) -> Event {
    let runs = runs.iter().map(|&(offset, by, first, count)| Run(offset, by, first, count)).collect();
    Event::Poll { who, partition: P, runs }
}

/// The last read: from 0 to the end.
fn last(runs: &[(i64, u32, u64, u32)]) -> Vec<Event> {
    let end = runs.last().map_or(0, |&(offset, _, _, count)| offset + i64::from(count));
    vec![assign(LAST, 0), poll(LAST, runs), Event::Final { who: LAST, partition: P, end }]
}

fn producer(by: u32, promises: Promises) -> Event {
    Event::Producer { by, name: "somebody".to_owned(), promises }
}

/// A batch of two records.
fn batch(offset: i64, epoch: i16, sequence: i32) -> Event {
    Event::Batch { partition: P, offset, producer: 7, epoch, sequence, count: 2 }
}

fn verdict(events: &[Event], last: Vec<Event>) -> Verdict {
    let all = events.iter().cloned().chain(last);
    let lines: Vec<_> = all.zip(1..).map(|(event, at)| Line { at, event }).collect();
    check(&lines)
}

/// What is found, as the kinds with their counts.
fn kinds(events: &[Event], last: Vec<Event>) -> Vec<(&'static str, u64)> {
    verdict(events, last).found.kinds().map(|(name, kind)| (name, kind.count)).collect()
}

#[test]
fn what_is_as_it_should_be_is_not_complained_of() {
    let events = [
        assign(TAIL, 0),
        invoke(1, 0, 5),
        invoke(2, 0, 2),
        ok(2, 0, 2, 0),
        poll(TAIL, &[(0, 2, 0, 2)]),
        ok(1, 0, 5, 2),
        poll(TAIL, &[(2, 1, 0, 5)]),
    ];
    let told = verdict(&events, last(&[(0, 2, 0, 2), (2, 1, 0, 5)]));
    assert!(told.found.is_empty(), "{:?}", told.found);
    let expected = Counts { sent: 7, acknowledged: 7, polled: 14, logged: 7, ..Counts::default() };
    assert_eq!(told.counts, expected);
}

#[test]
fn what_nobody_knows_may_be_there_or_not() {
    // 0..2 has no answer and is there, 2..4 has none and is not, 4..6 was answered; 6 has no line at all.
    let events = [invoke(1, 0, 7), info(1, 0, 2), info(1, 2, 2), ok(1, 4, 2, 2)];
    let told = verdict(&events, last(&[(0, 1, 0, 2), (2, 1, 4, 2)]));
    assert!(told.found.is_empty(), "{:?}", told.found);
    assert_eq!((told.counts.unknown, told.counts.unknown_found, told.counts.acknowledged), (5, 2, 2));
}

#[test]
fn what_nobody_knows_may_come_late_and_out_of_order() {
    let events = [invoke(1, 0, 2), info(1, 0, 1), ok(1, 1, 1, 0)];
    assert!(kinds(&events, last(&[(0, 1, 1, 1), (1, 1, 0, 1)])).is_empty());
}

#[test]
fn retries_without_idempotence_may_repeat_and_reorder() {
    let plain = producer(1, Promises::Nothing);
    let events = [plain, invoke(1, 0, 2), ok(1, 0, 1, 2), ok(1, 1, 1, 1)];
    assert!(kinds(&events, last(&[(0, 1, 0, 1), (1, 1, 1, 1), (2, 1, 0, 1)])).is_empty());
}

#[test]
fn a_reader_may_be_ahead_of_the_answer_and_of_the_line_of_the_send() {
    let events = [assign(TAIL, 0), poll(TAIL, &[(0, 1, 0, 1)]), invoke(1, 0, 1), ok(1, 0, 1, 0)];
    assert!(kinds(&events, last(&[(0, 1, 0, 1)])).is_empty());
}

#[test]
fn a_reader_may_be_sent_back_and_forth() {
    let events = [
        invoke(1, 0, 4),
        ok(1, 0, 4, 0),
        assign(TAIL, 2),
        poll(TAIL, &[(2, 1, 2, 2)]),
        assign(TAIL, 0),
        poll(TAIL, &[(0, 1, 0, 1)]),
    ];
    assert!(kinds(&events, last(&[(0, 1, 0, 4)])).is_empty());
}

#[test]
fn what_was_acknowledged_is_missed_at_the_end_of_the_log() {
    let events = [invoke(1, 0, 3), ok(1, 0, 3, 0)];
    assert_eq!(kinds(&events, last(&[(0, 1, 0, 2)])), [("lost", 1)]);
    assert_eq!(kinds(&events, last(&[])), [("lost", 3)]);
}

#[test]
fn what_was_acknowledged_is_missed_where_another_value_is() {
    let events = [invoke(1, 0, 2), invoke(2, 0, 1), ok(1, 0, 2, 0), info(2, 0, 1)];
    let found = kinds(&events, last(&[(0, 1, 0, 1), (1, 2, 0, 1)]));
    assert_eq!(found, [("inconsistent", 1), ("lost", 1)]);
}

#[test]
fn what_was_acknowledged_without_a_place_may_be_anywhere() {
    let somewhere = |first| Event::Ok { sent: sent(1, first, 1), offset: None };
    let events = [invoke(1, 0, 2), somewhere(0), somewhere(1)];
    assert!(kinds(&events, last(&[(0, 1, 1, 1), (1, 1, 0, 1)])).is_empty());
    assert_eq!(kinds(&events, last(&[(0, 1, 0, 1)])), [("lost", 1)]);
}

#[test]
fn what_was_acknowledged_elsewhere_than_it_is() {
    let events = [invoke(1, 0, 2), ok(1, 0, 1, 5), ok(1, 1, 1, 7)];
    let found = kinds(&events, last(&[(0, 1, 0, 2)]));
    assert_eq!(found, [("duplicate", 2), ("lost", 2)]);
}

#[test]
fn what_a_reader_saw_must_stay() {
    // Nobody was promised anything, but a reader acts on what it reads.
    let events = [invoke(1, 0, 2), info(1, 0, 2), assign(TAIL, 0), poll(TAIL, &[(0, 1, 0, 2)])];
    assert_eq!(kinds(&events, last(&[(0, 1, 0, 1)])), [("vanished", 1)]);
}

#[test]
fn a_value_twice() {
    let events = [invoke(1, 0, 1), ok(1, 0, 1, 0)];
    assert_eq!(kinds(&events, last(&[(0, 1, 0, 1), (1, 1, 0, 1)])), [("duplicate", 1)]);
    // Also if its producer was told nothing.
    let events = [invoke(1, 0, 1), info(1, 0, 1)];
    assert_eq!(kinds(&events, last(&[(0, 1, 0, 1), (1, 1, 0, 1)])), [("duplicate", 1)]);
}

#[test]
fn who_may_send_again_under_a_new_epoch_is_counted() {
    let events = [producer(1, Promises::Order), invoke(1, 0, 1), ok(1, 0, 1, 1)];
    let told = verdict(&events, last(&[(0, 1, 0, 1), (1, 1, 0, 1)]));
    assert!(told.found.is_empty(), "{:?}", told.found);
    assert_eq!(told.counts.resent, 1);
    // But in order.
    let events = [producer(1, Promises::Order), invoke(1, 0, 2), ok(1, 0, 1, 1), ok(1, 1, 1, 0)];
    assert_eq!(kinds(&events, last(&[(0, 1, 1, 1), (1, 1, 0, 1)])), [("reordered", 1)]);
}

#[test]
fn batches_of_a_producer_follow_each_other() {
    let found = |batches: &[Event]| kinds(batches, Vec::new());
    // From 0 in each epoch, and past the largest number to 0.
    let good = [batch(0, 0, 0), batch(2, 0, 2), batch(4, 3, 0), batch(6, 3, 2)];
    assert!(found(&good).is_empty());
    let around = |at, sequence| batch(at, 0, sequence);
    let wraps = [around(0, i32::MAX - 1), around(2, 0), around(4, 2)];
    assert_eq!(found(&wraps), [("out of sequence", 1)], "only the first, which is not 0");
    // A repetition, a gap, an epoch that does not begin at 0, and one that was over.
    for bad in [batch(4, 0, 2), batch(4, 0, 6), batch(4, 1, 4), batch(4, -1, 4)] {
        let batches = [batch(0, 0, 0), batch(2, 0, 2), bad.clone()];
        assert_eq!(found(&batches), [("out of sequence", 1)], "{bad:?}");
    }
    // Those without an id promise nothing.
    let plain = Event::Batch { partition: P, offset: 0, producer: -1, epoch: -1, sequence: -1, count: 2 };
    assert!(found(&[plain.clone(), plain]).is_empty());
}

#[test]
fn what_is_there_at_last_counts_although_others_saw_something_else() {
    let events =
        [invoke(1, 0, 1), invoke(2, 0, 1), assign(TAIL, 0), poll(TAIL, &[(0, 1, 0, 1)]), ok(2, 0, 1, 0)];
    let found = kinds(&events, last(&[(0, 2, 0, 1)]));
    assert_eq!(found, [("inconsistent", 2), ("vanished", 1)], "nothing is lost");
}

#[test]
fn a_later_value_before_an_earlier_one() {
    let events = [invoke(1, 0, 2), ok(1, 1, 1, 0), ok(1, 0, 1, 1)];
    assert_eq!(kinds(&events, last(&[(0, 1, 1, 1), (1, 1, 0, 1)])), [("reordered", 1)]);
}

#[test]
fn two_readers_see_different_values() {
    let events = [invoke(1, 0, 1), invoke(2, 0, 1), assign(TAIL, 0), poll(TAIL, &[(0, 1, 0, 1)])];
    assert_eq!(kinds(&events, last(&[(0, 2, 0, 1)])), [("inconsistent", 1), ("vanished", 1)]);
}

#[test]
fn a_value_that_nobody_sent() {
    assert_eq!(kinds(&[invoke(1, 0, 1), ok(1, 0, 1, 0)], last(&[(0, 1, 0, 2)])), [("phantom", 1)]);
}

#[test]
fn a_value_in_another_partition() {
    let elsewhere = Event::Invoke(Sent { partition: 1, ..sent(1, 0, 1) });
    let read = Event::Final { who: LAST, partition: 1, end: 0 };
    let mut reads = last(&[(0, 1, 0, 1)]);
    reads.extend([Event::Assign { who: LAST, partition: 1, offset: 0 }, read]);
    assert_eq!(kinds(&[elsewhere], reads), [("misplaced", 1)]);
}

#[test]
fn a_value_that_was_said_not_to_be_written() {
    let events = [invoke(1, 0, 1), fail(1, 0, 1)];
    assert_eq!(kinds(&events, last(&[(0, 1, 0, 1)])), [("failed appears", 1)]);
    assert!(kinds(&events, last(&[])).is_empty());
}

#[test]
fn a_reader_that_passes_over_records() {
    let events =
        [invoke(1, 0, 3), ok(1, 0, 3, 0), assign(TAIL, 0), poll(TAIL, &[(0, 1, 0, 1), (2, 1, 2, 1)])];
    assert_eq!(kinds(&events, last(&[(0, 1, 0, 3)])), [("skipped", 1)]);
    let late = [invoke(1, 0, 3), ok(1, 0, 3, 0), assign(TAIL, 0), poll(TAIL, &[(1, 1, 1, 2)])];
    assert_eq!(kinds(&late, last(&[(0, 1, 0, 3)])), [("skipped", 1)]);
}

#[test]
fn a_reader_that_goes_back() {
    let events = [
        invoke(1, 0, 3),
        ok(1, 0, 3, 0),
        assign(TAIL, 0),
        poll(TAIL, &[(0, 1, 0, 2)]),
        poll(TAIL, &[(1, 1, 1, 2)]),
    ];
    assert_eq!(kinds(&events, last(&[(0, 1, 0, 3)])), [("went back", 1)]);
}

#[test]
fn a_reader_whose_place_is_gone() {
    let why = "out of range".to_owned();
    let events = [Event::Refused { who: TAIL, partition: P, offset: 3, why }, invoke(1, 0, 1)];
    assert_eq!(kinds(&events, last(&[])), [("refused", 1)]);
}

#[test]
fn bytes_that_nobody_wrote() {
    let why = "no value".to_owned();
    let events = [Event::Corrupt { who: TAIL, partition: P, offset: 3, why }, invoke(1, 0, 1)];
    assert_eq!(kinds(&events, last(&[])), [("corrupt", 1)]);
}

#[test]
fn a_partition_that_is_not_read_at_the_end() {
    assert_eq!(kinds(&[invoke(1, 0, 1), ok(1, 0, 1, 0)], Vec::new()), [("unread", 1)]);
}

#[test]
fn a_last_read_that_stops_short() {
    let reads =
        vec![assign(LAST, 0), poll(LAST, &[(0, 1, 0, 1)]), Event::Final { who: LAST, partition: P, end: 2 }];
    let found = kinds(&[invoke(1, 0, 2), ok(1, 0, 2, 0)], reads);
    assert_eq!(found, [("lost", 1), ("short", 1)]);
}

#[test]
fn a_history_that_contradicts_itself() {
    for events in [
        vec![invoke(1, 0, 2), invoke(1, 1, 1)],
        vec![invoke(1, 0, 1), ok(1, 0, 1, 0), info(1, 0, 1)],
        vec![invoke(2, 0, 1), info(1, 0, 1)],
    ] {
        assert!(verdict(&events, last(&[])).found.count("nonsense") == 1, "{events:?}");
    }
}

#[test]
fn only_the_first_of_many_are_kept() {
    let told = verdict(&[invoke(1, 0, 1000), ok(1, 0, 1000, 0)], last(&[]));
    let lost = told.found.kinds().next().map(|(name, kind)| (name, kind.count, kind.first.len()));
    assert_eq!(lost, Some(("lost", 1000, 20)));
}

/// Far offsets and numbers take no memory for what lies between.
#[test]
fn what_a_broker_claims_costs_no_more_than_it_says() {
    let events = [invoke(1, u64::MAX - 9, 1), ok(1, u64::MAX - 9, 1, i64::MAX - 9), assign(TAIL, -7)];
    assert_eq!(verdict(&events, last(&[])).found.count("lost"), 1);
}

#[test]
fn ten_million_operations_are_checked_in_seconds() {
    const VALUES: u64 = 2_500_000;
    const TOGETHER: u32 = 10;
    let began = Instant::now();
    let mut events = vec![assign(TAIL, 0)];
    let mut runs = Vec::new();
    // An invocation, an answer and two polls for each value.
    for first in (0..VALUES).step_by(TOGETHER as usize) {
        let (by, number) = (first as u32 / TOGETHER % 4, first / 4);
        let number = number - number % u64::from(TOGETHER);
        let value = (by, number);
        events.push(invoke(value.0, value.1, TOGETHER));
        events.push(ok(value.0, value.1, TOGETHER, first as i64));
        events.push(poll(TAIL, &[(first as i64, value.0, value.1, TOGETHER)]));
        runs.push((first as i64, value.0, value.1, TOGETHER));
    }
    let told = verdict(&events, last(&runs));
    assert!(told.found.is_empty(), "{:?}", told.found);
    assert_eq!((told.counts.acknowledged, told.counts.polled), (VALUES, 2 * VALUES));
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}
