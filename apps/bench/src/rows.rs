//! Runs and their seconds as rows, for spreadsheets and scripts: CSV, with the names that the JSON has.

use anyhow::Result;
use serde_json::Value;

use crate::histogram::Quantiles;
use crate::load::Second;
use crate::report::{FIGURES, PointReport, Report, RunReport, SystemReport, costs};
use crate::resources::{Disk, Host, Usage};
use crate::yaml::Shown;

/// One row for each run: where it was, and each of its figures.
pub fn runs(report: &Report) -> Result<String> {
    let names = FIGURES.iter().map(|figure| figure.name).chain(costs().map(|(name, _)| name));
    let head = names.chain(["of_what_the_machine_can_do", "failed", "wrong"]);
    rows(report, head.map(str::to_owned).collect(), |run| {
        let figures = FIGURES.iter().map(|figure| figure.of(run)).chain(costs().map(|(_, of)| of(run)));
        let figures = figures.chain([run.share.map(|share| share.reached)]).map(said);
        vec![figures.chain([run.failed.to_string(), run.wrong.clone().unwrap_or_default()]).collect()]
    })
}

/// One row for each second of each run.
pub fn seconds(report: &Report) -> Result<String> {
    let counts =
        ["from", "to", "is_warmup", "written_records", "written_bytes", "read_records", "read_bytes"];
    let quantiles = ["response", "end_to_end"]
        .into_iter()
        .flat_map(|what| ["p50", "p99", "p999", "max"].map(|at| format!("{what}_{at}_ns")));
    let used = ["client", "broker"].into_iter().flat_map(|who| {
        ["cpu_seconds", "rss_bytes", "disk_written_bytes", "disk_read_bytes"]
            .map(|what| format!("{who}_{what}"))
    });
    let host = OF_HOST.iter().map(|(name, _)| (*name).to_owned());
    let disk = OF_DISK.iter().map(|(name, _)| (*name).to_owned());
    let head = counts.map(str::to_owned).into_iter().chain(quantiles).chain(used).chain(host).chain(disk);
    rows(report, head.collect(), |run| run.seconds.iter().map(second).collect())
}

/// A column: what it is called, and what is in it.
type Column<T> = (&'static str, fn(&T) -> f64);

/// What the whole machine did in a second.
const OF_HOST: [Column<Host>; 6] = [
    ("host_cpu_seconds", |host| host.cpu_seconds),
    ("host_steal_seconds", |host| host.steal_seconds),
    ("host_context_switches", |host| host.context_switches as f64),
    ("loopback_bytes", |host| host.loopback_bytes as f64),
    ("network_in_bytes", |host| host.network_in_bytes as f64),
    ("network_out_bytes", |host| host.network_out_bytes as f64),
];

/// What the disk did that the brokers' data is on.
const OF_DISK: [Column<Disk>; 3] = [
    ("disk_busy_seconds", |disk| disk.busy_seconds),
    ("disk_flushes", |disk| disk.flushes as f64),
    ("disk_flush_seconds", |disk| disk.flush_seconds),
];

fn second(second: &Second) -> Vec<String> {
    let mut row = vec![second.from.to_string(), second.to.to_string(), second.is_warmup.to_string()];
    for counts in [second.written, second.read] {
        row.extend([counts.records.to_string(), counts.bytes.to_string()]);
    }
    for found in [second.response_ns, second.end_to_end_ns] {
        let of = |at: fn(&Quantiles) -> u64| said(found.as_ref().map(at));
        row.extend([of(|q| q.p50), of(|q| q.p99), of(|q| q.p999), of(|q| q.max)]);
    }
    for used in [Some(second.used.client), second.used.brokers] {
        let of = |what: fn(&Usage) -> u64| said(used.as_ref().map(what));
        row.push(said(used.map(|used| used.cpu_seconds)));
        row.extend([of(|u| u.rss_bytes), of(|u| u.disk_written_bytes), of(|u| u.disk_read_bytes)]);
    }
    row.extend(OF_HOST.iter().map(|(_, of)| said(second.used.host.as_ref().map(of))));
    let disk = second.used.host.and_then(|host| host.disk);
    row.extend(OF_DISK.iter().map(|(_, of)| said(disk.as_ref().map(of))));
    row
}

/// What is not known is empty.
fn said<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Rows of each run, behind where the run was: experiment, values of the lists, system, number of the run.
fn rows(report: &Report, head: Vec<String>, of: impl Fn(&RunReport) -> Vec<Vec<String>>) -> Result<String> {
    let mut fields: Vec<&String> = Vec::new();
    for field in report.points.iter().flat_map(|point| point.at.keys()) {
        if !fields.contains(&field) {
            fields.push(field);
        }
    }
    let mut csv = csv::Writer::from_writer(Vec::new());
    let place = fields.iter().map(|field| (*field).clone());
    let first = ["name".to_owned()].into_iter().chain(place).chain(["system".to_owned(), "run".to_owned()]);
    csv.write_record(first.chain(head))?;
    for (point, system, number, run) in each_run(report) {
        let value = |field: &&String| point.at.get(*field).map(|value: &Value| Shown(value).to_string());
        for row in of(run) {
            let values = fields.iter().map(|field| value(field).unwrap_or_default());
            let place = [report.name.clone()].into_iter().chain(values);
            csv.write_record(place.chain([system.name.clone(), number.to_string()]).chain(row))?;
        }
    }
    Ok(String::from_utf8(csv.into_inner()?)?)
}

/// Every run with where it was and its number, from 1 on.
pub(crate) fn each_run(
    report: &Report,
) -> impl Iterator<Item = (&PointReport, &SystemReport, usize, &RunReport)> {
    let systems =
        report.points.iter().flat_map(|point| point.systems.iter().map(move |system| (point, system)));
    systems.flat_map(|(point, system)| {
        system.runs.iter().enumerate().map(move |(at, run)| (point, system, at + 1, run))
    })
}
