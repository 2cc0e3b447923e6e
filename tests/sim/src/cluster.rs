//! Whole clusters: nodes of `core/`, a quorum, a network, disks, clocks and clients, under one seed.
//!
//! ```text
//!   topics are made ─▶ trouble: safety ─▶ a majority is well: it goes on ─▶ all are well: all is the same
//! ```
//!
//! Each node runs the controller, the broker and the replicas of the product, wired as `edge/server` wires
//! them, in one thread. The Raft library is replaced by a quorum that keeps its contract and nothing else.

pub mod options;
pub mod plant;
pub mod run; // start here

mod world;

mod phases; // what happens in a run
mod trouble;

mod client; // what it is made of
mod groups;
mod keyed;
mod net;
mod process;
mod queue;
mod quorum;

mod invariants; // what must be true of it
mod truth;

#[cfg(test)]
mod stories;

use base::TimestampMs;
use metadata::{Image, MetadataRecord};

/// The wall clocks of a run begin here.
const EPOCH: TimestampMs = TimestampMs(1_700_000_000_000);

/// Records in few words; after all of them the metadata are `image`.
fn words(records: &[MetadataRecord], image: &Image) -> String {
    let name = |id| image.topic_by_id(id).map_or_else(|| "?".to_owned(), |topic| topic.name.to_string());
    let word = |record: &MetadataRecord| match record {
        MetadataRecord::PartitionChange(change) => {
            let mut said = format!("{}-{}", name(change.topic), change.partition);
            if let Some(leader) = change.leader {
                said += &format!(" leader {leader}");
            }
            for (what, ids) in [
                ("isr", &change.isr),
                ("eligible", &change.eligible),
                ("last", &change.last_known_eligible),
                ("replicas", &change.replicas),
            ] {
                if let Some(ids) = ids {
                    let ids: Vec<i32> = ids.iter().map(|id| id.0).collect();
                    said += &format!(" {what} {ids:?}");
                }
            }
            if let Some(recovering) = change.recovering {
                said += &format!(" recovering {recovering}");
            }
            if change.directories.is_some() {
                said += " directories";
            }
            said
        }
        MetadataRecord::RegisterBroker(broker) => format!("broker {} epoch {}", broker.id, broker.epoch),
        MetadataRecord::BrokerChange(change) => {
            let fenced = change.fenced.map(|fenced| if fenced { " fenced" } else { " unfenced" });
            let stops = if change.in_controlled_shutdown { " stops" } else { "" };
            format!("broker {}{}{stops}", change.broker, fenced.unwrap_or_default())
        }
        MetadataRecord::Topic(topic) => format!("topic {}", topic.name),
        MetadataRecord::Partition(new) => format!("new {}-{}", name(new.topic), new.partition.index),
        other => format!("{other:?}"),
    };
    records.iter().map(word).collect::<Vec<_>>().join("; ")
}
