//! Whatever a crash or rot does to the files: what comes back is what was written, up to some batch
//! that lies not before what was durable, or the log is quarantined.

use proptest::test_runner::TestCaseError;

use super::*;

#[derive(Debug, Clone)]
enum Write {
    Plain { size: usize },
    Idempotent { id: i64, count: usize },
    Open { id: i64, count: usize },
    End { id: i64, commit: bool },
    NewEpoch,
    Checkpoint,
}

fn write() -> impl Strategy<Value = Write> {
    let id = 1..3i64;
    prop_oneof![
        6 => (0..500usize).prop_map(|size| Write::Plain { size }),
        3 => (id.clone(), 1..4usize).prop_map(|(id, count)| Write::Idempotent { id, count }),
        3 => (id.clone(), 1..4usize).prop_map(|(id, count)| Write::Open { id, count }),
        3 => (id, any::<bool>()).prop_map(|(id, commit)| Write::End { id, commit }),
        1 => Just(Write::NewEpoch),
        1 => Just(Write::Checkpoint),
    ]
}

#[derive(Debug, Clone)]
enum Damage {
    None,
    Cut(usize),
    Zero(usize, usize),
    Flip(usize, u8),
    Copy(usize, usize, usize),
    Extend(Vec<u8>),
    Remove,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        Just(Damage::None),
        any::<usize>().prop_map(Damage::Cut),
        (any::<usize>(), 1..600usize).prop_map(|(at, len)| Damage::Zero(at, len)),
        (any::<usize>(), 1..=255u8).prop_map(|(at, mask)| Damage::Flip(at, mask)),
        (any::<usize>(), any::<usize>(), 1..600usize).prop_map(|(from, to, len)| Damage::Copy(from, to, len)),
        prop::collection::vec(any::<u8>(), 1..200).prop_map(Damage::Extend),
        Just(Damage::Remove),
    ]
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let place = |at: usize, len: usize| if len == 0 { 0 } else { at % len };
        let len = bytes.len();
        match *self {
            Self::None | Self::Remove => {}
            Self::Cut(at) => bytes.truncate(place(at, len + 1)),
            Self::Zero(at, count) => {
                let at = place(at, len);
                bytes[at..len.min(at + count)].fill(0);
            }
            Self::Flip(at, mask) => {
                if let Some(byte) = bytes.get_mut(place(at, len)) {
                    *byte ^= mask;
                }
            }
            Self::Copy(from, to, count) => {
                let (from, to) = (place(from, len), place(to, len));
                let count = count.min(len - from.max(to));
                bytes.copy_within(from..from + count, to);
            }
            Self::Extend(ref more) => bytes.extend(more),
        }
    }
}

struct World {
    disk: MemoryDisk,
    log: Log,
    epoch: i32,
    sequences: [i32; 3],
    open: [bool; 3],
}

impl World {
    fn write(&mut self, write: &Write) {
        let raw = match *write {
            Write::Plain { size } => batch(&[1, 2], size),
            Write::Idempotent { id, count } if !self.open[id as usize] => {
                idempotent(self.next(id, count), count)
            }
            Write::Idempotent { .. } => return,
            Write::Open { id, count } => {
                self.open[id as usize] = true;
                transactional(self.next(id, count), count)
            }
            Write::End { id, commit } => {
                self.open[id as usize] = false;
                marker(id, 0, commit, 1)
            }
            Write::NewEpoch => {
                self.epoch += 1;
                return;
            }
            Write::Checkpoint => return self.log.flush(FlushScope::Checkpoint).expect("memory"),
        };
        append_at(&mut self.log, now(1), &raw, self.epoch).expect("in turn");
    }

    fn next(&mut self, id: i64, count: usize) -> records::Producer {
        let sequence = &mut self.sequences[id as usize];
        let first = *sequence;
        *sequence += count as i32;
        producer(id, 0, first)
    }
}

/// Everything that is derived from the batches, as a follower that fetched them has it.
fn derived(log: &mut Log) -> String {
    let aborted = log.aborted_transactions(log.start(), log.end()).expect("memory");
    let producers: Vec<_> = log.producers().collect();
    let epochs: Vec<_> = log.epochs().collect();
    let times: Vec<_> = (0..4)
        .map(|t| log.offset_for_timestamp(TimestampMs(t)).expect("memory").map(|found| found.offset))
        .collect();
    format!("{aborted:?} {producers:?} {epochs:?} {times:?} {:?}", log.last_stable_offset(log.end()))
}

fn follower(log: &Log) -> Log {
    let mut follower = create(&MemoryDisk::new(), LogSettings::tiny());
    let mut next = log.start();
    while next < log.end() {
        let plan = log.plan_read(next, log.end(), 1 << 20, true).expect("in range");
        for batch in records::batches(&read(&plan)) {
            follower.append_stored(now(1), &batch.expect("good")).expect("goes on");
        }
        next = plan.next;
    }
    follower.on_high_watermark(log.end());
    follower
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn what_comes_back_was_written(
        writes in prop::collection::vec(write(), 1..60),
        victim in any::<usize>(),
        damage in damage(),
        clean in prop::bool::weighted(0.1),
    ) {
        comes_back(&writes, victim, &damage, clean)?;
    }
}

/// The offset of a batch is not under its checksum.
#[test]
fn a_base_offset_that_rots_below_the_recovery_point_is_for_its_readers_to_see() {
    use Write::{Checkpoint, End, Idempotent, Open, Plain};
    let open = |id, count| Open { id, count };
    let plain = |size| Plain { size };
    let mut writes = vec![plain(223), End { id: 1, commit: false }];
    writes.extend([154, 190, 450, 398, 19].map(plain));
    writes.extend([Idempotent { id: 1, count: 1 }, plain(255)]);
    writes.extend([open(1, 2), open(1, 3), open(1, 3), End { id: 1, commit: true }]);
    writes.extend([78, 330, 295].map(plain));
    writes.extend([Checkpoint, open(1, 3)]);
    let damage = Damage::Flip(1_578_125_415_851_778_874, 1);
    comes_back(&writes, 5_713_893_441_810_041_711, &damage, false).expect("as ever");
}

fn comes_back(writes: &[Write], victim: usize, damage: &Damage, clean: bool) -> Result<(), TestCaseError> {
    let disk = MemoryDisk::new();
    let log = create(&disk, LogSettings::tiny());
    let mut world = World { disk, log, epoch: 0, sequences: [0; 3], open: [false; 3] };
    for write in writes {
        world.write(write);
    }
    if clean {
        world.log.close().expect("memory");
    }
    let World { disk, log, .. } = &world;
    let written = read_all(log, Offset(0));
    let point = log.recovery_point();
    let files: Vec<_> = disk.list(Path::new(DIR)).expect("there").into_iter().map(|e| e.name).collect();
    let files: Vec<_> = files.into_iter().filter(|name| name != "partition.metadata").collect();
    let victim = &files[victim % files.len()];
    let file = Path::new(DIR).join(victim);
    let mut bytes = disk.contents(&file).expect("there");
    let before = bytes.clone();
    damage.apply(&mut bytes);
    let changed = bytes != before || matches!(damage, Damage::Remove);
    match damage {
        Damage::Remove => disk.remove_file(&file).expect("memory"),
        _ => disk.put(&file, bytes),
    }
    let known = Known { clean, ..unclean(point) };
    let (recovered, _) = match open(disk, LogSettings::tiny(), known) {
        Ok(opened) => opened,
        Err(error) => {
            prop_assert!(matches!(error, OpenError::Quarantined { .. }), "{}", error);
            prop_assert!(changed && victim.ends_with(".log"), "{} for {}", error, victim);
            return Ok(());
        }
    };
    if recovered.start() > Offset(0) {
        // A first segment that is gone is like one that retention deleted.
        prop_assert!(matches!(damage, Damage::Remove) && victim.as_str() == "00000000000000000000.log");
        return Ok(());
    }
    // Rot in a file of records that was durable, in a segment that was closed, is for its readers
    // to see: nobody reads it all at every start.
    let below = victim.strip_suffix(".log").and_then(|base| base.parse::<i64>().ok());
    let next = log.segments.iter().map(|s| s.base).find(|base| below.is_some_and(|b| base.0 > b));
    if next.is_some_and(|next| next <= point) || (below.is_some() && changed && recovered.end() < point) {
        prop_assert!(recovered.end() >= point);
        return Ok(());
    }
    prop_assert!(recovered.end() >= point);
    let found = read_all_checked(&recovered, below.is_some() && changed, &written);
    let Some(found) = found else { return Ok(()) };
    prop_assert_eq!(&found[..], &written[..found.len()]);
    if !victim.ends_with(".log") {
        prop_assert_eq!(recovered.end(), log.end());
    }
    let mut recovered = recovered;
    recovered.on_high_watermark(recovered.end());
    // These have no checksum: one that lost its end, or says something that could be, is believed.
    let believed = victim.ends_with(".timeindex")
        || victim.ends_with(".txnindex")
        || (victim.as_str() == EPOCHS_FILE && clean);
    let believed = believed && changed;
    if !believed {
        let mut follower = follower(&recovered);
        prop_assert_eq!(derived(&mut recovered), derived(&mut follower), "{}", victim);
    }
    let again = unclean(recovered.recovery_point());
    let (mut again, twice) = open(disk, LogSettings::tiny(), again).expect("recovered before");
    prop_assert_eq!(twice.cut, None);
    again.on_high_watermark(again.end());
    if !believed {
        prop_assert_eq!(derived(&mut again), derived(&mut recovered));
    }
    prop_assert_eq!(read_all(&again, Offset(0)), found);
    Ok(())
}

/// All batches; `None` if those before the recovery point, which nobody looked at, were damaged.
fn read_all_checked(log: &Log, damaged: bool, written: &[Stored]) -> Option<Vec<Stored>> {
    if !damaged {
        return Some(read_all(log, Offset(0)));
    }
    let mut next = log.start();
    while next < log.end() {
        let plan = log.plan_read(next, log.end(), 3000, true).ok()?;
        let bytes = read(&plan);
        let mut all = records::batches(&bytes);
        let good = all.by_ref().all(|b| b.is_ok_and(|b| written.contains(&Stored::of(&b))));
        let good = good && all.rest().is_empty();
        if !good || plan.next <= next {
            return None;
        }
        next = plan.next;
    }
    Some(read_all(log, Offset(0)))
}
