//! Who decides what the cluster is.
