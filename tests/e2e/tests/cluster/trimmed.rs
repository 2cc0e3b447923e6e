//! Records are deleted up to the middle of a batch: others still get a replica, and they stay deleted.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::producer::{Acks, Producer, Record};
use vltava_e2e::nodes::Nodes;

use crate::is_well;

const IDS: [i32; 3] = [1, 2, 3];

/// So many records in one batch.
fn write(nodes: &Nodes, count: u64) -> Result<()> {
    let producer = Producer::builder(&nodes.bootstrap()).acks(Acks::All).linger(Duration::from_secs(60));
    let producer = producer.build()?;
    let record =
        |number: u64| Ok(producer.send_blocking(&Record::to("t").partition(0).value(&number.to_string()))?);
    let sent = (0..count).map(record).collect::<Result<Vec<_>>>()?;
    producer.flush_blocking();
    for (number, delivery) in (0..).zip(sent) {
        let offset = delivery.wait()?.offset.map(|offset| offset.0);
        ensure!(offset == Some(number), "{number} is at {offset:?}");
    }
    Ok(())
}

fn leader(nodes: &Nodes) -> Result<i32> {
    Ok(i32::try_from(nodes.partitions("t")?[0]["leader"].as_i64().context("somebody leads")?)?)
}

#[test]
fn a_log_that_starts_within_a_batch_is_copied_and_what_was_deleted_stays_so() -> Result<()> {
    Nodes::found(&IDS)?.told(|nodes| {
        nodes.says(&["topic", "create", "t", "--partitions", "1", "--replication-factor", "1"])?;
        write(nodes, 10)?;
        nodes.says(&["topic", "trim", "t", "--before", "4", "--yes"])?;
        nodes.says(&["topic", "alter", "t", "--replication-factor", "3", "--yes"])?;
        nodes.until("all are in sync", is_well)?;
        // Answered, and so known to whoever leads next.
        nodes.says(&["topic", "trim", "t", "--before", "6", "--yes"])?;
        let first = leader(nodes)?;
        nodes.kill(first)?;
        let read = nodes.says(&["consume", "t", "-e", "-f", "%o %s\\n"])?;
        ensure!(read == "6 6\n7 7\n8 8\n9 9\n", "{read}");
        ensure!(leader(nodes)? != first);
        Ok(())
    })
}
