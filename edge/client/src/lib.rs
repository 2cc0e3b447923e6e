//! Client of a Vltava or Kafka cluster.
//!
//! ```text
//!   Producer ── records, acknowledged ──┐
//!   Consumer ── batches, or records ────┼──▶ client_core decides ──▶ brokers
//!                                       │
//!   Admin ───── topics, settings, offsets, the cluster ──┐
//!   raw ─────── one batch produced, one range fetched ───┼──▶ Connection ──▶ one broker
//!   tests ───── any request, any version, pipelined ─────┘
//! ```
//!
//! [`producer`] and [`consumer`] have a thread of their own each; their futures run on any executor, and
//! each has a form that blocks. Calls of [`Admin`] and [`Connection`] block, with a deadline.
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
//! use vltava_client::{Admin, ConnectOptions};
//!
//! # let Ok(bootstrap) = std::env::var("VLTAVA_BOOTSTRAP") else { return Ok(()) };
//! let mut admin = Admin::connect(&bootstrap, ConnectOptions::default())?;
//! for (name, _) in admin.list_topics()? {
//!     println!("{name}");
//! }
//! # Ok::<(), vltava_client::ClientError>(())
//! ```
//!
//! These run on the broker that `VLTAVA_BOOTSTRAP` names, and without one do nothing. Whole programs are in
//! `edge/client/examples`: `cargo run -p vltava-client --example produce`, or `consume`, or `copy_topic`.
//!
//! **Invariant:** what is sent, tried again or given up, `client_core` decides; `Admin` and `Connection` try
//! nothing twice.

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
mod wires;

pub use address::AddressError;
pub use admin::Admin;
pub use client_core::Versions;
pub use connection::{Answer, AnswerTo, ConnectOptions, Connection};
pub use error::ClientError;
pub use records::{Compression, Header, Record, Scratch, TimestampType};
