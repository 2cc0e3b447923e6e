//! Health and metrics over HTTP, for those who watch and not for those who use.
//!
//! It runs on the background runtime, so that a scrape never meets a produce request, and believes
//! its clients as little as the Kafka port does.
//!
//! **Invariant:** nothing here changes the broker.

mod pages;
mod seats;
mod server; // start here

pub use pages::{HttpState, Readiness};
pub use server::{BindError, bind, serve};
