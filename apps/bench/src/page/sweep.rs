//! An experiment at several values: what each value does to the figures, and which rates were kept.

use maud::{Markup, html};
use serde_json::Value;

use super::{Page, axis, published, show};
use crate::plot::{Axis, Band, Bar, Bars, Chart, Line, Mark, Scale, Size, Weight, number};
use crate::report::{FIGURES, Figure, PointReport, Unit};
use crate::statistics::Spread;
use crate::workload::Workload;

/// Where values differ by more than this factor, only factors can be seen.
const FACTOR_OF_LOG: f64 = 25.0;

type Show = fn(f64) -> String;

/// What fields are, with their units.
const FIELDS: &[(&str, &str, Show)] = &[
    ("record_bytes", "bytes of a record", number::bytes),
    ("partitions", "partitions of a topic", number::count),
    ("producers", "producers", number::count),
    ("consumers", "consumers", number::count),
    ("topics", "topics", number::count),
    ("replication_factor", "replicas", number::count),
    ("brokers", "brokers", number::count),
    ("rate", "records a second that were due", number::count),
    ("producer/batch.size", "bytes of a batch", number::bytes),
    ("producer/linger.ms", "linger, milliseconds", number::count),
];

pub(super) fn section(page: &Page<'_>) -> Markup {
    let points = &page.report.points;
    let probes = probes(page);
    html! {
        @if points.len() > 1 {
            h2 { "What the values do" }
            p {
                "Each figure at each value: medians, with the runs between the least and the greatest behind them. "
                "MiB/s is what Kafka's tools call MB/s."
            }
            @match numeric_field(points) {
                Some(field) => {
                    @for (rest, points) in facets(points, &field) {
                        @if !rest.is_empty() { h3 { (rest) } }
                        div.charts {
                            @for figure in FIGURES { @if let Some(chart) = curve(page, figure, &field, &points) { (chart.figure()) } }
                        }
                    }
                }
                None => div.charts {
                    @for figure in FIGURES { @if let Some(bars) = bars(page, figure) { (bars.figure()) } }
                },
            }
        }
        @if !probes.is_empty() {
            h2 { "The search for the highest rate" }
            p { "Each rate that was tried, and how long it took until 99 % of its records came through: where that rises, the system is full." }
            div.charts { @for chart in &probes { (chart.figure()) } }
        }
    }
}

/// The field with the most values, of those that have numbers only.
fn numeric_field(points: &[PointReport]) -> Option<String> {
    let mut fields: Vec<(usize, &String)> = Vec::new();
    for field in points.first()?.at.keys() {
        let values: Option<Vec<f64>> =
            points.iter().map(|point| point.at.get(field).and_then(number)).collect();
        let Some(mut values) = values else { continue };
        values.sort_by(f64::total_cmp);
        values.dedup();
        fields.push((values.len(), field));
    }
    let most = fields.into_iter().filter(|(values, _)| *values > 1).max_by_key(|(values, _)| *values)?;
    Some(most.1.clone())
}

/// A share of full speed is one of a hundred: 90% is 0.9.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| {
        let text = value.as_str()?;
        match text.strip_suffix('%') {
            Some(percent) => percent.parse().ok().map(|percent: f64| percent / 100.0),
            None => text.parse().ok(),
        }
    })
}

/// Whether all values of a field are shares of full speed.
fn are_shares(field: &str, points: &[&PointReport]) -> bool {
    let is_share = |value: &Value| value.as_str().is_some_and(|text| text.ends_with('%'));
    points.iter().all(|point| point.at.get(field).is_some_and(is_share))
}

/// Points that differ in this field only, with the values of the others.
fn facets<'a>(points: &'a [PointReport], field: &str) -> Vec<(String, Vec<&'a PointReport>)> {
    let mut facets: Vec<(String, Vec<&PointReport>)> = Vec::new();
    for point in points {
        let mut others = point.clone();
        others.at.shift_remove(field);
        let label = others.label();
        match facets.iter_mut().find(|(of, _)| *of == label) {
            Some((_, points)) => points.push(point),
            None => facets.push((label, vec![point])),
        }
    }
    facets
}

fn curve(page: &Page<'_>, figure: &Figure, field: &str, points: &[&PointReport]) -> Option<Chart> {
    let says = |point: &&&PointReport| figure.says_something(&point.workload);
    let are_shares = are_shares(field, points);
    let points: Vec<(f64, &PointReport)> = points
        .iter()
        .filter(says)
        .filter_map(|point| Some((number(point.at.get(field)?)?, *point)))
        .collect();
    let (mut lines, mut bands) = (Vec::new(), Vec::new());
    for (series, name) in page.systems.iter().enumerate() {
        let mut spreads: Vec<(f64, Spread)> = Vec::new();
        for (x, point) in &points {
            let system = point.systems.iter().find(|system| system.name == *name);
            spreads.extend(system.and_then(|system| Some((*x, Spread::of(&system.values(figure))?))));
        }
        spreads.sort_by(|one, other| one.0.total_cmp(&other.0));
        if spreads.is_empty() {
            continue;
        }
        let around = spreads.iter().map(|(x, spread)| (*x, spread.min, spread.max)).collect();
        bands.push(Band { series, points: around });
        let points = spreads.iter().map(|(x, spread)| (*x, spread.median)).collect();
        lines.push(Line { series, label: (*name).to_owned(), points, weight: Weight::Marked });
    }
    let marks: Vec<Mark> = published(page.report, figure).into_iter().collect();
    let ys = bands.iter().flat_map(|band| band.points.iter().flat_map(|(_, low, high)| [*low, *high]));
    let y = fitting(ys.chain(marks.iter().map(|mark| mark.value)).collect());
    let x = fields_axis((field, are_shares), points.iter().map(|point| point.0).collect());
    let unit = if figure.unit == Unit::Bytes { "bytes" } else { figure.title };
    (!lines.is_empty()).then(|| Chart {
        title: figure.title.to_owned(),
        about: String::new(),
        x,
        y: axis(unit, y, show(figure)),
        bands,
        lines,
        marks,
        events: Vec::new(),
        shade: None,
        size: Size::Half,
    })
}

fn fields_axis((field, are_shares): (&str, bool), values: Vec<f64>) -> Axis {
    let known = FIELDS.iter().find(|(name, ..)| *name == field);
    let (title, show) = match known {
        _ if are_shares => ("of what is taken at full speed", number::percent as Show),
        Some((_, title, show)) => (*title, *show),
        None => (field, number::count as Show),
    };
    let (min, max) =
        (values.iter().copied().fold(f64::INFINITY, f64::min), values.iter().copied().fold(0.0, f64::max));
    let scale =
        if min > 0.0 && max / min >= FACTOR_OF_LOG { Scale::log(values) } else { Scale::tight(values) };
    axis(title, scale, show)
}

/// From zero, or by factors where nothing else could be seen.
fn fitting(values: Vec<f64>) -> Scale {
    let positive = values.iter().copied().filter(|value| *value > 0.0);
    let (min, max) =
        positive.fold((f64::INFINITY, 0.0), |(min, max): (f64, f64), value| (min.min(value), max.max(value)));
    if max / min > FACTOR_OF_LOG { Scale::log(values) } else { Scale::from_zero(values) }
}

/// Where values are no numbers: a group of bars for each.
fn bars(page: &Page<'_>, figure: &Figure) -> Option<Bars> {
    let mut bars = Vec::new();
    for point in page.report.points.iter().filter(|point| figure.says_something(&point.workload)) {
        for system in &point.systems {
            let values = system.values(figure);
            let Some(spread) = Spread::of(&values) else { continue };
            bars.push(Bar {
                group: point.label(),
                series: page.series(&system.name),
                name: system.name.clone(),
                said: show(figure)(spread.median),
                values,
            });
        }
    }
    let mark = published(page.report, figure);
    let values =
        bars.iter().flat_map(|bar| bar.values.iter().copied()).chain(mark.iter().map(|mark| mark.value));
    let axis = axis(figure.title, Scale::from_zero(values), show(figure));
    (!bars.is_empty()).then(|| Bars {
        title: figure.title.to_owned(),
        about: String::new(),
        axis,
        bars,
        mark,
    })
}

/// The rates that were tried at each point, of the first run of each system.
fn probes(page: &Page<'_>) -> Vec<Chart> {
    page.report.points.iter().filter_map(|point| probes_of(page, point)).collect()
}

fn probes_of(page: &Page<'_>, point: &PointReport) -> Option<Chart> {
    let Workload { search, .. } = &point.workload;
    let goal = search.unwrap_or_default();
    let mut lines = Vec::new();
    for system in &point.systems {
        let Some(run) = system.runs.iter().find(|run| !run.probes.is_empty()) else { continue };
        let mut points: Vec<(f64, f64)> =
            run.probes.iter().map(|probe| (probe.rate, probe.p99_ns as f64)).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        lines.push(Line {
            series: page.series(&system.name),
            label: system.name.clone(),
            points,
            weight: Weight::Marked,
        });
    }
    let goal = goal.p99_ms * 1e6;
    let marks = vec![Mark { value: goal, label: format!("not kept above {}", number::time(goal)) }];
    let at = |of: fn(&(f64, f64)) -> f64| lines.iter().flat_map(move |line| line.points.iter().map(of));
    let (x, y) = (Scale::from_zero(at(|point| point.0)), Scale::log(at(|point| point.1).chain([goal])));
    (!lines.is_empty()).then(|| Chart {
        title: format!("Rates tried {}", point.label()).trim_end().to_owned(),
        about: "Of the first run of each.".to_owned(),
        x: axis("records a second that were due", x, number::count),
        y: axis("p99", y, number::time),
        bands: Vec::new(),
        lines,
        marks,
        events: Vec::new(),
        shade: None,
        size: Size::Half,
    })
}
