use std::io::IoSlice;

use super::*;

const KEEP_NONE: PowerCut = PowerCut { kept_per_thousand: 0, torn: false, rubbish: false };
const KEEP_SOME: PowerCut = PowerCut { kept_per_thousand: 500, torn: true, rubbish: false };

fn disk() -> SimDisk {
    disk_of_seed(1)
}

fn disk_of_seed(seed: u64) -> SimDisk {
    let disk = SimDisk::new(Random::stream(seed, "disk"), Trace::default());
    disk.create_dir(Path::new("/log")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

fn write(disk: &SimDisk, path: &str, bytes: &[u8]) -> Arc<dyn DiskFile> {
    let file = disk.open(Path::new(path), OpenMode::Create).unwrap();
    file.write_at(&[IoSlice::new(bytes)], 0).unwrap();
    file
}

fn sync_log(disk: &SimDisk) {
    disk.sync_dir(Path::new("/log")).unwrap();
}

fn names(disk: &SimDisk) -> Vec<String> {
    disk.list(Path::new("/log")).unwrap().into_iter().map(|entry| entry.name).collect()
}

#[test]
fn a_name_is_durable_with_its_directory_not_with_its_bytes() {
    let disk = disk();
    write(&disk, "/log/a", b"a").sync().unwrap();
    assert_eq!(disk.on_media(Path::new("/log/a")), None);
    disk.restore_power(KEEP_NONE);
    assert_eq!(names(&disk), Vec::<String>::new());

    write(&disk, "/log/a", b"a").sync().unwrap();
    sync_log(&disk);
    assert_eq!(disk.on_media(Path::new("/log/a")).as_deref(), Some(&b"a"[..]));
    disk.restore_power(KEEP_NONE);
    assert_eq!(names(&disk), ["a"]);
}

#[test]
fn a_rename_may_be_lost_but_is_never_half_done() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let disk = disk_of_seed(seed);
        for (path, bytes) in [("/log/old", b"old"), ("/log/new", b"new")] {
            write(&disk, path, bytes).sync().unwrap();
        }
        sync_log(&disk);
        disk.rename(Path::new("/log/new"), Path::new("/log/old")).unwrap();
        disk.restore_power(KEEP_SOME);
        seen.insert((names(&disk), disk.peek(Path::new("/log/old")).unwrap()));
    }
    let undone = (vec!["new".to_owned(), "old".to_owned()], b"old".to_vec());
    let done = (vec!["old".to_owned()], b"new".to_vec());
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [undone, done]);
}

#[test]
fn replace_leaves_the_old_or_the_new_wherever_the_power_goes() {
    for operations in 0..8 {
        for seed in 0..20 {
            let disk = disk_of_seed(seed);
            let path = Path::new("/log/checkpoint");
            disk.replace(path, b"old").unwrap();
            disk.halt_after(operations, Halt::Power);
            let replaced = disk.replace(path, b"newer");
            disk.restore_power(KEEP_SOME);
            let found = disk.read(path, 100).unwrap().unwrap();
            match replaced {
                Ok(()) => assert_eq!(found, b"newer"),
                Err(_) => assert!(found == b"old" || found == b"newer", "{found:?}"),
            }
        }
    }
}

#[test]
fn a_removed_file_stays_readable_through_its_handle() {
    let disk = disk();
    let file = write(&disk, "/log/a", b"abc");
    disk.remove_file(Path::new("/log/a")).unwrap();
    disk.remove_file(Path::new("/log/a")).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(file.read_at(&mut buffer, 1).unwrap(), 2);
    assert_eq!(&buffer[..2], b"bc");
    assert_eq!(names(&disk), Vec::<String>::new());
}

#[test]
fn a_remove_may_be_lost() {
    let disk = disk();
    write(&disk, "/log/a", b"abc").sync().unwrap();
    sync_log(&disk);
    disk.remove_file(Path::new("/log/a")).unwrap();
    disk.restore_power(KEEP_NONE);
    assert_eq!(names(&disk), ["a"]);
    disk.remove_file(Path::new("/log/a")).unwrap();
    sync_log(&disk);
    disk.restore_power(KEEP_NONE);
    assert_eq!(names(&disk), Vec::<String>::new());
}

#[test]
fn handles_die_with_the_process_and_the_page_cache_does_not() {
    let disk = disk();
    let file = write(&disk, "/log/a", b"abc");
    disk.kill_process();
    assert!(file.sync().is_err());
    assert!(file.len().is_err());
    assert_eq!(disk.peek(Path::new("/log/a")).as_deref(), Some(&b"abc"[..]));
}

#[test]
fn without_power_nothing_works_and_nothing_changes() {
    let disk = disk();
    let file = write(&disk, "/log/a", b"abc");
    disk.halt_after(1, Halt::Power);
    file.write_at(&[IoSlice::new(b"d")], 3).unwrap();
    assert!(disk.halted().is_none());
    assert!(file.write_at(&[IoSlice::new(b"e")], 4).is_err());
    assert!(disk.halted().is_some());
    assert!(file.read_at(&mut [0], 0).is_err());
    assert!(disk.list(Path::new("/log")).is_err());
    assert_eq!(disk.peek(Path::new("/log/a")).as_deref(), Some(&b"abcd"[..]));
}

#[test]
fn a_directory_goes_with_all_that_is_in_it() {
    let disk = disk();
    disk.create_dir(Path::new("/log/t-0/deep")).unwrap();
    write(&disk, "/log/t-0/a", b"a");
    write(&disk, "/log/t-0/deep/b", b"b");
    disk.rename(Path::new("/log/t-0"), Path::new("/log/t-0.gone")).unwrap();
    assert_eq!(names(&disk), ["t-0.gone"]);
    assert!(disk.peek(Path::new("/log/t-0.gone/deep/b")).is_some());
    disk.remove_dir(Path::new("/log/t-0.gone")).unwrap();
    disk.remove_dir(Path::new("/log/t-0.gone")).unwrap();
    assert_eq!(disk.files(), Vec::<PathBuf>::new());
}

#[test]
fn modes_and_missing_files_are_errors() {
    let disk = disk();
    assert!(disk.open(Path::new("/log/a"), OpenMode::Read).is_err());
    assert!(disk.open(Path::new("/log/a"), OpenMode::Write).is_err());
    assert!(disk.open(Path::new("/gone/a"), OpenMode::Create).is_err());
    assert_eq!(disk.read(Path::new("/log/a"), 10).unwrap(), None);
    write(&disk, "/log/a", b"abc");
    assert!(disk.read(Path::new("/log/a"), 2).is_err());
    let file = disk.open(Path::new("/log/a"), OpenMode::Read).unwrap();
    assert!(file.write_at(&[IoSlice::new(b"x")], 0).is_err());
    assert!(disk.list(Path::new("/gone")).is_err());
    assert!(disk.rename(Path::new("/log/b"), Path::new("/log/c")).is_err());
}

#[test]
fn a_full_disk_says_so_until_it_is_not() {
    let disk = disk();
    let file = write(&disk, "/log/a", b"abc");
    disk.arm(Fault { on: Operation::Write, after: 0, kind: FaultKind::Full, suffix: "" });
    assert!(file.write_at(&[IoSlice::new(b"def")], 3).unwrap_err().is_of_directory());
    assert!(file.write_at(&[IoSlice::new(b"def")], 3).unwrap_err().is_of_directory());
    assert!(disk.disarm());
    file.write_at(&[IoSlice::new(b"def")], 3).unwrap();
}

#[test]
fn a_barrier_that_failed_is_never_to_be_tried_again() {
    let lied = (0..50).any(|seed| {
        let disk = disk_of_seed(seed);
        let file = write(&disk, "/log/a", &[b'a'; 4096]);
        sync_log(&disk);
        disk.arm(Fault { on: Operation::Sync, after: 0, kind: FaultKind::Io, suffix: "" });
        assert!(file.sync().is_err());
        file.sync().unwrap();
        disk.restore_power(KEEP_NONE);
        disk.peek(Path::new("/log/a")).unwrap() != [b'a'; 4096]
    });
    assert!(lied);
}

#[test]
fn a_lying_drive_is_remembered() {
    let disk = disk();
    let file = write(&disk, "/log/a", &[b'a'; 4096]);
    sync_log(&disk);
    disk.arm(Fault { on: Operation::Sync, after: 0, kind: FaultKind::LostWrite, suffix: "" });
    file.sync().unwrap();
    let damage = disk.damage();
    assert_eq!(damage.len(), 1);
    disk.restore_power(KEEP_NONE);
    let found = disk.peek(Path::new("/log/a")).unwrap();
    assert!(found[damage[0].bytes.clone()].iter().all(|&byte| byte == 0));
}

#[test]
fn one_seed_one_trace() {
    let run = |seed| {
        let trace = Trace::default();
        let disk = SimDisk::new(Random::stream(seed, "disk"), trace.clone());
        disk.set_writeback(500);
        disk.create_dir(Path::new("/log")).unwrap();
        for n in 0..20_u8 {
            write(&disk, &format!("/log/{n}"), &[n; 1000]);
        }
        disk.restore_power(KEEP_SOME);
        let left: Vec<_> = disk.files().iter().map(|path| disk.peek(path)).collect();
        (trace.hash(), left)
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).1, run(6).1);
}
