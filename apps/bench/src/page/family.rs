//! The page of several benchmarks together: how the systems are to each other in each of them, and to what was
//! published.
//!
//! ```text
//!   headlines ─▶ by unit ─┬─▶ the first system beside the others     1 is: the same
//!                         └─▶ each system beside what was published  1 is: as published
//! ```
//!
//! Rates of different benchmarks have no axis in common, and factors have: in each, more is better.

use maud::{Markup, html};

use super::{axis, document, legend, place, show, table};
use crate::name::in_a_name;
use crate::plot::{Bar, Bars, Mark, Scale, number};
use crate::report::{Headline, Summary, Unit};
use crate::statistics::{Better, Judgement, MATTERS, RUNS_MIN, Spread, compare};

/// The units that charts are of, in the order of the page.
const UNITS: [Unit; 6] =
    [Unit::PerSecond, Unit::MibPerSecond, Unit::Nanoseconds, Unit::Share, Unit::Bytes, Unit::Records];

/// The page of several benchmarks, beside the pages of each.
pub fn family(summary: &Summary) -> String {
    let systems = systems(summary);
    let charts: Vec<Bars> = UNITS
        .iter()
        .flat_map(|unit| [beside(summary, &systems, *unit), published(summary, &systems, *unit)])
        .flatten()
        .collect();
    let body = html! {
        header {
            h1 { (summary.name()) }
            p.about { (summary.about()) }
            (legend(&systems, |_| String::new()))
        }
        main {
            (caveats(summary))
            @if !charts.is_empty() {
                h2 { "The main picture" }
                p {
                    "One figure of each benchmark, by its median: the one that was published, else the first of its page; where "
                    "the rate was set, of how long it took."
                }
                div.charts { @for chart in &charts { (chart.figure()) } }
            }
            (members(summary))
            @if !summary.table().is_empty() {
                h2 { "All of them" }
                p { "Medians; the ratio is how many times as good the first system is, by the figure that is told first." }
                (table(&summary.table()))
            }
        }
        footer { "Made by vltava bench." }
    };
    document(summary.name(), &body).into_string()
}

/// By their places their colours are given.
fn systems(summary: &Summary) -> Vec<&str> {
    let mut systems = Vec::new();
    for (name, _) in summary.headlines().iter().flat_map(|headline| &headline.systems) {
        if !systems.contains(&&**name) {
            systems.push(&**name);
        }
    }
    systems
}

fn caveats(summary: &Summary) -> Markup {
    let mut caveats: Vec<(&str, String)> =
        summary.failures().iter().map(|(name, why)| ("wrong", format!("{name} failed: {why}"))).collect();
    if summary.is_quick() {
        let text = "Short forms: smaller than what was published. Compare the systems with each other, and not with \
                    what was published.";
        caveats.push(("warn", text.to_owned()));
    }
    caveats.extend(summary.scaled().map(|note| ("warn", note)));
    if pairs(summary).any(|(_, _, _, judgement)| judgement == Judgement::TooFewRuns) {
        let text = format!(
            "With fewer than {RUNS_MIN} runs of each there is no verdict: a difference may be chance."
        );
        caveats.push(("warn", text));
    }
    html! {
        @if !caveats.is_empty() {
            ul.caveats { @for (looks, text) in &caveats { li class=(looks) { (text) } } }
        }
    }
}

/// Each system beside the first one: how many times as good that is, and how sure it is.
fn pairs(summary: &Summary) -> impl Iterator<Item = (&Headline, &str, f64, Judgement)> {
    summary.headlines().iter().flat_map(|headline| {
        let of_others = headline.systems.iter().skip(1).filter_map(|(name, values)| {
            let (_, first) = headline.systems.first()?;
            let found = compare(values, first, headline.figure.better, MATTERS)?;
            Some((headline, &**name, good(headline, found.ratio), found.judgement))
        });
        of_others.collect::<Vec<_>>()
    })
}

/// How many times as good something is that is so many times as much.
fn good(headline: &Headline, ratio: f64) -> f64 {
    if headline.figure.better == Better::Higher { ratio } else { 1.0 / ratio }
}

/// What a bar is about.
fn group(headline: &Headline) -> String {
    let place = format!("{} {}", headline.name, headline.point);
    format!("{}: {}", place.trim_end(), headline.figure.title)
}

/// The first system beside the others, in all benchmarks whose headline has this unit.
fn beside(summary: &Summary, systems: &[&str], unit: Unit) -> Option<Bars> {
    let first = systems.first()?;
    let bars = pairs(summary).filter(|(headline, _, factor, _)| {
        headline.figure.unit == unit && factor.is_finite() && headline.systems[0].0 == *first
    });
    let bar = |(headline, other, factor, _): (&Headline, &str, f64, Judgement)| Bar {
        group: group(headline),
        series: place(systems, first),
        name: format!("to {other}"),
        values: vec![factor],
        said: number::times(factor),
    };
    let title = format!("{}: {first} beside the others", title(unit));
    chart(title, "How many times as good it is", "the same", bars.map(bar).collect())
}

/// Each system beside what was published, in all benchmarks whose headline has this unit.
fn published(summary: &Summary, systems: &[&str], unit: Unit) -> Option<Bars> {
    let mut bars = Vec::new();
    for headline in summary.headlines().iter().filter(|headline| headline.figure.unit == unit) {
        let Some(published) = headline.published.filter(|published| *published > 0.0) else { continue };
        for (name, values) in &headline.systems {
            let factors = values.iter().filter(|value| **value > 0.0);
            let factors: Vec<f64> = factors.map(|value| good(headline, value / published)).collect();
            let (Some(factor), Some(value)) = (Spread::of(&factors), Spread::of(values)) else { continue };
            bars.push(Bar {
                group: group(headline),
                series: place(systems, name),
                name: name.clone(),
                said: format!("{} ({})", number::times(factor.median), show(headline.figure)(value.median)),
                values: factors,
            });
        }
    }
    let title = format!("{}: beside what was published", title(unit));
    chart(title, "How many times as good each is, on other machines than those", "published", bars)
}

fn chart(title: String, about: &str, same: &str, bars: Vec<Bar>) -> Option<Bars> {
    let mark = Mark { value: 1.0, label: same.to_owned() };
    let scale = Scale::from_zero(bars.iter().flat_map(|bar| bar.values.iter().copied()).chain([mark.value]));
    (!bars.is_empty()).then(|| Bars {
        title,
        about: about.to_owned(),
        axis: axis("times, more is better", scale, number::plain),
        bars,
        mark: Some(mark),
    })
}

const fn title(unit: Unit) -> &'static str {
    match unit {
        Unit::PerSecond => "Records a second",
        Unit::MibPerSecond => "MiB a second",
        Unit::Nanoseconds => "Latency",
        Unit::Share => "Shares",
        Unit::Bytes => "Memory",
        Unit::Records => "Records",
    }
}

/// Each benchmark, with the way to its own page.
fn members(summary: &Summary) -> Markup {
    html! {
        @if !summary.members().is_empty() {
            h2 { "Each of them" }
            p { "Its page has every figure, every run and every second, and how it was measured." }
            dl.stamps {
                @for member in summary.members() {
                    dt { a href=(format!("./{}.html", in_a_name(&member.name))) { (member.name) } }
                    dd { (member.about) @if let Some(published) = &member.published { " Published: " (published) "." } }
                }
            }
        }
    }
}
