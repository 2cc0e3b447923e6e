//! Deterministic simulation: the log of `core/storage` and its log directory, under time, chance and
//! disks that a seed owns.
//!
//! ```text
//!   seed ─▶ options, workload, disk (a stream of chance each) ─▶ one run ─▶ invariants at each step
//! ```
//!
//! A run that fails prints its seed; the same seed is the same run, to the last event.

pub mod run; // start here
pub mod world;

pub mod clock; // what a run is made of
pub mod disk;
pub mod keeper;
pub mod model;
pub mod options;
pub mod random;
pub mod trace;

pub mod found;
pub mod restart; // what happens in it
mod workload;

pub mod invariants; // what must be true of it
pub mod plant;
pub mod violation;

pub mod client; // another world: a producer and its brokers
pub mod cluster; // and a third: whole clusters

#[cfg(test)]
mod stories;
