//! Who is ahead, by which factor, and how sure that is: a card for each figure that matters.

use maud::{Markup, html};

use super::{AFTER, BEFORE, Page, in_time, published, show};
use crate::compare::{Differences, Line};
use crate::plot::{class, number};
use crate::report::{FIGURES, Figure, PointReport, SystemReport, Unit};
use crate::statistics::{Better, Comparison, Judgement, MATTERS, Spread, compare, from_nothing};

/// What a reader asks first.
const ASKED: [&str; 11] = [
    "kept_records_per_sec",
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

/// Two that are set beside each other at one point.
struct Pair {
    /// As the page calls them.
    names: [String; 2],
    point: String,
    medians: [f64; 2],
    /// How many times the second the first is.
    found: Comparison,
    /// Whether chance does not explain it, although so many figures were compared.
    is_sure: bool,
    /// Of which a run failed.
    failed: Option<String>,
}

fn card(page: &Page<'_>, figure: &Figure) -> Option<Markup> {
    let says = |point: &&PointReport| {
        let has = |system: &SystemReport| !system.values(figure).is_empty();
        let is_told = match page.differences.is_none() && point.systems.len() > 1 {
            true => figure.compares_systems(&point.workload),
            false => figure.says_something(&point.workload),
        };
        is_told && point.systems.iter().any(has)
    };
    let points: Vec<&PointReport> = page.report.points.iter().filter(says).collect();
    let pairs = match page.differences {
        Some(differences) => before_and_after(differences, figure),
        None => points.iter().flat_map(|point| between_systems(page, figure, point)).collect(),
    };
    match points[..] {
        [] => None,
        [point] if page.report.points.len() == 1 => Some(of_point(page, figure, point, &pairs)),
        _ => of_points(page, figure, &pairs),
    }
}

/// The first system beside each of the others.
fn between_systems(page: &Page<'_>, figure: &Figure, point: &PointReport) -> Vec<Pair> {
    let find = |name: &str| point.systems.iter().find(|system| system.name == name);
    let Some(first) = page.systems.first().and_then(|name| find(name)) else { return Vec::new() };
    let pair = |other: &SystemReport| {
        let (of, to) = (other.values(figure), first.values(figure));
        let failed = [first, other].into_iter().find(|system| system.has_failed());
        Some(Pair {
            names: [first.name.clone(), other.name.clone()],
            point: point.label(),
            medians: [Spread::of(&to)?.median, Spread::of(&of)?.median],
            found: compare(&of, &to, figure.better, MATTERS)
                .or_else(|| from_nothing(&of, &to, figure.better))?,
            is_sure: failed.is_none(),
            failed: failed.map(|system| system.name.clone()),
        })
    };
    page.systems[1..].iter().filter_map(|name| pair(find(name)?)).collect()
}

/// Each system behind beside the same one before, as the comparison has judged them.
fn before_and_after(differences: &Differences, figure: &Figure) -> Vec<Pair> {
    let pair = |line: &Line| {
        let [before, after] = &line.names;
        Pair {
            names: [in_time(after, AFTER), in_time(before, BEFORE)],
            point: line.point.clone(),
            medians: [line.after.median, line.before.median],
            found: line.found,
            is_sure: line.is_sure(),
            // The comparison as a whole says so.
            failed: None,
        }
    };
    differences.lines.iter().filter(|line| line.figure.name == figure.name).map(pair).collect()
}

/// Of an experiment with one point: each system, and those that are beside each other.
fn of_point(page: &Page<'_>, figure: &Figure, point: &PointReport, pairs: &[Pair]) -> Markup {
    html! {
        div.answer {
            h3 { (figure.title) }
            @for pair in pairs { (verdict(page, figure, pair)) }
            @if let (true, Some(first)) = (pairs.is_empty(), point.systems.first()) {
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

fn verdict(page: &Page<'_>, figure: &Figure, pair: &Pair) -> Markup {
    let (found, [first, other]) = (&pair.found, &pair.names);
    let (ahead, behind) = if is_ahead(figure, found.ratio) { (first, other) } else { (other, first) };
    let factor = found.ratio.max(1.0 / found.ratio);
    // Between which factors, for whoever is ahead.
    let interval =
        found.interval.filter(|_| factor.is_finite()).map(|(low, high)| match found.ratio >= 1.0 {
            true => (low, high),
            false => (1.0 / high, 1.0 / low),
        });
    html! {
        @if found.judgement == Judgement::Same {
            p.said { "about the same" }
            p.who { (first) " and " (other) }
        } @else if !factor.is_finite() {
            // One of them is 0.
            p class=(format!("said {}", class(page.series(ahead)))) {
                (show(figure)(pair.medians[0])) ", and " (show(figure)(pair.medians[1]))
            }
            p.who { (first) ", and " (other) }
        } @else {
            p class=(format!("said {}", class(page.series(ahead)))) { (number::times(factor)) " " (word(figure)) }
            p.who { (ahead) ", beside " (behind) }
        }
        p.sure {
            @match (&pair.failed, found.judgement) {
                (Some(name), _) => span.unclear { "no verdict: a run of " (name) " failed" },
                (None, Judgement::TooFewRuns) => span.unclear { "too few runs to be sure" },
                (None, Judgement::Same) => span { "no difference past the noise" },
                (None, Judgement::Better | Judgement::Worse) => {
                    @if pair.is_sure { span.clear { "a clear difference" } } @else { span.unclear { "perhaps by chance" } }
                }
            }
            @if let Some((low, high)) = interval {
                ", bootstrap interval " (format!("{low:.2}–{high:.2} ×"))
            }
        }
    }
}

/// Of an experiment with several: the factors at all of them.
fn of_points(page: &Page<'_>, figure: &Figure, pairs: &[Pair]) -> Option<Markup> {
    let mut groups: Vec<(&[String; 2], Vec<&Pair>)> = Vec::new();
    for pair in pairs {
        match groups.iter_mut().find(|(names, _)| **names == pair.names) {
            Some((_, group)) => group.push(pair),
            None => groups.push((&pair.names, vec![pair])),
        }
    }
    (!groups.is_empty()).then(|| {
        html! {
            div.answer {
                h3 { (figure.title) }
                @for (names, group) in &groups { (range_of_factors(page, figure, names, group)) }
            }
        }
    })
}

fn range_of_factors(page: &Page<'_>, figure: &Figure, names: &[String; 2], pairs: &[&Pair]) -> Markup {
    let [first, other] = names;
    let factor = |pair: &Pair| match figure.better {
        Better::Higher => pair.found.ratio,
        Better::Lower => 1.0 / pair.found.ratio,
    };
    let factors: Vec<(f64, &str)> = pairs.iter().map(|pair| (factor(pair), &*pair.point)).collect();
    let ahead = factors.iter().filter(|(factor, _)| *factor > 1.0).count();
    // Of what is nothing on one side there is no factor.
    let known = || factors.iter().filter(|(factor, _)| *factor > 0.0 && factor.is_finite());
    let least = known().min_by(|one, other| one.0.total_cmp(&other.0));
    let most = known().max_by(|one, other| one.0.total_cmp(&other.0));
    let nothing = factors.len() - known().count();
    let is_sure = |judged: Judgement| {
        pairs.iter().filter(|pair| pair.found.judgement == judged && pair.is_sure).count()
    };
    let (better, worse) = (is_sure(Judgement::Better), is_sure(Judgement::Worse));
    let failed = pairs.iter().filter(|pair| pair.failed.is_some()).count();
    let has_runs = pairs.iter().any(|pair| pair.found.judgement != Judgement::TooFewRuns);
    html! {
        @if let (Some(least), Some(most)) = (least, most) {
            p class=(format!("said {}", class(page.series(first)))) {
                (number::times(least.0).trim_end_matches(" ×")) "–" (number::times(most.0)) " " (word(figure))
            }
        }
        p.who { (first) ", beside " (other) }
        @if let (Some(least), Some(most)) = (least, most) {
            p.sure { "least at " (least.1) ", most at " (most.1) }
        }
        @if failed > 0 { p.sure { span.unclear { "a run failed at " (failed) " of " (factors.len()) " points, of which nothing is clear" } } }
        @if nothing > 0 { p.sure { "one of the two is 0 at " (nothing) " of " (factors.len()) " points" } }
        p.sure {
            "ahead at " (ahead) " of " (factors.len()) " points"
            @if has_runs {
                ", clearly at " (better)
                @if worse > 0 { "; clearly behind at " (worse) }
            } @else {
                "; " span.unclear { "too few runs to be sure" }
            }
        }
    }
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
