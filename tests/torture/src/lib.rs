//! Clusters of real processes, tortured: a network namespace and a disk for each broker, faults under load,
//! and a checker of what clients saw.
//!
//! ```text
//!   plan, from a seed ──▶ faults ──▶ b1 b2 b3 …      each in a namespace, on a disk of its own
//!                                     ▲ ▲ ▲
//!   producers, readers ── c1 ─────────┴─┴─┘
//!        └── history ──▶ checker ──▶ report
//! ```

#![expect(clippy::print_stdout, reason = "what is done is said while it is done")]

// What clients saw, and whether it may be.
pub mod checker;
pub mod history;
mod value;

// Where it happens.
mod command;
pub mod lab;
pub mod machine;
pub mod net;
pub mod stop;

// Who is tortured.
pub mod cluster;
pub mod node;
pub mod system;

// Who watches it.
pub mod load;
pub mod member;

// What is done to it.
pub mod fault;
pub mod plan;
pub mod scenario;

// What comes of it.
pub mod gaps;
pub mod report;
pub mod watch;
pub mod world;
