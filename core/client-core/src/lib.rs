//! A client of a Kafka cluster, decided: producer, consumer, group and admin as machines that are stepped.
//!
//! ```text
//!   caller ── append ──▶ Producer ── Effect::Send ──▶ edge ──▶ broker
//!   caller ◀── Effect::Done ── Producer ◀── on_frame ── edge ◀── broker
//! ```
//!
//! A machine is told what happened (a connection opened or broke, a frame came, time passed) and
//! answers with effects: connect, send, close, and what became of whom. It holds no socket, no thread
//! and no clock, so that the simulation runs it through every order of events.
//!
//! [`Links`] are a client's connections: whom to connect to, when to try again, what is in flight.
//! [`Cluster`] is what the client knows of the cluster. [`producer`], [`consumer`], [`group`] and [`admin`] are
//! built on both.
//!
//! **Invariant:** a broker's bytes are input like any other. Whatever they say, a machine answers with
//! an error or an effect, and what it keeps for a broker is bounded by what it asked for.

pub mod admin;
pub mod consumer;
pub mod group; // beside the consumer: what it reads
pub mod plan;
pub mod producer; // start here

mod cluster;
mod link;
mod links;
mod versions;

mod backoff;
mod chance;
mod inquiry;

pub use backoff::Backoff;
pub use chance::Chance;
pub use cluster::{Address, Cluster, Leader, TopicMetadata};
pub use link::{Answer, Heard, LinkError};
pub use links::{Asking, ConnectionId, Links, LinksSettings, NetEffect, Outgoing, Peer};
pub use versions::Versions;
