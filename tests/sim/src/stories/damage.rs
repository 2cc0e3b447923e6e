//! Bytes that are not what they were.

use storage::FlushScope;
use storage::layout::FileKind;

use super::{KEEP_ALL, Story, TAKE_ALL};
use crate::disk::SECTOR_BYTES;

/// Three batches, of which two lie below the checkpoint.
fn two_of_three_are_durable() -> Story {
    let mut story = Story::new();
    story.append(300);
    story.append(300);
    story.flush(FlushScope::Checkpoint);
    story.checkpoint();
    story.append(300);
    story
}

#[test]
fn a_torn_tail_is_cut() {
    let mut story = two_of_three_are_durable();
    story.cut_power(KEEP_ALL);
    let log = story.path(FileKind::Log, 0);
    let len = story.len(&log);
    story.disk.shorten(&log, len - 100);
    story.open();
    story.append(10);
    story.look();
    story.tells(
        "append 0
         append 1
         flush Checkpoint: durable 2, recovery point 2
         checkpoint 2
         append 2
         power cut
         open: 0..2 recovered, cut 270 bytes: a batch needs 370 bytes, but there are 270
         append 2
         look: 3 batches, latest Some(2), producers [(7, 2)]",
    );
}

#[test]
fn a_page_behind_a_hole_is_never_taken_back() {
    let mut story = Story::new();
    story.append(SECTOR_BYTES);
    story.flush(FlushScope::Checkpoint);
    story.checkpoint();
    story.append(SECTOR_BYTES * 2);
    story.append(10);
    story.cut_power(KEEP_ALL);
    // The sector in the middle of the second batch never came; the third batch did, whole.
    let log = story.path(FileKind::Log, 0);
    story.write(&log, SECTOR_BYTES * 2, &[0; SECTOR_BYTES]);
    story.open();
    story.look();
    story.tells(
        "append 0
         flush Checkpoint: durable 1, recovery point 1
         checkpoint 1
         append 1
         append 2
         power cut
         open: 0..1 recovered, cut 1172 bytes: the batch says its checksum is 0x451dbe88, but it is 0x35f5099b
         look: 1 batches, latest Some(0), producers [(7, 0)]",
    );
}

#[test]
fn a_tail_of_zeroes_is_cut() {
    let mut story = two_of_three_are_durable();
    story.cut_power(TAKE_ALL);
    let log = story.path(FileKind::Log, 0);
    let len = story.len(&log);
    story.write(&log, len, &[0; 4000]);
    story.open();
    story.tells(
        "append 0
         append 1
         flush Checkpoint: durable 2, recovery point 2
         checkpoint 2
         append 2
         power cut
         open: 0..2 recovered, cut 4000 bytes: the batch has format 0; only format 2 is supported",
    );
}

#[test]
fn rot_below_the_recovery_point_is_quarantined_and_changes_nothing() {
    let mut story = two_of_three_are_durable();
    story.cut_power(TAKE_ALL);
    let log = story.path(FileKind::Log, 0);
    let before = story.disk.peek(&log);
    // In the second batch, which an index entry leads to.
    story.disk.rot(&log, 500, 1);
    story.open();
    story.disk.rot(&log, 500, 1);
    assert_eq!(story.disk.peek(&log), before);
    story.open();
    story.tells(
        "append 0
         append 1
         flush Checkpoint: durable 2, recovery point 2
         checkpoint 2
         append 2
         power cut
         open: records at or before offset 0 were durable and are damaged: the batch says its checksum is 0x69ec8453, but it is 0x9634d695
         open: 0..2 recovered",
    );
}

#[test]
fn rot_above_the_recovery_point_is_cut() {
    let mut story = two_of_three_are_durable();
    story.append(300);
    story.flush(FlushScope::Records);
    story.cut_power(TAKE_ALL);
    let log = story.path(FileKind::Log, 0);
    story.disk.rot(&log, 373 * 2 + 100, 1);
    story.open();
    story.tells(
        "append 0
         append 1
         flush Checkpoint: durable 2, recovery point 2
         checkpoint 2
         append 2
         append 3
         flush Records: durable 4, recovery point 2
         power cut
         open: 0..2 recovered, cut 740 bytes: the batch says its checksum is 0xfdf34fa4, but it is 0xe54075ea",
    );
}

#[test]
fn a_snapshot_that_rots_is_made_again_from_batches() {
    let mut story = two_of_three_are_durable();
    story.close();
    let snapshot = story.path(FileKind::Snapshot, 3);
    story.disk.rot(&snapshot, 20, 0xff);
    story.open();
    story.look();
    story.tells(
        "append 0
         append 1
         flush Checkpoint: durable 2, recovery point 2
         checkpoint 2
         append 2
         checkpoint 3
         close
         open: 0..3 clean
         look: 3 batches, latest Some(2), producers [(7, 2)]",
    );
}

#[test]
fn tables_that_are_lost_are_built_again() {
    let mut story = Story::new();
    for _ in 0..30 {
        story.append(300);
    }
    story.close();
    story.text.clear();
    for (kind, base) in [(FileKind::OffsetIndex, 0), (FileKind::TimeIndex, 11), (FileKind::OffsetIndex, 22)] {
        let path = story.path(kind, base);
        story.disk.lose(&path);
    }
    story.open();
    story.look();
    story.tells(
        "open: 0..30 recovered, 2 tables rebuilt
         look: 30 batches, latest Some(29), producers [(7, 29)]",
    );
}
