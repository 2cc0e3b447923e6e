//! Coordinators and workers on loopback, without a cluster: who may come, and how it ends.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::message::{Answer, FORM, Order};
use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

/// A worker, and what it tells.
fn worker(token: &str) -> (String, mpsc::Receiver<String>) {
    let token =
        if token.is_empty() { Token::default() } else { Token::new(token).expect("it is long enough") };
    let listening = Worker::new(token, None).listen("127.0.0.1:0").expect("there are ports");
    let address = listening.address().expect("it has one").to_string();
    let (say, said) = mpsc::channel();
    thread::spawn(move || listening.serve(move |words: &str| drop(say.send(words.to_owned()))));
    (address, said)
}

fn waits_for(said: &mpsc::Receiver<String>, words: &str) {
    while !said.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("it never said {words:?}")).contains(words) {
    }
}

fn refusal(address: &str, token: &Token) -> String {
    match Fleet::connect(&[address.to_owned()], token) {
        Ok(_) => "it was taken".to_owned(),
        Err(error) => format!("{error:#}"),
    }
}

#[test]
fn a_worker_has_one_coordinator_who_knows_the_token() {
    let token = "a token nobody guesses";
    let (address, said) = worker(token);
    let right = Token::new(token).expect("it is long enough");
    let other = Token::new("another long enough").expect("it is long enough");
    for wrong in [&Token::default(), &other] {
        assert_eq!(refusal(&address, wrong), format!("worker {address}: it refuses: wrong token"));
    }
    let first = Fleet::connect(std::slice::from_ref(&address), &right).expect("it knows the token");
    let second = refusal(&address, &right);
    assert!(second.contains("it refuses: it works for 127.0.0.1:"), "{second}");
    drop(first);
    waits_for(&said, "it is done");
    assert!(Fleet::connect(&[address], &right).is_ok(), "it is ready for the next");
}

#[test]
fn strangers_are_turned_away_and_cost_little() {
    let (address, said) = worker("");
    let mut stranger = TcpStream::connect(&address).expect("it listens");
    // As long as it likes, and more than that is not read.
    std::io::Write::write_all(&mut stranger, &[0xff; 64]).expect("it is there");
    waits_for(&said, "is too long: 8192 at most");
    let mut older = TcpStream::connect(&address).expect("it listens");
    let hello = Order::Hello { form: FORM, version: "0.0.1".to_owned(), token: None };
    frame::write(&mut older, &hello).expect("it listens");
    let answer = frame::read::<Answer>(&mut older, frame::HELLO_BYTES_MAX).expect("it answers");
    assert!(
        matches!(&answer, Some(Answer::Refused { why }) if why.starts_with("it is version 0.0.1")),
        "{answer:?}"
    );
}

#[test]
fn other_machines_need_a_token() {
    let open = Worker::new(Token::default(), None).listen("0.0.0.0:0").map(|_| ()).expect_err("it has none");
    assert!(open.to_string().contains("needs a token"), "{open}");
    let token = Token::new("a token nobody guesses").expect("it is long enough");
    assert!(Worker::new(token, None).listen("0.0.0.0:0").is_ok());
    assert!(Token::new(" short ").is_err() && Token::open(Path::new("/no/such/file")).is_err());
    assert_eq!(format!("{:?}", Token::new("a token nobody guesses").expect("it is long")), "Token(…)");
}

/// A worker that works nothing, and has a clock that is so much ahead. What is said for it, and when it is to begin.
fn pretender(ahead: Duration) -> (String, mpsc::Receiver<TcpStream>, mpsc::Receiver<Instant>) {
    let listening = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let address = listening.local_addr().expect("it has one").to_string();
    let ((hand, mouth), (tell, told)) = (mpsc::channel(), mpsc::channel());
    thread::spawn(move || {
        let (mut stream, _) = listening.accept().expect("somebody comes");
        hand.send(stream.try_clone().expect("it is one")).expect("it is waited for");
        let since = Instant::now();
        while let Ok(Some(order)) = frame::read::<Order>(&mut stream, frame::MESSAGE_BYTES_MAX) {
            let answer = match order {
                Order::Hello { version, .. } => Answer::Welcome { version, machine: Value::Null },
                Order::Ping { number } => Answer::Pong { number, at: since.elapsed() + ahead },
                Order::Start { at, .. } => {
                    tell.send(since + (at - ahead)).expect("it is waited for");
                    continue;
                }
                _ => continue,
            };
            frame::write(&mut stream, &answer).expect("it is listened to");
        }
    });
    (address, mouth, told)
}

#[test]
fn all_begin_at_one_moment_once_the_last_is_ready() {
    let ((one, its_mouth, first), (other, others_mouth, second)) =
        (pretender(Duration::ZERO), pretender(Duration::from_secs(3600)));
    let fleet = Fleet::connect(&[one, other], &Token::default()).expect("they listen");
    let offsets = fleet.offsets().expect("they say what their clocks say");
    let is_last_ready = Arc::new(AtomicBool::new(false));
    let (mut one, mut other) =
        (its_mouth.recv().expect("it is there"), others_mouth.recv().expect("so is it"));
    let readied = is_last_ready.clone();
    let saying = thread::spawn(move || {
        frame::write(&mut one, &Answer::Ready).expect("it is listened to");
        readied.store(true, Ordering::SeqCst);
        frame::write(&mut other, &Answer::Ready).expect("it is listened to");
    });
    fleet.await_all_ready().expect("they say so");
    assert!(is_last_ready.load(Ordering::SeqCst), "one of them is not ready");
    saying.join().expect("it said all");
    fleet.start_all(&offsets).expect("they listen");
    let begins = [first, second].map(|told| told.recv_timeout(PATIENCE).expect("it is told"));
    let apart = begins[0].max(begins[1]) - begins[0].min(begins[1]);
    let known_to: u64 = offsets.iter().map(|offset| offset.error_ns).sum();
    assert!(
        apart <= Duration::from_nanos(known_to),
        "{apart:?} apart, and clocks are known to {known_to} ns"
    );
}
