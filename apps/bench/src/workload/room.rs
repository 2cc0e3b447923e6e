//! How much of a workload a disk has room for.

use super::{Pace, Workload};
use crate::ceiling::SCALED;
use crate::keys::Keys;

/// What a log has of each record of a full batch beside its value: lengths, and what offset and time differ.
const BESIDE_VALUE_BYTES: u64 = 8;
/// Of the room so much is for what comes before what is measured, and for what is beside the records.
const WARMUP_SHARE: f64 = 0.1;
/// Of the room so much is for what is beside the records alone: what their batches begin with, and indexes.
const BESIDE_SHARE: f64 = 0.02;

impl Workload {
    /// The same, but no more of it than so many bytes hold, on a machine that has all its brokers, with so many
    /// copies of each record; what is less is said. At full speed nobody knows how many records a time is, be it that
    /// of the warm-up: it may end early, and says so if it does. Of a search, and of a share of full speed, it is known
    /// once there is a rate; nothing is known of records whose size is their payload's or becomes another by
    /// compression: they are left as they are.
    pub fn fitting(&self, room_bytes: u64, replicas: u16) -> (Self, Option<String>) {
        let is_compressed = self.producer.get("compression.type").is_some_and(|codec| codec != "none");
        if !self.is_filled() || is_compressed || self.one_at_a_time {
            return (self.clone(), None);
        }
        let all = room_bytes as f64 / self.log_bytes_of_each(replicas);
        let room = all * (1.0 - WARMUP_SHARE);
        match (self.records, self.rate) {
            (Some(records), Pace::Rate(rate)) => {
                self.counted(records, room - rate.due_by(self.warmup_seconds))
            }
            // What is stored is not warmed up for.
            (Some(records), Pace::Max) if !self.stored => {
                let (fitting, note) = self.counted(records, room);
                (fitting.ending_with(all * (1.0 - BESIDE_SHARE)), note)
            }
            (Some(records), Pace::Max | Pace::OfFullSpeed(_)) => self.counted(records, room),
            (None, Pace::Rate(rate)) => {
                let seconds = (rate.when(room) - self.warmup_seconds).floor().max(1.0);
                if seconds >= self.seconds {
                    return (self.clone(), None);
                }
                let note = said(&format!("{seconds} of {} s", self.seconds), seconds / self.seconds);
                (Self { seconds, ..self.clone() }, Some(note))
            }
            (None, Pace::Max) if self.search.is_none() => (self.clone().ending_with(room), None),
            (None, Pace::Max | Pace::OfFullSpeed(_)) => (self.clone(), None),
        }
    }

    /// What a record takes in the logs, all copies of it together.
    fn log_bytes_of_each(&self, replicas: u16) -> f64 {
        let key_bytes = self.keys().map_or(0, Keys::bytes);
        let record_bytes = (self.record_bytes + key_bytes) as u64 + BESIDE_VALUE_BYTES;
        record_bytes as f64 * f64::from(replicas.max(1))
    }

    /// The same with no more records behind the warm-up than there is room for.
    fn counted(&self, records: u64, room: f64) -> (Self, Option<String>) {
        if records as f64 <= room {
            return (self.clone(), None);
        }
        let room = room.max(1.0);
        let note = said(&format!("{} of {records} records", room as u64), room / records as f64);
        (Self { records: Some(room as u64), ..self.clone() }, Some(note))
    }

    /// The same, which ends with so many records, those of the warm-up among them, if it is not over before.
    fn ending_with(self, records: f64) -> Self {
        let room = (records as u64).max(1);
        let records_max = Some(self.records_max.map_or(room, |records| records.min(room)));
        Self { records_max, ..self }
    }
}

fn said(cut: &str, share: f64) -> String {
    format!("{SCALED}the disk has room for {cut} ({:.3} %)", 100.0 * share)
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
        let (whole, note) = all.fitting(2 * room, 3);
        assert_eq!((whole.records, note), (all.records, None));
        let (half, note) = all.fitting(room / 2, 3);
        assert_eq!(half.records, Some(4_500_000), "a tenth is left for warming up");
        assert_eq!(half.records_max, Some(4_900_000), "and warming up takes no more than what is left");
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
    fn a_ramp_is_cut_where_the_room_ends() {
        // 10 s up to 2,000 a second are 10,000 records; then 2,000 more come each second.
        let rate = Pace::Rate("0:2000:10".parse().expect("it is a ramp"));
        let all = Workload { rate, seconds: 100.0, warmup_seconds: 10.0, ..Workload::default() };
        let (cut, note) = all.fitting(50_000 * 108 * 10 / 9, 1);
        assert_eq!(cut.seconds, 20.0);
        assert_eq!(note.as_deref(), Some("scaled: the disk has room for 20 of 100 s (20.000 %)"));
        assert_eq!(all.fitting(u64::MAX, 1).1, None);
    }

    #[test]
    fn what_warms_up_at_a_rate_takes_room_from_what_is_counted() {
        let records = Some(100_000);
        for (rate, expected) in [("1000:1000:0", 40_000), ("0:2000:10", 40_000), ("2000:1000:10", 35_000)] {
            let rate = Pace::Rate(rate.parse().expect("it is a rate"));
            let all = Workload { rate, records, warmup_seconds: 10.0, ..Workload::default() };
            let (cut, _) = all.fitting(50_000 * 108 * 10 / 9, 1);
            assert_eq!((cut.records, cut.records_max), (Some(expected), None), "{rate}");
        }
    }

    #[test]
    fn keys_take_room() {
        let all = Workload { keys: "uniform:5".into(), records: Some(1_000_000), ..Workload::default() };
        assert_eq!(all.fitting(450_000 * 118 * 10 / 9, 1).0.records, Some(450_000));
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
