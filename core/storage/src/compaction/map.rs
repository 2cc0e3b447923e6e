//! The last offset of each key, in memory of a fixed size.
//!
//! ```text
//!   key ── hash, 128 bits ──▶ slot, and those behind it until one is free
//!   slot, 24 bytes          | hash [u64; 2] | offset i64 |
//! ```
//!
//! Keys are not kept, as in Kafka's map of the same size per key: two keys with one hash would be taken for
//! one, and the older of their values be dropped. Among the 5 million keys that 128 MiB have room for, that
//! happens by chance once in 10^25 compactions. The hash is SipHash-1-3, twice, with the topic's id before the key:
//! who wants to make two keys collide has to find such a pair for each topic anew, among 2^64 tries, and loses
//! records that he may write over anyway.

use std::hash::{DefaultHasher, Hasher as _};

use base::{Offset, TopicId};

const SLOT_BYTES: usize = size_of::<Slot>();

/// No more than three quarters of the slots are taken: beyond that, looking for one takes long.
const LOAD: (usize, usize) = (3, 4);

#[derive(Debug, Clone, Copy)]
struct Slot {
    hash: [u64; 2],
    /// [`Offset::NONE`] if it is free.
    offset: Offset,
}

const FREE: Slot = Slot { hash: [0; 2], offset: Offset::NONE };

/// Keys and the last offset of each.
#[derive(Debug)]
pub(super) struct OffsetMap {
    topic: TopicId,
    slots: Vec<Slot>,
    taken: usize,
    taken_max: usize,
}

impl OffsetMap {
    /// Room for `keys`, if that is within `bytes_max`; always for some.
    pub(super) fn new(topic: TopicId, keys: u64, bytes_max: usize) -> Self {
        let wanted = usize::try_from(keys).unwrap_or(usize::MAX).saturating_mul(LOAD.1) / LOAD.0;
        let slots = wanted.saturating_add(1).min(bytes_max / SLOT_BYTES).max(LOAD.1);
        Self { topic, slots: vec![FREE; slots], taken: 0, taken_max: slots.saturating_mul(LOAD.0) / LOAD.1 }
    }

    /// Notes that `key` is at `offset`, which is behind all before; `false` if there is no room for it.
    pub(super) fn put(&mut self, key: &[u8], offset: Offset) -> bool {
        let hash = self.hash(key);
        let at = self.find(hash);
        let slot = &mut self.slots[at];
        if slot.offset == Offset::NONE {
            if self.taken == self.taken_max {
                return false;
            }
            self.taken += 1;
        }
        *slot = Slot { hash, offset };
        true
    }

    /// The last offset of `key`.
    pub(super) fn get(&self, key: &[u8]) -> Option<Offset> {
        let slot = self.slots[self.find(self.hash(key))];
        (slot.offset != Offset::NONE).then_some(slot.offset)
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.taken
    }

    /// The slot with the hash, or the free one where it belongs.
    fn find(&self, hash: [u64; 2]) -> usize {
        let from = (u128::from(hash[0]) * self.slots.len() as u128) >> u64::BITS;
        let mut at = usize::try_from(from).unwrap_or(0);
        // Some are always free.
        while self.slots[at].offset != Offset::NONE && self.slots[at].hash != hash {
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
        at
    }

    fn hash(&self, key: &[u8]) -> [u64; 2] {
        [0, 1].map(|which| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u8(which);
            hasher.write(&self.topic.0.0);
            hasher.write(key);
            hasher.finish()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use base::Uuid;
    use proptest::prelude::*;

    use super::*;

    const TOPIC: TopicId = TopicId(Uuid([7; 16]));

    proptest! {
        #[test]
        fn it_has_the_last_offset_of_each_key(keys in prop::collection::vec(any::<u8>(), 0..400), room in 0usize..300) {
            let mut map = OffsetMap::new(TOPIC, 1000, room * SLOT_BYTES);
            let mut expected = BTreeMap::new();
            for (offset, &key) in (0..).map(Offset).zip(&keys) {
                if !map.put(&[key], offset) {
                    prop_assert!(!expected.contains_key(&key), "a key that is there needs no room");
                    prop_assert!(expected.len() >= room / 2, "{} of {room}", expected.len());
                    break;
                }
                expected.insert(key, offset);
            }
            prop_assert_eq!(map.len(), expected.len());
            for key in 0..=255 {
                prop_assert_eq!(map.get(&[key]), expected.get(&key).copied());
            }
        }
    }

    #[test]
    fn it_is_no_larger_than_it_has_to_be() {
        assert_eq!(SLOT_BYTES, 24);
        for keys in 0..300 {
            let map = OffsetMap::new(TOPIC, keys, 128 << 20);
            assert!(map.taken_max as u64 >= keys && map.slots.len() <= 4 + keys as usize * 4 / 3, "{keys}");
        }
        let full = OffsetMap::new(TOPIC, u64::MAX, 1 << 20);
        assert!(full.slots.len() * SLOT_BYTES <= 1 << 20 && full.taken_max > 32_000);
        // With no memory at all there is room for a key, so that compaction goes on.
        assert!(OffsetMap::new(TOPIC, 10, 0).put(b"k", Offset(1)));
    }
}
