//! What a run says of itself: a table for people, `report.json` for programs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::checker::{Counts, GroupCounts, Verdict};
use crate::cluster::Healed;
use crate::gaps::Times;
use crate::machine::Busy;
use crate::watch::Most;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Everything is as it was expected.
    Passed,
    /// Something is not.
    Failed,
    /// Nothing was proved: what was to be lost was not.
    Invalid,
}

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Done {
    /// Milliseconds from the beginning of the run.
    pub at_ms: u64,
    /// What.
    pub what: String,
}

/// Anomalies of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Anomalies {
    /// How many.
    pub count: u64,
    /// The first of them, in words.
    pub first: Vec<String>,
}

/// How many of a kind are told in words.
const SHOWN: usize = 5;

/// What groups did, in a run that has some.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Groups {
    /// From the end of all faults until each group had read something of each partition; `None` if it never
    /// did in the time it had.
    pub settled_ms: Option<u64>,
    /// From the last record until each group had committed everything; `None` as before.
    pub drained_ms: Option<u64>,
    /// Without a commit, by what was done to their coordinators and members.
    pub silences: BTreeMap<&'static str, Times>,
}

/// A run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Which.
    pub scenario: String,
    /// Whose brokers.
    pub system: &'static str,
    /// How many.
    pub nodes: i32,
    /// When they flush.
    pub flush: &'static str,
    /// The seed of the plan.
    pub seed: u64,
    /// How long it took.
    pub seconds: f64,
    /// How it ended.
    pub outcome: Outcome,
    /// What was done.
    pub done: Vec<Done>,
    /// What was counted.
    pub counts: Counts,
    /// What must not be, by kind.
    pub anomalies: BTreeMap<&'static str, Anomalies>,
    /// What else is wrong.
    pub findings: Vec<String>,
    /// What is worth knowing.
    pub notes: Vec<String>,
    /// From the last acknowledgement of an old leader to the first of the new one, by what was done.
    pub failovers: BTreeMap<&'static str, Times>,
    /// Its groups.
    pub groups: Option<Groups>,
    /// How long the cluster took to be whole at the end.
    pub healed: Option<Healed>,
    /// The most that each broker took.
    pub most: Vec<Most>,
    /// How busy the machine was.
    pub busy: Busy,
}

impl Report {
    /// Takes over what the checker says.
    pub fn take(&mut self, verdict: &Verdict) {
        self.counts = verdict.counts.clone();
        let of = |kind: &crate::checker::Kind| Anomalies {
            count: kind.count,
            first: kind.first.iter().map(ToString::to_string).collect(),
        };
        self.anomalies = verdict.found.kinds().map(|(name, kind)| (name, of(kind))).collect();
    }

    /// Writes it for programs.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let outcome = match self.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::Invalid => "INVALID: it proves nothing",
        };
        // Writing into a string cannot fail.
        let _ = self.write_table(&mut text, outcome);
        text
    }

    fn write_table(&self, text: &mut String, outcome: &str) -> std::fmt::Result {
        let Self { scenario, system, nodes, flush, seed, seconds, .. } = self;
        writeln!(
            text,
            "torture {scenario} · {nodes} × {system} · flush {flush} · seed {seed} · {seconds:.0} s"
        )?;
        for Done { at_ms, what } in &self.done {
            writeln!(text, "  {:>8.1} s  {what}", *at_ms as f64 / 1000.0)?;
        }
        let Counts { sent, acknowledged, unknown, unknown_found, failed, resent, polled, logged, .. } =
            self.counts;
        writeln!(text, "\n  sent        {sent:>10}   acknowledged {acknowledged:>10}   failed {failed:>8}")?;
        writeln!(
            text,
            "  not known   {unknown:>10}   of those found {unknown_found:>8}   resent {resent:>8}"
        )?;
        writeln!(text, "  in the logs {logged:>10}   read {polled:>18}")?;
        write_times(text, "without an acknowledgement", &self.failovers)?;
        if let Some(groups) = &self.groups {
            write_groups(text, groups, &self.counts.groups)?;
        }
        if let Some(Healed { led_ms, in_sync_ms }) = self.healed {
            writeln!(text, "\n  healed: led after {led_ms} ms, in sync after {in_sync_ms} ms")?;
        }
        for Most { node, resident_bytes, descriptors } in &self.most {
            writeln!(text, "  b{node}: at most {} MiB, {descriptors} descriptors", resident_bytes >> 20)?;
        }
        let Busy { cpu_percent, disk_percent, late_ms_max } = self.busy;
        writeln!(
            text,
            "  the machine: {cpu_percent:.0} % of the time somebody waited for a processor, {disk_percent:.0} % \
             for a disk; woken {late_ms_max} ms late at most"
        )?;
        for note in &self.notes {
            writeln!(text, "  note: {note}")?;
        }
        // A loss that was to be is told in numbers alone.
        let shown = if self.outcome == Outcome::Passed { 0 } else { SHOWN };
        for (kind, Anomalies { count, first }) in &self.anomalies {
            writeln!(text, "  {kind}: {count}")?;
            for one in first.iter().take(shown) {
                writeln!(text, "    {one}")?;
            }
        }
        for finding in &self.findings {
            writeln!(text, "\n  wrong: {finding}")?;
        }
        writeln!(text, "\n{outcome}")
    }
}

fn write_times(text: &mut String, of: &str, times: &BTreeMap<&'static str, Times>) -> std::fmt::Result {
    if times.is_empty() {
        return Ok(());
    }
    writeln!(text, "\n  {of:<42}  count  p50 ms  p99 ms  max ms  never")?;
    for (kind, Times { count, never, p50_ms, p99_ms, max_ms }) in times {
        writeln!(text, "  {kind:<42} {count:>6} {p50_ms:>7} {p99_ms:>7} {max_ms:>7} {never:>6}")?;
    }
    Ok(())
}

fn write_groups(text: &mut String, groups: &Groups, counts: &GroupCounts) -> std::fmt::Result {
    let GroupCounts { members, killed, assigned, revoked, lost, commits, uncommitted, .. } = counts;
    writeln!(text, "\n  members     {members:>10}   killed       {killed:>10}   assigned {assigned:>6}")?;
    writeln!(text, "  commits     {commits:>10}   unanswered   {uncommitted:>10}   revoked  {revoked:>6}")?;
    let GroupCounts { told, out_of_touch, out_of_touch_ms_max, .. } = counts;
    writeln!(text, "  asked       {told:>10}   out of touch {out_of_touch:>10}   lost     {lost:>6}")?;
    if *out_of_touch > 0 {
        writeln!(text, "  the longest of those out of touch: {out_of_touch_ms_max} ms")?;
    }
    let GroupCounts { stopped, cut_off, fenced, stood_still, stood_still_ms_max, .. } = counts;
    writeln!(text, "  stopped     {stopped:>10}   cut off      {cut_off:>10}   fenced   {fenced:>6}")?;
    if *stood_still > 0 {
        writeln!(
            text,
            "  the machine let members wait {stood_still} times, {stood_still_ms_max} ms at most"
        )?;
    }
    write_times(text, "a group without a commit", &groups.silences)?;
    let said = |ms: Option<u64>| ms.map_or_else(|| "never".to_owned(), |ms| format!("after {ms} ms"));
    let Groups { settled_ms, drained_ms, .. } = groups;
    let (settled, drained) = (said(*settled_ms), said(*drained_ms));
    writeln!(text, "\n  groups: all partitions read again {settled}, all committed {drained}")
}
