//! I4: with idempotence nothing is there twice, in one partition or in two.

use std::collections::BTreeMap;

use crate::client::broker::{Partition, TOPICS};
use crate::violation::Violation;

const NAME: &str = "I4 no duplicate";

/// Looks at all that the brokers hold of an idempotent producer.
pub(in crate::client) fn check(partitions: &BTreeMap<(usize, i32), Partition>, found: &mut Vec<Violation>) {
    let mut places = BTreeMap::new();
    for (&(topic, index), partition) in partitions {
        for (offset, &value) in partition.log.iter().enumerate() {
            let here = format!("{}-{index} at {offset}", TOPICS[topic]);
            if let Some(before) = places.insert(value, here.clone()) {
                found.push(Violation {
                    invariant: NAME,
                    what: format!("{value} is in {before} and in {here}"),
                });
            }
        }
    }
}
