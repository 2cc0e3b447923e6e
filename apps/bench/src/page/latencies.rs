//! How latencies are distributed, on HdrHistogram's axis: each nine as far as the one before.

use maud::{Markup, html};

use super::{Page, axis, published};
use crate::histogram::{self, Quantiles};
use crate::plot::{Band, Chart, Line, Mark, Scale, Size, Weight, number};
use crate::report::{FIGURES, FlowReport, PointReport, RunReport, SystemReport};
use crate::statistics::median;

/// What is drawn of a run.
struct Distribution {
    title: &'static str,
    /// By which figure is told whether it says something.
    figure: &'static str,
    of: fn(&RunReport) -> Option<Curve>,
}

/// Shares of all, and the latencies that they are not above.
struct Curve {
    count: u64,
    points: Vec<(f64, f64)>,
}

const DISTRIBUTIONS: [Distribution; 3] = [
    Distribution {
        title: "Until acknowledged: the share of records that were not slower",
        figure: "response_p99_ns",
        of: |run| of_flow(run.written.as_ref()?),
    },
    Distribution {
        title: "Until read: the share of records that were not slower",
        figure: "end_to_end_p99_ns",
        of: |run| of_flow(run.read.as_ref()?),
    },
    Distribution {
        title: "Calls of send: the share that were not slower",
        figure: "send_call_p99_ns",
        of: |run| of_whole(run.send_call_histogram.as_deref(), run.send_call_ns.as_ref()),
    },
];

pub(super) fn section(page: &Page<'_>, point: &PointReport) -> Markup {
    let charts: Vec<Chart> = DISTRIBUTIONS.iter().filter_map(|what| chart(page, point, what)).collect();
    html! {
        @if !charts.is_empty() {
            h2 { "Latencies" }
            p {
                "From left to right ever rarer cases: of a hundred records one is slower than at 99 %, of a thousand one than "
                "at 99.9 %. Both ways the axes go by factors. Lower is better."
            }
            div.charts { @for chart in &charts { (chart.figure()) } }
        }
    }
}

fn chart(page: &Page<'_>, point: &PointReport, what: &Distribution) -> Option<Chart> {
    let figure = FIGURES.iter().find(|figure| figure.name == what.figure)?;
    let curves = |system: &SystemReport| system.runs.iter().filter_map(what.of).collect::<Vec<Curve>>();
    let (mut lines, mut bands, mut count) = (Vec::new(), Vec::new(), 0);
    for system in &point.systems {
        let (series, curves) = (page.series(&system.name), curves(system));
        count = curves.iter().map(|curve| curve.count).max().unwrap_or(0).max(count);
        let (points, around) = middle(&curves);
        if !points.is_empty() {
            lines.push(Line { series, label: system.name.clone(), points, weight: Weight::Main });
        }
        if curves.len() > 1 {
            bands.push(Band { series, points: around });
        }
    }
    let quantiles =
        [("end_to_end_p50_ns", "p50"), ("end_to_end_p99_ns", "p99"), ("end_to_end_p999_ns", "p99.9")];
    let published = |name| published(page.report, FIGURES.iter().find(|figure| figure.name == name)?);
    let marks: Vec<Mark> = quantiles
        .into_iter()
        .filter(|_| what.figure.starts_with("end_to_end"))
        .filter_map(|(name, at)| Some((published(name)?, at)))
        .map(|(mark, at)| Mark { label: mark.label.replace("published", &format!("published {at}")), ..mark })
        .collect();
    let ys = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let ys =
        ys.chain(bands.iter().flat_map(|band| band.points.iter().flat_map(|(_, low, high)| [*low, *high])));
    let y = Scale::log(ys.chain(marks.iter().map(|mark| mark.value)));
    let about = match figure.says_something(&point.workload) {
        true => {
            "The line is the median of the runs, the band behind it reaches from the least to the greatest."
        }
        false => "Records were sent as fast as they were taken: this is how long they waited in line.",
    };
    (!lines.is_empty()).then(|| Chart {
        title: what.title.to_owned(),
        about: about.to_owned(),
        x: axis("share of all", Scale::quantiles(count), number::share),
        y: axis("latency", y, number::time),
        bands,
        lines,
        marks,
        events: Vec::new(),
        shade: None,
        size: Size::Half,
    })
}

/// Shares, and a value at each.
type Course = Vec<(f64, f64)>;
/// Shares, and between which values they lie.
type Around = Vec<(f64, f64, f64)>;

/// The median of each share over all curves, and between what they lie.
fn middle(curves: &[Curve]) -> (Course, Around) {
    let Some(shortest) = curves.iter().min_by_key(|curve| curve.points.len()) else {
        return (Vec::new(), Vec::new());
    };
    let at = |share: f64| -> Vec<f64> { curves.iter().map(|curve| curve.at(share)).collect() };
    let points = shortest.points.iter().map(|(share, _)| (*share, median(&at(*share)))).collect();
    let around = shortest.points.iter().map(|(share, _)| {
        let values = at(*share);
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        (*share, least, values.iter().copied().fold(0.0, f64::max))
    });
    (points, around.collect())
}

impl Curve {
    /// The latency of the first share that is not below this one.
    fn at(&self, share: f64) -> f64 {
        let found = self.points.iter().find(|(at, _)| *at >= share - 1e-12).or(self.points.last());
        found.map_or(0.0, |(_, value)| *value)
    }
}

fn of_flow(flow: &FlowReport) -> Option<Curve> {
    of_whole(flow.response_histogram.as_deref(), flow.response_ns.as_ref())
}

/// All of a distribution where the file has it, else its quantiles.
fn of_whole(encoded: Option<&str>, quantiles: Option<&Quantiles>) -> Option<Curve> {
    match encoded.and_then(histogram::decoded) {
        Some(found) if !found.is_empty() => Some(Curve {
            count: found.len(),
            points: found
                .iter_quantiles(5)
                .map(|step| (step.quantile(), step.value_iterated_to() as f64))
                .collect(),
        }),
        _ => quantiles.map(of_quantiles),
    }
}

fn of_quantiles(found: &Quantiles) -> Curve {
    let all = [
        (0.0, found.min),
        (0.5, found.p50),
        (0.75, found.p75),
        (0.9, found.p90),
        (0.95, found.p95),
        (0.99, found.p99),
        (0.999, found.p999),
        (0.9999, found.p9999),
        (0.99999, found.p99999),
    ];
    // Beyond one of all there is only the greatest.
    let last = 1.0 - 1.0 / found.count.max(2) as f64;
    let known = all.into_iter().filter(|(share, _)| *share < last);
    let points = known.chain([(last, found.max)]).map(|(share, value)| (share, value as f64)).collect();
    Curve { count: found.count, points }
}
