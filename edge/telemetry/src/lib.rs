//! Log lines and metrics.
//!
//! Counting is one relaxed atomic addition; names, labels and text are made only when somebody looks.
//!
//! **Invariant:** nothing here decides anything, and nothing a client sends becomes a label without a
//! bound on how many there may be.

mod logging; // log lines

mod clients;
mod exposition;
mod groups;
mod meters;
mod metrics; // start here for numbers
mod process;
mod requests;

pub use clients::Clients;
pub use exposition::{Page, TextFormat};
pub use groups::{GroupCensus, GroupLag, GroupMetrics};
pub use logging::{LoggingError, init_logging};
pub use meters::{Counter, Gauge, Histogram};
pub use metrics::{
    Build, CompactionMetrics, FetchMetrics, LogMetrics, Metrics, NetworkMetrics, ProduceMetrics,
    ReplicationMetrics, StateMetrics, WatchKind,
};
pub use requests::{ApiMetrics, RequestMetrics};
