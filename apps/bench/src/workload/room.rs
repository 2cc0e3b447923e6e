//! How much of a workload a disk has room for.

use super::{Pace, Workload};

/// What a log has of each record of a full batch beside its value: lengths, and what offset and time differ.
const BESIDE_VALUE_BYTES: u64 = 8;
/// Of the room so much is for what comes before what is measured, and for what is beside the records.
const WARMUP_SHARE: f64 = 0.1;

impl Workload {
    /// The same, but no more of it than so many bytes hold, on a machine that has all its brokers; what is less
    /// is said. Nothing is known of a run at full speed for a time, nor of records whose size is their payload's
    /// or becomes another by compression: they are left as they are.
    pub fn fitting(&self, room_bytes: u64) -> (Self, Option<String>) {
        let has_size = self.payload == "letters" || self.payload.starts_with("share:");
        let is_compressed = self.producer.get("compression.type").is_some_and(|codec| codec != "none");
        if !has_size || is_compressed || self.one_at_a_time {
            return (self.clone(), None);
        }
        let record_bytes =
            (self.record_bytes as u64 + BESIDE_VALUE_BYTES) * u64::from(self.replication_factor);
        let room = room_bytes as f64 * (1.0 - WARMUP_SHARE) / record_bytes as f64;
        match (self.records, self.rate) {
            (Some(records), _) if records as f64 > room => {
                let fitting = Self { records: Some(room as u64), ..self.clone() };
                let note = said(&format!("{} of {records} records", room as u64), room / records as f64);
                (fitting, Some(note))
            }
            (None, Pace::Rate(rate)) => {
                let per_second = rate.constant_rate().unwrap_or_default();
                let seconds = (room / per_second - self.warmup_seconds).floor().max(1.0);
                if seconds >= self.seconds {
                    return (self.clone(), None);
                }
                let note = said(&format!("{seconds} of {} s", self.seconds), seconds / self.seconds);
                (Self { seconds, ..self.clone() }, Some(note))
            }
            _ => (self.clone(), None),
        }
    }
}

fn said(cut: &str, share: f64) -> String {
    format!("scaled: the disk has room for {cut} ({:.3} %)", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Rate;

    #[test]
    fn what_the_disk_has_no_room_for_is_left_out_and_said() {
        let all = Workload { replication_factor: 3, records: Some(10_000_000), ..Workload::default() };
        let room = 10_000_000 * 108 * 3;
        assert_eq!(all.fitting(2 * room), (all.clone(), None));
        let (half, note) = all.fitting(room / 2);
        assert_eq!(half.records, Some(4_500_000), "a tenth is left for warming up");
        assert_eq!(
            note.as_deref(),
            Some("scaled: the disk has room for 4500000 of 10000000 records (45.000 %)")
        );
    }

    #[test]
    fn at_a_rate_the_time_is_cut() {
        let rate = Pace::Rate(Rate::constant(1_000.0));
        let all = Workload { rate, seconds: 100.0, warmup_seconds: 10.0, ..Workload::default() };
        let (cut, note) = all.fitting(60 * 1_000 * 108 * 10 / 9);
        assert_eq!((cut.seconds, cut.warmup_seconds), (50.0, 10.0));
        assert_eq!(note.as_deref(), Some("scaled: the disk has room for 50 of 100 s (50.000 %)"));
        assert_eq!(all.fitting(u64::MAX).1, None);
    }

    #[test]
    fn what_cannot_be_known_is_left_as_it_is() {
        let of_full_speed = Workload { rate: Pace::Max, ..Workload::default() };
        let lines = Workload { payload: "log-lines".into(), records: Some(u64::MAX), ..Workload::default() };
        let mut packed = Workload { records: Some(u64::MAX), ..Workload::default() };
        packed.producer.insert("compression.type".into(), "lz4".into());
        for workload in [of_full_speed, lines, packed] {
            assert_eq!(workload.fitting(1_000), (workload.clone(), None));
        }
    }
}
