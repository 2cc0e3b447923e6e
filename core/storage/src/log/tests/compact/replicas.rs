//! Leaders and followers that are compacted each on its own.

use super::*;

#[test]
fn a_follower_takes_the_gaps_of_its_leader() {
    let leader_disk = MemoryDisk::new();
    let mut leader = create(&leader_disk, settings());
    for (epoch, key) in [(0, "a"), (0, "b"), (1, "c"), (1, "a"), (1, "b"), (1, "c")] {
        let raw = pairs(&BatchOptions::default(), &[(key, Some("x")), (key, Some("y"))]);
        append_at(&mut leader, now(1), &raw, epoch).expect("appended");
    }
    append_at(&mut leader, now(1), &batch(&[1000], 200), 4).expect("appended");
    leader.flush(FlushScope::Checkpoint).expect("memory");
    compact_at(&mut leader, 1).expect("due");

    let disk = MemoryDisk::new();
    let mut follower = create(&disk, settings());
    let plan = leader.plan_read(Offset::ZERO, leader.end(), 1 << 20, true).expect("in range");
    let mut gaps = 0;
    for batch in batches(&read(&plan)) {
        let batch = batch.expect("good");
        if batch.base_offset() > follower.end() {
            gaps += 1;
            let refused = follower.append_stored(now(1), &batch).expect_err("it has a gap before it");
            assert!(matches!(refused, AppendError::NotNext { .. }), "{refused}");
        }
        follower.append_fetched(now(1), &batch).expect("appended");
    }
    assert_eq!(gaps, 1);
    assert_eq!((table(&follower), follower.end()), (table(&leader), leader.end()));
    assert!(follower.epochs().eq(leader.epochs()), "an epoch begins where the leader's does");
    // Nothing was flushed, and a start finds gaps that it was told of.
    let (mut follower, recovered) = open(&disk, settings(), unclean(Offset::ZERO)).expect("good");
    assert_eq!((recovered.cut, follower.end()), (None, leader.end()));
    assert_eq!(table(&follower), table(&leader));
    // A cut in a gap ends the log there, and it goes on there.
    let kept = follower.truncate(now(1), ..Offset(3)).expect("memory");
    assert_eq!(kept, Offset(3));
    let (mut follower, recovered) = open(&disk, settings(), unclean(Offset::ZERO)).expect("good");
    assert_eq!((recovered.cut, follower.end()), (None, Offset(3)));
    append(&mut follower, &batch(&[1], 10));
    assert_eq!(follower.end(), Offset(4));
}

#[test]
fn a_tombstone_stays_with_who_is_compacted_later_than_the_leader() {
    let mut leader = create(&MemoryDisk::new(), settings());
    let mut follower = create(&MemoryDisk::new(), settings());
    let copy = |leader: &Log, follower: &mut Log| {
        let plan = leader.plan_read(follower.end(), leader.end(), 1 << 20, true).expect("in range");
        for batch in batches(&read(&plan)) {
            follower.append_fetched(now(1), &batch.expect("good")).expect("appended");
        }
        follower.flush(FlushScope::Checkpoint).expect("memory");
    };
    put(&mut leader, &[("a", Some("1"))]);
    roll(&mut leader);
    copy(&leader, &mut follower);
    put(&mut leader, &[("a", None)]);
    roll(&mut leader);
    compact_at(&mut leader, 5000).expect("due");
    copy(&leader, &mut follower);
    assert_eq!(table(&follower), found(&[(0, "a", Some("1")), (2, "a", None)]));
    // Who has read the value from here must have the time to find that it is gone, whatever the leader has waited.
    let first = 5000 + 2 * DAY;
    for (at, tombstone) in [(first, true), (first + DAY - 1, true), (first + DAY, false)] {
        compact_at(&mut follower, at).expect("due");
        assert_eq!(table(&follower).iter().any(|(_, key, _)| key == "a"), tombstone, "{at}");
        put(&mut follower, &[("c", Some("1"))]);
        roll(&mut follower);
    }
}
