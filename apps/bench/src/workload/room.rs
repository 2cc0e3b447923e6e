//! How much of a workload a disk has room for.

use super::{Pace, Workload};

/// What a log has of each record of a full batch beside its value: lengths, and what offset and time differ.
const BESIDE_VALUE_BYTES: u64 = 8;
/// Of the room so much is for what comes before what is measured, and for what is beside the records.
const WARMUP_SHARE: f64 = 0.1;

impl Workload {
    /// The same, but no more of it than so many bytes hold, on a machine that has all its brokers, with so many
    /// copies of each record; what is less is said. At full speed nobody knows how many records a time is: it may
    /// end early, and says so if it does. Of a search, and of a share of full speed, it is known once there is a
    /// rate; nothing is known of records whose size is their payload's or becomes another by compression: they are
    /// left as they are.
    pub fn fitting(&self, room_bytes: u64, replicas: u16) -> (Self, Option<String>) {
        let is_compressed = self.producer.get("compression.type").is_some_and(|codec| codec != "none");
        if !self.is_filled() || is_compressed || self.one_at_a_time {
            return (self.clone(), None);
        }
        let record_bytes = (self.record_bytes as u64 + BESIDE_VALUE_BYTES) * u64::from(replicas.max(1));
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
            (None, Pace::Max) if self.search.is_none() => {
                let room = (room as u64).max(1);
                let records_max = Some(self.records_max.map_or(room, |records| records.min(room)));
                (Self { records_max, ..self.clone() }, None)
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
    use crate::workload::Goal;

    #[test]
    fn what_the_disk_has_no_room_for_is_left_out_and_said() {
        let all = Workload { replication_factor: 3, records: Some(10_000_000), ..Workload::default() };
        let room = 10_000_000 * 108 * 3;
        assert_eq!(all.fitting(2 * room, 3), (all.clone(), None));
        let (half, note) = all.fitting(room / 2, 3);
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
        let (cut, note) = all.fitting(60 * 1_000 * 108 * 10 / 9, 1);
        assert_eq!((cut.seconds, cut.warmup_seconds), (50.0, 10.0));
        assert_eq!(note.as_deref(), Some("scaled: the disk has room for 50 of 100 s (50.000 %)"));
        assert_eq!(all.fitting(u64::MAX, 1).1, None);
    }

    #[test]
    fn at_full_speed_the_records_are_bounded() {
        let all = Workload::default();
        let (cut, note) = all.fitting(108 * 3 * 1_000 * 10 / 9, 3);
        assert_eq!((cut.records_max, cut.records, cut.seconds), (Some(1_000), None, all.seconds));
        assert_eq!(note, None, "it may be over before");
        assert_eq!(cut.fitting(u64::MAX, 3).0, cut, "what was less stays less");
        let stored = Workload { stored: true, records: Some(5), ..Workload::default() };
        assert_eq!(stored.fitting(u64::MAX, 3).0.records_max, None);
    }

    #[test]
    fn what_cannot_be_known_is_left_as_it_is() {
        let searching = Workload { search: Some(Goal::default()), ..Workload::default() };
        let lines = Workload { payload: "log-lines".into(), records: Some(u64::MAX), ..Workload::default() };
        let mut packed = Workload { records: Some(u64::MAX), ..Workload::default() };
        packed.producer.insert("compression.type".into(), "lz4".into());
        for workload in [searching, lines, packed] {
            assert_eq!(workload.fitting(1_000, 1), (workload.clone(), None));
        }
    }
}
