//! Starts one test program, watches it, and counts its tests.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};

use super::build::{Program, cargo, released};
use super::node::Node;
use super::report::Outcome;

/// How much longer than it should a program may take before it is ended: longer than a long seed takes twice on a
/// machine that is busy.
const SLACK: Duration = Duration::from_secs(240);

/// When a program's output is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// Line by line, as it comes, with this before each line: for programs that take minutes, beside others.
    Live(&'static str),
    /// Whole, and only if a test failed.
    OnFailure,
}

/// Runs a test program where its tests expect to be.
pub(super) fn program(
    root: &Path,
    program: &Program,
    filter: &[&str],
    environment: &[(&str, &str)],
    (time_max, output): (Duration, Output),
) -> Outcome {
    println!("── {}", program.title());
    let mut command = Command::new(&program.path);
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder).args(filter);
    command.envs(environment.iter().copied());
    if matches!(output, Output::Live(_)) {
        // What a long test says of itself, above all that it cannot run here, is worth reading.
        command.arg("--nocapture");
    }
    watched(root, command, time_max, output)
}

/// Simulates new seeds for a while, each of them twice. The clock says where they begin, so that every
/// run sees others. `world` names the world that they are to be played in, unless it is the first one.
pub(super) fn seeds(root: &Path, time: Duration, world: &[&str]) -> Outcome {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let from = since_epoch.as_millis().to_string();
    println!("── simulation: {} seeds from {from}", world.concat());
    let started = Instant::now();
    let mut command = Command::new(released(root, "vltava-sim"));
    command.current_dir(root);
    command.args(world).args(["--twice", "--seconds", &time.as_secs().to_string(), "--from", &from]);
    Outcome::of_check(to_end(command, time), started)
}

/// What a program says to be run to see a failure again: worth repeating where the run ends.
const AGAIN: &str = "again: ";

/// Runs a program that ends by itself after about that time, and fails if it fails or hangs.
pub(super) fn to_end(command: Command, time: Duration) -> Result<()> {
    let mut count = Count::default();
    match finish(command, time + SLACK, Output::Live("simulation"), &mut count)? {
        End::Exit { success: true } => Ok(()),
        End::Exit { success: false } => Err(not_done("it failed", count.again)),
        End::Hung => Err(not_done("it does not end", count.again)),
    }
}

fn not_done(what: &str, again: Option<String>) -> anyhow::Error {
    match again {
        Some(again) => anyhow!("{what}; again: {again}"),
        None => anyhow!("{what}: see above"),
    }
}

/// Where examples in documentation find a broker. Without it they do nothing.
const BOOTSTRAP: &str = "VLTAVA_BOOTSTRAP";

/// Runs the examples in the documentation of the crates: against a node, if its binary was built.
pub(super) fn doc_tests(root: &Path, has_binary: bool, time_max: Duration) -> Outcome {
    println!("── examples in documentation");
    let started = Instant::now();
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--doc", "--quiet"]);
    if !has_binary {
        return watched(root, command, time_max, Output::OnFailure);
    }
    match Node::start(root) {
        Ok(node) => {
            command.env(BOOTSTRAP, node.address().to_string());
            watched(root, command, time_max, Output::OnFailure)
        }
        Err(error) => Outcome::of_step(Err(error), started),
    }
}

fn watched(root: &Path, mut command: Command, time_max: Duration, output: Output) -> Outcome {
    let started = Instant::now();
    // The error of a test has its words from the test: where it was made tells nobody anything. A property that fails
    // panics hundreds of times until it is small, which takes ten minutes with a backtrace each time.
    command.env("VLTAVA_BIN", released(root, "vltava")).env("RUST_BACKTRACE", "0");
    let mut count = Count::default();
    let (failed, note) = match finish(command, time_max, output, &mut count) {
        // A program may die without a word about the test that killed it.
        Ok(End::Exit { success }) => (if success { count.failed } else { count.failed.max(1) }, count.note()),
        Ok(End::Hung) => {
            count.end_early();
            let hung = format!("did not end within {} s and was killed", time_max.as_secs());
            let notes: Vec<String> = std::iter::once(hung).chain(count.note()).collect();
            (count.failed + 1, Some(notes.join("; ")))
        }
        Err(error) => return Outcome::of_step(Err(error), started),
    };
    Outcome { passed: count.passed, failed, time: started.elapsed(), note, why: count.why.lines }
}

enum End {
    Exit { success: bool },
    Hung,
}

fn finish(mut command: Command, time_max: Duration, output: Output, count: &mut Count) -> Result<End> {
    let deadline = Instant::now() + time_max;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let lines = lines_of(&mut child)?;
    let mut kept = Vec::new();
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                count.read(&line);
                match output {
                    Output::Live(name) => println!("{name:11} │ {line}"),
                    Output::OnFailure => kept.push(line),
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                child.kill()?;
                child.wait()?;
                kept.iter().for_each(|line| println!("{line}"));
                return Ok(End::Hung);
            }
        }
    }
    let success = child.wait()?.success();
    if !success {
        kept.iter().for_each(|line| println!("{line}"));
    }
    Ok(End::Exit { success })
}

/// What the program writes to either of its outputs, until both are closed.
fn lines_of(child: &mut Child) -> Result<Receiver<String>> {
    let (to, lines) = channel();
    let out = child.stdout.take().context("the output is a pipe")?;
    let err = child.stderr.take().context("the error output is a pipe")?;
    let second = to.clone();
    std::thread::spawn(move || forward(out, &to));
    std::thread::spawn(move || forward(err, &second));
    Ok(lines)
}

fn forward(from: impl Read, to: &Sender<String>) {
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        if to.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
            return;
        }
    }
}

/// How many tests passed and failed, by the last words of the harness.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    passed: usize,
    failed: usize,
    ignored: usize,
    /// How many of those that passed were told of one by one.
    named_passed: usize,
    /// Why tests did not run that only some machines can run.
    skipped: BTreeSet<String>,
    /// The names of those that failed.
    failures: BTreeSet<String>,
    /// How to see the failure again.
    again: Option<String>,
    /// What was said of the failures.
    why: Why,
}

impl Count {
    /// Looks for `test result: ok. 3 passed; 0 failed; …`, and for `skipped: …`, which tests say.
    fn read(&mut self, line: &str) {
        if let Some(why) = line.strip_prefix("skipped: ") {
            self.skipped.insert(why.to_owned());
        }
        if let Some(again) = line.strip_prefix(AGAIN) {
            self.again = Some(again.to_owned());
        }
        self.why.read(line);
        if let Some((test, end)) = line.strip_prefix("test ").and_then(|test| test.rsplit_once(" ... ")) {
            match end {
                "FAILED" => drop(self.failures.insert(test.trim_end().to_owned())),
                "ok" => self.named_passed += 1,
                _ => {}
            }
        }
        let Some(result) = line.strip_prefix("test result: ") else { return };
        for part in result.split(['.', ';']) {
            let mut words = part.split_whitespace();
            match (words.next().and_then(|number| number.parse::<usize>().ok()), words.next()) {
                (Some(number), Some("passed")) => self.passed += number,
                (Some(number), Some("failed")) => self.failed += number,
                (Some(number), Some("ignored")) => self.ignored += number,
                _ => {}
            }
        }
    }

    /// There will be no last words: what each test said until now counts.
    fn end_early(&mut self) {
        (self.passed, self.failed) = (self.named_passed, self.failures.len());
    }

    /// What failed, by name, and what did not run, and why.
    fn note(&self) -> Option<String> {
        let failed = self.failures.iter().map(|test| format!("failed: {test}"));
        let ignored = (self.ignored > 0).then(|| format!("{} ignored", self.ignored));
        let skipped = self.skipped.iter().map(|why| format!("skipped: {why}"));
        let notes: Vec<String> = failed.chain(ignored).chain(skipped).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

/// How many lines of one failure are repeated where the run ends, and how many of all of a program.
const WHY_LINES_MAX: usize = 12;
const WHY_LINES_TOTAL_MAX: usize = 60;

/// What tests say when they fail, out of all that a program prints: a run prints ten thousand lines, and
/// whoever looks at it later may have only the last of them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Why {
    lines: Vec<String>,
    /// How many lines still belong to the failure that is being read.
    left: usize,
}

impl Why {
    fn read(&mut self, line: &str) {
        let is_error = line.starts_with("Error: ") || line == "Caused by:";
        if is_error || (line.starts_with("thread '") && line.contains("panicked at")) {
            self.left = WHY_LINES_MAX;
        } else if line.is_empty() || line.starts_with("test ") || line.starts_with("stack backtrace:") {
            self.left = 0;
        }
        if self.left > 0 && self.lines.len() < WHY_LINES_TOTAL_MAX {
            self.left -= 1;
            self.lines.push(line.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failure_says_is_kept() {
        let mut count = Count::default();
        for line in [
            "noise",
            "Error: it Failed; with [\"a commit went back\"]",
            "",
            "Caused by:",
            "    it had to",
            "",
            "noise",
            "thread 'seeds' (12) panicked at src/lib.rs:4:9:",
            "assertion failed: false",
            "stack backtrace:",
            "   0: somewhere",
            "test seeds ... FAILED",
        ] {
            count.read(line);
        }
        let kept = [
            "Error: it Failed; with [\"a commit went back\"]",
            "Caused by:",
            "    it had to",
            "thread 'seeds' (12) panicked at src/lib.rs:4:9:",
            "assertion failed: false",
        ];
        assert_eq!(count.why.lines, kept);
    }

    #[test]
    fn tests_are_counted_by_the_words_of_the_harness() {
        let mut count = Count::default();
        count.read(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s",
        );
        count.read("test result: FAILED. 2 passed; 3 failed; 0 ignored");
        count.read("test a ... ok");
        assert_eq!((count.passed, count.failed), (14, 3));
        assert_eq!(count.note().as_deref(), Some("1 ignored"));
        count.read("skipped: needs root");
        assert_eq!(count.note().as_deref(), Some("1 ignored; skipped: needs root"));
        count.read("test seeds::b ... FAILED");
        assert_eq!(count.note().as_deref(), Some("failed: seeds::b; 1 ignored; skipped: needs root"));
        count.read("test java::life   ... FAILED");
        count.end_early();
        assert_eq!((count.passed, count.failed), (1, 2));
        let note = "failed: java::life; failed: seeds::b; 1 ignored; skipped: needs root";
        assert_eq!(count.note().as_deref(), Some(note));
        count.read("again: cargo run -p vltava-sim -- --seed 7");
        assert_eq!(count.again.as_deref(), Some("cargo run -p vltava-sim -- --seed 7"));
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let mut command = Command::new("tail");
        command.args(["-f", "/dev/null"]);
        let mut count = Count::default();
        let end =
            finish(command, Duration::from_millis(50), Output::OnFailure, &mut count).expect("tail starts");
        assert!(matches!(end, End::Hung));
    }
}
