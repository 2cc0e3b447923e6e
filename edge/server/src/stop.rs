//! How a node ends in good order: nobody is served, everything is on the disk, and it is written
//! down that it is.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use net::IoThreads;
use tokio::signal::unix::{SignalKind, signal as listen};
use tracing::info;

use crate::control::{ControlFailed, ControlThread};
use crate::error::ServerError;
use crate::housekeeping::write_checkpoints;
use crate::node::Node;
use crate::threads::on_threads;

/// The parts of a running node, for those who stop it.
pub(crate) struct Started {
    pub(crate) node: Arc<Node>,
    pub(crate) io: Arc<IoThreads>,
    pub(crate) control: ControlHandle,
    pub(crate) housekeeping: JoinHandle<()>,
    pub(crate) housekeeping_stop: mpsc::Sender<()>,
}

/// The control thread, and a bell that rings when it ends.
pub(crate) struct ControlHandle {
    pub(crate) thread: JoinHandle<Result<ControlThread, ControlFailed>>,
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

/// Ends what still runs. Connections have ended before.
pub(crate) fn in_order(started: Started) -> Result<(), ServerError> {
    let Started { node, io, control, housekeeping, housekeeping_stop } = started;
    drop(housekeeping_stop);
    // A panic was reported by the panic hook; then the next start recovers.
    let housekept = housekeeping.join().is_ok();
    node.control.stop();
    let control = match control.thread.join() {
        Ok(ended) => ended?,
        Err(_) => return Err(ServerError::Control("the control thread failed".to_owned())),
    };
    drop(io);
    close_logs(&node);
    let closed = control.quorum.close().is_ok();
    write_checkpoints(&node.partitions, &node.dirs);
    let epoch = node.image.load().broker(node.settings.node_id).map_or(-1, |broker| broker.epoch.0);
    if housekept && closed {
        for dir in node.dirs.iter().filter(|dir| !dir.is_retired()) {
            dir.mark(|marks| marks.mark_clean(epoch));
        }
        info!("stopped in good order");
    }
    Ok(())
}

fn close_logs(node: &Node) {
    let cells = node.partitions.all();
    on_threads(CLOSING_THREADS, &cells, |cell| {
        if cell.dir.is_retired() {
            return;
        }
        if let Err(why) = cell.with(|partition| partition.log_mut().close()) {
            cell.dir.retire(&why);
        }
    });
}

/// Threads that close logs: each waits for the disk most of the time, and their waits are shared.
const CLOSING_THREADS: usize = 16;
