//! How long nobody acknowledges when a broker goes, by the program that does it to clusters.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Bench;
use super::broker::{ACK, KAFKA, OS, Side, Site};
use super::clients::number;
use super::figures::{Bound, Measure, Section};
use super::load::output;
use super::options::Part;

/// How long a round may take at most, and what comes before and after all of them.
const SECONDS_OF_ROUND: u64 = 150;
/// By this the time limit of a load is given, as so many records a second.
const RECORDS_PER_SECOND_MIN: u64 = 5_000;

const KILLED: &str = "kill -9 of a leader";
const SILENT: &str = "leader cut off in silence";
const CONTROLLER: &str = "kill -9 of the controller";
const BESIDE: &str = "kill -9 of the controller: led by others";
const COMMAND: &str = "kill -9 of the controller: a command";
const ROLLING: &str = "rolling restart";

/// What is done by one run of the program.
#[derive(Debug, Clone, Copy)]
struct Blow {
    /// As the program calls it.
    words: &'static str,
    /// As its report does.
    kinds: &'static [&'static str],
    /// One round of so many that kill a leader: ours, and Kafka's, which take much longer.
    of_rounds: (u32, u32),
}

const BLOWS: [Blow; 4] = [
    Blow { words: "kill", kinds: &[KILLED], of_rounds: (1, 5) },
    Blow { words: "silent", kinds: &[SILENT], of_rounds: (5, 10) },
    Blow { words: "controller", kinds: &[CONTROLLER, BESIDE, COMMAND], of_rounds: (5, 10) },
    Blow { words: "rolling", kinds: &[ROLLING], of_rounds: (6, 15) },
];

/// Row and name in the report.
const TIMES: [(&str, &str); 3] = [("p50", "p50_ms"), ("p99", "p99_ms"), ("most", "max_ms")];
const HIT: &str = "hit";
const NOT_ACKNOWLEDGED: &str = "sent and not acknowledged";
const NEVER: &str = "in all of it not acknowledging again before the next blow";
const WRONG: &str = "in all of it lost, duplicated, reordered or otherwise wrong";

const SIDES: [Side; 3] = [Side::Vltava("ack"), Side::Vltava("os"), Side::Kafka];

/// Measures what a failure costs.
pub(super) fn failover(bench: &Bench) -> Result<Vec<Section>> {
    let torture = bench.site.torture.as_deref().context("torture is not built")?;
    install_kafka(bench)?;
    bench.site.leftovers.cleaned_by(torture)?;
    let mut section = section(bench);
    let mut sums = [(0.0, 0.0); SIDES.len()];
    for blow in BLOWS {
        for (side, (never, all_wrong)) in SIDES.into_iter().zip(&mut sums) {
            let report = dealt(&bench.site, torture, side, blow, rounds(bench, side, blow))?;
            *never += note(bench, &mut section, side, blow, &report)?;
            *all_wrong += wrong(&report)?;
        }
    }
    for (side, (never, all_wrong)) in SIDES.into_iter().zip(sums) {
        section.add(side.column(), NEVER, never);
        section.add(side.column(), WRONG, all_wrong);
    }
    for column in [ACK, OS] {
        section.want(column, &row(KILLED, "p50"), Bound::AtMost(1000.0));
        section.want(column, &row(KILLED, "p99"), Bound::AtMost(2000.0));
        section.want(column, &row(SILENT, "most"), Bound::AtMost(3000.0));
        section.want(column, &row(CONTROLLER, "most"), Bound::AtMost(1500.0));
        section.want(column, &row(COMMAND, "most"), Bound::AtMost(1500.0));
        section.want(column, &row(ROLLING, "most"), Bound::AtMost(200.0));
        section.want(column, &row(ROLLING, NOT_ACKNOWLEDGED), Bound::AtMost(0.0));
        section.want(column, NEVER, Bound::AtMost(0.0));
        section.want(column, WRONG, Bound::AtMost(0.0));
    }
    Ok(vec![section])
}

/// What Kafka's brokers are started from there.
fn install_kafka(bench: &Bench) -> Result<()> {
    let script = bench.root.join("tests/conformance/install.sh");
    let done = Command::new(&script).arg("kafka").status();
    let done = done.with_context(|| format!("cannot run {}", script.display()))?;
    ensure!(done.success(), "{} kafka failed", script.display());
    Ok(())
}

fn rounds(bench: &Bench, side: Side, blow: Blow) -> u32 {
    let (ours, kafka) = blow.of_rounds;
    bench.options.rounds.div_ceil(if side == Side::Kafka { kafka } else { ours })
}

/// Deals a blow so often; the program's report.
fn dealt(site: &Site, torture: &Path, side: Side, blow: Blow, rounds: u32) -> Result<Value> {
    let out = site.dir.join(format!("torture-{}", blow.words));
    std::fs::create_dir_all(&out)?;
    let report = out.join("report.json");
    let (system, flush) = match side {
        Side::Vltava(policy) => ("vltava", policy),
        Side::Kafka => ("kafka", "os"),
    };
    let mut command = Command::new(torture);
    command.args(["run", "failover", "--without-librdkafka", "--system", system, "--flush", flush]);
    command.args(["--blows", blow.words, "--rounds", &rounds.to_string(), "--out"]).arg(&out);
    command.env("VLTAVA_BIN", &site.vltava);
    let time_max = SECONDS_OF_ROUND * u64::from(rounds + 2);
    let ran = output(site, &mut command, time_max * RECORDS_PER_SECOND_MIN);
    let Ok(said) = std::fs::read(&report) else {
        ran?;
        anyhow::bail!("{} left no report", torture.display());
    };
    // What it found wrong is in there, too.
    let told = serde_json::from_slice(&said).with_context(|| format!("{} is not sound", report.display()))?;
    std::fs::remove_dir_all(&out)?;
    Ok(told)
}

/// Takes the times down; how many partitions have none because they did not come back in time.
fn note(bench: &Bench, section: &mut Section, side: Side, blow: Blow, report: &Value) -> Result<f64> {
    let (column, mut all_never) = (side.column(), 0.0);
    for kind in blow.kinds {
        let times = report.get("failovers").and_then(|kinds| kinds.get(kind));
        let Some(times) = times else { continue };
        let never = number(times, &["never"])?;
        all_never += never;
        let count = number(times, &["count"])?;
        section.add(column, &row(kind, HIT), count + never);
        if count == 0.0 {
            bench.say(Part::Failover, 0, column, &format!("{kind}: no partition came back"));
            continue;
        }
        for (time, name) in TIMES {
            section.add(column, &row(kind, time), number(times, &[name])?);
        }
        let of = |name| number(times, &[name]);
        let said =
            format!("{kind}: p50 {} ms, p99 {} ms, most {} ms", of("p50_ms")?, of("p99_ms")?, of("max_ms")?);
        bench.say(Part::Failover, 0, column, &said);
    }
    let sent = number(report, &["counts", "sent"])?;
    let acknowledged = number(report, &["counts", "acknowledged"])?;
    section.add(column, &row(blow.kinds[0], NOT_ACKNOWLEDGED), sent - acknowledged);
    Ok(all_never)
}

/// How much of it there is; what it was is said at once.
fn wrong(report: &Value) -> Result<f64> {
    let findings = report.get("findings").and_then(Value::as_array).context("no findings")?;
    let anomalies = report.get("anomalies").and_then(Value::as_object).context("no anomalies")?;
    findings.iter().for_each(|finding| eprintln!("wrong: {finding}"));
    let mut count = findings.len() as f64;
    for (kind, found) in anomalies {
        eprintln!("wrong: {kind}: {found}");
        count += number(found, &["count"])?;
    }
    Ok(count)
}

fn row(kind: &str, what: &str) -> String {
    format!("{kind}, {what}")
}

fn section(bench: &Bench) -> Section {
    let mut rows = Vec::new();
    for blow in BLOWS {
        for kind in blow.kinds {
            rows.extend(TIMES.map(|(time, _)| Measure::new(&row(kind, time), "ms", 0)));
            let of = if *kind == COMMAND { "commands" } else { "partitions" };
            rows.push(Measure::of_noise(&row(kind, HIT), of, 0));
        }
        rows.push(Measure::of_noise(&row(blow.kinds[0], NOT_ACKNOWLEDGED), "records", 0));
    }
    rows.push(Measure::of_noise(NEVER, "partitions", 0));
    rows.push(Measure::of_noise(WRONG, "times", 0));
    let times = BLOWS.map(|blow| {
        let of = |side| rounds(bench, side, blow);
        format!("{} {} and {} times", blow.kinds[0], of(SIDES[0]), of(Side::Kafka))
    });
    let about = format!(
        "Needs root. Three brokers, each in a network namespace and on a disk of its own; two producers of ours, idempotent with \
         acks=all, write 800 records a second each into four partitions, two readers follow; `torture run failover \
         --blows BLOW` of `docs/operate/torture.md`, once for each column and what is done: {} to ours and to Kafka. \
         A time is a partition's: from the last acknowledgement by the old leader to the first by the new one; for a \
         rolling restart the longest silence of every partition, whoever leads it, from the first SIGTERM until all \
         replicas are in sync after the third. Each round begins when all replicas are in sync. *Led by others* are partitions that the killed controller did \
         not lead; *a command* is a setting of a topic, given to the brokers that are left right after the kill and again whenever it fails, until one says that it is done. At the end every replica is read and compared with what producers and readers were told. Kafka \
         has the defaults of its brokers (`broker.session.timeout.ms` 9 s; ours 2 s), and 320 MiB of heap each.",
        times.join(", ")
    );
    Section::new(Part::Failover, ("Failover", about), &[ACK, OS, KAFKA], rows)
}
