//! The settings of brokers, by name: those that are read, those that give topics their defaults, and
//! the few that tools ask for.

use super::setting::Allowed::{
    self, Any, AtLeast, Between, BetweenOr, Form, LimitFrom, Listeners, NotEmpty, Ratio,
};
use super::setting::Kind::{self, Boolean, Double, Int, List, Long, Short, String};
use super::setting::{Scope, Setting};
use super::topic_table::{
    ARRAY_LEN_MAX, CLEANUP_POLICIES, COMPRESSION_TYPES, FLUSH_POLICIES, TIMESTAMP_TYPES,
};

const FOREVER: &str = "9223372036854775807";
const KAFKA: &str = "Kafka's default.";
const INT_MAX: i64 = i32::MAX as i64;

/// The class in Kafka that chooses a replica in the reader's rack (KIP-392).
pub(super) const RACK_AWARE: &str = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
const ROLES: Allowed = Allowed::ListOf(&super::cluster::Roles::NAMES);
const ASSIGNORS: Allowed = Allowed::ListOf(&["uniform", "range"]);
const MIGRATION_POLICIES: Allowed = Allowed::OneOf(&["bidirectional", "upgrade", "downgrade", "disabled"]);
const REPLICA_SELECTORS: Allowed =
    Allowed::OneOf(&["", "org.apache.kafka.common.replica.LeaderSelector", RACK_AWARE]);

/// Sorted by name.
pub(super) const BROKER: &[Setting] = &[
    fixed("advertised.listeners", List, None, Listeners)
        .doc("What clients are told to connect to, when that is not what `listeners` says.")
        .why("Not set: `listeners`. Set it behind a NAT, in a container, or to advertise a name."),
    fixed("auto.create.topics.enable", Boolean, Some("true"), Any)
        .doc("Whether a topic is created when a client asks for one that is not there.")
        .why("Kafka's default: a first producer just works. Turn it off where a typing error must not make topics."),
    fixed("auto.leader.rebalance.enable", Boolean, Some("true"), Any)
        .doc("Whether leaderships go back by themselves to the brokers that are first in line for them.")
        .why("Kafka's default: after a restart the load is spread again."),
    fixed("broker.heartbeat.interval.ms", Int, Some("300"), AtLeast(50))
        .doc("How often a broker tells the controller that it lives.")
        .why("Six of them fit into a session: one that is lost or late costs nothing. Kafka's default is 2000."),
    fixed("broker.rack", String, None, Any)
        .doc("The rack, zone or building of this node; replicas are spread over them.")
        .why("Not set: all nodes are alike."),
    fixed("broker.session.timeout.ms", Int, Some("2000"), AtLeast(500))
        .doc("How long a broker may be silent before others take over what it leads. All nodes that may be controllers need the same.")
        .why("A silent partition of the network costs no more than this. Kafka's default is 9000; turn it up where machines pause for seconds."),
    fixed("cluster.join", List, None, Form("host:port each"))
        .doc("The `cluster.listen` of one or more nodes, as host:port, whose cluster an empty node joins as a broker without a vote; `vltava cluster add` gives it one. Once it has joined, who belongs to the cluster is in its metadata.")
        .why("Not set: the node founds a cluster, with the others of `cluster.peers` or alone."),
    fixed("cluster.listen", String, None, Form("host:port"))
        .doc("Where other nodes of the cluster connect, as host:port. Only nodes speak there, and nothing is encrypted: keep it on a network of their own. They are told this node's entry in `cluster.peers`, if it has one, so that it may listen elsewhere: on 0.0.0.0, say.")
        .why("Not set: this node's own entry in `cluster.peers`; a node with `cluster.join` listens 10000 ports above `listeners`, on its host or, if that is none that others could connect to, on the address from which this machine speaks with them; a node that is alone listens to nobody."),
    fixed("cluster.peers", List, None, Form("id@host:port each"))
        .doc("The nodes that found the cluster, as id@host:port of each one's `cluster.listen`, the same on all of them. Once there is a cluster, who belongs to it is in its metadata.")
        .why("Not set: the node is a cluster of its own."),
    dynamic("compression.gzip.level", Int, Some("-1"), BetweenOr(1, 9, -1)),
    dynamic("compression.lz4.level", Int, Some("9"), Between(1, 17)),
    dynamic("compression.type", String, Some("producer"), COMPRESSION_TYPES),
    dynamic("compression.zstd.level", Int, Some("3"), Between(-131_072, 22)),
    fixed("connections.max.idle.ms", Long, Some("600000"), AtLeast(1))
        .doc("How long a connection may stay silent before it is closed.")
        .why("Kafka's default; clients close theirs a minute earlier."),
    fixed("controller.quorum.election.timeout.ms", Int, Some("500"), AtLeast(50))
        .doc("How long the leader of the metadata quorum may be silent; another one is elected after once to twice as long. It lets itself be heard five times in it. All nodes that vote need the same.")
        .why("The loss of a controller is settled in about a second. Kafka's default is 1000; turn it up where machines pause for longer."),
    fixed("controller.quorum.fetch.timeout.ms", Int, Some("2000"), AtLeast(50))
        .doc("How long a node without a vote waits for an answer of the metadata quorum before it asks another voter.")
        .why(KAFKA),
    dynamic("cordoned.log.dirs", List, Some(""), Allowed::ListOf(&["*"]))
        .doc("Set to `*`, no new replica is placed on this broker; what is there stays. `vltava cluster drain` sets it, `vltava cluster add` takes it away.")
        .why("Not set: every broker takes replicas. Kafka can close single directories; here it is all of them or none."),
    fixed("default.replication.factor", Int, Some("1"), Between(1, 32_767))
        .doc("How many replicas a topic has when its creator does not say. While nobody sets it, the cluster chooses, and the default is what one node can hold: a topic gets as many as there are brokers, alive or away for now, and at most 3; before all of `cluster.peers` have registered it is refused. Set it, also to 1, and it is what every topic gets. A topic that is made with 3 replicas or more, whoever chose that, gets its own `min.insync.replicas` of 2, unless that is set for it or for all.")
        .why("One node can hold one. With three, any one of them can be lost and no acknowledged record is."),
    fixed("delete.topic.enable", Boolean, Some("true"), Any)
        .doc("Whether topics can be deleted.")
        .why("Kafka's default. Turn it off to make a slip of the hand harmless."),
    fixed("fetch.max.bytes", Int, Some("57671680"), AtLeast(1024))
        .doc("The most record bytes in one answer to a fetch, whatever the client asks for.")
        .why("Kafka's default: 55 MiB, a little more than clients ask for."),
    fixed("flush.interval.ms", Long, Some("100"), AtLeast(1))
        .doc("How often dirty partitions are flushed under `flush.policy=interval`, to within 50 ms; one that has 256 KiB to flush is flushed at once.")
        .why("A tenth of a second is what a power cut can then cost."),
    dynamic("flush.policy", String, Some("ack"), FLUSH_POLICIES)
        .why("What was acknowledged survives a power cut; Kafka's behaviour is `os`."),
    dynamic("follower.replication.throttled.rate", Long, Some(FOREVER), AtLeast(0))
        .doc("How many bytes a second this broker takes in for those of its replicas that `follower.replication.throttled.replicas` of their topics name, while they are not in sync. It is set while the broker runs.")
        .why("No limit; tools that move replicas set it and clear it."),
    fixed("group.consumer.assignment.interval.ms", Int, Some("1000"), AtLeast(0))
        .doc("How far apart the members of a group of the new protocol are told anew what to read, at least. A member that is alone in its group does not wait.")
        .why("Kafka's default: members that come or go together are one rebalance."),
    fixed("group.consumer.assignors", List, Some("uniform,range"), ASSIGNORS)
        .doc("Who may be asked to say which member of a group of the new protocol reads what; the first one does if members ask for none.")
        .why(KAFKA),
    fixed("group.consumer.heartbeat.interval.ms", Int, Some("5000"), AtLeast(1))
        .doc("How often members of groups of the new protocol are to be heard. One that waits for others is asked for more.")
        .why(KAFKA),
    fixed("group.consumer.max.assignment.interval.ms", Int, Some("15000"), AtLeast(0))
        .doc("The longest `consumer.assignment.interval.ms` that a group may have.")
        .why(KAFKA),
    fixed("group.consumer.max.heartbeat.interval.ms", Int, Some("15000"), AtLeast(1))
        .doc("The longest `consumer.heartbeat.interval.ms` that a group may have.")
        .why(KAFKA),
    fixed("group.consumer.max.session.timeout.ms", Int, Some("60000"), AtLeast(1))
        .doc("The longest `consumer.session.timeout.ms` that a group may have.")
        .why(KAFKA),
    fixed("group.consumer.max.size", Int, Some("1000"), AtLeast(1))
        .doc("How many members a group of the new protocol has at most.")
        .why("A bound on what one group can cost; more members than that read no faster. Kafka has none."),
    fixed("group.consumer.migration.policy", String, Some("bidirectional"), MIGRATION_POLICIES)
        .doc("Whether a group changes its protocol while it is read: from the classic to the new one when the first member of that joins (`upgrade`), back when the last of them leaves (`downgrade`), both (`bidirectional`), or not at all (`disabled`).")
        .why("Kafka's default: clients can be moved one by one."),
    fixed("group.consumer.min.assignment.interval.ms", Int, Some("0"), AtLeast(0))
        .doc("The shortest `consumer.assignment.interval.ms` that a group may have.")
        .why(KAFKA),
    fixed("group.consumer.min.heartbeat.interval.ms", Int, Some("5000"), AtLeast(1))
        .doc("The shortest `consumer.heartbeat.interval.ms` that a group may have.")
        .why(KAFKA),
    fixed("group.consumer.min.session.timeout.ms", Int, Some("45000"), AtLeast(1))
        .doc("The shortest `consumer.session.timeout.ms` that a group may have.")
        .why(KAFKA),
    fixed("group.consumer.regex.refresh.interval.ms", Int, Some("600000"), AtLeast(10_000))
        .doc("How long what a pattern of a subscription matched counts at most in a group of the new protocol, before it is looked up again. Topics that come and go are seen within a second all the same.")
        .why(KAFKA),
    fixed("group.consumer.session.timeout.ms", Int, Some("45000"), AtLeast(1))
        .doc("How long a member of a group of the new protocol may be silent before others read what it had.")
        .why(KAFKA),
    fixed("group.disconnect.shortens.session", Boolean, Some("true"), Any)
        .doc("Whether a member of a group whose connection it has closed without leaving, and which is not static, is waited for no longer than two of its heartbeats and a second. Once it is heard on another connection it has its whole session again.")
        .why("A process that is gone has its connections closed: the others need not wait for the rest of its session. Turn it off where something between clients and brokers closes connections of clients that cannot connect again at once."),
    fixed("group.initial.rebalance.delay.ms", Int, Some("3000"), AtLeast(0))
        .doc("How long a new group waits for more members before it gives partitions to those who are there, at most. It waits only while members keep coming: one that is alone reads at once.")
        .why("Kafka's default, where it is what every new group waits."),
    fixed("group.max.session.timeout.ms", Int, Some("1800000"), AtLeast(1))
        .doc("The longest session timeout that a member of a classic group may ask for.")
        .why(KAFKA),
    fixed("group.max.size", Int, Some("1000"), AtLeast(1))
        .doc("How many members a group has at most.")
        .why("A bound on what one group can cost; more members than that read no faster. Kafka has none."),
    fixed("group.min.session.timeout.ms", Int, Some("6000"), AtLeast(1))
        .doc("The shortest session timeout that a member of a classic group may ask for.")
        .why(KAFKA),
    fixed("http.listen", String, Some("127.0.0.1:9644"), Form("host:port, or empty"))
        .doc("Where health and metrics are served over HTTP; empty turns it off.")
        .why("Loopback only: it asks nobody who they are."),
    fixed("inter.broker.protocol.version", String, Some("4.4"), Any)
        .doc("The Kafka release whose protocol is spoken. Setting it is without effect.")
        .why("Tools read it to find out what they can ask for."),
    fixed("leader.imbalance.check.interval.seconds", Long, Some("300"), AtLeast(1))
        .doc("How often it is looked whether leaderships should go back to the brokers that are first in line.")
        .why("Kafka's default: seldom enough that a broker which comes and goes does not take them along each time."),
    dynamic("leader.replication.throttled.rate", Long, Some(FOREVER), AtLeast(0))
        .doc("How many bytes a second this broker gives away to replicas that are not in sync, of partitions whose replica here `leader.replication.throttled.replicas` of their topics names. It is set while the broker runs.")
        .why("No limit; tools that move replicas set it and clear it."),
    fixed("listeners", List, Some("PLAINTEXT://127.0.0.1:9092"), Listeners)
        .doc("Where the Kafka protocol is spoken: one listener, whose name is PLAINTEXT; those that `controller.listener.names` names are passed over. While nobody sets it, a node whose own entry in `cluster.peers` names a host that is not loopback is served on that host instead, at the same port.")
        .why("A node alone is there for this machine: what listens on a network should be protected first. One of a cluster is there for others, who already reach it at that host."),
    fixed("log.cleaner.backoff.ms", Long, Some("15000"), AtLeast(1))
        .doc("How long compaction rests when no log is due.")
        .why("Kafka's default."),
    fixed("log.cleaner.dedupe.buffer.size", Long, Some("134217728"), AtLeast(1))
        .doc("How much memory compaction may use for the keys of the logs that it works on, 24 bytes for each and a third more; log directories share it evenly. It is taken only while a log is compacted, and no more than that log needs. A log with more keys is compacted in several steps.")
        .why("Kafka's default: 4 million keys in a step."),
    dynamic("log.cleaner.delete.retention.ms", Long, Some("86400000"), AtLeast(0)),
    fixed("log.cleaner.io.max.bytes.per.second", Double, Some("1.7976931348623157E308"), Any)
        .doc("How many bytes a second compaction reads in each log directory, at most; less than 1 counts as 1.")
        .why("No limit, as in Kafka."),
    dynamic("log.cleaner.max.compaction.lag.ms", Long, Some(FOREVER), AtLeast(1)),
    dynamic("log.cleaner.min.cleanable.ratio", Double, Some("0.5"), Ratio(0.0, 1.0)),
    dynamic("log.cleaner.min.compaction.lag.ms", Long, Some("0"), AtLeast(0)),
    dynamic("log.cleanup.policy", List, Some("delete"), CLEANUP_POLICIES),
    fixed("log.dir.reserve.bytes", Long, Some("-1"), AtLeast(-1))
        .doc("With less than this free in a log directory, no records are taken, of producers or of leaders, and no logs made there, until a quarter of it more is free; deletions go on. -1 is 2 % of the file system but at least 1 GiB, and at most a tenth of it; 0 turns it off.")
        .why("A disk that is full to the last byte takes no deletion either."),
    fixed("log.dirs", List, Some("./vltava-data"), NotEmpty)
        .doc("The directories that hold the data, best one for each disk. The first of a new node also holds the metadata, and does so from then on whatever the order.")
        .why("Beside where the node was started: no root, nothing to prepare."),
    dynamic("log.flush.interval.messages", Long, Some(FOREVER), AtLeast(1)),
    dynamic("log.flush.interval.ms", Long, None, AtLeast(0))
        .why("Not set, as in Kafka: `log.flush.scheduler.interval.ms` says it."),
    fixed("log.flush.offset.checkpoint.interval.ms", Int, Some("3000"), AtLeast(0))
        .doc("How often it is written down up to where the logs are known to be durable.")
        .why("What lies above is read again after a crash: a few seconds of writing take less than a second."),
    fixed("log.flush.scheduler.interval.ms", Long, Some(FOREVER), AtLeast(0)),
    dynamic("log.index.interval.bytes", Int, Some("4096"), AtLeast(0)),
    dynamic("log.index.size.max.bytes", Int, Some("10485760"), AtLeast(4)),
    dynamic("log.local.retention.bytes", Long, Some("-2"), AtLeast(-2)),
    dynamic("log.local.retention.ms", Long, Some("-2"), AtLeast(-2)),
    dynamic("log.message.timestamp.after.max.ms", Long, Some("3600000"), AtLeast(0)),
    dynamic("log.message.timestamp.before.max.ms", Long, Some(FOREVER), AtLeast(0)),
    dynamic("log.message.timestamp.type", String, Some("CreateTime"), TIMESTAMP_TYPES),
    dynamic("log.preallocate", Boolean, Some("false"), Any),
    dynamic("log.remote.copy.lag.bytes", Long, Some("-1"), AtLeast(-1)),
    dynamic("log.remote.copy.lag.ms", Long, Some("0"), AtLeast(-1)),
    dynamic("log.retention.bytes", Long, Some("-1"), LimitFrom(0)),
    fixed("log.retention.check.interval.ms", Long, Some("300000"), AtLeast(1))
        .doc("How often old segments are looked for.")
        .why("Kafka's default: retention is late by five minutes at most."),
    fixed("log.retention.hours", Int, Some("168"), LimitFrom(1)),
    fixed("log.retention.minutes", Int, None, LimitFrom(1))
        .why("Not set, as in Kafka: `log.retention.hours` says it."),
    dynamic("log.retention.ms", Long, None, LimitFrom(1))
        .why("Not set, as in Kafka: `log.retention.minutes` says it, else `log.retention.hours`."),
    fixed("log.roll.hours", Int, Some("168"), AtLeast(1)),
    fixed("log.roll.jitter.hours", Int, Some("0"), AtLeast(0)),
    dynamic("log.roll.jitter.ms", Long, None, AtLeast(0))
        .why("Not set, as in Kafka: `log.roll.jitter.hours` says it."),
    dynamic("log.roll.ms", Long, None, AtLeast(1))
        .why("Not set, as in Kafka: `log.roll.hours` says it."),
    dynamic("log.segment.bytes", Int, Some("1073741824"), AtLeast(1_048_576)),
    dynamic("log.segment.delete.delay.ms", Long, Some("60000"), AtLeast(0)),
    fixed("max.connections", Int, Some("10000"), AtLeast(1))
        .doc("How many connections are open at a time, but no more than 40 % of the files that the system lets this process open.")
        .why("Enough for a large site, few enough for the memory of a small node."),
    fixed("max.connections.per.ip", Int, Some("5000"), AtLeast(1))
        .doc("How many connections one address may have open.")
        .why("One client gone wild cannot take them all, and a machine with hundreds of consumers on it gets what they need."),
    dynamic("max.decompressed.message.bytes", Int, Some("2147483639"), Between(1, ARRAY_LEN_MAX)),
    fixed("max.incremental.fetch.session.cache.slots", Int, Some("1000"), AtLeast(0))
        .doc("How many fetch sessions there are; beyond, a fetch is answered in full, without a session.")
        .why("Kafka's default."),
    dynamic("message.max.bytes", Int, Some("1048588"), AtLeast(0)),
    fixed("metadata.log.max.record.bytes.between.snapshots", Long, Some("20971520"), AtLeast(1))
        .doc("How many bytes of metadata are committed before a snapshot takes their place.")
        .why("Kafka's default: a node that starts reads no more than that beside the snapshot."),
    fixed("metadata.log.max.snapshot.interval.ms", Long, Some("3600000"), AtLeast(0))
        .doc("How old a snapshot of the metadata is at most when something is committed; 0 looks at its bytes only.")
        .why(KAFKA),
    dynamic("min.insync.replicas", Int, Some("1"), AtLeast(1)),
    fixed("node.id", Int, Some("1"), Between(0, INT_MAX))
        .doc("The number of this node in its cluster.")
        .why("A single node needs no choice."),
    fixed("num.io.threads", Int, Some("0"), AtLeast(0))
        .doc("How many threads serve connections; 0 is one for every two cores, at least one.")
        .why("A thread serves many connections; more than the cores only wait for each other."),
    fixed("num.partitions", Int, Some("1"), Between(1, INT_MAX))
        .doc("How many partitions a topic has when its creator does not say.")
        .why("Kafka's default; partitions can be added, never taken away."),
    fixed("num.recovery.threads.per.data.dir", Int, Some("2"), AtLeast(1))
        .doc("How many threads open the logs of each directory at start.")
        .why("Kafka's default."),
    fixed("offset.metadata.max.bytes", Int, Some("4096"), AtLeast(0))
        .doc("The most bytes that a committed offset may be given as metadata.")
        .why(KAFKA),
    fixed("offsets.commit.timeout.ms", Int, Some("5000"), AtLeast(1))
        .doc("How long an answer of a group's coordinator waits for its records to be on enough replicas.")
        .why(KAFKA),
    fixed("offsets.retention.check.interval.ms", Long, Some("600000"), AtLeast(1))
        .doc("How often committed offsets are looked for whose time is over.")
        .why(KAFKA),
    fixed("offsets.retention.minutes", Int, Some("10080"), AtLeast(1))
        .doc("How long committed offsets are kept after their group has lost its last member, or after they were committed if that was later (KIP-211).")
        .why("Kafka's default: a week."),
    fixed("offsets.topic.num.partitions", Int, Some("50"), AtLeast(1))
        .doc("How many partitions `__consumer_offsets` is made with: groups are spread over them. It cannot be changed once groups are there.")
        .why(KAFKA),
    fixed("offsets.topic.replication.factor", Short, Some("3"), AtLeast(1))
        .doc("How many replicas `__consumer_offsets` is made with. While nobody sets it, the cluster chooses: as many as there are brokers, at most 3.")
        .why("Committed offsets are as safe as records. Kafka makes no such topic on fewer brokers than this says."),
    fixed("offsets.topic.segment.bytes", Int, Some("104857600"), AtLeast(1))
        .doc("The size of the segments of `__consumer_offsets`.")
        .why("Kafka's default: small ones are compacted sooner, and a coordinator that takes over reads less."),
    fixed("process.roles", List, Some("broker,controller"), ROLES)
        .doc("What this node does: a `broker` has partitions and serves clients, a `controller` votes on the metadata. Who is only one of them says so; a broker alone joins with `cluster.join`, a controller alone serves no clients.")
        .why("A node that is both is a whole cluster. Separate them in large clusters, so that load on brokers cannot slow elections."),
    dynamic("producer.id.expiration.ms", Int, Some("86400000"), AtLeast(1))
        .doc("How long a partition remembers an idempotent producer that is silent.")
        .why("Kafka's default: a producer that pauses for a day still writes nothing twice."),
    fixed("queued.max.request.bytes", Long, Some("-1"), BetweenOr(1_048_576, i64::MAX, -1))
        .doc("How many bytes of requests may wait at a time, over all connections; -1 is a quarter of the memory.")
        .why("Always bounded: a full budget stops reading sockets and loses nothing."),
    fixed("replica.fetch.backoff.ms", Int, Some("100"), AtLeast(0))
        .doc("How long a follower leaves a partition alone that its leader refused; a tenth of it first, and twice as long each time, if the leader may not know yet that it leads.")
        .why("The metadata that explain it come sooner than that. Kafka's default is 1000."),
    fixed("replica.fetch.max.bytes", Int, Some("1048576"), AtLeast(0))
        .doc("The most record bytes of one partition in an answer to a follower; a larger batch comes all the same.")
        .why(KAFKA),
    fixed("replica.fetch.response.max.bytes", Int, Some("10485760"), AtLeast(0))
        .doc("The most record bytes in an answer to a follower.")
        .why(KAFKA),
    fixed("replica.fetch.wait.max.ms", Int, Some("500"), AtLeast(0))
        .doc("How long a leader waits for something to tell a follower.")
        .why(KAFKA),
    fixed("replica.lag.time.max.ms", Long, Some("30000"), AtLeast(100))
        .doc("How long a follower may lack what its leader has before it is in sync no more.")
        .why("Kafka's default. A broker that dies is noticed by its session, long before."),
    fixed("replica.selector.class", String, None, REPLICA_SELECTORS)
        .doc("Who chooses the replica that a consumer reads from. With the rack-aware one, a consumer that says where it is (`client.rack`) reads from a replica in sync in its own rack, if there is one.")
        .why("Not set, as in Kafka: everybody reads from the leader, which has records first."),
    fixed("socket.request.max.bytes", Int, Some("104857600"), Between(1024, INT_MAX))
        .doc("The largest request that is read.")
        .why("Kafka's default: 100 MiB."),
    dynamic("unclean.leader.election.enable", Boolean, Some("false"), Any),
];

/// Read once, at start.
const fn fixed(name: &'static str, kind: Kind, default: Option<&'static str>, allowed: Allowed) -> Setting {
    Setting {
        name,
        kind,
        default,
        allowed,
        doc: "",
        reason: KAFKA,
        scope: Scope::BrokerStatic,
        synonyms: &[],
    }
}

/// Can change while the node runs.
const fn dynamic(name: &'static str, kind: Kind, default: Option<&'static str>, allowed: Allowed) -> Setting {
    Setting { scope: Scope::BrokerDynamic, ..fixed(name, kind, default, allowed) }
}
