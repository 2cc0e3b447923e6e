use crate::check::Check;

use super::*;

/// A log of several segments, written in two epochs, all of it on the disk and no file open; and where each batch
/// begins.
fn written(disk: &MemoryDisk) -> (Log, Vec<Offset>) {
    let mut log = create(disk, LogSettings::tiny());
    let mut bases = Vec::new();
    for number in 0..12 {
        let appended = append_at(&mut log, now(1), &batch(&[5, 6, 7], 300), i32::from(number > 5));
        bases.push(appended.expect("memory").base_offset);
    }
    log.flush(FlushScope::Checkpoint).expect("memory");
    (0..2).for_each(|_| log.rest());
    assert!(log.segments_count() > 2 && disk.open_files() == 0);
    (log, bases)
}

#[test]
fn whichever_bit_of_a_record_flips_a_look_finds_it() {
    let disk = MemoryDisk::new();
    let (mut log, bases) = written(&disk);
    let look = |log: &mut Log, from: Offset| {
        let looked = log.check_plan(from).and_then(Check::run);
        (0..2).for_each(|_| log.rest());
        looked
    };
    log.check_whole().expect("all is well");
    bases.iter().for_each(|from| look(&mut log, *from).expect("all is well"));
    assert_eq!(look(&mut log, Offset(1_000)), Ok(()), "there is no such record");
    let segments: Vec<Offset> = log.segments.iter().map(|segment| segment.base).collect();
    for base in segments {
        let path = file(&log, FileKind::Log, base.0);
        let good = disk.contents(&path).expect("it is there");
        // A batch is 300 bytes and some more: each of its bytes is met in one or another.
        for position in (0..good.len()).step_by(7) {
            let mut bad = good.clone();
            bad[position] ^= 1 << (position % 8);
            disk.put(&path, bad);
            let what = format!("segment {base}, position {position}");
            assert!(log.check_whole().is_err(), "{what}");
            assert_eq!(disk.open_files(), 0);
            // Whoever asks for that batch, or for the one before it, is given what is there.
            let found = bases.iter().filter(|from| look(&mut log, **from).is_err());
            assert!(found.count() > 0, "{what}");
        }
        disk.put(&path, good);
    }
    log.check_whole().expect("all is well again");
}

#[test]
fn what_cannot_be_read_is_found_by_a_look() {
    let disk = MemoryDisk::new();
    let (mut log, _) = written(&disk);
    let plan = log.check_plan(Offset(0)).expect("its headers can be read");
    disk.fail(Some("read_at"));
    assert!(matches!(plan.run(), Err(LookupError::Disk(error)) if error.failed == Failed::File));
    assert!(matches!(log.check_whole(), Err(LookupError::Disk(_))));
}

#[test]
fn what_is_missing_at_the_end_of_a_segment_is_found() {
    let disk = MemoryDisk::new();
    let (mut log, bases) = written(&disk);
    let path = file(&log, FileKind::Log, 0);
    let good = disk.contents(&path).expect("it is there");
    disk.put(&path, good[..good.len() - 1].to_vec());
    assert!(matches!(log.check_whole(), Err(LookupError::Damaged { segment: Offset(0), .. })));
    let last = *bases.iter().rfind(|base| **base < log.segments[1].base).expect("there is one");
    assert!(log.check_plan(last).and_then(Check::run).is_err());
}

/// Whoever asks for what it has would be sent to the next one: records would be passed over, and nobody told.
#[test]
fn a_batch_that_says_it_ends_before_it_does_is_not_passed_over() {
    const LAST_OFFSET_DELTA: usize = 23;
    for (has_gaps, byte, mask) in [(false, 0, 0x80), (true, 0, 0x80), (false, 3, 2), (true, 3, 2)] {
        let disk = MemoryDisk::new();
        let (mut log, bases) = written(&disk);
        if has_gaps {
            log.allow_gaps(log.end()).expect("memory");
        }
        let mut damages = 0;
        for &base in &bases {
            let segment = &log.segments[log.segment_of(base)];
            let path = file(&log, FileKind::Log, segment.base.0);
            let spot = segment.reaching(&log.home, base).expect("memory").expect("it is there");
            let good = disk.contents(&path).expect("it is there");
            let mut bad = good.clone();
            bad[spot.position as usize + LAST_OFFSET_DELTA + byte] ^= mask;
            disk.put(&path, bad);
            (0..2).for_each(|_| log.rest());
            for asked in base.0..base.0 + 3 {
                let what = format!("{asked} is asked for, {base} rotted, {has_gaps}");
                match log.plan_read(Offset(asked), log.end(), 4000, true) {
                    // The checksum of what is read tells.
                    Ok(plan) => assert!(plan.first.0 <= asked && plan.bytes > 0, "{what}: {plan:?}"),
                    Err(ReadError::Lookup(LookupError::Damaged { .. })) => damages += 1,
                    Err(error) => panic!("{what}: {error}"),
                }
            }
            disk.put(&path, good);
            (0..2).for_each(|_| log.rest());
        }
        assert!(damages > 10, "{damages} damages, {has_gaps}");
    }
}

/// A follower's copy of a compacted log: whoever asks for what is gone goes on behind it.
#[test]
fn a_wide_gap_that_came_from_a_leader_is_no_damage() {
    let disk = MemoryDisk::new();
    let mut log = create(&disk, LogSettings::tiny());
    for base in [100_i64, 1_000_000, 1_000_003] {
        let mut raw = batch(&[5, 6, 7], 300);
        raw[..8].copy_from_slice(&base.to_be_bytes());
        let fetched = StoredBatch::check(&raw).expect("good");
        log.append_fetched(now(1), &fetched).expect("memory");
    }
    log.flush(FlushScope::Checkpoint).expect("memory");
    (0..2).for_each(|_| log.rest());
    // In files of before, what was noted of gaps ends within this one.
    for noted in [log.gaps_below, Offset(4196)] {
        log.allow_gaps(noted).expect("memory");
        for (asked, first) in [(0, 100), (103, 1_000_000), (500_000, 1_000_000), (1_000_001, 1_000_000)] {
            let plan = log.plan_read(Offset(asked), log.end(), 4000, true).expect("nothing is damaged");
            assert_eq!(plan.first, Offset(first), "{asked} is asked for");
            log.check_plan(Offset(asked)).and_then(Check::run).expect("nothing is damaged");
        }
        log.check_whole().expect("nothing is damaged");
    }
}
