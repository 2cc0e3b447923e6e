//! Disks that do not keep what is on them: a replica whose records are damaged is given up as soon as somebody wants
//! them, another leads, and fills it again.

use metadata::settings::FlushPolicy;

use super::{ALL, Story, isr, leader};

/// A record of node 0 rots, once it is noted that it is durable.
fn rot(story: &mut Story) {
    story.pass(8_000);
    story.world.options.rots = Some(0);
    let mut tries = 0..1_000;
    while !story.world.is_rotten(0, story.key) {
        assert!(tries.next().is_some(), "nothing is there that could rot");
        story.world.rot();
    }
    story.say("a record rots on 0");
}

#[test]
fn who_reads_what_has_rotted_is_served_by_another() {
    let mut story = Story::new(FlushPolicy::Ack, 2);
    let key = story.key;
    story.write(0, &[1, 2], ALL);
    rot(&mut story);
    story.write(0, &[3], ALL);
    // Once may be the network's fault.
    (0..2).for_each(|_| story.read(0, 0));
    story.pass(3_000);
    story.look();
    story.read(0, 0);
    story.until("another leads", |world| leader(world, key).is_some_and(|node| node != 0));
    story.until_well();
    assert!(!story.world.is_rotten(0, key), "it is another log");
    let leads = leader(&story.world, key).expect("somebody does");
    story.read(leads, 0);
    assert_eq!(
        story.text,
        "\
         write [1, 2] to 0, acknowledged by all: at 0\n\
         a record rots on 0\n\
         write [3] to 0, acknowledged by all: at 2\n\
         read from 0 at 0: [], committed to 3\n\
         read from 0 at 0: [], committed to 3\n\
         0 leads in 1, in sync 1 2 0; logs 3/3 3/3 3/3\n\
         read from 0 at 0: [], committed to 3\n\
         | node 0 gives t-0 up, which is damaged: segment 0, position 0: the batch says its checksum is 0xae8f5d53, but it is 0x782ca4e2\n\
         | node 0 begins t-0 anew\n\
         | node 0 opens t-0 0..0, committed to 0, epochs []\n\
         | node 1 leads t-0 epoch 2, ends at 3\n\
         another leads\n\
         | node 1 leads t-0 epoch 3, ends at 3\n\
         all is well\n\
         1 leads in 3, in sync 1 2 0; logs 3/3 3/3 3/3\n\
         read from 1 at 0: [1, 2, 3], committed to 3\n"
    );
}

#[test]
fn nobody_else_has_what_has_rotted_and_it_is_served_on() {
    let mut story = Story::with_controllers(FlushPolicy::Ack, 2);
    let key = story.key;
    story.write(0, &[1, 2], ALL);
    rot(&mut story);
    for (node, left) in [(1, 2), (2, 1)] {
        story.down(node, true);
        story.until("it is out of sync", |world| isr(world, key) == left);
    }
    (0..3).for_each(|_| story.read(0, 0));
    story.pass(3_000);
    story.write(0, &[3], ALL);
    story.read(0, 2);
    // One that has it comes back: the next who cannot read finds it out.
    story.back(1);
    story.until("1 is in sync", |world| isr(world, key) == 2);
    (0..3).for_each(|_| story.read(0, 0));
    story.until("1 leads", |world| leader(world, key) == Some(1));
    story.back(2);
    story.until_well();
    story.read(1, 0);
    assert_eq!(
        story.text,
        "\
         write [1, 2] to 0, acknowledged by all: at 0\n\
         a record rots on 0\n\
         1 is killed\n\
         it is out of sync\n\
         2 is killed\n\
         it is out of sync\n\
         read from 0 at 0: [], committed to 2\n\
         read from 0 at 0: [], committed to 2\n\
         read from 0 at 0: [], committed to 2\n\
         | node 0 keeps t-0, which is damaged: segment 0, position 0: the batch says its checksum is 0xae8f5d53, but it is 0x782ca4e2\n\
         write [3] to 0, acknowledged by all: NOT_ENOUGH_REPLICAS\n\
         read from 0 at 2: [], committed to 2\n\
         1 comes back\n\
         | node 1 opens t-0 0..2, committed to 2, epochs [(0, 0)]\n\
         1 is in sync\n\
         read from 0 at 0: [], committed to 2\n\
         read from 0 at 0: [], committed to 2\n\
         read from 0 at 0: [], committed to 2\n\
         | node 0 gives t-0 up, which is damaged: segment 0, position 0: the batch says its checksum is 0xae8f5d53, but it is 0x782ca4e2\n\
         | node 0 begins t-0 anew\n\
         | node 0 opens t-0 0..0, committed to 0, epochs []\n\
         | node 1 leads t-0 epoch 1, ends at 2\n\
         1 leads\n\
         2 comes back\n\
         | node 1 leads t-0 epoch 2, ends at 2\n\
         | node 2 opens t-0 0..2, committed to 2, epochs [(0, 0)]\n\
         all is well\n\
         1 leads in 2, in sync 1 0 2; logs 2/2 2/2 2/2\n\
         read from 1 at 0: [1, 2], committed to 2\n"
    );
}
