//! Client of a Vltava or Kafka cluster.
