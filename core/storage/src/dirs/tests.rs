use base::{PartitionIndex, TopicName};

use super::*;
use crate::disk::Failed;
use crate::memory::MemoryDisk;

fn at(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition { topic: TopicName::new(topic).expect("legal"), partition: PartitionIndex(partition) }
}

fn owner(node: i32) -> Owner {
    Owner { cluster_id: Some("cluster-a".to_owned()), node_id: BrokerId(node) }
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
    let any = Owner { cluster_id: None, node_id: BrokerId(1) };
    assert_eq!(open(&disk, "/data", &any, 9).expect("any").0.properties().cluster_id, "cluster-a");
}

#[test]
fn a_directory_of_someone_else_is_refused() {
    let disk = MemoryDisk::new();
    open(&disk, "/data", &owner(1), 7).expect("new");
    assert!(matches!(open(&disk, "/data", &owner(2), 7), Err(LogDirError::Foreign { what: "node", .. })));
    let other = Owner { cluster_id: Some("cluster-b".to_owned()), node_id: BrokerId(1) };
    assert!(matches!(open(&disk, "/data", &other, 7), Err(LogDirError::Foreign { what: "cluster", .. })));
    disk.create_dir(Path::new("/lost/events-0")).expect("memory");
    assert!(matches!(open(&disk, "/lost", &owner(1), 7), Err(LogDirError::Unowned { .. })));
    let mut dirs = LogDirs::new();
    dirs.add(open(&disk, "/data", &owner(1), 7).expect("own").0).expect("first");
    let copy = open(&disk, "/copy", &owner(1), 7).expect("own").0;
    assert!(matches!(dirs.add(copy), Err(LogDirError::Copy { .. })));
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
    let (mut dir, contents) = open(&disk, "/data", &owner(1), 7).expect("known");
    assert_eq!(contents.partitions, [at("events", 2), at("events", 10)]);
    assert_eq!(contents.deleted, std::slice::from_ref(&gone));
    assert_eq!(contents.aside.len(), 1);
    assert_eq!(dir.partitions_count(), 2);
    dir.remove("events-2").expect("refused silently");
    dir.remove(&gone).expect("memory");
    let (_, contents) = open(&disk, "/data", &owner(1), 7).expect("known");
    assert_eq!((contents.partitions.len(), contents.deleted.len()), (2, 0));
}

#[test]
fn checkpoints_come_back_and_damage_is_told() {
    let disk = MemoryDisk::new();
    let (mut dir, _) = open(&disk, "/data", &owner(1), 7).expect("new");
    let offsets = PartitionOffsets::from([(at("a", 0), Offset(9)), (at("b", 1), Offset(5))]);
    dir.save_recovery_points(offsets.clone()).expect("memory");
    dir.save_log_starts(PartitionOffsets::from([(at("a", 0), Offset(3))])).expect("memory");
    dir.lower_recovery_point(&at("a", 0), Offset(4)).expect("memory");
    dir.lower_recovery_point(&at("b", 1), Offset(6)).expect("not lower");
    let (dir, _) = open(&disk, "/data", &owner(1), 7).expect("known");
    let points = &dir.checkpoints().recovery_points;
    assert_eq!((points[&at("a", 0)], points[&at("b", 1)]), (Offset(4), Offset(5)));
    assert_eq!(dir.checkpoints().log_starts[&at("a", 0)], Offset(3));
    disk.put(Path::new("/data/recovery-point-offset-checkpoint"), b"0\n9\n".to_vec());
    assert!(matches!(open(&disk, "/data", &owner(1), 7), Err(LogDirError::Checkpoint { .. })));
}

#[test]
fn partitions_are_spread_over_the_directories_that_work() {
    let disk = MemoryDisk::new();
    let mut dirs = LogDirs::new();
    for (id, path) in (1..).zip(["/a", "/b", "/c"]) {
        dirs.add(open(&disk, path, &owner(1), id).expect("new").0).expect("distinct");
    }
    let mut placed = Vec::new();
    for _ in 0..4 {
        let index = dirs.place().expect("all work");
        dirs.get_mut(index).expect("placed").added();
        placed.push(index);
    }
    assert_eq!(placed, [0, 1, 2, 0]);
    disk.fail(Some("replace"));
    let broken = dirs.get_mut(1).expect("there");
    broken.mark_clean(1).expect_err("told to fail");
    disk.fail(None);
    broken.mark_clean(1).expect_err("retired for good");
    assert_eq!(dirs.place(), Some(2));
    for dir in dirs.iter_mut() {
        dir.fail(DiskError {
            operation: "sync",
            path: PathBuf::new(),
            reason: String::new(),
            failed: Failed::Directory,
        });
    }
    assert_eq!(dirs.place(), None);
}
