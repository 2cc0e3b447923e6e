//! What SIGINT and SIGTERM do to a command that has something to finish.

use std::io;
use std::process;
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

/// How a process ends that was interrupted: 128 and the number of SIGINT, as shells have it.
pub(crate) const EXIT_CODE: i32 = 130;

/// Calls this at the first signal, on a thread of its own; the second ends the process.
pub(crate) fn on_first(finish: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Before the first record, or a signal might come in between.
    let (mut interrupt, mut terminate) = {
        let _guard = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let wait = move || {
        let mut finish = Some(finish);
        loop {
            runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            });
            match finish.take() {
                Some(finish) => drop(thread::spawn(finish)),
                None => process::exit(EXIT_CODE),
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop)
}
