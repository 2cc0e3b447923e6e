//! Maps whose order is the same in every run.
//!
//! The hasher has a fixed seed, so that a simulation repeats itself to the last step. A fixed seed can
//! be attacked by whoever chooses the keys: keys that a peer chooses go into a `BTreeMap`.

use foldhash::fast::FixedState;

/// A hash map with the same order in every run, for keys that no peer chooses.
#[expect(clippy::disallowed_types, reason = "with a hasher of a fixed seed")]
pub type Map<K, V> = hashbrown::HashMap<K, V, FixedState>;

/// A hash set with the same order in every run, for keys that no peer chooses.
#[expect(clippy::disallowed_types, reason = "with a hasher of a fixed seed")]
pub type Set<K> = hashbrown::HashSet<K, FixedState>;
