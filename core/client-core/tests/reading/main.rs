//! Stories of a consumer with brokers that stop talking.

mod silent;
mod stage;
