//! One partition's log and its directory.

pub mod disk;
