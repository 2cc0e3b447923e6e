//! Who waits in vain for a cluster is told why.

use std::net::TcpListener;
use std::time::Duration;

use vltava_client::consumer::{Consumer, Start};
use vltava_client::producer::{Producer, Record};

/// An address where nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has an address").to_string()
}

#[test]
fn a_producer_says_what_is_in_the_way() {
    let address = nobody();
    let builder = Producer::builder(&address).block_max(Duration::from_millis(300));
    let producer = builder.build().expect("its settings are right");
    let error = producer.send_blocking(&Record::to("orders").value("one")).expect_err("nobody is there");
    assert!(error.to_string().contains(&format!("cannot connect to {address}")), "{error}");
}

#[test]
fn a_consumer_says_what_is_in_the_way() {
    let address = nobody();
    let mut consumer = Consumer::builder(&address).build().expect("its settings are right");
    assert_eq!(consumer.trouble(), None, "it did not try yet");
    consumer.assign([("orders", 0, Start::Earliest)]);
    let batch = consumer.next_batch_within(Duration::from_millis(300)).expect("no partition failed");
    assert!(batch.is_none());
    let trouble = consumer.trouble().unwrap_or_default();
    assert!(trouble.contains(&format!("cannot connect to {address}")), "{trouble}");
}
