//! What came of several benchmarks, in one table.

use super::resources::{median, percent};
use super::text::wrong_in_words;
use super::{FIGURES, Figure, Grid, PointReport, Report, SystemReport, rates};
use crate::ceiling::SCALED;

/// One table of several reports.
#[derive(Debug)]
pub struct Summary {
    name: String,
    about: String,
    is_quick: bool,
    rows: Vec<[String; WIDTH]>,
    members: Vec<Member>,
    headlines: Vec<Headline>,
    failures: Vec<(String, String)>,
}

/// One of the benchmarks.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// What it asks.
    pub(crate) about: String,
    /// What others measured.
    pub(crate) published: Option<String>,
    /// What of it was made smaller, since the disk had no room.
    pub(crate) scaled: Vec<String>,
}

/// The figure of a point that is told first.
#[derive(Debug)]
pub(crate) struct Headline {
    /// Of which benchmark.
    pub(crate) name: String,
    /// The values of the point's lists.
    pub(crate) point: String,
    pub(crate) figure: &'static Figure,
    /// What others measured of it.
    pub(crate) published: Option<f64>,
    /// Each system that has it, with its runs.
    pub(crate) systems: Vec<(String, Vec<f64>)>,
}

/// The figures that are in it.
const SHOWN: [&str; 13] = [
    "kept_records_per_sec",
    "written_records_per_sec",
    "written_mib_per_sec",
    "read_records_per_sec",
    "read_mib_per_sec",
    "stored_ratio",
    "overload_of_full_speed",
    "response_p99_ns",
    "end_to_end_p50_ns",
    "end_to_end_p99_ns",
    "send_call_mean_ns",
    "broker_cpu_ns_per_record",
    "client_cpu_ns_per_record",
];

/// Cells of a row: of what and whom, the figures, what part of what the machine can do, and the ratio.
const WIDTH: usize = 3 + SHOWN.len() + 2;

impl Summary {
    /// Of these, with nothing in it.
    pub fn of(name: &str, about: &str) -> Self {
        let (name, about) = (name.to_owned(), about.to_owned());
        let (rows, members, headlines, failures) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { name, about, is_quick: false, rows, members, headlines, failures }
    }

    /// Adds a report: a row for each system at each point.
    pub fn add(&mut self, report: &Report) {
        self.is_quick |= report.is_quick;
        self.members.push(Member {
            name: report.name.clone(),
            about: report.about.clone(),
            published: report.published.as_ref().map(|published| published.result.clone()),
            scaled: report.notes.iter().filter(|note| note.contains(SCALED)).cloned().collect(),
        });
        for point in &report.points {
            self.headlines.extend(Headline::of(report, point));
            for at in 0..point.systems.len() {
                self.rows.push(row(report, point, at));
            }
        }
        if let Some(ceilings) =
            report.ceilings.filter(|_| report.points.iter().all(|point| point.systems.is_empty()))
        {
            let mut row: [String; WIDTH] = Default::default();
            row[0].clone_from(&report.name);
            // As was published of it, where the file system knows that way.
            let [direct, flushed, ..] = rates(&ceilings);
            let (what, rate) = if direct.1.is_some() { direct } else { flushed };
            row[2] = what.to_owned();
            row[4] = format!("{:.1}", rate.unwrap_or_default() / crate::histogram::MIB);
            self.rows.push(row);
        }
    }

    /// Adds one that failed, and why.
    pub fn add_failure(&mut self, name: &str, why: &str) {
        let mut row: [String; WIDTH] = Default::default();
        row[0] = name.to_owned();
        row[2] = "failed".to_owned();
        row[WIDTH - 1] = why.lines().next().unwrap_or_default().to_owned();
        self.failures.push((name.to_owned(), row[WIDTH - 1].clone()));
        self.rows.push(row);
    }

    /// Those that failed, and why.
    pub fn failures(&self) -> &[(String, String)] {
        &self.failures
    }

    /// What they are together.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn about(&self) -> &str {
        &self.about
    }

    /// Whether any of them is a short form.
    pub(crate) const fn is_quick(&self) -> bool {
        self.is_quick
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// What was made smaller, since the disk had no room, and of which benchmark.
    pub(crate) fn scaled(&self) -> impl Iterator<Item = String> {
        self.members
            .iter()
            .flat_map(|member| member.scaled.iter().map(move |note| format!("{}: {note}", member.name)))
    }

    pub(crate) fn headlines(&self) -> &[Headline] {
        &self.headlines
    }

    pub(crate) fn table(&self) -> Grid {
        let figures = SHOWN.iter().filter_map(|name| Figure::find(name)).map(|figure| figure.title);
        let head = ["benchmark", "", "system"].into_iter().chain(figures);
        let mut grid = Grid::new(head.chain(["of what the machine can do", "ratio to it"]));
        for row in &self.rows {
            grid.row(row.clone());
        }
        grid.compact()
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let notes = self.scaled().map(|note| format!("note: {note}\n"));
        notes.fold(self.table().text(), |text, note| text + &note)
    }

    /// All of it, to be pasted.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}\n\n", self.name, self.about);
        if self.is_quick {
            text.push_str(
                "Short forms: smaller than what was published; compare the systems with each other.\n\n",
            );
        }
        self.scaled().for_each(|note| text.push_str(&format!("Note: {note}\n\n")));
        text.push_str(
            "Medians; *ratio to it* is how many times as good the first system is: by the figure that was published, \
             else by the first; where the rate was set, by how long it took.\n\n",
        );
        text.push_str(&self.table().markdown());
        let mut published = Grid::new(["benchmark", "published"]);
        let said = |member: &Member| Some([member.name.clone(), member.published.clone()?]);
        self.members.iter().filter_map(said).for_each(|row| published.row(row));
        if !published.is_empty() {
            text.push_str(&format!("\n{}", published.markdown()));
        }
        text
    }
}

/// Whether what was published is of every point.
fn numbers_of_all(report: &Report) -> bool {
    report.published.as_ref().is_some_and(|published| published.numbers_of.is_none())
}

impl Headline {
    /// `None` where no system has any figure.
    fn of(report: &Report, point: &PointReport) -> Option<Self> {
        let figure = first_figure(report, point)?;
        let values = |system: &SystemReport| (system.name.clone(), system.values(figure));
        let systems = point.systems.iter().map(values).filter(|(_, values)| !values.is_empty());
        Some(Self {
            name: report.name.clone(),
            point: point.label(),
            figure,
            published: report.published_of(figure).filter(|_| numbers_of_all(report)),
            systems: systems.collect(),
        })
    }
}

/// The figure that is told first: of which others say what they measured, else the first that says something. Where a
/// rate was set, those are latencies, if there are any: the throughput is what was asked for.
fn first_figure(report: &Report, point: &PointReport) -> Option<&'static Figure> {
    let has = |figure: &&'static Figure| {
        figure.says_something(&point.workload)
            && point.systems.iter().any(|system| !system.values(figure).is_empty())
    };
    let mut figures: Vec<&'static Figure> = FIGURES.iter().filter(has).collect();
    if point.workload.is_rate_set() && figures.iter().any(|figure| figure.is_latency()) {
        figures.retain(|figure| figure.is_latency());
    }
    let is_published = |figure: &&&Figure| report.published_of(figure).is_some();
    figures.iter().find(is_published).or(figures.first()).copied()
}

fn row(report: &Report, point: &PointReport, at: usize) -> [String; WIDTH] {
    let (first, system) = (&point.systems[0], &point.systems[at]);
    let mut row: [String; WIDTH] = Default::default();
    row[0].clone_from(&report.name);
    row[1] = point.label();
    row[2].clone_from(&system.name);
    let says = |figure: &&Figure| figure.says_something(&point.workload);
    let median_of = |figure: &Figure, of: &SystemReport| {
        crate::statistics::Spread::of(&of.values(figure)).map(|spread| spread.median)
    };
    for (cell, figure) in (3..).zip(SHOWN.iter().map(|name| Figure::find(name))) {
        let shown = figure.filter(says).and_then(|figure| Some(figure.show(median_of(figure, system)?)));
        row[cell] = shown.unwrap_or_default();
    }
    row[WIDTH - 2] =
        median(system, |run| run.share.map(|share| share.reached)).map_or_else(String::new, percent);
    let ratio = first_figure(report, point).filter(|_| at > 0).and_then(|figure| {
        let (first, other) = (median_of(figure, first)?, median_of(figure, system)?);
        Some(if figure.better == crate::statistics::Better::Higher { first / other } else { other / first })
    });
    row[WIDTH - 1] = ratio.map_or_else(String::new, |ratio| format!("{ratio:.2} ×"));
    if let Some(wrong) = wrong_in_words(system) {
        row[WIDTH - 1].push_str(&format!(" {wrong}"));
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;
    use crate::workload::{Pace, Published, Workload};

    #[test]
    fn each_system_of_each_benchmark_has_a_row_and_failures_do_too() {
        let mut summary = Summary::of("family", "What they measured");
        summary.add(&report(Workload::default(), &[("vltava", &[30.0, 10.0, 20.0]), ("kafka", &[5.0])]));
        summary.add_failure("b", "it broke\nand more");
        let text = summary.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[1].contains("vltava") && lines[1].contains(" 20 "), "{text}");
        assert!(lines[2].contains("kafka") && lines[2].ends_with("4.00 ×"), "{text}");
        assert!(lines[3].starts_with("b") && lines[3].ends_with("it broke"), "{text}");
        assert_eq!(summary.failures(), [("b".to_owned(), "it broke".to_owned())]);
        let markdown = summary.markdown();
        assert!(markdown.contains("| a |") && markdown.contains("Short forms"), "{markdown}");
    }

    /// Of two systems that keep a rate, one takes four times as long.
    fn paced() -> Report {
        let rate = serde_json::from_value(200.into()).expect("it is a rate");
        let workload = Workload { rate, ..Workload::default() };
        let mut paced = report(workload, &[("vltava", &[200.0]), ("kafka", &[200.0])]);
        for (system, factor) in paced.points[0].systems.iter_mut().zip([1, 4]) {
            for run in &mut system.runs {
                let flow = run.written.as_mut().and_then(|flow| flow.response_ns.as_mut());
                for found in flow.into_iter().chain(run.send_call_ns.as_mut()) {
                    (found.p50, found.p99, found.mean) = (factor * 7, factor * 70, factor as f64 * 7.0);
                }
                run.read = run.written.clone();
            }
        }
        paced
    }

    #[test]
    fn where_a_rate_was_set_latency_is_told_first() {
        let told = |published: Published| {
            let mut summary = Summary::of("family", "What they measured");
            summary.add(&Report { published: Some(published), ..paced() });
            let headline = summary.headlines.pop().expect("it has figures");
            let ratio = summary.rows[1][WIDTH - 1].clone();
            (headline.figure.name, headline.published, ratio)
        };
        let (rate, four) = (Some(200.0), "4.00 ×".to_owned());
        let latency = Published { records_per_sec: rate, p99_ms: Some(5.0), ..Published::default() };
        assert_eq!(told(latency), ("end_to_end_p99_ns", Some(5e6), four.clone()));
        let call = Published { send_mean_ms: Some(0.02), ..Published::default() };
        assert_eq!(told(call), ("send_call_mean_ns", Some(2e4), four.clone()));
        let only = Published { records_per_sec: rate, ..Published::default() };
        assert_eq!(told(only), ("response_p50_ns", None, four));
    }

    #[test]
    fn a_rate_that_was_set_is_not_what_others_measured() {
        let figure = Figure::find("read_records_per_sec").expect("there is one");
        let published = Published { records_per_sec: Some(2e5), ..Published::default() };
        let mut report = Report { published: Some(published), ..paced() };
        assert_eq!(report.published_of(figure), None);
        report.points[0].workload.rate = Pace::Max;
        assert_eq!(report.published_of(figure), Some(2e5));
    }
}
