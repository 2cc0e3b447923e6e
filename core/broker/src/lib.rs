//! A request's way through one broker.
//!
//! Start with [`session`]: a frame goes in, an outcome comes out. Each API is one file under
//! [`api`]. What a request needs of the node it reached comes through the doors in [`host`].
//!
//! **Invariant:** no socket, no lock, no clock. A peer's bytes can close its connection and nothing
//! else.

pub mod api; // one file an API
pub mod call;
mod codes;
pub mod directories; // what a broker has when it starts
pub mod fetch_session;
pub mod gate;
pub mod groups;
pub mod host; // the doors
pub mod lifecycle;
pub mod parked;
pub mod partition;
pub mod replication;
pub mod session; // start here
