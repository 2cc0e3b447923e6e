//! What a run says of itself: a table for people, `report.json` for programs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::checker::{Counts, Verdict};
use crate::cluster::Healed;
use crate::gaps::Times;
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
    /// How long the cluster took to be whole at the end.
    pub healed: Option<Healed>,
    /// The most that each broker took.
    pub most: Vec<Most>,
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
        let Counts { sent, acknowledged, unknown, unknown_found, failed, resent, polled, logged } =
            self.counts;
        writeln!(text, "\n  sent        {sent:>10}   acknowledged {acknowledged:>10}   failed {failed:>8}")?;
        writeln!(
            text,
            "  not known   {unknown:>10}   of those found {unknown_found:>8}   resent {resent:>8}"
        )?;
        writeln!(text, "  in the logs {logged:>10}   read {polled:>18}")?;
        if !self.failovers.is_empty() {
            writeln!(
                text,
                "\n  without an acknowledgement                  count  p50 ms  p99 ms  max ms  never"
            )?;
            for (kind, times) in &self.failovers {
                let Times { count, never, p50_ms, p99_ms, max_ms } = times;
                writeln!(text, "  {kind:<42} {count:>6} {p50_ms:>7} {p99_ms:>7} {max_ms:>7} {never:>6}")?;
            }
        }
        if let Some(Healed { led_ms, in_sync_ms }) = self.healed {
            writeln!(text, "\n  healed: led after {led_ms} ms, in sync after {in_sync_ms} ms")?;
        }
        for Most { node, resident_bytes, descriptors } in &self.most {
            writeln!(text, "  b{node}: at most {} MiB, {descriptors} descriptors", resident_bytes >> 20)?;
        }
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
