//! What is sent along with a record to know it again when its fate is told.
//!
//! ```text
//!   63 ............ 28 27 ........ 0
//!   | due, in 128 ns  | number     |     both without their upper bits, which whoever asks can tell
//! ```

use std::time::Duration;

const NUMBER_BITS: u32 = 28;
const DUE_BITS: u32 = u64::BITS - NUMBER_BITS;
/// Short beside anything that is measured, and long enough that a record may be on its way for two hours.
const DUE_SHIFT: u32 = 7;
/// What a time is told to, in nanoseconds.
pub(super) const UNIT_NS: i64 = 1 << DUE_SHIFT;

/// The tag of a record.
pub(crate) const fn pack(number: u64, due: Duration) -> u64 {
    let units = (due.as_nanos() as u64) >> DUE_SHIFT;
    units << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1)
}

/// When it was due, for one who asks some time later.
pub(crate) const fn due(tag: u64, now: Duration) -> Duration {
    let now = (now.as_nanos() as u64) >> DUE_SHIFT;
    Duration::from_nanos(latest(tag >> NUMBER_BITS, now, DUE_BITS) << DUE_SHIFT)
}

/// The last time up to this one that a tag tells exactly: what is due from then on has tags that say so.
pub(crate) const fn exact(time: Duration) -> Duration {
    Duration::from_nanos((time.as_nanos() as u64) >> DUE_SHIFT << DUE_SHIFT)
}

/// Its number, for one who knows a later one.
pub(super) const fn number(tag: u64, later: u64) -> u64 {
    latest(tag & ((1 << NUMBER_BITS) - 1), later, NUMBER_BITS)
}

/// The greatest number up to `limit` with these lower bits.
const fn latest(lower: u64, limit: u64, bits: u32) -> u64 {
    let behind = limit.wrapping_sub(lower) & ((1 << bits) - 1);
    limit.saturating_sub(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_tells_both() {
        let cases = [
            (0, Duration::ZERO, 0, Duration::ZERO),
            (7, Duration::from_secs(5), 1_000, Duration::from_secs(6)),
            ((1 << 30) + 3, Duration::from_secs(90_000), (1 << 30) + 900_000, Duration::from_secs(93_600)),
            (u64::from(u32::MAX), Duration::from_millis(1), 1 << 32, Duration::from_secs(60)),
        ];
        for (of, when, later, now) in cases {
            let tag = pack(of, when);
            assert_eq!(number(tag, later), of);
            let found = due(tag, now);
            assert!(found <= when && when - found < Duration::from_nanos(128), "{when:?}: {found:?}");
            // Whether it was due by some time is told rightly, also at that time itself.
            assert!(found >= exact(when) && exact(when) <= when);
        }
    }
}
