//! What part a run used of what the machine can do at all.
//!
//! Where clients and brokers share one machine, each byte takes all its ways on the same cores: it is written
//! once, copied to each further replica, and read by each subscription. Times add up:
//!
//! ```text
//!   seconds a byte = 1 / write + (replicas − 1) / copy + subscriptions / read
//! ```
//!
//! The disk binds, too, if what is written has to reach it: because it is flushed, or because it is more than
//! memory holds.

use serde::{Deserialize, Serialize};

use super::Ceilings;

/// What a run did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Done {
    /// Records that were written, or that were read if nothing was written.
    pub records: f64,
    /// Of their values.
    pub bytes: f64,
    /// What one copy of them takes in a log, as it goes from machine to machine, too, if that is known: compressed
    /// ones take less than their values.
    pub log_bytes: Option<f64>,
    /// In how many seconds.
    pub seconds: f64,
    /// How often each was written; 0 if they were only read.
    pub replicas: f64,
    /// How often each was read.
    pub reads: f64,
    /// Whether it had to reach the disk.
    pub is_flushed: bool,
}

/// A share of what could be done.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Which limit is the nearest.
    pub bound: Bound,
    /// Bytes of values a second that it allows.
    pub bytes_per_sec: f64,
    /// What part of that was reached.
    pub reached: f64,
    /// What part of what sockets, checksums and files allow.
    pub streams: f64,
    /// What part of what the disk can write, if anything was written; it may be above 1 where the page cache
    /// took what had not to reach the disk.
    pub disk: Option<f64>,
}

/// What binds a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The ways between clients and files.
    Streams,
    /// The disk.
    Disk,
}

/// What a record has beside its value, without a key: lengths, differences of time and offset, attributes.
const RECORD_OVERHEAD_BYTES: f64 = 8.0;

impl Share {
    /// `None` if nothing was done.
    pub fn of(ceilings: &Ceilings, done: &Done) -> Option<Self> {
        if done.bytes <= 0.0 || done.seconds <= 0.0 {
            return None;
        }
        let log_bytes = done.log_bytes.unwrap_or(done.bytes + RECORD_OVERHEAD_BYTES * done.records);
        let sent_per_value = log_bytes / done.bytes;
        let written = done.replicas.min(1.0) / ceilings.write_bytes_per_sec;
        let copied = (done.replicas - 1.0).max(0.0) / ceilings.copy_bytes_per_sec;
        let read = done.reads / ceilings.read_bytes_per_sec;
        let of_streams = sent_per_value * (written + copied + read);
        let of_disk = sent_per_value * done.replicas / ceilings.disk_flushed_bytes_per_sec;
        let rate = done.bytes / done.seconds;
        let is_disk = done.is_flushed && of_disk > of_streams;
        let (bound, seconds_per_byte) =
            if is_disk { (Bound::Disk, of_disk) } else { (Bound::Streams, of_streams) };
        Some(Self {
            bound,
            bytes_per_sec: 1.0 / seconds_per_byte,
            reached: rate * seconds_per_byte,
            streams: rate * of_streams,
            disk: (done.replicas > 0.0).then_some(rate * of_disk),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::{Quantiles, histogram};

    fn machine() -> Ceilings {
        let mut flushes = histogram();
        flushes.saturating_record(50_000);
        Ceilings {
            disk_bytes: 1,
            stream_bytes: 1,
            pairs: 1,
            disk_direct_bytes_per_sec: None,
            disk_flushed_bytes_per_sec: 500.0,
            fdatasync_ns: Quantiles::of(&flushes).expect("there is one"),
            append_bytes_per_sec: 1.0,
            memory_copy_bytes_per_sec: 1.0,
            loopback_bytes_per_sec: 1.0,
            write_bytes_per_sec: 2_000.0,
            read_bytes_per_sec: 4_000.0,
            copy_bytes_per_sec: 1_000.0,
        }
    }

    #[test]
    fn each_way_costs_its_time() {
        let large = Done { records: 0.0, bytes: 100.0, seconds: 1.0, ..Done::default() };
        let cases = [
            ("written once", 1.0, 0.0, 2_000.0),
            ("written to three", 3.0, 0.0, 400.0),
            ("read", 0.0, 1.0, 4_000.0),
            ("written to three and read twice", 3.0, 2.0, 1.0 / 0.003),
        ];
        for (what, replicas, reads, limit) in cases {
            let share = Share::of(&machine(), &Done { replicas, reads, ..large }).expect(what);
            assert!((share.bytes_per_sec - limit).abs() < 1e-9, "{what}: {share:?}");
            assert!((share.reached - 100.0 / limit).abs() < 1e-9, "{what}: {share:?}");
            assert_eq!((share.bound, share.disk.is_some()), (Bound::Streams, replicas > 0.0), "{what}");
        }
        let read_is_counted_once = Done { reads: 1.0, bytes: 300.0, ..large };
        let share = Share::of(&machine(), &read_is_counted_once).expect("it was read");
        assert!((share.reached - 0.075).abs() < 1e-9, "{share:?}");
        assert_eq!(Share::of(&machine(), &Done::default()), None);
    }

    #[test]
    fn small_records_are_more_than_their_values() {
        let small = Done { records: 10.0, bytes: 80.0, seconds: 1.0, replicas: 1.0, ..Done::default() };
        let share = Share::of(&machine(), &small).expect("it was written");
        assert!((share.reached - 0.08).abs() < 1e-9, "as much again as the values: {share:?}");
        let compressed = Done { log_bytes: Some(20.0), ..small };
        let share = Share::of(&machine(), &compressed).expect("it was written");
        assert!((share.reached - 0.01).abs() < 1e-9, "a quarter of the values: {share:?}");
        assert!((share.bytes_per_sec - 8_000.0).abs() < 1e-9, "so many of their values: {share:?}");
    }

    #[test]
    fn the_disk_binds_what_has_to_reach_it() {
        let done = Done { bytes: 100.0, seconds: 1.0, replicas: 1.0, ..Done::default() };
        let cached = Share::of(&machine(), &done).expect("it was written");
        let flushed = Share::of(&machine(), &Done { is_flushed: true, ..done }).expect("it was written");
        assert_eq!((cached.bound, flushed.bound), (Bound::Streams, Bound::Disk));
        assert!((cached.reached - 0.05).abs() < 1e-9 && (flushed.reached - 0.2).abs() < 1e-9);
        assert_eq!(cached.disk, flushed.disk);
    }
}
