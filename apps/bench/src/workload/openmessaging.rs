//! Workloads of the OpenMessaging Benchmark, as its files have them.
//!
//! What they say and this harness does otherwise is told in a note: nothing is passed over in silence.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::yaml::{self, Fields, Source};

/// Their fields, with their defaults.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Theirs {
    name: String,
    topics: u32,
    partitions_per_topic: u32,
    key_distributor: String,
    message_size: usize,
    use_randomized_payloads: bool,
    random_bytes_ratio: f64,
    randomized_payload_pool_size: u32,
    payload_file: Option<String>,
    subscriptions_per_topic: u16,
    producers_per_topic: u16,
    consumer_per_subscription: u16,
    producer_rate: f64,
    #[serde(rename = "consumerBacklogSizeGB")]
    consumer_backlog_size_gb: f64,
    backlog_drain_ratio: f64,
    test_duration_minutes: f64,
    warmup_duration_minutes: f64,
}

impl Default for Theirs {
    fn default() -> Self {
        Self {
            name: String::new(),
            topics: 1,
            partitions_per_topic: 1,
            key_distributor: "NO_KEY".to_owned(),
            message_size: 1024,
            use_randomized_payloads: false,
            random_bytes_ratio: 0.0,
            randomized_payload_pool_size: 0,
            payload_file: None,
            subscriptions_per_topic: 1,
            producers_per_topic: 1,
            consumer_per_subscription: 1,
            producer_rate: 0.0,
            consumer_backlog_size_gb: 0.0,
            backlog_drain_ratio: 1.0,
            test_duration_minutes: 5.0,
            warmup_duration_minutes: 1.0,
        }
    }
}

/// Fields that only theirs have.
const THEIRS: [&str; 4] = ["partitionsPerTopic", "messageSize", "producersPerTopic", "producerRate"];
/// Theirs have so many keys.
const KEYS: u32 = 10_000;
/// Each is a client with connections and a thread of its own.
const CLIENTS_MAX: u64 = 256;

/// Whether these are fields of one of theirs.
pub(super) fn is_one(fields: &Fields) -> bool {
    THEIRS.iter().any(|name| fields.contains_key(*name))
}

/// The same as fields of ours, and what is not the same.
pub(super) fn translated(source: Source<'_>, fields: &Fields) -> Result<(Fields, Vec<String>)> {
    source.only(fields, &yaml::names::<Theirs>())?;
    let mut theirs: Theirs = source.typed(fields)?;
    let mut notes = vec!["an OpenMessaging Benchmark workload".to_owned()];
    let payload = payload(&mut theirs, source.name, &mut notes);
    let backlog = backlog(&theirs, &mut notes);
    let keys = match &*theirs.key_distributor {
        "NO_KEY" => "none".to_owned(),
        "KEY_ROUND_ROBIN" => format!("round-robin:{KEYS}"),
        "RANDOM_NANO" => format!("uniform:{KEYS}"),
        other => bail!(
            "{}: keyDistributor: {other} is neither NO_KEY, KEY_ROUND_ROBIN nor RANDOM_NANO",
            source.name
        ),
    };
    let producers = of_all_topics(&theirs, "producers", theirs.producers_per_topic, &mut notes);
    let consumers = of_all_topics(&theirs, "consumers", theirs.consumer_per_subscription, &mut notes);
    if consumers > 0 {
        notes.push(
            "consumers are in no group: each has partitions of its own from the start, and nothing is committed; theirs \
             are, and commit"
                .to_owned(),
        );
    }
    let mut fields = json!({
        "name": theirs.name,
        "topics": theirs.topics,
        "partitions": theirs.partitions_per_topic,
        "record_bytes": theirs.message_size,
        "payload": payload,
        "keys": keys,
        "producers": producers,
        "subscriptions": theirs.subscriptions_per_topic,
        "consumers": consumers,
        "warmup_seconds": theirs.warmup_duration_minutes * 60.0,
        "seconds": theirs.test_duration_minutes * 60.0,
    });
    match (backlog, theirs.producer_rate == 0.0) {
        (Some(records), _) => {
            fields["stored"] = json!(true);
            fields["records"] = json!(records);
        }
        (None, false) => fields["rate"] = json!(theirs.producer_rate),
        (None, true) => {
            fields["search"] = json!({});
            notes.push(
                "producerRate 0: the highest rate that is kept up with is searched for by trying one after the \
                 other; their harness changes the rate while it runs"
                    .to_owned(),
            );
        }
    }
    match fields {
        serde_json::Value::Object(fields) => Ok((fields, notes)),
        _ => Ok((Fields::new(), notes)),
    }
}

/// What the records say; as large as their file, if that is there.
fn payload(theirs: &mut Theirs, workload: &str, notes: &mut Vec<String>) -> String {
    if theirs.use_randomized_payloads {
        if theirs.randomized_payload_pool_size > 0 {
            let size = theirs.randomized_payload_pool_size;
            notes.push(format!(
                "randomizedPayloadPoolSize {size}: every record is another, and not one of so many"
            ));
        }
        return format!("share:{}", theirs.random_bytes_ratio);
    }
    let Some(file) = &theirs.payload_file else { return "letters".to_owned() };
    let Some((path, bytes)) = payload_file(file, workload) else {
        notes.push(format!("payloadFile {file} is not there: random letters of messageSize are sent"));
        return "letters".to_owned();
    };
    if bytes != theirs.message_size {
        notes.push(format!(
            "messageSize {}: {file} has {bytes} bytes, and so have records",
            theirs.message_size
        ));
        theirs.message_size = bytes;
    }
    format!("file:{}", path.display())
}

/// Where a file of records is: theirs are named from the folder that has the folder of workloads in it.
fn payload_file(file: &str, workload: &str) -> Option<(PathBuf, usize)> {
    let beside = Path::new(workload).parent().unwrap_or(Path::new(""));
    let places = [Path::new("").to_owned(), beside.join(".."), beside.to_owned()];
    places.iter().find_map(|place| {
        let path = place.join(file);
        let bytes = path.metadata().ok().filter(|found| found.is_file() && found.len() > 0)?.len();
        Some((path, usize::try_from(bytes).ok()?))
    })
}

/// How many records make the backlog that is to be drained, if one is.
fn backlog(theirs: &Theirs, notes: &mut Vec<String>) -> Option<u64> {
    /// A GB of theirs.
    const GB: f64 = (1 << 30) as f64;
    let size = theirs.consumer_backlog_size_gb;
    (size > 0.0).then(|| {
        if theirs.backlog_drain_ratio < 1.0 {
            let ratio = theirs.backlog_drain_ratio;
            notes.push(format!("backlogDrainRatio {ratio}: all of the backlog is read"));
        }
        notes.push(format!(
            "consumerBacklogSizeGB {size}: so much is written first, and then it is measured how it is read; \
             their harness goes on writing meanwhile"
        ));
        notes.push(format!(
            "testDurationMinutes {}: it ends once the backlog is read, however long that takes",
            theirs.test_duration_minutes
        ));
        (size * GB / theirs.message_size.max(1) as f64).ceil() as u64
    })
}

/// Theirs are of each topic, ours of all together.
fn of_all_topics(theirs: &Theirs, what: &str, each: u16, notes: &mut Vec<String>) -> u64 {
    let all = u64::from(each) * u64::from(theirs.topics);
    if all > CLIENTS_MAX {
        notes.push(format!("{what}: {all} of them become {CLIENTS_MAX}, who share the topics"));
    }
    all.min(CLIENTS_MAX)
}
