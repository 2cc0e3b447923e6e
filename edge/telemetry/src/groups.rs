//! Numbers about groups that this broker coordinates.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::exposition::Page;
use crate::meters::{Counter, Histogram};

/// See the module.
#[derive(Debug, Default)]
pub struct GroupMetrics {
    /// Rebalances that began, by their cause.
    rebalances: [Counter; GroupMetrics::CAUSES.len()],
    /// How long members stood still while their group rebalanced, once for each rebalance.
    rebalancing: Histogram,
    /// The same of all members together, in milliseconds.
    members_still_ms: Counter,
    /// How long members of groups of the new protocol took to have what they should have, once for each of them
    /// whose assignment changed.
    reconciling: Histogram,
    /// Members that were not heard, or did not come back in time.
    pub members_expelled: Counter,
    /// Offsets committed.
    pub offsets_committed: Counter,
    /// Offsets forgotten because nobody needed them for long.
    pub offsets_expired: Counter,
    /// Offsets deleted by request, with their group or with their topic.
    pub offsets_deleted: Counter,
    census: Watch,
}

/// What groups there are on this broker, and how far behind they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupCensus {
    /// How many there are, by type and state.
    pub groups: BTreeMap<(&'static str, &'static str), u64>,
    /// Offsets that are kept of them.
    pub offsets: u64,
    /// Lags of groups in topics; no group has two of one topic.
    pub lags: Vec<GroupLag>,
    /// Of how many topics of groups the lag is known, and is not among [`GroupCensus::lags`].
    pub lags_left_out: u64,
    /// Of how many topics of groups the lag is not known here.
    pub lags_unknown: u64,
}

/// How far behind a group is in a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupLag {
    /// The group.
    pub group: Arc<str>,
    /// The topic.
    pub topic: String,
    /// Records that are to be read, of all partitions of which it has committed something.
    pub records: u64,
}

/// Who knows what groups there are.
#[derive(Default)]
struct Watch(OnceLock<Box<dyn Fn() -> Arc<GroupCensus> + Send + Sync>>);

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl GroupMetrics {
    /// What makes a group rebalance.
    pub const CAUSES: [&str; 8] = [
        "member_joined",
        "member_changed",
        "leader_rejoined",
        "member_left",
        "session_expired",
        "sync_missed",
        "write_failed",
        "topics_changed",
    ];

    /// A rebalance began, with one of [`GroupMetrics::CAUSES`].
    pub fn rebalance_began(&self, cause: &str) {
        let at = Self::CAUSES.iter().position(|known| *known == cause);
        at.into_iter().for_each(|at| self.rebalances[at].inc());
    }

    /// A rebalance ended for so many members, who stood still for so long at most.
    pub fn rebalanced(&self, members: usize, took: Duration) {
        self.rebalancing.observe(took);
        let (members, ms) =
            (members.try_into().unwrap_or(u64::MAX), took.as_millis().try_into().unwrap_or(u64::MAX));
        self.members_still_ms.add(members.saturating_mul(ms));
    }

    /// A member of a group of the new protocol has what it should have, so long after that was decided.
    pub fn reconciled(&self, took: Duration) {
        self.reconciling.observe(took);
    }

    /// Shows what groups there are. `read` must not wait for long; who is first stays.
    pub fn watch(&self, read: impl Fn() -> Arc<GroupCensus> + Send + Sync + 'static) {
        // There is one node in a process, and in a test none that is looked at twice.
        let _ = self.census.0.set(Box::new(read));
    }

    pub(crate) fn encode(&self, page: &mut Page<'_>) -> fmt::Result {
        let rows = Self::CAUSES.iter().zip(&self.rebalances);
        page.counters(
            "vltava_group_rebalances",
            "Rebalances that began in groups coordinated here, by cause.",
            rows.map(|(cause, counter)| ([("cause", *cause)], counter.get())),
        )?;
        page.histogram(
            "vltava_group_rebalance_seconds",
            "How long members of classic groups stood still while their group rebalanced.",
            &self.rebalancing,
        )?;
        page.histogram(
            "vltava_group_reconcile_seconds",
            "How long members of consumer groups took from a new assignment until they had all of it and nothing else.",
            &self.reconciling,
        )?;
        page.counter_seconds(
            "vltava_group_members_still_seconds",
            "How long members stood still in rebalances, all of them together.",
            self.members_still_ms.get() as f64 / 1e3,
        )?;
        for (name, help, counter) in [
            (
                "vltava_group_members_expelled",
                "Members of groups that were not heard, or did not come back in time.",
                &self.members_expelled,
            ),
            ("vltava_group_offsets_committed", "Offsets committed.", &self.offsets_committed),
            (
                "vltava_group_offsets_expired",
                "Committed offsets forgotten because nobody needed them for long.",
                &self.offsets_expired,
            ),
            (
                "vltava_group_offsets_deleted",
                "Committed offsets deleted by request, with their group or with their topic.",
                &self.offsets_deleted,
            ),
        ] {
            page.counter(name, help, counter.get())?;
        }
        self.encode_census(page)
    }

    fn encode_census(&self, page: &mut Page<'_>) -> fmt::Result {
        let Some(read) = self.census.0.get() else { return Ok(()) };
        let census = read();
        page.gauges(
            "vltava_groups",
            "Groups coordinated here, by the type of their protocol and their state.",
            census.groups.iter().map(|((kind, state), count)| ([("type", *kind), ("state", *state)], *count)),
        )?;
        page.gauge("vltava_group_offsets", "Committed offsets of groups coordinated here.", census.offsets)?;
        page.gauges(
            "vltava_group_lag_records",
            "Records that a group coordinated here has still to read of a topic; the highest lags, if there are many.",
            census.lags.iter().map(|it| ([("group", &*it.group), ("topic", &*it.topic)], it.records)),
        )?;
        page.gauge(
            "vltava_group_lags_left_out",
            "Lags of groups in topics that are not shown, for there are too many.",
            census.lags_left_out,
        )?;
        page.gauge(
            "vltava_group_lags_unknown",
            "Lags of groups in topics that are not known here, for partitions have no replica on this broker.",
            census.lags_unknown,
        )
    }
}
