//! Clusters of real processes, tortured: a network namespace and a disk for each broker, faults under load,
//! and a checker of what clients saw.
//!
//! ```text
//!   plan, from a seed ──▶ faults ──▶ b1 b2 b3 …      each in a namespace, on a disk of its own
//!                                     ▲ ▲ ▲
//!   producers, readers ── c1 ─────────┴─┴─┘
//!        └── history ──▶ checker ──▶ report
//! ```

// What clients saw, and whether it may be.
pub mod checker;
pub mod history;
mod value;
