//! The figures of an experiment that has one point: a bar for each system, with its runs.

use maud::{Markup, html};

use super::{Page, axis, latencies, published, show};
use crate::plot::{Bar, Bars, Scale};
use crate::report::{FIGURES, Figure, PointReport};

/// Figures that are drawn together, by the beginnings of their names.
const CHARTS: &[(&str, &str, &[&str])] = &[
    ("Records a second", "records/s", &["written_records_per_sec", "read_records_per_sec"]),
    (
        "The same in values",
        "MiB/s, which Kafka's tools call MB/s",
        &["written_mib_per_sec", "read_mib_per_sec"],
    ),
    ("How long until a record was acknowledged", "from when it was due", &["response_"]),
    ("How long until a record was read", "from when it was due", &["end_to_end_"]),
    ("How long calls of send took", "of each call", &["send_call_"]),
    ("As the stored data outgrows the memory", "records/s", &["stored_first_", "stored_last_"]),
    ("Of what was written before it did", "behind, of while it fits", &["stored_ratio"]),
    ("Written where more is sent than is taken", "of full speed", &["overload_"]),
    ("Processor time a record", "of all their threads", &["broker_cpu_", "client_cpu_"]),
    ("Memory of the brokers", "at most, all together", &["broker_rss_"]),
];

pub(super) fn section(page: &Page<'_>) -> Markup {
    let [point] = &page.report.points[..] else { return html! {} };
    let bars: Vec<Bars> = CHARTS.iter().filter_map(|chart| bars(page, point, chart)).collect();
    html! {
        @if !bars.is_empty() {
            h2 { "Side by side" }
            p { "A bar ends at the median of the runs; each dot is one of them, the line reaches from the least to the greatest." }
            div.charts { @for bars in &bars { (bars.figure()) } }
        }
        (latencies::section(page, point))
    }
}

fn bars(page: &Page<'_>, point: &PointReport, chart: &(&str, &str, &[&str])) -> Option<Bars> {
    let (title, unit, names) = *chart;
    let is_in = |figure: &&Figure| {
        figure.says_something(&point.workload) && names.iter().any(|name| figure.name.starts_with(name))
    };
    let figures: Vec<&Figure> = FIGURES.iter().filter(is_in).collect();
    let mut bars = Vec::new();
    for figure in &figures {
        for system in &point.systems {
            let values = system.values(figure);
            let Some(spread) = crate::statistics::Spread::of(&values) else { continue };
            bars.push(Bar {
                group: figure.title.to_owned(),
                series: page.series(&system.name),
                name: system.name.clone(),
                said: show(figure)(spread.median),
                values,
            });
        }
    }
    let show = show(figures.first()?);
    let mark = figures
        .iter()
        .find_map(|figure| published(page.report, figure))
        .filter(|_| !names[0].starts_with("end_to"));
    let values =
        bars.iter().flat_map(|bar| bar.values.iter().copied()).chain(mark.iter().map(|mark| mark.value));
    let scale = Scale::from_zero(values);
    let about = if bars.iter().all(|bar| bar.group == bars[0].group) {
        bars.first()?.group.clone()
    } else {
        String::new()
    };
    if !about.is_empty() {
        bars.iter_mut().for_each(|bar| bar.group.clear());
    }
    (!bars.is_empty()).then(|| Bars {
        title: title.to_owned(),
        about,
        axis: axis(unit, scale, show),
        bars,
        mark,
    })
}
