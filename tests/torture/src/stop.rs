//! Waiting that ends early: when somebody presses Ctrl-C, or when there is nothing to wait for any more.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// Whether to stop, for all threads of a run. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<(Mutex<bool>, Condvar)>);

impl Stop {
    /// One that Ctrl-C and SIGTERM set.
    pub fn on_signals() -> Result<Self> {
        let stop = Self::default();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let told = stop.clone();
        let wait = async move {
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            eprintln!("torture: stopping, and taking down what was set up");
            told.set();
            Ok::<(), std::io::Error>(())
        };
        thread::Builder::new().name("signals".to_owned()).spawn(move || runtime.block_on(wait))?;
        Ok(stop)
    }

    /// From now on.
    pub fn set(&self) {
        let (is_set, told) = &*self.0;
        *is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        told.notify_all();
    }

    /// Whether it is.
    pub fn is_set(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits so long, or until it is set. Whether it is.
    pub fn wait(&self, time: Duration) -> bool {
        let (is_set, told) = &*self.0;
        let guard = is_set.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = told.wait_timeout_while(guard, time, |is_set| !*is_set);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Looks every now and then until something is so; `false` if it is not by then, or if it is to stop.
    pub fn until(&self, time_max: Duration, mut look: impl FnMut() -> bool) -> bool {
        const LOOK_AGAIN: Duration = Duration::from_millis(50);
        let deadline = Instant::now() + time_max;
        loop {
            if look() {
                return true;
            }
            if Instant::now() > deadline || self.wait(LOOK_AGAIN) {
                return false;
            }
        }
    }

    /// Fails if it is set.
    pub fn check(&self) -> Result<()> {
        (!self.is_set()).then_some(()).context("stopped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_woken() {
        let stop = Stop::default();
        assert!(!stop.wait(Duration::from_millis(1)));
        let waiting = {
            let stop = stop.clone();
            thread::spawn(move || stop.wait(Duration::from_secs(600)))
        };
        stop.set();
        assert!(waiting.join().unwrap());
        assert!(!stop.until(Duration::from_secs(600), || false));
        assert!(stop.check().is_err());
    }
}
