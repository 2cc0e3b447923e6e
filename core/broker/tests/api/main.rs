//! What the broker answers, over a world of plain values.
//!
//! Tests named `g01` and so on are what trips those who write a Kafka broker anew; the numbers are those of
//! the list of gotchas that the protocol notes keep. Bytes in hex were captured from Apache Kafka 4.4.

mod requests;
mod world;

mod cluster;
mod configs;
mod consumer_groups;
mod delete_records;
mod fetch;
mod group_limits;
mod groups;
mod ids;
mod limits;
mod nearest;
mod offsets;
mod produce;
mod quorum;
mod reassignments;
mod replication;
mod several_brokers;
mod shards;
mod topics;
mod versions;
