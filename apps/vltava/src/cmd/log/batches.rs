//! The batches of a segment.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};
use metadata::MetadataRecord;
use records::{
    BatchError, BatchHeader, ControlType, HEADER_BYTES, LENGTH_PREFIX_BYTES, Record, Scratch, StoredBatch,
    TimestampType,
};
use serde_json::{Value, json};

use super::groups;
use super::line::{Lines, shown, time};

/// The directory of the log whose records say what the cluster is.
const METADATA_DIR: &str = "__cluster_metadata-0";

/// Whose records they are: how they are put into words.
#[derive(Clone, Copy)]
enum Of {
    Cluster,
    Groups,
    Users,
}

impl Of {
    /// By the name of the file and of its directory.
    fn file(path: &Path) -> Self {
        let dir = path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
        match path.extension().is_some_and(|extension| extension == "checkpoint") {
            true => Self::Cluster,
            false if dir == METADATA_DIR => Self::Cluster,
            false if groups::is_theirs(dir) => Self::Groups,
            false => Self::Users,
        }
    }

    /// The key and the value of a record.
    fn say(self, record: &Record<'_>) -> (Value, Value) {
        let said = match self {
            Self::Cluster => record
                .value
                .map(MetadataRecord::decode)
                .and_then(Result::ok)
                .map(|decoded| (shown(record.key), json!(format!("{decoded:?}")))),
            Self::Groups => groups::read(record.key, record.value),
            Self::Users => None,
        };
        said.unwrap_or_else(|| (shown(record.key), shown(record.value)))
    }
}

/// Prints each batch, and its records if they are wanted.
pub(super) fn dump(path: &Path, records: bool, lines: &mut Lines<'_>) -> Result<()> {
    let file = File::open(path).context("cannot open it")?;
    let len = file.metadata()?.len();
    let of = Of::file(path);
    let mut segment = Segment { file, len, position: 0, raw: Vec::new() };
    let mut scratch = Scratch::default();
    while let Some((position, raw)) = segment.next_batch(lines)? {
        match StoredBatch::check(raw) {
            Ok(batch) => {
                of_header(position, batch.header(), lines)?;
                if records {
                    of_records(position, &batch, of, &mut scratch, lines)?;
                }
            }
            Err(error) => {
                // The header may still tell what was there, and the length is what the next batch is found by.
                if let Ok(header) = BatchHeader::parse(raw) {
                    of_header(position, &header, lines)?;
                }
                lines.damage(position, &error.to_string())?;
            }
        }
    }
    Ok(())
}

/// A segment that is read batch by batch.
struct Segment {
    file: File,
    len: u64,
    position: u64,
    raw: Vec<u8>,
}

impl Segment {
    /// The next batch and where it lies; nothing at the end, or where no length leads any further.
    fn next_batch(&mut self, lines: &mut Lines<'_>) -> Result<Option<(u64, &[u8])>> {
        let left = self.len - self.position;
        if left == 0 {
            return Ok(None);
        }
        let header_bytes = usize::try_from(left).unwrap_or(usize::MAX).min(HEADER_BYTES);
        self.raw.resize(header_bytes, 0);
        self.file.read_exact_at(&mut self.raw, self.position)?;
        let size = match BatchHeader::parse(&self.raw) {
            Ok(header) => header.size_bytes() as u64,
            Err(_) if self.raw.iter().all(|byte| *byte == 0) => {
                self.zeroes(lines)?;
                return Ok(None);
            }
            Err(BatchError::Truncated { .. }) => u64::MAX,
            Err(error) => {
                lines.damage(self.position, &error.to_string())?;
                return Ok(None);
            }
        };
        if size > left {
            lines.damage(self.position, &format!("the batch is torn: {left} bytes are left of it"))?;
            return Ok(None);
        }
        self.raw.resize(usize::try_from(size)?, 0);
        self.file.read_exact_at(&mut self.raw, self.position)?;
        let position = self.position;
        self.position += size;
        Ok(Some((position, &self.raw)))
    }

    /// Zeroes to the end are a file that was made long in advance, or a tail that was never written.
    /// Zeroes with something behind them are a hole.
    fn zeroes(&mut self, lines: &mut Lines<'_>) -> Result<()> {
        const BYTES_AT_ONCE: u64 = 1 << 20;
        let mut end = self.position;
        while end < self.len {
            self.raw.resize(usize::try_from((self.len - end).min(BYTES_AT_ONCE))?, 0);
            self.file.read_exact_at(&mut self.raw, end)?;
            if let Some(zeroes) = self.raw.iter().position(|byte| *byte != 0) {
                let hole = end + zeroes as u64 - self.position;
                return lines.damage(self.position, &format!("a hole: {hole} zeroes, and more behind them"));
            }
            end += self.raw.len() as u64;
        }
        let bytes = self.len - self.position;
        lines.found("zeroes", &[("position", json!(self.position)), ("bytes", json!(bytes))])
    }
}

fn of_header(position: u64, header: &BatchHeader, lines: &mut Lines<'_>) -> Result<()> {
    let attributes = header.attributes;
    let compression = attributes.compression().map_or("unknown", |compression| compression.name());
    let idempotent = header.producer_id.0 >= 0;
    let of_producer = |number: i64| if idempotent { json!(number) } else { Value::Null };
    let flag = |on: bool| if on { json!(true) } else { Value::Null };
    lines.found(
        "batch",
        &[
            ("position", json!(position)),
            ("bytes", json!(LENGTH_PREFIX_BYTES as i64 + i64::from(header.batch_length))),
            ("offset", json!(header.base_offset.0)),
            ("last_offset", json!(header.base_offset.0.saturating_add(header.last_offset_delta.into()))),
            ("records", json!(header.records_count)),
            ("epoch", json!(header.leader_epoch.0)),
            ("time", time(header.max_timestamp)),
            ("time_by", json!(by(attributes.timestamp_type()))),
            ("compression", json!(compression)),
            ("producer", of_producer(header.producer_id.0)),
            ("producer_epoch", of_producer(header.producer_epoch.0.into())),
            ("sequence", of_producer(header.base_sequence.0.into())),
            ("transactional", flag(attributes.is_transactional())),
            ("control", flag(attributes.is_control())),
            ("crc", json!(format!("{:08x}", header.crc))),
        ],
    )
}

fn of_records(
    position: u64,
    batch: &StoredBatch<'_>,
    of: Of,
    scratch: &mut Scratch,
    lines: &mut Lines<'_>,
) -> Result<()> {
    let records = match batch.records(scratch) {
        Ok(records) => records,
        Err(error) => return lines.damage(position, &error.to_string()),
    };
    for record in records {
        match record {
            Ok(record) if batch.header().attributes.is_control() => {
                of_marker(batch.header(), &record, lines)?
            }
            Ok(record) => of_record(batch.header(), &record, of, lines)?,
            Err(error) => return lines.damage(position, &error.to_string()),
        }
    }
    Ok(())
}

fn of_record(header: &BatchHeader, record: &Record<'_>, of: Of, lines: &mut Lines<'_>) -> Result<()> {
    let (key, value) = of.say(record);
    let headers: Vec<Value> =
        record.headers.map(|header| json!([shown(Some(header.key)), shown(header.value)])).collect();
    lines.found(
        "record",
        &[
            ("offset", json!(record.offset(header).0)),
            ("time", time(record.timestamp(header))),
            ("key", key),
            ("value", value),
            ("headers", if headers.is_empty() { Value::Null } else { Value::Array(headers) }),
        ],
    )
}

fn of_marker(header: &BatchHeader, record: &Record<'_>, lines: &mut Lines<'_>) -> Result<()> {
    let of = record.key.map(ControlType::from_key);
    let of = match of {
        Some(Ok(of)) => json!(format!("{of:?}")),
        _ => shown(record.key),
    };
    lines.found(
        "record",
        &[
            ("offset", json!(record.offset(header).0)),
            ("time", time(record.timestamp(header))),
            ("marker", of),
            ("value", shown(record.value)),
        ],
    )
}

fn by(of: TimestampType) -> &'static str {
    match of {
        TimestampType::CreateTime => "producer",
        TimestampType::LogAppendTime => "broker",
    }
}
