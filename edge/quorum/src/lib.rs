//! Commits metadata records.
