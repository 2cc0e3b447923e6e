//! A node and real sockets.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use base::TimestampMs;
use broker::call::{Context, Outcome, Parked, Peer, ReplyTo, Session};
use broker::host::HostedPartition;
use metadata::settings::BrokerSettings;
use net::{Admission, Listener, ListenerLimits, StopSwitch};
use records::{BatchBuilder, BatchOptions, Scratch};
use wire::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use wire::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use wire::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic};
use wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use wire::messages::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use wire::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::{ApiKey, Message, Records, Request, decode_response_header, encode_request};

use super::queue::{Queued, Waiting};
use super::{Connection, serve};
use crate::node::Node;
use crate::stop::Started;

const PATIENCE: Duration = Duration::from_secs(20);
const TOPIC: &str = "quiet";

/// A node that serves, until it is dropped.
struct Served {
    node: Arc<Node>,
    address: std::net::SocketAddr,
    admission: Admission,
    switch: StopSwitch,
    started: Option<Started>,
    runtime: Option<tokio::runtime::Runtime>,
    _dir: tempfile::TempDir,
}

impl Served {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let set = |name: &str, value: String| (name.to_owned(), value);
        let settings = BrokerSettings::parse(vec![
            set("log.dirs", dir.path().display().to_string()),
            set("listeners", "PLAINTEXT://127.0.0.1:0".to_owned()),
        ]);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = {
            let _inside = runtime.enter();
            Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), ListenerLimits::default()).unwrap()
        };
        let (address, admission) = (listener.address(), listener.admission().clone());
        let started = crate::start::start(settings.unwrap(), &listener, &runtime).unwrap();
        let (node, switch) = (Arc::clone(&started.node), StopSwitch::new());
        let stop = switch.watch();
        let served = Arc::clone(&node);
        drop(runtime.spawn(listener.serve(Arc::clone(&started.io), switch.watch(), move |connection| {
            serve(Arc::clone(&served), connection, Peer::Client, stop.clone())
        })));
        Self { node, address, admission, switch, started: Some(started), runtime: Some(runtime), _dir: dir }
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client
    }

    /// Waits for what a thread of the node does.
    fn until(&self, what: &str, mut done: impl FnMut(&Node) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !done(&self.node) {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::yield_now();
        }
    }

    fn requests(&self, key: ApiKey) -> u64 {
        self.node.metrics.requests.api(key.code()).requests.get()
    }

    /// Appends a record, durably.
    fn append(&self) {
        let mut client = self.connect();
        client.write_all(&produce(1)).unwrap();
        assert_eq!(correlation_id(&mut client), 1);
    }

    fn create_topic(&self) {
        let mut client = self.connect();
        client.write_all(&create_topic(1)).unwrap();
        assert_eq!(correlation_id(&mut client), 1);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.switch.stop();
        self.runtime.take().unwrap().shutdown_timeout(Duration::from_secs(5));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(crate::stop::in_order(self.started.take().unwrap())).unwrap();
    }
}

fn framed<'a, R: Request<'a>>(correlation_id: i32, version: i16, request: &R) -> Vec<u8> {
    encode_request(correlation_id, Some("test"), version, request).unwrap().bytes
}

fn versions(id: i32) -> Vec<u8> {
    let request = ApiVersionsRequest {
        client_software_name: "tester",
        client_software_version: "1.0",
        ..Default::default()
    };
    framed(id, 3, &request)
}

fn create_topic(id: i32) -> Vec<u8> {
    let topic =
        CreatableTopic { name: TOPIC, num_partitions: 1, replication_factor: 1, ..Default::default() };
    framed(id, 5, &CreateTopicsRequest { topics: vec![topic], timeout_ms: 30_000, ..Default::default() })
}

/// A fetch at the end of the log, where nothing comes.
fn fetch(id: i32, max_wait_ms: i32) -> Vec<u8> {
    fetch_from(id, 0, max_wait_ms)
}

fn fetch_from(id: i32, fetch_offset: i64, max_wait_ms: i32) -> Vec<u8> {
    let part =
        FetchPartition { partition: 0, fetch_offset, partition_max_bytes: 1 << 20, ..Default::default() };
    let topic = FetchTopic { topic: TOPIC, partitions: vec![part], ..Default::default() };
    let request = FetchRequest {
        max_wait_ms,
        min_bytes: 1,
        max_bytes: 1 << 20,
        topics: vec![topic],
        ..Default::default()
    };
    framed(id, 11, &request)
}

/// Appends a record, and is answered once it is durable.
fn produce(id: i32) -> Vec<u8> {
    let mut builder = BatchBuilder::new(1 << 20);
    builder.try_append(TimestampMs(1), None, Some(b"value"), &[]).unwrap();
    let mut raw = Vec::new();
    builder.finish(&BatchOptions::default(), &mut Scratch::default(), &mut raw).unwrap();
    let part = PartitionProduceData { index: 0, records: Some(Records::Bytes(&raw)) };
    let topic = TopicProduceData { name: TOPIC, partition_data: vec![part], ..Default::default() };
    let request =
        ProduceRequest { acks: -1, timeout_ms: 30_000, topic_data: vec![topic], ..Default::default() };
    framed(id, 9, &request)
}

/// Deletes all that is committed before `offset`; -1 for everything.
fn delete_records(id: i32, offset: i64) -> Vec<u8> {
    let part = DeleteRecordsPartition { partition_index: 0, offset };
    let topics = vec![DeleteRecordsTopic { name: TOPIC, partitions: vec![part] }];
    framed(id, 2, &DeleteRecordsRequest { topics, timeout_ms: i32::MAX })
}

fn metadata<S: AsRef<str>>(id: i32, names: &[S]) -> Vec<u8> {
    let topic = |name| MetadataRequestTopic { name: Some(name), ..Default::default() };
    let topics = Some(names.iter().map(AsRef::as_ref).map(topic).collect());
    framed(id, 9, &MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() })
}

/// Long names of topics that are not there.
fn names(count: u32) -> Vec<String> {
    (0..count).map(|number| format!("{number:n>200}")).collect()
}

/// The next answer without its length; `None` at the end of the connection.
fn answer(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0];
    if client.read(&mut length).unwrap() == 0 {
        return None;
    }
    let mut rest = [0; 3];
    client.read_exact(&mut rest).unwrap();
    let mut answer = vec![0; u32::from_be_bytes([length[0], rest[0], rest[1], rest[2]]) as usize];
    client.read_exact(&mut answer).unwrap();
    Some(answer)
}

fn correlation_id(client: &mut TcpStream) -> i32 {
    let answer = answer(client).expect("an answer");
    i32::from_be_bytes(*answer.first_chunk().unwrap())
}

#[test]
fn what_came_before_a_bad_frame_is_answered() {
    let served = Served::start();
    served.create_topic();
    for bad in [&(-1i32).to_be_bytes()[..], b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x04\x7f\x7f\0\0", b"\0\0\0\0"]
    {
        let mut client = served.connect();
        client.write_all(&[&versions(1), &fetch(2, 50), &versions(3), bad, &[0; 300_000]].concat()).unwrap();
        assert_eq!([1, 2, 3].map(|_| correlation_id(&mut client)), [1, 2, 3]);
        assert!(answer(&mut client).is_none());
    }
    assert!(served.node.metrics.network.connections_cut.get() >= 3);
}

#[test]
fn who_ends_its_side_still_gets_its_answers() {
    let served = Served::start();
    served.create_topic();
    let mut client = served.connect();
    client.write_all(&[fetch(1, 200), versions(2)].concat()).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!([1, 2].map(|_| correlation_id(&mut client)), [1, 2]);
    assert!(answer(&mut client).is_none());
}

#[test]
fn a_request_sees_what_the_one_before_it_did() {
    let served = Served::start();
    let mut client = served.connect();
    client.write_all(&[create_topic(1), metadata(2, &[TOPIC]), versions(3)].concat()).unwrap();
    assert_eq!(correlation_id(&mut client), 1);
    let told = answer(&mut client).unwrap();
    let (_, mut body) = decode_response_header(&told, ApiKey::Metadata, 9).unwrap();
    let told = MetadataResponse::decode(&mut body, 9).unwrap();
    assert_eq!((told.topics[0].error_code, told.topics[0].partitions.len()), (0, 1));
    assert_eq!(correlation_id(&mut client), 3);
}

/// A fetch that waits for ever, and behind it requests with large answers: only so many are made.
#[test]
fn what_waits_behind_a_fetch_is_bounded_and_charged() {
    let served = Served::start();
    served.create_topic();
    let large = metadata(2, &names(1_000));
    let mut client = served.connect();
    client.write_all(&fetch(1, i32::MAX)).unwrap();
    let writer = {
        let mut client = client.try_clone().unwrap();
        // More than is ever read: the write fails when the connection is cut.
        std::thread::spawn(move || drop((0..63).try_for_each(|_| client.write_all(&large))))
    };
    served.until("a megabyte waits", |node| node.answer_memory.used() > 900 << 10);
    served.until("its requests give their memory back", |node| node.request_memory.used() < 400 << 10);
    assert!(served.requests(ApiKey::Metadata) < 10, "{}", served.requests(ApiKey::Metadata));
    assert!(served.node.answer_memory.used() < 2 << 20);
    socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    client.shutdown(Shutdown::Both).unwrap();
    drop(client);
    writer.join().unwrap();
    served.until("the connection is given up", |_| served.admission.open() == 0);
    assert_eq!((served.node.answer_memory.used(), served.node.request_memory.used()), (0, 0));
    assert_eq!(served.node.metrics.state.parked_fetch.get(), 0);
}

/// Nobody reads from a connection whose queue is full; that its peer is gone is seen all the same.
#[test]
fn a_peer_that_is_gone_is_noticed_behind_a_full_queue() {
    let served = Served::start();
    served.create_topic();
    let mut client = served.connect();
    let many: Vec<u8> = (2..200).flat_map(versions).collect();
    client.write_all(&[fetch(1, i32::MAX), many].concat()).unwrap();
    served.until("the queue is full", |_| served.requests(ApiKey::ApiVersions) == 63);
    assert_eq!(served.node.metrics.state.parked_fetch.get(), 1);
    socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    served.until("the connection is given up", |_| served.admission.open() == 0);
    assert_eq!(served.node.metrics.state.parked_fetch.get(), 0);
}

/// A request that counts how often it is looked at.
#[derive(Clone, Default)]
struct Looked {
    times: Arc<AtomicU32>,
    settled: Arc<AtomicBool>,
    deadline: Duration,
}

impl Parked for Looked {
    fn key(&self) -> ApiKey {
        ApiKey::Produce
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }

    fn bytes(&self) -> usize {
        0
    }

    fn look(self: Box<Self>, context: Context<'_>, _: &mut Session) -> Outcome {
        self.times.fetch_add(1, Ordering::Relaxed);
        if !self.settled.load(Ordering::Relaxed) && context.now.elapsed < self.deadline {
            return Outcome::Parked(self);
        }
        let reply = ReplyTo { key: ApiKey::ApiVersions, version: 0, correlation_id: 1 };
        reply.answer(&ApiVersionsResponse::default())
    }

    fn abandon(self: Box<Self>, _: Context<'_>, _: &Session) {}
}

impl Looked {
    fn new(deadline: Duration) -> Self {
        Self { deadline, ..Self::default() }
    }

    fn times(&self) -> u32 {
        self.times.load(Ordering::Relaxed)
    }

    fn queue(&self, connection: &mut Connection) {
        let waiting = Waiting::Parked(Box::new(self.clone()));
        waiting.gauge(&connection.node).unwrap().add(1);
        connection.queue.push_back(Queued { key: None, since: Instant::now(), waiting, bytes: 0 });
    }
}

#[test]
fn a_request_that_waits_is_looked_at_when_it_is_rung_for_and_when_it_is_due() {
    let served = Served::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
        let (_read, write) = stream.into_split();
        let switch = StopSwitch::new();
        let client = (Peer::Client, served.address);
        let mut connection = Connection::new(Arc::clone(&served.node), write, client, switch.watch());
        let [first, second] = [Looked::new(Duration::MAX), Looked::new(Duration::MAX)];
        let late = Looked::new(served.node.clock.now().elapsed);
        let times = || [&first, &second, &late].map(Looked::times);

        first.queue(&mut connection);
        second.queue(&mut connection);
        for _ in 0..3 {
            connection.answer().await.unwrap();
        }
        assert_eq!(times(), [0, 0, 0], "whoever made it has looked at it");
        connection.session.waiter.bell.wake();
        connection.session.waiter.bell.wake();
        for _ in 0..3 {
            connection.answer().await.unwrap();
        }
        assert_eq!(times(), [1, 0, 0]);
        // It is settled only now, and the bell that rang may have rung for the second.
        first.settled.store(true, Ordering::Relaxed);
        connection.session.waiter.bell.wake();
        connection.answer().await.unwrap();
        assert_eq!((times(), connection.queue.len()), ([2, 1, 0], 1));
        late.queue(&mut connection);
        connection.answer().await.unwrap();
        assert_eq!(times(), [2, 1, 0], "it is not its turn");
        second.settled.store(true, Ordering::Relaxed);
        connection.session.waiter.bell.wake();
        connection.answer().await.unwrap();
        assert_eq!((times(), connection.queue.len()), ([2, 2, 1], 0));
        late.queue(&mut connection);
        second.queue(&mut connection);
        connection.answer().await.unwrap();
        // The first is due, though nobody rings; for the second somebody may have, when it was not its turn.
        assert_eq!((times(), connection.queue.len()), ([2, 3, 2], 0));
    });
}

/// Fetches that wait for ever, requests behind them, and appends at any moment: every one is answered.
#[test]
fn no_append_is_missed_by_a_fetch_that_others_follow() {
    let served = Served::start();
    served.create_topic();
    let mut consumer = served.connect();
    let mut producer = served.connect();
    for round in 0..100 {
        let from = i64::from(2 * round);
        // The second fetch finds a record where the first waits, or waits, too.
        let fetches = [fetch_from(1, from, i32::MAX), versions(2), fetch_from(3, from + 1, i32::MAX)];
        consumer.write_all(&[fetches.concat(), versions(4), fetch_from(5, from / 2, 0)].concat()).unwrap();
        producer.write_all(&[produce(1), versions(2), produce(3)].concat()).unwrap();
        assert_eq!([1, 2, 3, 4, 5].map(|_| correlation_id(&mut consumer)), [1, 2, 3, 4, 5]);
        assert_eq!([1, 2, 3].map(|_| correlation_id(&mut producer)), [1, 2, 3]);
    }
}

#[test]
fn what_waits_is_counted_by_its_api() {
    let served = Served::start();
    served.create_topic();
    let cell = served.node.partitions.all().pop().unwrap();
    let state = &served.node.metrics.state;
    let parked = || (state.parked_produce.get(), state.parked_fetch.get(), state.parked_delete_records.get());
    let mut client = served.connect();
    served.append();
    let saved = cell.dir.mark(|_| {
        client.write_all(&delete_records(1, -1)).unwrap();
        served.until("the deletion waits", |_| parked() == (0, 0, 1));
        Ok(())
    });
    assert!(saved.is_some());
    assert_eq!((correlation_id(&mut client), parked()), (1, (0, 0, 0)));
}

#[test]
fn each_append_and_nothing_else_is_timed() {
    let served = Served::start();
    served.create_topic();
    let mut client = served.connect();
    (1..4).for_each(|_| served.append());
    client.write_all(&[fetch(1, 0), delete_records(2, 0)].concat()).unwrap();
    assert_eq!([1, 2].map(|_| correlation_id(&mut client)), [1, 2]);
    let page = served.node.metrics.render(telemetry::TextFormat::Prometheus);
    assert!(page.contains("vltava_log_append_lock_seconds_count 3\n"), "{page}");
}

/// Others wait for memory that a waiting fetch keeps back: it is answered early.
#[test]
fn a_fetch_does_not_keep_memory_that_others_wait_for() {
    let served = Served::start();
    served.create_topic();
    let mut client = served.connect();
    client.write_all(&[fetch(1, i32::MAX), metadata(2, &names(1_000))].concat()).unwrap();
    served.until("an answer waits", |node| node.answer_memory.used() > 100 << 10);
    let mut other = served.node.answer_memory.charge();
    assert!(!other.ask_for(served.node.answer_memory.bytes_max()));
    assert_eq!([1, 2].map(|_| correlation_id(&mut client)), [1, 2]);
    served.until("the memory is free", |_| other.ask_for(served.node.answer_memory.bytes_max()));
}

#[test]
fn what_software_a_client_says_it_is_shows_once_per_connection() {
    let served = Served::start();
    let mut client = served.connect();
    client.write_all(&[versions(1), versions(2)].concat()).unwrap();
    assert_eq!([1, 2].map(|_| correlation_id(&mut client)), [1, 2]);
    let page = served.node.metrics.render(telemetry::TextFormat::Prometheus);
    assert!(page.contains("vltava_clients_connected_total{name=\"tester\",version=\"1.0\"} 1"), "{page}");
}

/// A connection that panics cleans up behind itself: only a step that panics costs a partition.
#[test]
fn a_panic_elsewhere_does_not_cost_a_partition() {
    struct CleansUp(Arc<crate::partition::PartitionCell>);
    impl Drop for CleansUp {
        fn drop(&mut self) {
            self.0.step(&mut |_, _| {});
        }
    }
    let served = Served::start();
    served.create_topic();
    let cell = served.node.partitions.all().pop().unwrap();
    let panics = |act: &mut dyn FnMut()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).is_err();
    assert!(panics(&mut || {
        let _cleans_up = CleansUp(Arc::clone(&cell));
        panic!("on purpose");
    }));
    assert!(!cell.with(|partition| partition.is_failed()));
    assert!(panics(&mut || cell.step(&mut |_, _| panic!("on purpose"))));
    assert!(cell.with(|partition| partition.is_failed()));
}

#[test]
fn strings_that_are_not_utf8_get_their_error() {
    const INVALID_TOPIC: i16 = 17;
    let served = Served::start();
    let mut bytes = metadata(1, &["bad"]);
    for text in [&b"test"[..], b"bad"] {
        let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
        bytes[at..at + text.len()].fill(0xff);
    }
    let mut client = served.connect();
    client.write_all(&bytes).unwrap();
    let told = answer(&mut client).unwrap();
    let (_, mut body) = decode_response_header(&told, ApiKey::Metadata, 9).unwrap();
    assert_eq!(MetadataResponse::decode(&mut body, 9).unwrap().topics[0].error_code, INVALID_TOPIC);
    let page = served.node.metrics.render(telemetry::TextFormat::Prometheus);
    assert!(page.contains("vltava_errors_total{error=\"INVALID_TOPIC_EXCEPTION\"} 1"), "{page}");
}
