//! A report for people: a table on a terminal, Markdown to be pasted.

use std::fmt::Write;

use super::resources::{median, percent};
use super::{FIGURES, Figure, Grid, PointReport, Report, RunReport, SystemReport, limits};
use crate::statistics::{Comparison, Judgement, MATTERS, Spread, compare, from_nothing};
use crate::workload::several;

const WHAT_WAS_DONE: &str = "What was done to the brokers, and the longest that a record then waited for its \
                            acknowledgement.";
const WHAT_IT_TOOK: &str = "What the steady state took; medians. *A byte* is one of the records' values, and all \
                            its copies count; *disk flushes* are all of the disk that the brokers' data is on; *CPU of \
                            others* holds the system's own work for both.";

impl Report {
    /// Its figures: a row for each system at each point.
    pub fn table(&self) -> Grid {
        let figures: Vec<&Figure> = FIGURES.iter().filter(|figure| self.has(figure)).collect();
        let head = ["", "system"].into_iter().chain(figures.iter().map(|figure| figure.title));
        let mut grid = Grid::new(head.chain(["of what the machine can do", "records"]));
        for point in &self.points {
            for system in &point.systems {
                let mut row = vec![point.label(), system.name.clone()];
                row.extend(figures.iter().map(|figure| shown(figure, system)));
                row.push(self.reached(system));
                row.push(wrong_in_words(system).unwrap_or_else(|| right_in_words(system).to_owned()));
                grid.row(row);
            }
        }
        grid.compact()
    }

    /// What part of what the machine can do a system reached.
    fn reached(&self, system: &SystemReport) -> String {
        let is_compressed = || system.runs.iter().any(RunReport::is_compressed);
        match median(system, |run| run.share.map(|share| share.reached)) {
            Some(share) => percent(share),
            // They are smaller on their way than they are counted, and nobody says how small.
            None if self.ceilings.is_some() && is_compressed() => {
                "not known of compressed records".to_owned()
            }
            None => String::new(),
        }
    }

    /// Whether a figure says something at some point.
    fn has(&self, figure: &Figure) -> bool {
        let says = |point: &PointReport| {
            figure.says_something(&point.workload)
                && point.systems.iter().any(|system| system.figures.contains_key(figure.name))
        };
        self.points.iter().any(says)
    }

    /// The first system beside each other one, where there are several.
    pub fn verdicts(&self) -> Grid {
        let mut grid = Grid::new(["", "figure", "systems", "ratio", "bootstrap interval", "verdict"]);
        for point in &self.points {
            let Some((first, others)) = point.systems.split_first() else { continue };
            for other in others {
                for figure in FIGURES.iter().filter(|figure| figure.compares_systems(&point.workload)) {
                    // How many times the other one the first is.
                    let (of, to) = (other.values(figure), first.values(figure));
                    let found = compare(&of, &to, figure.better, MATTERS)
                        .or_else(|| from_nothing(&of, &to, figure.better));
                    let Some(found) = found else { continue };
                    let interval = found.interval.map(|(low, high)| format!("{low:.2}–{high:.2}"));
                    let failed = [first, other].into_iter().find(|system| system.has_failed());
                    let verdict = failed.map_or_else(
                        || in_words(found.judgement).to_owned(),
                        |system| format!("none: a run of {} failed", system.name),
                    );
                    grid.row([
                        point.label(),
                        figure.title.to_owned(),
                        format!("{} to {}", first.name, other.name),
                        factor_in_words(&found),
                        interval.unwrap_or_default(),
                        verdict,
                    ]);
                }
            }
        }
        grid.compact()
    }

    /// All of it, to be pasted.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}\n\n", self.name, self.about);
        let mut line = |said: std::fmt::Arguments<'_>| {
            // Text in memory takes what is written.
            let _ = text.write_fmt(format_args!("- {said}\n"));
        };
        if self.is_quick {
            line(format_args!(
                "Short form: smaller than what was published; compare the systems with each other."
            ));
        }
        if let Some(published) = &self.published {
            line(format_args!(
                "Published: {} ({}; {})",
                published.result, published.source, published.hardware
            ));
        }
        if let Some(first) = self.points.first() {
            line(format_args!("Workload: {}", first.workload.in_words()));
            for system in &first.systems {
                let version = system.version.as_deref().unwrap_or("version unknown");
                let settings = system.driver.settings_in_words();
                let settings = settings.as_deref().unwrap_or("its own settings");
                let runs = several(system.runs.len() as u64, "run");
                line(format_args!("{}: {version}, {runs}, {settings}", system.name));
            }
        }
        for stamp in self.stamps() {
            line(format_args!("{stamp}"));
        }
        line(format_args!("Machine: {}", machine(&self.machine)));
        for (name, of_worker) in self.machine["workers"].as_object().into_iter().flatten() {
            line(format_args!("Machine of worker {name}: {}", machine(of_worker)));
        }
        line(format_args!("Command: `{}`, version {}", self.command, self.version));
        for note in self.remarks() {
            line(format_args!("Note: {note}"));
        }
        let mut tables = vec![
            ("Medians, with the least and the greatest of several runs.", self.table()),
            ("", self.verdicts()),
            (WHAT_WAS_DONE, self.deeds()),
            (WHAT_IT_TOOK, self.resources()),
        ];
        tables.extend(self.ceilings.iter().map(|ceilings| ("", limits(ceilings))));
        for (about, table) in tables.iter().filter(|(_, table)| !table.is_empty()) {
            let about = if about.is_empty() { String::new() } else { format!("\n{about}\n") };
            let _ = write!(text, "{about}\n{}", table.markdown());
        }
        for wrong in self.wrong() {
            let _ = write!(text, "\n**{wrong}**\n");
        }
        text
    }
}

/// What is known of records of which nothing is known to be wrong.
fn right_in_words(system: &SystemReport) -> &'static str {
    if system.runs.iter().any(RunReport::is_counted) { "as many as sent" } else { "as sent" }
}

/// In how many runs of a system something was wrong with the records, or nothing came of it; `None` if in none.
pub(super) fn wrong_in_words(system: &SystemReport) -> Option<String> {
    let all = system.runs.len();
    let count = |got_through: bool| {
        system.runs.iter().filter(|run| run.wrong.is_some() && run.got_through() == got_through).count()
    };
    let kinds = [(count(true), "wrong in"), (count(false), "did not get through it in")];
    let said = kinds.iter().filter(|(runs, _)| *runs > 0);
    let said: Vec<String> = said.map(|(runs, what)| format!("{what} {runs} of {all} runs")).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// The median, and between what the runs lie if there are several.
fn shown(figure: &Figure, system: &SystemReport) -> String {
    match Spread::of(&system.values(figure)) {
        None => String::new(),
        Some(spread) if spread.runs == 1 => figure.show(spread.median),
        Some(Spread { median, min, max, .. }) => {
            format!("{} ({}–{})", figure.show(median), figure.show(min), figure.show(max))
        }
    }
}

/// How many times the first the second is; of nothing there is no factor.
pub(crate) fn factor_in_words(found: &Comparison) -> String {
    if found.ratio.is_finite() { format!("{:.2} ×", found.ratio) } else { "from 0".to_owned() }
}

/// What two samples come to, for people.
pub(crate) const fn in_words(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Better => "better",
        Judgement::Worse => "worse",
        Judgement::Same => "the same",
        Judgement::TooFewRuns => "too few runs to tell",
    }
}

fn machine(machine: &serde_json::Value) -> String {
    let said = |field: &str| crate::yaml::scalar(&machine[field]).unwrap_or_else(|| "unknown".to_owned());
    let gib = machine["memory_bytes"].as_f64().map_or(0.0, |bytes| bytes / f64::from(1 << 30));
    let data = match machine["file_system"].as_str() {
        Some(file_system) => format!(", data on {file_system} ({})", said("mount_options")),
        None => String::new(),
    };
    format!(
        "{} cores of {}, {gib:.1} GiB, {} {}{data}",
        said("cores"),
        said("cpu"),
        said("os"),
        said("kernel")
    )
}
