//! Power that goes at every single step of something.

use base::Offset;
use storage::FlushScope;

use super::{KEEP_ALL, Story, TAKE_ALL};
use crate::disk::{Halt, PowerCut};

/// Does something again and again, with the power gone one operation later each time, until it comes
/// through; what is found after each.
fn at_every_step(
    prepare: fn() -> Story,
    act: fn(&mut Story) -> bool,
    cut: PowerCut,
    look: fn(&mut Story),
) -> String {
    let mut found = Vec::new();
    for operations in 0.. {
        let mut story = prepare();
        story.disk.halt_after(operations, Halt::Power);
        let done = act(&mut story);
        story.cut_power(cut);
        story.text.clear();
        look(&mut story);
        let outcome = story.text.trim().to_owned();
        match found.last_mut() {
            Some((count, last)) if *last == outcome => *count += 1,
            _ => found.push((1, outcome)),
        }
        if done {
            break;
        }
    }
    found.into_iter().map(|(count, outcome)| format!("{count} × {outcome}\n")).collect()
}

fn full_segment() -> Story {
    let mut story = Story::new();
    for _ in 0..10 {
        story.append(300);
    }
    story.flush(FlushScope::Checkpoint);
    story.checkpoint();
    story
}

fn roll(story: &mut Story) -> bool {
    story.append(300);
    story.append(300);
    story.log().flush(FlushScope::Records).is_ok() && story.log().poison().is_none()
}

#[test]
fn a_crash_in_a_roll_takes_at_most_what_was_not_flushed() {
    assert_eq!(
        at_every_step(full_segment, roll, TAKE_ALL, Story::open),
        "10 × open: 0..10 recovered\n\
         4 × open: 0..11 recovered\n\
         1 × open: 0..12 recovered\n"
    );
    assert_eq!(
        at_every_step(full_segment, roll, KEEP_ALL, Story::open),
        "1 × open: 0..10 recovered\n\
         7 × open: 0..11 recovered\n\
         7 × open: 0..12 recovered\n"
    );
}

fn three_segments() -> Story {
    let mut story = Story::new();
    for _ in 0..25 {
        story.append(300);
    }
    story.flush(FlushScope::Checkpoint);
    story.checkpoint();
    story
}

fn truncate(story: &mut Story) -> bool {
    let now = story.clock.now();
    story.keeper.keep_recovery_point(Offset(5)).is_ok() && story.log().truncate(now, ..Offset(5)).is_ok()
}

#[test]
fn a_crash_in_a_cut_leaves_a_prefix() {
    assert_eq!(
        at_every_step(three_segments, truncate, TAKE_ALL, Story::open),
        "10 × open: 0..25 recovered\n\
         4 × open: 0..22 recovered\n\
         2 × open: 0..11 recovered\n\
         10 × open: 0..5 recovered\n"
    );
    assert_eq!(
        at_every_step(three_segments, truncate, KEEP_ALL, Story::open),
        "7 × open: 0..25 recovered\n\
         4 × open: 0..22 recovered\n\
         4 × open: 0..11 recovered\n\
         11 × open: 0..5 recovered\n"
    );
}

#[test]
fn what_a_killed_cut_took_does_not_come_back_with_the_power() {
    for operations in 0.. {
        let mut story = three_segments();
        story.disk.halt_after(operations, Halt::Process);
        let done = truncate(&mut story);
        story.log = None;
        story.disk.kill_process();
        story.open();
        let end = story.log().end();
        story.cut_power(TAKE_ALL);
        story.open();
        assert_eq!(story.log().end(), end, "killed at operation {operations}");
        if done {
            break;
        }
    }
}

fn save_checkpoint(story: &mut Story) -> bool {
    story.keeper.keep_recovery_point(Offset(20)).is_ok()
}

fn read_checkpoint(story: &mut Story) {
    let known = story.keeper.start().expect("the disk works");
    story.say(format!("recovery point {}", known.recovery_point));
}

#[test]
fn a_checkpoint_is_the_old_one_or_the_new() {
    assert_eq!(
        at_every_step(three_segments, save_checkpoint, TAKE_ALL, read_checkpoint),
        "6 × recovery point 25\n\
         1 × recovery point 20\n"
    );
    assert_eq!(
        at_every_step(three_segments, save_checkpoint, KEEP_ALL, read_checkpoint),
        "5 × recovery point 25\n\
         2 × recovery point 20\n"
    );
}

#[test]
fn a_clean_stop_survives_a_power_cut() {
    let mut story = three_segments();
    story.close();
    story.text.clear();
    story.cut_power(TAKE_ALL);
    story.open();
    story.look();
    story.tells(
        "power cut
         open: 0..25 clean
         look: 25 batches, latest Some(24), producers [(7, 24)]",
    );
}
