//! Waiting for something to happen.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Between two looks at what gives no sign of its own.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Looks until there is something, and fails if there is nothing by then.
pub fn until<T>(what: &str, time_max: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + time_max;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            bail!("waited {time_max:?} in vain: {what}");
        }
        thread::sleep(LOOK_AGAIN);
    }
}
