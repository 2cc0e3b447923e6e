//! Once a producer runs, a record costs its caller no allocation: only batches and requests do.

#![allow(unsafe_code, reason = "an allocator that counts is one")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use anyhow::{Result, ensure};
use client::producer::{Producer, Record};
use conformance::Node;
use vltava_e2e::churn::{Churn, admin};
use vltava_e2e::process::{setup, with_node};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // There is none any more while a thread ends.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: all is done by the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_record_costs_none() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| {
        Churn::default().create(&admin(&node.bootstrap())?, "t", 3, &[])?;
        let producer = Producer::new(&node.bootstrap())?;
        let send = |records: u64| -> Result<u64> {
            let before = COUNT.get();
            for number in 0..records {
                let value = [number as u8; 100];
                drop(producer.send_blocking(&Record::to("t").value(&value))?);
            }
            Ok(COUNT.get() - before)
        };
        let warm = send(50_000)?;
        ensure!(warm > 0, "it counts");
        let records = 200_000;
        let allocations = send(records)?;
        ensure!(allocations < records / 20, "{allocations} allocations for {records} records");
        producer.flush_blocking();
        Ok(())
    })
}
