//! The brokers of a run, and what a client learns of them.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use base::BrokerId;
use client::admin::{ConfigChange, NewTopic, Partition, Resource};
use client::{Admin, ConnectOptions, Connection};
use wire::ApiKey;
use wire::messages::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumRequestPartitionData, DescribeQuorumRequestTopicData,
};
use wire::messages::find_coordinator::FindCoordinatorRequest;

use crate::lab::Lab;
use crate::net::{Net, Place};
use crate::node::Node;
use crate::stop::Stop;
use crate::system::{CLIENT_PORT, Launch};

/// The topic under load.
pub const TOPIC: &str = "torture";
/// Where groups are kept.
const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// What a group is called, by its number.
pub fn group_name(group: u32) -> String {
    format!("torture-{group}")
}

/// How long one question to the cluster may take: it may be in pieces.
const ASK_MAX: Duration = Duration::from_secs(4);
const MS_OF_A_DAY: u64 = 24 * 60 * 60 * 1_000;

/// The brokers.
#[derive(Debug)]
pub struct Cluster {
    // In this order they go: processes and disks, the network, the folder.
    nodes: Vec<Node>,
    /// Their network.
    pub net: Net,
    /// Their place.
    pub lab: Lab,
    launch: Launch,
    admin: Admin,
}

/// Who is to have a partition, the preferred leader first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// Its topic.
    pub topic: &'static str,
    /// Its index.
    pub partition: i32,
    /// Who.
    pub on: Vec<i32>,
}

impl fmt::Display for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topic = if self.topic == TOPIC { "" } else { self.topic };
        let dash = if topic.is_empty() { "" } else { "-" };
        write!(f, "{topic}{dash}{}: {:?}", self.partition, self.on)
    }
}

/// Who leads the metadata quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuorumLeader {
    /// The node.
    pub id: i32,
    /// Its term.
    pub epoch: i32,
}

/// How long it took, after everything was healed.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Healed {
    /// Until each partition had a leader.
    pub led_ms: u64,
    /// Until each replica was in sync.
    pub in_sync_ms: u64,
}

impl Cluster {
    /// Makes namespaces and disks, starts the brokers and waits for nothing. From here on this thread is
    /// among the clients.
    pub fn start(launch: Launch, disk_bytes: u64) -> Result<Self> {
        Self::with_nodes(launch, |id, lab| Node::new(id, lab, disk_bytes))
    }

    /// The same, with one disk that has less room than it says.
    pub fn start_with_small_disk(
        launch: Launch,
        disk_bytes: u64,
        small: i32,
        real_bytes: u64,
    ) -> Result<Self> {
        Self::with_nodes(launch, |id, lab| match id == small {
            true => Node::with_small_disk(id, lab, disk_bytes, real_bytes),
            false => Node::new(id, lab, disk_bytes),
        })
    }

    fn with_nodes(launch: Launch, node: impl Fn(i32, &Path) -> Result<Node>) -> Result<Self> {
        let lab = Lab::new()?;
        let net = Net::new(lab.id(), launch.nodes)?;
        let mut nodes = Vec::new();
        for id in 1..=launch.nodes {
            nodes.push(node(id, lab.folder())?);
        }
        net.enter(Place::Clients)?;
        let admin = Admin::builder(&launch.bootstrap()).request_timeout(Duration::from_secs(2));
        let admin = admin.timeout(ASK_MAX).client_id("torture").build()?;
        let mut cluster = Self { nodes, net, lab, launch, admin };
        cluster.start_all()?;
        Ok(cluster)
    }

    /// How they were started.
    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// Where clients connect.
    pub fn bootstrap(&self) -> String {
        self.launch.bootstrap()
    }

    /// All of them.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All of them.
    pub fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    /// One of them, by its number.
    pub fn node(&mut self, id: i32) -> &mut Node {
        &mut self.nodes[id as usize - 1]
    }

    /// Starts one, unless it runs.
    pub fn start_node(&mut self, id: i32) -> Result<()> {
        self.nodes[id as usize - 1].start(&self.net, &self.launch)
    }

    /// Starts those that do not run.
    pub fn start_all(&mut self) -> Result<()> {
        for node in &mut self.nodes {
            node.start(&self.net, &self.launch)?;
        }
        Ok(())
    }

    /// Makes the topic, once the cluster can.
    pub fn create_topic(&self, topic: NewTopic, time_max: Duration, stop: &Stop) -> Result<()> {
        let mut last = None;
        let made = stop.until(time_max, || match self.admin.create_topic(topic.clone()).wait() {
            Ok(_) => true,
            // An earlier try may have made it without an answer.
            Err(why) if self.partitions().is_ok_and(|all| !all.is_empty()) => {
                last = Some(why);
                true
            }
            Err(why) => {
                last = Some(why);
                false
            }
        });
        stop.check()?;
        if made {
            return Ok(());
        }
        let said = self.logs();
        Err(last.map(anyhow::Error::from).context("no answer")?.context(format!("no topic was made\n{said}")))
    }

    /// What the cluster says of the topic's partitions.
    pub fn partitions(&self) -> Result<Vec<Partition>> {
        Ok(self.admin.describe_topic(TOPIC).wait()?.partitions)
    }

    /// Who is to have each partition, those included that keep groups; nothing if nobody says.
    pub fn replicas(&self) -> Vec<Replicas> {
        let of = |topic: &'static str| {
            let described = self.admin.describe_topic(topic).wait();
            let all = described.map(|topic| topic.partitions).unwrap_or_default().into_iter();
            all.map(move |one| {
                let on = one.replicas.iter().map(|id| id.0).collect();
                Replicas { topic, partition: one.index.0, on }
            })
        };
        of(TOPIC).chain(of(OFFSETS_TOPIC)).collect()
    }

    /// Has partitions moved to these brokers; it is begun when this is done.
    pub fn reassign(&self, moves: &[Replicas]) -> Result<()> {
        let to = |of: &Replicas| (of.topic, of.partition, of.on.iter().copied().map(BrokerId).collect());
        let answers = self.admin.reassign(moves.iter().map(to)).wait();
        answers.into_iter().try_for_each(|answer| Ok(answer?))
    }

    /// Has a setting changed on which nothing here depends: a command, which the controller carries out.
    pub fn change_a_setting(&self, number: u32) -> Result<()> {
        let value = (MS_OF_A_DAY + u64::from(number)).to_string();
        let change = ConfigChange::Set("delete.retention.ms".to_owned(), value);
        let answers = self.admin.alter_configs([(Resource::Topic(TOPIC.to_owned()), vec![change])]).wait();
        answers.into_iter().try_for_each(|answer| Ok(answer?))
    }

    /// Has partitions led by who is first in line, where that one is in sync.
    pub fn elect_preferred(&self, of: &[Replicas]) -> Result<()> {
        let partitions = of.iter().map(|of| (of.topic, of.partition));
        let answers = self.admin.elect_preferred_leaders(partitions).wait();
        answers.into_iter().try_for_each(|answer| Ok(answer.map(drop)?))
    }

    /// Where each partition ends for consumers.
    pub fn ends(&self, partitions: i32) -> Result<Vec<i64>> {
        let places = (0..partitions).map(|index| (TOPIC, index, client::admin::At::Latest));
        let found = self.admin.within(Duration::from_secs(30)).list_offsets(places).wait();
        found.into_iter().map(|end| Ok(end?.offset.context("no end")?.0)).collect()
    }

    /// Who leads a partition; `None` if nobody does, or nobody says.
    pub fn leader(&self, partition: i32) -> Option<i32> {
        let all = self.partitions().ok()?;
        let of = all.into_iter().find(|one| one.index.0 == partition)?;
        of.leader.map(|leader| leader.0)
    }

    /// Who coordinates a group, as the first broker says that says so; whether it does already is up to it.
    pub fn coordinator(&self, group: &str) -> Option<i32> {
        self.nodes.iter().filter(|node| node.is_well()).find_map(|node| {
            let mut connection = connect(Place::Node(node.id), Duration::from_secs(1)).ok()?;
            let request =
                FindCoordinatorRequest { coordinator_keys: vec![group], ..FindCoordinatorRequest::default() };
            let answer = connection.ask(&request).ok()?;
            let body = answer.read().ok()?;
            let found = body.coordinators.first()?;
            (found.error_code == 0).then_some(found.node_id)
        })
    }

    /// Whether groups may have the consumer protocol (KIP-848).
    pub fn has_consumer_groups(&self) -> Result<bool> {
        let node = self.nodes.first().context("there is none")?;
        let connection = connect(Place::Node(node.id), ASK_MAX)?;
        Ok(connection.versions().common(ApiKey::ConsumerGroupHeartbeat).is_some())
    }

    /// Who takes commands: the leader of the metadata quorum.
    pub fn controller(&self) -> Option<i32> {
        let up = self.nodes.iter().filter(|node| node.is_well());
        up.filter_map(|node| Some(self.quorum_leader(node.id)?.id)).next().or_else(|| {
            let cluster = self.admin.describe_cluster().wait().ok()?;
            cluster.controller.map(|id| id.0)
        })
    }

    /// Who leads the metadata quorum, as one broker says.
    pub fn quorum_leader(&self, node: i32) -> Option<QuorumLeader> {
        let mut connection = connect(Place::Node(node), Duration::from_secs(1)).ok()?;
        let partitions = vec![DescribeQuorumRequestPartitionData { partition_index: 0 }];
        let topic = DescribeQuorumRequestTopicData { topic_name: "__cluster_metadata", partitions };
        let request = DescribeQuorumRequest { topics: vec![topic] };
        let answer = connection.ask(&request).ok()?;
        let body = answer.read().ok()?;
        let partition = body.topics.first()?.partitions.first()?;
        let leads = partition.error_code == 0 && partition.leader_id > 0;
        leads.then_some(QuorumLeader { id: partition.leader_id, epoch: partition.leader_epoch })
    }

    /// Waits until each partition has a leader and all its replicas are in sync.
    pub fn wait_until_whole(&self, time_max: Duration, stop: &Stop) -> Result<Healed> {
        let began = Instant::now();
        let (mut led, mut seen) = (None, String::new());
        let whole = stop.until(time_max, || {
            let Ok(all) = self.partitions().inspect_err(|why| seen = format!("{why:#}")) else {
                return false;
            };
            if !all.is_empty() && all.iter().all(|one| one.leader.is_some()) {
                led.get_or_insert(began.elapsed());
            }
            seen = describe(&all);
            led.is_some()
                && all.iter().all(|one| one.leader.is_some() && one.in_sync.len() == one.replicas.len())
        });
        stop.check()?;
        let ms = |time: Duration| time.as_millis() as u64;
        whole.then(|| Healed { led_ms: led.map_or(0, ms), in_sync_ms: ms(began.elapsed()) }).with_context(
            || format!("the cluster is not whole after {} s: {seen}", began.elapsed().as_secs()),
        )
    }

    /// The end of what each broker logged.
    pub fn logs(&self) -> String {
        const LINES: usize = 12;
        let tail = |node: &Node| {
            let text = fs::read(node.log()).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let lines: Vec<_> = text.lines().collect();
            format!("-- b{}\n{}\n", node.id, lines[lines.len().saturating_sub(LINES)..].join("\n"))
        };
        self.nodes.iter().map(tail).collect()
    }

    /// Heals everything: the network, pauses, disks; starts what does not run.
    pub fn heal(&mut self) -> Result<()> {
        self.net.lift_all()?;
        for node in &mut self.nodes {
            node.resume()?;
            node.let_disk_go_on()?;
            if node.has_failing_disk() {
                node.kill()?;
                node.repair_disk()?;
            }
        }
        self.start_all()
    }
}

/// Partitions, for people.
fn describe(all: &[Partition]) -> String {
    let ids = |of: &[BrokerId]| of.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let one = |of: &Partition| {
        let leader = of.leader.map_or_else(|| "nobody".to_owned(), |id| format!("b{id}"));
        format!("{}: {leader} leads, in sync [{}] of [{}]", of.index, ids(&of.in_sync), ids(&of.replicas))
    };
    all.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Connects to a broker itself, whoever leads what.
pub fn connect(place: Place, timeout: Duration) -> Result<Connection> {
    let options = ConnectOptions { timeout, client_id: "torture".to_owned(), ..ConnectOptions::default() };
    Ok(Connection::connect(&format!("{}:{CLIENT_PORT}", place.address()), options)?)
}
