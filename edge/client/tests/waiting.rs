//! Who waits for a producer, and for how long it is remembered.

use std::future::Future;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use vltava_client::producer::{Producer, Record};

struct Idle;

impl Wake for Idle {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn who_gives_up_is_forgotten() {
    // It never answers, so the topic stays unknown.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = silent.local_addr().expect("it has an address").to_string();
    let producer = Producer::new(&address).expect("its settings are right");
    let idle = Arc::new(Idle);
    let waker = Waker::from(idle.clone());
    for _ in 0..3 {
        let mut sent = pin!(producer.send(Record::to("orders").value("one")));
        assert!(sent.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    drop(waker);
    assert_eq!(Arc::strong_count(&idle), 1, "nobody would wake it any more");
}
