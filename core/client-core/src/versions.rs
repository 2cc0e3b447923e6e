//! Which versions two sides of a connection have in common.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use wire::ApiKey;

/// The versions of each API that a broker said it speaks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Versions(BTreeMap<i16, (i16, i16)>);

impl Versions {
    /// Notes what a broker says of one API.
    pub fn insert(&mut self, key: i16, lowest: i16, highest: i16) {
        self.0.insert(key, (lowest, highest));
    }

    /// What the broker says of an API; `None` if it does not speak it.
    pub fn of(&self, key: ApiKey) -> Option<RangeInclusive<i16>> {
        self.0.get(&key.code()).map(|&(lowest, highest)| lowest..=highest)
    }

    /// The highest version of an API that both sides speak.
    pub fn common(&self, key: ApiKey) -> Option<i16> {
        let (theirs, ours) = (self.of(key)?, key.versions());
        let highest = *theirs.end().min(ours.end());
        (highest >= *theirs.start().max(ours.start())).then_some(highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_version_is_taken() {
        let ours = ApiKey::Metadata.versions();
        let (low, high) = (*ours.start(), *ours.end());
        for (theirs, common) in [
            ((low, high), Some(high)),
            ((low, high - 1), Some(high - 1)),
            ((high, high + 3), Some(high)),
            ((high + 1, high + 2), None),
        ] {
            let mut versions = Versions::default();
            versions.insert(ApiKey::Metadata.code(), theirs.0, theirs.1);
            assert_eq!(versions.common(ApiKey::Metadata), common, "{theirs:?}");
        }
        assert_eq!(Versions::default().common(ApiKey::Fetch), None);
    }
}
