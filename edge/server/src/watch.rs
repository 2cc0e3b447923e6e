//! What others may look at: numbers that somebody keeps anyway, and whether the node is ready.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use disk::{Device, DeviceCounts};
use http::{HttpState, Readiness};
use net::Listener;
use telemetry::{Metrics, WatchKind};

use crate::census::{Census, Counted};
use crate::coordinators::Lags;
use crate::log_dir::LogDirectory;
use crate::node::Node;

/// Shows the numbers of a node that are not counted by the metrics themselves.
pub(crate) fn all(node: &Arc<Node>, listener: Option<&Listener>) {
    let metrics = &node.metrics;
    let gauge =
        |name, help, labels: &[(&'static str, &str)], read: Box<dyn Fn(&Node) -> u64 + Send + Sync>| {
            // Weak: the metrics are part of the node.
            let node = Arc::downgrade(node);
            metrics.watch(WatchKind::Gauge, name, help, labels, move || {
                node.upgrade().map_or(0, |node| read(&node))
            });
        };
    let memory = "Bytes of memory that requests and answers hold, and may hold.";
    for (kind, of) in [("request", true), ("answer", false)] {
        let budget =
            move |node: &Node| if of { node.request_memory.clone() } else { node.answer_memory.clone() };
        gauge(
            "vltava_memory_used_bytes",
            memory,
            &[("kind", kind)],
            Box::new(move |node| budget(node).used()),
        );
        gauge(
            "vltava_memory_max_bytes",
            memory,
            &[("kind", kind)],
            Box::new(move |node| budget(node).bytes_max()),
        );
    }
    let retired =
        "Whether a log directory was given up after a failed write, or could not be used at the start.";
    let full = "Whether a log directory takes no records, for want of room.";
    let hung = "Whether the disk of a log directory hangs: a partition waits for it for five seconds, or its flushes for ten.";
    let free = "Bytes that the file system of a log directory has left, when it was looked at last.";
    let size = "Bytes of the file system of a log directory.";
    let aside = "Partitions that could not be compacted and wait to be tried again.";
    let dirty = "Bytes that wait for compaction in the log that has most of them.";
    for (place, dir) in node.dirs.iter().enumerate() {
        let path = dir.path.display().to_string();
        let read = move |node: &Node| u64::from(node.dirs[place].is_retired());
        gauge("vltava_log_dir_retired", retired, &[("dir", path.as_str())], Box::new(read));
        let read = move |node: &Node| u64::from(!node.dirs[place].has_room());
        gauge("vltava_log_dir_full", full, &[("dir", path.as_str())], Box::new(read));
        let read = move |node: &Node| u64::from(node.dirs[place].is_hung());
        gauge("vltava_log_dir_hung", hung, &[("dir", path.as_str())], Box::new(read));
        let read = move |node: &Node| node.dirs[place].space().free;
        gauge("vltava_log_dir_free_bytes", free, &[("dir", path.as_str())], Box::new(read));
        let read = move |node: &Node| node.dirs[place].space().total;
        gauge("vltava_log_dir_size_bytes", size, &[("dir", path.as_str())], Box::new(read));
        let read = move |node: &Node| node.dirs[place].compaction.aside.load(Ordering::Relaxed);
        gauge("vltava_compaction_partitions_aside", aside, &[("dir", path.as_str())], Box::new(read));
        let read = move |node: &Node| node.dirs[place].compaction.dirty_bytes_max.load(Ordering::Relaxed);
        gauge("vltava_compaction_dirty_bytes_max", dirty, &[("dir", path.as_str())], Box::new(read));
    }
    for path in &node.dirs_failing {
        let path = path.display().to_string();
        gauge("vltava_log_dir_retired", retired, &[("dir", path.as_str())], Box::new(|_| 1));
    }
    let stuck =
        "Whether this broker asks for others to lead, for a disk of its own hangs or did a moment ago.";
    gauge("vltava_broker_stuck", stuck, &[], Box::new(|node| u64::from(node.control.is_stuck())));
    devices(node);
    replication(node);
    groups(node);
    if let Some(listener) = listener {
        connections(node, listener);
    }
}

/// One count of a device: what it is called, how it is shown, and what it means.
type DeviceCount = (&'static str, WatchKind, &'static str, fn(&DeviceCounts) -> u64);

const DEVICE_COUNTS: &[DeviceCount] = &[
    (
        "vltava_log_dir_device_read_bytes",
        WatchKind::Counter,
        "Bytes read from the device of a log directory, whoever wanted them.",
        |counts| counts.read_bytes,
    ),
    (
        "vltava_log_dir_device_written_bytes",
        WatchKind::Counter,
        "Bytes written to the device of a log directory, whoever wanted it.",
        |counts| counts.written_bytes,
    ),
    (
        "vltava_log_dir_device_busy_seconds",
        WatchKind::Milliseconds,
        "Time in which the device of a log directory had something to do.",
        |counts| u64::try_from(counts.busy.as_millis()).unwrap_or(u64::MAX),
    ),
];

/// What the devices of log directories do, as far as the system tells: of memory and networks it does not.
fn devices(node: &Arc<Node>) {
    let under = |dir: &Arc<LogDirectory>| Some((dir.path.display().to_string(), Device::under(&dir.path)?));
    let devices: Vec<(String, Device)> = node.dirs.iter().filter_map(under).collect();
    for &(name, kind, help, of) in DEVICE_COUNTS {
        for (dir, device) in &devices {
            let (device, last) = (*device, AtomicU64::new(0));
            let read = move || match device.counts().as_ref().map(of) {
                Some(count) => {
                    last.store(count, Ordering::Relaxed);
                    count
                }
                // It is gone; what it did is done.
                None => last.load(Ordering::Relaxed),
            };
            node.metrics.watch(kind, name, help, &[("dir", dir.as_str())], read);
        }
    }
}

/// How one number of a [`Census`] is shown: its name, what it means, and labels.
type Counts = (&'static str, &'static str, &'static [(&'static str, &'static str)], fn(&Census) -> u64);

/// Kafka's UnderReplicatedPartitions, UnderMinIsrPartitionCount and so on.
const CENSUS: &[Counts] = &[
    ("vltava_partitions_led", "Partitions that this broker leads.", &[], |it| it.led),
    (
        "vltava_partitions_under_replicated",
        "Partitions led here of which fewer replicas are in sync than there should be.",
        &[],
        |it| it.under_replicated,
    ),
    (
        "vltava_partitions_under_min_isr",
        "Partitions led here that take no records from producers with acks=all, for want of replicas in sync.",
        &[],
        |it| it.under_min_isr,
    ),
    (
        "vltava_partitions_at_min_isr",
        "Partitions led here of which not one more replica may fall out of sync.",
        &[],
        |it| it.at_min_isr,
    ),
    (
        "vltava_partitions_reassigning",
        "Partitions led here of which replicas are on their way in or out.",
        &[],
        |it| it.reassigning,
    ),
    ("vltava_cluster_partitions", "Partitions of the cluster.", &[], |it| it.partitions),
    (
        "vltava_cluster_partitions_without_leader",
        "Partitions of the cluster that nobody leads who could.",
        &[],
        |it| it.without_leader,
    ),
    (
        "vltava_cluster_partitions_not_led_by_preferred",
        "Partitions of the cluster that another leads than the first of their replicas.",
        &[],
        |it| it.not_preferred,
    ),
    (
        "vltava_cluster_brokers",
        "Brokers of the cluster: those that may lead and serve, and those that may not.",
        &[("state", "active")],
        |it| it.brokers_active,
    ),
    (
        "vltava_cluster_brokers",
        "Brokers of the cluster: those that may lead and serve, and those that may not.",
        &[("state", "fenced")],
        |it| it.brokers_fenced,
    ),
];

fn replication(node: &Arc<Node>) {
    let counted = Arc::new(Counted::default());
    for &(name, help, labels, of) in CENSUS {
        let (node_of, counted) = (Arc::downgrade(node), Arc::clone(&counted));
        node.metrics.watch(WatchKind::Gauge, name, help, labels, move || {
            let Some(node) = node_of.upgrade() else { return 0 };
            of(&counted.get(&node.image.load(), node.settings.node_id, &node.settings.fixed))
        });
    }
}

fn groups(node: &Arc<Node>) {
    let (node_of, lags) = (Arc::downgrade(node), Lags::default());
    node.metrics.groups.watch(move || match node_of.upgrade() {
        Some(node) => lags.get(&node.coordinators, &node.partitions, &node.image),
        None => Arc::default(),
    });
}

fn connections(node: &Arc<Node>, listener: &Listener) {
    let count =
        |kind, name, help, labels: &[(&'static str, &str)], of: fn(&net::ListenerCounts) -> &AtomicU64| {
            let admission = listener.admission().clone();
            node.metrics
                .watch(kind, name, help, labels, move || of(admission.counts()).load(Ordering::Relaxed));
        };
    let (gauge, counter) = (WatchKind::Gauge, WatchKind::Counter);
    count(gauge, "vltava_connections_open", "Connections that are open.", &[], |c| &c.open);
    count(counter, "vltava_connections_accepted", "Connections that were let in.", &[], |c| &c.accepted);
    let delayed = "Connections that were held because their address came too fast.";
    count(counter, "vltava_connections_delayed", delayed, &[], |c| &c.delayed);
    let failed = "Times that accepting a connection failed, as for want of descriptors.";
    count(counter, "vltava_accept_errors", failed, &[], |c| &c.accept_errors);
    let refused = "Connections that were closed at once, by the limit they were over.";
    count(counter, "vltava_connections_refused", refused, &[("limit", "total")], |c| &c.refused_total);
    count(counter, "vltava_connections_refused", refused, &[("limit", "address")], |c| &c.refused_address);
}

/// What HTTP answers from. The node is not there yet while its logs are opened and the
/// cluster does not know of it.
pub(crate) fn http_state(watched: Arc<OnceLock<Weak<Node>>>, metrics: Arc<Metrics>) -> HttpState {
    HttpState {
        ready: Arc::new(move || {
            let Some(node) = watched.get() else {
                let starting =
                    "starting: the logs are being opened, or the cluster has not let this node in yet";
                return Readiness::NotReady(vec![starting.to_owned()]);
            };
            let Some(node) = node.upgrade() else {
                return Readiness::NotReady(vec!["the node stops".to_owned()]);
            };
            let warnings = warnings(&node);
            if warnings.is_empty() { Readiness::Ready } else { Readiness::ReadyBut(warnings) }
        }),
        metrics: Arc::new(move |format| metrics.render(format)),
    }
}

/// What is wrong with parts of a node that serves the others. They do not make it unready: whoever takes it
/// out of service for them loses the other parts, too, and the deletions that would give a disk room.
fn warnings(node: &Node) -> Vec<String> {
    let retired = node.dirs.iter().filter(|dir| dir.is_retired());
    let mut warnings: Vec<String> = retired
        .map(|dir| format!("log directory {} was given up after a failed write", dir.path.display()))
        .collect();
    let failing = node.dirs_failing.iter();
    warnings.extend(
        failing.map(|path| format!("log directory {} fails: its node started without it", path.display())),
    );
    let full = node.dirs.iter().filter(|dir| !dir.has_room());
    warnings.extend(full.map(|dir| format!("log directory {} is full", dir.path.display())));
    let hung = node.dirs.iter().filter(|dir| dir.is_hung());
    warnings
        .extend(hung.map(|dir| format!("the disk of log directory {} does not answer", dir.path.display())));
    if node.control.is_stuck() {
        warnings.push("others are asked to lead, for a disk hangs or did a moment ago".to_owned());
    }
    let offline = node.metrics.state.partitions_offline.get();
    if offline > 0 {
        warnings.push(format!("{offline} partitions are offline; the log of the node says which, and why"));
    }
    warnings
}
