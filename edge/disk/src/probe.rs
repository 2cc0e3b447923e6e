//! Whether a log directory that could not be opened lies on a disk that fails.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::health::is_of_medium;

/// What is written to see whether it can be.
const PROBE_NAME: &str = ".vltava-probe";

/// Lists a directory, reads the files that are directly in it, and makes one durable and removes it again. The
/// error, if one says that the disk is at fault; anything else, as a directory of somebody else's, is not.
pub fn failing(dir: &Path) -> Option<io::Error> {
    try_all(dir).err().filter(is_of_medium)
}

fn try_all(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if fs::metadata(&path)?.is_file() {
            io::copy(&mut File::open(&path)?, &mut io::sink())?;
        }
    }
    let probe = dir.join(PROBE_NAME);
    File::create(&probe).and_then(|mut file| {
        file.write_all(b"probe")?;
        file.sync_all()
    })?;
    fs::remove_file(&probe)?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_an_error_of_the_disk_says_that_it_fails() {
        let dir = tempfile::tempdir().unwrap();
        assert!(failing(dir.path()).is_none());
        assert!(failing(&dir.path().join("missing")).is_none());
        fs::write(dir.path().join("file"), "x").unwrap();
        assert!(failing(&dir.path().join("file")).is_none(), "it is no directory");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing stays behind");
        // Its first page belongs to nobody, so reading it is an input/output error.
        symlink("/proc/self/mem", dir.path().join("meta.properties")).unwrap();
        let why = failing(dir.path()).expect("it cannot be read");
        assert!(why.to_string().starts_with("Input/output error"), "{why}");
    }
}
