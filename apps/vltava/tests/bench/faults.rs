//! What is done to brokers, and what happens to them, in the midst of a run.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{bench, file, stderr, stdout};

#[test]
fn brokers_are_killed_and_paused_when_a_workload_says_so() {
    let folder = tempfile::tempdir().expect("there is a place for files");
    let text = "name: hurt\nabout: What a record waits for.\nbrokers: 3\nreplication_factor: 3\npartitions: 3\n\
                topic: {min.insync.replicas: 2}\nconsumers: 1\nrate: 2000\nwarmup_seconds: 1\nseconds: 12\n\
                faults: kill 2 at 3 for 2, pause 3 at 7 for 1, restart 1 at 10, kill 1 at 600 for 1, \
                pause 2 at 600 for 1\n";
    let workload = file(folder.path(), "hurt.yaml", text);
    let (data, out) = (folder.path().join("data"), folder.path().join("out"));
    let (data_dir, out_dir) = (data.display().to_string(), out.display().to_string());
    let ran = bench(&["run", &workload, "--port", "22000", "--data-dir", &data_dir, "--out", &out_dir]);
    assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
    assert_eq!(std::fs::read_dir(&data).expect("it is there").count(), 0, "the brokers' data is gone");
    let written = std::fs::read_to_string(out.join("hurt.json")).expect("it was written");
    let report: Value = serde_json::from_str(&written).expect("it is JSON");
    let run = &report["points"][0]["systems"][0]["runs"][0];
    assert_eq!((&run["wrong"], &run["failed"]), (&Value::Null, &0.into()), "{run}");
    assert_eq!(run["read"]["records"], 24_000, "each is there, and once");
    let deeds = run["faults"].as_array().expect("they are a list");
    let what: Vec<&str> = deeds.iter().filter_map(|deed| deed["what"].as_str()).collect();
    let expected = [
        "kill -9 of broker 2",
        "broker 2 started again",
        "broker 3 paused",
        "broker 3 goes on",
        "broker 1 ended in order",
        "broker 1 started again",
        "not done: kill 1 at 600 for 1",
        "not done: pause 2 at 600 for 1",
    ];
    assert_eq!(what, expected);
    for (deed, at) in deeds.iter().zip([3.0, 5.0, 7.0, 8.0]) {
        assert!(deed["at"].as_f64().is_some_and(|was| was >= at), "{deed} was due at {at}");
    }
    assert!(stdout(&ran).contains("slowest acknowledgement, ms"), "{}", stdout(&ran));
}

/// Nobody acknowledges what is sent so: what a broker had not read by the time that it was killed is gone.
#[test]
fn a_run_that_loses_records_fails_and_says_which() {
    let folder = tempfile::tempdir().expect("there is a place for files");
    let text = "name: lossy\nacks: 0\nwarmup_seconds: 0\nseconds: 4\nfaults: kill 1 at 2 for 0.5\n";
    let workload = file(folder.path(), "lossy.yaml", text);
    let data_dir = folder.path().join("data").display().to_string();
    let ran = bench(&["run", &workload, "--no-ceilings", "--port", "25000", "--data-dir", &data_dir]);
    assert_eq!(ran.status.code(), Some(1), "{}{}", stdout(&ran), stderr(&ran));
    assert!(stdout(&ran).contains("wrong in 1 of 1 runs"), "{}", stdout(&ran));
    let said = stderr(&ran);
    assert!(said.contains("verification failed: records ") && said.contains(" lost"), "{said}");
    assert!(said.contains(" of sender 0 of run "), "it says which: {said}");
}

/// A broker ends with the thread that started it: the one that does what a workload says has to outlive its last deed.
#[test]
fn a_broker_that_was_started_again_stays_until_the_load_is_over() {
    let folder = tempfile::tempdir().expect("there is a place for files");
    let text = "name: again\nbrokers: 3\nreplication_factor: 3\ntopic: {min.insync.replicas: 3}\n\
                producer: {delivery.timeout.ms: 20000, request.timeout.ms: 5000}\nrate: 1000\n\
                warmup_seconds: 0\nseconds: 7\nfaults: kill 2 at 2 for 1, pause 3 at 4 for 0.5\n";
    let workload = file(folder.path(), "again.yaml", text);
    let data_dir = folder.path().join("data").display().to_string();
    let ran = bench(&["run", &workload, "--no-ceilings", "--port", "24000", "--data-dir", &data_dir]);
    assert_eq!(ran.status.code(), Some(0), "nothing is acknowledged without it: {}", stderr(&ran));
}

/// Nobody reads what it prints any more: it fails all the same, and what it came to is written.
#[test]
fn a_run_that_loses_records_fails_although_nobody_reads_what_it_says() {
    let folder = tempfile::tempdir().expect("there is a place for files");
    let text = "name: lossy\nacks: 0\nwarmup_seconds: 0\nseconds: 4\nfaults: kill 1 at 2 for 0.5\n";
    let workload = file(folder.path(), "lossy.yaml", text);
    let (data, out) = (folder.path().join("data"), folder.path().join("out"));
    let mut running = Command::new(env!("CARGO_BIN_EXE_vltava"))
        .args(["bench", "run", &workload, "--no-ceilings", "--port", "23500"])
        .args([Path::new("--data-dir"), &data, Path::new("--out"), &out])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop((running.stdout.take(), running.stderr.take()));
    assert_eq!(running.wait().expect("it ends").code(), Some(1));
    let written = std::fs::read_to_string(out.join("lossy.json")).expect("it was written");
    let report: Value = serde_json::from_str(&written).expect("it is JSON");
    let wrong = report["points"][0]["systems"][0]["runs"][0]["wrong"].as_str().expect("something was");
    assert!(wrong.contains(" lost"), "{wrong}");
}
