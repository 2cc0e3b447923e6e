//! A disk that takes its time with votes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::Uuid;
use storage::disk::{DirEntry, Disk, DiskError, DiskFile, OpenMode};
use storage::memory::MemoryDisk;

use super::nodes::{Cluster, run, voter};
use crate::Voter;

/// Longer than a node waits for its vote while nobody speaks to it.
const SLOW: Duration = Duration::from_secs(4);

#[derive(Debug)]
struct SlowDisk(MemoryDisk);

impl Disk for SlowDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn DiskFile>, DiskError> {
        self.0.open(path, mode)
    }

    fn read(&self, path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, DiskError> {
        self.0.read(path, bytes_max)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
        if path.ends_with("quorum-state") {
            std::thread::sleep(SLOW);
        }
        self.0.replace(path, bytes)
    }

    fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.0.create_dir(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, DiskError> {
        self.0.list(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.0.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        self.0.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.0.remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.0.sync_dir(path)
    }
}

#[test]
fn who_founds_its_cluster_on_a_slow_disk_does_not_take_itself_for_forgotten() {
    run(async {
        let mut cluster = Cluster::empty([1]);
        let (memory, me) = (MemoryDisk::new(), Voter { directory: Uuid([1; 16]), ..voter(1) });
        let disk = Arc::new(SlowDisk(memory.clone()));
        cluster.start_as(me, memory, disk, cluster.voters.clone()).await.expect("a fresh disk");
        let member = cluster.node(1).member.clone();
        tokio::select! {
            () = member.left() => panic!("it votes, and is alone"),
            _ = cluster.leader() => {}
        }
        cluster.commit("a").await;
    });
}
