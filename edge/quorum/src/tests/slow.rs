//! A disk that takes its time.

use std::fmt;
use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use openraft::storage::{RaftSnapshotBuilder, RaftStateMachine};
use parking_lot::Mutex;
use storage::disk::{DirEntry, Disk, DiskError, DiskFile, OpenMode};
use storage::memory::MemoryDisk;
use tokio::sync::mpsc::unbounded_channel;

use super::nodes::{Cluster, run, voter};
use crate::files::VOTE_FILE;
use crate::snapshot::Checkpoint;

/// Longer than a node waits for its vote while nobody speaks to it.
const SILENCE: Duration = Duration::from_secs(4);

/// What a disk does before it does something with a path.
type Before = Box<dyn Fn(&'static str, &Path) + Send + Sync>;

struct SlowDisk(MemoryDisk, Before);

impl fmt::Debug for SlowDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Disk for SlowDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn DiskFile>, DiskError> {
        self.0.open(path, mode)
    }

    fn read(&self, path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, DiskError> {
        self.0.read(path, bytes_max)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
        (self.1)("replace", path);
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
        (self.1)("remove_file", path);
        self.0.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.0.remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.0.sync_dir(path)
    }
}

/// A node that is alone, on such a disk.
async fn alone(before: Before) -> Cluster {
    let mut cluster = Cluster::empty([1]);
    let memory = MemoryDisk::new();
    let disk = Arc::new(SlowDisk(memory.clone(), before));
    cluster.start_as(voter(1), memory, disk, cluster.voters.clone()).await.expect("a fresh disk");
    cluster
}

#[test]
fn who_founds_its_cluster_on_a_slow_disk_does_not_take_itself_for_forgotten() {
    run(async {
        let (votes, mut voting) = unbounded_channel();
        let (goes_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let may_go_on = Mutex::new(may_go_on);
        let votes_slowly = move |operation, path: &Path| {
            if operation == "replace" && path.ends_with(VOTE_FILE) {
                // Nobody listens, and it goes on, once it was slow for long enough.
                let _ = votes.send(());
                let _ = may_go_on.lock().recv();
            }
        };
        let cluster = alone(Box::new(votes_slowly)).await;
        let member = cluster.node(1).member.clone();
        voting.recv().await.expect("it votes");
        tokio::time::timeout(SILENCE, member.left()).await.expect_err("it votes, and is alone");
        drop(goes_on);
        cluster.commit("a").await;
    });
}

#[test]
fn a_snapshot_that_is_asked_for_while_a_newer_one_takes_its_place_is_not_gone() {
    run(async {
        let (removes, mut removing) = unbounded_channel();
        let (goes_on, may_go_on) = std::sync::mpsc::channel();
        let may_go_on = Mutex::new(may_go_on);
        let removes_slowly = move |operation, path: &Path| {
            if operation == "remove_file" && path.extension().is_some_and(|it| it == "checkpoint") {
                removes.send(()).expect("it is waited for");
                may_go_on.lock().recv().expect("it may go on");
            }
        };
        let cluster = alone(Box::new(removes_slowly)).await;
        let mut machine = cluster.node(1).member.machine.clone();
        cluster.commit("a").await;
        machine.get_snapshot_builder().await.build_snapshot().await.expect("the disk works");
        cluster.commit("b").await;
        let mut newer = machine.get_snapshot_builder().await;
        let built = tokio::spawn(async move { newer.build_snapshot().await });
        removing.recv().await.expect("there is an older one");
        let mut asked = pin!(machine.get_current_snapshot());
        let is_asked = poll_fn(|context| Poll::Ready(asked.as_mut().poll(context).is_pending())).await;
        assert!(is_asked, "the disk is busy");
        goes_on.send(()).expect("it waits");
        built.await.expect("it does not panic").expect("the disk works");
        let snapshot = asked.await.expect("one of both is there").expect("there is one");
        let checkpoint = Checkpoint::decode_any(&snapshot.snapshot).expect("it is whole");
        assert_eq!(checkpoint.meta(), snapshot.meta);
    });
}

/// What is purged next begins the log where the newest ends.
#[test]
fn a_snapshot_that_is_built_late_is_not_taken_for_the_newest() {
    run(async {
        let cluster = alone(Box::new(|_, _| {})).await;
        let member = cluster.node(1).member.clone();
        let mut machine = member.machine.clone();
        cluster.commit("a").await;
        let mut late = machine.get_snapshot_builder().await;
        cluster.commit("b").await;
        machine.get_snapshot_builder().await.build_snapshot().await.expect("the disk works");
        let newest = member.store.memory.lock().snapshot;
        late.build_snapshot().await.expect("the disk works");
        assert_eq!(member.store.memory.lock().snapshot, newest);
        let current = machine.get_current_snapshot().await.expect("it is there").expect("there is one");
        assert_eq!(current.meta.last_log_id, newest.map(|(last, _)| last));
    });
}
