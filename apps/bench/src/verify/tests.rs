//! What a reader sees, and what it must say of it.

use records::Headers;

use super::numbers::PAGE_NUMBERS;
use super::*;
use crate::mark::{Form, Marker};

const ALL: Extent = Extent { from_start: true, to_end: true };

/// The numbers in each place, in the order in which they are read.
type Read = &'static [&'static [u64]];
/// Lost, duplicated, reordered.
type Counts = (u64, u64, u64);

fn at(place: usize, offset: i64) -> ReadAt<'static> {
    let partition = PartitionIndex(i32::try_from(place).expect("it is small"));
    ReadAt { place, topic: "t", partition, offset: Offset(offset) }
}

/// Reads the records of sender 0: each line is a place.
fn read(places: Read) -> Checker {
    let mut checker = Checker::new(Some(7));
    for (place, numbers) in places.iter().enumerate() {
        for (offset, &number) in (0..).zip(*numbers) {
            checker.take(at(place, offset), Mark { run: 7, sender: 0, number }).expect("it can be verified");
        }
    }
    checker
}

fn counts(verdict: &Verdict) -> Counts {
    (verdict.lost, verdict.duplicated, verdict.reordered)
}

#[test]
fn each_fault_has_its_name() {
    let cases: [(Read, Counts, &str); 7] = [
        (&[&[0, 1, 2, 3]], (0, 0, 0), ""),
        (&[&[0, 2], &[1, 3]], (0, 0, 0), ""),
        (
            &[&[0, 1, 3]],
            (1, 0, 0),
            "records 1 lost: record 2 of sender 0 of run 0000000000000007 did not come",
        ),
        (&[&[0, 1, 2]], (1, 0, 0), "record 3 of"),
        (&[&[0, 1, 2, 1, 2, 3]], (0, 2, 0), "records 2 duplicated: record 1 of"),
        (&[&[0, 1], &[1, 2, 3]], (0, 1, 0), "came again at offset 0 of t-1"),
        (
            &[&[0, 2, 1, 3]],
            (0, 0, 1),
            "records 1 reordered: record 1 of sender 0 of run 0000000000000007 came behind record 2, at offset 2 of t-0",
        ),
    ];
    for (places, expected, says) in cases {
        let verdict = read(places).verdict_on(&[4], &[]);
        assert_eq!(counts(&verdict), expected, "{places:?}");
        let said = verdict.into_result().map_or_else(|error| error.to_string(), |()| String::new());
        assert!(said.contains(says) && said.is_empty() == says.is_empty(), "{said}");
    }
}

#[test]
fn what_was_given_up_may_be_missing() {
    let lost = |given_up: &[u64]| {
        let verdict = read(&[&[0, 1]]).verdict_on(&[4], &[given_up.to_vec()]);
        (verdict.lost, verdict.first.unwrap_or_default())
    };
    assert_eq!(lost(&[2, 3]), (0, String::new()));
    let (count, first) = lost(&[2]);
    assert!(count == 1 && first.starts_with("record 3 of sender 0"), "{first}");
    // What was given up and came does not stand for what was acknowledged and did not.
    let (count, first) = lost(&[0, 1]);
    assert!(count == 2 && first.starts_with("record 2 of sender 0"), "{first}");
    // Senders of which nothing came.
    assert_eq!(counts(&read(&[&[0, 1]]).verdict_on(&[2, 3], &[])), (3, 0, 0));
    assert_eq!(counts(&read(&[&[0, 1]]).verdict_on(&[2, 3], &[vec![], vec![0, 1, 2]])), (0, 0, 0));
}

#[test]
fn only_what_was_read_can_be_missing() {
    let part = |from_start, to_end| Extent { from_start, to_end };
    let cases: [(Read, &[Extent], u64); 7] = [
        (&[&[0, 1, 3]], &[ALL], 1),
        // The end of one partition was not read: 3 may be there.
        (&[&[0, 2], &[1, 4]], &[part(true, false), ALL], 0),
        (&[&[0, 3], &[1, 4]], &[part(true, false), ALL], 1),
        // The front of one is gone: 0 and 1 may have been there.
        (&[&[2, 3], &[5]], &[part(false, true), ALL], 1),
        (&[&[5], &[2, 3]], &[part(false, true), ALL], 0),
        // A partition of which nothing is known may have had all of them.
        (&[&[0, 9], &[]], &[ALL, part(false, true)], 0),
        (&[&[0, 9], &[]], &[ALL, part(true, false)], 0),
    ];
    for (places, extents, lost) in cases {
        let verdict = read(places).verdict_within(extents);
        assert_eq!(verdict.lost, lost, "{places:?} {extents:?}: {verdict:?}");
    }
}

#[test]
fn what_is_wrong_is_named_by_where_it_is_and_short_marks_tell_as_much() {
    let value = |number: u64| {
        let mut marker = Marker::new(7, 2, Form::Short);
        for _ in 0..number {
            let _ = marker.mark(None, b"0123456789", 0);
        }
        marker.mark(None, b"0123456789", 0).value.to_vec()
    };
    let mut changed = value(3);
    changed[9] ^= 1;
    let cases = [
        (vec![value(0), value(1), value(2)], None),
        (
            vec![value(0), value(1), value(1)],
            Some("record 1 of sender 2 of run 0000000000000007 came again at offset 2 of t-5"),
        ),
        (vec![value(0), value(2), value(1)], Some("came behind record 2, at offset 2 of t-5")),
        (vec![value(0), changed, value(2)], Some("what is at offset 1 of t-5 is not what was sent")),
        (vec![value(0), value(2)], Some("record 1 of sender 2 of run 0000000000000007 did not come")),
    ];
    for (values, expected) in cases {
        let mut checker = Checker::of_short_marks(7);
        for (offset, value) in (0..).zip(&values) {
            let record = Record {
                offset_delta: 0,
                timestamp_delta: 0,
                key: None,
                value: Some(value),
                headers: Headers::default(),
            };
            checker.check(at(5, offset), &record).expect("it can be verified");
        }
        let verdict = checker.verdict_on(&[0, 0, 3], &[]);
        assert_eq!(verdict.first().is_some(), expected.is_some(), "{verdict:?}");
        assert!(verdict.first().unwrap_or_default().contains(expected.unwrap_or_default()), "{verdict:?}");
    }
}

#[test]
fn others_do_not_count() {
    let mut checker = read(&[&[0, 1]]);
    let value = Some(&b"a record of somebody else"[..]);
    let others =
        Record { offset_delta: 0, timestamp_delta: 0, key: None, value, headers: Headers::default() };
    checker.check(at(0, 0), &others).expect("it is passed over");
    let verdict = checker.verdict_on(&[2], &[]);
    assert_eq!((verdict.unmarked, counts(&verdict)), (1, (0, 0, 0)));
    assert!(verdict.into_result().is_ok());
}

#[test]
fn what_two_readers_saw_is_one_run() {
    let of = |place: usize, numbers: &[u64]| {
        let mut checker = Checker::new(Some(7));
        for &number in numbers {
            checker.take(at(place, 0), Mark { run: 7, sender: 0, number }).expect("it can be verified");
        }
        checker
    };
    let mut all = of(0, &[0, 2, 4]);
    all.absorb(of(1, &[1, 3, 5])).expect("they are of one run");
    assert_eq!(counts(&all.verdict_on(&[6], &[])), (0, 0, 0));
    let mut twice = of(0, &[0, 1, 3]);
    twice.absorb(of(1, &[1, 2])).expect("they are of one run");
    let verdict = twice.verdict_on(&[5], &[]);
    assert_eq!(counts(&verdict), (1, 1, 0));
    assert_eq!(verdict.first(), Some("record 1 of sender 0 of run 0000000000000007 came to two readers"));
    // Whole pages, and pages that become whole.
    let page = PAGE_NUMBERS as u64;
    let (even, odd): (Vec<u64>, Vec<u64>) = (0..2 * page).partition(|number| number % 2 == 0);
    let mut halves = of(0, &even);
    halves.absorb(of(1, &odd)).expect("they are of one run");
    assert_eq!(halves.so_far().first(), None);
    halves.absorb(of(2, &(page + 7..2 * page).collect::<Vec<_>>())).expect("they are of one run");
    let verdict = halves.verdict_on(&[2 * page], &[]);
    assert_eq!(counts(&verdict), (0, page - 7, 0));
    let first = format!("record {} of sender 0 of run 0000000000000007 came to two readers", page + 7);
    assert_eq!(verdict.first(), Some(&*first));
}

#[test]
fn records_without_marks_are_counted() {
    assert!(Verdict::of_counts(5, 6, 6).is_clean() && Verdict::of_counts(5, 6, 5).is_clean());
    assert_eq!(counts(&Verdict::of_counts(5, 6, 4)), (1, 0, 0));
    assert_eq!(counts(&Verdict::of_counts(5, 6, 8)), (0, 2, 0));
}

#[test]
fn what_another_machine_saw_arrives_whole() {
    let page = PAGE_NUMBERS as u64;
    let all: Vec<u64> = (0..300 * page + 77).collect();
    // Of blocks, as of batches that went to one of two partitions; and one record at a time.
    for block in [1_000, 1] {
        let (mut here, mut there) = (Checker::new(Some(7)), Checker::new(Some(7)));
        for &number in &all {
            let (place, checker) = if number / block % 2 == 0 { (0, &mut here) } else { (1, &mut there) };
            if number != 5 {
                checker.take(at(place, 0), Mark { run: 7, sender: 3, number }).expect("it can be verified");
            }
        }
        // This one both read.
        there.take(at(0, 0), Mark { run: 7, sender: 3, number: 2 }).expect("it can be verified");
        let mut pieces = 0;
        for piece in there.into_pieces() {
            let text = serde_json::to_string(&piece).expect("it can be written");
            assert!(text.len() < 2 << 20, "{}", text.len());
            here.absorb_piece(serde_json::from_str(&text).expect("it can be read"))
                .expect("it is of this run");
            pieces += 1;
        }
        assert_eq!(pieces, 3, "what was found, and 301 pages");
        let verdict = here.verdict_on(&[0, 0, 0, all.len() as u64], &[]);
        assert_eq!(counts(&verdict), (1, 1, 0), "{:?}", verdict.first());
        assert_eq!(verdict.checked(), all.len() as u64);
    }
}
