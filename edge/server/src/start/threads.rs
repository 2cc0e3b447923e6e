//! The threads of a node, and what each of them is made of.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use broker::lifecycle::{Lifecycle, LifecycleTimes};
use controller::{Controller, ControllerSettings, RegisterBroker};
use metadata::settings::BrokerSettings;
use net::{IoThreads, StopSwitch};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::cluster::links::Links;
use crate::cluster::seat::{Seat, SeatProposer};
use crate::control::{Control, ControlThread, Inbox, State};
use crate::coordinators::{self, ShardCell};
use crate::directories::Directories;
use crate::error::ServerError;
use crate::followers::{Followers, Lanes};
use crate::hosting::Hosting;
use crate::hosting_thread::HostingThread;
use crate::housekeeping::{CompactionLimits, Housekeeping};
use crate::in_sync::{InSync, InSyncs};
use crate::log_dir::{DiskReserve, HUNG_AFTER};
use crate::node::Node;
use crate::stop::{Background, ControlHandle, Started};

/// What the threads that decide and do are made of.
pub(crate) struct Beginning {
    pub(crate) hosting: Hosting,
    pub(crate) directories: Directories,
    pub(crate) registration: RegisterBroker,
    pub(crate) followers: Arc<Followers>,
    pub(crate) links: Arc<Links>,
    pub(crate) control: Control,
    pub(crate) inbox: Inbox,
    /// Shards of the group coordinator whose logs are to be read.
    pub(crate) to_load: mpsc::Receiver<Arc<ShardCell>>,
}

/// What runs already.
pub(crate) struct Running {
    pub(crate) node: Arc<Node>,
    pub(crate) seat: Arc<Seat>,
    /// The listener for nodes.
    pub(crate) listener: Option<(StopSwitch, tokio::task::JoinHandle<()>)>,
    pub(crate) threads: NodeThreads,
}

/// The runtimes of a node beside the one it was started on.
pub(crate) struct NodeThreads {
    /// Connections of clients, and of followers.
    pub(crate) io: Arc<IoThreads>,
    /// Replicas of this node that follow: the first thread is for those that keep up, the other for the rest.
    pub(crate) followers: Arc<IoThreads>,
    /// The quorum, and what is said to other nodes beside records: data must not keep it waiting.
    pub(crate) cluster: Background,
    /// What groups do when it is time, which may wait for a disk.
    pub(crate) group_timer: Background,
}

pub(crate) fn node_threads(settings: &BrokerSettings) -> Result<NodeThreads, ServerError> {
    let threads = settings.io_threads.unwrap_or_else(IoThreads::count_default);
    let of_one_thread = |name: &str| {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name(name).enable_all().build();
        runtime.map(Background::new)
    };
    let (cluster, group_timer) = (of_one_thread("cluster")?, of_one_thread("group-timer")?);
    let followers = Arc::new(IoThreads::start(2)?);
    followers.spawn_on(1, async {
        // Where the system does not let us it costs the others time, nothing else.
        let _ = rustix::process::nice(CATCHING_UP_NICE);
    });
    Ok(NodeThreads { io: Arc::new(IoThreads::start(threads)?), followers, cluster, group_timer })
}

/// How much less of a scarce core those who catch up get than everybody else: a third of their share.
const CATCHING_UP_NICE: i32 = 5;

impl NodeThreads {
    pub(crate) fn lanes(&self) -> Lanes {
        let [keeping_up, catching_up] = [0, 1].map(|thread| self.followers.handle(thread).clone());
        Lanes { keeping_up, catching_up }
    }
}

/// Starts what decides and what does.
pub(crate) fn start_threads(
    beginning: Beginning,
    running: Running,
    descriptors: u64,
) -> Result<Started, ServerError> {
    let Beginning { hosting, directories, registration, followers, links, control, inbox, to_load } =
        beginning;
    let Running { node, seat, listener, threads } = running;
    let (steps, told) = mpsc::channel();
    let (on_serving, serving) = oneshot::channel();
    let (on_may_stop, may_stop) = oneshot::channel();
    let vital = Arc::new(StopSwitch::new());
    let (housekeeping, housekeeping_stop) = keep_house(&node, &hosting, descriptors, &vital)?;
    let settings = &node.settings;
    let (in_sync, in_sync_threads) = keep_in_sync(&node, &hosting, &vital)?;
    let incarnation = registration.incarnation;
    let thread = ControlThread {
        node: settings.node_id,
        controller: Controller::new(ControllerSettings {
            cluster_id: Some(node.cluster_id.clone()),
            ..ControllerSettings::from(settings)
        }),
        quorum: Box::new(SeatProposer(Arc::clone(&seat))),
        seat: Arc::clone(&seat),
        lifecycle: settings.roles.broker.then(|| Lifecycle::new(registration, times(settings))),
        hosting: steps.clone(),
        links,
        cluster: threads.cluster.handle().clone(),
        control: control.clone(),
        outbox: Arc::clone(&hosting.outbox),
        table: Arc::clone(&hosting.table),
        dirs: hosting.dirs.clone(),
        in_sync,
        metrics: Arc::clone(&node.metrics),
        clock: hosting.clock,
        on_serving: Some(on_serving),
        on_may_stop: Some(on_may_stop),
        state: State::default(),
    };
    threads.group_timer.handle().spawn(hosting.coordinators.keep_time());
    let host = HostingThread::new(hosting, control, followers, directories, incarnation);
    let ended = vital.watch();
    let control = vital_thread("control", &vital, move || thread.run(inbox))?;
    let hosting = vital_thread("hosting", &vital, move || host.run(&told))?;
    vital_thread("group-load", &vital, move || coordinators::run_loads(&to_load))?;
    Ok(Started {
        io: threads.io,
        followers: threads.followers,
        cluster: threads.cluster,
        group_timer: threads.group_timer,
        listener,
        housekeeping,
        control: ControlHandle { control, hosting, in_sync: in_sync_threads, steps, ended },
        housekeeping_stop,
        seat,
        serving,
        may_stop: Some(may_stop),
        node,
    })
}

fn times(settings: &BrokerSettings) -> LifecycleTimes {
    LifecycleTimes {
        heartbeat_every: settings.broker_heartbeat_interval,
        retry_after: RETRY_AFTER,
        stop_max: STOP_MAX,
        stuck_after: HUNG_AFTER,
        // By then no controller counts on this broker any more.
        unanswered_max: settings.broker_session_timeout,
    }
}

/// Threads that keep house, and what ends them.
type HouseKeepers = (Vec<JoinHandle<()>>, Vec<mpsc::Sender<()>>);

fn keep_house(
    node: &Node,
    hosting: &Hosting,
    descriptors: u64,
    vital: &Arc<StopSwitch>,
) -> Result<HouseKeepers, ServerError> {
    let (mut threads, mut stops) = (Vec::new(), Vec::new());
    for dir in &hosting.dirs {
        let work = Housekeeping {
            table: Arc::clone(&hosting.table),
            dir: Arc::clone(dir),
            image: Arc::clone(&hosting.image),
            retention_every: node.settings.retention_check_interval,
            checkpoint_every: node.settings.checkpoint_interval,
            open_logs_max: open_logs_max(descriptors),
            reserve: DiskReserve(node.settings.disk_reserve_bytes),
            compaction: compaction_limits(&node.settings, hosting.dirs.len()),
            clock: hosting.clock,
        };
        for (name, run) in Housekeeping::THREADS {
            let (stop, stopped) = mpsc::channel();
            let work = work.clone();
            stops.push(stop);
            threads.push(vital_thread(name, vital, move || run(work, &stopped))?);
        }
    }
    Ok((threads, stops))
}

/// Starts the threads that look after in-sync sets; the ways to them, by directory. They end with the control thread.
fn keep_in_sync(
    node: &Node,
    hosting: &Hosting,
    vital: &Arc<StopSwitch>,
) -> Result<(InSyncs, Vec<JoinHandle<()>>), ServerError> {
    let (mut ways, mut threads) = (InSyncs::default(), Vec::new());
    for dir in &hosting.dirs {
        let (way, answers) = mpsc::channel();
        let work = InSync {
            table: Arc::clone(&hosting.table),
            dir: Arc::clone(dir),
            lag_max: node.settings.replica_lag_max,
            clock: hosting.clock,
        };
        threads.push(vital_thread("in-sync", vital, move || work.run(&answers))?);
        ways.insert(dir.id, way);
    }
    Ok((ways, threads))
}

/// Each directory has its part of the memory: a disk that hangs keeps none from the others.
fn compaction_limits(settings: &BrokerSettings, dirs: usize) -> CompactionLimits {
    CompactionLimits {
        map_bytes_max: settings.compaction_map_bytes / dirs.max(1),
        backoff: settings.compaction_backoff,
        bytes_per_second_max: settings.compaction_bytes_per_second_max,
    }
}

/// How long after a command of its life that got nowhere a broker gives it again.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// How long a stop waits for others to take over what this node leads.
const STOP_MAX: Duration = Duration::from_secs(30);

/// A thread without which the node cannot go on: when it ends, for whatever reason, the node stops.
fn vital_thread<T: Send + 'static>(
    name: &str,
    vital: &Arc<StopSwitch>,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    struct Rings(Arc<StopSwitch>);
    impl Drop for Rings {
        fn drop(&mut self) {
            self.0.stop();
        }
    }
    let rings = Rings(Arc::clone(vital));
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _rings_when_dropped = rings;
        work()
    })
}

/// How many logs may keep their files open, given how many descriptors the process may have: half of
/// them are for logs. A log that is written to has four, and as many for each of two segments that are read.
fn open_logs_max(descriptors: u64) -> usize {
    usize::try_from(descriptors / 24).unwrap_or(usize::MAX)
}
