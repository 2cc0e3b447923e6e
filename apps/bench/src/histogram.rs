//! Latencies: counted without loss, added up without loss, told by their quantiles.
//!
//! Nanoseconds to three digits, up to an hour; what is longer counts as an hour. Quantiles are never
//! averaged: histograms are added, and then asked.

use std::io::Read;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A histogram of nanoseconds, exact to three digits, up to an hour.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are in order")
}

/// How a histogram travels: whole, in HdrHistogram's own form (version 2), as base64.
pub(crate) mod whole {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer as _, V2Serializer};
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    /// For `#[serde(with)]`.
    pub(crate) fn serialize<S: Serializer>(histogram: &Histogram<u64>, to: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(histogram, &mut bytes)
            .map_err(|error| S::Error::custom(format!("a histogram cannot be written: {error:?}")))?;
        to.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    /// For `#[serde(with)]`: one with the bounds that all have here.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram<u64>, D::Error> {
        let bytes = BASE64_STANDARD.decode(String::deserialize(from)?).map_err(D::Error::custom)?;
        // Added to one of ours, so that whoever sends another form cannot have us hold it.
        let told = super::of_plain(&bytes).ok_or_else(|| D::Error::custom("no histogram"))?;
        let mut histogram = super::histogram();
        histogram.add(&told).map_err(|error| D::Error::custom(format!("another histogram: {error:?}")))?;
        Ok(histogram)
    }
}

/// All of a histogram, as HdrHistogram writes it into its logs: version 2, compressed, in base 64.
pub fn encoded(histogram: &Histogram<u64>) -> Option<String> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).ok()?;
    Some(BASE64_STANDARD.encode(bytes))
}

/// What [`encoded`] wrote; `None` if it is no such thing.
pub fn decoded(text: &str) -> Option<Histogram<u64>> {
    let bytes = BASE64_STANDARD.decode(text).ok()?;
    let mut plain = Vec::new();
    ZlibDecoder::new(bytes.get(HEADER_BYTES..)?).take(PLAIN_BYTES_MAX).read_to_end(&mut plain).ok()?;
    of_plain(&plain)
}

/// What a compressed histogram begins with: what it is, and how long.
const HEADER_BYTES: usize = 8;
/// Nine bytes for each count of the finest histogram that anybody needs are less.
const PLAIN_BYTES_MAX: u64 = 16 << 20;

/// A histogram of version 2 that is not compressed. It says how long its counts are, and whoever reads them believes
/// that: here it may say no more than there is.
fn of_plain(bytes: &[u8]) -> Option<Histogram<u64>> {
    let counts_len = u32::from_be_bytes(bytes.get(4..8)?.try_into().ok()?);
    let is_there = usize::try_from(counts_len).is_ok_and(|len| len <= bytes.len());
    is_there.then(|| Deserializer::new().deserialize(&mut &bytes[..]).ok())?
}

/// Bytes of the unit that Kafka's tools call MB.
pub const MIB: f64 = 1024.0 * 1024.0;

/// A rate in the three units that people use.
pub fn rate_line(records: u64, bytes: u64, seconds: f64) -> String {
    let (records, bytes) = (records as f64 / seconds, bytes as f64 / seconds);
    format!("rate: {records:.0} records/s, {:.2} MB/s ({:.2} MiB/s)", bytes / 1e6, bytes / MIB)
}

/// The quantiles of a histogram, for people.
pub fn latency_line(what: &str, histogram: &Histogram<u64>) -> String {
    let at = |quantile| in_words(histogram.value_at_quantile(quantile));
    format!(
        "{what}: p50 {}, p99 {}, p99.9 {}, p99.99 {}, p99.999 {}, max {}",
        at(0.5),
        at(0.99),
        at(0.999),
        at(0.9999),
        at(0.99999),
        in_words(histogram.max())
    )
}

/// What a histogram comes to, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// How many were counted.
    pub count: u64,
    /// The least.
    pub min: u64,
    /// The average.
    pub mean: f64,
    /// Half of them are not above it.
    pub p50: u64,
    /// 75 in a hundred.
    pub p75: u64,
    /// 90 in a hundred.
    pub p90: u64,
    /// 95 in a hundred.
    pub p95: u64,
    /// 99 in a hundred.
    pub p99: u64,
    /// 999 in a thousand.
    pub p999: u64,
    /// 9 999 in ten thousand.
    pub p9999: u64,
    /// 99 999 in a hundred thousand.
    pub p99999: u64,
    /// The greatest.
    pub max: u64,
}

impl Quantiles {
    /// `None` if nothing was counted.
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile);
        (!histogram.is_empty()).then(|| Self {
            count: histogram.len(),
            min: histogram.min(),
            mean: histogram.mean(),
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            p99999: at(0.99999),
            max: histogram.max(),
        })
    }
}

/// The quantiles of a histogram, for programs.
pub fn quantiles(histogram: &Histogram<u64>) -> Value {
    let at = |quantile| histogram.value_at_quantile(quantile);
    json!({
        "min": histogram.min(),
        "mean": histogram.mean(),
        "p50": at(0.5),
        "p75": at(0.75),
        "p90": at(0.9),
        "p95": at(0.95),
        "p99": at(0.99),
        "p999": at(0.999),
        "p9999": at(0.9999),
        "p99999": at(0.99999),
        "max": histogram.max(),
    })
}

/// A time for people, in a unit that fits it, rounded to three digits or to whole ones.
pub fn in_words(nanos: u64) -> String {
    let (unit, name) = match nanos {
        0..10_000 => return format!("{nanos} ns"),
        10_000..10_000_000 => (1e3, "µs"),
        10_000_000..100_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = nanos as f64 / unit;
    // 99.95 is rounded to 100.
    if value < 99.95 { format!("{value:.1} {name}") } else { format!("{value:.0} {name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Whole(#[serde(with = "whole")] Histogram<u64>);

    #[test]
    fn a_histogram_that_says_more_than_it_has_is_none() {
        let mut counted = histogram();
        counted.saturating_record_n(7_000, 3);
        let text = serde_json::to_string(&Whole(counted.clone())).expect("it can be written");
        let Whole(read) = serde_json::from_str(&text).expect("it is what was written");
        assert_eq!((read, decoded(&encoded(&counted).expect("it can be"))), (counted.clone(), Some(counted)));
        let mut bytes = BASE64_STANDARD.decode(text.trim_matches('"')).expect("it is base 64");
        bytes[4..8].fill(0xff);
        assert!(of_plain(&bytes).is_none(), "four gigabytes are not there");
        let mut packed = flate2::write::ZlibEncoder::new(vec![0; HEADER_BYTES], flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, &bytes).expect("it is memory");
        let packed = packed.finish().expect("it is memory");
        assert_eq!(decoded(&BASE64_STANDARD.encode(packed)), None);
        assert_eq!((decoded(""), decoded("AAAA")), (None, None));
    }
}
