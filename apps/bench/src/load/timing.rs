//! When the parts of a run begin and end.

use std::time::Duration;

use super::tag;
use crate::workload::Workload;

/// When things are to happen, by the clock of the clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    pub(super) started: Duration,
    pub(super) steady_from: Duration,
    /// Until when records are due; `None` if they are counted.
    pub(super) until: Option<Duration>,
    /// How many are due in the steady state.
    pub(super) records: Option<u64>,
}

impl Timing {
    /// Of a run that starts then.
    pub(super) fn of(workload: &Workload, started: Duration) -> Self {
        let Workload { warmup_seconds, seconds, records, .. } = *workload;
        let steady_from = tag::exact(started + Duration::from_secs_f64(warmup_seconds));
        let until = records.is_none().then(|| steady_from + Duration::from_secs_f64(seconds));
        Self { started, steady_from, until, records }
    }
}

/// From when on a run counts that begins then.
pub(crate) fn steady_from(workload: &Workload, began: Duration) -> Duration {
    Timing::of(workload, began).steady_from
}
