//! The metadata log and its quorum, on disks in memory.

mod single; // a node that is alone, as it was
mod suite; // what the consensus library asks of its storage
