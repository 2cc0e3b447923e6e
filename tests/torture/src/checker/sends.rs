//! What is known of each value: where it was sent, what its producer was told, where it was seen first.

use std::collections::{BTreeMap, BTreeSet};

use super::anomaly::{Anomaly, Found, Value};
use crate::history::{Event, Promises, Sent};

/// What a producer was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing.
    Open,
    /// That it is there, and perhaps where.
    Acknowledged(Option<i64>),
    /// That nobody knows.
    Unknown,
    /// That it is not written.
    Failed,
}

/// One value.
#[derive(Clone, Copy, Debug)]
pub(super) struct One {
    pub(super) partition: i32,
    pub(super) outcome: Outcome,
    /// The first offset that was claimed for it.
    pub(super) place: Option<i64>,
}

#[derive(Debug, Default)]
struct Producer {
    /// By number; producers count from 0 without gaps, or nearly so.
    values: BTreeMap<u64, Vec<Option<One>>>,
    promises: Promises,
}

const PAGE: u64 = 1024;

/// All values.
#[derive(Debug, Default)]
pub(super) struct Sends {
    producers: BTreeMap<u32, Producer>,
    partitions: BTreeSet<i32>,
}

impl Sends {
    /// What a line says of values.
    pub(super) fn take_down(&mut self, event: &Event, found: &mut Found) {
        match event {
            Event::Producer { by, promises, .. } => {
                self.producers.entry(*by).or_default().promises = *promises;
            }
            Event::Invoke(sent) => self.invoke(sent, found),
            Event::Ok { sent, offset } => {
                self.tell(sent, found, |index| Outcome::Acknowledged(offset.map(|offset| offset + index)))
            }
            Event::Info { sent, .. } => self.tell(sent, found, |_| Outcome::Unknown),
            Event::Fail { sent, .. } => self.tell(sent, found, |_| Outcome::Failed),
            // They say nothing of what was sent.
            _ => {}
        }
    }

    fn invoke(&mut self, sent: &Sent, found: &mut Found) {
        self.partitions.insert(sent.partition);
        let producer = self.producers.entry(sent.by).or_default();
        for number in (0..u64::from(sent.count)).map(|index| sent.first + index) {
            let page = producer.values.entry(number / PAGE).or_insert_with(|| vec![None; PAGE as usize]);
            let one = &mut page[(number % PAGE) as usize];
            if one.is_some() {
                let what = format!("{}:{number} was sent twice", sent.by);
                found.add(Anomaly::Nonsense { what });
            }
            *one = Some(One { partition: sent.partition, outcome: Outcome::Open, place: None });
        }
    }

    fn tell(&mut self, sent: &Sent, found: &mut Found, outcome: impl Fn(i64) -> Outcome) {
        for index in 0..u64::from(sent.count) {
            let value = (sent.by, sent.first + index);
            let one = self.get_mut(value);
            let wrong = match one {
                None => Some("was never sent, but its producer was told of it".to_owned()),
                Some(one) if one.partition != sent.partition => {
                    Some(format!("was sent to {} and answered for {}", one.partition, sent.partition))
                }
                Some(one) if one.outcome != Outcome::Open => Some("was answered twice".to_owned()),
                Some(one) => {
                    one.outcome = outcome(index as i64);
                    None
                }
            };
            if let Some(wrong) = wrong {
                found.add(Anomaly::Nonsense { what: format!("{}:{} {wrong}", value.0, value.1) });
            }
        }
    }

    pub(super) fn get(&self, (by, number): Value) -> Option<&One> {
        let page = self.producers.get(&by)?.values.get(&(number / PAGE))?;
        page[(number % PAGE) as usize].as_ref()
    }

    fn get_mut(&mut self, (by, number): Value) -> Option<&mut One> {
        let page = self.producers.get_mut(&by)?.values.get_mut(&(number / PAGE))?;
        page[(number % PAGE) as usize].as_mut()
    }

    /// A value is seen at an offset; the other at which it was seen before, and whether that may be.
    pub(super) fn place(&mut self, value: Value, offset: i64) -> Option<(i64, bool)> {
        let promises = self.producers.get(&value.0).map_or_else(Promises::default, |of| of.promises);
        let one = self.get_mut(value)?;
        let before = *one.place.get_or_insert(offset);
        (before != offset).then_some((before, promises != Promises::OnceInOrder))
    }

    /// Where values were sent.
    pub(super) fn partitions(&self) -> impl Iterator<Item = &i32> {
        self.partitions.iter()
    }

    /// All of them, those of a producer in their order.
    pub(super) fn each(&self) -> impl Iterator<Item = (Value, &One)> {
        self.producers
            .iter()
            .flat_map(|(by, producer)| producer.each().map(move |(number, one)| ((*by, number), one)))
    }

    /// Acknowledged values whose offsets are not in the order they were sent in.
    pub(super) fn reordered(&self, found: &mut Found) {
        for (by, producer) in self.producers.iter().filter(|(_, of)| of.promises != Promises::Nothing) {
            let mut last = BTreeMap::<i32, (u64, i64)>::new();
            for (number, one) in producer.each() {
                let Outcome::Acknowledged(Some(offset)) = one.outcome else { continue };
                let partition = one.partition;
                if let Some((before, at)) = last.insert(partition, (number, offset))
                    && at >= offset
                {
                    let values = ((*by, before), (*by, number));
                    found.add(Anomaly::Reordered { partition, values, offsets: (at, offset) });
                }
            }
        }
    }
}

impl Producer {
    fn each(&self) -> impl Iterator<Item = (u64, &One)> {
        self.values.iter().flat_map(|(page, values)| {
            (0..).zip(values).filter_map(move |(at, one)| Some((page * PAGE + at, one.as_ref()?)))
        })
    }
}
