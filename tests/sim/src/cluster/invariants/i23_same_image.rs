//! I23: the cluster is the same for all nodes that know as much of it: a snapshot and what follows, or all
//! batches from the first one on.

use base::Offset;
use metadata::Image;

use super::violation;
use crate::cluster::quorum::Entry;
use crate::violation::Violation;

/// A node knows the cluster as it was after some batch.
pub(crate) fn check(node: usize, image: &Image, log: &[Entry], found: &mut Vec<Violation>) {
    let place = log.partition_point(|entry| entry.image.end() < image.end());
    let entry = log.get(place);
    if image.end() > Offset::ZERO && entry.is_none_or(|entry| *entry.image != *image) {
        let known = entry.map(|entry| &entry.image);
        let what = format!("node {node} at {}: {image:?}, and it is {known:?}", image.end());
        violation(found, "I23 same image", what);
    }
}
