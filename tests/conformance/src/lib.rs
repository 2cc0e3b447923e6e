//! Foreign clients, and ours among them, against a real node.
//!
//! A driver is a small program per client, all speaking one line protocol (`drivers/PROTOCOL.md`), so that
//! what is written and checked is said once, here. `matrix.toml` says which client can do what.
//!
//! ```text
//! stories ── commands ──▶ driver ── Kafka's protocol ──▶ node: vltava, or Kafka itself
//! ```
//!
//! The node under test is chosen by the environment, and nothing else in the suite depends on it:
//! by default the `vltava` binary of this build, `VLTAVA_BIN` names another, `CONFORMANCE_NODE=cluster`
//! starts three nodes of ours, `CONFORMANCE_NODE=kafka` Apache Kafka, and `BOOTSTRAP=host:port` takes a server
//! that runs already.

// What clients do.
pub mod stories;
pub mod suite;

// The clients.
pub mod driver;
pub mod group;
pub mod line;
pub mod matrix;
pub mod record;
pub mod tools;

// The server.
pub mod capture;
pub mod cluster;
pub mod kafka;
mod launch;
pub mod node;

// Where install.sh put things.
pub mod home;

pub use launch::{free_cluster_port, free_node_port, free_port};
pub use node::{Node, Program, Setup};
