//! A partition whose leader goes is served by the next one at once, whatever its followers wait for there.

use std::time::Duration;

use anyhow::{Context, Result};
use client::producer::{Acks, Producer, Record};
use vltava_e2e::nodes::Nodes;

/// Long enough to tell it from everything else.
const FETCH_WAIT_MAX: &str = "120000";

/// How long a record may take. A follower that asked for the partition only with its next question would
/// take as long as `replica.fetch.wait.max.ms`.
const DELIVERY_MAX: Duration = Duration::from_secs(40);

const PARTITIONS: i32 = 6;

fn write(nodes: &Nodes, topic: &str) -> Result<()> {
    let bootstrap = nodes.bootstrap();
    let producer = Producer::builder(&bootstrap).acks(Acks::All).delivery_timeout(DELIVERY_MAX).build()?;
    for partition in 0..PARTITIONS {
        let sent = producer.send_blocking(&Record::to(topic).partition(partition).value("x"))?;
        sent.wait().with_context(|| format!("{topic}-{partition}"))?;
    }
    Ok(())
}

#[test]
fn followers_do_not_wait_for_their_last_question_to_ask_the_next_leader() -> Result<()> {
    Nodes::new()?.told(|nodes| {
        let peers = nodes.peers(&[1, 2, 3])?;
        let set = [("cluster.peers", peers.as_str()), ("replica.fetch.wait.max.ms", FETCH_WAIT_MAX)];
        for id in [1, 2, 3] {
            nodes.spawn(id, &set)?;
        }
        for id in [1, 2, 3] {
            nodes.wait_until_serving(id)?;
        }
        // Every node leads a part of the first: all ask all others for it, and there is no answer.
        for topic in ["quiet", "busy"] {
            nodes.says(&["topic", "create", topic, "--partitions", &PARTITIONS.to_string()])?;
            write(nodes, topic)?;
        }
        // What it led is led by the others now.
        nodes.stop(1)?;
        write(nodes, "busy")
    })
}
