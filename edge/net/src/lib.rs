//! Listeners, frames in, answers out: the bytes between a socket and the broker.
//!
//! ```text
//!   Listener ── accept, caps, rates ──▶ an I/O thread (round robin)
//!                                          │
//!   FrameReader ◀── bytes ── socket ◀──────┤ one task per connection
//!   AnswerWriter ── writev, sendfile ──▶ socket
//! ```
//!
//! Nothing here knows what a frame means. What a peer declares is never believed: buffers grow with
//! what was received, above 64 KiB they are paid for from a [`MemoryBudget`], and every wait for a
//! peer has a deadline.
//!
//! **Invariant:** the bytes that leave a socket are whole answers in the order they were pushed, or
//! the connection ends.

mod admission;
mod limits;
mod listener; // start here
mod threads;

mod budget;
mod frame; // bytes in

mod answer; // bytes out
mod writer;

mod stop;

pub use admission::{Admission, Admitted, ListenerCounts, Refusal, Seat};
pub use answer::{Answer, FileRange, SendFile};
pub use budget::{Charge, MemoryBudget};
pub use frame::{FrameError, FrameReader};
pub use limits::{FrameLimits, ListenerLimits, WriteLimits, connections_affordable, raise_descriptors_max};
pub use listener::{BindError, Connection, Listener};
pub use stop::{Stop, StopSwitch};
pub use threads::IoThreads;
pub use writer::{AnswerWriter, HangUp, WriteError};
