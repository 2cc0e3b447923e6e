//! The benchmarks, by name: what is done, against what, and what came of it.
//!
//! ```text
//!   preset ── by name ─┐
//!   workload ── YAML ──┴─▶ experiment: its points, one for each value of its lists
//!   driver ── YAML ──▶ system: brokers started on fresh data, or a cluster that is there
//!
//!   ceiling once: what the machine can do at all
//!   suite   for each point, run by run, each driver in its turn ─▶ load: senders and readers, all checked
//!             │                                                     when records are due · what they say
//!             ▼                                                     what each was marked with · what is missing
//!   report  figures of each run, medians, verdicts ─▶ JSON, Markdown, a table
//!   files   a page with charts, rows for spreadsheets, results as the OpenMessaging Benchmark has them
//!   compare one report beside another
//! ```
//!
//! What decides is apart from what does: `schedule`, `keys`, `payload`, `mark`, `verify`, `meter`, `statistics`,
//! `report`, `compare`, `plot` and `page` have neither clock nor connection. `load`, `system` and `ceiling` have
//! both.
//!
//! **Invariant:** a figure is told only of records that were read back and are what was sent, or with what was
//! wrong with them; latencies count from when a record was due; histograms are added and never averaged; what
//! was measured smaller than it was published says so.

pub mod preset; // start here
pub mod workload;

pub mod ballast; // memory as on a machine that has run for a while
pub mod driver;
pub mod system;

// What is sent, and when.
pub mod chance;
pub mod keys;
pub mod payload;
pub mod schedule;
pub mod template;

// Whether it arrived.
pub mod mark;
pub mod verify;

// How long it took.
pub mod histogram;
pub mod hlog;
pub mod meter;
pub mod watch; // while it is sent

// What it took, what was promised, and what could be done at all.
pub mod ceiling;
pub mod metrics;
pub mod resources;
pub mod stamp;

pub mod export; // as numbers for Prometheus
pub mod fleet; // from several machines
pub mod load;
pub mod search; // for the highest rate
pub mod suite; // from the first run to the last
pub mod tries; // until it is no faster

// What came of it.
pub mod compare;
pub mod machine;
pub mod report;
pub mod statistics;

// How it is told.
pub mod files;
pub mod openmessaging;
pub mod page;
pub mod plot;
pub mod rows;

mod name;
mod yaml;

#[cfg(test)]
mod simulated; // a whole load on a stepped clock
