//! Voters come, go and lose their power while the cluster writes.
//!
//! A seed chooses what happens: an empty node is added, a voter is removed, another leads, and while that is under way
//! a voter loses its power after so many more changes of its disk, or all do. Which of it comes first is up to the
//! threads. Nobody stops who has power, and in the end
//!
//! - every voter was told of every mark, once, in the order in which they were written;
//! - what was acknowledged is among them;
//! - no two lives of nodes led the same epoch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, LeaderEpoch, Uuid};
use controller::QuorumEvent;
use tokio::task::JoinHandle;

use super::author::{Author, Life};
use super::fragile::{FragileDisk, Random};
use super::nodes::{Cluster, Heard, history, marks, run, voter};
use crate::types::broker;
use crate::{ChangeError, Member, SnapshotEvery, Timing, Voter};

/// Each has found something. `VLTAVA_SEED` runs another instead.
const SEEDS: [u64; 3] = [24, 34, 107];

const STEPS: usize = 12;

/// Nodes there may be; as many may vote.
const NODES: i32 = 5;

/// Fewer never vote.
const VOTERS_MIN: usize = 3;

/// A change may come to nothing: whoever was to make it has lost its power.
const CHANGE_MAX: Duration = Duration::from_secs(3);

/// Leaders are lost often here.
const ELECTION: Duration = Duration::from_millis(250);

/// Between two changes so much is written.
const MARKS: usize = 10;

/// Tells what was done when a test fails.
struct Story {
    seed: u64,
    steps: Vec<String>,
}

impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("VLTAVA_SEED={}: {}", self.seed, self.steps.join("; "));
        }
    }
}

struct Churn {
    story: Story,
    random: Random,
    cluster: Cluster,
    author: Author,
    /// Every node that has a disk, whether it runs or not.
    nodes: BTreeMap<i32, (Voter, FragileDisk)>,
    /// What every life was told.
    told: Vec<(i32, Heard)>,
    disks: u8,
}

/// What is to change.
#[derive(Debug, Clone)]
enum Change {
    Nothing,
    Add(Voter),
    Remove(i32),
    Transfer(i32),
}

impl Change {
    /// Who votes once it is made.
    fn voters(&self, sets: &[BTreeSet<i32>]) -> Option<BTreeSet<i32>> {
        let mut voters = sets.last()?.clone();
        match self {
            Self::Nothing | Self::Transfer(_) => return None,
            Self::Add(voter) => voters.insert(voter.id.0),
            Self::Remove(id) => voters.remove(id),
        };
        Some(voters)
    }

    async fn make(self, by: Arc<Member>) -> Result<(), ChangeError> {
        match self {
            Self::Nothing => Ok(()),
            Self::Add(voter) => by.add_voter(voter, CHANGE_MAX / 2).await,
            Self::Remove(id) => by.remove_voter(BrokerId(id)).await,
            Self::Transfer(id) => by.transfer_leader(BrokerId(id)).await,
        }
    }
}

impl Churn {
    async fn begin(seed: u64) -> Self {
        let mut cluster = Cluster::empty([1, 2, 3]);
        cluster.timing = Timing { heartbeat: ELECTION / 5, election_timeout: ELECTION };
        cluster.every = SnapshotEvery { bytes: u64::MAX, batches: 50, age: None };
        let founders = cluster.voters.clone();
        let mut churn = Self {
            story: Story { seed, steps: Vec::new() },
            random: Random::of(seed),
            author: Author::of(&cluster.news),
            cluster,
            nodes: BTreeMap::new(),
            told: Vec::new(),
            disks: 100,
        };
        for me in &founders {
            churn.nodes.insert(me.id.0, (me.clone(), FragileDisk::new(usize::MAX)));
            churn.start(me.id.0, founders.clone()).await;
        }
        churn
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.next()).expect("it has 31 bits") % bound
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    async fn start(&mut self, id: i32, voters: Vec<Voter>) {
        let (me, disk) = self.nodes[&id].clone();
        self.cluster.start_on(&disk, me, voters).await.expect("it is whole");
        let node = self.cluster.node(id);
        let life = Life { id, heard: node.heard.clone(), member: node.member.clone(), disk };
        self.told.push((id, life.heard.clone()));
        self.author.add(life);
    }

    /// Cuts the power of a node, if it runs.
    async fn cut(&mut self, id: i32) {
        if !self.is_alive(id) {
            return;
        }
        let disk = self.nodes[&id].1.clone();
        self.cluster.cut_power(id, &disk).await;
        self.author.remove(id);
        let left = disk.survivors(|| self.random.next());
        self.nodes.get_mut(&id).expect("it ran").1 = left;
    }

    fn is_alive(&self, id: i32) -> bool {
        self.cluster.nodes.contains_key(&id)
    }

    /// Who leads, and who votes, once all that was begun before is committed: two sets of voters, if a change of them
    /// came to no end.
    async fn settled(&self) -> (i32, Vec<BTreeSet<i32>>) {
        self.author.has_written(MARKS).await;
        let (leader, _) = self.cluster.leader().await;
        let members = self.cluster.node(leader).member.store.memory.lock().members.clone();
        let ids = |set: &BTreeSet<u64>| set.iter().map(|id| broker(*id).0).collect();
        (leader, members.get_joint_config().iter().map(ids).collect())
    }

    async fn step(&mut self) {
        let (leader, mut sets) = self.settled().await;
        self.story.steps.push(format!("{sets:?} vote, {leader} leads"));
        let change = self.change(leader, &sets).await;
        sets.extend(change.voters(&sets));
        let cut = self.endangered(leader, &sets);
        let by = self.cluster.node(leader).member.clone();
        self.story.steps.push(format!("{change:?}, power of {cut:?}"));
        let made = tokio::time::timeout(CHANGE_MAX, change.make(by)).await;
        self.story.steps.push(format!("{made:?}"));
        if let Some((id, _)) = cut {
            // Where nothing is written it may not go by itself.
            let _ = tokio::time::timeout(CHANGE_MAX, self.nodes[&id].1.power_is_gone()).await;
            self.cut(id).await;
        }
        if self.below(6) == 0 {
            self.outage().await;
        }
        if self.below(2) == 0 {
            self.start_all().await;
        }
    }

    /// Something that can be done where these vote.
    async fn change(&mut self, leader: i32, sets: &[BTreeSet<i32>]) -> Change {
        let voters: Vec<i32> = sets.iter().flatten().copied().collect::<BTreeSet<_>>().into_iter().collect();
        let others: Vec<i32> = (1..=NODES).filter(|id| !voters.contains(id)).collect();
        match self.below(5) {
            0 | 1 if !others.is_empty() => {
                let id = self.one_of(&others);
                Change::Add(self.fresh(id).await)
            }
            1 | 2 if voters.len() > VOTERS_MIN => match Change::Remove(self.one_of(&voters)) {
                change if change.voters(sets).is_some_and(|set| self.can_lose(&set, 0)) => change,
                _ => Change::Nothing,
            },
            3 => {
                let living = voters.into_iter().filter(|id| self.is_alive(*id) && *id != leader);
                Change::Transfer(self.one_of(&living.collect::<Vec<_>>()))
            }
            _ => Change::Nothing,
        }
    }

    /// A node with an empty disk, in place of one that has no vote.
    async fn fresh(&mut self, id: i32) -> Voter {
        self.cut(id).await;
        self.disks += 1;
        let me = Voter { directory: Uuid([self.disks; 16]), ..voter(id) };
        self.nodes.insert(id, (me.clone(), FragileDisk::new(usize::MAX)));
        self.start(id, Vec::new()).await;
        me
    }

    /// Whether a majority of a set is alive when so many more are not.
    fn can_lose(&self, set: &BTreeSet<i32>, count: usize) -> bool {
        let living = set.iter().filter(|id| self.is_alive(**id)).count();
        living > set.len() / 2 + count
    }

    /// A voter whose power goes in a moment, if there is a majority of each set without it.
    fn endangered(&mut self, leader: i32, sets: &[BTreeSet<i32>]) -> Option<(i32, usize)> {
        if !sets.iter().all(|set| self.can_lose(set, 1)) || self.below(4) == 0 {
            return None;
        }
        let voters: BTreeSet<i32> = sets.iter().flatten().copied().filter(|id| self.is_alive(*id)).collect();
        let id =
            if self.below(2) == 0 { leader } else { self.one_of(&voters.into_iter().collect::<Vec<_>>()) };
        let changes = self.below(40);
        self.nodes[&id].1.cut_after(changes);
        Some((id, changes))
    }

    /// Cuts the power of all, and starts them again.
    async fn outage(&mut self) {
        self.story.steps.push("all lose their power".into());
        let all: Vec<i32> = self.cluster.nodes.keys().copied().collect();
        for id in &all {
            self.nodes[id].1.cut_after(0);
        }
        for id in &all {
            self.cut(*id).await;
        }
        self.start_all().await;
    }

    async fn start_all(&mut self) {
        let dead: Vec<i32> = self.nodes.keys().copied().filter(|id| !self.is_alive(*id)).collect();
        for id in dead {
            self.start(id, Vec::new()).await;
        }
    }

    /// Has all that was begun come to its end, and checks what came of it.
    async fn end(mut self, author: JoinHandle<()>) {
        self.start_all().await;
        let (_, sets) = self.settled().await;
        let voters: BTreeSet<i32> = sets.into_iter().flatten().collect();
        self.author.stop();
        author.await.expect("it writes");
        for id in (1..=NODES).filter(|id| !voters.contains(id)) {
            self.cut(id).await;
        }
        self.cluster.commit("z").await;
        let all =
            history(self.told.iter().map(|(id, heard)| (*id, heard))).unwrap_or_else(|why| panic!("{why}"));
        let all: Vec<_> = all.into_values().map(QuorumEvent::Committed).collect();
        let written = marks(&all);
        assert!(written.is_sorted_by(|one, next| one < next), "once each, and in order: {written:?}");
        for name in &self.author.acknowledged() {
            assert!(written.binary_search(name).is_ok(), "{name} was acknowledged, and is lost");
        }
        for id in voters {
            let heard = &self.cluster.node(id).heard;
            heard.marked(written.last().expect("there is one")).await;
            assert_eq!(heard.marks(), written, "node {id}");
        }
        check_leaders(&self.told);
        self.author.check_living();
    }
}

/// An epoch has one leader, and of that one life.
fn check_leaders(told: &[(i32, Heard)]) {
    let mut leaders: BTreeMap<LeaderEpoch, i32> = BTreeMap::new();
    let mut lives: BTreeMap<LeaderEpoch, usize> = BTreeMap::new();
    for (life, (id, heard)) in told.iter().enumerate() {
        for event in heard.events.lock().iter() {
            let (epoch, leader) = match event {
                QuorumEvent::Elected { epoch } => {
                    let first = *lives.entry(*epoch).or_insert(life);
                    assert_eq!(first, life, "node {id} leads epoch {epoch} as in another life");
                    (*epoch, *id)
                }
                QuorumEvent::Following { epoch, leader: Some(leader) } => (*epoch, leader.0),
                _ => continue,
            };
            let first = *leaders.entry(epoch).or_insert(leader);
            assert_eq!(first, leader, "epoch {epoch} has two leaders");
        }
    }
}

fn churn(seed: u64) {
    run(async {
        let mut churn = Churn::begin(seed).await;
        let author = churn.author.start();
        for _ in 0..STEPS {
            churn.step().await;
        }
        churn.end(author).await;
    });
}

#[test]
fn voters_come_and_go_and_lose_their_power() {
    let chosen = std::env::var("VLTAVA_SEED").ok().map(|seed| vec![seed.parse().expect("a number")]);
    for seed in chosen.unwrap_or_else(|| SEEDS.to_vec()) {
        churn(seed);
    }
}
