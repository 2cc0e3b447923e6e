//! I26: whatever is compacted, when and how often, and wherever the power goes: of each key the last value is
//! there, tombstones for their time, offsets and order as they were. With `compact,delete` what is too old goes
//! as well, from the front on, and nothing else does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{LeaderEpoch, Offset, Sequence, TimestampMs};
use proptest::prelude::*;
use records::{BatchBuilder, BatchOptions, Compression, Scratch, batches};

use crate::disk::Disk;
use crate::log::{Committed, FlushScope, Log};
use crate::recovery::Known;
use crate::settings::LogSettings;
use crate::testing::power::PowerDisk;
use crate::testing::*;

const RETENTION_MS: i64 = 1000;
/// With `compact,delete`, how old records become.
const AGE_MS: i64 = 3 * RETENTION_MS;

/// How the disk dies, and the power goes or only the process.
#[derive(Debug, Clone, Copy)]
struct Death {
    /// After so many changes.
    changes: usize,
    power: bool,
    seed: u32,
}

#[derive(Debug, Clone)]
enum Step {
    Append {
        pairs: Vec<(u8, Option<u8>)>,
        codec: usize,
        producer: Option<i64>,
        epoch_step: i32,
    },
    Compact {
        map_bytes: usize,
    },
    CompactAndDie(Death),
    /// What is too old goes; the disk may die of it.
    Retain(Option<Death>),
    Wait {
        ms: i64,
    },
    Truncate {
        at: usize,
    },
    DeleteRecords {
        at: usize,
    },
    Reopen {
        clean: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let pair = (0..12u8, prop::option::weighted(0.7, any::<u8>()));
    let append = (
        prop::collection::vec(pair, 1..6),
        0..5usize,
        prop::option::weighted(0.3, 1..4i64),
        prop_oneof![8 => Just(0), 1 => 1..3],
    );
    let append = append.prop_map(|(pairs, codec, producer, epoch_step)| Step::Append {
        pairs,
        codec,
        producer,
        epoch_step,
    });
    let death = |changes_max: usize| {
        (0..changes_max, any::<bool>(), any::<u32>()).prop_map(|(changes, power, seed)| Death {
            changes,
            power,
            seed,
        })
    };
    let retain = prop::option::weighted(0.5, death(8)).prop_map(Step::Retain);
    prop_oneof![
        24 => append,
        3 => prop_oneof![Just(0), Just(240), Just(1 << 16)].prop_map(|map_bytes| Step::Compact { map_bytes }),
        3 => death(70).prop_map(Step::CompactAndDie),
        2 => retain,
        3 => (0..RETENTION_MS).prop_map(|ms| Step::Wait { ms }),
        1 => any::<usize>().prop_map(|at| Step::Truncate { at }),
        1 => any::<usize>().prop_map(|at| Step::DeleteRecords { at }),
        1 => any::<bool>().prop_map(|clean| Step::Reopen { clean }),
    ]
}

/// A record that was appended, and not cut.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    key: u8,
    value: Option<u8>,
    time: i64,
    /// When it was first there while the log was compacted.
    met: Option<i64>,
}

struct World {
    disk: PowerDisk,
    log: Log,
    settings: LogSettings,
    now: i64,
    epoch: i32,
    sequences: BTreeMap<i64, i32>,
    entries: BTreeMap<i64, Entry>,
    /// As the checkpoint has it.
    clean_upto: Offset,
    /// Whether something was cut: what a producer wrote before may be compacted, and with the snapshots it is
    /// forgotten.
    was_cut: bool,
}

fn dir() -> PathBuf {
    PathBuf::from(DIR)
}

impl World {
    fn new(deletes: bool) -> Self {
        let settings = LogSettings {
            compacts: true,
            deletes,
            retention_age: Some(Duration::from_millis(AGE_MS.unsigned_abs())),
            file_delete_delay: Duration::ZERO,
            dirty_ppm_min: 0,
            segment_bytes: 700,
            tombstone_retention: Duration::from_millis(RETENTION_MS.unsigned_abs()),
            ..LogSettings::tiny()
        };
        let disk = PowerDisk::default();
        let log = Log::create(Arc::new(disk.clone()), dir(), TOPIC, settings.clone(), now(0));
        Self {
            disk,
            log: log.expect("new"),
            settings,
            now: 0,
            epoch: 0,
            sequences: BTreeMap::new(),
            entries: BTreeMap::new(),
            clean_upto: Offset::ZERO,
            was_cut: false,
        }
    }

    fn step(&mut self, step: &Step) {
        self.now += 1;
        match *step {
            Step::Append { ref pairs, codec, producer, epoch_step } => {
                self.epoch += epoch_step;
                self.append(pairs, Compression::ALL[codec], producer);
            }
            Step::Compact { map_bytes } => {
                self.settle();
                let (at, bound) = (now(self.now), Committed { upto: self.log.end(), by_all: true });
                self.log.compact(at, bound, map_bytes).expect("memory");
                self.clean_upto = self.log.clean_upto();
            }
            Step::CompactAndDie(death) => {
                self.settle();
                self.disk.die_after(death.changes);
                let (at, bound) = (now(self.now), Committed { upto: self.log.end(), by_all: true });
                let compacted = self.log.compact(at, bound, 1 << 16);
                let died = self.disk.revive();
                assert!(compacted.is_ok() || died, "{compacted:?}");
                self.die(death);
                self.reopen(false);
            }
            Step::Retain(death) => self.retain(death),
            Step::Wait { ms } => self.now += ms,
            Step::Truncate { at } => {
                let at = self.pick(at);
                self.was_cut = true;
                let end = self.log.truncate(now(self.now), ..at).expect("memory");
                assert!(end <= at);
                // A batch that reaches over it goes whole. What had taken the place of others is gone with them.
                let (_, found) = self.read();
                self.entries.retain(|offset, entry| {
                    *offset < end.0 && (entry.met.is_none() || found.contains_key(offset))
                });
                self.clean_upto = self.clean_upto.min(end);
                self.epoch = self.log.last_epoch().map_or(0, |epoch| epoch.0);
                self.sequences.clear();
                for seen in self.log.producers() {
                    self.sequences.insert(seen.id.0, seen.last_sequence.0 + 1);
                }
            }
            Step::DeleteRecords { at } => {
                let at = self.pick(at);
                self.log.delete_records(at).expect("in range");
            }
            Step::Reopen { clean } => {
                self.settle();
                if clean {
                    self.log.close().expect("memory");
                }
                self.reopen(clean);
            }
        }
        self.log.check();
        self.check();
    }

    fn die(&mut self, Death { power, seed, .. }: Death) {
        if power {
            let mut state = seed | 1;
            self.disk = self.disk.cut(&mut || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state >> 8
            });
        }
    }

    fn retain(&mut self, death: Option<Death>) {
        self.settle();
        let (before, start) = (self.read().1, self.log.start());
        if let Some(death) = death {
            self.disk.die_after(death.changes);
        }
        let retained = self.log.retain(now(self.now), self.log.end());
        let died = self.disk.revive();
        assert!(retained.is_ok() || died, "{retained:?}");
        if let Some(death) = death {
            self.die(death);
            self.reopen(false);
        }
        let gone_upto = self.log.start();
        assert!(gone_upto >= start, "{gone_upto} was {start}");
        for (offset, entry) in before.range(..gone_upto.0) {
            let is_old = entry.time + AGE_MS <= self.now;
            assert!(self.settings.deletes && is_old, "{offset} is gone: {entry:?}, at {}", self.now);
        }
    }

    fn append(&mut self, pairs: &[(u8, Option<u8>)], compression: Compression, of: Option<i64>) {
        let mut builder = BatchBuilder::new(1 << 16);
        for &(key, value) in pairs {
            let value = value.map(|value| [value; 40]);
            let value = value.as_ref().map(|value| &value[..]);
            builder.try_append(TimestampMs(self.now), Some(&[key]), value, &[]).expect("fits");
        }
        let mut options = BatchOptions { compression, ..BatchOptions::default() };
        if let Some(id) = of {
            let next = self.sequences.entry(id).or_insert(0);
            options.producer = producer(id, 0, *next);
            *next += i32::try_from(pairs.len()).expect("small");
        }
        let mut raw = Vec::new();
        builder.finish(&options, &mut Scratch::default(), &mut raw).expect("fits");
        let appended = append_at(&mut self.log, now(self.now), &raw, self.epoch).expect("appended");
        for (offset, &(key, value)) in (appended.base_offset.0..).zip(pairs) {
            self.entries.insert(offset, Entry { key, value, time: self.now, met: None });
        }
    }

    /// Everything to the media, and on to a compaction.
    fn settle(&mut self) {
        self.log.flush(FlushScope::Checkpoint).expect("memory");
        for entry in self.entries.values_mut() {
            entry.met.get_or_insert(self.now);
        }
    }

    fn reopen(&mut self, clean: bool) {
        let (end, views, epochs) = (self.log.end(), self.views(), self.log.epochs().collect::<Vec<_>>());
        let known = Known {
            recovery_point: self.log.recovery_point(),
            log_start: self.log.start(),
            clean,
            adopted: false,
        };
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let opened = Log::open(disk, dir(), self.settings.clone(), known, now(self.now));
        let (log, recovered) = opened.expect("everything was on the media");
        assert_eq!(recovered.cut, None);
        self.log = log;
        self.log.set_clean_upto(self.clean_upto);
        assert_eq!(self.log.end(), end);
        // Of what went for its age more may be gone than was known.
        let mut expected: Vec<(LeaderEpoch, Offset)> = Vec::new();
        for (epoch, from) in epochs {
            let from = from.max(self.log.start());
            expected.retain(|&(_, older)| older < from);
            expected.push((epoch, from));
        }
        assert_eq!(self.log.epochs().collect::<Vec<_>>(), expected);
        assert!(self.was_cut || self.views() == views, "{views:?} were {:?}", self.views());
        let names = self.disk.list(&dir()).expect("there");
        let left = |name: &str| [".swap", ".cleaned", ".deleted"].iter().any(|end| name.ends_with(end));
        assert!(!names.iter().any(|entry| left(&entry.name)), "{names:?}");
    }

    fn views(&self) -> Vec<(i64, i16, Sequence)> {
        self.log.producers().map(|seen| (seen.id.0, seen.epoch.0, seen.last_sequence)).collect()
    }

    fn pick(&self, at: usize) -> Offset {
        let span = self.log.end().0 - self.log.start().0 + 1;
        Offset(self.log.start().0 + i64::try_from(at).unwrap_or(i64::MAX) % span)
    }

    /// What can be read: the extent of each batch, and the records that are not before the start.
    fn read(&self) -> (Vec<(i64, i64)>, BTreeMap<i64, Entry>) {
        let (mut extents, mut found) = (Vec::new(), BTreeMap::new());
        let mut scratch = Scratch::default();
        let mut next = self.log.start();
        while next < self.log.end() {
            let plan = self.log.plan_read(next, self.log.end(), 900, true).expect("in range");
            if plan.bytes == 0 {
                // A log that was cut in a gap ends behind its last batch.
                assert!(self.was_cut, "a read goes on");
                break;
            }
            for batch in batches(&read(&plan)) {
                let batch = batch.expect("good");
                let header = batch.header();
                extents.push((header.base_offset.0, header.last_offset().0));
                if header.records_count == 0 {
                    continue;
                }
                for record in batch.records(&mut scratch).expect("readable") {
                    let record = record.expect("readable");
                    let (key, value) = (record.key.expect("has one")[0], record.value.map(|value| value[0]));
                    let time = record.timestamp(header).0;
                    let offset = record.offset(header).0;
                    if offset >= self.log.start().0 {
                        found.insert(offset, Entry { key, value, time, met: None });
                    }
                }
            }
            next = plan.next;
        }
        (extents, found)
    }

    fn check(&self) {
        let (extents, found) = self.read();
        assert!(extents.windows(2).all(|pair| pair[0].1 < pair[1].0), "in order: {extents:?}");
        // What is there is what was appended.
        for (offset, entry) in &found {
            let appended = self.entries.get(offset).map(|entry| Entry { met: None, ..entry.clone() });
            assert_eq!(Some(entry), appended.as_ref(), "{offset}");
        }
        // Nothing is gone that was not compacted.
        let start = self.log.start().0;
        let mut last = BTreeMap::new();
        for (&offset, entry) in self.entries.range(start..) {
            last.insert(entry.key, offset);
            let may_be_gone = entry.met.is_some();
            assert!(may_be_gone || found.contains_key(&offset), "{offset}");
        }
        for (key, offset) in last {
            let entry = &self.entries[&offset];
            let is_expired = entry.met.is_some_and(|met| self.now >= met + RETENTION_MS);
            if found.contains_key(&offset) {
                continue;
            }
            assert!(entry.value.is_none() && is_expired, "the last of key {key}, {offset}, is gone");
            let older = found.values().find(|entry| entry.key == key);
            assert_eq!(older, None, "what {offset} deleted is there again");
        }
        self.check_offsets(&extents);
    }

    /// Each offset leads to the next batch that is there.
    fn check_offsets(&self, extents: &[(i64, i64)]) {
        for offset in self.log.start().0..self.log.end().0 {
            let plan = self.log.plan_read(Offset(offset), self.log.end(), 1, true).expect("in range");
            let first = extents.iter().find(|&&(_, last)| last >= offset);
            assert_eq!(plan.bytes > 0, first.is_some(), "{offset}");
            assert_eq!(plan.first.0, first.map_or(offset, |&(base, _)| base), "{offset}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn compaction_keeps_the_last_of_each_key(
        deletes in any::<bool>(),
        steps in prop::collection::vec(step(), 1..100),
    ) {
        let mut world = World::new(deletes);
        for step in &steps {
            world.step(step);
        }
        // Once all is compacted, each key is there once, but for what cannot be closed yet.
        world.step(&Step::Compact { map_bytes: 1 << 16 });
        let clean_upto = world.log.clean_upto();
        let (_, found) = world.read();
        let clean: Vec<_> = found.range(..clean_upto.0).collect();
        let keys: BTreeSet<_> = clean.iter().map(|(_, entry)| entry.key).collect();
        prop_assert_eq!(keys.len(), clean.len(), "{:?}", clean);
        // And a second time changes nothing.
        let before = world.read();
        world.step(&Step::Compact { map_bytes: 1 << 16 });
        prop_assert_eq!(world.read(), before);
    }
}
