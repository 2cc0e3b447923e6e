//! Histories of a group made by hand: one for each thing that it must not do, and some that only look so.

use super::*;
use crate::checker::{self, Verdict};

const P: i32 = 0;
const A: u32 = 1;
const B: u32 = 2;
const MS: u64 = 1_000_000;

fn member(who: u32) -> Event {
    Event::Member { who, group: 0 }
}

fn assigned(who: u32) -> Event {
    Event::Assigned { who, partitions: vec![P] }
}

fn revoked(who: u32) -> Event {
    Event::Revoked { who, partitions: vec![P] }
}

fn lost(who: u32) -> Event {
    Event::Lost { who, partitions: vec![P] }
}

fn begin(who: u32, offset: i64) -> Event {
    Event::Assign { who, partition: P, offset }
}

/// Records that producer 9 has written in their order.
fn poll(who: u32, from: i64, count: u32) -> Event {
    Event::Poll { who, partition: P, runs: vec![Run(from, 9, from as u64, count)] }
}

fn commit(who: u32, number: u64, offset: i64) -> Event {
    Event::Commit { who, number, offsets: vec![(P, offset)] }
}

fn committed(who: u32, number: u64) -> Event {
    Event::Committed { who, number }
}

/// Asked and told with nothing between.
fn told(at_ms: u64, offset: Option<i64>) -> Event {
    let offsets = offset.map(|offset| (P, offset)).into_iter().collect();
    Event::Told { group: 0, since: at_ms * MS, offsets, last: false }
}

/// What is written, and what is read and told at the end.
fn end(end: i64, committed: i64) -> Vec<Event> {
    let sent = crate::history::Sent { by: 9, partition: P, first: 0, count: end as u32 };
    let mut all = vec![Event::Invoke(sent), Event::Ok { sent, offset: Some(0) }, begin(99, 0)];
    let runs = vec![Run(0, 9, 0, end as u32)];
    all.push(Event::Poll { who: 99, partition: P, runs });
    all.push(Event::Final { who: 99, partition: P, end });
    all.push(Event::Told { group: 0, since: 1_000 * MS, offsets: vec![(P, committed)], last: true });
    all
}

/// One line each millisecond, and a whole second before the end.
fn verdict(events: &[Event], end: Vec<Event>) -> Verdict {
    let lines = events.iter().cloned().zip(1..).map(|(event, ms)| Line { at: ms * MS, event });
    let end = end.into_iter().zip(1_001..).map(|(event, ms)| Line { at: ms * MS, event });
    checker::check(&lines.chain(end).collect::<Vec<_>>())
}

fn kinds(events: &[Event], end: Vec<Event>) -> Vec<(&'static str, u64)> {
    verdict(events, end).found.kinds().map(|(name, kind)| (name, kind.count)).collect()
}

/// A reads and commits the first ten records.
fn ten_of_a() -> Vec<Event> {
    vec![member(A), member(B), assigned(A), begin(A, 0), poll(A, 0, 10), commit(A, 0, 10), committed(A, 0)]
}

fn then(first: Vec<Event>, rest: &[Event]) -> Vec<Event> {
    first.into_iter().chain(rest.iter().cloned()).collect()
}

#[test]
fn one_member_after_the_other() {
    let b = [assigned(B), begin(B, 10), poll(B, 10, 5), commit(B, 0, 15), committed(B, 0)];
    let events = then(then(ten_of_a(), &[revoked(A), told(8, Some(10))]), &b);
    let told = verdict(&events, end(15, 15));
    assert!(told.found.is_empty(), "{:?}", told.found);
    let counts = told.counts.groups;
    assert_eq!((counts.members, counts.assigned, counts.revoked, counts.commits), (2, 2, 1, 2));
}

#[test]
fn who_was_killed_or_out_of_touch_may_have_believed_to_own() {
    let b = |a: Event| [assigned(B), begin(B, 10), poll(B, 10, 5), a, commit(B, 0, 15), committed(B, 0)];
    for a in [lost(A), Event::Gone { who: A, killed: true }] {
        // It was given more meanwhile, commits it, and is refused.
        let late =
            [poll(A, 10, 5), commit(A, 1, 15), Event::Uncommitted { who: A, number: 1, why: "no".into() }];
        let events = then(then(ten_of_a(), &late), &b(a));
        let told = verdict(&events, end(15, 15));
        assert!(told.found.is_empty(), "{:?}", told.found);
        let counts = told.counts.groups;
        assert_eq!((counts.out_of_touch, counts.out_of_touch_ms_max), (1, 3));
    }
    // Who leaves does not know whether its group still knew it.
    let leaves = [Event::Leaving { who: A }, assigned(B), revoked(A)];
    let b = [begin(B, 10), poll(B, 10, 5), commit(B, 0, 15), committed(B, 0)];
    assert!(kinds(&then(then(ten_of_a(), &leaves), &b), end(15, 15)).is_empty());
}

#[test]
fn who_is_given_a_partition_late_is_not_its_owner() {
    // B was to have it, and hears so when A has had it for long; it is told so, too.
    let events = [commit(A, 1, 10), assigned(B), commit(A, 2, 10), committed(A, 2), lost(B), revoked(A)];
    assert!(kinds(&then(ten_of_a(), &events), end(10, 10)).is_empty());
}

#[test]
fn two_members_own_a_partition() {
    let b = [assigned(B), begin(B, 10), poll(B, 10, 5), commit(B, 0, 15), committed(B, 0), revoked(A)];
    assert_eq!(kinds(&then(ten_of_a(), &b), end(15, 15)), [("two owners", 1)]);
    // Also if the second commits nothing, but gives it back.
    let b = [assigned(B), revoked(A), revoked(B)];
    assert_eq!(kinds(&then(ten_of_a(), &b), end(10, 10)), [("two owners", 1)]);
}

fn away(who: u32, why: Away) -> Event {
    Event::Away { who, why }
}

const STOPPED: Away = Away::Stopped;

#[test]
fn who_was_stopped_gives_back_what_it_was_asked_for_long_ago() {
    let b = [assigned(B), begin(B, 10), poll(B, 10, 5), commit(B, 0, 15), committed(B, 0)];
    let late = [Event::Back { who: A }, poll(A, 10, 2), revoked(A), assigned(A), revoked(A)];
    let stopped = |rest: &[Event]| then(then(then(ten_of_a(), &[away(A, STOPPED)]), &b), rest);
    let told = verdict(&stopped(&late), end(15, 15));
    assert!(told.found.is_empty(), "{:?}", told.found);
    let counts = told.counts.groups;
    assert_eq!((counts.out_of_touch, counts.out_of_touch_ms_max, counts.stopped), (1, 7, 1));
    // Unless its group took it for a member since it was back.
    let heard = [Event::Back { who: A }, lost(A), revoked(B), assigned(A), commit(A, 1, 15), committed(A, 1)];
    let again = [assigned(B), commit(B, 1, 15), committed(B, 1), revoked(A)];
    assert_eq!(kinds(&stopped(&then(heard.to_vec(), &again)), end(15, 15)), [("two owners", 1)]);
}

#[test]
fn who_was_stopped_commits_what_is_anothers() {
    let b = [assigned(B), begin(B, 10), poll(B, 10, 5), commit(B, 0, 15), committed(B, 0)];
    let late = [Event::Back { who: A }, poll(A, 10, 6), commit(A, 1, 16)];
    let then_told = |told| {
        let events = then(then(then(ten_of_a(), &[away(A, STOPPED)]), &b), &late);
        then(events, &[told, lost(A)])
    };
    assert_eq!(kinds(&then_told(committed(A, 1)), end(16, 16)), [("fenced commit", 1)]);
    let refused = Event::Uncommitted { who: A, number: 1, why: "no".into() };
    let mut events = then_told(refused);
    events.extend([poll(B, 15, 1), commit(B, 1, 16), committed(B, 1)]);
    let told = verdict(&events, end(16, 16));
    assert!(told.found.is_empty(), "{:?}", told.found);
    assert_eq!(told.counts.groups.fenced, 1);
}

#[test]
fn who_was_stopped_begins_where_it_was_told_to_before() {
    let stopped = [revoked(A), away(A, STOPPED), assigned(B), begin(B, 10), poll(B, 10, 5), commit(B, 0, 15)];
    let late = [committed(B, 0), Event::Back { who: A }, assigned(A), begin(A, 10), poll(A, 10, 2), lost(A)];
    let events = then(then(ten_of_a(), &stopped), &late);
    assert!(kinds(&events, end(15, 15)).is_empty());
    let in_touch: Vec<Event> = events.into_iter().filter(|event| *event != away(A, STOPPED)).collect();
    assert_eq!(kinds(&in_touch, end(15, 15)), [("commit went back", 1)]);
}

#[test]
fn who_is_stopped_says_itself_that_it_stood_still() {
    let (still, back) = (away(A, Away::StoodStill), Event::Back { who: A });
    let once = [still.clone(), away(A, STOPPED), back.clone(), back.clone()];
    let again = [away(A, Away::CutOff), back.clone(), still, back];
    let counts = verdict(&then(then(ten_of_a(), &once), &again), end(10, 10)).counts.groups;
    let GroupCounts { stopped, cut_off, stood_still, stood_still_ms_max, .. } = counts;
    assert_eq!((stopped, cut_off, stood_still, stood_still_ms_max), (1, 1, 1, 1));
}

#[test]
fn who_has_lost_a_partition_commits_it() {
    let b = [assigned(B), begin(B, 10), poll(B, 10, 5), commit(B, 0, 15), committed(B, 0)];
    let late = [poll(A, 10, 6), commit(A, 1, 16), committed(A, 1), lost(A)];
    assert_eq!(kinds(&then(then(ten_of_a(), &b), &late), end(16, 16)), [("fenced commit", 1)]);
    // What it made before may be answered after.
    let late = [poll(A, 10, 6), commit(A, 1, 16)];
    let b = [assigned(B), begin(B, 16), committed(A, 1), lost(A), commit(B, 0, 16), committed(B, 0)];
    assert!(kinds(&then(then(ten_of_a(), &late), &b), end(16, 16)).is_empty());
}

#[test]
fn a_commit_that_is_less_than_the_last() {
    let again = [revoked(A), assigned(A), commit(A, 1, 7), committed(A, 1)];
    assert_eq!(kinds(&then(ten_of_a(), &again), end(10, 10)), [("commit went back", 1)]);
    // One that nobody had an answer to is made late: it shows where the next begins.
    let b = [commit(A, 1, 12), told(8, Some(12)), revoked(A), assigned(B), begin(B, 10), poll(B, 10, 2)];
    assert_eq!(kinds(&then(ten_of_a(), &b), end(12, 12)), [("commit went back", 1)]);
}

#[test]
fn who_comes_next_begins_too_early() {
    let b = [revoked(A), assigned(B), begin(B, 9), poll(B, 9, 1)];
    assert_eq!(kinds(&then(ten_of_a(), &b), end(10, 10)), [("commit went back", 1)]);
    let b = [revoked(A), assigned(B), begin(B, 0), poll(B, 0, 10)];
    assert_eq!(kinds(&then(ten_of_a(), &b), end(10, 10)), [("commit went back", 1)]);
}

#[test]
fn what_is_told_is_less_than_what_was_acknowledged() {
    assert_eq!(kinds(&then(ten_of_a(), &[told(8, Some(9))]), end(10, 10)), [("commit went back", 1)]);
    assert_eq!(kinds(&then(ten_of_a(), &[told(8, None)]), end(10, 10)), [("commit went back", 1)]);
    // Asked before it was acknowledged, and told after.
    assert!(kinds(&then(ten_of_a(), &[told(7, None)]), end(10, 10)).is_empty());
}

#[test]
fn who_comes_next_begins_too_late() {
    let b = [revoked(A), assigned(B), begin(B, 12), poll(B, 12, 3)];
    let found = kinds(&then(ten_of_a(), &b), end(15, 15));
    assert_eq!(found, [("commit from nowhere", 2), ("undelivered", 1)]);
}

#[test]
fn more_is_told_than_was_ever_wanted() {
    assert_eq!(
        kinds(&then(ten_of_a(), &[told(8, Some(11))]), end(10, 10)),
        [("commit from nowhere", 1), ("commit went back", 1),]
    );
}

#[test]
fn who_reads_what_it_does_not_own() {
    let events = then(ten_of_a(), &[revoked(A), poll(A, 10, 2)]);
    assert_eq!(kinds(&events, end(12, 10)), [("not owned", 1), ("uncommitted", 1)]);
}

#[test]
fn what_nobody_was_given() {
    let b = [revoked(A), assigned(B), begin(B, 10), poll(B, 10, 1), poll(B, 13, 2)];
    let events = then(then(ten_of_a(), &b), &[commit(B, 0, 15), committed(B, 0)]);
    assert_eq!(kinds(&events, end(15, 15)), [("skipped", 1), ("undelivered", 1)]);
}

#[test]
fn what_is_not_committed_at_the_end() {
    assert_eq!(kinds(&then(ten_of_a(), &[poll(A, 10, 2)]), end(12, 10)), [("uncommitted", 1)]);
    let mut last = end(10, 10);
    last.pop();
    assert_eq!(kinds(&ten_of_a(), last), [("unasked", 1)]);
}

#[test]
fn a_history_that_contradicts_itself() {
    let twice = [commit(A, 0, 10), committed(A, 0)];
    assert!(kinds(&then(ten_of_a(), &twice), end(10, 10)).is_empty(), "its number is free again");
    let events = then(ten_of_a(), &[committed(A, 7)]);
    assert_eq!(kinds(&events, end(10, 10)), [("nonsense", 1)]);
    let events = then(ten_of_a(), &[commit(A, 1, 10), commit(A, 1, 10)]);
    assert_eq!(kinds(&events, end(10, 10)), [("nonsense", 1)]);
}

/// Members write down what they do in processes of their own, whose lines come when they come.
#[test]
fn times_count_and_not_lines() {
    let events = then(ten_of_a(), &[revoked(A), assigned(B), begin(B, 10)]);
    let mut lines: Vec<Line> =
        events.into_iter().zip(1..).map(|(event, ms)| Line { at: ms * MS, event }).collect();
    lines[2..].rotate_right(3);
    lines.extend(end(10, 10).into_iter().zip(1_001..).map(|(event, ms)| Line { at: ms * MS, event }));
    let found = checker::check(&lines).found;
    assert!(found.is_empty(), "{found:?}");
}
