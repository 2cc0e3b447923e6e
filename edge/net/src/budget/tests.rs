use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;

/// Polls once.
fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn what_is_dropped_is_given_back() {
    let budget = MemoryBudget::new(100);
    let mut charge = budget.acquire(60).await;
    assert!(charge.try_grow_to(100));
    assert!(charge.try_grow_to(100) && charge.try_grow_to(5), "it holds that already");
    assert!(!charge.try_grow_to(101));
    assert_eq!((budget.used(), budget.bytes_max()), (100, 100));
    charge.shrink_to(30);
    charge.shrink_to(200);
    assert_eq!((budget.used(), charge.bytes()), (30, 30));
    drop(charge);
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn who_waits_longest_is_first() {
    let budget = MemoryBudget::new(100);
    let all = budget.acquire(100).await;
    let mut large = pin!(budget.acquire(80));
    let mut small = pin!(budget.acquire(10));
    assert!(poll(large.as_mut()).is_pending());
    assert!(poll(small.as_mut()).is_pending());
    assert!(budget.is_short());
    let mut all = all;
    all.shrink_to(50);
    assert!(poll(small.as_mut()).is_pending(), "a small one does not overtake a large one");
    assert!(!budget.charge().try_grow_to(1), "nor does one that does not wait");
    drop(all);
    let (large, small) = (large.await, small.await);
    assert_eq!((large.bytes(), small.bytes(), budget.used()), (80, 10, 90));
    assert!(!budget.is_short());
}

#[tokio::test]
async fn who_gave_up_is_passed_over() {
    let budget = MemoryBudget::new(10);
    let all = budget.acquire(10).await;
    for _ in 0..10_000 {
        let mut gone = Box::pin(budget.acquire(10));
        assert!(poll(gone.as_mut()).is_pending());
    }
    let mut last = pin!(budget.acquire(10));
    assert!(poll(last.as_mut()).is_pending());
    drop(all);
    assert_eq!(last.await.bytes(), 10);
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn a_grant_that_nobody_takes_is_given_back() {
    let budget = MemoryBudget::new(10);
    let all = budget.acquire(10).await;
    let mut granted = Box::pin(budget.acquire(10));
    assert!(poll(granted.as_mut()).is_pending());
    drop(all);
    assert_eq!(budget.used(), 10, "granted, but not yet taken");
    drop(granted);
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn a_dropped_wait_keeps_its_place() {
    let budget = MemoryBudget::new(10);
    let all = budget.acquire(10).await;
    let mut charge = budget.charge();
    assert!(poll(pin!(charge.grow_to(7))).is_pending());
    let mut later = pin!(budget.acquire(7));
    assert!(poll(later.as_mut()).is_pending());
    assert!(poll(pin!(charge.grow_to(7))).is_pending());
    drop(all);
    assert!(poll(later.as_mut()).is_pending());
    charge.grow_to(7).await;
    drop(charge);
    assert_eq!(later.await.bytes(), 7);
}

#[tokio::test]
async fn more_than_there_is_goes_to_who_asks_when_nobody_has_any() {
    let budget = MemoryBudget::new(10);
    let one = budget.acquire(1).await;
    let mut huge = pin!(budget.acquire(25));
    assert!(poll(huge.as_mut()).is_pending());
    drop(one);
    let huge = huge.await;
    assert_eq!(budget.used(), 25);
    drop(huge);
    assert_eq!(budget.used(), 0);
}

/// Two halves that each wait for the other's half: one may overdraw, the other has to wait for it.
#[tokio::test]
async fn half_frames_do_not_lock_each_other() {
    let budget = MemoryBudget::new(100);
    let mut a = budget.acquire(50).await;
    let mut b = budget.acquire(50).await;
    let mut newcomer = pin!(budget.acquire(1));
    assert!(poll(newcomer.as_mut()).is_pending());
    a.grow_to(80).await;
    assert_eq!(budget.used(), 130);
    {
        let mut b_grows = pin!(b.grow_to(80));
        assert!(poll(b_grows.as_mut()).is_pending());
        a.grow_to(200).await;
        assert_eq!(budget.used(), 250, "who overdraws may go on, or nobody could");
        drop(a);
        b_grows.await;
    }
    // Room that is left goes to the one that holds nothing yet.
    assert_eq!(newcomer.await.bytes(), 1);
    b.shrink_to(0);
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn the_right_to_overdraw_is_given_back() {
    let budget = MemoryBudget::new(10);
    for _ in 0..3 {
        let mut a = budget.acquire(5).await;
        let b = budget.acquire(5).await;
        a.grow_to(8).await;
        a.shrink_to(0);
        drop(b);
    }
    assert_eq!(budget.used(), 0);
}

/// Many tasks that grow step by step with far too little for all of them: all finish, in bounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everyone_finishes_within_the_bound() {
    const FRAME: u64 = 64;
    let budget = MemoryBudget::new(100);
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let budget = budget.clone();
            tokio::spawn(async move {
                let mut charge = budget.charge();
                for step in 1..=8 {
                    charge.grow_to(step * FRAME / 8).await;
                    assert!(budget.used() <= 100 + FRAME, "{}", budget.used());
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(budget.used(), 0);
}
