//! I5: with idempotence the order of sending is that of the log.

use std::collections::BTreeMap;

use crate::client::broker::{Partition, TOPICS};
use crate::violation::Violation;

const NAME: &str = "I5 order of sending";

/// Looks at all that the brokers hold of an idempotent producer, whose values rise.
pub(in crate::client) fn check(partitions: &BTreeMap<(usize, i32), Partition>, found: &mut Vec<Violation>) {
    for (&(topic, index), partition) in partitions {
        if let Some(pair) = partition.log.windows(2).find(|pair| pair[0] > pair[1]) {
            let what = format!("{}-{index} holds {} before {}", TOPICS[topic], pair[0], pair[1]);
            found.push(Violation { invariant: NAME, what });
        }
    }
}
