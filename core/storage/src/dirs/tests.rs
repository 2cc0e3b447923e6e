use base::{PartitionIndex, TopicName};

use super::*;
use crate::memory::MemoryDisk;

fn at(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition { topic: TopicName::new(topic).expect("legal"), partition: PartitionIndex(partition) }
}

fn owner(node: i32) -> Owner {
    Owner { cluster_id: Some("cluster-a".to_owned()), node_id: BrokerId(node), metadata_directory: None }
}

fn open(disk: &MemoryDisk, path: &str, owner: &Owner, id: u8) -> Result<(LogDir, Contents), LogDirError> {
    LogDir::open(Arc::new(disk.clone()), PathBuf::from(path), owner, Uuid([id; 16]))
}

#[test]
fn a_new_directory_gets_an_id_and_keeps_it() {
    let disk = MemoryDisk::new();
    let (dir, contents) = open(&disk, "/data", &owner(1), 7).expect("new");
    assert_eq!((dir.id(), contents), (Uuid([7; 16]), Contents::default()));
    let (dir, _) = open(&disk, "/data", &owner(1), 8).expect("known");
    assert_eq!(dir.id(), Uuid([7; 16]));
    assert_eq!(dir.properties().metadata_directory, dir.id());
    let elsewhere = Owner { metadata_directory: Some(Uuid([5; 16])), ..owner(1) };
    let (mut dir, _) = open(&disk, "/data", &elsewhere, 8).expect("known");
    assert_eq!(dir.properties().metadata_directory, dir.id(), "only a new one takes it from its owner");
    dir.name_metadata_directory(Uuid([6; 16])).expect("memory");
    let (dir, _) = open(&disk, "/data", &elsewhere, 8).expect("known");
    assert_eq!(dir.properties().metadata_directory, Uuid([6; 16]));
    let (dir, _) = open(&disk, "/other", &elsewhere, 8).expect("new");
    assert_eq!(dir.properties().metadata_directory, Uuid([5; 16]));
    let any = Owner { cluster_id: None, ..owner(1) };
    assert_eq!(open(&disk, "/data", &any, 9).expect("any").0.properties().cluster_id, "cluster-a");
}

#[test]
fn a_directory_of_someone_else_is_refused() {
    let disk = MemoryDisk::new();
    open(&disk, "/data", &owner(1), 7).expect("new");
    assert!(matches!(open(&disk, "/data", &owner(2), 7), Err(LogDirError::Foreign { what: "node", .. })));
    let other = Owner { cluster_id: Some("cluster-b".to_owned()), ..owner(1) };
    assert!(matches!(open(&disk, "/data", &other, 7), Err(LogDirError::Foreign { what: "cluster", .. })));
    disk.create_dir(Path::new("/lost/events-0")).expect("memory");
    assert!(matches!(open(&disk, "/lost", &owner(1), 7), Err(LogDirError::Unowned { .. })));
}

#[test]
fn the_mark_of_an_orderly_stop_is_good_for_one_start() {
    let disk = MemoryDisk::new();
    let (mut dir, _) = open(&disk, "/data", &owner(1), 7).expect("new");
    assert_eq!(dir.clean_shutdown(), None);
    dir.mark_clean(42).expect("memory");
    assert_eq!(open(&disk, "/data", &owner(1), 7).expect("known").0.clean_shutdown(), Some(42));
    assert_eq!(open(&disk, "/data", &owner(1), 7).expect("known").0.clean_shutdown(), None);
    disk.put(Path::new("/data/.kafka_cleanshutdown"), Vec::new());
    assert_eq!(open(&disk, "/data", &owner(1), 7).expect("known").0.clean_shutdown(), Some(-1));
}

#[test]
fn contents_are_told_apart() {
    let disk = MemoryDisk::new();
    let (mut dir, _) = open(&disk, "/data", &owner(1), 7).expect("new");
    for name in ["events-10", "events-2", "a-0", "lost+found", "x-1.0123456789abcdef0123456789abcdef-future"]
    {
        disk.create_dir(&Path::new("/data").join(name)).expect("memory");
    }
    let gone = dir.set_aside(&at("a", 0), Uuid([0xaa; 16])).expect("memory");
    let (_, contents) = open(&disk, "/data", &owner(1), 7).expect("known");
    assert_eq!(contents.partitions, [at("events", 2), at("events", 10)]);
    assert_eq!(contents.deleted, std::slice::from_ref(&gone));
    assert_eq!(contents.aside.len(), 1);
    remove_deleted(&disk, Path::new("/data"), "events-2").expect("refused silently");
    remove_deleted(&disk, Path::new("/data"), &gone).expect("memory");
    let (_, contents) = open(&disk, "/data", &owner(1), 7).expect("known");
    assert_eq!((contents.partitions.len(), contents.deleted.len()), (2, 0));
}

fn offsets(of: &[(&str, i64)]) -> Checkpoints {
    let offsets: PartitionOffsets =
        of.iter().map(|&(topic, offset)| (at(topic, 0), Offset(offset))).collect();
    Checkpoints {
        recovery_points: offsets.clone(),
        log_starts: offsets.clone(),
        high_watermarks: offsets.clone(),
        clean_offsets: offsets,
        adopted: PartitionOffsets::new(),
        lax: PartitionOffsets::default(),
    }
}

fn kept(disk: &MemoryDisk) -> Checkpoints {
    open(disk, "/data", &owner(1), 7).expect("known").0.checkpoints().clone()
}

#[test]
fn checkpoints_come_back_and_damage_is_told() {
    let disk = MemoryDisk::new();
    let (mut dir, _) = open(&disk, "/data", &owner(1), 7).expect("new");
    dir.save(offsets(&[("a", 9), ("b", 5)])).expect("memory");
    assert_eq!(kept(&disk), offsets(&[("a", 9), ("b", 5)]));
    disk.put(Path::new("/data/recovery-point-offset-checkpoint"), b"0\n9\n".to_vec());
    assert!(matches!(open(&disk, "/data", &owner(1), 7), Err(LogDirError::Checkpoint { .. })));
}

#[test]
fn a_partition_that_is_not_served_keeps_its_entries_until_it_is_deleted() {
    let disk = MemoryDisk::new();
    let (mut dir, _) = open(&disk, "/data", &owner(1), 7).expect("new");
    dir.save(offsets(&[("broken", 9), ("good", 5)])).expect("memory");
    let (mut dir, _) = open(&disk, "/data", &owner(1), 7).expect("known");
    dir.save(offsets(&[("good", 6)])).expect("memory");
    assert_eq!(kept(&disk), offsets(&[("broken", 9), ("good", 6)]));
    disk.create_dir(Path::new("/data/broken-0")).expect("memory");
    dir.set_aside(&at("broken", 0), Uuid([1; 16])).expect("memory");
    dir.save(offsets(&[("good", 6)])).expect("memory");
    assert_eq!(kept(&disk), offsets(&[("good", 6)]));
}

#[test]
fn starts_are_saved_alone_and_what_is_deleted_stays_forgotten() {
    let disk = MemoryDisk::new();
    let (mut dir, _) = open(&disk, "/data", &owner(1), 7).expect("new");
    dir.save(offsets(&[("a", 1), ("b", 1)])).expect("memory");
    disk.create_dir(Path::new("/data/b-0")).expect("memory");
    dir.set_aside(&at("b", 0), Uuid([1; 16])).expect("memory");
    let written = disk.count("replace");
    dir.save_starts(PartitionOffsets::from([(at("a", 0), Offset(7))])).expect("memory");
    assert_eq!(disk.count("replace"), written + 1);
    let (before, after) = (offsets(&[("a", 1), ("b", 1)]), kept(&disk));
    assert_eq!(after.log_starts, PartitionOffsets::from([(at("a", 0), Offset(7))]));
    assert_eq!(
        (&after.recovery_points, &after.high_watermarks),
        (&before.recovery_points, &before.high_watermarks)
    );
    dir.save(Checkpoints::default()).expect("memory");
    assert_eq!(kept(&disk).recovery_points, offsets(&[("a", 1)]).recovery_points, "not remembered by halves");
}

/// It goes on with other records: what was noted of those that go would hide or destroy them after a crash.
#[test]
fn before_a_log_is_cut_nothing_is_noted_any_more_of_what_goes() {
    let disk = MemoryDisk::new();
    let (mut dir, _) = open(&disk, "/data", &owner(1), 7).expect("new");
    dir.save(offsets(&[("all", 9), ("end", 9)])).expect("memory");
    let notes = |end, start| CutNotes { recovery_point: Offset(0), end: Offset(end), start: Offset(start) };
    dir.note_cut(&at("all", 0), notes(0, 5)).expect("memory");
    dir.note_cut(&at("end", 0), notes(4, 20)).expect("memory");
    let after = kept(&disk);
    let points = PartitionOffsets::from([(at("all", 0), Offset(0)), (at("end", 0), Offset(0))]);
    let marks = PartitionOffsets::from([(at("all", 0), Offset(0)), (at("end", 0), Offset(4))]);
    assert_eq!((after.recovery_points, after.high_watermarks), (points, marks));
    let starts = PartitionOffsets::from([(at("all", 0), Offset(5)), (at("end", 0), Offset(9))]);
    assert_eq!(after.log_starts, starts, "what lies below both was deleted");
}

#[test]
fn what_is_forgotten_is_gone_when_it_is_said() {
    let disk = MemoryDisk::new();
    let (mut dir, _) = open(&disk, "/data", &owner(1), 7).expect("new");
    dir.save(offsets(&[("a", 9), ("b", 5)])).expect("memory");
    let written = disk.count("replace");
    dir.forget([at("c", 0)]).expect("memory");
    assert_eq!(disk.count("replace"), written, "there was nothing to forget");
    dir.forget([at("a", 0)]).expect("memory");
    assert_eq!(kept(&disk), offsets(&[("b", 5)]));
    dir.save(offsets(&[("a", 1), ("b", 5)])).expect("memory");
    assert_eq!(kept(&disk), offsets(&[("a", 1), ("b", 5)]), "a new one of the name begins anew");
}

#[test]
fn an_adoption_ends_log_by_log() {
    let disk = MemoryDisk::new();
    let (mut dir, _) = open(&disk, "/data", &owner(1), 7).expect("new");
    dir.begin_adoption([at("a", 0), at("b", 0), at("c", 0)]).expect("memory");
    dir.save(offsets(&[("a", 1)])).expect("memory");
    assert_eq!(kept(&disk).adopted.len(), 3, "a crash came before any was opened");
    dir.end_adoption(&BTreeSet::from([at("a", 0)])).expect("memory");
    dir.forget([at("b", 0)]).expect("memory");
    assert_eq!(kept(&disk).adopted.into_keys().collect::<Vec<_>>(), [at("c", 0)]);
}
