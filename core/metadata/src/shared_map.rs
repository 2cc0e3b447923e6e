//! A sorted map whose clones share what they have in common.
//!
//! Two levels: a list of chunks, each a short sorted list. A clone copies the list of chunks, a change
//! copies the one chunk it touches; with ten thousand entries that is a hundred pointers and a hundred
//! entries.
//!
//! ```text
//!   clone a   [ • • • • ]          clone b, one entry changed   [ • • ○ • ]
//!               │ │ │ └────────────── shared ──────────────────────┘ │ │
//! ```

use std::borrow::Borrow;
use std::sync::Arc;

/// Entries in a chunk at most: a change copies a chunk, a clone copies one pointer a chunk.
const CHUNK_LEN_MAX: usize = 128;

/// A sorted map with cheap clones.
#[derive(Debug)]
pub struct SharedMap<K, V> {
    /// Never an empty chunk; the keys ascend within a chunk and from chunk to chunk.
    chunks: Vec<Arc<Vec<(K, V)>>>,
    len: usize,
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<K, V> Clone for SharedMap<K, V> {
    fn clone(&self) -> Self {
        Self { chunks: self.chunks.clone(), len: self.len }
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq> Eq for SharedMap<K, V> {}

impl<K, V> SharedMap<K, V> {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.chunks.iter().flat_map(|chunk| chunk.iter().map(|(key, value)| (key, value)))
    }

    /// All values, by key.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }
}

impl<K: Ord, V> SharedMap<K, V> {
    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let chunk = self.chunks.get(self.chunk_of(key))?;
        let at = chunk.binary_search_by(|(known, _)| known.borrow().cmp(key)).ok()?;
        Some(&chunk[at].1)
    }

    /// Whether there is such a key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// The entries whose key is `from` or later, by key.
    pub fn range_from<Q: Ord + ?Sized>(&self, from: &Q) -> impl Iterator<Item = (&K, &V)>
    where
        K: Borrow<Q>,
    {
        let first = self.chunk_of(from);
        let skip =
            self.chunks.get(first).map_or(0, |chunk| chunk.partition_point(|(key, _)| key.borrow() < from));
        let rest = self.chunks.get(first..).unwrap_or_default();
        rest.iter().flat_map(|chunk| chunk.iter().map(|(key, value)| (key, value))).skip(skip)
    }

    /// The last chunk that does not begin after `key`: the one that has it or would get it.
    fn chunk_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let after =
            self.chunks.partition_point(|chunk| chunk.first().is_some_and(|(k, _)| k.borrow() <= key));
        after.saturating_sub(1)
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// Puts a value under a key; the one that was there before, if any.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let at_chunk = self.chunk_of(&key);
        let Some(chunk) = self.chunks.get_mut(at_chunk) else {
            self.chunks.push(Arc::new(vec![(key, value)]));
            self.len += 1;
            return None;
        };
        let chunk = Arc::make_mut(chunk);
        match chunk.binary_search_by(|(known, _)| known.cmp(&key)) {
            Ok(at) => Some(std::mem::replace(&mut chunk[at].1, value)),
            Err(at) => {
                chunk.insert(at, (key, value));
                self.len += 1;
                if chunk.len() > CHUNK_LEN_MAX {
                    self.split(at_chunk);
                }
                None
            }
        }
    }

    /// The value of a key, to change it. Copies the chunk if another map shares it.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at_chunk = self.chunk_of(key);
        let chunk = self.chunks.get_mut(at_chunk)?;
        let at = chunk.binary_search_by(|(known, _)| known.borrow().cmp(key)).ok()?;
        Some(&mut Arc::make_mut(chunk)[at].1)
    }

    /// Takes a key out; the value that was there, if any.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at_chunk = self.chunk_of(key);
        let chunk = self.chunks.get_mut(at_chunk)?;
        let at = chunk.binary_search_by(|(known, _)| known.borrow().cmp(key)).ok()?;
        let (_, value) = Arc::make_mut(chunk).remove(at);
        self.len -= 1;
        self.mend(at_chunk);
        Some(value)
    }

    fn split(&mut self, at_chunk: usize) {
        let is_last = at_chunk + 1 == self.chunks.len();
        let chunk = Arc::make_mut(&mut self.chunks[at_chunk]);
        // Keys that come in ascending order, as in a snapshot, leave full chunks behind.
        let keep = if is_last { CHUNK_LEN_MAX } else { chunk.len() / 2 };
        let mut upper = Vec::with_capacity(CHUNK_LEN_MAX);
        upper.extend(chunk.drain(keep..));
        self.chunks.insert(at_chunk + 1, Arc::new(upper));
    }

    /// Drops a chunk that became empty, or joins it with the next when both are small.
    fn mend(&mut self, at_chunk: usize) {
        if self.chunks[at_chunk].is_empty() {
            self.chunks.remove(at_chunk);
            return;
        }
        let Some(next) = self.chunks.get(at_chunk + 1) else { return };
        if self.chunks[at_chunk].len() + next.len() <= CHUNK_LEN_MAX / 2 {
            let next = self.chunks.remove(at_chunk + 1);
            Arc::make_mut(&mut self.chunks[at_chunk]).extend(next.iter().cloned());
        }
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A walk that repeats itself: the numbers of a small linear congruential generator.
    fn numbers(mut seed: u64) -> impl Iterator<Item = u64> {
        std::iter::from_fn(move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Some(seed >> 33)
        })
    }

    #[test]
    fn it_behaves_as_a_plain_map_does() {
        let (mut map, mut model) = (SharedMap::default(), BTreeMap::new());
        let mut old = Vec::new();
        for (i, n) in numbers(7).take(20_000).enumerate() {
            let key = n % 1_000;
            // Grow first, then shrink, so that chunks split and join.
            if n % 3 != 0 && i < 10_000 || n % 7 == 0 {
                assert_eq!(map.insert(key, i), model.insert(key, i));
            } else {
                assert_eq!(map.remove(&key), model.remove(&key));
            }
            assert_eq!(map.len(), model.len());
            if i % 1_000 == 0 {
                old.push((map.clone(), model.clone()));
                assert!(map.range_from(&key).eq(model.range(key..)));
            }
        }
        for (map, model) in &old {
            assert!(map.iter().eq(model.iter()), "a clone changed with its origin");
        }
        assert!((0..1_000).all(|key| map.get(&key) == model.get(&key)));
    }

    #[test]
    fn a_change_copies_one_chunk() {
        let map: SharedMap<u32, u32> = (0..10_000).map(|i| (i, i)).collect();
        let mut other = map.clone();
        *other.get_mut(&5_000).expect("it was inserted") = 1;
        let copied = map.chunks.iter().zip(&other.chunks).filter(|(a, b)| !Arc::ptr_eq(a, b)).count();
        assert_eq!((copied, map.get(&5_000), other.get(&5_000)), (1, Some(&5_000), Some(&1)));
        assert_eq!(map.chunks.len(), 10_000usize.div_ceil(CHUNK_LEN_MAX));
    }
}
