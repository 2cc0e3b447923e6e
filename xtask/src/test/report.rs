//! What ran, how long it took, and how it ended.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// How one step ended.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) time: Duration,
    /// What went wrong besides tests that failed, or did not run.
    pub(super) note: Option<String>,
    /// What its tests said when they failed, line by line.
    pub(super) why: Vec<String>,
}

impl Outcome {
    /// A check that counts as one test.
    pub(super) fn of_check(result: Result<()>, started: Instant) -> Self {
        let passed = usize::from(result.is_ok());
        Self { passed, ..Self::of_step(result, started) }
    }

    /// A step that is no test, but fails the run if it fails.
    pub(super) fn of_step(result: Result<()>, started: Instant) -> Self {
        let note = result.err().map(|error| format!("{error:#}"));
        let failed = usize::from(note.is_some());
        Self { passed: 0, failed, time: started.elapsed(), note, why: Vec::new() }
    }
}

/// The steps so far.
#[derive(Debug)]
pub(super) struct Report {
    started: Instant,
    steps: Vec<(String, Outcome)>,
}

impl Default for Report {
    fn default() -> Self {
        Self { started: Instant::now(), steps: Vec::new() }
    }
}

impl Report {
    /// Adds a step.
    pub(super) fn add(&mut self, title: impl Into<String>, outcome: Outcome) {
        self.steps.push((title.into(), outcome));
    }

    /// Adds all steps of another.
    pub(super) fn append(&mut self, other: Self) {
        self.steps.extend(other.steps);
    }

    /// What failed, if anything did: step by step, and of each what it noted.
    pub(super) fn verdict(&self) -> Result<()> {
        let failed = self.steps.iter().filter(|(_, outcome)| outcome.failed > 0);
        let named = failed.map(|(title, outcome)| match &outcome.note {
            Some(note) => format!("{title} ({note})"),
            None => title.clone(),
        });
        let named: Vec<String> = named.collect();
        ensure!(named.is_empty(), "not all is well: {}", named.join(", "));
        Ok(())
    }

    fn failed(&self) -> usize {
        self.steps.iter().map(|(_, outcome)| outcome.failed).sum()
    }

    fn passed(&self) -> usize {
        self.steps.iter().map(|(_, outcome)| outcome.passed).sum()
    }

    /// Prints the table, with what the tests that failed said, and, last and alone on its line, the sum.
    pub(super) fn print(&self) {
        println!("\n{}", self.table());
        println!("{} passed, {} failed", self.passed(), self.failed());
    }

    fn table(&self) -> String {
        let width = self.steps.iter().map(|(title, _)| title.chars().count()).max().unwrap_or(0).max(4);
        let mut table = format!("      {:width$}  passed  failed      time\n", "step");
        for (title, outcome) in &self.steps {
            let mark = if outcome.failed == 0 { "ok" } else { "FAIL" };
            let time = format!("{:.1} s", outcome.time.as_secs_f64());
            let line =
                format!("{mark:4}  {title:width$}  {:>6}  {:>6}  {time:>8}", outcome.passed, outcome.failed);
            table.push_str(&line);
            if let Some(note) = &outcome.note {
                table.push_str(&format!("  {note}"));
            }
            table.push('\n');
            outcome.why.iter().for_each(|line| table.push_str(&format!("        │ {line}\n")));
        }
        let time = self.started.elapsed().as_secs_f64();
        table.push_str(&format!("      {:width$}  {time:>24.1} s\n", "in all"));
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_failed() {
        let mut report = Report::default();
        let outcome = |passed, failed| Outcome {
            passed,
            failed,
            time: Duration::from_millis(1500),
            note: None,
            why: Vec::new(),
        };
        report.add("base", outcome(3, 0));
        let why = vec!["Error: it is gone".to_owned()];
        report.add("storage", Outcome { why, ..outcome(4, 1) });
        report.add("build", Outcome::of_step(Err(anyhow::anyhow!("does not compile")), Instant::now()));
        let table = report.table();
        assert!(table.contains("ok    base          3       0     1.5 s\n"), "{table}");
        let failed = "FAIL  storage       4       1     1.5 s\n        │ Error: it is gone\n";
        assert!(table.contains(failed), "{table}");
        assert!(table.contains("does not compile"), "{table}");
        assert_eq!((report.passed(), report.failed()), (7, 2));
        // The last line of a run that failed: some see nothing else of it.
        let verdict = report.verdict().expect_err("two failed").to_string();
        assert_eq!(verdict, "not all is well: storage, build (does not compile)");
    }
}
