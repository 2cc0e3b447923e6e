//! Stories of the machines with a broker whose every answer the story gives.

mod silent;
mod stage;

mod failed; // for good
mod lingering; // until a batch leaves
mod memory; // what a broker forgot
mod moved; // to another leader
mod partitions; // that come, and go
mod room; // within buffer.memory
mod throttled; // by the broker
mod too_large; // for the topic
mod topics; // that nobody knows, or writes to any more
mod trouble; // as it is told
