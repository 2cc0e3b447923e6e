//! Real processes: crash, power cut, hostile input.
//!
//! What stands in `tests/` are the stories; here is what they are told with.
//!
//! ```text
//!   load ── batches ──▶ node ── kill -9, power cut, SIGTERM ──▶ node again
//!    │ acknowledged                                               │ fetched
//!    └────────────▶ ledger ◀── is everything there, once? ────────┘
//! ```
//!
//! Every record says which producer wrote it as its how-manieth, and all its bytes follow from that:
//! so any record that is read back can be checked without keeping what was sent.
//!
//! **Invariant:** a story waits for something to happen, with a deadline, and never for time to pass;
//! what it leaves to chance comes from one seed, which a failure prints.

// What stories start and stop.
pub mod disk;
pub mod liar;
pub mod nodes;
pub mod process;
pub mod proxy;

// What they do to it.
pub mod churn;
pub mod load;
pub mod progress;
pub mod stream;

// What must hold then.
pub mod ledger;
pub mod sample;

// Words they use.
pub mod chance;
pub mod http;
pub mod terminal;
pub mod wait;

pub use chance::Chance;
