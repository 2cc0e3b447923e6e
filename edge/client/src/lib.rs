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
