//! The topics that a group reads, and what is known of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use metadata::settings::is_internal;
use metadata::{Image, Topic};
use regex::{Regex, RegexBuilder};

use super::re2::translated;
use super::settings::ConsumerGroupError;

/// The longest pattern, in bytes: one over topic names of 249 characters needs no more.
const REGEX_BYTES_MAX: usize = 4096;
/// How big a pattern may become when it is compiled, in bytes.
const REGEX_COMPILED_BYTES_MAX: usize = 1 << 20;
/// What matching with it may take besides: its automaton is made as it is needed, and thrown away where it gets larger.
const REGEX_MATCHING_BYTES_MAX: usize = 256 << 10;
/// How deep the groups of a pattern may be nested.
const REGEX_NEST_MAX: u32 = 64;

/// Says which hash this is: another one gets another number.
const HASH_VERSION: u8 = 0;

/// A hash over what is known of topics: their ids, sizes, and the racks of their replicas. What does not exist has no
/// part in it.
///
/// It is ours and not Kafka's XXH3: it is only ever compared with itself, and an adopted group rebalances once.
pub(super) fn hash(names: &[&str], image: &Image) -> i64 {
    let mut hash = Fnv::default();
    hash.put(&[HASH_VERSION]);
    for topic in names.iter().filter_map(|name| image.topic(name)) {
        hash.put(&topic.id.0.0);
        hash.put(topic.name.as_str().as_bytes());
        hash.put(&topic.partitions().len().to_le_bytes());
        for racks in racks(topic, image) {
            hash.put(&racks.len().to_le_bytes());
            for rack in racks {
                hash.put(&rack.len().to_le_bytes());
                hash.put(rack.as_bytes());
            }
        }
    }
    i64::from_le_bytes(hash.0.to_le_bytes())
}

/// The racks of each partition's replicas, sorted; none for brokers that have none.
pub(super) fn racks<'a>(topic: &'a Arc<Topic>, image: &'a Image) -> impl Iterator<Item = Vec<&'a str>> {
    topic.partitions().iter().map(|partition| {
        let brokers = partition.replicas.iter().filter_map(|id| image.broker(*id));
        let mut racks: Vec<&str> = brokers.filter_map(|broker| broker.rack.as_deref()).collect();
        racks.sort_unstable();
        racks.dedup();
        racks
    })
}

/// The patterns of a group, compiled: that takes longer than matching them with the names of some thousand topics.
#[derive(Debug, Default)]
pub(super) struct Patterns(BTreeMap<String, Regex>);

impl Patterns {
    /// A member comes with a pattern.
    ///
    /// # Errors
    /// If it is not one of RE2's, or would take too much.
    pub(super) fn learn(&mut self, regex: &str) -> Result<(), ConsumerGroupError> {
        if !self.0.contains_key(regex) {
            let compiled = compile(regex)?;
            self.0.insert(regex.to_owned(), compiled);
        }
        Ok(())
    }

    /// Nobody has any but these.
    pub(super) fn keep<'a>(&mut self, regexes: impl IntoIterator<Item = &'a String>) {
        let regexes: BTreeSet<&String> = regexes.into_iter().collect();
        self.0.retain(|regex, _| regexes.contains(regex));
    }

    /// The names of all topics that a pattern matches as a whole, sorted; none of the cluster's own. Kafka finds those,
    /// too, and a member that wants all topics then reads what it commits, and commits how far it came in that.
    pub(super) fn matching(&mut self, regex: &str, image: &Image) -> Vec<String> {
        // One that does not compile was refused when it came; in a record of Kafka's it stands for nothing.
        let _ = self.learn(regex);
        let Some(regex) = self.0.get(regex) else { return Vec::new() };
        let names = image.topics().map(|topic| topic.name.as_str());
        names.filter(|name| !is_internal(name) && regex.is_match(name)).map(str::to_owned).collect()
    }

    #[cfg(test)]
    pub(super) fn known(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

/// A pattern that matches whole names.
///
/// # Errors
/// If it is not one of RE2's, or would take too much.
fn compile(regex: &str) -> Result<Regex, ConsumerGroupError> {
    let wrong =
        |reason: String| ConsumerGroupError::InvalidRegex { regex: base::excerpt(regex, 256), reason };
    if regex.len() > REGEX_BYTES_MAX {
        return Err(wrong(format!("it is longer than {REGEX_BYTES_MAX} bytes")));
    }
    let translated = translated(regex);
    let build = |pattern: &str| {
        let mut builder = RegexBuilder::new(pattern);
        builder.size_limit(REGEX_COMPILED_BYTES_MAX).dfa_size_limit(REGEX_MATCHING_BYTES_MAX);
        builder.nest_limit(REGEX_NEST_MAX).build()
    };
    // By itself first: a bracket too many must not find its other half in what is put around it.
    build(&translated).and_then(|_| build(&format!(r"\A(?:{translated})\z"))).map_err(|error| {
        let reason = error.to_string();
        wrong(reason.lines().last().unwrap_or_default().trim().to_owned())
    })
}

/// FNV-1a with 64 bits: the same in every release, which a hash of the standard library is not.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn put(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
