//! Who waits in vain for a cluster is told why.

use std::io::{ErrorKind, Read};
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

/// What was not sent yet is not sent any more: what it asks is asked elsewhere, and would be done again, late.
#[test]
fn a_connection_that_is_given_up_is_broken_off() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address").to_string();
    let silent = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().expect("it is asked");
        connection.read_to_end(&mut Vec::new()).expect_err("it is not closed in order").kind()
    });
    let builder = Producer::builder(&address).block_max(Duration::from_secs(2));
    let builder = builder.set("request.timeout.ms", "200").expect("there is such a setting");
    let producer = builder.build().expect("its settings are right");
    producer.send_blocking(&Record::to("orders").value("one")).expect_err("nobody answers");
    assert_eq!(silent.join().expect("it does not panic"), ErrorKind::ConnectionReset);
}
