//! Reads the histograms that `vltava perf --hlog` writes: HdrHistogram's log of version 2 histograms,
//! compressed, of nanoseconds to three digits.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use flate2::read::ZlibDecoder;

/// What histograms and compressed ones begin with; four bits of them tell how wide a count may be.
const COOKIE: u32 = 0x1c84_9303;
const COMPRESSED_COOKIE: u32 = 0x1c84_9304;
const COOKIE_MASK: u32 = !0xf0;
const HEADER_BYTES: usize = 40;
/// A count longer than this is none.
const VARINT_BYTES_MAX: usize = 9;
/// Of three digits: values that share a power of two are told apart in so many steps.
const STEPS_LOG2: u32 = 10;

/// What an interval of a run saw.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Interval {
    /// Seconds since 1970.
    pub(super) from: f64,
    pub(super) to: f64,
    /// How often each time was seen, in nanoseconds.
    counts: BTreeMap<u64, u64>,
}

/// The intervals of a log that have no tag: neither warm-up nor the time without waiting.
pub(super) fn read(path: &Path) -> Result<Vec<Interval>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    intervals(&text).with_context(|| format!("{} is no log of histograms", path.display()))
}

fn intervals(text: &str) -> Result<Vec<Interval>> {
    let base = text.lines().find_map(|line| line.strip_prefix("#[BaseTime: ")).context("no base time")?;
    let base: f64 = base.split([' ', ']']).next().context("no base time")?.parse()?;
    let is_wanted = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit());
    let read = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let [from, length, _, histogram] = fields[..] else { bail!("no interval: {line}") };
        let (from, length): (f64, f64) = (from.parse()?, length.parse()?);
        let counts = counts(&base64(histogram)?)?;
        Ok(Interval { from: base + from, to: base + from + length, counts })
    };
    text.lines().filter(is_wanted).map(read).collect()
}

/// Those that have some part of a time in them, from and to seconds since 1970.
pub(super) fn within(intervals: Vec<Interval>, from: f64, to: f64) -> Vec<Interval> {
    intervals.into_iter().filter(|interval| interval.to > from && interval.from < to).collect()
}

/// The value that so many percent of what these intervals saw do not exceed; none if they saw nothing.
pub(super) fn percentile(intervals: &[Interval], percent: f64) -> Option<u64> {
    let mut all = BTreeMap::<u64, u64>::new();
    for (value, count) in intervals.iter().flat_map(|interval| &interval.counts) {
        *all.entry(*value).or_default() += count;
    }
    let wanted = (all.values().sum::<u64>() as f64 * percent / 100.0).ceil() as u64;
    let mut seen = 0;
    all.into_iter().find_map(|(value, count)| {
        seen += count;
        (seen >= wanted.max(1)).then_some(value)
    })
}

fn counts(compressed: &[u8]) -> Result<BTreeMap<u64, u64>> {
    ensure!(u32_at(compressed, 0)? & COOKIE_MASK == COMPRESSED_COOKIE, "no compressed histogram");
    let mut bytes = Vec::new();
    ZlibDecoder::new(compressed.get(8..).unwrap_or_default()).read_to_end(&mut bytes)?;
    ensure!(u32_at(&bytes, 0)? & COOKIE_MASK == COOKIE, "no histogram");
    let (len, digits, lowest) = (u32_at(&bytes, 4)? as usize, u32_at(&bytes, 12)?, u32_at(&bytes, 20)?);
    ensure!(digits == 3 && lowest == 1, "a histogram of {digits} digits from {lowest} on");
    let mut left = bytes.get(HEADER_BYTES..HEADER_BYTES + len).context("it ends too soon")?;
    let (mut counts, mut index) = (BTreeMap::new(), 0u64);
    while !left.is_empty() {
        match varint(&mut left)? {
            // So many values that were not seen.
            zeros @ ..0 => index += zeros.unsigned_abs(),
            count => {
                if count > 0 {
                    counts.insert(value(index)?, count.unsigned_abs());
                }
                index += 1;
            }
        }
    }
    Ok(counts)
}

/// The least value that is counted there.
fn value(index: u64) -> Result<u64> {
    let (power, step) = (index >> STEPS_LOG2, index & ((1 << STEPS_LOG2) - 1));
    if power == 0 {
        return Ok(step);
    }
    let step = step + (1 << STEPS_LOG2);
    let shift = u32::try_from(power - 1)?;
    ensure!(shift < u64::BITS - STEPS_LOG2 - 1, "a value beyond all bounds");
    Ok(step << shift)
}

/// Seven bits a byte, the lowest first, and all eight of the ninth; signs alternate.
fn varint(left: &mut &[u8]) -> Result<i64> {
    let mut value = 0u64;
    for at in 0..VARINT_BYTES_MAX {
        let (first, rest) = left.split_first().context("a count ends too soon")?;
        *left = rest;
        let is_last = at + 1 == VARINT_BYTES_MAX;
        value |= u64::from(if is_last { *first } else { first & 0x7f }) << (7 * at);
        if is_last || first & 0x80 == 0 {
            break;
        }
    }
    Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    let found = bytes.get(at..at + 4).context("it ends too soon")?;
    Ok(u32::from_be_bytes(found.try_into()?))
}

fn base64(text: &str) -> Result<Vec<u8>> {
    let (mut bytes, mut held, mut bits) = (Vec::new(), 0u32, 0);
    for letter in text.trim().trim_end_matches('=').bytes() {
        let six = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => bail!("no base64"),
        };
        (held, bits) = ((held << 6) | u32::from(six), bits + 6);
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `vltava perf producer --hlog`: a warm-up, then 200 records in two intervals.
    const LOG: &str = include_str!("hlog/example.hlog");

    #[test]
    fn a_log_of_ours_is_read() {
        let intervals = intervals(LOG).unwrap();
        assert!(intervals.len() >= 2, "{intervals:?}");
        assert!(intervals.iter().all(|interval| interval.from > 1.7e9 && interval.to > interval.from));
        let seen: u64 = intervals.iter().flat_map(|interval| interval.counts.values()).sum();
        assert_eq!(seen, 200);
        for (percent, nanos) in [(50.0, 42_631_167), (99.0, 242_614_271), (100.0, 247_726_079)] {
            let found = percentile(&intervals, percent).unwrap();
            // The tool names the greatest value that is counted together with that.
            assert!(found <= nanos && nanos - found <= nanos / 500, "{percent} %: {found} for {nanos}");
        }
        assert_eq!(percentile(&[], 99.0), None);
    }

    #[test]
    fn a_time_is_cut_out() {
        let all = intervals(LOG).unwrap();
        let (first, last) = (all.first().unwrap().clone(), all.last().unwrap().clone());
        assert_eq!(within(all.clone(), first.from, last.to), all);
        assert_eq!(within(all.clone(), 0.0, last.from), all[..all.len() - 1]);
        assert_eq!(within(all.clone(), first.to, f64::MAX), all[1..]);
        assert!(within(all, last.to, f64::MAX).is_empty());
    }

    #[test]
    fn what_is_no_log_is_refused() {
        assert!(intervals("").is_err());
        assert!(intervals(&LOG.replace("HISTF", "HISTG")).is_err(), "that is no cookie");
        for text in ["#[BaseTime: 1.0 (seconds since epoch)]\n0.1,0.1,3.0,AAAA", "#[BaseTime: 1.0]\n0.1,0.1"]
        {
            assert!(intervals(text).is_err(), "{text}");
        }
    }

    #[test]
    fn values_are_told_apart_to_three_digits() {
        assert_eq!(
            [0, 1, 2047, 2048, 2049, 3071, 3072].map(|index| value(index).unwrap()),
            [0, 1, 2047, 2048, 2050, 4094, 4096]
        );
        assert!(value(u64::MAX).is_err());
    }

    #[test]
    fn counts_may_be_long() {
        let mut bytes = &[0xff; 9][..];
        assert_eq!(varint(&mut bytes).unwrap(), i64::MIN);
        assert!(bytes.is_empty() && varint(&mut bytes).is_err());
        assert_eq!(varint(&mut &[0x02][..]).unwrap(), 1);
        assert_eq!(varint(&mut &[0x83, 0x01][..]).unwrap(), -66);
    }
}
