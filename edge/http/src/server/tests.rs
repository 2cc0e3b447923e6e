use std::sync::{Arc, Mutex};

use telemetry::{Build, Metrics};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::*;
use crate::pages::Readiness;

fn state(ready: Readiness) -> HttpState {
    HttpState {
        ready: Arc::new(move || ready.clone()),
        metrics: Arc::new(|format| Metrics::new(Build { version: "1.2.3" }, &[]).render(format)),
    }
}

/// A connection that is served, and the switch that stops it.
fn open(state: HttpState) -> (DuplexStream, watch::Sender<bool>) {
    let (client, server) = duplex(1 << 20);
    let (stopping, stopped) = watch::channel(false);
    tokio::spawn(connection(TokioIo::new(server), router(state), CONNECTION_TIME_MAX, stopped));
    (client, stopping)
}

/// Sends all that is asked and reads until the server closes.
async fn exchange(state: HttpState, request: &str) -> String {
    let (mut client, _stopping) = open(state);
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn get(state: HttpState, path: &str, headers: &str) -> (String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
    let answer = exchange(state, &request).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_live_process_says_so() {
    let (head, body) = get(state(Readiness::NotReady(vec![])), "/health/live", "").await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    assert_eq!(body, r#"{"status":"live"}"#);
}

#[tokio::test(start_paused = true)]
async fn readiness_has_reasons() {
    let (head, body) = get(state(Readiness::Ready), "/health/ready", "").await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert_eq!(body, r#"{"status":"ready"}"#);
    let ready_but = Readiness::ReadyBut(vec!["3 partitions are offline".to_owned()]);
    let (head, body) = get(state(ready_but), "/health/ready", "").await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert_eq!(body, r#"{"status":"ready","warnings":["3 partitions are offline"]}"#);
    let not_ready = Readiness::NotReady(vec!["recovering 3 of 10 partitions".to_owned()]);
    let (head, body) = get(state(not_ready), "/health/ready", "").await;
    assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{head}");
    assert_eq!(body, r#"{"status":"not ready","reasons":["recovering 3 of 10 partitions"]}"#);
}

#[tokio::test(start_paused = true)]
async fn metrics_come_in_the_format_that_was_asked_for() {
    let (head, body) = get(state(Readiness::Ready), "/metrics", "").await;
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    assert!(body.contains("\nvltava_produce_bytes_total 0\n"), "{body}");
    let accept = "accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;q=0.3\r\n";
    let (head, body) = get(state(Readiness::Ready), "/metrics", accept).await;
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(body.ends_with("# EOF\n"));
}

#[tokio::test(start_paused = true)]
async fn the_front_page_names_the_others() {
    let (head, body) = get(state(Readiness::Ready), "/", "").await;
    assert!(head.contains("content-type: text/html"), "{head}");
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    for path in ["/health/live", "/health/ready", "/metrics"] {
        assert!(body.contains(path));
        assert!(get(state(Readiness::Ready), path, "").await.0.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_refused_in_json() {
    let (head, body) = get(state(Readiness::Ready), "/%22x?y", "").await;
    assert!(head.starts_with("HTTP/1.1 404 Not Found\r\n"), "{head}");
    assert_eq!(body, r#"{"error":"there is no /%22x; / lists what there is"}"#);
    let request = "POST /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let answer = exchange(state(Readiness::Ready), request).await;
    assert!(answer.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"), "{answer}");
    assert!(answer.ends_with(r#"{"error":"this can only be read: use GET"}"#), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn long_bodies_and_heads_are_refused() {
    let request = "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 65537\r\n\r\n";
    let answer = exchange(state(Readiness::Ready), request).await;
    assert!(answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n"), "{answer}");
    let request = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(HEAD_BYTES_MAX));
    let answer = exchange(state(Readiness::Ready), &request).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_head_is_cut() {
    for sent in ["", "GET / HT", "GET / HTTP/1.1\r\nhost: x\r\n"] {
        let (mut client, _stopping) = open(state(Readiness::Ready));
        let began = Instant::now();
        client.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        let took = began.elapsed();
        assert!(took >= HEAD_TIME_MAX && took < HEAD_TIME_MAX + Duration::from_secs(1), "{sent:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_asks_nothing_more_is_closed() {
    let (mut client, _stopping) = open(state(Readiness::Ready));
    client.write_all(b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let began = Instant::now();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with(r#"{"status":"live"}"#));
    assert!(began.elapsed() < CONNECTION_TIME_MAX, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_cut() {
    let (client, server) = duplex(100);
    let (_stopping, stopped) = watch::channel(false);
    let router = router(state(Readiness::Ready));
    let served = tokio::spawn(connection(TokioIo::new(server), router, CONNECTION_TIME_MAX, stopped));
    let mut client = client;
    client.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let began = Instant::now();
    served.await.unwrap();
    assert!(
        began.elapsed() <= CONNECTION_TIME_MAX + DRAIN_MAX + Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
}

/// One address holds all the seats that it can have: it is told no more than its health, and others are
/// told all.
#[tokio::test]
async fn health_is_answered_when_all_seats_are_taken() {
    let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(serve(listener, state(Readiness::Ready), async { _ = stopped.await }));
    let ask = async |from: u8, path: &str| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, from], 0).into()).unwrap();
        let mut client = socket.connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut head = vec![0; 12];
        client.read_exact(&mut head).await.unwrap();
        (client, String::from_utf8(head).unwrap())
    };
    let mut held = Vec::new();
    for _ in 0..32 {
        held.push(ask(2, "/").await);
    }
    assert!(held.iter().all(|(_, head)| head == "HTTP/1.1 200"));
    held.push(ask(2, "/metrics").await);
    held.push(ask(2, "/health/live").await);
    assert_eq!(held[32].1, "HTTP/1.1 503");
    assert_eq!(held[33].1, "HTTP/1.1 200");
    assert_eq!(ask(3, "/metrics").await.1, "HTTP/1.1 200");
    stop.send(()).unwrap();
    drop(held);
    served.await.unwrap();
}

/// The real thing: sockets, and a stop while one connection idles.
#[tokio::test]
async fn serving_ends_when_it_is_told_to() {
    let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    assert!(bind(address).await.unwrap_err().to_string().contains("cannot listen for HTTP on 127.0.0.1:"));
    let asked = Arc::new(Mutex::new(0));
    let state = HttpState {
        ready: Arc::new({
            let asked = asked.clone();
            move || {
                *asked.lock().unwrap() += 1;
                Readiness::Ready
            }
        }),
        ..state(Readiness::Ready)
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(serve(listener, state, async { _ = stopped.await }));
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET /health/ready HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = vec![0; 15];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 200 OK");
    assert_eq!(*asked.lock().unwrap(), 1);
    stop.send(()).unwrap();
    served.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
