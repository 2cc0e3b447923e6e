//! The disk of one node gives back what it was not given: a bit of records that were durable there.
//!
//! Only of what the log knows to be durable: below its recovery point. What a disk loses of the rest looks like the end
//! of a log that was never promised, and no one can tell it from that.

use std::path::{Path, PathBuf};

use storage::layout::{FileKind, FileName, parse_file_name};

use super::World;
use crate::cluster::process::PartitionKey;
use crate::disk::SimDisk;

/// A byte that is not what was written.
#[derive(Debug)]
pub(super) struct Rotten {
    node: usize,
    key: PartitionKey,
    path: PathBuf,
    position: usize,
    byte: u8,
}

/// What of a batch is under no checksum, and is not compared with anything else that everybody knows: where it begins,
/// and its leader epoch.
fn is_unprotected(position: usize) -> bool {
    position < 8 || (12..16).contains(&position)
}

impl World {
    /// A bit flips on the disk that rots.
    pub(in crate::cluster) fn rot(&mut self) {
        let Some(node) = self.options.rots else { return };
        let places = self.places(node);
        if places.is_empty() {
            return;
        }
        let (key, path, batch) = places[self.disks.index(places.len())].clone();
        let position = batch.start + self.disks.index(batch.len());
        if is_unprotected(position - batch.start) {
            return;
        }
        let mask = 1 << self.disks.below(8);
        let disk = &self.nodes[node].disk;
        disk.rot(&path, position, mask);
        let Some(byte) = byte_at(disk, &path, position) else { return };
        self.rotten.push(Rotten { node, key, path, position, byte });
        let decided = self.quorum.image();
        let decided = decided.partition(key.0, key.1);
        if let Some(history) = self.truth.histories.get_mut(&key) {
            let name = history.name.clone();
            history.doubt(node, true, decided.map(|it| &**it));
            self.say(format_args!("{name} rots on node {node}, {} at {position}", self.rotten.len()));
        }
    }

    /// Batches of a node that were committed and are durable as far as it has noted: in which file, and where.
    fn places(&self, node: usize) -> Vec<(PartitionKey, PathBuf, std::ops::Range<usize>)> {
        let mut places = Vec::new();
        let Some(process) = self.nodes[node].process.as_ref() else { return places };
        let disk = &self.nodes[node].disk;
        for (key, cell) in &process.cells {
            let Some(history) = self.truth.histories.get(key).filter(|it| it.outlives_a_disk()) else {
                continue;
            };
            let dir = cell.with(|partition| partition.log().dir().to_owned());
            let noted = process.recovery_point_noted(cell);
            for name in disk.names_on_media(&dir) {
                let FileName::Part(FileKind::Log, _) = parse_file_name(&name) else { continue };
                let path = dir.join(&name);
                let bytes = disk.on_media(&path).unwrap_or_default();
                let mut at = 0;
                for batch in records::batches(&bytes).map_while(Result::ok) {
                    let upto = at + batch.bytes().len();
                    if batch.next_offset() <= noted.min(history.end) {
                        places.push((*key, path.clone(), at..upto));
                    }
                    at = upto;
                }
            }
        }
        places
    }

    /// Whether records of a partition are not what was written, on this node.
    pub(in crate::cluster) fn is_rotten(&self, node: usize, key: PartitionKey) -> bool {
        is_rotten(&self.rotten, &self.nodes[node].disk, (node, key))
    }
}

/// Whether records of a partition are not what was written, on this disk of a node.
pub(super) fn is_rotten(rotten: &[Rotten], disk: &SimDisk, of: (usize, PartitionKey)) -> bool {
    let mut mine = rotten.iter().filter(|it| (it.node, it.key) == of);
    mine.any(|it| byte_at(disk, &it.path, it.position) == Some(it.byte))
}

fn byte_at(disk: &SimDisk, path: &Path, position: usize) -> Option<u8> {
    disk.peek(path)?.get(position).copied()
}
