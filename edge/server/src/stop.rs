//! How a node ends in good order: nobody is served, everything is on the disk, and it is written
//! down that it is.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use net::{IoThreads, StopSwitch};
use tokio::runtime::{Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal as listen};
use tokio::sync::oneshot;
use tracing::info;

use crate::cluster::seat::Seat;
use crate::control::{ControlFailed, News, Step};
use crate::error::ServerError;
use crate::hosting_thread::HostingThread;
use crate::housekeeping::write_checkpoints;
use crate::log_dir::LogDirectory;
use crate::node::Node;
use crate::threads::on_threads;

/// The parts of a running node, for those who stop it.
pub(crate) struct Started {
    pub(crate) node: Arc<Node>,
    pub(crate) io: Arc<IoThreads>,
    pub(crate) followers: Arc<IoThreads>,
    pub(crate) cluster: Background,
    pub(crate) group_timer: Background,
    /// The listener for nodes.
    pub(crate) listener: Option<(StopSwitch, tokio::task::JoinHandle<()>)>,
    pub(crate) control: ControlHandle,
    pub(crate) housekeeping: Vec<JoinHandle<()>>,
    /// Dropping them ends the house-keeping threads.
    pub(crate) housekeeping_stop: Vec<mpsc::Sender<()>>,
    pub(crate) seat: Arc<Seat>,
    /// Told once clients may come.
    pub(crate) serving: oneshot::Receiver<()>,
    /// Told once others lead what they can.
    pub(crate) may_stop: Option<oneshot::Receiver<()>>,
}

/// A runtime that may be dropped anywhere: what still runs on it ends by itself.
pub(crate) struct Background(Option<Runtime>, Handle);

impl Background {
    pub(crate) fn new(runtime: Runtime) -> Self {
        let handle = runtime.handle().clone();
        Self(Some(runtime), handle)
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.1
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// The threads that decide and do, and a bell that rings when one of them or a house-keeping thread ends.
pub(crate) struct ControlHandle {
    pub(crate) control: JoinHandle<Result<(), ControlFailed>>,
    pub(crate) hosting: JoinHandle<HostingThread>,
    /// They end with the control thread.
    pub(crate) in_sync: Vec<JoinHandle<()>>,
    pub(crate) steps: mpsc::Sender<Step>,
    pub(crate) ended: net::Stop,
}

/// Waits for SIGTERM or SIGINT.
pub(crate) async fn signal() -> std::io::Result<()> {
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => info!("stopping: SIGTERM"),
        _ = interrupt.recv() => info!("stopping: SIGINT"),
    }
    Ok(())
}

/// Has others take over what this node leads, if there are any.
pub(crate) async fn hand_over(started: &mut Started) {
    let image = started.node.image.load_full();
    let settings = &started.node.settings;
    let is_broker = settings.roles.broker && image.brokers_alive().any(|it| it.id != settings.node_id);
    if is_broker
        && let Some(may_stop) = started.may_stop.take()
        && !started.control.ended.is_stopped()
    {
        started.node.control.tell(News::ShutDown);
        let mut ended = started.control.ended.clone();
        tokio::select! {
            // Whatever ends it, it may stop.
            _ = may_stop => {}
            () = ended.stopped() => {}
        }
    }
    started.seat.hand_over().await;
}

/// Ends what still runs. Connections of clients have ended before.
pub(crate) async fn in_order(started: Started) -> Result<(), ServerError> {
    let Started {
        node,
        io,
        followers,
        cluster,
        group_timer,
        listener,
        control,
        housekeeping,
        housekeeping_stop,
        seat,
        ..
    } = started;
    if let Some((stop, task)) = listener {
        stop.stop();
        // A panic was reported by the panic hook.
        let _ = task.await;
    }
    let ended = tokio::task::spawn_blocking(move || {
        let ended = end(&node, control, housekeeping, housekeeping_stop, (io, followers));
        seat.close();
        drop((cluster, group_timer));
        ended
    });
    match ended.await {
        Ok(ended) => ended,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

fn end(
    node: &Node,
    control: ControlHandle,
    housekeeping: Vec<JoinHandle<()>>,
    housekeeping_stop: Vec<mpsc::Sender<()>>,
    (io, followers): (Arc<IoThreads>, Arc<IoThreads>),
) -> Result<(), ServerError> {
    drop(housekeeping_stop);
    // A panic was reported by the panic hook; then the next start recovers.
    let join = |threads: Vec<JoinHandle<()>>| {
        threads.into_iter().map(JoinHandle::join).filter(Result::is_err).count() == 0
    };
    let housekept = join(housekeeping);
    node.control.tell(News::Stop);
    let controlled = control.control.join();
    let housekept = join(control.in_sync) && housekept;
    // If it has ended by itself, there is nobody to tell.
    let _ = control.steps.send(Step::Stop);
    let Ok(hosted) = control.hosting.join() else {
        return Err(ServerError::Control("the hosting thread failed".to_owned()));
    };
    match controlled {
        Ok(ended) => ended?,
        Err(_) => return Err(ServerError::Control("the control thread failed".to_owned())),
    }
    drop((io, followers));
    on_threads(CLOSING_THREADS, &node.partitions.all(), |cell| cell.close());
    // What was never opened is as the last stop left it.
    let was_open = hosted.directories.is_none();
    for dir in node.dirs.iter().filter(|_| was_open) {
        let saved = write_checkpoints(&node.partitions, dir);
        if housekept && saved && is_clean(node, dir) {
            dir.mark(|marks| marks.mark_clean(hosted.epoch.0));
        }
    }
    if !housekept {
        return Err(ServerError::Control("a house-keeping thread failed".to_owned()));
    }
    info!("stopped in good order");
    Ok(())
}

/// Whether the next start may believe what lies in a directory. Of a log that could not be served
/// nobody knows: the next start looks at it again, whatever was done to it meanwhile.
fn is_clean(node: &Node, dir: &LogDirectory) -> bool {
    !dir.is_retired() && !node.partitions.is_any_offline_in(dir.id)
}

/// Threads that close logs: each waits for the disk most of the time, and their waits are shared.
const CLOSING_THREADS: usize = 16;
