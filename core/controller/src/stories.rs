//! Stories of clusters: brokers come, die, stop and return; the controller is stepped as a node steps it.

mod brokers;
mod history;
mod moves;
mod stage;
mod terms;
