//! Client of a Vltava or Kafka cluster.
//!
//! ```text
//!   Producer ── records, acknowledged ──┐
//!   Consumer ── batches, lent ──────────┼──▶ client_core decides ──▶ brokers
//!                                       │
//!   Admin ───── topics, settings, offsets, the cluster ──┐
//!   raw ─────── one batch produced, one range fetched ───┼──▶ Connection ──▶ one broker
//!   tests ───── any request, any version, pipelined ─────┘
//! ```
//!
//! [`producer`] and [`consumer`] have a thread of their own each; their futures run on any executor, and
//! each has a form that blocks. Calls of [`Admin`] and [`Connection`] block, with a deadline.
//!
//! ```no_run
//! use vltava_client::producer::{Producer, Record};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let producer = Producer::new("127.0.0.1:9092")?;
//! let delivery = producer.send(Record::to("orders").key("customer 7").value("three apples")).await?;
//! let written = delivery.await?;
//! println!("partition {}, offset {:?}", written.partition, written.offset);
//! # Ok(())
//! # }
//! ```
//!
//! ```no_run
//! use vltava_client::{Admin, ConnectOptions};
//!
//! let mut admin = Admin::connect("127.0.0.1:9092", ConnectOptions::default())?;
//! for (name, _) in admin.list_topics()? {
//!     println!("{name}");
//! }
//! # Ok::<(), vltava_client::ClientError>(())
//! ```
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
pub use records::{Compression, Header, Record, Scratch};
