use std::io::IoSlice;
use std::os::unix::fs::PermissionsExt;

use storage::disk::Failed;

use super::*;
use crate::warm::is_cached;

fn disk() -> (tempfile::TempDir, FsDisk) {
    let dir = tempfile::tempdir().unwrap();
    let disk = FsDisk::new(dir.path());
    (dir, disk)
}

fn names(disk: &FsDisk, path: &str) -> Vec<String> {
    disk.list(Path::new(path)).unwrap().into_iter().map(|entry| entry.name).collect()
}

fn write(file: &dyn DiskFile, parts: &[&[u8]], position: u64) -> Result<(), DiskError> {
    let parts: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
    file.write_at(&parts, position)
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn files_are_written_and_read_in_place() {
    let (_dir, disk) = disk();
    let file = disk.open(Path::new("log"), OpenMode::Create).unwrap();
    write(&*file, &[b"hello ", b"", b"world"], 0).unwrap();
    write(&*file, &[b"W"], 6).unwrap();
    write(&*file, &[b"!"], 13).unwrap();
    assert_eq!(file.len().unwrap(), 14);
    let mut buffer = [9; 20];
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 14);
    assert_eq!(&buffer[..14], b"hello World\0\0!");
    assert_eq!(file.read_at(&mut buffer, 14).unwrap(), 0);
    file.set_len(5).unwrap();
    file.sync().unwrap();
    assert_eq!(disk.read(Path::new("log"), 5).unwrap().unwrap(), b"hello");
}

#[test]
fn modes_say_who_may_make_and_write() {
    let (_dir, disk) = disk();
    let path = Path::new("log");
    for mode in [OpenMode::Read, OpenMode::Write] {
        let error = disk.open(path, mode).unwrap_err();
        assert_eq!((error.operation, error.failed), ("open", Failed::File));
    }
    write(&*disk.open(path, OpenMode::Create).unwrap(), &[b"kept"], 0).unwrap();
    assert_eq!(disk.open(path, OpenMode::Create).unwrap().len().unwrap(), 4);
    let reader = disk.open(path, OpenMode::Read).unwrap();
    assert!(write(&*reader, &[b"x"], 0).is_err());
    assert!(reader.set_len(0).is_err());
    assert!(disk.health().retired().is_none(), "asking for what is not allowed says nothing about the disk");
    write(&*disk.open(path, OpenMode::Write).unwrap(), &[b"K"], 0).unwrap();
}

#[test]
fn small_files_are_replaced_whole() {
    let (_dir, disk) = disk();
    let path = Path::new("checkpoint");
    assert_eq!(disk.read(path, 10).unwrap(), None);
    disk.replace(path, b"one").unwrap();
    disk.replace(path, b"two!").unwrap();
    assert_eq!(disk.read(path, 4).unwrap().unwrap(), b"two!");
    assert!(disk.read(path, 3).unwrap_err().reason.contains("over 3 bytes"));
    assert_eq!(names(&disk, ""), ["checkpoint"]);
}

#[test]
fn directories_are_made_listed_and_removed() {
    let (_dir, disk) = disk();
    disk.create_dir(Path::new("a/b")).unwrap();
    disk.create_dir(Path::new("a/b")).unwrap();
    for name in ["a/z", "a/c", "a/m"] {
        disk.replace(Path::new(name), name.as_bytes()).unwrap();
    }
    disk.sync_dir(Path::new("a")).unwrap();
    let entries = disk.list(Path::new("a")).unwrap();
    let listed: Vec<_> = entries.iter().map(|e| (e.name.as_str(), e.is_dir, e.len)).collect();
    assert_eq!(listed, [("b", true, 0), ("c", false, 3), ("m", false, 3), ("z", false, 3)]);
    disk.rename(Path::new("a/z"), Path::new("a/m")).unwrap();
    disk.remove_file(Path::new("a/c")).unwrap();
    disk.remove_file(Path::new("a/c")).unwrap();
    assert_eq!(names(&disk, "a"), ["b", "m"]);
    disk.rename(Path::new("a"), Path::new("gone")).unwrap();
    disk.remove_dir(Path::new("gone")).unwrap();
    disk.remove_dir(Path::new("gone")).unwrap();
    assert!(disk.list(Path::new("gone")).is_err());
    assert!(names(&disk, "").is_empty());
}

#[test]
fn a_removed_file_stays_readable() {
    let (_dir, disk) = disk();
    let file = disk.open(Path::new("log"), OpenMode::Create).unwrap();
    write(&*file, &[b"still here"], 0).unwrap();
    disk.remove_file(Path::new("log")).unwrap();
    let mut buffer = [0; 10];
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 10);
    assert!(file.descriptor().is_some());
}

#[test]
fn nobody_else_may_read() {
    let (dir, disk) = disk();
    disk.create_dir(Path::new("topic-0")).unwrap();
    drop(disk.open(Path::new("topic-0/log"), OpenMode::Create).unwrap());
    disk.replace(Path::new("topic-0/checkpoint"), b"").unwrap();
    assert_eq!(mode_of(&dir.path().join("topic-0")), 0o700);
    assert_eq!(mode_of(&dir.path().join("topic-0/log")), 0o600);
    assert_eq!(mode_of(&dir.path().join("topic-0/checkpoint")), 0o600);
}

#[test]
fn absolute_paths_are_taken_as_they_are() {
    let (dir, disk) = disk();
    disk.replace(&dir.path().join("here"), b"x").unwrap();
    assert_eq!(names(&disk, ""), ["here"]);
}

/// A file every write to which fails as if the disk were full.
fn full_file(disk: &FsDisk) -> FsFile {
    FsFile {
        file: OpenOptions::new().read(true).write(true).open("/dev/full").unwrap(),
        path: "full".into(),
        mode: OpenMode::Write,
        health: disk.health().clone(),
    }
}

#[test]
fn the_first_failed_write_retires_the_directory_for_good() {
    let (_dir, disk) = disk();
    let log = disk.open(Path::new("log"), OpenMode::Create).unwrap();
    write(&*log, &[b"kept"], 0).unwrap();

    let error = write(&full_file(&disk), &[b"x"], 0).unwrap_err();
    assert!(error.is_of_directory(), "{error}");
    assert_eq!(disk.health().retired(), Some(&error));

    let later = [
        write(&*log, &[b"more"], 4).unwrap_err(),
        log.sync().unwrap_err(),
        log.set_len(0).unwrap_err(),
        disk.open(Path::new("new"), OpenMode::Create).unwrap_err(),
        disk.replace(Path::new("checkpoint"), b"").unwrap_err(),
        disk.create_dir(Path::new("topic")).unwrap_err(),
        disk.rename(Path::new("log"), Path::new("log2")).unwrap_err(),
        disk.remove_file(Path::new("log")).unwrap_err(),
        disk.remove_dir(Path::new("topic")).unwrap_err(),
        disk.sync_dir(Path::new("")).unwrap_err(),
    ];
    for error in later {
        assert!(error.reason.contains("retired since write full"), "{error}");
    }
    // Reads go on.
    assert_eq!(disk.read(Path::new("log"), 10).unwrap().unwrap(), b"kept");
    assert_eq!(disk.open(Path::new("log"), OpenMode::Read).unwrap().len().unwrap(), 4);
    assert_eq!(names(&disk, ""), ["log"]);
}

#[test]
fn a_failed_barrier_retires_the_directory() {
    let (_dir, disk) = disk();
    // A descriptor that has no barrier: fdatasync on it is an error.
    let file = FsFile { file: File::from(pipe_end()), ..full_file(&disk) };
    let error = file.sync().unwrap_err();
    assert_eq!((error.operation, error.failed), ("sync", Failed::Directory));
    assert_eq!(disk.health().retired(), Some(&error));
}

#[test]
fn what_is_reread_comes_from_the_disk() {
    let (_dir, disk) = disk();
    let file = disk.open(Path::new("log"), OpenMode::Create).unwrap();
    let mut bytes: Vec<u8> = (0..6 << 20).map(|at: u32| (at >> 12) as u8).collect();
    write(&*file, &[&bytes], 0).unwrap();
    let cached = || [0, 4 << 20].map(|at| is_cached(&*file, at, 1 << 20));
    assert_eq!(cached(), [true; 2]);
    file.sync().unwrap();
    file.reread(4 << 20 | 5).unwrap();
    // A file system in memory, as /tmp may be, forgets nothing.
    let forgets = !cached()[1];
    assert!(cached()[0], "what was not asked for stays");
    write(&*file, &[&[9; 4096]], 5 << 20).unwrap();
    file.reread(0).unwrap();
    assert_eq!(cached(), [!forgets; 2]);
    let mut again = vec![0; bytes.len()];
    assert_eq!(file.read_at(&mut again, 0).unwrap(), bytes.len());
    bytes[5 << 20..(5 << 20) + 4096].fill(9);
    assert!(again == bytes, "what was dirty is not lost");
}

fn pipe_end() -> std::os::fd::OwnedFd {
    io::pipe().unwrap().1.into()
}

#[test]
fn a_wrong_name_does_not_retire_the_directory() {
    let (_dir, disk) = disk();
    assert!(disk.rename(Path::new("missing"), Path::new("there")).is_err());
    assert!(disk.create_dir(Path::new(&"x".repeat(300))).is_err());
    assert!(disk.open(Path::new("no/such/dir"), OpenMode::Create).is_err());
    assert!(disk.sync_dir(Path::new("missing")).is_err());
    assert!(disk.health().retired().is_none());
}
