//! Disks that say no.

use base::Offset;
use storage::FlushScope;

use super::{Story, TAKE_ALL};
use crate::disk::{Fault, FaultKind, Operation};

fn fail(story: &mut Story, on: Operation, kind: FaultKind) {
    story.disk.arm(Fault { on, after: 0, kind, suffix: "" });
}

#[test]
fn a_full_disk_ends_all_changes_and_no_reading() {
    let mut story = Story::new();
    story.append(300);
    fail(&mut story, Operation::Write, FaultKind::Full);
    story.append(300);
    story.disk.disarm();
    story.append(300);
    story.flush(FlushScope::Records);
    story.look();
    story.tells(
        "append 0
         append: write /data/events-0/00000000000000000000.log: no space left on device
         append: the log takes no changes after an error: write /data/events-0/00000000000000000000.log: no space left on device
         flush Records: write /data/events-0/00000000000000000000.log: no space left on device
         look: 1 batches, latest Some(0), producers [(7, 0)]",
    );
}

#[test]
fn a_barrier_that_failed_is_not_tried_again() {
    let mut story = Story::new();
    story.append(300);
    fail(&mut story, Operation::Sync, FaultKind::Io);
    story.flush(FlushScope::Records);
    story.flush(FlushScope::Records);
    story.append(300);
    story.cut_power(TAKE_ALL);
    story.open();
    story.tells(
        "append 0
         flush Records: sync /data/events-0/00000000000000000000.log: input/output error
         flush Records: sync /data/events-0/00000000000000000000.log: input/output error
         append: the log takes no changes after an error: sync /data/events-0/00000000000000000000.log: input/output error
         power cut
         open: 0..0 recovered",
    );
}

#[test]
fn a_flush_does_not_vouch_for_what_was_cut_meanwhile() {
    let mut story = Story::new();
    story.append(300);
    story.append(300);
    let flush = story.log().flush_plan(FlushScope::Records).expect("the disk works").expect("needed");
    let now = story.clock.now();
    story.log().truncate(now, ..Offset(1)).expect("the disk works");
    story.sequence = 1;
    story.append(300);
    let flushed = flush.run().expect("the disk works");
    story.log().on_flushed(flushed);
    let durable = story.log().durable_end();
    story.say(format!("durable {durable}"));
    story.cut_power(TAKE_ALL);
    story.open();
    story.tells(
        "append 0
         append 1
         append 1
         durable 0
         power cut
         open: 0..1 recovered",
    );
}
