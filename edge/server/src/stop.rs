//! How a node ends in good order: nobody is served, everything is on the disk, and it is written
//! down that it is.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use net::IoThreads;
use tokio::signal::unix::{SignalKind, signal as listen};
use tracing::{error, info};

use crate::control::{ControlFailed, ControlThread};
use crate::error::ServerError;
use crate::housekeeping::write_checkpoints;
use crate::log_dir::LogDirectory;
use crate::node::Node;
use crate::threads::on_threads;

/// The parts of a running node, for those who stop it.
pub(crate) struct Started {
    pub(crate) node: Arc<Node>,
    pub(crate) io: Arc<IoThreads>,
    pub(crate) control: ControlHandle,
    pub(crate) housekeeping: Vec<JoinHandle<()>>,
    /// Dropping them ends the house-keeping threads.
    pub(crate) housekeeping_stop: Vec<mpsc::Sender<()>>,
}

/// The control thread, and a bell that rings when it or a house-keeping thread ends.
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
    let housekept = housekeeping.into_iter().map(JoinHandle::join).filter(Result::is_err).count() == 0;
    node.control.stop();
    let control = match control.thread.join() {
        Ok(ended) => ended?,
        Err(_) => return Err(ServerError::Control("the control thread failed".to_owned())),
    };
    drop(io);
    on_threads(CLOSING_THREADS, &node.partitions.all(), |cell| cell.close());
    let closed = control.quorum.close();
    if let Err(why) = &closed {
        error!(%why, "the metadata log could not be closed: the next start reads more of it");
    }
    let epoch = node.image.load().broker(node.settings.node_id).map_or(-1, |broker| broker.epoch.0);
    for dir in &node.dirs {
        let saved = write_checkpoints(&node.partitions, dir);
        if housekept && closed.is_ok() && saved && is_clean(&node, dir) {
            dir.mark(|marks| marks.mark_clean(epoch));
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
