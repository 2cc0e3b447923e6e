//! The admin against brokers that are told what to answer.

use std::collections::BTreeMap;

use base::{BrokerId, ErrorCode, Offset, PartitionIndex, TimestampMs};
use proptest::prelude::*;
use wire::messages::api_versions::{ApiVersion, ApiVersionsResponse};
use wire::messages::create_topics::{CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse};
use wire::messages::delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopicResult,
};
use wire::messages::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use wire::{ApiKey, Message, decode_request_header, encode_response};

use super::*;

mod cluster;
mod groups;
mod silent;

const MINUTE: Duration = Duration::from_secs(60);

/// A cluster of two brokers, at `one:1` and `two:1`, and a bootstrap server at `boot:1`.
struct Brokers {
    admin: Admin,
    elapsed: Duration,
    effects: Effects<Effect>,
    open: BTreeMap<ConnectionId, Address>,
    /// Who leads partitions 0, 1, … of `orders`.
    leaders: Vec<i32>,
    controller: i32,
    /// Requests that were not answered yet: by whom, the API, the frame.
    asked: Vec<(ConnectionId, ApiKey, Vec<u8>)>,
    /// Addresses where nobody answers.
    down: Vec<&'static str>,
    done: Vec<CallId>,
}

impl Brokers {
    fn new() -> Self {
        let boot = Address { host: "boot".into(), port: 1 };
        Self {
            admin: Admin::new(AdminSettings::default(), vec![boot], Chance::new(5)),
            elapsed: Duration::from_secs(1),
            effects: Effects::new(),
            open: BTreeMap::new(),
            leaders: vec![1, 2],
            controller: 2,
            asked: Vec::new(),
            down: Vec::new(),
            done: Vec::new(),
        }
    }

    fn now(&self) -> Now {
        Now::new(self.elapsed, TimestampMs(0))
    }

    fn begin<A: Ask>(&mut self, ask: A, items: Vec<A::Item>) -> Ticket<A> {
        let ticket = self.admin.begin(ask, items, self.elapsed + MINUTE, self.now());
        self.settle();
        ticket
    }

    /// Performs what is wanted, and answers greetings and metadata, until only others' answers are due.
    fn settle(&mut self) {
        self.admin.step(self.now(), &mut self.effects);
        while !self.effects.is_empty() {
            let effects: Vec<Effect> = self.effects.drain().collect();
            effects.into_iter().for_each(|effect| self.perform(effect));
        }
    }

    fn perform(&mut self, effect: Effect) {
        let now = self.now();
        match effect {
            Effect::Done(call) => self.done.push(call),
            Effect::Net(NetEffect::Connect { connection, address })
                if self.down.contains(&&*address.host) =>
            {
                let why = format!("cannot connect to {address}: refused");
                self.admin.on_closed(connection, why, now, &mut self.effects);
            }
            Effect::Net(NetEffect::Connect { connection, address }) => {
                self.open.insert(connection, address);
                self.admin.on_connected(connection, now, &mut self.effects);
            }
            Effect::Net(NetEffect::Close { connection }) => {
                self.open.remove(&connection);
                self.asked.retain(|(at, ..)| *at != connection);
            }
            Effect::Net(NetEffect::Send { connection, outgoing }) => {
                let frame = outgoing.frame.bytes[4..].to_vec();
                let (header, _) = decode_request_header(&frame).expect("the admin writes requests");
                match ApiKey::from_i16(header.api_key).expect("it is one of Kafka's") {
                    ApiKey::ApiVersions => self.answer(connection, &frame, &versions()),
                    ApiKey::Metadata => self.answer_metadata(connection, &frame),
                    key => self.asked.push((connection, key, frame)),
                }
            }
        }
    }

    fn answer<'m>(&mut self, connection: ConnectionId, request: &[u8], body: &impl Message<'m>) {
        let (header, _) = decode_request_header(request).expect("it was read before");
        let key = ApiKey::from_i16(header.api_key).expect("it is one of Kafka's");
        let frame = encode_response(header.correlation_id, key, header.api_version, body);
        let frame = frame.expect("it can be said").bytes.split_off(4);
        self.admin.on_frame(connection, &frame, self.now(), &mut self.effects);
    }

    fn answer_metadata(&mut self, connection: ConnectionId, frame: &[u8]) {
        let (header, mut body) = decode_request_header(frame).expect("it was read before");
        let request = MetadataRequest::decode(&mut body, header.api_version).expect("it can be read");
        let part = |(index, &leader): (i32, &i32)| MetadataResponsePartition {
            partition_index: index,
            leader_id: leader,
            leader_epoch: 1,
            ..Default::default()
        };
        let partitions: Vec<_> = (0..).zip(&self.leaders).map(part).collect();
        let topics = request.topics.iter().flatten().map(|topic| match topic.name {
            Some("orders") => MetadataResponseTopic {
                name: Some("orders"),
                partitions: partitions.clone(),
                ..Default::default()
            },
            name => MetadataResponseTopic {
                name,
                error_code: ErrorCode::UnknownTopicOrPartition.code(),
                ..Default::default()
            },
        });
        let broker = |(node_id, host)| MetadataResponseBroker { node_id, host, port: 1, rack: None };
        let said = MetadataResponse {
            brokers: [(1, "one"), (2, "two")].into_iter().map(broker).collect(),
            controller_id: self.controller,
            topics: topics.collect(),
            ..Default::default()
        };
        self.answer(connection, frame, &said);
    }

    /// Takes the oldest request that is due, which must be of this API, and who was asked.
    fn asked<'m, M: Message<'m>>(
        &mut self,
        key: ApiKey,
        frame: &'m mut Vec<u8>,
    ) -> (ConnectionId, String, M) {
        assert!(!self.asked.is_empty(), "nobody was asked");
        let (connection, found, bytes) = self.asked.remove(0);
        assert_eq!(found, key);
        *frame = bytes;
        let (header, mut body) = decode_request_header(frame).expect("it was read before");
        let request = M::decode(&mut body, header.api_version).expect("it can be read");
        (connection, self.open[&connection].host.to_string(), request)
    }

    /// Answers the oldest request, about topics that are to be created, with these codes.
    fn create(&mut self, codes: &[(&str, ErrorCode)], throttle_time_ms: i32) -> (String, Vec<String>) {
        let mut frame = Vec::new();
        let (connection, by, request) =
            self.asked::<CreateTopicsRequest<'_>>(ApiKey::CreateTopics, &mut frame);
        let names = request.topics.iter().map(|topic| topic.name.to_owned()).collect();
        let topics = codes.iter().map(|&(name, code)| CreatableTopicResult {
            name,
            error_code: code.code(),
            ..Default::default()
        });
        let said = CreateTopicsResponse { throttle_time_ms, topics: topics.collect() };
        self.answer(connection, &frame.clone(), &said);
        self.settle();
        (by, names)
    }

    /// The connection of the oldest request breaks.
    fn lose(&mut self) {
        let (connection, ..) = self.asked.remove(0);
        self.open.remove(&connection);
        self.asked.retain(|(at, ..)| *at != connection);
        self.admin.on_closed(connection, "it broke".to_owned(), self.now(), &mut self.effects);
        self.settle();
    }

    /// Lets time pass, as those who drive it do: up to each deadline.
    fn pass(&mut self, time: Duration) {
        let end = self.elapsed + time;
        for round in 0.. {
            assert!(round < 10_000, "it never rests");
            let next = self.admin.deadline(self.now()).unwrap_or(end).min(end);
            self.elapsed = next.max(self.elapsed + Duration::from_millis(1)).min(end);
            self.settle();
            if self.elapsed == end {
                return;
            }
        }
    }

    fn take<A: Ask>(&mut self, ticket: &Ticket<A>) -> Vec<Result<A::Said, AdminError>> {
        let is_told = self.done.iter().filter(|&&call| call == ticket.id()).count();
        assert_eq!(is_told, 1, "the end of a call is told once");
        self.admin.take(ticket).expect("it is done")
    }
}

fn versions<'a>() -> ApiVersionsResponse<'a> {
    let all = ApiKey::ALL.iter().map(|key| ApiVersion {
        api_key: key.code(),
        min_version: *key.versions().start(),
        max_version: *key.versions().end(),
    });
    ApiVersionsResponse { api_keys: all.collect(), ..Default::default() }
}

fn topics(names: &[&str]) -> Vec<NewTopic> {
    names.iter().map(|name| NewTopic::named(*name)).collect()
}

const CREATE: CreateTopics = CreateTopics { is_dry_run: false };

fn before(partition: i32) -> DeleteBefore {
    let offset = Some(Offset(9));
    DeleteBefore { topic: "orders".to_owned(), partition: PartitionIndex(partition), offset }
}

#[test]
fn each_topic_has_its_own_end() {
    let mut brokers = Brokers::new();
    let call = brokers.begin(CREATE, topics(&["a", "b", "c", "a"]));
    let codes = [("c", ErrorCode::NotController), ("a", ErrorCode::None), ("b", ErrorCode::InvalidConfig)];
    let (by, names) = brokers.create(&codes, 0);
    assert_eq!((by.as_str(), names.join(" ")), ("two", "a b c".to_owned()), "the controller, once for each");
    assert_eq!(brokers.admin.take(&call).map(|_| ()), None);
    brokers.pass(Duration::from_secs(1));
    assert_eq!(brokers.create(&[("c", ErrorCode::None)], 0).1, ["c"], "only what is left");
    let results = brokers.take(&call);
    let refused = |place: usize| results[place].as_ref().err().map(ToString::to_string);
    assert_eq!(results[0].as_ref().map(|made| made.name.clone()), Ok("a".to_owned()));
    assert_eq!(refused(1).expect("it was refused"), "topic b: INVALID_CONFIG: Configuration is invalid.");
    assert!(results[2].is_ok());
    assert_eq!(results[3], Err(AdminError::Twice { what: "topic a".to_owned() }));
}

#[test]
fn what_may_have_been_done_is_said() {
    let mut brokers = Brokers::new();
    let call = brokers.begin(CREATE, topics(&["a", "b"]));
    brokers.lose();
    brokers.pass(Duration::from_secs(1));
    brokers.create(&[("a", ErrorCode::TopicAlreadyExists), ("b", ErrorCode::None)], 0);
    let results = brokers.take(&call);
    let error = results[0].as_ref().expect_err("somebody made it");
    assert!(error.may_have_been_done() && error.code() == Some(ErrorCode::TopicAlreadyExists), "{error}");
    assert!(results[1].is_ok());

    // Time is over while the answer may still come.
    let until = brokers.elapsed + Duration::from_secs(5);
    let late = brokers.admin.begin(CREATE, topics(&["late"]), until, brokers.now());
    brokers.settle();
    brokers.pass(Duration::from_secs(6));
    let error = brokers.take(&late).remove(0).expect_err("nobody answered");
    assert!(error.may_have_been_done(), "{error}");
    brokers.create(&[("late", ErrorCode::None)], 0);

    // Nobody answers any more: what was sent may be done, and what was not is not.
    let sent = brokers.begin(CREATE, topics(&["c"]));
    let trial = brokers.begin(CreateTopics { is_dry_run: true }, topics(&["c"]));
    brokers.down = vec!["boot", "one", "two"];
    while !brokers.asked.is_empty() {
        brokers.lose();
    }
    let unsent = brokers.begin(CREATE, topics(&["d"]));
    brokers.pass(MINUTE + Duration::from_secs(1));
    for (call, may_have_been_done) in [(sent, true), (unsent, false), (trial, false)] {
        let error = brokers.take(&call).remove(0).expect_err("nobody answers");
        assert!(matches!(error, AdminError::TimedOut { .. }) && error.is_retriable(), "{error}");
        assert_eq!(error.may_have_been_done(), may_have_been_done, "{error}");
        assert!(error.to_string().contains("refused"), "{error}");
    }
}

#[test]
fn a_broker_that_hangs_is_given_up_for_another() {
    let mut brokers = Brokers::new();
    let call = brokers.begin(ListTopics, vec![()]);
    // Metadata for the call itself is answered like any other.
    assert!(brokers.take(&call).remove(0).is_ok_and(|topics| topics.is_empty()));
    let call = brokers.begin(CREATE, topics(&["a"]));
    assert_eq!(brokers.asked.len(), 1);
    brokers.controller = 1;
    brokers.pass(Duration::from_secs(31));
    assert_eq!(brokers.create(&[("a", ErrorCode::None)], 0).0, "one", "the other is the controller now");
    assert!(brokers.take(&call).remove(0).is_ok());
}

#[test]
fn leaders_are_asked_for_their_own_and_again_when_they_moved() {
    let mut brokers = Brokers::new();
    let call = brokers.begin(DeleteRecords, vec![before(0), before(1)]);
    brokers.leaders = vec![2, 2];
    for round in 0..2 {
        let mut asked = Vec::new();
        while !brokers.asked.is_empty() {
            let mut frame = Vec::new();
            let (connection, by, request) =
                brokers.asked::<DeleteRecordsRequest<'_>>(ApiKey::DeleteRecords, &mut frame);
            let parts = &request.topics[0].partitions;
            asked.push((by.clone(), parts.iter().map(|part| part.partition_index).collect::<Vec<_>>()));
            let code = if by == "one" { ErrorCode::NotLeaderOrFollower } else { ErrorCode::None };
            let part = |part: &wire::messages::delete_records::DeleteRecordsPartition| {
                DeleteRecordsPartitionResult {
                    partition_index: part.partition_index,
                    low_watermark: part.offset,
                    error_code: code.code(),
                }
            };
            let topic =
                DeleteRecordsTopicResult { name: "orders", partitions: parts.iter().map(part).collect() };
            let said = DeleteRecordsResponse { throttle_time_ms: 0, topics: vec![topic] };
            brokers.answer(connection, &frame.clone(), &said);
        }
        brokers.settle();
        asked.sort();
        let expected = [
            vec![("one".to_owned(), vec![0]), ("two".to_owned(), vec![1])],
            vec![("two".to_owned(), vec![0])],
        ];
        assert_eq!(asked, expected[round]);
        brokers.pass(Duration::from_secs(1));
    }
    assert_eq!(brokers.take(&call), [Ok(Offset(9)), Ok(Offset(9))]);
}

#[test]
fn what_nobody_knows_is_refused_after_a_while() {
    let mut brokers = Brokers::new();
    let unknown = DeleteBefore { topic: "payments".to_owned(), ..before(0) };
    let misnamed = DeleteBefore { topic: "a/b".to_owned(), ..before(0) };
    let call = brokers.begin(DeleteRecords, vec![unknown, before(7), misnamed]);
    let dirs = brokers.begin(DescribeLogDirs::default(), vec![BrokerId(9)]);
    brokers.pass(Duration::from_millis(1_500));
    assert!(brokers.done.is_empty(), "a broker may not have heard of it yet");
    brokers.pass(Duration::from_millis(2_500));
    let codes: Vec<_> =
        brokers.take(&call).into_iter().map(|result| result.err().and_then(|error| error.code())).collect();
    let unknown = Some(ErrorCode::UnknownTopicOrPartition);
    assert_eq!(codes, [unknown, unknown, Some(ErrorCode::InvalidTopicException)]);
    assert_eq!(brokers.take(&dirs), [Err(AdminError::NoSuchBroker { what: "broker 9".to_owned() })]);
    assert!(brokers.asked.is_empty(), "nobody was asked to do anything");
}

#[test]
fn without_controller_or_leader_it_waits_and_says_so() {
    let mut brokers = Brokers::new();
    brokers.controller = -1;
    brokers.leaders = vec![-1];
    let create = brokers.begin(CREATE, topics(&["a"]));
    let delete = brokers.begin(DeleteRecords, vec![before(0)]);
    brokers.pass(MINUTE);
    let causes = [
        brokers.take(&create).remove(0).map(|_| ()).expect_err("there is no controller"),
        brokers.take(&delete).remove(0).map(|_| ()).expect_err("there is no leader"),
    ];
    for (error, words) in causes.iter().zip(["no controller", "no leader"]) {
        assert!(error.to_string().contains(words) && !error.may_have_been_done(), "{error}");
    }
}

#[test]
fn a_broker_that_wants_peace_has_it() {
    let mut brokers = Brokers::new();
    let call = brokers.begin(CREATE, topics(&["a"]));
    brokers.create(&[("a", ErrorCode::ThrottlingQuotaExceeded)], 5_000);
    brokers.pass(Duration::from_millis(4_900));
    assert!(brokers.asked.is_empty(), "it was to be left alone for 5 s");
    brokers.pass(Duration::from_millis(200));
    brokers.create(&[("a", ErrorCode::None)], 0);
    assert!(brokers.take(&call).remove(0).is_ok());
}

#[test]
fn what_cannot_be_said_is_not_in_the_way() {
    let mut brokers = Brokers::new();
    let mut long = NewTopic::named("long");
    long.configs.push(("name".to_owned(), "x".repeat(40_000)));
    let call = brokers.begin(CREATE, vec![NewTopic::named("a"), long, NewTopic::named("b")]);
    let mut names = brokers.create(&[("a", ErrorCode::None)], 0).1;
    names.extend(brokers.create(&[("b", ErrorCode::None)], 0).1);
    assert_eq!(names, ["a", "b"]);
    let results = brokers.take(&call);
    assert!(results[0].is_ok() && results[2].is_ok(), "{results:?}");
    assert!(matches!(results[1], Err(AdminError::Unsayable { .. })), "{results:?}");
}

#[test]
fn an_answer_that_leaves_something_out_is_an_error_for_it() {
    let mut brokers = Brokers::new();
    let call = brokers.begin(CREATE, topics(&["a", "b"]));
    brokers.create(&[("a", ErrorCode::None), ("a", ErrorCode::InvalidConfig), ("x", ErrorCode::None)], 0);
    let results = brokers.take(&call);
    assert!(results[0].is_ok(), "the first word counts");
    assert!(matches!(&results[1], Err(AdminError::Missing { may_have_been_done: true, .. })), "{results:?}");
}

#[test]
fn a_call_that_is_forgotten_costs_nothing() {
    let mut brokers = Brokers::new();
    let call = brokers.begin(CREATE, topics(&["a"]));
    brokers.admin.forget(call.id());
    brokers.create(&[("a", ErrorCode::None)], 0);
    assert_eq!(brokers.admin.take(&call).map(|_| ()), None);
    assert_eq!(brokers.admin.deadline(brokers.now()), None);
}

proptest! {
    // Each case is a minute of the admin's time.
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a broker's bytes say, the call ends in time, with one result for each item.
    #[test]
    fn answers_may_be_anything(
        cut in 0_usize..64,
        noise in proptest::collection::vec((0_usize..64, any::<u8>()), 0..4),
        which in 0_u8..14,
    ) {
        let mut brokers = Brokers::new();
        match which {
            0 => spoil(&mut brokers, CREATE, topics(&["a", "b"]), cut, &noise),
            1 => spoil(&mut brokers, DeleteTopics, vec![TopicRef::Name("a".to_owned())], cut, &noise),
            2 => spoil(&mut brokers, DeleteRecords, vec![before(0), before(1)], cut, &noise),
            3 => spoil(&mut brokers, DescribeCluster, vec![()], cut, &noise),
            4 => spoil(&mut brokers, DescribeLogDirs::default(), vec![BrokerId(1), BrokerId(2)], cut, &noise),
            5 => {
                let of = vec![Resource::AllBrokers.into(), Resource::Broker(BrokerId(2)).into()];
                spoil(&mut brokers, DescribeConfigs, of, cut, &noise);
            }
            6 => spoil(&mut brokers, ListReassignments, vec![()], cut, &noise),
            7 => spoil(&mut brokers, DescribeQuorum, vec![()], cut, &noise),
            8 => {
                let of = PartitionOf { topic: "orders".to_owned(), partition: PartitionIndex(0) };
                spoil(&mut brokers, ElectLeaders { is_unclean: true }, vec![of], cut, &noise);
            }
            9 => {
                let (topic, partition) = ("orders".to_owned(), PartitionIndex(0));
                let back = Reassignment { topic, partition, replicas: None };
                spoil(&mut brokers, AlterReassignments, vec![back], cut, &noise);
            }
            10 => spoil(&mut brokers, UnregisterBrokers, vec![BrokerId(1), BrokerId(2)], cut, &noise),
            11 => {
                let voter = VoterId { id: BrokerId(1), directory: base::Uuid([7; 16]) };
                spoil(&mut brokers, RemoveVoters, vec![voter], cut, &noise);
            }
            12 => spoil(&mut brokers, UpdateFeatures { is_dry_run: false }, vec![Vec::new()], cut, &noise),
            _ => {
                let of = |at| OffsetOf { topic: "orders".to_owned(), partition: PartitionIndex(0), at };
                let list = ListOffsets { isolation: crate::consumer::Isolation::ReadUncommitted };
                spoil(&mut brokers, list, vec![of(At::Latest)], cut, &noise);
            }
        }
    }
}

/// Answers everything with bytes that begin as they should and go on as they like.
fn spoil<A: Ask>(brokers: &mut Brokers, ask: A, items: Vec<A::Item>, cut: usize, noise: &[(usize, u8)]) {
    let count = items.len();
    let call = brokers.begin(ask, items);
    while brokers.done.is_empty() {
        while !brokers.asked.is_empty() {
            let (connection, _, frame) = brokers.asked.remove(0);
            let (header, _) = decode_request_header(&frame).expect("it was read before");
            let mut bytes = header.correlation_id.to_be_bytes().to_vec();
            bytes.resize(4 + cut, 0);
            for &(place, byte) in noise.iter().filter(|(place, _)| *place < cut) {
                bytes[4 + place] = byte;
            }
            brokers.admin.on_frame(connection, &bytes, brokers.now(), &mut brokers.effects);
            brokers.settle();
        }
        brokers.pass(Duration::from_millis(500));
    }
    assert_eq!(brokers.take(&call).len(), count);
}
