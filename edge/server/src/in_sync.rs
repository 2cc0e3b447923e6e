//! The in-sync sets of the partitions of one log directory: who falls behind is looked for, and leaders are told what the
//! controller decided.
//!
//! It waits for partitions, and those for their disk. So each directory has a thread of its own for it: a disk that
//! hangs keeps nobody else waiting, and least of all the control thread, which says that this broker lives.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use base::{Now, Uuid};
use broker::replication::PartitionKey;
use replica::{AlterIsr, IsrAnswer};
use tracing::debug;

use crate::clock::Clock;
use crate::log_dir::LogDirectory;
use crate::table::PartitionTable;

/// How often leaders look who has fallen behind.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// What the controller, or nobody, answered a leader that asked for another in-sync set.
pub(crate) struct Answered {
    pub(crate) partition: PartitionKey,
    pub(crate) asked: AlterIsr,
    pub(crate) answer: IsrAnswer,
}

/// The ways to the threads, by log directory. Each partition has one answer under way at most.
pub(crate) type InSyncs = BTreeMap<Uuid, mpsc::Sender<Answered>>;

/// The work of one directory's thread.
pub(crate) struct InSync {
    pub(crate) table: Arc<PartitionTable>,
    pub(crate) dir: Arc<LogDirectory>,
    pub(crate) lag_max: Duration,
    pub(crate) clock: Clock,
}

impl InSync {
    /// Goes on until the other end is dropped.
    pub(crate) fn run(self, answers: &mpsc::Receiver<Answered>) {
        let mut check_at = self.clock.now().elapsed;
        loop {
            let now = self.clock.now();
            if now.elapsed >= check_at {
                self.check(now);
                check_at = now.elapsed + CHECK_EVERY;
            }
            match answers.recv_timeout(check_at.saturating_sub(now.elapsed)) {
                Ok(answered) => self.tell(&answered),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Looks at all replicas for those that have fallen behind.
    fn check(&self, now: Now) {
        let (mut here, mut of_followers) = (0, 0);
        for cell in self.table.in_dir(self.dir.id) {
            cell.act(|partition, out| {
                partition.check_isr(now, self.lag_max, out);
                here = here.max(partition.lag());
                of_followers = of_followers.max(partition.followers_lag());
            });
        }
        self.dir.lag.here.store(here, Ordering::Relaxed);
        self.dir.lag.of_followers.store(of_followers, Ordering::Relaxed);
    }

    fn tell(&self, Answered { partition: (topic, partition), asked, answer }: &Answered) {
        debug!(%topic, %partition, ?answer, "an in-sync set was asked for");
        if let Some(cell) = self.table.get(*topic, *partition) {
            cell.act(|partition, out| partition.on_isr_answer(asked, answer.clone(), out));
        }
    }
}
