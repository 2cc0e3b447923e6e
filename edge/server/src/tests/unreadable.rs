//! Stories of records that cannot be read when somebody asks for them.

use std::fs::OpenOptions;

use broker::call::Answer;
use wire::messages::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};
use wire::{ApiKey, Message, decode_response_header};

use super::*;
use crate::files;

/// The answer of a node to one who asks for both partitions of `t` from their beginning, as it is to be sent.
fn fetch(life: &Life, session: &mut Session, version: i16) -> Answer {
    let partition = |partition| FetchPartition {
        partition,
        partition_max_bytes: 1 << 20,
        current_leader_epoch: -1,
        last_fetched_epoch: -1,
        ..FetchPartition::default()
    };
    let partitions = (0..2).map(partition).collect();
    let topics = vec![FetchTopic { topic: "t", partitions, ..FetchTopic::default() }];
    let request = FetchRequest { max_bytes: 10 << 20, session_epoch: -1, topics, ..FetchRequest::default() };
    let frame = wire::encode_request(1, Some("test"), version, &request).unwrap().bytes;
    let node = &life.started.node;
    let asked = |context: Context<'_>| session.on_request(context, &frame[4..], &mut Scratch::default());
    let Outcome::Answer(answer) = node.in_context(asked).outcome else { panic!("it waits") };
    life.runtime.block_on(files::readable(node, answer)).unwrap()
}

/// The error of each partition in an answer, and how many bytes of records it has.
fn parts(answer: &Answer, version: i16) -> Vec<(i16, usize)> {
    let whole = answer.frame.with_zeroes();
    let (_, mut body) = decode_response_header(&whole[4..], ApiKey::Fetch, version).unwrap();
    let response = FetchResponse::decode(&mut body, version).unwrap();
    let parts = response.responses.iter().flat_map(|topic| &topic.partitions);
    parts.map(|part| (part.error_code, part.records.map_or(0, |records| records.len()))).collect()
}

/// A sector that has gone bad looks the same as an end that is missing. Few bytes are not looked at before they are
/// sent, until that has failed once.
#[test]
fn records_that_cannot_be_read_keep_nobody_from_the_others() {
    for (records, is_seen_at_once) in [(1_000, true), (1, false)] {
        for version in [4, 5, 6, 11, 12] {
            let site = Site::new();
            let life = site.start(&["a"]);
            let topic = life.create("t", 2).id;
            life.fill(topic, 2, records);
            let mut session = Session::new(
                Waiter { id: WaiterId(1), bell: Arc::new(Bell(std::sync::mpsc::channel().0)) },
                Peer::Client,
            );
            let intact = parts(&fetch(&life, &mut session, version), version);
            assert!(intact.iter().all(|(code, bytes)| *code == 0 && *bytes > 0), "{intact:?}");
            let log = OpenOptions::new().write(true).open(log_file(&site.at("a/t-0"))).unwrap();
            log.set_len(10).unwrap();
            let mut answer = fetch(&life, &mut session, version);
            if !is_seen_at_once {
                assert_eq!(parts(&answer, version), intact);
                // As the writer does.
                files::for_socket(&life.started.node, answer).files[0].1.file.on_unreadable();
                answer = fetch(&life, &mut session, version);
            }
            let failed =
                if version < 6 { ErrorCode::NotLeaderOrFollower } else { ErrorCode::KafkaStorageError };
            let expected = [(failed.code(), 0), intact[1]];
            assert_eq!(parts(&answer, version), expected, "{records} records, version {version}");
            let sent: u32 = answer.slices.iter().map(|slice| slice.len).sum();
            assert_eq!((sent as usize, answer.frame.errors.clone()), (intact[1].1, vec![(failed.code(), 1)]));
            life.stop();
        }
    }
}
