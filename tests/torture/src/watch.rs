//! What the brokers take while they are tortured: memory and descriptors, looked at every half second; and how
//! late who looks is woken.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Result;
use e2e::process;
use serde::Serialize;

use crate::stop::Stop;

const EVERY: Duration = Duration::from_millis(500);

/// The most that a broker took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Most {
    /// Its number.
    pub node: i32,
    /// Resident memory, bytes.
    pub resident_bytes: u64,
    /// Descriptors of files and sockets.
    pub descriptors: usize,
}

/// Who looks.
#[derive(Debug)]
pub struct Watch {
    most: Arc<Mutex<Vec<Most>>>,
    late_ms_max: Arc<AtomicU64>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Of these processes; 0 is none.
    pub fn begin(of: Vec<(i32, Arc<AtomicU32>)>) -> Result<Self> {
        let none: Vec<_> = of.iter().map(|(node, _)| Most { node: *node, ..Most::default() }).collect();
        let (most, stop) = (Arc::new(Mutex::new(none)), Stop::default());
        let (shared, told) = (Arc::clone(&most), stop.clone());
        let late_ms_max = Arc::<AtomicU64>::default();
        let late = Arc::clone(&late_ms_max);
        let look = move || {
            loop {
                let before = Instant::now();
                if told.wait(EVERY) {
                    return;
                }
                let ms = before.elapsed().saturating_sub(EVERY).as_millis() as u64;
                late.fetch_max(ms, Ordering::Relaxed);
                let mut most = shared.lock().unwrap_or_else(PoisonError::into_inner);
                for (most, (_, pid)) in most.iter_mut().zip(&of) {
                    look_at(pid.load(Ordering::Relaxed), most);
                }
            }
        };
        let thread = Some(thread::Builder::new().name("watch".to_owned()).spawn(look)?);
        Ok(Self { most, late_ms_max, stop, thread })
    }

    /// The most that it was woken too late, milliseconds.
    pub fn late_ms_max(&self) -> u64 {
        self.late_ms_max.load(Ordering::Relaxed)
    }

    /// What each took.
    pub fn most(&self) -> Vec<Most> {
        self.most.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn look_at(pid: u32, most: &mut Most) {
    if pid == 0 {
        return;
    }
    // It may be killed meanwhile.
    if let Ok(taken) = process::taken(pid) {
        most.resident_bytes = most.resident_bytes.max(taken.resident);
        most.descriptors = most.descriptors.max(taken.files + taken.sockets);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}
