//! The examples in `docs/FORMATS.md` and `docs/NODES.md` are what they are said to be.

use std::path::Path;

use base::{BrokerId, LeaderEpoch, Offset, ProducerId, TimestampMs, Uuid};
use metadata::MetadataRecord;
use records::{Scratch, StoredBatch};
use storage::checkpoint::{parse_epochs, parse_offsets, parse_partition_metadata};
use storage::dirs::MetaProperties;
use storage::{AbortedTxn, OffsetEntry, TimeEntry, parse_snapshot};
use wire::cluster::{ClusterRequest, Hello, Purpose, Welcome};

/// The base offset of the segment that the examples of indexes are of.
const BASE: Offset = Offset(4711);

/// What stands in the block that begins with this line.
fn block(opening: &str) -> String {
    block_in("FORMATS.md", opening)
}

fn block_in(page: &str, opening: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let page = std::fs::read_to_string(path).expect("the page is there");
    let (_, rest) = page.split_once(&format!("```{opening}\n")).expect("the example is there");
    let (example, _) = rest.split_once("```").expect("the example ends");
    example.to_owned()
}

fn hex(of: &str) -> Vec<u8> {
    hex_in("FORMATS.md", of)
}

fn hex_in(page: &str, of: &str) -> Vec<u8> {
    let block = block_in(page, &format!("hex {of}"));
    block.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("it is a byte")).collect()
}

#[test]
fn a_batch() {
    let bytes = hex("batch");
    let batch = StoredBatch::check(&bytes).expect("its checksum is right");
    assert_eq!(
        (batch.base_offset(), batch.next_offset(), batch.leader_epoch()),
        (BASE, Offset(4713), LeaderEpoch(3))
    );
    assert_eq!(batch.header().producer_id, ProducerId(9));
    let mut scratch = Scratch::default();
    let records = batch.records(&mut scratch).expect("it is not compressed");
    let records: Vec<_> = records.collect::<Result<_, _>>().expect("they are whole");
    assert_eq!((records[0].key, records[0].value), (Some(b"k".as_slice()), Some(b"one".as_slice())));
    assert_eq!((records[1].key, records[1].headers.len()), (None, 1));
}

#[test]
fn entries_of_the_tables() {
    let entry = OffsetEntry::from_bytes(hex("index").first_chunk().expect("it has eight bytes"));
    assert_eq!((entry.offset(BASE), entry.position), (Offset(4800), 4096));
    let entry = TimeEntry::from_bytes(hex("timeindex").first_chunk().expect("it has twelve bytes"));
    assert_eq!((entry.timestamp, entry.offset(BASE)), (TimestampMs(1_700_000_000_005), Offset(4800)));
    let entry = AbortedTxn::read(&hex("txnindex")).expect("it makes sense");
    assert_eq!((entry.first_offset, entry.last_stable_offset), (Offset(4713), Offset(4721)));
    let producers = parse_snapshot(&hex("snapshot")).expect("its checksum is right");
    assert_eq!((producers[0].producer_id, producers[0].last_sequence.0), (ProducerId(9), 41));
}

#[test]
fn text_files() {
    assert_eq!(parse_offsets(block("text offsets").as_bytes()).expect("it is one").len(), 2);
    let epochs = parse_epochs(block("text epochs").as_bytes()).expect("it is one");
    assert_eq!(epochs, [(LeaderEpoch(0), Offset(0)), (LeaderEpoch(3), BASE)]);
    let properties = MetaProperties::parse(block("text meta.properties").as_bytes()).expect("it is one");
    let topic = parse_partition_metadata(block("text partition.metadata").as_bytes()).expect("it is one");
    assert_eq!((topic.0, properties.node_id.0), (properties.directory_id, 1));
}

#[test]
fn a_metadata_record() {
    let record = MetadataRecord::decode(&hex("metadata")).expect("it is one");
    assert!(matches!(record, MetadataRecord::Topic(topic) if topic.name.as_str() == "orders"));
}

#[test]
fn what_nodes_say() {
    const CLUSTER: &str = "5L6g3nShT-eMCtK--X86sw";
    let frame = hex_in("NODES.md", "hello");
    let hello = Hello {
        cluster_id: Some(CLUSTER),
        node: BrokerId(3),
        directory: Uuid([1; 16]),
        purpose: Purpose::Control,
    };
    assert_eq!(ClusterRequest::decode(&frame[4..]), Ok((1, ClusterRequest::Hello(hello))));
    assert_eq!(ClusterRequest::Hello(hello).encode(1), Ok(frame));
    let frame = hex_in("NODES.md", "welcome");
    let welcome = Welcome {
        refusal: None,
        cluster_id: Some(CLUSTER),
        node: BrokerId(1),
        directory: Uuid([2; 16]),
        is_broker: true,
        voters: vec![(BrokerId(1), "10.0.0.1:19092", Uuid([2; 16]))],
    };
    assert_eq!(welcome.encode(1), Ok(frame));
}
