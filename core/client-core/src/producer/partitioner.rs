//! Which partition a record goes to.
//!
//! A record with a key goes where Java's client puts it: murmur2 of the key, without its sign, modulo
//! the number of partitions. A record without one goes where the last one went, until that partition got
//! a batch's worth of bytes; the next is drawn, the less likely the more waits there (KIP-794).

use crate::chance::Chance;

/// The partition of a key among so many, as Java's `BuiltInPartitioner.partitionForKey`.
pub fn partition_for_key(key: &[u8], partitions: usize) -> usize {
    (murmur2(key) & 0x7fff_ffff) as usize % partitions.max(1)
}

/// MurmurHash2, 32 bits, with the seed of Java's client.
pub fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ bytes.len() as u32;
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes(*word.first_chunk().expect("chunks of four")).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    for (place, &byte) in rest.iter().enumerate() {
        hash ^= u32::from(byte) << (8 * place);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// Where records without a key go.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sticky {
    current: Option<usize>,
    bytes: usize,
    /// Whether the last batch of such records was about full when it left.
    pub(crate) fills: bool,
}

impl Sticky {
    /// The partition for the next record; `None` if there is none.
    pub(crate) const fn current(&self) -> Option<usize> {
        self.current
    }

    /// So many bytes were put there. Whether it got its share, so that another is to be drawn.
    #[inline]
    pub(crate) fn put(&mut self, bytes: usize, share: usize) -> bool {
        self.bytes += bytes;
        self.bytes >= share
    }

    /// Draws the next among partitions, each with the batches that wait there; `None` for one that has
    /// no leader, which is taken only if none has.
    pub(crate) fn draw(
        &mut self,
        waiting: impl ExactSizeIterator<Item = Option<usize>> + Clone,
        chance: &mut Chance,
    ) {
        self.bytes = 0;
        let count = waiting.len();
        let most = waiting.clone().flatten().max();
        let Some(most) = most else {
            self.current = (count > 0).then(|| chance.below(count as u64) as usize);
            return;
        };
        let weight = |waits: Option<usize>| waits.map_or(0, |waits| (most + 1 - waits) as u64);
        let mut drawn = chance.below(waiting.clone().map(weight).sum());
        for (index, waits) in waiting.enumerate() {
            let weight = weight(waits);
            if drawn < weight {
                self.current = Some(index);
                return;
            }
            drawn -= weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_land_where_java_puts_them() {
        // The values of org.apache.kafka.common.utils.UtilsTest.testMurmur2.
        for (key, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
        }
    }

    #[test]
    fn partitions_with_less_to_do_are_drawn_more_often() {
        let (mut sticky, mut chance) = (Sticky::default(), Chance::new(3));
        let mut drawn = [0; 4];
        for _ in 0..10_000 {
            sticky.draw([Some(0), Some(3), None, Some(1)].into_iter(), &mut chance);
            drawn[sticky.current().expect("there are partitions")] += 1;
        }
        // Weights 4, 1, 0, 3.
        assert_eq!(drawn[2], 0);
        assert!((4_700..5_300).contains(&drawn[0]) && (1_000..1_500).contains(&drawn[1]), "{drawn:?}");
        sticky.draw([None, None].into_iter(), &mut chance);
        assert!(sticky.current().is_some());
        sticky.draw([].into_iter(), &mut chance);
        assert_eq!(sticky.current(), None);
    }
}
