//! Replicas that restart, with what they had and without.

use metadata::settings::FlushPolicy;

use super::{ALL, ONE, Story, ends, isr, leader};

/// R1, KIP-101: a follower does not cut off what it does not know to be committed: it may have to lead.
#[test]
fn r1_a_follower_keeps_what_it_does_not_know_to_be_committed() {
    let mut story = Story::new(FlushPolicy::Ack, 2);
    let key = story.key;
    story.cut(0, 2);
    story.cut(1, 2);
    story.controller_at(1);
    story.until("2 is out of sync", |world| isr(world, key) == 2);
    story.write(0, &[1], ONE);
    story.until("1 has it and does not know that it is committed", |world| {
        ends(world, key, 1).is_some_and(|(committed, end)| (committed, end) == (0, 1))
            && ends(world, key, 0).is_some_and(|(committed, _)| committed == 1)
    });
    story.down(1, false);
    story.down(0, true);
    story.mend();
    story.back(1);
    story.until("1 leads", |world| leader(world, key) == Some(1));
    story.until("2 follows", |world| isr(world, key) == 2);
    story.read(1, 0);
    story.back(0);
    story.until_well();
    assert_eq!(
        story.text,
        "\
         0 and 2 do not hear each other\n\
         1 and 2 do not hear each other\n\
         2 is out of sync\n\
         write [1] to 0, acknowledged by one: at 0\n\
         1 has it and does not know that it is committed\n\
         1 loses its power\n\
         0 is killed\n\
         all hear each other\n\
         1 comes back\n\
         | node 1 opens t-0 0..1, committed to 0, epochs [(1, 0)]\n\
         | node 1 leads t-0 epoch 2, ends at 1\n\
         1 leads\n\
         2 follows\n\
         read from 1 at 0: [1], committed to 1\n\
         0 comes back\n\
         | node 0 opens t-0 0..1, committed to 0, epochs [(1, 0)]\n\
         all is well\n\
         1 leads in 2, in sync 1 2 0; logs 1/1 1/1 1/1\n"
    );
}

/// R5, KIP-903: what a follower lost in a crash counts no more, although it was about to be in sync.
#[test]
fn r5_a_follower_that_lost_everything_is_not_taken_for_what_it_was() {
    let mut story = Story::with_controllers(FlushPolicy::Os, 2);
    let key = story.key;
    story.cut(0, 2);
    story.write(0, &[1, 2, 3], ONE);
    story.until("2 is out of sync", |world| isr(world, key) == 2);
    story.world.is_in_ambush = true;
    story.mend();
    story.until("2 has all of it and loses its power, and is asked for late", |world| !world.is_in_ambush);
    story.until("2 is back", |world| world.nodes[2].process.is_some());
    story.look();
    story.until_well();
    assert_eq!(
        story.text,
        "\
         0 and 2 do not hear each other\n\
         write [1, 2, 3] to 0, acknowledged by one: at 0\n\
         2 is out of sync\n\
         all hear each other\n\
         2 has all of it and loses its power, and is asked for late\n\
         2 is back\n\
         0 leads in 0, in sync 0 1; logs 3/3 3/3 -\n\
         | node 2 opens t-0 0..0, committed to 0, epochs []\n\
         all is well\n\
         0 leads in 0, in sync 0 1 2; logs 3/3 3/3 3/3\n"
    );
}

/// R6, KIP-966: the last replica in sync loses what it had, and those that left before it have all that was
/// acknowledged.
#[test]
fn r6_the_last_replica_standing_falls() {
    let mut story = Story::with_controllers(FlushPolicy::Os, 2);
    let key = story.key;
    story.write(0, &[1], ALL);
    story.cut(0, 2);
    story.write(0, &[2], ONE);
    story.until("2 is out of sync", |world| isr(world, key) == 2);
    story.write(0, &[3], ALL);
    story.cut(0, 1);
    story.write(0, &[4], ONE);
    story.until("1 is out of sync", |world| isr(world, key) == 1);
    story.look();
    story.write(0, &[5], ALL);
    story.down(0, false);
    story.mend();
    story.until("1 leads", |world| leader(world, key) == Some(1));
    story.until("2 follows", |world| isr(world, key) == 2);
    story.read(1, 0);
    story.back(0);
    story.until_well();
    assert_eq!(
        story.text,
        "\
         write [1] to 0, acknowledged by all: at 0\n\
         0 and 2 do not hear each other\n\
         write [2] to 0, acknowledged by one: at 1\n\
         2 is out of sync\n\
         write [3] to 0, acknowledged by all: at 2\n\
         0 and 1 do not hear each other\n\
         write [4] to 0, acknowledged by one: at 3\n\
         1 is out of sync\n\
         0 leads in 0, in sync 0, eligible 1; logs 3/4 3/3 1/1\n\
         write [5] to 0, acknowledged by all: NOT_ENOUGH_REPLICAS\n\
         0 loses its power\n\
         all hear each other\n\
         | node 1 leads t-0 epoch 1, ends at 3\n\
         1 leads\n\
         2 follows\n\
         read from 1 at 0: [1, 2, 3], committed to 3\n\
         0 comes back\n\
         | node 0 opens t-0 0..4, committed to 3, epochs [(0, 0)]\n\
         | node 0 cuts t-0 4 to 3, committed 3\n\
         all is well\n\
         1 leads in 1, in sync 1 2 0; logs 3/3 3/3 3/3\n"
    );
}
