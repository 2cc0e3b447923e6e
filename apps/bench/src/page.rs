//! A report as a page that needs nothing else: for whoever wants to see who is faster, by how much, and how sure
//! that is.
//!
//! ```text
//!   report ─┬─▶ caveats    what makes the figures less than they seem
//!           ├─▶ answers    who is ahead, by which factor, how sure
//!           ├─▶ charts     figures · sweeps · over time · latencies · resources
//!           └─▶ stamps     on what, with what, how to repeat it
//! ```
//!
//! One file of HTML with its style and its charts in it: no script, no font and no picture from elsewhere, and a
//! policy in its head that keeps browsers from fetching any. Every system has one colour, one dash and one
//! symbol throughout.
//!
//! **Invariant:** what a report says is text. Names, notes and settings come from files and from clusters; all
//! of them go through [`maud`], which escapes them.

mod answers;
mod caveats;
mod family;
mod figures;
mod latencies;
mod over_time;
mod stamps;
mod sweep;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::ceiling::Ceilings;
use crate::compare::Differences;
use crate::histogram::MIB;
use crate::plot::{Axis, Bar, Bars, Mark, SERIES_MAX, Scale, class, number};
use crate::report::{Figure, Grid, PointReport, Report, SystemReport, Unit, limits, rates};

pub use family::family;

/// Charts of each second are drawn of so many points; with more, a page would be too long to be read.
const POINTS_MAX: usize = 40;
/// Nothing is fetched, whatever a text within says.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// What a system of the first of two reports is called, behind its name.
const BEFORE: &str = "before";
/// The same, of the second.
const AFTER: &str = "after";

/// What a page is made of.
struct Page<'a> {
    report: &'a Report,
    /// What came of it, if it is two reports that were compared: the page judges nothing itself.
    differences: Option<&'a Differences>,
    title: String,
    /// Those that it was made of, with what they are called.
    sources: Vec<(&'static str, &'a Report)>,
    /// What is to be known before anything else.
    notes: Vec<String>,
    /// By their places their colours are given.
    systems: Vec<&'a str>,
}

/// The page of a report.
pub fn page(report: &Report) -> String {
    Page {
        report,
        differences: None,
        title: report.name.clone(),
        sources: vec![("", report)],
        notes: Vec::new(),
        systems: systems(report),
    }
    .html()
    .into_string()
}

/// The page of two reports that were compared.
pub fn compared(before: &Report, after: &Report, differences: &Differences) -> String {
    let both = beside(before, after);
    Page {
        title: format!("{}, before and after", before.name),
        differences: Some(differences),
        sources: vec![(BEFORE, before), (AFTER, after)],
        notes: (differences.missing.iter().chain(&differences.unmatched).cloned())
            .chain(differences.chance())
            .collect(),
        systems: systems(&both),
        report: &both,
    }
    .html()
    .into_string()
}

/// The systems of both at each point that both have, those of the second first: they are told by how much they
/// differ.
fn beside(before: &Report, after: &Report) -> Report {
    let named = |of: &PointReport, when: &str| -> Vec<SystemReport> {
        let name =
            |system: &SystemReport| SystemReport { name: in_time(&system.name, when), ..system.clone() };
        of.systems.iter().map(name).collect()
    };
    let point = |old: &PointReport| {
        let new = after.points.iter().find(|new| new.at == old.at)?;
        let systems = [named(new, AFTER), named(old, BEFORE)].concat();
        Some(PointReport { systems, ..old.clone() })
    };
    let mut notes = after.notes.clone();
    notes.extend(before.notes.iter().filter(|note| !after.notes.contains(note)).cloned());
    Report {
        points: before.points.iter().filter_map(point).collect(),
        is_quick: before.is_quick || after.is_quick,
        notes,
        ..after.clone()
    }
}

/// What a page calls a system of one of two reports.
fn in_time(name: &str, when: &str) -> String {
    format!("{name}, {when}")
}

fn systems(report: &Report) -> Vec<&str> {
    let mut systems = Vec::new();
    for system in report.points.iter().flat_map(|point| &point.systems) {
        if !systems.contains(&&*system.name) {
            systems.push(&*system.name);
        }
    }
    systems
}

impl Page<'_> {
    fn html(&self) -> Markup {
        let report = self.report;
        let body = html! {
            header {
                h1 { (self.title) }
                p.about { (report.about) }
                p.when { (stamps::when(report.began_ms)) @if !self.systems.is_empty() { " · " (stamps::runs(report)) } }
                (legend(&self.systems, |name| stamps::version(report, name)))
            }
            main {
                (caveats::list(self))
                (answers::cards(self))
                (figures::section(self))
                (sweep::section(self))
                (over_time::section(self))
                (tables(report, self.differences))
                (stamps::section(self))
            }
            footer { "Made by vltava bench from " code { (report.name) ".json" } ", which has every run and every second." }
        };
        document(&self.title, &body)
    }

    fn series(&self, name: &str) -> usize {
        place(&self.systems, name)
    }
}

/// The place of a system among others, by which its colour is given.
fn place(systems: &[&str], name: &str) -> usize {
    systems.iter().position(|system| *system == name).unwrap_or(0)
}

/// A page with its style, and nothing from elsewhere.
fn document(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content="vltava bench";
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(include_str!("page/page.css"))) }
            }
            body { (body) }
        }
    }
}

/// Which system has which colour, and what else is to be said of it.
fn legend(systems: &[&str], about: impl Fn(&str) -> String) -> Markup {
    html! {
        ul.legend {
            @for (at, name) in systems.iter().enumerate() {
                li class=(class(at)) {
                    svg viewBox="0 0 40 12" aria-hidden="true" { path class=(format!("line {}", class(at))) d="M1 6H39" {} }
                    " " strong { (name) } " " span { (about(name)) }
                }
            }
        }
        @if systems.len() > SERIES_MAX { p { "There are more systems than colours: some have the same." } }
    }
}

/// All figures, and what is made of them, for those who want the numbers.
fn tables(report: &Report, differences: Option<&Differences>) -> Markup {
    let (figures, verdicts) = (report.table(), verdicts(report, differences));
    let (deeds, took) = (report.deeds(), report.resources());
    html! {
        @if !figures.is_empty() {
            h2 { "All figures" }
            p { "Medians, with the least and the greatest of several runs." }
            (table(&figures))
        }
        (verdicts)
        @if !deeds.is_empty() {
            h2 { "What was done to the brokers" }
            p { "With the longest that a record then waited for its acknowledgement." }
            (table(&deeds))
        }
        @if !took.is_empty() {
            h2 { "What it took" }
            p {
                "Of the steady state; medians. A byte is one of the records' values, and all its copies count; disk flushes "
                "are all of the disk that the brokers' data is on; the CPU of others holds the system's own work for both."
            }
            (table(&took))
        }
        @if let Some(ceilings) = &report.ceilings {
            h2 { "What this machine can do" }
            p { "Measured without brokers, before the first run." }
            div.charts { (bars_of(report, ceilings).figure()) }
            (table(&limits(ceilings)))
        }
    }
}

/// What is ahead, and how sure that is: of two reports as the comparison has judged them.
fn verdicts(report: &Report, differences: Option<&Differences>) -> Markup {
    let (title, verdicts) = match differences {
        Some(differences) => ("Before and after", differences.table()),
        None => ("Systems compared", report.verdicts()),
    };
    html! {
        @if !verdicts.is_empty() {
            h2 { (title) }
            p {
                "The ratio of the medians, its bootstrap interval, which is too narrow for few runs, and whether the ranks "
                "of all runs say that there is a difference (Mann and Whitney)."
                @if differences.is_some() {
                    " What some of so many figures do by chance is no clear difference (Holm)."
                }
            }
            (table(&verdicts))
        }
    }
}

/// What the machine can do, drawn; beside what others measured, where that is all that was.
fn bars_of(report: &Report, ceilings: &Ceilings) -> Bars {
    let bar = |(what, rate): (&str, Option<f64>)| {
        let value = rate? / MIB;
        let said = number::plain(value.round());
        Some(Bar { group: what.to_owned(), series: 0, name: String::new(), values: vec![value], said })
    };
    let bars: Vec<Bar> = rates(ceilings).into_iter().filter_map(bar).collect();
    let is_all = report.points.iter().all(|point| point.systems.is_empty());
    let published = report.published.as_ref().filter(|_| is_all).and_then(|published| published.mib_per_sec);
    let mark = published.map(|value| Mark { value, label: format!("published: {}", number::plain(value)) });
    let values = bars.iter().flat_map(|bar| bar.values.iter().copied()).chain(published);
    Bars {
        title: "What this machine can do".to_owned(),
        about: String::new(),
        axis: axis("MiB/s", Scale::from_zero(values), number::plain),
        bars,
        mark,
    }
}

fn table(grid: &Grid) -> Markup {
    let is_number: Vec<bool> = (0..grid.head().len()).map(|at| grid.is_number(at)).collect();
    let class = |at: usize| is_number.get(at).is_some_and(|is| *is).then_some("number");
    html! {
        div.scroll {
            table {
                thead { tr { @for (at, cell) in grid.head().iter().enumerate() { th class=[class(at)] { (cell) } } } }
                tbody {
                    @for row in grid.rows() {
                        tr { @for (at, cell) in row.iter().enumerate() { td class=[class(at)] { (cell) } } }
                    }
                }
            }
        }
    }
}

/// How a chart writes values of a figure.
fn show(figure: &Figure) -> fn(f64) -> String {
    match figure.unit {
        Unit::PerSecond | Unit::Records => number::count,
        Unit::MibPerSecond => number::plain,
        Unit::Share => number::percent,
        Unit::Nanoseconds => number::time,
        Unit::Bytes => number::bytes,
    }
}

fn axis(title: &str, scale: Scale, show: fn(f64) -> String) -> Axis {
    Axis { title: title.to_owned(), scale, show }
}

/// What others measured of this figure, if they say it.
fn published(report: &Report, figure: &Figure) -> Option<Mark> {
    let value = report.published_of(figure)?;
    let of = report.published.as_ref().and_then(|published| published.numbers_of.as_ref());
    let of = of.map_or_else(String::new, |of| format!(", {of}"));
    let at = report.published_at(figure);
    let at = at.map_or_else(String::new, |rate| format!(", at {} records/s", number::count(rate)));
    Some(Mark { value, label: format!("published{of}{at}: {}", show(figure)(value)) })
}

#[cfg(test)]
mod tests;
