//! Disks that are lost: who comes back with an empty one has it filled, and is counted on no sooner.

use metadata::settings::FlushPolicy;

use super::super::options::Options;
use super::{ALL, Story, ends, isr, leader};

#[test]
fn an_empty_disk_is_filled_by_whoever_leads() {
    let mut story = Story::new(FlushPolicy::Ack, 2);
    let key = story.key;
    story.write(0, &[1, 2], ALL);
    story.down(1, true);
    story.replace_disk(1);
    story.until("1 is out of sync", |world| isr(world, key) == 2);
    story.write(0, &[3], ALL);
    story.back(1);
    story.until_well();
    // Now the one that led: another took over before it came back.
    story.down(0, true);
    story.replace_disk(0);
    story.until("another leads", |world| leader(world, key).is_some_and(|node| node != 0));
    story.back(0);
    story.until_well();
    story.read(1, 0);
    assert_eq!(
        story.text,
        "\
         write [1, 2] to 0, acknowledged by all: at 0\n\
         1 is killed\n\
         1 has an empty disk\n\
         1 is out of sync\n\
         write [3] to 0, acknowledged by all: at 2\n\
         1 comes back\n\
         | node 1 opens t-0 0..0, committed to 0, epochs []\n\
         all is well\n\
         0 leads in 1, in sync 2 0 1; logs 3/3 3/3 3/3\n\
         0 is killed\n\
         0 has an empty disk\n\
         | node 1 leads t-0 epoch 2, ends at 3\n\
         another leads\n\
         0 comes back\n\
         | node 0 opens t-0 0..0, committed to 0, epochs []\n\
         all is well\n\
         1 leads in 2, in sync 2 1 0; logs 3/3 3/3 3/3\n\
         read from 1 at 0: [1, 2, 3], committed to 3\n"
    );
}

#[test]
fn an_empty_disk_is_not_elected_and_waits_for_whoever_has_the_records() {
    // As many controllers as it takes without the three that have the partition.
    let mut story = Story::of(Options { nodes: 7, ..Options::quiet(FlushPolicy::Ack, 2) }, 3);
    let key = story.key;
    story.write(0, &[1, 2], ALL);
    for (node, left) in [(0, 2), (1, 1)] {
        story.down(node, true);
        story.until("it is out of sync", |world| isr(world, key) == left);
    }
    story.down(2, true);
    story.until("nobody leads", |world| leader(world, key).is_none());
    [0, 1].into_iter().for_each(|node| story.replace_disk(node));
    [0, 1].into_iter().for_each(|node| story.back(node));
    story.pass(3_000);
    story.look();
    assert!((0..2).all(|node| ends(&story.world, key, node).is_none()), "nothing begins without a leader");
    story.back(2);
    story.until_well();
    story.read(2, 0);
    assert_eq!(
        story.text,
        "\
         write [1, 2] to 0, acknowledged by all: at 0\n\
         0 is killed\n\
         | node 1 leads t-0 epoch 1, ends at 2\n\
         it is out of sync\n\
         1 is killed\n\
         | node 2 leads t-0 epoch 2, ends at 2\n\
         it is out of sync\n\
         2 is killed\n\
         nobody leads\n\
         0 has an empty disk\n\
         1 has an empty disk\n\
         0 comes back\n\
         1 comes back\n\
         nobody leads in 3, in sync , eligible 2; logs - - -\n\
         2 comes back\n\
         | node 2 opens t-0 0..2, committed to 2, epochs [(0, 0)]\n\
         | node 1 opens t-0 0..0, committed to 0, epochs []\n\
         | node 2 leads t-0 epoch 4, ends at 2\n\
         | node 0 opens t-0 0..0, committed to 0, epochs []\n\
         all is well\n\
         2 leads in 4, in sync 2 1 0; logs 2/2 2/2 2/2\n\
         read from 2 at 0: [1, 2], committed to 2\n"
    );
}
