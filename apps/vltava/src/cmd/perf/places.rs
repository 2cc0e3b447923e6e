//! The partitions that a consumer reads, and how much of each it read.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use base::Offset;
use client::Admin;
use client::admin::{At, Topic};
use regex_lite::Regex;

use super::readback::{self, Ends};
use bench::verify::Extent;

/// Partitions in the order of their topics and numbers.
pub(super) struct Places {
    topics: Vec<Topic>,
    places: Vec<Place>,
    /// Where the last batch came from, which is most often where the next one does.
    last: usize,
}

struct Place {
    topic: String,
    partition: i32,
    /// Behind what was read.
    next: Option<Offset>,
}

impl Places {
    /// Of one topic, or of all whose whole name matches.
    pub(super) fn find(admin: &Admin, name: Option<&str>, include: Option<&str>) -> Result<Self> {
        let mut topics = Vec::new();
        if let Some(name) = name {
            let topic = readback::topic(admin, name)?;
            topics.push(topic.with_context(|| format!("topic {name} is not there"))?);
        }
        if let Some(include) = include {
            let pattern = Regex::new(&format!("^(?:{include})$"));
            let pattern = pattern.with_context(|| format!("--include {include}"))?;
            let all = admin.list_topics().wait()?.into_iter();
            topics.extend(all.filter(|topic| !topic.is_internal && pattern.is_match(&topic.name)));
            ensure!(!topics.is_empty(), "no topic matches --include {include}");
        }
        let of_topic = |topic: &Topic| {
            let name = topic.name.clone();
            let partitions: Vec<i32> = topic.partitions.iter().map(|partition| partition.index.0).collect();
            partitions.into_iter().map(move |partition| Place { topic: name.clone(), partition, next: None })
        };
        let mut places: Vec<Place> = topics.iter().flat_map(of_topic).collect();
        places.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
        Ok(Self { topics, places, last: 0 })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, i32)> {
        self.places.iter().map(|place| (&*place.topic, place.partition))
    }

    pub(super) fn first_topic(&self) -> &str {
        self.topics.first().map_or("", |topic| &topic.name)
    }

    pub(super) fn at(&mut self, topic: &str, partition: i32) -> Option<usize> {
        let is = |place: &Place| place.partition == partition && place.topic == topic;
        if !self.places.get(self.last).is_some_and(is) {
            let order = |place: &Place| (&*place.topic, place.partition).cmp(&(topic, partition));
            self.last = self.places.binary_search_by(order).ok()?;
        }
        Some(self.last)
    }

    pub(super) fn set_next(&mut self, place: usize, next: Offset) {
        self.places[place].next = Some(next);
    }

    /// How much of each was read, in the order of places.
    pub(super) fn extents(&self, admin: &Admin, from_latest: bool) -> Result<Vec<Extent>> {
        let mut known: BTreeMap<&str, (Ends, Ends)> = BTreeMap::new();
        for topic in &self.topics {
            let begins = readback::offsets(admin, topic, At::Earliest)?;
            known.insert(&topic.name, (begins, readback::offsets(admin, topic, At::Latest)?));
        }
        let extent = |place: &Place| {
            let offset = |ends: &Ends| ends.get(&base::PartitionIndex(place.partition)).copied();
            let (begin, end) = known
                .get(&*place.topic)
                .map_or((None, None), |(begins, ends)| (offset(begins), offset(ends)));
            Extent {
                from_start: !from_latest && begin == Some(Offset(0)),
                // What is empty was read to its end.
                to_end: end.is_some_and(|end| place.next.or(begin).is_some_and(|next| next >= end)),
            }
        };
        Ok(self.places.iter().map(extent).collect())
    }
}
