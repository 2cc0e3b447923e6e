//! Stories of groups, told on a shard whose log commits when the story says so.
//!
//! Tests named `g27` and so on, here and of groups of the new protocol, are what trips those who write a Kafka broker
//! anew: the name says the rule, and tests with one number, here and in `core/broker/tests/api`, belong together.

mod stage;

mod commits; // how far it came
mod consumers; // with the new protocol
mod kept; // and how long that is remembered
mod links; // over which connections
mod lives; // members come, stay and go
mod many; // all at once
mod mixed; // both protocols in one group, whatever happens
mod moved; // from one coordinator to the next
mod random; // whatever happens
mod refused; // who is sent away
mod returning; // static members, and what they leave without a reader
mod shown; // to people
mod turned; // from one protocol to the other
