//! Members of a group, against a coordinator that behaves as Kafka's does.

mod coordinator; // what the brokers keep and decide
mod coordinator_classic;
mod coordinator_epochs;
mod serving; // as the brokers answer it
mod world; // members, brokers, and what is on its way between them

mod leaving; // in good order, whatever goes on
mod offsets; // committed, and begun from
mod one_owner; // the property
mod rebalances; // what members are told, with either protocol
mod silent;
mod trouble; // what brokers and owners do wrong
