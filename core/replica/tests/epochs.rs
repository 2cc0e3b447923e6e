//! Leader epochs: where they end, who is fenced, and whose log has parted from this one.

mod world;

use base::{LeaderEpoch, Offset};
use vltava_replica::{Fetch, FetchError, FlushPolicy, OffsetSpec};
use world::{World, fetch};

fn end_of(world: &World, epoch: i32) -> (i32, i64) {
    let (epoch, end) = world.partition.epoch_end(LeaderEpoch::NONE, LeaderEpoch(epoch)).unwrap();
    (epoch.0, end.0)
}

#[test]
fn the_epoch_that_leads_is_the_last_one_before_it_has_written() {
    let empty = World::new(FlushPolicy::Os).led_in(1);
    assert_eq!(end_of(&empty, 0), (0, 0));
    assert_eq!(end_of(&empty, 1), (1, 0));
    assert_eq!(end_of(&empty, 2), (-1, -1), "nobody has led in it");

    let mut world = World::new(FlushPolicy::Os);
    world.append(&[1, 2, 3]);
    let mut world = world.led_in(2);
    assert_eq!(end_of(&world, 0), (0, 3));
    assert_eq!(end_of(&world, 1), (0, 3), "epoch 1 wrote nothing");
    assert_eq!(end_of(&world, 2), (2, 3));
    assert_eq!(end_of(&world, 3), (-1, -1));
    assert_eq!(end_of(&world, -1), (-1, -1));
    world.append(&[4]);
    assert_eq!([1, 2].map(|epoch| end_of(&world, epoch)), [(0, 3), (2, 4)]);
}

#[test]
fn those_who_know_another_epoch_are_told() {
    let mut world = World::new(FlushPolicy::Os).led_in(3);
    for (epoch, fenced, unknown) in
        [(-1, false, false), (2, true, false), (3, false, false), (4, false, true)]
    {
        let current_epoch = LeaderEpoch(epoch);
        let outcome = world.try_read(Fetch { current_epoch, ..fetch(0) });
        assert_eq!(matches!(outcome, Err(FetchError::Fenced { .. })), fenced, "{epoch}");
        assert_eq!(matches!(outcome, Err(FetchError::UnknownEpoch { .. })), unknown, "{epoch}");
        let outcome = world.offset_for(OffsetSpec::Latest, epoch);
        assert_eq!(matches!(outcome, Err(FetchError::Fenced { .. })), fenced, "{epoch}");
    }
}

#[test]
fn a_reader_whose_log_has_parted_is_told_where() {
    let mut world = World::new(FlushPolicy::Os);
    world.append(&[1, 2, 3]);
    let mut world = world.led_in(2);
    world.append(&[4, 5]);
    let read = |world: &mut World, last: i32, from: i64| {
        let last_epoch = LeaderEpoch(last);
        world.try_read(Fetch { last_epoch, ..fetch(from) })
    };
    let parted = read(&mut world, 0, 5).unwrap();
    assert_eq!(parted.diverging, Some((LeaderEpoch(0), Offset(3))));
    assert_eq!((parted.high_watermark, parted.log_start, parted.bytes()), (Offset(5), Offset(0), 0));
    let parted = read(&mut world, 1, 3).unwrap();
    assert_eq!(parted.diverging, Some((LeaderEpoch(0), Offset(3))), "nothing of epoch 1 is here");
    assert_eq!(read(&mut world, 0, 3).unwrap().diverging, None);
    assert_eq!(read(&mut world, 2, 5).unwrap().diverging, None);
    assert!(matches!(read(&mut world, 3, 5), Err(FetchError::OutOfRange { .. })), "nobody has led in it");
    world.delete_records(Some(Offset(4))).unwrap();
    assert!(matches!(read(&mut world, 0, 3), Err(FetchError::OutOfRange { .. })), "before the start");
}

#[test]
fn the_largest_timestamp_is_that_of_a_committed_record() {
    let mut world = World::new(FlushPolicy::Ack);
    let largest = |world: &mut World| {
        world.offset_for(OffsetSpec::MaxTimestamp, -1).unwrap().map(|(time, offset, _)| (time.0, offset.0))
    };
    assert_eq!(largest(&mut world), None);
    world.append(&[10, 30, 20]);
    world.flush();
    world.append(&[40]);
    assert_eq!(largest(&mut world), Some((30, 1)), "40 may be lost yet");
    world.flush();
    assert_eq!(largest(&mut world), Some((40, 3)));
    world.delete_records(Some(Offset(2))).unwrap();
    world.append(&[50]);
    assert_eq!(largest(&mut world), Some((40, 3)));
}
