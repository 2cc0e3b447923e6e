//! What a broker's settings are, read once at start.

use std::path::PathBuf;
use std::time::Duration;

use base::BrokerId;

use super::broker_table::RACK_AWARE;
use super::cluster::{ClusterAddress, ClusterPeer, ROLES, Roles};
use super::find_broker;
use super::group::GroupSettings;
use super::listener::Listener;
use super::reader::Reader;
use super::setting::{Scope, SettingError, split_list};
use crate::parts::ConfigMap;

/// A broker's settings that something in it reads.
#[derive(Debug, Clone, PartialEq)]
pub struct BrokerSettings {
    /// `node.id`.
    pub node_id: BrokerId,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// `process.roles`.
    pub roles: Roles,
    /// `cluster.peers`, by id; empty for a node that is alone.
    pub cluster_peers: Vec<ClusterPeer>,
    /// `cluster.listen`, or this node's own entry in `cluster.peers`, or beside its `listeners` if it joins others; `None`
    /// if it listens to no other node.
    pub cluster_listen: Option<ClusterAddress>,
    /// `cluster.join`; empty for a node that founds its cluster, or has joined it.
    pub cluster_join: Vec<ClusterAddress>,
    /// `controller.quorum.election.timeout.ms`.
    pub quorum_election_timeout: Duration,
    /// `controller.quorum.fetch.timeout.ms`.
    pub quorum_fetch_timeout: Duration,
    /// `metadata.log.max.record.bytes.between.snapshots`.
    pub metadata_snapshot_bytes: u64,
    /// `metadata.log.max.snapshot.interval.ms`; `None` for any age.
    pub metadata_snapshot_age: Option<Duration>,
    /// `replica.selector.class`: whether consumers are sent to a replica in their own rack (KIP-392).
    pub reads_in_rack: bool,
    /// `log.dirs`; at least one.
    pub log_dirs: Vec<PathBuf>,
    /// `log.dir.reserve.bytes`; `None` lets the node choose.
    pub disk_reserve_bytes: Option<u64>,
    /// `listeners`; at least one, unless the node is no broker.
    pub listeners: Vec<Listener>,
    /// `advertised.listeners`; `None` for what is listened on.
    pub advertised: Option<Vec<Listener>>,
    /// `http.listen`, as `host:port`; `None` for no HTTP.
    pub http_listen: Option<String>,
    /// `num.io.threads`; `None` lets the node choose.
    pub io_threads: Option<usize>,
    /// `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// `delete.topic.enable`.
    pub delete_topics: bool,
    /// `num.partitions`.
    pub partitions_default: i32,
    /// `default.replication.factor`; `None` lets the cluster choose.
    pub replication_factor_default: Option<i16>,
    /// `broker.session.timeout.ms`.
    pub broker_session_timeout: Duration,
    /// `broker.heartbeat.interval.ms`.
    pub broker_heartbeat_interval: Duration,
    /// `leader.imbalance.check.interval.seconds`; `None` without `auto.leader.rebalance.enable`.
    pub balance_interval: Option<Duration>,
    /// `replica.lag.time.max.ms`.
    pub replica_lag_max: Duration,
    /// `replica.fetch.wait.max.ms`.
    pub replica_fetch_wait_max: Duration,
    /// `replica.fetch.backoff.ms`.
    pub replica_fetch_backoff: Duration,
    /// `replica.fetch.max.bytes`.
    pub replica_fetch_bytes_max: i32,
    /// `replica.fetch.response.max.bytes`.
    pub replica_fetch_response_bytes_max: i32,
    /// `flush.interval.ms`.
    pub flush_interval: Duration,
    /// `log.retention.check.interval.ms`.
    pub retention_check_interval: Duration,
    /// `log.cleaner.dedupe.buffer.size`.
    pub compaction_map_bytes: usize,
    /// `log.cleaner.backoff.ms`.
    pub compaction_backoff: Duration,
    /// `log.cleaner.io.max.bytes.per.second`; `None` for no limit.
    pub compaction_bytes_per_second_max: Option<u64>,
    /// `log.flush.offset.checkpoint.interval.ms`.
    pub checkpoint_interval: Duration,
    /// `num.recovery.threads.per.data.dir`.
    pub recovery_threads: usize,
    /// `socket.request.max.bytes`.
    pub request_bytes_max: u32,
    /// `fetch.max.bytes`.
    pub fetch_bytes_max: u32,
    /// `connections.max.idle.ms`.
    pub connection_idle_max: Duration,
    /// `max.connections`.
    pub connections_max: usize,
    /// `max.connections.per.ip`.
    pub connections_per_ip_max: usize,
    /// `queued.max.request.bytes`; `None` lets the node choose.
    pub queued_request_bytes_max: Option<u64>,
    /// `max.incremental.fetch.session.cache.slots`.
    pub fetch_sessions_max: usize,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration: Duration,
    /// `follower.replication.throttled.rate`, bytes a second; `None` for no limit.
    pub follower_throttled_rate: Option<u64>,
    /// `leader.replication.throttled.rate`, bytes a second; `None` for no limit.
    pub leader_throttled_rate: Option<u64>,
    /// What groups are given.
    pub group: GroupSettings,
    /// Settings of Kafka's that were given and mean nothing to this node, by name.
    pub ignored: Vec<String>,
    /// What was set, by name: the layer that is fixed while the node runs.
    pub fixed: ConfigMap,
}

/// What a broker of Kafka can be given; most of it is about parts that this node does not have.
const KAFKA_NAMES: &str = include_str!("kafka_broker_names.txt");

/// The setting that keeps new replicas away from a broker (KIP-1066).
pub const CORDONED_DIRS: &str = "cordoned.log.dirs";

/// A setting of Kafka's that is about who may come in: to pass it over would open the door.
const AUTHORIZER: &str = "authorizer.class.name";
/// The listeners that only Kafka's own controllers connect to.
const CONTROLLER_LISTENERS: &str = "controller.listener.names";
const LISTENERS: [&str; 2] = ["listeners", "advertised.listeners"];

/// Why a node cannot start with what it was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// A value does not fit.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// What it asks for cannot be had, and must not be passed over.
    #[error(
        "{name} is set, but this node asks nobody who they are: take it away, and let only those connect who may"
    )]
    Unprotected {
        /// What was set.
        name: String,
    },
    /// There is no such setting.
    #[error("there is no setting {name}{hint}; `vltava config` lists all of them", hint = hint(.near))]
    Unknown {
        /// What was set.
        name: String,
        /// A setting whose name is close.
        near: Option<&'static str>,
    },
    /// It is to join others, and they could not be told where it is.
    #[error(
        "cluster.listen is not set, and listeners names no host by which the other nodes could reach this one: say where \
         they do, as 10.0.0.4:{port}"
    )]
    Nowhere {
        /// Those that it joins: where it speaks with them from may be where they reach it.
        towards: Vec<ClusterAddress>,
        /// The port that it would have there.
        port: u16,
    },
}

fn hint(near: &Option<&'static str>) -> String {
    near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default()
}

impl BrokerSettings {
    /// Reads what was set at start: the file's lines, then the command line's, the last one counts.
    pub fn parse<N, V>(given: impl IntoIterator<Item = (N, V)>) -> Result<Self, StartError>
    where
        N: Into<String>,
        V: Into<String>,
    {
        let (mut fixed, mut ignored) = (ConfigMap::new(), ConfigMap::new());
        for (name, value) in given {
            let (name, value) = (renamed(name.into()), value.into());
            if find_broker(&name).is_some() {
                fixed.insert(name, value);
            } else if !KAFKA_NAMES.lines().any(|known| known == name) {
                return Err(StartError::Unknown { near: nearest(&name), name });
            } else if name == AUTHORIZER && !value.trim().is_empty() {
                return Err(StartError::Unprotected { name });
            } else {
                ignored.insert(name, value);
            }
        }
        if let Some(controllers) = ignored.get(CONTROLLER_LISTENERS) {
            leave_out(&split_list(controllers), &mut fixed);
        }
        if fixed.get(ROLES).is_some_and(|roles| !split_list(roles).iter().any(|role| role == "broker")) {
            // Nobody is served: what is left are the listeners of Kafka's controllers.
            LISTENERS.iter().for_each(|name| drop(fixed.remove(*name)));
        }
        for (name, value) in &fixed {
            find_broker(name).map(|setting| setting.parse(value)).transpose()?;
        }
        if fixed.get(CORDONED_DIRS).is_some_and(|dirs| !dirs.trim().is_empty()) {
            return Err(SettingError::Conflict(format!(
                "{CORDONED_DIRS} is set while the broker runs: take it out of its settings, and use `vltava cluster drain`"
            ))
            .into());
        }
        let settings = Self::read(fixed)?;
        Ok(Self { ignored: ignored.into_keys().collect(), ..settings })
    }

    fn read(fixed: ConfigMap) -> Result<Self, StartError> {
        let reader = Reader { fixed: &fixed };
        let node_id = BrokerId(reader.int("node.id"));
        let cluster_peers = reader.peers("cluster.peers")?;
        let own = cluster_peers.iter().find(|peer| peer.id == node_id).map(|peer| peer.address.clone());
        let roles = reader.roles()?;
        let cluster_join = reader.addresses("cluster.join")?;
        let joins = !cluster_join.is_empty();
        let cluster_listen = listens(&reader, &cluster_join, own.is_some())?;
        check_place(node_id, roles, (&cluster_peers, own.is_some()), (joins, cluster_listen.is_some()))?;
        check_told(own.as_ref().or(cluster_listen.as_ref()))?;
        let home = own.as_ref().or(cluster_listen.as_ref().filter(|_| joins));
        let listeners = if roles.broker { reader.listeners_at(home)? } else { Vec::new() };
        Ok(Self {
            node_id,
            roles,
            cluster_join,
            quorum_election_timeout: reader.duration("controller.quorum.election.timeout.ms"),
            quorum_fetch_timeout: reader.duration("controller.quorum.fetch.timeout.ms"),
            metadata_snapshot_bytes: reader.count("metadata.log.max.record.bytes.between.snapshots") as u64,
            metadata_snapshot_age: Some(reader.duration("metadata.log.max.snapshot.interval.ms"))
                .filter(|age| !age.is_zero()),
            rack: reader.optional("broker.rack"),
            cluster_listen: cluster_listen.or(own),
            cluster_peers,
            reads_in_rack: reader.optional("replica.selector.class").is_some_and(|it| it == RACK_AWARE),
            log_dirs: split_list(&reader.text("log.dirs")).into_iter().map(PathBuf::from).collect(),
            disk_reserve_bytes: u64::try_from(reader.number("log.dir.reserve.bytes")).ok(),
            listeners,
            advertised: reader.listeners("advertised.listeners")?,
            http_listen: reader.optional("http.listen"),
            io_threads: Some(reader.count("num.io.threads")).filter(|&threads| threads > 0),
            auto_create_topics: reader.is_on("auto.create.topics.enable"),
            delete_topics: reader.is_on("delete.topic.enable"),
            partitions_default: reader.int("num.partitions"),
            replication_factor_default: reader.given("default.replication.factor"),
            broker_session_timeout: reader.duration("broker.session.timeout.ms"),
            broker_heartbeat_interval: reader.duration("broker.heartbeat.interval.ms"),
            balance_interval: reader
                .is_on("auto.leader.rebalance.enable")
                .then(|| Duration::from_secs(reader.count("leader.imbalance.check.interval.seconds") as u64)),
            replica_lag_max: reader.duration("replica.lag.time.max.ms"),
            replica_fetch_wait_max: reader.duration("replica.fetch.wait.max.ms"),
            replica_fetch_backoff: reader.duration("replica.fetch.backoff.ms"),
            replica_fetch_bytes_max: reader.int("replica.fetch.max.bytes"),
            replica_fetch_response_bytes_max: reader.int("replica.fetch.response.max.bytes"),
            flush_interval: reader.duration("flush.interval.ms"),
            retention_check_interval: reader.duration("log.retention.check.interval.ms"),
            checkpoint_interval: reader.duration("log.flush.offset.checkpoint.interval.ms"),
            compaction_map_bytes: reader.count("log.cleaner.dedupe.buffer.size"),
            compaction_backoff: reader.duration("log.cleaner.backoff.ms"),
            compaction_bytes_per_second_max: reader.speed("log.cleaner.io.max.bytes.per.second"),
            recovery_threads: reader.count("num.recovery.threads.per.data.dir"),
            request_bytes_max: reader.bytes("socket.request.max.bytes"),
            fetch_bytes_max: reader.bytes("fetch.max.bytes"),
            connection_idle_max: reader.duration("connections.max.idle.ms"),
            connections_max: reader.count("max.connections"),
            connections_per_ip_max: reader.count("max.connections.per.ip"),
            queued_request_bytes_max: u64::try_from(reader.number("queued.max.request.bytes")).ok(),
            fetch_sessions_max: reader.count("max.incremental.fetch.session.cache.slots"),
            producer_id_expiration: reader.duration("producer.id.expiration.ms"),
            follower_throttled_rate: reader.limit("follower.replication.throttled.rate"),
            leader_throttled_rate: reader.limit("leader.replication.throttled.rate"),
            group: GroupSettings::read(&reader),
            ignored: Vec::new(),
            fixed,
        })
    }

    /// These settings with what was set while the broker runs: for every broker, then for this one.
    #[must_use]
    pub fn with(&self, default_broker: &ConfigMap, broker: &ConfigMap) -> Self {
        let mut merged = self.fixed.clone();
        for (name, value) in default_broker.iter().chain(broker) {
            let setting = find_broker(name).filter(|setting| setting.scope == Scope::BrokerDynamic);
            if setting.is_some_and(|setting| setting.parse(value).is_ok()) {
                merged.insert(name.clone(), value.clone());
            }
        }
        let settings = Self::read(merged).unwrap_or_else(|_| self.clone());
        Self { fixed: self.fixed.clone(), ignored: self.ignored.clone(), ..settings }
    }

    /// What clients are told to connect to.
    pub fn advertised_listeners(&self) -> &[Listener] {
        self.advertised.as_deref().unwrap_or(&self.listeners)
    }

    /// Where the other nodes are told to connect: the node's own entry in `cluster.peers`, or where it listens.
    pub fn cluster_address(&self) -> Option<&ClusterAddress> {
        let own = self.cluster_peers.iter().find(|peer| peer.id == self.node_id);
        own.map(|peer| &peer.address).or(self.cluster_listen.as_ref())
    }
}

/// From the port for clients to the one for nodes, where nobody says which: 9092 has 19092.
const PORTS_APART: u16 = 10_000;

/// Where a node listens to others, save what its own entry in `cluster.peers` says.
fn listens(
    reader: &Reader<'_>,
    joined: &[ClusterAddress],
    is_peer: bool,
) -> Result<Option<ClusterAddress>, StartError> {
    match reader.address("cluster.listen")? {
        None if !joined.is_empty() && !is_peer => beside_clients(reader, joined).map(Some),
        given => Ok(given),
    }
}

/// Where a node that joins others listens to them if nobody says so: where its clients are served, at a port of its own.
/// What only this machine reaches will do if all of them are on it.
fn beside_clients(reader: &Reader<'_>, joined: &[ClusterAddress]) -> Result<ClusterAddress, StartError> {
    let listeners = reader.listeners("listeners")?.unwrap_or_default();
    let (host, clients) = listeners.first().map_or(("", 0), |listener| (&*listener.host, listener.port));
    let port = clients.checked_add(PORTS_APART).filter(|_| clients > 0).ok_or_else(|| {
        SettingError::Conflict(format!(
            "cluster.listen is not set, and for clients on port {clients} there is no port {PORTS_APART} above it: say \
             where the other nodes reach this one, as 10.0.0.4:19092"
        ))
    })?;
    let address = ClusterAddress { host: host.to_owned(), port };
    let is_here = joined.iter().all(ClusterAddress::is_loopback);
    match host.is_empty() || address.is_unspecified() || address.is_loopback() && !is_here {
        true => Err(StartError::Nowhere { towards: joined.to_vec(), port }),
        false => Ok(address),
    }
}

/// Checks that others can do something with what they are told.
fn check_told(address: Option<&ClusterAddress>) -> Result<(), SettingError> {
    match address.filter(|address| address.is_unspecified()) {
        Some(address) => Err(SettingError::Conflict(format!(
            "other nodes would be told to connect to {address}, which is every address and so none: name the host by which \
             they reach this node, in its entry of cluster.peers or in cluster.listen"
        ))),
        None => Ok(()),
    }
}

/// Checks that a node with these roles has a place in its cluster.
fn check_place(
    node_id: BrokerId,
    roles: Roles,
    (peers, is_peer): (&[ClusterPeer], bool),
    (joins, listens): (bool, bool),
) -> Result<(), SettingError> {
    let conflict = |why: String| Err(SettingError::Conflict(why));
    if is_peer && !roles.controller {
        return conflict(format!(
            "cluster.peers names nodes that vote, and node {node_id} does not, since process.roles is broker: take \
             it out of cluster.peers, and name one of the others in cluster.join"
        ));
    }
    if is_peer && joins {
        return conflict(format!(
            "cluster.peers says that node {node_id} founds the cluster, cluster.join that it joins one: set one of them"
        ));
    }
    if !peers.is_empty() && !is_peer && !joins {
        return conflict(format!(
            "cluster.peers does not name this node, whose node.id is {node_id}: give it the node.id of its entry, or \
             set cluster.join to join these nodes"
        ));
    }
    if !listens && !is_peer && (joins || !roles.broker || !roles.controller) {
        return conflict(
            "cluster.listen is not set: say where the other nodes reach this one, as 10.0.0.4:19092"
                .to_owned(),
        );
    }
    Ok(())
}

/// Takes the listeners of these names out.
fn leave_out(names: &[String], fixed: &mut ConfigMap) {
    let is_named = |listener: &String| {
        let name = listener.split("://").next().unwrap_or_default().trim();
        names.iter().any(|left_out| left_out.eq_ignore_ascii_case(name))
    };
    for setting in LISTENERS {
        if let Some(value) = fixed.get_mut(setting) {
            let mut listeners = split_list(value);
            listeners.retain(|listener| !is_named(listener));
            *value = listeners.join(",");
        }
    }
}

/// Kafka's other names for the same thing.
fn renamed(name: String) -> String {
    match name.as_str() {
        "broker.id" => "node.id".into(),
        "log.dir" => "log.dirs".into(),
        _ => name,
    }
}

/// The setting whose name is closest, if it is close.
fn nearest(name: &str) -> Option<&'static str> {
    const EDITS_MAX: usize = 4;
    let near =
        super::broker_settings().iter().map(|setting| (edits(name, setting.name), setting.name)).min()?;
    (near.0 <= EDITS_MAX.min(name.len() / 2)).then_some(near.1)
}

/// How many characters must change to make one name of the other.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().take(128).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let edited = (diagonal + usize::from(a != *b)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], edited);
        }
    }
    row[other.len()]
}
