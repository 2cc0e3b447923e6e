//! What a version cannot say.

use super::*;
use crate::Records;
use crate::messages::fetch::{EpochEndOffset, FetchResponse, FetchableTopicResponse, PartitionData};
use crate::messages::fetch::{FetchRequest, ReplicaState};
use crate::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use crate::messages::produce::{PartitionProduceResponse, ProduceResponse, TopicProduceResponse};

fn encoded<'a>(message: &impl Message<'a>, version: i16) -> Result<Vec<u8>, EncodeError> {
    let mut e = Encoder::new();
    message.encode(&mut e, version)?;
    Ok(e.into_bytes())
}

#[test]
fn a_set_field_that_a_version_lacks_is_an_error_unless_it_can_be_ignored() {
    let request = MetadataRequest { allow_auto_topic_creation: false, ..Default::default() };
    let field = "MetadataRequest.allow_auto_topic_creation";
    assert_eq!(encoded(&request, 3), Err(EncodeError::Field { field, version: 3 }));
    assert_eq!(encoded(&request, 4), Ok(vec![0, 0, 0, 0, 0]));

    let ignorable = ProduceResponse { throttle_time_ms: 5, ..Default::default() };
    assert!(encoded(&ignorable, 3).is_ok());
    let partition = PartitionProduceResponse { log_start_offset: 9, ..Default::default() };
    let topic = TopicProduceResponse { partition_responses: vec![partition], ..Default::default() };
    let response = ProduceResponse { responses: vec![topic], ..Default::default() };
    assert_eq!(encoded(&response, 4).map(|bytes| bytes.len()), Ok(4 + 2 + 4 + 22 + 4));
}

#[test]
fn a_set_tagged_field_that_a_version_lacks_is_an_error() {
    let replica_state = ReplicaState { replica_id: 1, ..Default::default() };
    let request = FetchRequest { replica_state, ..Default::default() };
    assert!(matches!(encoded(&request, 14), Err(EncodeError::Field { .. })));
    assert!(encoded(&request, 15).is_ok());
}

#[test]
fn a_null_that_a_version_lacks_is_an_error() {
    let request = MetadataRequest { topics: None, ..Default::default() };
    let field = "MetadataRequest.topics";
    assert_eq!(encoded(&request, 0), Err(EncodeError::Null { field, version: 0 }));
    assert_eq!(encoded(&request, 1), Ok(vec![0xff; 4]));
    let topic = MetadataRequestTopic { name: None, ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
    let field = "MetadataRequestTopic.name";
    assert_eq!(encoded(&request, 9), Err(EncodeError::Null { field, version: 9 }));
    assert!(encoded(&request, 10).is_ok());
    let null = MetadataRequest::decode(&mut Decoder::new(&[0xff; 4]), 0);
    assert_eq!(null, Err(DecodeError::Null { at: 4 }));
}

#[test]
fn a_version_that_is_not_there_is_an_error_both_ways() {
    let message = "ProduceResponse";
    assert_eq!(encoded(&ProduceResponse::default(), 14), Err(EncodeError::Version { message, version: 14 }));
    assert_eq!(
        ProduceResponse::decode(&mut Decoder::new(&[0; 64]), 2),
        Err(DecodeError::Version { version: 2 })
    );
}

fn fetch_v12(partition: PartitionData<'_>) -> Vec<u8> {
    let topic = FetchableTopicResponse { topic: "t", partitions: vec![partition], ..Default::default() };
    let response = FetchResponse { responses: vec![topic], ..Default::default() };
    let bytes = encoded(&response, 12).expect("short");
    // Throttle, error, session, one topic "t", one partition; and the tags at the end of topic and message.
    bytes[4 + 2 + 4 + 1 + 2 + 1..bytes.len() - 2].to_vec()
}

#[test]
fn fetch_answers_are_those_of_kafka() {
    let empty = Some(Records::Bytes(&[]));
    let at_log_end = PartitionData {
        high_watermark: 0x5dc,
        last_stable_offset: 0x5dc,
        log_start_offset: 0,
        aborted_transactions: None,
        records: empty,
        ..Default::default()
    };
    let offsets = [0x5dc_i64, 0x5dc, 0].map(i64::to_be_bytes).concat();
    let captured = [&[0; 6], &offsets[..], b"\0\xff\xff\xff\xff\x01\0"].concat();
    assert_eq!(fetch_v12(at_log_end), captured);

    let nowhere = [0xff; 24];
    let out_of_range = PartitionData {
        error_code: 1,
        high_watermark: -1,
        last_stable_offset: -1,
        log_start_offset: -1,
        aborted_transactions: None,
        records: empty,
        ..Default::default()
    };
    let captured = [b"\0\0\0\0\0\x01", &nowhere[..], b"\0\xff\xff\xff\xff\x01\0"].concat();
    assert_eq!(fetch_v12(out_of_range.clone()), captured);

    let unknown = PartitionData { error_code: 3, aborted_transactions: Some(Vec::new()), ..out_of_range };
    let captured = [b"\0\0\0\0\0\x03", &nowhere[..], b"\x01\xff\xff\xff\xff\x01\0"].concat();
    assert_eq!(fetch_v12(unknown), captured);
}

#[test]
fn a_tagged_struct_is_written_if_it_says_something() {
    let silent = fetch_v12(PartitionData::default());
    let diverging_epoch = EpochEndOffset { epoch: 3, end_offset: 9 };
    let telling = fetch_v12(PartitionData { diverging_epoch, ..Default::default() });
    assert_eq!(silent.last(), Some(&0));
    let field = b"\x01\x00\x0d\0\0\0\x03\0\0\0\0\0\0\0\x09\0";
    assert_eq!(telling[silent.len() - 1..], field[..]);
}
