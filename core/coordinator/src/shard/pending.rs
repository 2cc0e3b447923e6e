//! Offsets that were committed in transactions, in a log that another wrote: this broker coordinates none.
//!
//! ```text
//!   offset of a transaction ─▶ kept apart ─┬─ its producer's commit marker ─▶ counts
//!                                          ├─ abort marker ────────────────▶ never was
//!                                          └─ the log ends ────────────────▶ nobody will end it: does not count
//! ```
//!
//! An offset counts from the place where it stands in the log, not from that of its marker: what was put down for the
//! same partition in between stays.

use std::collections::BTreeMap;

use base::{Map, Offset, ProducerId, TimestampMs};

use super::{Phase, Shard};
use crate::group_record::{GroupRecord, RecordError};

/// An offset, as the log has it.
#[derive(Debug)]
struct Pending {
    at: Offset,
    value: Vec<u8>,
}

/// See the module. It is empty unless a log of transactions is read.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    /// By producer, and the record's key.
    open: Map<ProducerId, BTreeMap<Vec<u8>, Pending>>,
}

impl Transactions {
    fn put(&mut self, producer: ProducerId, key: &[u8], pending: Pending) {
        self.open.entry(producer).or_default().insert(key.to_vec(), pending);
    }

    /// An offset counts that was put down here: one that was put down before and is not ended is out of date.
    pub(super) fn overtake(&mut self, key: &[u8], at: Offset) {
        for pending in self.open.values_mut() {
            if pending.get(key).is_some_and(|it| it.at < at) {
                pending.remove(key);
            }
        }
    }

    /// What its transaction has, in the order of the log.
    fn end(&mut self, producer: ProducerId) -> Vec<(Vec<u8>, Pending)> {
        let mut ended: Vec<_> = self.open.remove(&producer).unwrap_or_default().into_iter().collect();
        ended.sort_by_key(|(_, pending)| pending.at);
        ended
    }
}

impl Shard {
    /// A record of the log that is read, in a transaction of this producer: an offset counts once the transaction is
    /// committed. Groups are not written in transactions; if one is, it counts at once, as with Kafka.
    ///
    /// # Errors
    /// A record that is not what it says to be; nothing changed.
    pub fn on_transactional_record(
        &mut self,
        producer: ProducerId,
        (offset, time): (Offset, TimestampMs),
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<(), RecordError> {
        assert_eq!(self.phase, Phase::Loading, "records are read while the shard is loaded");
        let Some(key) = key else { return Ok(()) };
        match (GroupRecord::decode(key, value)?, value) {
            (Some(GroupRecord::OffsetCommit { .. }), Some(value)) => {
                self.transactions.put(producer, key, Pending { at: offset, value: value.to_vec() });
            }
            (Some(record), _) => self.groups.replay(record, (offset.next(), time)),
            (None, _) => {}
        }
        Ok(())
    }

    /// The log that is read says at `offset` how the transaction of this producer ended.
    pub fn on_transaction_end(&mut self, producer: ProducerId, offset: Offset, is_committed: bool) {
        assert_eq!(self.phase, Phase::Loading, "records are read while the shard is loaded");
        let ended = self.transactions.end(producer);
        for (key, Pending { at, value }) in ended.into_iter().filter(|_| is_committed) {
            let record = GroupRecord::decode(&key, Some(&value));
            let record = record.expect("it was read before").expect("only offsets are kept apart");
            // An offset says itself when it was committed.
            self.groups.replay(record, (offset.next(), TimestampMs::NONE));
            self.transactions.overtake(&key, at);
        }
    }

    /// How many transactions the log that is read has begun and not ended so far. None of their offsets counts.
    pub fn transactions_open(&self) -> usize {
        self.transactions.open.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base::{Effects, Now};

    use super::*;
    use metadata::Image;

    use crate::record::OffsetCommitValue;
    use crate::{Record, ShardSettings};

    const ONE: ProducerId = ProducerId(1);
    const TWO: ProducerId = ProducerId(2);

    fn commit(partition: i32, value: Option<i64>) -> Record {
        let value = value.map(|offset| OffsetCommitValue { offset, ..OffsetCommitValue::default() });
        GroupRecord::OffsetCommit { group: "g", topic: "t", partition, value }.encode()
    }

    /// What a log says, entry by entry.
    enum Said {
        Plain(Record),
        In(ProducerId, Record),
        End(ProducerId, bool),
    }

    /// The offsets of the group after a log was read, and how many transactions are open there.
    fn read(log: &[Said]) -> (Vec<(i32, i64)>, usize) {
        let mut shard = Shard::new(ShardSettings::default());
        shard.on_load_begin();
        for (offset, said) in (0..).map(Offset).zip(log) {
            let at = (offset, TimestampMs(0));
            match said {
                Said::Plain(it) => shard.on_record(at, Some(&it.key), it.value.as_deref()).unwrap(),
                Said::In(producer, it) => {
                    shard.on_transactional_record(*producer, at, Some(&it.key), it.value.as_deref()).unwrap()
                }
                Said::End(producer, commits) => shard.on_transaction_end(*producer, offset, *commits),
            }
        }
        let open = shard.transactions_open();
        let end = Offset(log.len() as i64);
        let now = Now::new(Duration::ZERO, TimestampMs(0));
        shard.on_loaded(now, (end, end), &Image::default(), &mut Effects::new());
        assert_eq!(shard.transactions_open(), 0, "nobody will end them");
        let of_topic = shard.groups.get("g").and_then(|group| group.offsets.in_topic("t"));
        let offsets = of_topic.into_iter().flatten().map(|(partition, it)| (*partition, it.offset)).collect();
        (offsets, open)
    }

    #[test]
    fn an_offset_counts_once_its_transaction_is_committed() {
        use Said::{End, In, Plain};
        let said =
            || vec![Plain(commit(0, Some(1))), In(ONE, commit(0, Some(7))), In(ONE, commit(1, Some(8)))];
        let with = |more: Vec<Said>| read(&said().into_iter().chain(more).collect::<Vec<_>>());
        assert_eq!(with(vec![]), (vec![(0, 1)], 1), "it is open");
        assert_eq!(with(vec![End(ONE, true)]), (vec![(0, 7), (1, 8)], 0));
        assert_eq!(with(vec![End(ONE, false)]), (vec![(0, 1)], 0));
        assert_eq!(with(vec![End(TWO, true)]), (vec![(0, 1)], 1), "that is another's");
        // The next transaction of the same producer is another one.
        let next = vec![End(ONE, false), In(ONE, commit(1, Some(9))), End(ONE, true)];
        assert_eq!(with(next), (vec![(0, 1), (1, 9)], 0));
        // It is put down twice in one transaction: the last counts.
        assert_eq!(with(vec![In(ONE, commit(0, Some(6))), End(ONE, true)]).0, [(0, 6), (1, 8)]);
    }

    #[test]
    fn what_was_put_down_later_stays_whenever_the_transaction_ends() {
        use Said::{End, In, Plain};
        let log = [In(ONE, commit(0, Some(7))), Plain(commit(0, Some(9))), End(ONE, true)];
        assert_eq!(read(&log).0, [(0, 9)]);
        let log = [In(ONE, commit(0, Some(7))), In(TWO, commit(0, Some(9))), End(TWO, true), End(ONE, true)];
        assert_eq!(read(&log).0, [(0, 9)]);
        let log = [In(ONE, commit(0, Some(7))), In(TWO, commit(0, Some(9))), End(ONE, true), End(TWO, true)];
        assert_eq!(read(&log).0, [(0, 9)]);
        // Forgotten meanwhile, it is there again.
        let log = [In(ONE, commit(0, Some(7))), Plain(commit(0, None)), End(ONE, true)];
        assert_eq!(read(&log).0, [(0, 7)]);
    }

    #[test]
    fn what_cannot_be_read_changes_nothing() {
        let mut shard = Shard::new(ShardSettings::default());
        shard.on_load_begin();
        let key = commit(0, Some(1)).key;
        let at = |offset| (Offset(offset), TimestampMs(0));
        assert!(shard.on_transactional_record(ONE, at(0), Some(&key), Some(&[0, 9])).is_err());
        assert_eq!(shard.transactions_open(), 0);
        // Kinds that are not kept here are passed over.
        let stranger = [0, 99, 1, 2, 3];
        assert_eq!(shard.on_transactional_record(ONE, at(1), Some(&stranger), None), Ok(()));
        assert_eq!(shard.on_transactional_record(ONE, at(2), None, Some(b"x")), Ok(()));
    }
}
