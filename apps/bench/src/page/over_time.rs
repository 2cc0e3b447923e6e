//! Each second of the runs: what came through, how long it took, and what it cost.

use maud::{Markup, html};

use super::{POINTS_MAX, Page, axis, published};
use crate::driver::System;
use crate::load::Second;
use crate::plot::{Chart, Line, Mark, Scale, Size, Weight, number};
use crate::report::{FIGURES, PointReport, Report, RunReport, SystemReport};
use crate::statistics::median;

/// What is drawn of a second; `None` where it says nothing of it.
type Of = fn(&Second) -> Option<f64>;

/// A chart over time.
struct Course {
    title: &'static str,
    unit: &'static str,
    show: fn(f64) -> String,
    /// Whether it goes by factors.
    is_log: bool,
    /// By which what others measured is known.
    figure: &'static str,
    size: Size,
    of: Of,
}

const COURSES: &[Course] = &[
    course("Written", "records/s", number::count, "written_records_per_sec", |second| {
        per_second(second, second.written.records as f64)
    }),
    course("Read", "records/s", number::count, "read_records_per_sec", |second| {
        per_second(second, second.read.records as f64)
    }),
    latency("Until acknowledged, p99 of each second", "response_p99_ns", |second| {
        Some(second.response_ns.as_ref()?.p99 as f64)
    }),
    latency("Until acknowledged, median of each second", "response_p50_ns", |second| {
        Some(second.response_ns.as_ref()?.p50 as f64)
    }),
    latency("Until read, p99 of each second", "end_to_end_p99_ns", |second| {
        Some(second.end_to_end_ns.as_ref()?.p99 as f64)
    }),
    latency("Until read, median of each second", "end_to_end_p50_ns", |second| {
        Some(second.end_to_end_ns.as_ref()?.p50 as f64)
    }),
];

const RESOURCES: &[Course] = &[
    small("Processors that the brokers used", "cores", number::plain, |second| {
        per_second(second, second.used.brokers?.cpu_seconds)
    }),
    small("Processors that the clients used", "cores", number::plain, |second| {
        per_second(second, second.used.client.cpu_seconds)
    }),
    small("Memory of the brokers", "resident", number::bytes, |second| {
        Some(second.used.brokers?.rss_bytes as f64)
    }),
    small("Written to disks by the brokers", "a second", number::bytes, |second| {
        per_second(second, second.used.brokers?.disk_written_bytes as f64)
    }),
];

const fn course(
    title: &'static str,
    unit: &'static str,
    show: fn(f64) -> String,
    figure: &'static str,
    of: Of,
) -> Course {
    Course { title, unit, show, is_log: false, figure, size: Size::Wide, of }
}

const fn latency(title: &'static str, figure: &'static str, of: Of) -> Course {
    Course { title, unit: "latency", show: number::time, is_log: true, figure, size: Size::Half, of }
}

const fn small(title: &'static str, unit: &'static str, show: fn(f64) -> String, of: Of) -> Course {
    Course { title, unit, show, is_log: false, figure: "", size: Size::Half, of }
}

fn per_second(second: &Second, amount: f64) -> Option<f64> {
    let seconds = second.to - second.from;
    (seconds > 0.0).then(|| amount / seconds)
}

pub(super) fn section(page: &Page<'_>) -> Markup {
    let points = &page.report.points;
    match &points[..] {
        [] => html! {},
        // A machine alone was measured.
        [point] if point.systems.is_empty() => html! {},
        [point] => html! {
            h2 { "Over time" }
            p { "Each second of the runs. Thin lines are runs, the thick one is their median." }
            (of_point(page, point))
        },
        points if points.len() > POINTS_MAX => html! {},
        points => html! {
            h2 { "Over time" }
            p { "Each second of the runs, at each point. Thin lines are runs, the thick one is their median." }
            @for point in points {
                details { summary { (point.label()) } (of_point(page, point)) (super::latencies::section(page, point)) }
            }
        },
    }
}

fn of_point(page: &Page<'_>, point: &PointReport) -> Markup {
    let is_slow = FIGURES.iter().any(|figure| figure.is_latency() && figure.says_something(&point.workload));
    let about = if is_slow { "" } else { "At full speed: how long records waited in line." };
    let courses = COURSES.iter().filter_map(|course| {
        let chart = chart(page, point, course)?;
        Some(Chart { about: if course.is_log { about.to_owned() } else { String::new() }, ..chart })
    });
    let resources: Vec<Chart> = RESOURCES.iter().filter_map(|course| chart(page, point, course)).collect();
    html! {
        div.charts {
            @for chart in courses { (chart.figure()) }
            @if let Some(chart) = stored(page, point) { (chart.figure()) }
            @for chart in &resources { (chart.figure()) }
        }
    }
}

fn chart(page: &Page<'_>, point: &PointReport, course: &Course) -> Option<Chart> {
    let of = |_: &SystemReport, run: &RunReport| {
        let point = |second: &Second| Some((second.to, (course.of)(second)?));
        run.seconds.iter().filter_map(point).collect::<Vec<_>>()
    };
    let lines = lines(page, point, of);
    // What never happened is no course.
    if !lines.iter().flat_map(|line| &line.points).any(|point| point.1 > 0.0) {
        return None;
    }
    let mark = FIGURES.iter().find(|figure| figure.name == course.figure);
    let marks: Vec<Mark> = mark.and_then(|figure| published(page.report, figure)).into_iter().collect();
    let ends = lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
    let warm = point.systems.iter().flat_map(|system| &system.runs).flat_map(|run| &run.seconds);
    let warm = warm.filter(|second| second.is_warmup).map(|second| second.to).fold(0.0, f64::max);
    let values = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let values = values.chain(marks.iter().map(|mark| mark.value));
    let y = if course.is_log { Scale::log(values) } else { Scale::from_zero(values) };
    Some(Chart {
        title: course.title.to_owned(),
        about: String::new(),
        x: axis("seconds after the start", Scale::tight(ends.chain([0.0])), number::plain),
        y: axis(course.unit, y, course.show),
        bands: Vec::new(),
        lines,
        marks,
        events: events(point),
        shade: (warm > 0.0).then(|| (warm, "warm-up".to_owned())),
        size: course.size,
    })
}

/// What was done to brokers: of the first run that has any, since all have the same plan.
fn events(point: &PointReport) -> Vec<(f64, String)> {
    let mut runs = point.systems.iter().flat_map(|system| &system.runs);
    let faults = runs.find(|run| !run.faults.is_empty()).map_or(&[][..], |run| &run.faults);
    faults.iter().map(|deed| (deed.at, deed.what.clone())).collect()
}

/// Each run, and where there are several the middle of them.
fn lines(
    page: &Page<'_>,
    point: &PointReport,
    of: impl Fn(&SystemReport, &RunReport) -> Vec<(f64, f64)>,
) -> Vec<Line> {
    let (mut behind, mut before) = (Vec::new(), Vec::new());
    for system in &point.systems {
        let series = page.series(&system.name);
        let line = |points, weight| Line { series, label: system.name.clone(), points, weight };
        let runs: Vec<Vec<(f64, f64)>> =
            system.runs.iter().map(|run| of(system, run)).filter(|points| !points.is_empty()).collect();
        match &runs[..] {
            [] => {}
            [one] => before.push(line(one.clone(), Weight::Main)),
            several => {
                before.push(line(middle(several), Weight::Main));
                behind.extend(several.iter().map(|run| line(run.clone(), Weight::Run)));
            }
        }
    }
    behind.append(&mut before);
    behind
}

/// The median of what runs have at the same place in order, as long as half of them are still there.
fn middle(runs: &[Vec<(f64, f64)>]) -> Vec<(f64, f64)> {
    let longest = runs.iter().map(Vec::len).max().unwrap_or(0);
    let at = |place: usize| {
        let there: Vec<(f64, f64)> = runs.iter().filter_map(|run| run.get(place).copied()).collect();
        let (xs, ys): (Vec<f64>, Vec<f64>) = there.into_iter().unzip();
        (xs.len() * 2 >= runs.len()).then(|| (median(&xs), median(&ys)))
    };
    (0..longest).map_while(at).collect()
}

/// Less than this is no store that could be outgrown.
const STORED_MIN: f64 = 1e9;

/// The rate by what was stored before: whether it falls as the data grows past memory.
fn stored(page: &Page<'_>, point: &PointReport) -> Option<Chart> {
    let of = |system: &SystemReport, run: &RunReport| {
        let replicas = system.driver.replication_factor.unwrap_or(point.workload.replication_factor);
        let (mut bytes, replicas) = (0.0, f64::from(replicas));
        let mut point = |second: &Second| {
            bytes += second.written.bytes as f64 * replicas;
            Some((bytes, per_second(second, second.written.records as f64)?))
        };
        run.seconds.iter().filter_map(&mut point).collect::<Vec<_>>()
    };
    let lines = lines(page, point, of);
    let most = lines.iter().flat_map(|line| &line.points).map(|point| point.0).fold(0.0, f64::max);
    if most < STORED_MIN {
        return None;
    }
    let is_here = point.systems.iter().all(|system| system.driver.system != System::Bootstrap);
    let memory = page.report.machine["memory_bytes"].as_f64().filter(|_| is_here);
    let y = Scale::from_zero(lines.iter().flat_map(|line| line.points.iter().map(|point| point.1)));
    Some(Chart {
        title: "Writing as the stored data grows".to_owned(),
        about: "Values of all replicas; a line that stays level says that stored data costs nothing."
            .to_owned(),
        x: axis("stored", Scale::tight([0.0, most]), number::bytes),
        y: axis("records/s", y, number::count),
        bands: Vec::new(),
        lines,
        marks: Vec::new(),
        events: Vec::new(),
        shade: memory.map(|memory| (memory.min(most), "less than the machine's memory".to_owned())),
        size: Size::Wide,
    })
}

/// Whether seconds are left out, since there are too many points.
pub(super) fn is_left_out(report: &Report) -> bool {
    report.points.len() > POINTS_MAX
}
