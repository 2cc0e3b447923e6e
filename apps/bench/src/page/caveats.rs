//! What makes the figures less than they seem: first, since whoever reads one figure reads only that.

use maud::{Markup, html};

use super::Page;
use crate::report::{FIGURES, Report};
use crate::statistics::{RUNS_MIN, Spread};
use crate::workload::Pace;

/// Runs of one system that differ by more than this share are worth a word.
const NOISE: f64 = 0.15;

/// How grave it is, by the name of its looks.
type Caveat = (&'static str, String);

const WRONG: &str = "wrong";
const WARN: &str = "warn";
const KNOWN: &str = "known";

pub(super) fn list(page: &Page<'_>) -> Markup {
    let report = page.report;
    let mut caveats: Vec<Caveat> = report.wrong().into_iter().map(|wrong| (WRONG, wrong)).collect();
    if report.is_quick {
        let text = "Short form: smaller than what was published. Compare the systems with each other, and not with \
                    what was published.";
        caveats.push((WARN, text.to_owned()));
    }
    caveats.extend(few_runs(report));
    caveats.extend(noise(report));
    caveats.extend(page.notes.iter().cloned().chain(report.remarks()).map(|note| (WARN, note)));
    if let Some(published) = &report.published {
        let text =
            format!("Published: {} — {}; on {}.", published.result, published.source, published.hardware);
        caveats.push((KNOWN, text));
    }
    let is_full_speed = |workload: &crate::workload::Workload| {
        workload.rate == Pace::Max && workload.search.is_none() && !workload.one_at_a_time && !workload.stored
    };
    if report.points.iter().any(|point| !point.systems.is_empty() && is_full_speed(&point.workload)) {
        let text = "At full speed records wait in line: how long until they are acknowledged is the length of that \
                    line, and says little of a system.";
        caveats.push((KNOWN, text.to_owned()));
    }
    html! {
        @if !caveats.is_empty() {
            ul.caveats { @for (looks, text) in &caveats { li class=(looks) { (text) } } }
        }
    }
}

fn few_runs(report: &Report) -> Option<Caveat> {
    let systems = || report.points.iter().flat_map(|point| &point.systems);
    let least = systems().map(|system| system.runs.len()).min()?;
    let is_compared = report.points.iter().any(|point| point.systems.len() > 1);
    let runs = if least == 1 { "one run".to_owned() } else { format!("{least} runs") };
    (is_compared && least < RUNS_MIN).then(|| {
        (
            WARN,
            format!(
                "With {runs} of each there is no verdict: a difference may be chance. It takes {RUNS_MIN}."
            ),
        )
    })
}

/// The system whose runs differ most.
fn noise(report: &Report) -> Option<Caveat> {
    let mut most: Option<(f64, String)> = None;
    for point in &report.points {
        for system in &point.systems {
            for figure in
                FIGURES.iter().filter(|figure| figure.is_rate() && figure.says_something(&point.workload))
            {
                let Some(spread) = Spread::of(&system.values(figure)) else { continue };
                if spread.relative() > most.as_ref().map_or(NOISE, |(share, _)| *share) {
                    let place = format!("{} {}", system.name, point.label());
                    most = Some((spread.relative(), format!("{}: {}", place.trim_end(), figure.title)));
                }
            }
        }
    }
    let (share, place) = most?;
    Some((
        WARN,
        format!(
            "Runs of the same differ by up to {:.0} % ({place}): the machine was not quiet.",
            share * 100.0
        ),
    ))
}
