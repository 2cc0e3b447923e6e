//! Whatever lies in a directory: nothing panics, and what cannot be a log is refused.

use super::*;

const BASES: [i64; 6] = [0, 1, 7, i64::MAX / 2, i64::MAX - 1, i64::MAX];

/// A file of one kind at one base, filled with something.
fn file() -> impl Strategy<Value = (FileKind, i64, Vec<u8>)> {
    let kind = prop::sample::select(FileKind::ALL.to_vec());
    let base = prop::sample::select(BASES.to_vec());
    let noise = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300),
        prop::collection::vec(prop::sample::select(vec![0u8, 1, 0x7f, 0x80, 0xff]), 0..300),
    ];
    (kind, base, noise)
}

/// Good batches at offsets that may be the last there are, with a hole or a byte changed here or there.
fn records() -> impl Strategy<Value = (FileKind, i64, Vec<u8>)> {
    let base = prop::sample::select(BASES.to_vec());
    let batches = prop::collection::vec((0..3i64, any::<bool>()), 1..12);
    let flip = prop::option::of((any::<prop::sample::Index>(), 1..=255u8));
    (base, batches, flip).prop_map(|(base, batches, flip)| {
        let mut bytes = Vec::new();
        let mut next = base;
        for (gap, control) in batches {
            let mut raw = if control { marker(1, 0, false, 1) } else { transactional(producer(1, 0, 0), 2) };
            next = next.saturating_add(gap);
            raw[..8].copy_from_slice(&next.to_be_bytes());
            next = next.saturating_add(if control { 1 } else { 2 });
            bytes.extend(raw);
        }
        if let Some((at, mask)) = flip {
            *at.get_mut(&mut bytes) ^= mask;
        }
        (FileKind::Log, base, bytes)
    })
}

/// Entries of an index that point somewhere.
fn entries() -> impl Strategy<Value = (FileKind, i64, Vec<u8>)> {
    let kind = prop::sample::select(vec![FileKind::OffsetIndex, FileKind::TimeIndex]);
    let base = prop::sample::select(BASES.to_vec());
    let entry = (0..3i64, 0..8u32, 0..400u32);
    (kind, base, prop::collection::vec(entry, 0..6)).prop_map(|(kind, base, entries)| {
        let mut bytes = Vec::new();
        for (timestamp, delta, position) in entries {
            if kind == FileKind::TimeIndex {
                bytes.extend(timestamp.to_be_bytes());
                bytes.extend(delta.to_be_bytes());
            } else {
                bytes.extend(delta.to_be_bytes());
                bytes.extend(position.to_be_bytes());
            }
        }
        (kind, base, bytes)
    })
}

fn use_it(log: &mut Log) {
    let (start, end) = (log.start(), log.end());
    for from in [start, Offset(end.0.saturating_sub(1)), end] {
        // What cannot be read is an error, never a panic.
        let _ = log.plan_read(from, end, 1000, true);
        let _ = log.aborted_transactions(from, end);
    }
    for timestamp in [0, 1, 2, i64::MAX] {
        let _ = log.offset_for_timestamp(TimestampMs(timestamp));
    }
    let _ = log.max_timestamp();
    let _ = append_at(log, now(i64::MAX), &batch(&[1], 10), 0);
    let _ = log.flush(FlushScope::Checkpoint);
    let _ = log.truncate(now(1), ..Offset(end.0.saturating_sub(1)));
    let _ = log.retain(now(i64::MAX), log.end());
    let _ = log.close();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_in_a_directory_makes_it_panic(
        files in prop::collection::vec(prop_oneof![1 => file(), 2 => records(), 2 => entries()], 1..6),
        epochs in prop::collection::vec(any::<u8>(), 0..30),
        clean in any::<bool>(),
        point in prop::sample::select(vec![0, 1, 8, i64::MAX]),
    ) {
        for adopted in [false, true] {
            let disk = MemoryDisk::new();
            disk.create_dir(Path::new(DIR)).expect("memory");
            for (kind, base, bytes) in &files {
                disk.put(&path(*kind, *base), bytes.clone());
            }
            disk.put(&Path::new(DIR).join(EPOCHS_FILE), epochs.clone());
            let known = Known { clean, adopted, ..unclean(Offset(point)) };
            if let Ok((mut log, _)) = open(&disk, LogSettings::tiny(), known) {
                use_it(&mut log);
            }
        }
    }
}
