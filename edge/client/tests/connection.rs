//! What a connection does when a broker behaves, and when it does not.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use vltava_client::{ClientError, ConnectOptions, Connection};
use wire::messages::api_versions::{ApiVersion, ApiVersionsResponse};
use wire::messages::metadata::{MetadataRequest, MetadataResponse};
use wire::{ApiKey, Message, RequestHeader, decode_request_header, encode_response};

/// A broker of one connection; each step of its script reads a request and may answer it.
struct Broker {
    address: String,
    thread: JoinHandle<()>,
}

type Step = Box<dyn FnOnce(&RequestHeader<'_>) -> Vec<u8> + Send>;

impl Broker {
    fn start(script: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("the client connects");
            for step in script {
                let frame = read_frame(&mut stream);
                let (header, _) = decode_request_header(&frame).expect("the client sends a request");
                stream.write_all(&step(&header)).expect("the client reads");
            }
            // The other end closes first, so that nothing is lost in a reset.
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read(&mut [0; 64]);
        });
        Self { address, thread }
    }

    fn connect(&self) -> Result<Connection, ClientError> {
        Connection::connect(&self.address, options())
    }

    fn end(self) {
        self.thread.join().expect("the broker saw what it expected");
    }
}

fn options() -> ConnectOptions {
    ConnectOptions { timeout: Duration::from_secs(5), ..ConnectOptions::default() }
}

fn read_frame(stream: &mut TcpStream) -> Vec<u8> {
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix).expect("a size comes");
    let mut frame = vec![0; u32::from_be_bytes(prefix) as usize];
    stream.read_exact(&mut frame).expect("a frame comes");
    frame
}

fn answer<'a>(header: &RequestHeader<'_>, version: i16, body: &impl Message<'a>) -> Vec<u8> {
    let key = ApiKey::from_i16(header.api_key).expect("the key is known");
    encode_response(header.correlation_id, key, version, body).expect("the answer can be written").bytes
}

fn versions(error_code: i16, metadata_max: i16) -> ApiVersionsResponse<'static> {
    let api = |key: ApiKey, max_version| ApiVersion { api_key: key.code(), min_version: 0, max_version };
    ApiVersionsResponse {
        error_code,
        api_keys: vec![api(ApiKey::Metadata, metadata_max), api(ApiKey::ApiVersions, 3)],
        ..ApiVersionsResponse::default()
    }
}

/// Answers ApiVersions in the version it was asked in.
fn greet(metadata_max: i16) -> Step {
    Box::new(move |header| answer(header, header.api_version, &versions(0, metadata_max)))
}

/// Answers Metadata with a cluster of this name.
fn name(cluster: &'static str) -> Step {
    Box::new(move |header| {
        let body = MetadataResponse { cluster_id: Some(cluster), ..MetadataResponse::default() };
        answer(header, header.api_version, &body)
    })
}

#[test]
fn the_highest_common_version_is_spoken() {
    let broker = Broker::start(vec![greet(9), name("a")]);
    let mut connection = broker.connect().expect("the broker greets");
    assert_eq!(connection.version(ApiKey::Metadata).ok(), Some(9));
    let answer = connection.ask(&MetadataRequest::default()).expect("the broker answers");
    assert_eq!(answer.raw().version(), 9);
    assert_eq!(answer.read().expect("it can be read").cluster_id, Some("a"));
    assert!(matches!(connection.version(ApiKey::Fetch), Err(ClientError::Unsupported { .. })));
    drop(connection);
    broker.end();
}

#[test]
fn an_older_broker_is_asked_again() {
    let refuse: Step = Box::new(|header| {
        assert!(header.api_version > 3);
        answer(header, 0, &versions(35, 9))
    });
    let greet: Step = Box::new(|header| {
        assert_eq!(header.api_version, 3);
        answer(header, 3, &versions(0, 9))
    });
    let broker = Broker::start(vec![refuse, greet]);
    let connection = broker.connect().expect("the second version is known");
    assert_eq!(connection.version(ApiKey::Metadata).ok(), Some(9));
    drop(connection);
    broker.end();
}

#[test]
fn several_requests_are_in_flight() {
    let broker = Broker::start(vec![greet(9), name("a"), name("b")]);
    let mut connection = broker.connect().expect("the broker greets");
    for _ in 0..2 {
        connection.send(&MetadataRequest::default(), 9).expect("it is sent");
    }
    assert_eq!(connection.in_flight(), 2);
    assert!(matches!(connection.ask(&MetadataRequest::default()), Err(ClientError::InFlight(2))));
    for cluster in ["a", "b"] {
        let answer = connection.receive().expect("the broker answers");
        let body: MetadataResponse<'_> = answer.read().expect("it can be read");
        assert_eq!(body.cluster_id, Some(cluster));
    }
    assert!(matches!(connection.receive(), Err(ClientError::NothingInFlight)));
    drop(connection);
    broker.end();
}

#[test]
fn an_answer_to_another_request_is_an_error() {
    let confused: Step = Box::new(|header| {
        let header = RequestHeader { correlation_id: header.correlation_id + 7, ..*header };
        answer(&header, header.api_version, &MetadataResponse::default())
    });
    let broker = Broker::start(vec![greet(9), confused]);
    let mut connection = broker.connect().expect("the broker greets");
    let error = connection.ask(&MetadataRequest::default()).expect_err("the answer is for another");
    assert!(matches!(error, ClientError::OutOfOrder { expected: 1, found: 8 }), "{error}");
    drop(connection);
    broker.end();
}

#[test]
fn a_size_over_the_limit_is_refused_before_it_is_read() {
    let bomb: Step = Box::new(|_| i32::MAX.to_be_bytes().to_vec());
    let broker = Broker::start(vec![greet(9), bomb]);
    let mut connection = broker.connect().expect("the broker greets");
    let error = connection.ask(&MetadataRequest::default()).expect_err("the size is too large");
    assert!(matches!(error, ClientError::Frame(_)), "{error}");
    drop(connection);
    broker.end();
}

#[test]
fn a_closed_connection_says_what_is_unanswered() {
    let half: Step = Box::new(|_| vec![0, 0, 0, 100, 1, 2, 3]);
    let broker = Broker::start(vec![greet(9), half]);
    let mut connection = broker.connect().expect("the broker greets");
    let error = connection.ask(&MetadataRequest::default()).expect_err("the answer is cut");
    assert!(matches!(error, ClientError::Closed { unanswered: 1, .. }), "{error}");
    assert!(error.is_retriable());
    drop(connection);
    broker.end();
}

#[test]
fn an_answer_that_does_not_come_is_not_waited_for_long() {
    // Nobody takes the connection from the backlog.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("it has one").to_string();
    let mut connection = Connection::connect_silent(&address, options()).expect("it is in the backlog");
    connection.set_timeout(Duration::from_millis(20));
    let error = connection.call(&MetadataRequest::default(), 9).expect_err("nothing comes");
    assert!(matches!(error, ClientError::TimedOut { .. }), "{error}");
    // Its answer may still come, and must not be taken for that of another request.
    for error in [
        connection.send(&MetadataRequest::default(), 9).expect_err("nothing more is asked"),
        connection.receive().expect_err("nothing more is taken"),
    ] {
        assert!(matches!(error, ClientError::GivenUp { .. }), "{error}");
    }
}

#[test]
fn nobody_there_is_said_with_the_address() {
    // The port is reserved for a service that no system runs any more.
    let error = Connection::connect("127.0.0.1:1", options()).expect_err("nobody listens");
    assert!(error.to_string().starts_with("cannot connect to 127.0.0.1:1: "), "{error}");
}
