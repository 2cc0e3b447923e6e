//! Composition root: settings, threads, wiring. Start with [`run`].
//!
//! ```text
//!   io-0 … io-n     connections: frames in, steps of partitions, answers out
//!   control         the one who decides, commits and makes logs
//!   in-sync         who falls behind, and what the controller says to it, of each log directory
//!   flush-…         group commits of each log directory
//!   flush-timer     flushes by time and a look at what is free, of each log directory
//!   housekeeping    checkpoints, retention, removal, of each log directory
//!   compaction      of what is due in each log directory
//!   edge            accepting, HTTP, signals
//! ```
//!
//! **Invariant:** decides nothing that the core could: it reads clocks, holds locks, and carries
//! effects to where they are done.

mod census; // what is shown of the cluster
mod checks; // of records that may be damaged
mod clock;
mod cluster; // the other nodes
mod cluster_service;
mod compaction;
mod complaints;
mod config;
mod connection;
mod control;
mod coordinators;
mod directories;
mod elections;
mod error;
mod files;
mod followers;
mod hosting;
mod hosting_thread;
mod housekeeping;
mod in_sync;
mod log_dir;
mod memory;
mod node;
mod partition;
mod random;
mod recovery;
mod requests;
mod start; // start here
mod stop;
mod suspects;
mod table;
#[cfg(test)]
mod tests;
mod threads;
mod throttles;
mod waits;
mod watch;

use std::path::PathBuf;

pub use config::ConfigError;
pub use error::ServerError;
pub use start::run;

/// What the command line says about a node.
#[derive(Debug, Clone, Default)]
pub struct ServerArgs {
    /// The settings file, if one is named.
    pub config: Option<PathBuf>,
    /// Settings given one by one; they win over the file.
    pub set: Vec<(String, String)>,
    /// The log directories; empty means the setting's.
    pub data_dirs: Vec<PathBuf>,
    /// Where Kafka clients connect.
    pub listen: Option<String>,
    /// Where health and metrics are served.
    pub http_listen: Option<String>,
}
