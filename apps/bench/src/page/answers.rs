//! Who is ahead, by which factor, and how sure that is: a card for each figure that matters.

use maud::{Markup, html};

use super::{Page, published, show};
use crate::plot::{class, number};
use crate::report::{FIGURES, Figure, PointReport, SystemReport, Unit};
use crate::statistics::{Better, Comparison, Judgement, MATTERS, Spread, compare};

/// What a reader asks first.
const ASKED: [&str; 10] = [
    "written_records_per_sec",
    "read_records_per_sec",
    "response_p99_ns",
    "end_to_end_p50_ns",
    "end_to_end_p99_ns",
    "end_to_end_p999_ns",
    "stored_ratio",
    "overload_of_full_speed",
    "broker_cpu_ns_per_record",
    "broker_rss_bytes",
];

pub(super) fn cards(page: &Page<'_>) -> Markup {
    let figures = FIGURES.iter().filter(|figure| ASKED.contains(&figure.name));
    let cards: Vec<Markup> = figures.filter_map(|figure| card(page, figure)).collect();
    html! {
        @if !cards.is_empty() { section.answers aria-label="What came of it" { @for card in &cards { (card) } } }
    }
}

fn card(page: &Page<'_>, figure: &Figure) -> Option<Markup> {
    let says = |point: &&PointReport| {
        let has = |system: &SystemReport| !system.values(figure).is_empty();
        figure.says_something(&point.workload) && point.systems.iter().any(has)
    };
    let points: Vec<&PointReport> = page.report.points.iter().filter(says).collect();
    match points[..] {
        [] => None,
        [point] if page.report.points.len() == 1 => Some(of_point(page, figure, point)),
        _ => of_points(page, figure, &points),
    }
}

/// Of an experiment with one point: each system, and the first beside the others.
fn of_point(page: &Page<'_>, figure: &Figure, point: &PointReport) -> Markup {
    let (first, others) = match point.systems.split_first() {
        Some((first, others)) => (Some(first), others),
        None => (None, &[][..]),
    };
    let pairs = others.iter().filter_map(|other| Some((first?, other, compared(first?, other, figure)?)));
    let pairs: Vec<(&SystemReport, &SystemReport, Comparison)> = pairs.collect();
    html! {
        div.answer {
            h3 { (figure.title) }
            @for (first, other, found) in &pairs { (verdict(page, figure, first, other, found)) }
            @if let (true, Some(first)) = (pairs.is_empty(), first) {
                @if let Some(spread) = Spread::of(&first.values(figure)) {
                    p class=(format!("said {}", class(page.series(&first.name)))) { (show(figure)(spread.median)) }
                }
            }
            dl {
                @for system in &point.systems {
                    @if let Some(spread) = Spread::of(&system.values(figure)) {
                        dt class=(class(page.series(&system.name))) { (system.name) }
                        dd { (show(figure)(spread.median)) " " span { (range(figure, &spread)) } }
                    }
                }
            }
            @if let Some(mark) = published(page.report, figure) { p.sure { (mark.label) } }
        }
    }
}

fn verdict(
    page: &Page<'_>,
    figure: &Figure,
    first: &SystemReport,
    other: &SystemReport,
    found: &Comparison,
) -> Markup {
    let is_ahead = is_ahead(figure, found.ratio);
    let (ahead, behind) = if is_ahead { (first, other) } else { (other, first) };
    let factor = found.ratio.max(1.0 / found.ratio);
    // Between which factors, for whoever is ahead.
    let interval = found.interval.map(|(low, high)| match found.ratio >= 1.0 {
        true => (low, high),
        false => (1.0 / high, 1.0 / low),
    });
    html! {
        @if found.judgement == Judgement::Same {
            p.said { "about the same" }
            p.who { (first.name) " and " (other.name) }
        } @else {
            p class=(format!("said {}", class(page.series(&ahead.name)))) { (number::times(factor)) " " (word(figure)) }
            p.who { (ahead.name) ", beside " (behind.name) }
        }
        p.sure {
            @match found.judgement {
                Judgement::TooFewRuns => span.unclear { "too few runs to be sure" },
                Judgement::Same => span { "no difference past the noise" },
                Judgement::Better | Judgement::Worse => span.clear { "a clear difference" },
            }
            @if let Some((low, high)) = interval {
                ", in 95 of 100 draws " (format!("{low:.2}–{high:.2} ×"))
            }
        }
    }
}

/// Of an experiment with several: the factors at all of them.
fn of_points(page: &Page<'_>, figure: &Figure, points: &[&PointReport]) -> Option<Markup> {
    let first = *page.systems.first()?;
    let of = |other: &str| {
        let find = |point: &&PointReport, name: &str| {
            point.systems.iter().find(|system| system.name == name).cloned()
        };
        let pair = |point: &&PointReport| {
            let found = compared(&find(point, first)?, &find(point, other)?, figure)?;
            let factor = if figure.better == Better::Higher { found.ratio } else { 1.0 / found.ratio };
            Some((factor, found.judgement, point.label()))
        };
        points.iter().filter_map(pair).collect::<Vec<_>>()
    };
    let others: Vec<(&str, Vec<_>)> = page.systems[1..]
        .iter()
        .map(|other| (*other, of(other)))
        .filter(|(_, found)| !found.is_empty())
        .collect();
    if others.is_empty() {
        return None;
    }
    Some(html! {
        div.answer {
            h3 { (figure.title) }
            @for (other, found) in &others { (range_of_factors(page, figure, (first, other), found)) }
        }
    })
}

fn range_of_factors(
    page: &Page<'_>,
    figure: &Figure,
    (first, other): (&str, &str),
    found: &[(f64, Judgement, String)],
) -> Markup {
    let least = found.iter().min_by(|one, other| one.0.total_cmp(&other.0));
    let most = found.iter().max_by(|one, other| one.0.total_cmp(&other.0));
    let (Some(least), Some(most)) = (least, most) else { return html! {} };
    let ahead = found.iter().filter(|(factor, ..)| *factor > 1.0).count();
    let sure = found.iter().filter(|found| found.1 == Judgement::Better).count();
    let has_runs = found.iter().any(|found| found.1 != Judgement::TooFewRuns);
    html! {
        p class=(format!("said {}", class(page.series(first)))) {
            (number::times(least.0).trim_end_matches(" ×")) "–" (number::times(most.0)) " " (word(figure))
        }
        p.who { (first) ", beside " (other) }
        p.sure { "least at " (least.2) ", most at " (most.2) }
        p.sure {
            "ahead at " (ahead) " of " (found.len()) " points"
            @if has_runs { ", clearly at " (sure) } @else { "; " span.unclear { "too few runs to be sure" } }
        }
    }
}

/// How many times the second the first is.
fn compared(first: &SystemReport, other: &SystemReport, figure: &Figure) -> Option<Comparison> {
    compare(&other.values(figure), &first.values(figure), figure.better, MATTERS)
}

fn is_ahead(figure: &Figure, ratio: f64) -> bool {
    (ratio >= 1.0) == (figure.better == Better::Higher)
}

/// What it is to be ahead.
const fn word(figure: &Figure) -> &'static str {
    match (figure.better, figure.unit) {
        (Better::Higher, Unit::Share) => "as much",
        (Better::Higher, _) => "as fast",
        (Better::Lower, Unit::Nanoseconds) if figure.is_latency() => "as quick",
        (Better::Lower, _) => "less",
    }
}

fn range(figure: &Figure, spread: &Spread) -> String {
    let show = show(figure);
    match spread.runs {
        1 => "one run".to_owned(),
        runs => format!("{}–{}, {runs} runs", show(spread.min), show(spread.max)),
    }
}
