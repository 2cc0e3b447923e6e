//! How long the search for a planted bug may take.

use std::time::Duration;

/// How long a processor may look for each of them: a minute. Code that is not optimised, which takes ten times as
/// long, is given three.
const PROCESSOR_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 180 } else { 60 });

/// How long this thread has had a processor, so that what else the machine does does not count; `None` where the
/// system does not say.
fn on_processor() -> Option<Duration> {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    said.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Looks for a bug, and says how long it took.
pub(crate) fn looked_for<T>(what: &str, look: impl FnOnce() -> T) -> (T, Duration) {
    let began = on_processor();
    let found = look();
    let took = on_processor().zip(began).map(|(now, began)| now - began).unwrap_or_default();
    assert!(took < PROCESSOR_MAX, "{what} is found after {took:?}");
    (found, took)
}
