//! `vltava bench` with workers: processes on loopback that make one load, and what happens when one of them is lost.

mod node;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use node::Node;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);
const TOKEN: (&str, &str) = ("VLTAVA_BENCH_TOKEN", "what only these tests know");

/// A process that says something line by line, killed when the test is done with it.
struct Said {
    process: Child,
    lines: Receiver<String>,
}

impl Said {
    fn start(arguments: &[&str]) -> Self {
        Self::start_in(Path::new("."), arguments)
    }

    fn start_in(folder: &Path, arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_vltava"))
            .arg("bench")
            .args(arguments)
            .current_dir(folder)
            .env(TOKEN.0, TOKEN.1)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let said = BufReader::new(process.stderr.take().expect("it is a pipe")).lines();
        let (say, lines) = mpsc::channel();
        std::thread::spawn(move || said.map_while(Result::ok).try_for_each(|line| say.send(line)));
        Self { process, lines }
    }

    /// The next line with these words.
    fn waits_for(&self, words: &str) -> String {
        let mut before = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => before.push(line),
                Err(_) => panic!("it never said {words:?}, but {before:?}"),
            }
        }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("it runs");
    }
}

impl Drop for Said {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A worker, and where it is.
fn worker() -> (Said, String) {
    worker_in(Path::new("."))
}

fn worker_in(folder: &Path) -> (Said, String) {
    let worker = Said::start_in(folder, &["worker", "--listen", "127.0.0.1:0"]);
    let line = worker.waits_for("worker at ");
    let address = line.trim_start_matches("worker at ").split(": ").next().expect("it says where");
    (worker, address.to_owned())
}

fn file(folder: &Path, text: &str) -> String {
    let path = folder.join("w.yaml");
    std::fs::write(&path, text).expect("it can be written");
    path.display().to_string()
}

/// On brokers that are there, or whose data are to be at a place.
fn run(workload: &str, brokers: [&str; 2], workers: &str) -> Output {
    run_in(Path::new("."), workload, brokers, workers)
}

fn run_in(folder: &Path, workload: &str, brokers: [&str; 2], workers: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vltava"))
        .args(["bench", "run", workload, "--workers", workers, "--no-ceilings", "--json"])
        .args(brokers)
        .env(TOKEN.0, TOKEN.1)
        .current_dir(folder)
        .output()
        .expect("the binary starts")
}

fn at(node: &Node) -> [&str; 2] {
    ["--bootstrap-server", &node.address]
}

fn report(ran: &Output) -> Value {
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice::<Value>(&ran.stdout).expect("it is JSON")["points"][0]["systems"][0]["runs"][0]
        .take()
}

#[test]
fn several_machines_make_one_load() {
    let (node, folder) = (Node::start(), tempfile::tempdir().expect("there is a place for files"));
    let ((_first, one), (_second, two), (_third, three)) = (worker(), worker(), worker());
    let workers = format!("{one},{two},{three}");
    let cases = [
        // Two send and one does not; two subscriptions, whose four readers are spread over all.
        ("producers: 2\nconsumers: 2\nsubscriptions: 2\nrate: 5000\nwarmup_seconds: 0.5\n", 20_000, 40_000),
        ("producers: 3\nwarmup_seconds: 0\n", 20_000, 0),
        ("producers: 3\nconsumers: 2\nstored: true\n", 0, 20_000),
        // Too small to be marked: counted.
        ("producers: 3\nconsumers: 3\nrecord_bytes: 10\nwarmup_seconds: 0\n", 20_000, 20_000),
    ];
    for (text, written, read) in cases {
        let text = format!("name: w\npartitions: 5\nrecords: 20000\n{text}");
        let run = report(&run(&file(folder.path(), &text), at(&node), &workers));
        let records = |flow: &str| run[flow]["records"].as_u64().unwrap_or(0);
        assert_eq!((records("written"), records("read")), (written, read), "{text}{run}");
        assert_eq!((&run["wrong"], &run["failed"]), (&Value::Null, &0.into()), "{text}{run}");
        let clocks = run["clocks"].as_array().expect("they are told");
        assert_eq!(clocks.len(), 3);
        for clock in clocks {
            let error_ns = clock["error_ns"].as_u64().expect("it is a number");
            assert!((1..100_000_000).contains(&error_ns), "{clock}");
        }
        let Some(rate) = run["written"]["records_per_sec"].as_f64().filter(|_| text.contains("rate: 5000"))
        else {
            continue;
        };
        assert!((4_000.0..5_100.0).contains(&rate), "all of them keep one rate: {rate}");
        assert_eq!(run["written"]["response_ns"]["count"], 20_000, "{run}");
        // One subscription's, or some of both: what is not told is what nobody looked at.
        assert!(run["verified"]["records"].as_u64().is_some_and(|records| records >= 22_000), "{run}");
        assert!(run["seconds"].as_array().is_some_and(|seconds| seconds.len() >= 3), "{run}");
    }
}

#[test]
fn what_brokers_promise_use_and_count_is_told_by_whoever_started_them() {
    let folder = tempfile::tempdir().expect("there is a place for files");
    let data = folder.path().join("data").display().to_string();
    let ((_first, one), (_second, two)) = (worker(), worker());
    let text = "name: w\nproducers: 2\nrate: 2000\nwarmup_seconds: 1\nseconds: 3\n";
    let run = report(&run(&file(folder.path(), text), ["--data-dir", &data], &format!("{one},{two}")));
    let records = run["written"]["records"].as_u64().expect("it is a number");
    let counted =
        run["metrics"]["counted"]["vltava_produce_records_total"].as_f64().expect("they were asked");
    // From a look in the steady state on, so not all of them.
    assert!(counted > 0.0 && counted <= records as f64, "{counted} of {records}");
    assert_eq!((&run["stamp"]["acks"], &run["stamp"]["min_insync_replicas"]), (&"all".into(), &"1".into()));
    assert!(run["close_ns"].as_u64().is_some_and(|nanos| nanos > 0), "{}", run["close_ns"]);
    for used in ["client", "brokers", "host"] {
        let cpu_seconds = run["resources"]["used"][used]["cpu_seconds"].as_f64();
        assert!(cpu_seconds.is_some_and(|seconds| seconds > 0.0), "{used}: {}", run["resources"]);
    }
}

#[test]
fn one_that_is_lost_fails_the_run_and_the_others_are_ready_for_the_next() {
    let (node, folder) = (Node::start(), tempfile::tempdir().expect("there is a place for files"));
    let ((stays, address), (dies, doomed), (hangs, silent)) = (worker(), worker(), worker());
    let long = file(folder.path(), "name: w\nproducers: 2\nconsumers: 1\nrate: 1000\nseconds: 600\n");
    let begin = |workers: &str| {
        Said::start(&["run", &long, "--bootstrap-server", &node.address, "--workers", workers])
    };
    let taken = "this worker is its own now";

    let run_of_two = begin(&format!("{address},{doomed}"));
    dies.waits_for(taken);
    dies.send(Signal::KILL);
    run_of_two.waits_for(&format!("worker {doomed} is lost"));
    stays.waits_for(taken);
    // It is done with that one, and can have another.
    stays.waits_for("127.0.0.1:");

    let run_of_two = begin(&format!("{address},{silent}"));
    hangs.waits_for(taken);
    hangs.send(Signal::STOP);
    run_of_two.waits_for(&format!("worker {silent}"));
    stays.waits_for(taken);
    // It is done with that one, and can have another.
    stays.waits_for("127.0.0.1:");

    // And a coordinator that is lost.
    let run_of_one = begin(&address);
    stays.waits_for(taken);
    run_of_one.send(Signal::KILL);
    stays.waits_for("127.0.0.1:");
    let short =
        file(folder.path(), "name: w\nproducers: 2\nconsumers: 1\nwarmup_seconds: 0\nrecords: 1000\n");
    let run = report(&run(&short, at(&node), &address));
    assert_eq!((&run["read"]["records"], &run["wrong"]), (&1_000.into(), &Value::Null), "{run}");
}

#[test]
fn a_run_that_failed_is_nothing_to_the_next() {
    let (node, folder) = (Node::start(), tempfile::tempdir().expect("there is a place for files"));
    let elsewhere = tempfile::tempdir().expect("there is a place for files");
    let ((_first, one), (_second, two)) = (worker_in(folder.path()), worker_in(elsewhere.path()));
    std::fs::write(folder.path().join("lines.txt"), "a line\nand another\n").expect("it can be written");
    // One of them does not have the file, and the other is ready by then, and waits to be told to begin.
    let text = "name: w\nproducers: 2\nconsumers: 1\nwarmup_seconds: 0\nrecords: 1000\npayload: [lines:lines.txt, letters]\n";
    let ran = run_in(folder.path(), &file(folder.path(), text), at(&node), &format!("{one},{two}"));
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    let report: Value = serde_json::from_slice(&ran.stdout).expect("it is JSON");
    let run = |point: usize| &report["points"][point]["systems"][0]["runs"][0];
    let wrong = run(0)["wrong"].as_str().unwrap_or_default();
    assert!(wrong.contains(&format!("worker {two}: ")) && wrong.contains("lines.txt"), "{wrong}");
    assert_eq!((&run(1)["wrong"], &run(1)["read"]["records"]), (&Value::Null, &1_000.into()), "{report}");
}

#[test]
fn what_cannot_be_shared_out_is_refused_in_words() {
    let (node, folder) = (Node::start(), tempfile::tempdir().expect("there is a place for files"));
    let (_worker, address) = worker();
    let cases = [
        ("one_at_a_time: true\nconsumers: 1\nrecords: 5\n", "one_at_a_time: one thread sends and reads"),
        ("payload: lines:/no/such/file\nrecords: 5\n", "/no/such/file"),
    ];
    for (text, expected) in cases {
        let ran = run(&file(folder.path(), &format!("name: w\n{text}")), at(&node), &address);
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.code() == Some(1) && said.contains(expected), "{said}");
    }
}
