//! On what it was measured, with what, how safely records were kept, and how to do it again.

use maud::{Markup, html};
use serde_json::Value;

use super::{Page, over_time};
use crate::mark::SHORT_MARK_BYTES;
use crate::report::{PointReport, Report, RunReport, SystemReport};

pub(super) fn section(page: &Page<'_>) -> Markup {
    let has_run = |point: &&PointReport| !point.systems.is_empty();
    html! {
        h2 { "How it was measured" }
        p { "What the figures hold for, and how to get them again." }
        dl.stamps {
            @for (what, report) in &page.sources {
                dt { (in_context("command", what)) } dd { code { (report.command) } }
                dt { (in_context("measured", what)) } dd { (when(report.began_ms)) ", by vltava " (report.version) }
                dt { (in_context("machine", what)) } dd { (value(&report.machine)) }
            }
            @if let Some(point) = page.report.points.iter().find(has_run) {
                dt { "workload" } dd { (point.workload.in_words()) }
                @for system in &point.systems { dt { (system.name) } dd { (set_up(system)) } }
                @for stamp in page.report.stamps() { dt { "what held" } dd { (stamp) } }
                dt { "records" } dd { (checked(page.report)) }
            }
            @if over_time::is_left_out(page.report) {
                dt { "seconds" } dd { "There are too many points to draw each second of them here; the JSON beside this page has them." }
            }
        }
        @if let Some(point) = page.report.points.iter().find(has_run) {
            details { summary { "All of the workload" } (value(&serde_json::to_value(&point.workload).unwrap_or_default())) }
            @for system in &point.systems {
                @if let Some(run) = system.runs.first().filter(|run| !run.settings.is_empty()) {
                    details {
                        summary { "Settings of the clients of " (system.name) }
                        (value(&Value::Object(run.settings.clone())))
                    }
                }
            }
        }
    }
}

fn in_context(what: &str, of: &str) -> String {
    if of.is_empty() { what.to_owned() } else { format!("{what}, {of}") }
}

/// Of all versions of a system, those that are known.
pub(super) fn version(report: &Report, name: &str) -> String {
    let systems = report.points.iter().flat_map(|point| &point.systems);
    systems.filter(|system| system.name == name).find_map(|system| system.version.clone()).unwrap_or_default()
}

/// A day and a time, the same everywhere.
pub(super) fn when(began_ms: u64) -> String {
    let time = i64::try_from(began_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map_or_else(
        || "at an unknown time".to_owned(),
        |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}

/// How much was run.
pub(super) fn runs(report: &Report) -> String {
    let systems = || report.points.iter().flat_map(|point| &point.systems);
    let counts = || systems().map(|system| system.runs.len());
    let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    let runs = if least == most { most.to_string() } else { format!("{least} to {most}") };
    let points = report.points.len();
    let of_points = if points > 1 { format!(" at each of {points} points") } else { String::new() };
    format!("{runs} {} of each system{of_points}", if most == 1 { "run" } else { "runs" })
}

/// Which it is, and how it was set up.
fn set_up(system: &SystemReport) -> Markup {
    let driver = &system.driver;
    html! {
        (system.version.as_deref().unwrap_or("version unknown"))
        "; "
        @if let Some(settings) = driver.settings_in_words() { code { (settings) } } @else { "its own settings" }
    }
}

/// What came of reading everything back: records without room for a mark are only counted.
fn checked(report: &Report) -> String {
    let runs: Vec<&RunReport> =
        report.points.iter().flat_map(|point| &point.systems).flat_map(|system| &system.runs).collect();
    let count = |is: &dyn Fn(&RunReport) -> bool| runs.iter().filter(|run| is(run)).count();
    let (all, fallen) = (runs.len(), count(&|run| !run.got_through()));
    let wrong = count(&|run| run.got_through() && run.wrong.is_some());
    let counted = count(&RunReport::is_counted);
    let mut said = Vec::new();
    if fallen > 0 {
        said.push(format!("{fallen} of {all} runs did not get through"));
    }
    if wrong > 0 {
        said.push(format!("in {wrong} of {all} runs records were not what was sent, or were given up"));
    } else if all > fallen {
        let runs =
            if fallen == 0 { format!("all {all} runs") } else { format!("the other {} runs", all - fallen) };
        said.push(match counted {
            0 => format!("{runs}: every record was read back, and none is missing, twice, out of order or changed"),
            _ if counted + fallen == all => format!("{runs}: every record was read back and counted; records \
                                                    of less than {SHORT_MARK_BYTES} bytes have no room for more"),
            _ => format!("{runs}: every record was read back, and none is missing, twice, out of order or changed; \
                         in {counted} of them they were only counted: records of less than {SHORT_MARK_BYTES} bytes \
                         have no room for more"),
        });
    }
    said.join("; ")
}

/// Whatever a stamp holds: fields under each other.
fn value(of: &Value) -> Markup {
    match of {
        Value::Object(fields) => html! {
            dl.stamps {
                @for (name, field) in fields.iter().filter(|(_, field)| !is_nothing(field)) {
                    dt { (name) } dd { (value(field)) }
                }
            }
        },
        Value::Array(all) => {
            html! { @for (at, one) in all.iter().enumerate() { @if at > 0 { ", " } (value(one)) } }
        }
        Value::Null => html! { "unknown" },
        other => html! { (crate::yaml::Shown(other)) },
    }
}

fn is_nothing(field: &Value) -> bool {
    match field {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}
