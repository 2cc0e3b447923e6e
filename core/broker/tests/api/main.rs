//! What the broker answers, over a world of plain values.
//!
//! Tests named `g01` and so on are what trips those who write a Kafka broker anew: the name says the rule, and tests
//! with one number, here and in `core/coordinator/src/stories.rs`, belong together. Two are tested where the code is:
//! 13, the epoch of a fetch session goes from the highest to 1 (`core/broker/src/fetch_session.rs`:
//! `the_epoch_wraps_to_one`), and 35, no array has more than a million elements and no field list more than 10 000 tags
//! (`core/wire/src/decoder/tests.rs`). Bytes in hex were captured from Apache Kafka 4.4.

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
mod refused;
mod replication;
mod several_brokers;
mod shards;
mod topics;
mod versions;
