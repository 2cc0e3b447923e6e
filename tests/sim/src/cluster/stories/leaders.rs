//! Leaders that come and go.

use metadata::settings::FlushPolicy;

use super::{ALL, ONE, Story, asks, ends, isr, leader};

/// R2, KIP-101 and KIP-279: two leaders write different records to one place, and both are gone when a third
/// leads.
#[test]
fn r2_what_two_leaders_wrote_to_one_place_becomes_one_again() {
    let mut story = Story::new(FlushPolicy::Ack, 1);
    let key = story.key;
    story.cut(0, 1);
    story.cut(0, 2);
    story.write(0, &[1, 2], ONE);
    story.down(0, true);
    story.until("1 leads", |world| leader(world, key) == Some(1));
    story.write(1, &[3], ALL);
    story.controller_at(2);
    story.down(1, true);
    story.mend();
    story.back(0);
    story.until("2 leads", |world| leader(world, key) == Some(2));
    story.until("0 has the same", |world| ends(world, key, 0) == Some((1, 1)));
    story.back(1);
    story.until_well();
    story.read(2, 0);
    assert_eq!(
        story.text,
        "\
         0 and 1 do not hear each other\n\
         0 and 2 do not hear each other\n\
         write [1, 2] to 0, acknowledged by one: at 0\n\
         0 is killed\n\
         | node 1 leads t-0 epoch 2, ends at 0\n\
         1 leads\n\
         write [3] to 1, acknowledged by all: at 0\n\
         1 is killed\n\
         all hear each other\n\
         0 comes back\n\
         | node 0 opens t-0 0..2, committed to 0, epochs [(1, 0)]\n\
         | node 2 leads t-0 epoch 3, ends at 1\n\
         2 leads\n\
         | node 0 cuts t-0 2 to 0, committed 0\n\
         0 has the same\n\
         1 comes back\n\
         | node 1 opens t-0 0..1, committed to 0, epochs [(2, 0)]\n\
         all is well\n\
         2 leads in 3, in sync 2 0 1; logs 1/1 1/1 1/1\n\
         read from 2 at 0: [3], committed to 1\n"
    );
}

/// R3, KAFKA-7128: who has all that a new leader knows to be committed may lack what was committed before it
/// led.
///
/// The new leader is alone in sync where two are asked for: so it does not come to know what is committed by
/// itself, and its follower has all that it knows of from the first.
#[test]
fn r3_nobody_is_in_sync_who_has_not_come_to_where_the_leadership_began() {
    let mut story = Story::with_controllers(FlushPolicy::Os, 2);
    let key = story.key;
    story.cut(0, 2);
    story.cut(1, 2);
    story.cut(2, 3);
    story.until("2 is out of sync", |world| isr(world, key) == 2);
    story.write(0, &[1], ONE);
    story.until("1 has it and does not know that it is committed", |world| {
        ends(world, key, 1) == Some((0, 1)) && ends(world, key, 0) == Some((1, 1))
    });
    story.deafen(1, 0);
    story.down(0, true);
    story.until("1 leads", |world| leader(world, key) == Some(1));
    story.mend();
    story.until("2 is about to ask 1", |world| asks(world, 2, 1));
    story.deafen(2, 1);
    story.pass(300);
    story.look();
    story.mend();
    story.until("2 is in sync", |world| isr(world, key) == 2);
    story.look();
    story.back(0);
    story.until_well();
    assert_eq!(
        story.text,
        "\
         0 and 2 do not hear each other\n\
         1 and 2 do not hear each other\n\
         2 and 3 do not hear each other\n\
         2 is out of sync\n\
         write [1] to 0, acknowledged by one: at 0\n\
         1 has it and does not know that it is committed\n\
         1 does not hear 0\n\
         0 is killed\n\
         | node 1 leads t-0 epoch 1, ends at 1\n\
         1 leads\n\
         all hear each other\n\
         2 is about to ask 1\n\
         2 does not hear 1\n\
         1 leads in 1, in sync 1, eligible 0; logs - 0/1 0/0\n\
         all hear each other\n\
         2 is in sync\n\
         1 leads in 1, in sync 1 2; logs - 1/1 0/1\n\
         0 comes back\n\
         | node 0 opens t-0 0..1, committed to 0, epochs [(0, 0)]\n\
         all is well\n\
         1 leads in 1, in sync 1 2 0; logs 1/1 1/1 1/1\n"
    );
}

/// R4, KAFKA-13141: where the log of a follower that diverges ends says nothing of what it has.
#[test]
fn r4_a_follower_that_diverges_commits_nothing() {
    let mut story = Story::new(FlushPolicy::Ack, 1);
    let key = story.key;
    story.cut(0, 1);
    story.cut(0, 2);
    story.write(0, &[1, 2, 3], ONE);
    story.until("1 leads", |world| leader(world, key) == Some(1));
    story.cut(1, 2);
    story.write(1, &[4], ONE);
    story.look();
    story.mend();
    story.until_well();
    story.read(1, 0);
    assert_eq!(
        story.text,
        "\
         0 and 1 do not hear each other\n\
         0 and 2 do not hear each other\n\
         write [1, 2, 3] to 0, acknowledged by one: at 0\n\
         | node 1 leads t-0 epoch 2, ends at 0\n\
         1 leads\n\
         1 and 2 do not hear each other\n\
         write [4] to 1, acknowledged by one: at 0\n\
         1 leads in 2, in sync 1 2; logs 0/3 0/1 0/0\n\
         all hear each other\n\
         | node 0 cuts t-0 3 to 0, committed 0\n\
         all is well\n\
         1 leads in 2, in sync 1 2 0; logs 1/1 1/1 1/1\n\
         read from 1 at 0: [4], committed to 1\n"
    );
}

/// R7, KAFKA-15021: a broker that stops holds nobody up.
#[test]
fn r7_nobody_waits_for_a_replica_that_stops() {
    let mut story = Story::new(FlushPolicy::Os, 2);
    let key = story.key;
    story.world.nodes[1].is_held = true;
    let life = story.world.nodes[1].life;
    story.world.step(1, life, |process, now| process.stop(now));
    story.say("1 is to stop");
    story.write(0, &[1], ALL);
    story.until("1 is down", |world| world.nodes[1].process.is_none());
    story.look();
    story.write(0, &[2], ALL);
    story.until("1 is missed", |world| isr(world, key) == 2);
    story.back(1);
    story.until_well();
    assert_eq!(
        story.text,
        "\
         1 is to stop\n\
         write [1] to 0, acknowledged by all: at 0\n\
         1 is down\n\
         0 leads in 1, in sync 2 0; logs 1/1 - 1/1\n\
         write [2] to 0, acknowledged by all: at 1\n\
         1 is missed\n\
         1 comes back\n\
         | node 1 opens t-0 0..1, committed to 1, epochs [(1, 0)]\n\
         all is well\n\
         0 leads in 1, in sync 2 0 1; logs 2/2 2/2 2/2\n"
    );
}

/// R8: a leader that does not know that another leads acknowledges nothing that all in sync must have.
#[test]
fn r8_a_leader_of_the_past_acknowledges_nothing() {
    let mut story = Story::new(FlushPolicy::Os, 2);
    let key = story.key;
    story.cut(0, 1);
    story.cut(0, 2);
    story.until("1 leads", |world| leader(world, key) == Some(1));
    story.write(0, &[1], ALL);
    story.write(0, &[2], ONE);
    story.write(1, &[3], ALL);
    story.read(0, 0);
    story.look();
    story.mend();
    story.until_well();
    story.write(0, &[4], ALL);
    story.read(1, 0);
    assert_eq!(
        story.text,
        "\
         0 and 1 do not hear each other\n\
         0 and 2 do not hear each other\n\
         | node 1 leads t-0 epoch 2, ends at 0\n\
         1 leads\n\
         write [1] to 0, acknowledged by all: REQUEST_TIMED_OUT\n\
         write [2] to 0, acknowledged by one: at 1\n\
         write [3] to 1, acknowledged by all: at 0\n\
         read from 0 at 0: [], committed to 0\n\
         1 leads in 2, in sync 1 2; logs 0/2 1/1 1/1\n\
         all hear each other\n\
         | node 0 cuts t-0 2 to 0, committed 0\n\
         all is well\n\
         1 leads in 2, in sync 1 2 0; logs 1/1 1/1 1/1\n\
         write [4] to 0, acknowledged by all: NOT_LEADER_OR_FOLLOWER\n\
         read from 1 at 0: [3], committed to 1\n"
    );
}

/// R17: a new leader has records of an earlier epoch of which it does not know whether they are committed.
#[test]
fn r17_what_a_new_leader_does_not_know_to_be_committed_is_not_read() {
    let mut story = Story::new(FlushPolicy::Ack, 2);
    let key = story.key;
    story.write(0, &[1], ALL);
    story.cut(0, 2);
    story.write(0, &[2], ONE);
    story.until("1 has it", |world| ends(world, key, 1).is_some_and(|(_, end)| end == 2));
    story.cut(1, 2);
    story.down(0, true);
    story.controller_at(2);
    story.look();
    story.mend();
    story.until("1 leads", |world| leader(world, key) == Some(1));
    story.read(1, 1);
    story.until("2 has it", |world| ends(world, key, 2).is_some_and(|(_, end)| end == 2));
    story.back(0);
    story.until_well();
    story.read(1, 1);
    assert_eq!(
        story.text,
        "\
         write [1] to 0, acknowledged by all: at 0\n\
         0 and 2 do not hear each other\n\
         write [2] to 0, acknowledged by one: at 1\n\
         1 has it\n\
         1 and 2 do not hear each other\n\
         0 is killed\n\
         0 leads in 1, in sync 1 2 0; logs - 1/2 1/1\n\
         all hear each other\n\
         | node 1 leads t-0 epoch 2, ends at 2\n\
         1 leads\n\
         read from 1 at 1: [], committed to 1\n\
         2 has it\n\
         0 comes back\n\
         | node 0 opens t-0 0..2, committed to 0, epochs [(1, 0)]\n\
         all is well\n\
         1 leads in 2, in sync 1 2 0; logs 2/2 2/2 2/2\n\
         read from 1 at 1: [2], committed to 2\n"
    );
}
