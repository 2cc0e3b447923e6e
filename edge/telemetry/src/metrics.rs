//! All numbers of a broker, in one place that everything can reach.
//!
//! What this process counts itself is a field. What others know already, such as the listener or a
//! log directory, is watched: read when somebody looks.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::clients::Clients;
use crate::exposition::{Page, TextFormat};
use crate::groups::GroupMetrics;
use crate::meters::{Counter, Gauge, Histogram};
use crate::process::Process;
use crate::requests::RequestMetrics;

/// Which program this is.
#[derive(Debug, Clone, Copy)]
pub struct Build {
    /// Its version.
    pub version: &'static str,
}

/// Numbers about sockets of the Kafka port.
#[derive(Debug, Default)]
pub struct NetworkMetrics {
    /// Bytes of requests.
    pub bytes_in: Counter,
    /// Bytes of answers.
    pub bytes_out: Counter,
    /// Connections ended by us because of what the peer did or did not do.
    pub connections_cut: Counter,
}

/// Numbers about what producers sent.
#[derive(Debug, Default)]
pub struct ProduceMetrics {
    /// Batches appended.
    pub batches: Counter,
    /// Records appended.
    pub records: Counter,
    /// Bytes of batches appended.
    pub bytes: Counter,
    /// Batches that were there already and were answered as such.
    pub batches_duplicate: Counter,
}

/// Numbers about what consumers took.
#[derive(Debug, Default)]
pub struct FetchMetrics {
    /// Parts of answers, one per partition, that carried records.
    pub parts: Counter,
    /// Bytes of records.
    pub bytes: Counter,
    /// Reads that had to wait for the disk before they could be sent.
    pub cold_reads: Counter,
    /// Answers that were broken off because their records could not be read.
    pub failed_reads: Counter,
}

/// Numbers about files.
#[derive(Debug, Default)]
pub struct LogMetrics {
    /// How long a flush took.
    pub flushes: Histogram,
    /// How long a partition was locked for an append.
    pub append_locks: Histogram,
    /// Times that stored records were found damaged, or could not be read, when they were looked at again.
    pub damages: Counter,
}

/// Numbers about compaction.
#[derive(Debug, Default)]
pub struct CompactionMetrics {
    /// How long compactions of a log took, those that failed included.
    pub runs: Histogram,
    /// Compactions that failed.
    pub failures: Counter,
    /// Bytes of batches that were read.
    pub read_bytes: Counter,
    /// Bytes of segments that were written anew.
    pub written_bytes: Counter,
    /// Bytes of the segments whose place they took.
    pub replaced_bytes: Counter,
}

/// What the broker has at the moment.
#[derive(Debug, Default)]
pub struct StateMetrics {
    /// Topics that there are.
    pub topics: Gauge,
    /// Partitions on this broker.
    pub partitions: Gauge,
    /// Partitions on this broker that cannot be used.
    pub partitions_offline: Gauge,
    /// Produce requests that wait for acks.
    pub parked_produce: Gauge,
    /// Fetch requests that wait for records.
    pub parked_fetch: Gauge,
    /// DeleteRecords requests that wait for the new start of a log to be durable.
    pub parked_delete_records: Gauge,
    /// Fetch sessions of clients.
    pub fetch_sessions: Gauge,
}

/// Numbers about replicas.
#[derive(Debug, Default)]
pub struct ReplicationMetrics {
    /// Times that replicas left the in-sync set of a partition that this broker leads.
    pub isr_shrinks: Counter,
    /// Times that replicas came into it.
    pub isr_expands: Counter,
    /// Times that this broker came to lead a partition of which it may lack committed records, for that was
    /// asked for.
    pub unclean_elections: Counter,
    /// Times that it came to lead one as the last leader that was known, because nobody else was left.
    pub last_known_elections: Counter,
    /// Committed records that the replica of this broker lacks which follows and lacks most.
    pub follower_lag_records_max: Gauge,
    /// Records of which the follower lacks most that is furthest behind a leader on this broker.
    pub leader_lag_records_max: Gauge,
    /// 1 if this node's controller is the active one.
    pub controller_active: Gauge,
}

/// How a watched number behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchKind {
    /// It only grows. Its name is given without `_total`.
    Counter,
    /// Milliseconds that only grow, shown in seconds. Its name ends in `_seconds`, and is given without `_total`.
    Milliseconds,
    /// It goes up and down.
    Gauge,
}

/// All numbers of a broker.
pub struct Metrics {
    /// Requests by API.
    pub requests: RequestMetrics,
    /// Sockets.
    pub network: NetworkMetrics,
    /// What producers sent.
    pub produce: ProduceMetrics,
    /// What consumers took.
    pub fetch: FetchMetrics,
    /// Files.
    pub log: LogMetrics,
    /// Compaction.
    pub compaction: CompactionMetrics,
    /// What there is at the moment.
    pub state: StateMetrics,
    /// Replicas.
    pub replication: ReplicationMetrics,
    /// Groups.
    pub groups: GroupMetrics,
    /// What software connects.
    pub clients: Clients,
    watched: Mutex<Vec<Watched>>,
    build: Build,
    started: Instant,
    started_at: SystemTime,
}

struct Watched {
    name: &'static str,
    help: &'static str,
    kind: WatchKind,
    labels: Vec<(&'static str, String)>,
    read: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl Metrics {
    /// Zero everywhere. `apis` are the keys and names of the APIs this broker speaks.
    pub fn new(build: Build, apis: &[(i16, &'static str)]) -> Arc<Self> {
        Arc::new(Self {
            requests: RequestMetrics::new(apis),
            network: NetworkMetrics::default(),
            produce: ProduceMetrics::default(),
            fetch: FetchMetrics::default(),
            log: LogMetrics::default(),
            compaction: CompactionMetrics::default(),
            state: StateMetrics::default(),
            replication: ReplicationMetrics::default(),
            groups: GroupMetrics::default(),
            clients: Clients::default(),
            watched: Mutex::default(),
            build,
            started: Instant::now(),
            started_at: SystemTime::now(),
        })
    }

    /// Shows a number that somebody else keeps. Numbers of one name differ in their labels and share
    /// kind and help.
    ///
    /// The name begins with `vltava_`; `read` must be quick and must not wait.
    pub fn watch(
        &self,
        kind: WatchKind,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        read: impl Fn() -> u64 + Send + Sync + 'static,
    ) {
        let labels = labels.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.push(Watched { name, help, kind, labels, read: Box::new(read) });
        // Stable, so that lines keep the order in which they were given.
        watched.sort_by_key(|watched| watched.name);
    }

    /// The page that Prometheus reads.
    pub fn render(self: &Arc<Self>, format: TextFormat) -> String {
        let metrics = self.clone();
        format.page(move |page| metrics.encode(page))
    }

    fn encode(&self, page: &mut Page<'_>) -> fmt::Result {
        self.encode_requests(page)?;
        self.encode_traffic(page)?;
        self.encode_log(page)?;
        self.encode_compaction(page)?;
        self.encode_state(page)?;
        self.encode_replication(page)?;
        self.groups.encode(page)?;
        self.encode_watched(page)?;
        self.encode_process(page)
    }

    fn encode_requests(&self, page: &mut Page<'_>) -> fmt::Result {
        let apis = || self.requests.apis.iter().filter(|api| api.requests.get() > 0);
        page.counters(
            "vltava_requests",
            "Requests read, by API.",
            apis().map(|api| ([("api", api.name)], api.requests.get())),
        )?;
        page.counters(
            "vltava_requests_failed",
            "Requests that could not be served at all, by API.",
            apis().map(|api| ([("api", api.name)], api.failed.get())),
        )?;
        page.counters(
            "vltava_errors",
            "Errors answered, by Kafka's name of them.",
            self.requests.errors().map(|(error, count)| ([("error", error)], count)),
        )?;
        page.histograms(
            "vltava_request_seconds",
            "How long requests took, by API and stage.",
            apis()
                .flat_map(|api| [("total", api, &api.total), ("local", api, &api.local)])
                .filter(|(_, _, histogram)| histogram.count() > 0)
                .map(|(stage, api, histogram)| ([("api", api.name), ("stage", stage)], histogram)),
        )
    }

    fn encode_traffic(&self, page: &mut Page<'_>) -> fmt::Result {
        let (network, produce, fetch) = (&self.network, &self.produce, &self.fetch);
        for (name, help, counter) in [
            ("vltava_network_in_bytes", "Bytes of requests.", &network.bytes_in),
            ("vltava_network_out_bytes", "Bytes of answers.", &network.bytes_out),
            (
                "vltava_connections_cut",
                "Connections ended because of what the peer did.",
                &network.connections_cut,
            ),
            ("vltava_produce_batches", "Batches appended.", &produce.batches),
            ("vltava_produce_records", "Records appended.", &produce.records),
            ("vltava_produce_bytes", "Bytes of batches appended.", &produce.bytes),
            (
                "vltava_produce_batches_duplicate",
                "Batches that were there already.",
                &produce.batches_duplicate,
            ),
            ("vltava_fetch_parts", "Parts of fetch answers that carried records.", &fetch.parts),
            ("vltava_fetch_bytes", "Bytes of records in fetch answers.", &fetch.bytes),
            ("vltava_fetch_cold_reads", "Reads that waited for the disk.", &fetch.cold_reads),
            (
                "vltava_fetch_failed_reads",
                "Times that records which were asked for could not be read.",
                &fetch.failed_reads,
            ),
        ] {
            page.counter(name, help, counter.get())?;
        }
        Ok(())
    }

    fn encode_log(&self, page: &mut Page<'_>) -> fmt::Result {
        let log = &self.log;
        page.histogram("vltava_log_flush_seconds", "How long flushes took.", &log.flushes)?;
        page.histogram(
            "vltava_log_append_lock_seconds",
            "How long partitions were locked for an append.",
            &log.append_locks,
        )?;
        page.counter(
            "vltava_log_damages",
            "Times that stored records were found damaged, or could not be read, when they were looked at again.",
            log.damages.get(),
        )
    }

    fn encode_compaction(&self, page: &mut Page<'_>) -> fmt::Result {
        let compaction = &self.compaction;
        page.histogram("vltava_compaction_seconds", "How long compactions of a log took.", &compaction.runs)?;
        for (name, help, counter) in [
            ("vltava_compaction_failures", "Compactions that failed.", &compaction.failures),
            ("vltava_compaction_read_bytes", "Bytes of batches read.", &compaction.read_bytes),
            ("vltava_compaction_written_bytes", "Bytes of segments written anew.", &compaction.written_bytes),
            ("vltava_compaction_replaced_bytes", "Bytes of the segments before.", &compaction.replaced_bytes),
        ] {
            page.counter(name, help, counter.get())?;
        }
        Ok(())
    }

    fn encode_state(&self, page: &mut Page<'_>) -> fmt::Result {
        let state = &self.state;
        page.gauge("vltava_topics", "Topics.", state.topics.get())?;
        page.gauge("vltava_partitions", "Partitions on this broker.", state.partitions.get())?;
        page.gauge(
            "vltava_partitions_offline",
            "Partitions on this broker that cannot be used.",
            state.partitions_offline.get(),
        )?;
        page.gauges(
            "vltava_parked_requests",
            "Requests that wait for acks, records or the disk, by API.",
            [
                ([("api", "Produce")], state.parked_produce.get()),
                ([("api", "Fetch")], state.parked_fetch.get()),
                ([("api", "DeleteRecords")], state.parked_delete_records.get()),
            ],
        )?;
        page.gauge("vltava_fetch_sessions", "Fetch sessions of clients.", state.fetch_sessions.get())?;
        page.counters(
            "vltava_clients_connected",
            "Connections by the software that clients say they are.",
            self.clients
                .seen()
                .into_iter()
                .map(|((name, version), count)| ([("name", name), ("version", version)], count)),
        )
    }

    fn encode_replication(&self, page: &mut Page<'_>) -> fmt::Result {
        let replication = &self.replication;
        for (name, help, counter) in [
            (
                "vltava_isr_shrinks",
                "Times that replicas left the in-sync set of a partition led here.",
                &replication.isr_shrinks,
            ),
            (
                "vltava_isr_expands",
                "Times that replicas came into the in-sync set of a partition led here.",
                &replication.isr_expands,
            ),
            (
                "vltava_elections_unclean",
                "Times that this broker came to lead although committed records may be missing, as was asked for.",
                &replication.unclean_elections,
            ),
            (
                "vltava_elections_last_known",
                "Times that this broker came to lead as the last known leader: committed records may be missing.",
                &replication.last_known_elections,
            ),
        ] {
            page.counter(name, help, counter.get())?;
        }
        for (name, help, gauge) in [
            (
                "vltava_follower_lag_records_max",
                "Committed records that a replica here lacks which follows, at most.",
                &replication.follower_lag_records_max,
            ),
            (
                "vltava_leader_lag_records_max",
                "Records that a follower of a partition led here lacks, at most.",
                &replication.leader_lag_records_max,
            ),
            (
                "vltava_controller_active",
                "Whether this node's controller is the active one.",
                &replication.controller_active,
            ),
        ] {
            page.gauge(name, help, gauge.get())?;
        }
        Ok(())
    }

    fn encode_watched(&self, page: &mut Page<'_>) -> fmt::Result {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        for family in watched.chunk_by(|a, b| a.name == b.name) {
            let first = &family[0];
            let rows = family.iter().map(Watched::row);
            match (first.kind, first.labels.is_empty()) {
                (WatchKind::Counter, true) => page.counter(first.name, first.help, (first.read)())?,
                (WatchKind::Counter, false) => page.counters(first.name, first.help, rows)?,
                (WatchKind::Milliseconds, _) => {
                    let rows = rows.map(|(labels, ms)| (labels, Duration::from_millis(ms).as_secs_f64()));
                    page.counters_seconds(first.name, first.help, rows)?;
                }
                (WatchKind::Gauge, true) => page.gauge(first.name, first.help, (first.read)())?,
                (WatchKind::Gauge, false) => page.gauges(first.name, first.help, rows)?,
            }
        }
        Ok(())
    }

    fn encode_process(&self, page: &mut Page<'_>) -> fmt::Result {
        let process = Process::read();
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Resident memory size in bytes.", process.resident_bytes),
            ("process_open_fds", "Number of open file descriptors.", process.descriptors),
            ("process_max_fds", "Maximum number of open file descriptors.", process.descriptors_max),
            ("process_threads", "Number of threads.", process.threads),
        ] {
            if let Some(value) = value {
                page.gauge(name, help, value)?;
            }
        }
        if let Some(cpu) = process.cpu {
            page.counter_seconds("process_cpu_seconds", "CPU time in seconds.", cpu.as_secs_f64())?;
        }
        let epoch = self.started_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        page.gauge("process_start_time_seconds", "Start time since the epoch in seconds.", epoch.as_secs())?;
        page.gauge("vltava_uptime_seconds", "Seconds since the start.", self.started.elapsed().as_secs())?;
        page.gauges(
            "vltava_build",
            "Always 1; the labels say which program this is.",
            [([("version", self.build.version)], 1)],
        )
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Metrics").field("build", &self.build).finish_non_exhaustive()
    }
}

impl Watched {
    fn row(&self) -> (Vec<(&str, &str)>, u64) {
        (self.labels.iter().map(|(key, value)| (*key, value.as_str())).collect(), (self.read)())
    }
}

#[cfg(test)]
mod tests;
