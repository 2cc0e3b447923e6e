//! What is acknowledged and when: appends, flushes that come back in any order, failures.

mod world;

use proptest::prelude::*;
use storage::FlushScope;
use storage::disk::{DiskError, Failed};
use vltava_replica::{AppendError, FetchError, FlushPolicy};
use world::{World, fetch};

fn broken() -> DiskError {
    DiskError {
        operation: "sync",
        path: "events-0".into(),
        reason: "told to fail".into(),
        failed: Failed::Directory,
    }
}

#[test]
fn under_ack_a_record_is_committed_once_it_is_on_the_disk() {
    let mut world = World::new(FlushPolicy::Ack);
    assert_eq!(world.append(&[1, 2]), "flush");
    assert_eq!(world.read(fetch(0)), (0, 0), "what a power cut could take is not shown");
    assert_eq!(world.flush(), "committed 2");
    assert_eq!(world.read(fetch(0)).0, 2);
    assert!(world.plan().is_none(), "all of it is on the disk");
}

#[test]
fn under_os_a_record_is_committed_when_it_is_appended() {
    let mut world = World::new(FlushPolicy::Os);
    assert_eq!(world.append(&[1]), "committed 1");
    assert_eq!(world.append(&[2]), "committed 2");
    assert_eq!(world.flush(), "", "it says nothing new");
}

#[test]
fn under_interval_a_flush_is_asked_for_by_bytes_and_due_by_time() {
    let every = std::time::Duration::from_millis(100);
    let mut world = World::new(FlushPolicy::Interval { every, bytes: 200, records: u64::MAX });
    assert!(!world.flush_is_due(0));
    assert_eq!(world.append(&[1]), "committed 1");
    assert!(!world.flush_is_due(99));
    assert!(world.flush_is_due(100));
    assert_eq!(world.append(&[2, 3, 4, 5, 6]), "committed 6");
    assert_eq!(world.append(&[7, 8, 9, 10, 11]), "flush committed 11");
    assert!(!world.flush_is_due(1000), "it was asked for");
}

#[test]
fn flushes_may_come_back_in_any_order() {
    let mut world = World::new(FlushPolicy::Ack);
    world.append(&[1]);
    let first = world.plan().unwrap().run();
    world.append(&[2]);
    let second = world.plan().unwrap().run();
    assert_eq!(world.flushed(second), "committed 2");
    assert_eq!(world.flushed(first), "", "the high watermark does not go back");
    assert_eq!(world.high_watermark(), 2);
}

#[test]
fn a_flush_that_comes_back_after_another_failed_commits_nothing() {
    let mut world = World::new(FlushPolicy::Ack);
    world.append(&[1]);
    let first = world.plan().unwrap().run();
    world.append(&[2]);
    let second = world.plan().unwrap().run();
    assert!(world.flushed(Err(broken())).starts_with("retire"));
    assert_eq!(world.flushed(first), "");
    assert_eq!(world.flushed(second), "");
    assert_eq!(world.high_watermark(), 0);
    assert_eq!(world.flushed(Err(broken())), "", "it is given up once");
    assert_eq!(world.try_append(&[3]).unwrap_err(), AppendError::Retired);
    assert!(world.plan().is_none());
}

#[test]
fn a_failed_partition_commits_nothing_whatever_its_settings_become() {
    let mut world = World::new(FlushPolicy::Ack);
    world.append(&[1]);
    world.flushed(Err(broken()));
    world.reconfigure(FlushPolicy::Os);
    assert_eq!(world.high_watermark(), 0);
}

#[test]
fn a_retired_partition_still_gives_what_was_committed() {
    let mut world = World::new(FlushPolicy::Ack);
    world.append(&[1]);
    world.flush();
    world.append(&[2]);
    let flush = world.plan().unwrap().run();
    world.partition.retire();
    assert!(world.partition.is_failed());
    assert_eq!(world.flushed(flush), "");
    assert_eq!(world.try_append(&[3]).unwrap_err(), AppendError::Retired);
    assert_eq!(world.read(fetch(0)).0, 1);
    assert!(matches!(world.delete_records(None), Err(FetchError::Retired)));
}

#[test]
fn another_policy_is_in_force_at_once() {
    let mut world = World::new(FlushPolicy::Ack);
    world.append(&[1]);
    assert_eq!(world.reconfigure(FlushPolicy::Os), "committed 1");
    world.append(&[2]);
    assert_eq!(world.reconfigure(FlushPolicy::Ack), "flush", "what was committed stays committed");
    assert_eq!(world.high_watermark(), 2);
    assert_eq!(world.append(&[3]), "flush");
    assert_eq!(world.flush(), "committed 3");
}

#[test]
fn a_batch_sent_again_is_committed_when_the_first_one_is() {
    let mut world = World::new(FlushPolicy::Ack);
    let first = world.try_append_as(7, 0, &[1]).unwrap();
    let again = world.try_append_as(7, 0, &[1]).unwrap();
    assert!(again.duplicate && !first.duplicate);
    assert_eq!((again.base_offset, again.last_offset), (first.base_offset, first.last_offset));
    assert_eq!(world.high_watermark(), 0);
    assert_eq!(world.flush(), "committed 1");
}

#[derive(Debug, Clone)]
enum Step {
    Append(usize),
    Plan(bool),
    Return(usize),
    Break(usize),
    Policy(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..5usize).prop_map(Step::Append),
        3 => any::<bool>().prop_map(Step::Plan),
        4 => (0..4usize).prop_map(Step::Return),
        1 => (0..4usize).prop_map(Step::Break),
        1 => any::<bool>().prop_map(Step::Policy),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Under `ack` the high watermark is never above what some flush that came back covered; it never
    /// goes back, stands still after a failure, and nothing behind it is read.
    #[test]
    fn only_what_is_on_the_disk_is_committed(steps in prop::collection::vec(step(), 1..40)) {
        let mut world = World::new(FlushPolicy::Ack);
        let mut running = Vec::new();
        let (mut ack, mut may_be_seen, mut failed) = (true, 0, false);
        for step in steps {
            let before = world.high_watermark();
            match step {
                Step::Append(count) => {
                    let appended = world.try_append(&vec![1; count]);
                    prop_assert_eq!(appended.is_err(), failed);
                }
                Step::Plan(records) => {
                    let scope = if records { FlushScope::Records } else { FlushScope::Checkpoint };
                    running.extend(world.plan_of(scope));
                }
                Step::Return(at) if at < running.len() => {
                    let flush = running.swap_remove(at);
                    let upto = flush.upto().0;
                    world.flushed(flush.run());
                    if !failed {
                        may_be_seen = may_be_seen.max(upto);
                    }
                }
                Step::Break(at) if at < running.len() => {
                    drop(running.swap_remove(at));
                    world.flushed(Err(broken()));
                    failed = true;
                }
                Step::Policy(to_ack) => {
                    ack = to_ack;
                    world.reconfigure(if to_ack { FlushPolicy::Ack } else { FlushPolicy::Os });
                }
                Step::Return(_) | Step::Break(_) => {}
            }
            if !ack && !failed {
                may_be_seen = world.log_end();
            }
            let now = world.high_watermark();
            prop_assert!(now >= before && now <= may_be_seen, "{} {} {}", before, now, may_be_seen);
            prop_assert!(!failed || now == before);
            prop_assert!(world.read(fetch(0)).0 <= now);
        }
    }
}
