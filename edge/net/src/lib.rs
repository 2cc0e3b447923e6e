//! Listeners, frames in, answers out.
