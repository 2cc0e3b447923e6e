//! What `vltava` says when it is told nothing.

/// Short enough to be read, long enough to begin.
pub(crate) const TEXT: &str = "\
Vltava is a distributed log that speaks the Kafka protocol: what works with Kafka works with it.

Start a node. It needs no settings; data goes to ./vltava-data:

  vltava server

Or a cluster of three on this machine, thrown away at the end:

  vltava dev

Make a topic, look at it:

  vltava topic create orders --partitions 6
  vltava topic describe orders

Write and read; so can any Kafka client:

  echo hello | vltava produce orders
  vltava consume orders -e

Look further:

  vltava cluster status            the nodes of a cluster, and how they are
  vltava config                    every setting, with its default, its range and its reason
  vltava log dump FILE             what is in a log or index file, ours or Kafka's
  vltava completions bash          completions for your shell
  vltava help COMMAND              the arguments of a command, with examples

A running node answers on http://127.0.0.1:9644 too: /health/ready, /metrics.
";
