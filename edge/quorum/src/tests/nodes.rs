//! Nodes in one process: disks in memory, and a network that loses, delays and cuts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base::{BrokerId, LeaderEpoch, Offset, Uuid};
use bytes::Bytes;
use controller::{Committed, MetadataQuorum, Proposal, QuorumEvent};
use metadata::{FeatureLevel, Image, MetadataRecord};
use openraft::async_runtime::WatchReceiver;
use parking_lot::Mutex;
use storage::disk::Disk;
use storage::memory::MemoryDisk;
use tokio::sync::Notify;

use super::fragile::FragileDisk;
use super::order::Disorder;
use crate::{Member, MemberStart, Network, OpenError, SendError, Sending, SnapshotEvery, Timing, Voter};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(90), test).await.expect("it ends") });
}

pub(crate) fn voter(id: i32) -> Voter {
    Voter { id: BrokerId(id), address: format!("node-{id}:1"), directory: directory(id) }
}

pub(crate) fn directory(id: i32) -> Uuid {
    Uuid([u8::try_from(id).expect("few"); 16])
}

/// A record that can be told from others.
pub(crate) fn mark(name: &str) -> MetadataRecord {
    MetadataRecord::FeatureLevel(FeatureLevel { name: name.into(), level: 1 })
}

/// What a node was told.
#[derive(Clone, Default)]
pub(crate) struct Heard {
    pub(crate) events: Arc<Mutex<Vec<QuorumEvent>>>,
    news: Arc<Notify>,
}

impl Heard {
    pub(crate) fn tell(&self) -> crate::Tell {
        let heard = self.clone();
        Box::new(move |event| {
            heard.events.lock().push(event);
            heard.news.notify_waiters();
        })
    }

    /// One that is told beside others: whoever waits for one of them looks at each news of all.
    pub(crate) fn beside(news: &Arc<Notify>) -> Self {
        Self { news: news.clone(), ..Self::default() }
    }

    /// Waits until what was told is enough.
    pub(crate) async fn until<T>(&self, what: &str, mut found: impl FnMut(&[QuorumEvent]) -> Option<T>) -> T {
        let looked = tokio::time::timeout(PATIENCE, look(&self.news, || found(&self.events.lock()))).await;
        looked.unwrap_or_else(|_| panic!("waited for {what}; told {:#?}", self.events.lock()))
    }

    pub(crate) async fn marked(&self, name: &str) {
        self.until(name, |events| marks(events).iter().any(|mark| mark == name).then_some(())).await;
    }

    pub(crate) fn marks(&self) -> Vec<String> {
        marks(&self.events.lock())
    }

    pub(crate) fn image(&self) -> Image {
        image(&self.events.lock())
    }

    pub(crate) fn led(&self) -> Option<LeaderEpoch> {
        led(&self.events.lock())
    }
}

/// The epoch that a node leads, as it was told.
pub(crate) fn led(events: &[QuorumEvent]) -> Option<LeaderEpoch> {
    events.iter().rev().find_map(|event| match event {
        QuorumEvent::Elected { epoch } => Some(Some(*epoch)),
        QuorumEvent::Following { .. } => Some(None),
        QuorumEvent::Committed(_) | QuorumEvent::Snapshot(_) => None,
    })?
}

/// Marks, in the order in which they were committed; those in a snapshot by name.
pub(crate) fn marks(events: &[QuorumEvent]) -> Vec<String> {
    let mut marks = Vec::new();
    for event in events {
        match event {
            QuorumEvent::Snapshot(image) => marks = image.features().keys().cloned().collect(),
            QuorumEvent::Committed(Committed { records, .. }) => {
                marks.extend(records.iter().filter_map(|record| match record {
                    MetadataRecord::FeatureLevel(level) => Some(level.name.clone()),
                    _ => None,
                }));
            }
            QuorumEvent::Elected { .. } | QuorumEvent::Following { .. } => {}
        }
    }
    marks
}

/// What the events make, each at its place.
pub(crate) fn image(events: &[QuorumEvent]) -> Image {
    let mut image = Image::default();
    for event in events {
        match event {
            QuorumEvent::Snapshot(snapshot) => image = snapshot.clone(),
            QuorumEvent::Committed(committed) => {
                assert!(committed.end > image.end(), "{committed:?} comes behind {}", image.end());
                image = image.after(&committed.records, committed.end).0;
            }
            QuorumEvent::Elected { .. } | QuorumEvent::Following { .. } => {}
        }
    }
    image
}

/// Every batch that was told, by its end.
pub(crate) fn committed(events: &[QuorumEvent]) -> BTreeMap<Offset, Committed> {
    let told = events.iter().filter_map(|event| match event {
        QuorumEvent::Committed(committed) => Some((committed.end, committed.clone())),
        _ => None,
    });
    told.collect()
}

/// What lies between the nodes.
#[derive(Default)]
pub(crate) struct Switch {
    nodes: Mutex<BTreeMap<i32, Arc<Member>>>,
    cut: Mutex<BTreeSet<(i32, i32)>>,
    /// In a hundred, of requests and of answers.
    pub(crate) loss: AtomicU64,
    /// The longest that one takes, in milliseconds.
    pub(crate) delay_ms: AtomicU64,
    random: AtomicU64,
    /// Where those who asked say that they listen.
    pub(crate) said: Mutex<BTreeMap<i32, String>>,
    /// How often each node was asked.
    pub(crate) asked: AtomicU64,
}

impl Switch {
    fn random(&self) -> u64 {
        // splitmix64 of a counter.
        let mut z = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Cuts a node off, both ways.
    pub(crate) fn isolate(&self, id: i32) {
        let others: Vec<i32> = (1..10).filter(|other| *other != id).collect();
        self.part(id, &others);
    }

    /// Cuts a node off from some others, both ways.
    pub(crate) fn part(&self, id: i32, others: &[i32]) {
        self.cut.lock().extend(others.iter().flat_map(|&other| [(id, other), (other, id)]));
    }

    /// Puts together again what was parted.
    pub(crate) fn join(&self, id: i32, other: i32) {
        self.cut.lock().retain(|between| *between != (id, other) && *between != (other, id));
    }

    pub(crate) fn heal(&self) {
        self.cut.lock().clear();
    }

    /// The other node, if it can be reached: it is where it is looked for, or has said where it is.
    fn target(&self, from: i32, to: &Voter) -> Option<Arc<Member>> {
        if self.cut.lock().contains(&(from, to.id.0)) {
            return None;
        }
        let member = self.nodes.lock().get(&to.id.0).cloned()?;
        let said = self.said.lock().get(&to.id.0) == Some(&member.me.address);
        (said || member.me.address == to.address).then_some(member)
    }

    async fn travel(&self) -> bool {
        let longest = self.delay_ms.load(Ordering::Relaxed);
        if longest > 0 {
            tokio::time::sleep(Duration::from_millis(self.random() % longest)).await;
        }
        self.random() % 100 >= self.loss.load(Ordering::Relaxed)
    }
}

struct Port {
    from: i32,
    switch: Arc<Switch>,
}

impl Network for Port {
    fn send(&self, to: &Voter, request: Bytes, deadline: Duration) -> Sending {
        let (from, to, switch) = (self.from, to.clone(), self.switch.clone());
        switch.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let gone = || SendError::Unreachable(to.address.clone());
            let lost = || SendError::NoAnswer(to.address.clone());
            let exchange = async {
                let member = switch.target(from, &to).ok_or_else(gone)?;
                if !switch.travel().await {
                    return std::future::pending().await;
                }
                // What was sent arrives, even if nobody waits for the answer any more.
                let answer = tokio::spawn(async move { member.handle(request).await }).await;
                let answer = answer.map_err(|_| lost())?;
                let is_back = switch.travel().await && !switch.cut.lock().contains(&(to.id.0, from));
                if is_back { Ok(answer) } else { Err(lost()) }
            };
            tokio::time::timeout(deadline, exchange).await.unwrap_or_else(|_| Err(lost()))
        })
    }

    fn heard(&self, from: BrokerId, address: &str) {
        self.switch.said.lock().insert(from.0, address.to_owned());
    }
}

/// One node.
pub(crate) struct Node {
    pub(crate) id: i32,
    pub(crate) disk: MemoryDisk,
    pub(crate) heard: Heard,
    pub(crate) member: Arc<Member>,
}

/// Nodes and what is between them.
pub(crate) struct Cluster {
    pub(crate) switch: Arc<Switch>,
    pub(crate) nodes: BTreeMap<i32, Node>,
    pub(crate) voters: Vec<Voter>,
    pub(crate) every: SnapshotEvery,
    pub(crate) timing: Timing,
    /// That one of the nodes was told something.
    pub(crate) news: Arc<Notify>,
    disorder: Disorder,
}

impl Cluster {
    pub(crate) fn empty(voters: impl IntoIterator<Item = i32>) -> Self {
        let voters = voters.into_iter().map(voter).collect();
        Self {
            switch: Arc::default(),
            nodes: BTreeMap::new(),
            voters,
            every: SnapshotEvery::default(),
            timing: Timing::default(),
            news: Arc::default(),
            disorder: Disorder::default(),
        }
    }

    pub(crate) async fn of(voters: impl IntoIterator<Item = i32>) -> Self {
        let mut cluster = Self::empty(voters);
        for id in cluster.voters.iter().map(|voter| voter.id.0).collect::<Vec<_>>() {
            cluster.start(id, MemoryDisk::new()).await.expect("a fresh disk");
        }
        cluster
    }

    pub(crate) async fn start(&mut self, id: i32, disk: MemoryDisk) -> Result<(), OpenError> {
        let voters =
            if self.voters.iter().any(|voter| voter.id.0 == id) { self.voters.clone() } else { vec![] };
        self.start_as(voter(id), disk.clone(), Arc::new(disk), voters).await
    }

    /// Starts a node on a disk of which a power cut leaves not all.
    pub(crate) async fn start_on(
        &mut self,
        disk: &FragileDisk,
        me: Voter,
        voters: Vec<Voter>,
    ) -> Result<(), OpenError> {
        self.start_as(me, MemoryDisk::new(), Arc::new(disk.clone()), voters).await
    }

    pub(crate) async fn start_as(
        &mut self,
        me: Voter,
        memory: MemoryDisk,
        disk: Arc<dyn Disk>,
        voters: Vec<Voter>,
    ) -> Result<(), OpenError> {
        let heard = Heard::beside(&self.news);
        let id = me.id.0;
        let start = MemberStart {
            disk,
            log_dir: PathBuf::from("data"),
            me,
            cluster_id: "cluster".into(),
            voters,
            network: Arc::new(Port { from: id, switch: self.switch.clone() }),
            timing: self.timing,
            snapshot_every: self.every,
            tell: heard.tell(),
        };
        let member = Arc::new(Member::start(start).await?);
        self.disorder.watch(&member);
        self.switch.nodes.lock().insert(id, member.clone());
        self.nodes.insert(id, Node { id, disk: memory, heard, member });
        Ok(())
    }

    /// Ends a node as a crash does; its disk keeps what was written.
    pub(crate) async fn kill(&mut self, id: i32) -> MemoryDisk {
        self.switch.nodes.lock().remove(&id);
        let node = self.nodes.remove(&id).expect("it runs");
        let disk = node.disk.copy();
        node.member.close().await;
        disk
    }

    /// Ends a node as a power cut does: nothing comes to its disk any more.
    pub(crate) async fn cut_power(&mut self, id: i32, disk: &FragileDisk) {
        disk.cut_after(0);
        self.stop(id).await;
    }

    /// Ends a node in order.
    pub(crate) async fn stop(&mut self, id: i32) -> MemoryDisk {
        self.switch.nodes.lock().remove(&id);
        let node = self.nodes.remove(&id).expect("it runs");
        node.member.close().await;
        node.disk
    }

    pub(crate) fn node(&self, id: i32) -> &Node {
        &self.nodes[&id]
    }

    /// Waits until one of these leads, later than `after`.
    pub(crate) async fn leader_of(&self, ids: &[i32], after: LeaderEpoch) -> (i32, LeaderEpoch) {
        let leading = || {
            let all = ids.iter().filter_map(|id| {
                let epoch = self.node(*id).heard.led().filter(|epoch| *epoch > after)?;
                Some((epoch, *id))
            });
            all.max().map(|(epoch, id)| (id, epoch))
        };
        let led = tokio::time::timeout(PATIENCE, look(&self.news, leading)).await;
        led.unwrap_or_else(|_| panic!("nobody leads: {:#?}", self.said()))
    }

    pub(crate) async fn leader(&self) -> (i32, LeaderEpoch) {
        let ids: Vec<i32> = self.nodes.keys().copied().collect();
        self.leader_of(&ids, LeaderEpoch::NONE).await
    }

    fn said(&self) -> Vec<(i32, Vec<QuorumEvent>)> {
        self.nodes.iter().map(|(id, node)| (*id, node.heard.events.lock().clone())).collect()
    }

    pub(crate) fn propose(&self, id: i32, epoch: LeaderEpoch, name: &str) {
        let proposal = Proposal { epoch, records: vec![mark(name)] };
        self.node(id).member.proposer().propose(proposal);
    }

    /// Has whoever leads commit a mark, however often that takes.
    pub(crate) async fn commit(&self, name: &str) {
        let began = Instant::now();
        let mut tried = 0;
        loop {
            let (id, epoch) = self.leader().await;
            tried += 1;
            let name = if tried == 1 { name.to_owned() } else { format!("{name}/{tried}") };
            self.propose(id, epoch, &name);
            let heard = &self.node(id).heard;
            let is_committed = heard.until("a commit, or a new epoch", |events| {
                let is_there = marks(events).contains(&name);
                (is_there || led(events) != Some(epoch)).then_some(is_there)
            });
            if is_committed.await {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{name} is not committed");
        }
    }

    /// Nodes were told the same, as far as they were told; the ends are what they were told last.
    pub(crate) fn check_agreement(&self) {
        let heard = self.nodes.iter().map(|(id, node)| (*id, &node.heard));
        if let Err(why) = history(heard) {
            panic!("{why}");
        }
    }
}

/// Looks at each news until there is something.
pub(crate) async fn look<T>(news: &Notify, mut found: impl FnMut() -> Option<T>) -> T {
    loop {
        // Registered before it is looked, so that none is missed.
        let mut next = pin!(news.notified());
        next.as_mut().enable();
        if let Some(found) = found() {
            return found;
        }
        next.await;
    }
}

/// Waits until something is so of a node of which nobody is told, but which its consensus shows.
pub(crate) async fn until(member: &Member, what: &str, is_so: impl Fn() -> bool) {
    let mut shown = member.core.metrics();
    let shows = async {
        while !is_so() {
            shown.changed().await.expect("it runs");
        }
    };
    tokio::time::timeout(PATIENCE, shows).await.unwrap_or_else(|_| panic!("waited in vain: {what}"));
}

/// All that was committed, if all who were told of it were told the same.
pub(crate) fn history<'a>(
    told: impl IntoIterator<Item = (i32, &'a Heard)>,
) -> Result<BTreeMap<Offset, Committed>, String> {
    let mut all: BTreeMap<Offset, (i32, Committed)> = BTreeMap::new();
    for (id, heard) in told {
        let events = heard.events.lock();
        let _ = image(&events);
        for (end, told) in committed(&events) {
            let (other, first) = all.entry(end).or_insert_with(|| (id, told.clone()));
            if *first != told {
                return Err(format!("node {other} was told {first:?}, and node {id} {told:?}"));
            }
        }
    }
    Ok(all.into_iter().map(|(end, (_, committed))| (end, committed)).collect())
}
