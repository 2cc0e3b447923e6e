//! Stories of a consumer with brokers that stop talking, or send it elsewhere.

mod nearby;
mod silent;
mod stage;
