//! Log lines and metrics.
