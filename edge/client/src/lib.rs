//! Client of a Vltava or Kafka cluster.
//!
//! ```text
//!   Admin ──── topics, settings, offsets, the cluster ────┐
//!   raw ────── one batch produced, one range fetched ─────┼──▶ Connection ──▶ one broker
//!   tests ──── any request, any version, pipelined ───────┘
//! ```
//!
//! Calls block, with a deadline on each. A [`Connection`] keeps nothing but what it sent and has not
//! read the answer of; whoever wants several requests in flight sends several before it receives.
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
//! **Invariant:** no retries here: an error says what happened, and the caller decides.

pub mod admin;
mod connection;
mod error;
mod handshake;
pub mod raw;
mod versions;

pub use admin::Admin;
pub use connection::{Answer, AnswerTo, ConnectOptions, Connection};
pub use error::ClientError;
pub use versions::Versions;
