//! A log behaves as a list of batches does, whatever is done to it in whatever order.

use base::{Offset, TimestampMs};
use proptest::prelude::*;

use crate::log::{FlushScope, Log};
use crate::memory::MemoryDisk;
use crate::recovery::Known;
use crate::settings::LogSettings;
use crate::testing::*;

#[derive(Debug, Clone)]
enum Step {
    Append { timestamps: Vec<i64>, size: usize, epoch_step: i32 },
    Read { from: usize, upto: usize, bytes_max: u32, at_least_one: bool },
    Truncate { at: usize },
    StartAt { beyond: i64 },
    DeleteRecords { at: usize },
    Retain { bytes: u64 },
    FindTime { timestamp: i64 },
    Flush(u8),
    Rest,
    Reopen { clean: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let timestamps = prop::collection::vec(0..1000i64, 1..6);
    let append = (timestamps, 0..600usize, prop_oneof![8 => Just(0), 1 => 1..3])
        .prop_map(|(timestamps, size, epoch_step)| Step::Append { timestamps, size, epoch_step });
    let read = (any::<usize>(), any::<usize>(), 0..9000u32, any::<bool>())
        .prop_map(|(from, upto, bytes_max, at_least_one)| Step::Read { from, upto, bytes_max, at_least_one });
    prop_oneof![
        20 => append,
        8 => read,
        1 => any::<usize>().prop_map(|at| Step::Truncate { at }),
        1 => (0..5i64).prop_map(|beyond| Step::StartAt { beyond }),
        1 => any::<usize>().prop_map(|at| Step::DeleteRecords { at }),
        1 => (0..20_000u64).prop_map(|bytes| Step::Retain { bytes }),
        4 => (0..1010i64).prop_map(|timestamp| Step::FindTime { timestamp }),
        3 => (0..2u8).prop_map(Step::Flush),
        1 => Just(Step::Rest),
        1 => any::<bool>().prop_map(|clean| Step::Reopen { clean }),
    ]
}

/// What the log should be.
#[derive(Debug, Default)]
struct Model {
    batches: Vec<(Stored, Vec<i64>)>,
    start: i64,
    end: i64,
    epoch: i32,
}

impl Model {
    /// Records at or behind the start: offset and timestamp.
    fn records(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        let all = self.batches.iter().flat_map(|(b, times)| (b.base..).zip(times.iter().copied()));
        all.filter(|&(offset, _)| offset >= self.start)
    }

    fn pick(&self, at: usize) -> i64 {
        let span = usize::try_from(self.end - self.start).expect("not negative") + 1;
        self.start + i64::try_from(at % span).expect("small")
    }

    fn find(&self, timestamp: i64) -> Option<(i64, i64)> {
        self.records().find(|&(_, time)| time >= timestamp).map(|(offset, time)| (time, offset))
    }

    fn largest(&self) -> Option<(i64, i64)> {
        let largest = self.records().map(|(_, time)| time).max()?;
        self.records().find(|&(_, time)| time == largest).map(|(offset, time)| (time, offset))
    }

    fn read(&self, from: i64, upto: i64, bytes_max: u32, at_least_one: bool) -> Vec<Stored> {
        let mut found: Vec<Stored> = Vec::new();
        let mut bytes = 0;
        for (batch, _) in self.batches.iter().filter(|(b, _)| b.last >= from && b.last < upto) {
            bytes += batch.bytes;
            if bytes > bytes_max as usize && !(at_least_one && found.is_empty()) {
                break;
            }
            found.push(batch.clone());
        }
        found
    }
}

struct World {
    disk: MemoryDisk,
    log: Log,
    model: Model,
    compact: LogSettings,
}

impl World {
    fn step(&mut self, step: &Step) {
        let Self { disk, log, model, compact } = self;
        match step {
            Step::Append { timestamps, size, epoch_step } => {
                model.epoch += epoch_step;
                let raw = batch(timestamps, *size);
                let appended = append_at(log, now(1), &raw, model.epoch).expect("appended");
                assert_eq!(appended.base_offset.0, model.end);
                model.end = appended.last_offset.0 + 1;
                let bytes = raw.len();
                let mut header = records::BatchHeader::parse(&raw).expect("good");
                header.place(appended.base_offset, base::LeaderEpoch(model.epoch));
                let stored = Stored {
                    base: appended.base_offset.0,
                    last: appended.last_offset.0,
                    epoch: model.epoch,
                    crc: header.crc,
                    bytes,
                };
                model.batches.push((stored, timestamps.clone()));
            }
            Step::Read { from, upto, bytes_max, at_least_one } => {
                let (from, upto) = (model.pick(*from), model.pick(*upto));
                let expected = model.read(from, upto, *bytes_max, *at_least_one);
                let plan = log.plan_read(Offset(from), Offset(upto), *bytes_max, *at_least_one);
                let plan = plan.expect("in range");
                let found = stored(&read(&plan));
                // A plan reaches over a bounded number of segments; short of that it has everything.
                if plan.slices.len() < 8 {
                    assert_eq!(found, expected, "{from}..{upto} {bytes_max}");
                } else {
                    assert_eq!(found[..], expected[..found.len()]);
                }
                assert_eq!(plan.next.0, found.last().map_or(from, |last| last.last + 1));
                assert_eq!(plan.first.0, found.first().map_or(from, |first| first.base));
            }
            Step::Truncate { at } => {
                let at = model.pick(*at);
                let end = log.truncate(now(1), ..Offset(at)).expect("memory");
                model.batches.retain(|(b, _)| b.last < at);
                if at < model.end {
                    let last = model.batches.last().map(|(b, _)| b.last + 1);
                    model.end = last.unwrap_or(at);
                    // An empty log begins where it was cut, or where its first file did.
                    if last.is_none() {
                        assert!(end.0 <= at);
                        model.end = end.0;
                    }
                    model.start = model.start.min(model.end);
                }
                assert_eq!(end.0, model.end);
                model.epoch = log.last_epoch().map_or(0, |epoch| epoch.0);
            }
            Step::StartAt { beyond } => {
                model.batches.clear();
                (model.start, model.end) = (model.end + beyond, model.end + beyond);
                log.truncate_fully_and_start_at(now(1), Offset(model.end)).expect("memory");
            }
            Step::DeleteRecords { at } => {
                let at = model.pick(*at);
                assert_eq!(log.delete_records(Offset(at)).expect("in range").0, at);
                model.start = at;
            }
            Step::Retain { bytes } => {
                log.reconfigure(LogSettings { retention_bytes: Some(*bytes), ..compact.clone() });
                log.retain(now(1), log.end()).expect("memory");
                assert!(log.size_bytes() < *bytes + 4096 || log.segments_count() == 1);
                model.start = log.start().0;
                let first = log.segments[0].base.0;
                model.batches.retain(|(b, _)| b.base >= first);
            }
            Step::FindTime { timestamp } => {
                let found = log.offset_for_timestamp(TimestampMs(*timestamp)).expect("memory");
                assert_eq!(found.map(|f| (f.timestamp.0, f.offset.0)), model.find(*timestamp));
                let found = log.max_timestamp().expect("memory");
                assert_eq!(found.map(|f| (f.timestamp.0, f.offset.0)), model.largest());
            }
            Step::Flush(scope) => {
                let scopes = [FlushScope::Records, FlushScope::Checkpoint];
                log.flush(scopes[usize::from(*scope)]).expect("memory");
            }
            Step::Rest => {
                log.rest();
                log.rest();
            }
            Step::Reopen { clean } => {
                if *clean {
                    log.close().expect("memory");
                }
                let (recovery_point, log_start) = (log.recovery_point(), log.start());
                let known = Known { recovery_point, log_start, clean: *clean, adopted: false };
                let epochs: Vec<_> = log.epochs().collect();
                let (opened, recovered) = open(disk, compact.clone(), known).expect("good");
                assert_eq!(recovered.clean, *clean);
                assert_eq!(recovered.cut, None);
                assert_eq!(opened.epochs().collect::<Vec<_>>(), epochs);
                *log = opened;
            }
        }
        log.check();
        assert_eq!((log.start().0, log.end().0), (model.start, model.end));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_log_is_a_list_of_batches(steps in prop::collection::vec(step(), 1..120)) {
        let disk = MemoryDisk::new();
        let settings = LogSettings { retention_age: None, ..LogSettings::tiny() };
        let log = create(&disk, settings.clone());
        let mut world = World { disk, log, model: Model::default(), compact: settings };
        for step in &steps {
            world.step(step);
        }
        let all: Vec<_> = world.model.batches.iter().map(|(b, _)| b.clone()).collect();
        let all: Vec<_> = all.into_iter().filter(|b| b.last >= world.model.start).collect();
        prop_assert_eq!(read_all(&world.log, world.log.start()), all);
    }
}
