//! Who writes, all the time, whoever leads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::LeaderEpoch;
use controller::{MetadataQuorum, Proposal};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::fragile::FragileDisk;
use super::nodes::{Heard, PATIENCE, led, look, mark, marks};
use crate::Member;

/// A node, from its start to its end.
#[derive(Clone)]
pub(crate) struct Life {
    pub(crate) id: i32,
    pub(crate) heard: Heard,
    pub(crate) member: Arc<Member>,
    pub(crate) disk: FragileDisk,
}

/// Writes one mark after the other. A clone is the same one.
#[derive(Clone)]
pub(crate) struct Author {
    living: Arc<Mutex<BTreeMap<i32, Life>>>,
    /// Marks, in the order in which they were written.
    acknowledged: Arc<Mutex<Vec<String>>>,
    /// Who stopped, and why, although it had power.
    stopped: Arc<Mutex<Vec<String>>>,
    is_done: Arc<AtomicBool>,
    /// That any of this is something else, or one of the nodes was told something.
    news: Arc<Notify>,
}

impl Author {
    /// Writes to nodes of which there are these news.
    pub(crate) fn of(news: &Arc<Notify>) -> Self {
        Self {
            living: Arc::default(),
            acknowledged: Arc::default(),
            stopped: Arc::default(),
            is_done: Arc::default(),
            news: news.clone(),
        }
    }

    pub(crate) fn start(&self) -> JoinHandle<()> {
        let author = self.clone();
        tokio::spawn(async move {
            for number in 0.. {
                let Some((life, epoch)) = author.leader().await else { return };
                let name = format!("m{number:06}");
                if author.write(&life, epoch, &name).await {
                    author.acknowledged.lock().push(name);
                    author.news.notify_waiters();
                }
            }
        })
    }

    /// Writes no more. Whoever was started comes to its end.
    pub(crate) fn stop(&self) {
        self.is_done.store(true, Ordering::Relaxed);
        self.news.notify_waiters();
    }

    /// From now on a node may be written to.
    pub(crate) fn add(&self, life: Life) {
        let (watched, author) = (life.clone(), self.clone());
        tokio::spawn(async move {
            let why = watched.member.stopped().await;
            if watched.disk.has_power() {
                author.stopped.lock().push(format!("node {}: {why}", watched.id));
                author.news.notify_waiters();
            }
        });
        self.living.lock().insert(life.id, life);
        self.news.notify_waiters();
    }

    /// No answer comes from a node any more.
    pub(crate) fn remove(&self, id: i32) {
        self.living.lock().remove(&id);
        self.news.notify_waiters();
    }

    /// What was acknowledged.
    pub(crate) fn acknowledged(&self) -> Vec<String> {
        self.acknowledged.lock().clone()
    }

    /// Waits until so many more marks are acknowledged.
    pub(crate) async fn has_written(&self, count: usize) {
        let enough = self.acknowledged.lock().len() + count;
        let is_written = || {
            self.check_living();
            (self.acknowledged.lock().len() >= enough).then_some(())
        };
        tokio::time::timeout(PATIENCE, look(&self.news, is_written)).await.expect("it is written");
    }

    /// Nobody stops who has power.
    pub(crate) fn check_living(&self) {
        let stopped = self.stopped.lock();
        assert!(stopped.is_empty(), "{stopped:?}");
    }

    /// Who leads, as soon as somebody does; `None` once no more is to be written.
    async fn leader(&self) -> Option<(Life, LeaderEpoch)> {
        let leading = || {
            if self.is_done.load(Ordering::Relaxed) {
                return Some(None);
            }
            let living = self.living.lock().clone();
            let leading = living.into_values().filter_map(|life| Some((life.heard.led()?, life)));
            leading.max_by_key(|(epoch, _)| *epoch).map(|(epoch, life)| Some((life, epoch)))
        };
        tokio::time::timeout(PATIENCE, look(&self.news, leading)).await.expect("somebody leads")
    }

    /// Whether a mark was acknowledged. If not, it may be committed or not.
    async fn write(&self, life: &Life, epoch: LeaderEpoch, name: &str) -> bool {
        let mut seen = life.heard.events.lock().len();
        life.member.proposer().propose(Proposal { epoch, records: vec![mark(name)] });
        let outcome = life.heard.until("a commit, or an end", |events| {
            let is_there = marks(&events[seen..]).iter().any(|mark| mark == name);
            seen = events.len();
            let is_alive =
                self.living.lock().get(&life.id).is_some_and(|it| Arc::ptr_eq(&it.member, &life.member));
            let is_over = !is_alive || led(events) != Some(epoch);
            (is_there || is_over).then_some(is_there)
        });
        outcome.await
    }
}
