//! Reads the whole metadata log, and tells a torn end from damage.
//!
//! ```text
//!   │ b0 │ b1 │ b2 │▒▒▒▒                  torn: the last commit was under way when the power went
//!   │ b0 │▒▒▒▒│ b2 │                      damage: b2 was begun after b1 was durable
//!   │ b0 │▒▒▒▒        durable end ▲       damage: it is known that there was more
//! ```
//!
//! A commit is synced before the next one begins. So a batch that stands behind bad bytes proves that
//! what stood there was durable, and cutting the log there would undo what was promised.

use std::path::{Path, PathBuf};

use base::Offset;
use records::{LENGTH_PREFIX_BYTES, MAGIC, StoredBatch, batches};
use storage::disk::{DirEntry, Disk, OpenMode};
use storage::layout::{FileKind, FileName, RECOVERY_POINTS_FILE, parse_file_name};

use crate::error::OpenError;
use crate::files::{START_FILE, VOTE_FILE};
use crate::snapshot::SnapshotId;

/// Where a batch says which format it has.
const MAGIC_AT: usize = 16;

/// What is done with each batch as it is.
pub(crate) type Each<'a> = dyn FnMut(&StoredBatch<'_>) -> Result<(), OpenError> + 'a;

/// Reads every batch of the log in `dir`, in order; where they end. What lies before `start` was purged: of
/// that, the front may be gone.
pub(crate) fn read_batches(
    disk: &dyn Disk,
    dir: &Path,
    start: Offset,
    durable: Offset,
    each: &mut Each<'_>,
) -> Result<Offset, OpenError> {
    let segments = segments(disk, dir)?;
    let first = segments.first().map_or(start, |(base, _)| *base);
    let mut scan = Scan { end: first.min(start), torn: None };
    for (base, name) in segments {
        let path = dir.join(name);
        let bytes = read_file(disk, &path)?;
        scan.segment(path, base, &bytes, each)?;
    }
    if let Some(torn) = scan.torn.filter(|_| scan.end < durable) {
        return Err(torn.damage);
    }
    if scan.end < durable {
        return Err(OpenError::Missing { path: dir.to_owned(), end: scan.end, durable });
    }
    Ok(scan.end)
}

/// Whether there are records of a log in `dir`, or a sign that there were.
pub(crate) fn has_log(disk: &dyn Disk, parent: &Path, dir: &Path) -> Result<bool, OpenError> {
    let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !disk.list(parent)?.iter().any(|entry| entry.name == name) {
        return Ok(false);
    }
    let is_sign = |entry: &DirEntry| match parse_file_name(&entry.name) {
        FileName::Part(FileKind::Log, base) => entry.len > 0 || base > Offset::ZERO,
        _ => {
            [RECOVERY_POINTS_FILE, VOTE_FILE, START_FILE].contains(&entry.name.as_str())
                || SnapshotId::parse(&entry.name).is_some()
        }
    };
    Ok(disk.list(dir)?.iter().any(is_sign))
}

fn segments(disk: &dyn Disk, dir: &Path) -> Result<Vec<(Offset, String)>, OpenError> {
    let mut segments = Vec::new();
    for entry in disk.list(dir)? {
        if let FileName::Part(FileKind::Log, base) = parse_file_name(&entry.name) {
            segments.push((base, entry.name));
        }
    }
    segments.sort();
    Ok(segments)
}

fn read_file(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, OpenError> {
    let file = disk.open(path, OpenMode::Read)?;
    // The cache may show what a flush that failed never wrote (ADR 0035).
    file.reread(0)?;
    let len = file.len()?;
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

struct Scan {
    /// Behind the last good batch.
    end: Offset,
    /// Where the batches stopped being good, if they did.
    torn: Option<Torn>,
}

/// A place where a batch was expected and is not.
struct Torn {
    damage: OpenError,
}

impl Scan {
    fn segment(
        &mut self,
        path: PathBuf,
        base: Offset,
        bytes: &[u8],
        each: &mut Each<'_>,
    ) -> Result<(), OpenError> {
        let mut position = 0;
        if self.torn.is_none() && base != self.end && !bytes.is_empty() {
            self.tear(&path, 0, format!("the segment begins at {base}, not at {}", self.end));
        }
        while self.torn.is_none() && position < bytes.len() {
            match next_batch(&bytes[position..], self.end) {
                Ok(batch) => {
                    self.end = batch.next_offset();
                    each(&batch)?;
                    position += batch.bytes().len();
                }
                Err(why) => self.tear(&path, position, why),
            }
        }
        match self.torn.take() {
            Some(torn) if any_batch(&bytes[position..], self.end) => Err(torn.damage),
            torn => {
                self.torn = torn;
                Ok(())
            }
        }
    }

    fn tear(&mut self, path: &Path, position: usize, why: String) {
        let damage = OpenError::Damaged { path: path.to_owned(), position, offset: self.end, why };
        self.torn = Some(Torn { damage });
    }
}

/// The batch at the front of the bytes, if it is one and begins at `expected`.
fn next_batch(bytes: &[u8], expected: Offset) -> Result<StoredBatch<'_>, String> {
    match batches(bytes).next() {
        None => Err("a batch that is not all there".into()),
        Some(Err(error)) => Err(error.to_string()),
        Some(Ok(batch)) if batch.base_offset() != expected => {
            Err(format!("a batch that begins at offset {}", batch.base_offset()))
        }
        Some(Ok(batch)) => Ok(batch),
    }
}

/// Whether a whole batch from `expected` or later stands anywhere in the bytes.
fn any_batch(bytes: &[u8], expected: Offset) -> bool {
    let places = 0..bytes.len().saturating_sub(MAGIC_AT);
    // Every byte may be the beginning of a batch; few look like one, and only their checksums are compared.
    places.filter(|at| i8::from_be_bytes([bytes[at + MAGIC_AT]]) == MAGIC).any(|at| {
        let front = &bytes[at..];
        let Some(base) = front.first_chunk().map(|base| Offset(i64::from_be_bytes(*base))) else {
            return false;
        };
        let Some(length) = batches(front).next_size_bytes() else { return false };
        base >= expected
            && length > LENGTH_PREFIX_BYTES
            && front.get(..length).is_some_and(|raw| StoredBatch::check(raw).is_ok())
    })
}
