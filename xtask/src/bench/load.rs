//! The load: Kafka's own programs, the same against both brokers.

use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::broker::Site;
use super::leftovers::kill_group;
use super::process::rss_peak_mib as rss_peak_mib_of;

/// Slower than this, something hangs.
const RECORDS_PER_SECOND_MIN: u64 = 5_000;
/// What a program needs to start and to end.
const START_TIME_MAX: Duration = Duration::from_secs(60);
/// From one look at the memory of a program to the next.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The heap of Kafka's own scripts for these programs.
const JAVA_OPTIONS: &str = "-Xmx512M -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 \
    -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent -XX:MaxInlineLevel=15 \
    -Djava.awt.headless=true";

/// What is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Payload<'a> {
    /// Letters by chance, this many a record.
    Random(u64),
    /// The lines of a file: quicker, where the time to make up letters would be all the time.
    File(&'a Path),
}

/// A line of ProducerPerformance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Produced {
    pub(super) records_per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// The most memory that its process had.
    pub(super) rss_peak_mib: f64,
    /// When it said so.
    pub(super) ended: Instant,
}

/// Writes records with ProducerPerformance.
pub(super) fn produce(
    site: &Site,
    to: SocketAddr,
    topic: &str,
    (records, warm_up): (u64, u64),
    payload: Payload<'_>,
    properties: &[&str],
) -> Result<Produced> {
    let mut command = Command::new(site.kafka.join("tool"));
    command.args(["ProducerPerformance", "--bootstrap-server", &to.to_string(), "--topic", topic]);
    command.args(["--num-records", &records.to_string(), "--throughput", "-1"]);
    match payload {
        Payload::Random(bytes) => command.args(["--record-size", &bytes.to_string()]),
        Payload::File(path) => command.arg("--payload-file").arg(path),
    };
    if warm_up > 0 {
        command.args(["--warmup-records", &warm_up.to_string()]);
    }
    command.arg("--command-property").args(properties);
    let said = output(site, &mut command, records)?;
    let line = |what: &str| {
        let line = said.out.lines().find(|line| line.starts_with(what) && line.contains("99.9th"));
        line.with_context(|| format!("no line of {what}:\n{}", said.out))
    };
    let all = line(&format!("{records} records sent,"))?;
    let counted = match records - warm_up {
        _ if warm_up == 0 => all,
        counted => line(&format!("{counted} steady state records sent,"))?,
    };
    produced(counted, &said).with_context(|| format!("cannot read {counted}"))
}

/// Reads `20 records sent, 1.5 records/sec (0.1 MB/sec), 2.0 ms avg latency, …, 1 ms 50th, …, 3 ms 99th, …`.
fn produced(line: &str, said: &Said) -> Option<Produced> {
    let before = |unit: &str| {
        let part = line.split(", ").find(|part| part.contains(unit))?;
        part.split(' ').next()?.parse().ok()
    };
    Some(Produced {
        records_per_second: before("records/sec")?,
        p50_ms: before(" ms 50th")?,
        p99_ms: before(" ms 99th")?,
        rss_peak_mib: said.rss_peak_mib,
        ended: said.ended,
    })
}

/// A program of ours that uses Kafka's consumer.
pub(super) struct Consumer {
    classpath: String,
    class: &'static str,
}

impl Consumer {
    /// Compiles one of those in `xtask/src/bench/java` against Kafka's jars.
    pub(super) fn compile(site: &Site, root: &Path, class: &'static str) -> Result<Self> {
        let libs = kafka_home(site)?.join("libs").join("*");
        let classes = site.dir.join("classes");
        let mut javac = Command::new("javac");
        javac.arg("-cp").arg(&libs).arg("-d").arg(&classes);
        javac.arg(root.join("xtask/src/bench/java").join(class).with_extension("java"));
        let done = javac.status().context("javac is needed, of a JDK 17 or newer")?;
        ensure!(done.success(), "{class} does not compile");
        Ok(Self { classpath: format!("{}:{}", libs.display(), classes.display()), class })
    }

    /// What it prints when it is started with these words, and has to do with so many records.
    pub(super) fn run(&self, site: &Site, words: &[&str], records: u64) -> Result<String> {
        let mut command = Command::new("java");
        command.args(JAVA_OPTIONS.split_whitespace()).args(["-cp", &self.classpath, self.class]).args(words);
        Ok(output(site, &mut command, records)?.out)
    }
}

/// Where Kafka's jars are.
pub(super) fn kafka_home(site: &Site) -> Result<PathBuf> {
    let asked = Command::new(site.kafka.join("install")).stderr(Stdio::inherit()).output()?;
    ensure!(asked.status.success(), "Kafka's script `install` failed");
    Ok(String::from_utf8(asked.stdout)?.trim().into())
}

/// What a program printed.
pub(super) struct Said {
    pub(super) out: String,
    /// The most memory that its process had, as last seen before it ended.
    pub(super) rss_peak_mib: f64,
    /// When it printed the last of it.
    pub(super) ended: Instant,
}

/// What a program prints; an error if it fails, complains or hangs.
pub(super) fn output(site: &Site, command: &mut Command, records: u64) -> Result<Said> {
    let time_max = START_TIME_MAX + Duration::from_secs(records / RECORDS_PER_SECOND_MIN);
    let mut child = site.leftovers.spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let group = child.id();
    let mut out = child.stdout.take().context("the output is a pipe")?;
    let mut err = child.stderr.take().context("the error output is a pipe")?;
    let (to_main, said) = channel();
    std::thread::spawn(move || {
        let complaints = std::thread::spawn(move || text(&mut err));
        let out = text(&mut out);
        let complaints = complaints.join().unwrap_or_else(|_| (String::new(), Instant::now()));
        // Nobody listens any more if it took too long.
        let _ = to_main.send((out, complaints));
    });
    let (since, mut rss_peak_mib) = (Instant::now(), 0.0);
    let ((out, ended), (complaints, _)) = loop {
        match said.recv_timeout(LOOK_EVERY) {
            Ok(said) => break said,
            Err(_) if since.elapsed() < time_max => {
                // One that has just ended has no memory to tell of.
                rss_peak_mib = rss_peak_mib_of(group).unwrap_or(rss_peak_mib);
            }
            Err(_) => {
                kill_group(group);
                child.wait()?;
                bail!("{:?} did not end within {} s", command.get_program(), time_max.as_secs());
            }
        }
    };
    let status = child.wait()?;
    site.leftovers.ended(group)?;
    ensure!(status.success(), "the load failed: {status}\n{out}\n{complaints}");
    // A record that is lost is an exception there and nothing in the result.
    ensure!(!complaints.contains("Exception"), "the load complains:\n{complaints}");
    Ok(Said { out, rss_peak_mib, ended })
}

/// All that comes, and when the last of it came.
fn text(from: &mut impl Read) -> (String, Instant) {
    let (mut bytes, mut ended, mut chunk) = (Vec::new(), Instant::now(), [0; 4096]);
    // What was said before an error is still worth showing.
    loop {
        match from.read(&mut chunk) {
            Ok(count @ 1..) => {
                ended = Instant::now();
                bytes.extend_from_slice(&chunk[..count]);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => break,
        }
    }
    (String::from_utf8_lossy(&bytes).into_owned(), ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_read() {
        let line = "2000000 records sent, 98202.887165 records/sec (9.37 MB/sec), 816.75 ms avg latency, \
            2285.00 ms max latency, 801 ms 50th, 2024 ms 95th, 2232 ms 99th, 2272 ms 99.9th.";
        let said = Said { out: String::new(), rss_peak_mib: 9.5, ended: Instant::now() };
        let wanted = Produced {
            records_per_second: 98202.887165,
            p50_ms: 801.0,
            p99_ms: 2232.0,
            rss_peak_mib: 9.5,
            ended: said.ended,
        };
        assert_eq!(produced(line, &said), Some(wanted));
        assert_eq!(produced("nothing", &said), None);
    }
}
