//! Client of a Vltava or Kafka cluster.
//!
//! ```text
//!   Producer ── records, acknowledged ────────────┐
//!   Consumer ── batches, or records; alone or ────┼──▶ client_core decides ──▶ brokers
//!   │           as a member of a group            │
//!   Admin ───── topics, settings, groups, disks ──┘
//!
//!   tests ───── any request, any version ──▶ Connection, raw ──▶ one broker
//! ```
//!
//! [`producer`], [`consumer`] and [`admin`] have a thread of their own each; their futures run on any
//! executor, and each has a form that blocks.
//!
//! ```
//! use vltava_client::producer::{Producer, Record};
//!
//! # let Ok(bootstrap) = std::env::var("VLTAVA_BOOTSTRAP") else { return Ok(()) };
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! # runtime.block_on(async {
//! let producer = Producer::new(&bootstrap)?; // "127.0.0.1:9092", say
//! let delivery = producer.send(Record::to("orders").key("customer 7").value("three apples")).await?;
//! let written = delivery.await?;
//! println!("partition {}, offset {:?}", written.partition, written.offset);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```
//! use vltava_client::Admin;
//!
//! # let Ok(bootstrap) = std::env::var("VLTAVA_BOOTSTRAP") else { return Ok(()) };
//! let admin = Admin::new(&bootstrap)?;
//! for topic in admin.list_topics().wait()? {
//!     println!("{}: {} partitions", topic.name, topic.partitions.len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! These run on the broker that `VLTAVA_BOOTSTRAP` names, and without one do nothing. Whole programs are in
//! `edge/client/examples`: `cargo run -p vltava-client --example produce`, or `consume`,
//! or `group`, or `copy_topic`.
//!
//! **Invariant:** what is sent, tried again or given up, `client_core` decides. [`Connection`] is for those who
//! decide themselves, as tests do: its calls block, and it tries nothing twice.

mod address;
pub mod admin;
mod bell;
mod block;
mod clock;
mod connection;
pub mod consumer;
mod driver;
mod error;
mod handshake;
pub mod producer;
pub mod raw;
mod waits;
mod wires;

pub use address::AddressError;
pub use admin::Admin;
pub use base::{
    BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionIndex, TimestampMs, TopicName, TopicPartition,
};
pub use client_core::{Versions, plan};
pub use connection::{Answer, AnswerTo, ConnectOptions, Connection};
pub use error::ClientError;
pub use records::{Compression, Header, Record, Scratch, TimestampType};
