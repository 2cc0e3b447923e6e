//! A request's way through one broker.
