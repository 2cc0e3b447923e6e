//! `vltava bench`, from its command line to what it writes.

mod faults;
#[path = "../node/mod.rs"]
mod node;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use metadata::settings::BrokerSettings;
use node::Node;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Those that start brokers at the same time look for ports apart from each other.
fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vltava"))
        .arg("bench")
        .args(arguments)
        .output()
        .expect("the binary starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The path of a file with this text.
fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("it can be written");
    path.display().to_string()
}

#[test]
fn what_there_is_is_listed_and_shown() {
    let listed = bench(&["list", "--json"]);
    let listed: Value = serde_json::from_str(&stdout(&listed)).expect("it is JSON");
    let first = &listed[0];
    assert_eq!(
        (&first["name"], &first["published"]["records_per_sec"]),
        (&"linkedin-1p-rf1".into(), &821_557.0.into())
    );
    assert!(stdout(&bench(&["list"])).contains("821,557 records/s"));
    assert!(listed.as_array().is_some_and(|listed| listed.iter().any(|entry| entry["name"] == "linkedin")));
    assert!(stdout(&bench(&["show", "quick"])).contains("- linkedin-1p-rf1"));
    assert!(stdout(&bench(&["show", "linkedin-1p-rf1"])).contains("records: 50000000"));
    let missing = bench(&["run", "linkedin-1p-rf2"]);
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(
        stderr(&missing),
        "error: there is no benchmark linkedin-1p-rf2: did you mean linkedin-1p-rf1?\n"
    );
}

#[test]
fn a_workload_runs_on_brokers_of_its_own_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("there is a place for files");
    let text = "name: small\nabout: Both ways.\npartitions: 3\nproducers: 2\nacks: [1, all]\nconsumers: 2\n\
                subscriptions: 2\nrate: 10000\nwarmup_seconds: 0.5\nrecords: 25000\n\
                producer: {compression.type: lz4}\n";
    let workload = file(folder.path(), "small.yaml", text);
    let (data, out) = (folder.path().join("data"), folder.path().join("out"));
    let (data_dir, out_dir) = (data.display().to_string(), out.display().to_string());
    let ran = bench(&["run", &workload, "--port", "21000", "--data-dir", &data_dir, "--out", &out_dir]);
    assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
    assert!(stdout(&ran).contains("until read, p99"), "{}", stdout(&ran));
    assert_eq!(std::fs::read_dir(&data).expect("it is there").count(), 0, "the brokers' data is gone");
    let written = std::fs::read_to_string(out.join("small.json")).expect("it was written");
    let report: Value = serde_json::from_str(&written).expect("it is JSON");
    assert_eq!(
        (&report["schema"], report["points"].as_array().map(Vec::len)),
        (&"vltava-bench/1".into(), Some(2))
    );
    let can = &report["ceilings"]["write_bytes_per_sec"];
    assert!(can.as_f64().is_some_and(|rate| rate > 0.0), "{can}");
    for point in report["points"].as_array().expect("they are a list") {
        let run = &point["systems"][0]["runs"][0];
        says_what_it_took(run);
        assert_eq!((&run["wrong"], &run["failed"]), (&Value::Null, &0.into()), "{run}");
        assert_eq!((&run["written"]["records"], &run["read"]["records"]), (&25_000.into(), &50_000.into()));
        let rate = run["written"]["records_per_sec"].as_f64().expect("it is a number");
        assert!((8_000.0..10_200.0).contains(&rate), "{rate}");
        let (acknowledged, read) = (&run["written"]["response_ns"], &run["read"]["response_ns"]);
        assert_eq!((&acknowledged["count"], &read["count"]), (&25_000.into(), &50_000.into()));
        // One subscription's; the other one saw the same.
        assert!(run["verified"]["records"].as_u64().is_some_and(|records| records >= 29_900), "{run}");
    }
    let same = bench(&["compare", &format!("{out_dir}/small.json"), &format!("{out_dir}/small.json")]);
    assert_eq!(same.status.code(), Some(0), "{}", stderr(&same));
    assert!(stdout(&same).contains("too few runs to tell"), "{}", stdout(&same));
    assert!(stderr(&same).contains("warning: nothing could be judged: it takes 4 runs"), "{}", stderr(&same));
}

/// What the brokers themselves say is there, too: their page and their settings were read.
fn says_what_it_took(run: &Value) {
    let (stamp, resources) = (&run["stamp"], &run["resources"]);
    assert_eq!(
        (&stamp["flush"], &stamp["broker_settings"]["flush.policy"], &stamp["min_insync_replicas"]),
        (&"flushed when the system does".into(), &"os".into(), &"1".into()),
        "{stamp}"
    );
    assert!(
        run["share"]["reached"].as_f64().is_some_and(|share| share > 0.0 && share < 1.0),
        "{}",
        run["share"]
    );
    let counted = run["metrics"]["counted"]["vltava_produce_records_total"].as_f64();
    assert!(counted.is_some_and(|records| records > 0.0), "{}", run["metrics"]);
    assert!(run["metrics"]["flushes"].is_u64(), "{}", run["metrics"]);
    for used in ["client", "brokers"] {
        let switches = resources["used"][used]["voluntary_switches"].as_u64();
        assert!(switches.is_some_and(|switches| switches > 0), "{resources}");
    }
    let loopback = resources["used"]["host"]["loopback_bytes"].as_u64();
    assert!(loopback >= resources["bytes"].as_u64(), "{resources}");
}

#[test]
fn more_than_is_taken_is_no_failure_where_that_is_asked() {
    let (node, folder) = (Node::start(), tempfile::tempdir().expect("there is a place for files"));
    let text = "name: more\nrecord_bytes: 1000\nrate: 1000%\nstop_on_time: true\nmay_give_up: true\n\
                producer: {max.block.ms: 0, buffer.memory: 2097152}\nwarmup_seconds: 0\nseconds: 1\n";
    let workload = file(folder.path(), "more.yaml", text);
    let ran = bench(&["run", &workload, "--bootstrap-server", &node.address, "--json"]);
    assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
    let report: Value = serde_json::from_str(&stdout(&ran)).expect("it is JSON");
    let system = &report["points"][0]["systems"][0];
    let run = &system["runs"][0];
    let (full, rate) = (run["full_speed_per_sec"].as_f64(), run["rate"].as_f64());
    assert!(
        full.zip(rate).is_some_and(|(full, rate)| (rate / full - 10.0).abs() < 1e-6),
        "{full:?} {rate:?}"
    );
    assert_eq!(run["wrong"], Value::Null, "what was taken is there");
    assert!(
        run["failed"].as_u64().is_some_and(|failed| failed > 0),
        "nobody waits for room: {}",
        run["failed"]
    );
    assert!(run["close_ns"].is_u64() && system["figures"]["close_ns"].is_object(), "{}", system["figures"]);
    assert!(report["ceilings"]["disk_bytes"].is_u64(), "a loopback address says that the brokers are here");
}

/// A result of runs that wrote so many records a second, the last of which had this wrong.
fn result(rates: &[f64], wrong: Option<&str>) -> String {
    let mut runs: Vec<Value> = Vec::new();
    for rate in rates {
        let mib = *rate * 100.0 / f64::from(1 << 20);
        runs.push(json!({ "written": { "records": 1, "records_per_sec": rate, "mib_per_sec": mib } }));
    }
    if let Some(last) = runs.last_mut() {
        last["wrong"] = json!(wrong);
    }
    let points = json!([{ "systems": [{ "name": "vltava", "runs": runs }] }]);
    json!({ "schema": "vltava-bench/1", "name": "a", "points": points }).to_string()
}

#[test]
fn a_regression_past_the_noise_fails_a_comparison_and_nothing_else_does() {
    let folder = tempfile::tempdir().expect("there is a place for files");
    let fast = [120e3, 121e3, 122e3, 123e3];
    let slow = fast.map(|rate| rate * 0.9);
    let file = |name, rates: [f64; 4], wrong| file(folder.path(), name, &result(&rates, wrong));
    let (fast_path, slow_path) = (file("fast.json", fast, None), file("slow.json", slow, None));
    let near_path = file("near.json", fast.map(|rate| rate * 0.98), None);
    let lossy_path = file("lossy.json", fast.map(|rate| rate * 2.0), Some("1 lost"));
    let cases = [
        ("slower", vec![&*fast_path, &*slow_path], Some("something became worse, past the noise")),
        ("within what is called noise", vec![&*fast_path, &*slow_path, "--noise", "0.2"], None),
        ("the other way round", vec![&*slow_path, &*fast_path], None),
        ("too near", vec![&*fast_path, &*near_path], None),
        ("faster, and it lost records", vec![&*fast_path, &*lossy_path], Some("vltava: 1 lost")),
        ("lossy before", vec![&*lossy_path, &*lossy_path], Some("vltava: 1 lost")),
    ];
    for (what, arguments, expected) in cases {
        let compared = bench(&[&["compare"], &arguments[..]].concat());
        let code = i32::from(expected.is_some());
        assert_eq!(compared.status.code(), Some(code), "{what}: {}{}", stdout(&compared), stderr(&compared));
        assert!(stderr(&compared).contains(expected.unwrap_or_default()), "{what}: {}", stderr(&compared));
        assert!(stdout(&compared).contains("written, records/s"), "{what}: {}", stdout(&compared));
    }
}

#[test]
fn what_looks_worse_with_too_few_runs_has_an_exit_code_of_its_own() {
    let folder = tempfile::tempdir().expect("there is a place for files");
    let file = |name, rates: &[f64]| file(folder.path(), name, &result(rates, None));
    let (fast, slow) = (file("fast.json", &[120e3]), file("slow.json", &[60e3, 61e3]));
    for (before, after, code) in [(&fast, &slow, 3), (&slow, &fast, 0), (&slow, &slow, 0)] {
        let compared = bench(&["compare", before, after]);
        let said = stderr(&compared);
        assert_eq!(compared.status.code(), Some(code), "{before} {after}: {said}");
        assert!(said.contains("warning: nothing could be judged: it takes 4 runs of each"), "{said}");
        assert_eq!(said.contains("looks worse: vltava: written, records/s, 0.50 ×"), code == 3, "{said}");
        assert!(stdout(&compared).contains("too few runs to tell"), "{}", stdout(&compared));
    }
    let [none, broken] = ["none.json", "broken.json"].map(|name| folder.path().join(name));
    std::fs::write(&broken, "{").expect("it can be written");
    for (other, why) in [(none, "cannot read"), (broken, "is no report")] {
        let compared = bench(&["compare", &fast, &other.display().to_string()]);
        assert_eq!(compared.status.code(), Some(2), "{}", stderr(&compared));
        assert!(stderr(&compared).contains(why), "{}", stderr(&compared));
    }
    let help = bench(&["compare", "--help"]);
    assert!(stdout(&help).contains("3  it is not known: something looks worse"), "{}", stdout(&help));
}

#[test]
fn what_is_gone_did_not_become_better() {
    let folder = tempfile::tempdir().expect("there is a place for files");
    let systems = |name: &str, systems: [&str; 2]| {
        let mut report: Value =
            serde_json::from_str(&result(&[120e3, 121e3, 122e3, 123e3], None)).expect("it is JSON");
        let one = report["points"][0]["systems"][0].clone();
        let named = systems.map(|name| {
            let mut system = one.clone();
            system["name"] = name.into();
            system
        });
        report["points"][0]["systems"] = json!(named);
        file(folder.path(), name, &report.to_string())
    };
    let (before, after) = (systems("a.json", ["vltava", "kafka"]), systems("b.json", ["kafka", "other"]));
    let compared = bench(&["compare", &before, &after]);
    assert_eq!(compared.status.code(), Some(3), "{}", stderr(&compared));
    assert!(stderr(&compared).contains("warning: vltava is only in the first"), "{}", stderr(&compared));
    let compared = bench(&["compare", &after, &systems("c.json", ["vltava", "kafka"])]);
    assert_eq!(compared.status.code(), Some(0), "it was held against that: {}", stderr(&compared));
}

#[test]
fn results_that_were_measured_one_by_one_have_a_table_together() {
    let folder = tempfile::tempdir().expect("there is a place for files");
    let named = |name: &str, rate| result(&[rate], None).replace("\"a\"", &format!("\"{name}\""));
    let fast = file(folder.path(), "fast.json", &named("fast", 120e3));
    let slow = file(folder.path(), "slow.json", &named("slow", 60e3));
    let told = bench(&["report", &fast, &slow, "--together", "linkedin"]);
    assert_eq!(told.status.code(), Some(0), "{}", stderr(&told));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("it was written");
    let (table, page) = (read("linkedin.md"), read("linkedin.html"));
    assert!(table.starts_with("# linkedin\n\nWhat LinkedIn"), "{table}");
    assert!(["| 120 000 |", "| 60 000 |"].iter().all(|rate| table.contains(rate)), "{table}");
    let tables_again = bench(&["report", &fast, "--out", &format!("{}/again", folder.path().display())]);
    assert_eq!(tables_again.status.code(), Some(0), "{}", stderr(&tables_again));
    for of in ["fast.md", "fast.html"] {
        assert_eq!(read(&format!("again/{of}")), read(of), "{of} is made from nothing but the file");
    }
    assert!(read("again/fast.md").starts_with("# fast\n"), "{}", read("again/fast.md"));
    for of in ["fast.html", "slow.html"] {
        assert!(page.contains(&format!("./{of}")) && read(of).contains("<html"), "{page}");
    }
    for (name, said) in [("fast", "two of them are called fast"), ("", "has no name")] {
        let refused = bench(&["report", &fast, &slow, "--together", name]);
        assert_eq!(refused.status.code(), Some(1), "{name}");
        assert!(stderr(&refused).contains(said), "{}", stderr(&refused));
    }
}

#[test]
fn what_is_deployed_for_prometheus_asks_brokers_where_they_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitoring/prometheus.yml");
    let deployed = std::fs::read_to_string(path).expect("it is there");
    let settings = BrokerSettings::parse(Vec::<(String, String)>::new()).expect("the defaults are right");
    let listen = settings.http_listen.expect("there is one by default");
    let brokers = deployed.split("job_name: vltava-bench").next().unwrap_or_default();
    assert!(brokers.contains(&format!("targets: [\"{listen}\"]")), "not at {listen}: {brokers}");
}

#[test]
fn a_machine_alone_is_measured_without_brokers() {
    let folder = tempfile::tempdir().expect("there is a place for files");
    let text = "name: alone\nceiling: {disk_bytes: 2097152, stream_bytes: 2097152}\n";
    let workload = file(folder.path(), "alone.yaml", text);
    let (data, out) = (folder.path().join("data"), folder.path().join("out"));
    let (data, out) = (data.display().to_string(), out.display().to_string());
    let ran = bench(&["run", &workload, "--data-dir", &data, "--out", &out]);
    assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
    assert!(stdout(&ran).contains("disk, written and flushed"), "{}", stdout(&ran));
    let report = std::fs::read_to_string(format!("{out}/alone.json")).expect("it was written");
    let report: Value = serde_json::from_str(&report).expect("it is JSON");
    assert_eq!(report["ceilings"]["disk_bytes"], 2_097_152);
    assert_eq!(std::fs::read_dir(&data).expect("it is there").count(), 0, "nothing stays behind");
}

#[test]
fn whoever_ends_a_family_early_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("there is a place for files");
    let data = folder.path().join("data");
    let mut running = Command::new(env!("CARGO_BIN_EXE_vltava"))
        .args(["bench", "run", "quick", "--no-ceilings", "--port", "23000", "--data-dir"])
        .arg(&data)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(running.stderr.take().expect("it is piped")).lines().map_while(Result::ok);
    let first = lines.next().expect("it says what it does");
    assert!(first.starts_with("1 of ") && first.ends_with(": linkedin-1p-rf1"), "{first}");
    assert!(lines.any(|line| line.starts_with("run 1 of 1")), "it starts brokers");
    let pid = Pid::from_child(&running);
    kill_process(pid, Signal::INT).expect("it runs");
    let rest: Vec<String> = lines.collect();
    assert_eq!(running.wait().expect("it ends").code(), Some(1), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("it was interrupted")), "{rest:?}");
    assert_eq!(std::fs::read_dir(&data).expect("it is there").count(), 0, "the brokers' data is gone");
}

#[test]
fn what_is_stored_is_read_and_what_is_sent_in_turn_comes_back() {
    let (node, folder) = (Node::start(), tempfile::tempdir().expect("there is a place for files"));
    let cases = [
        ("stored: true\nconsumers: 1\nsubscriptions: 3\npartitions: 2\nrecords: 5000\n", "read", 15_000),
        ("one_at_a_time: true\nconsumers: 1\nwarmup_seconds: 0\nrecords: 50\n", "read", 50),
        ("record_bytes: 10\nwarmup_seconds: 0\nrecords: 5000\n", "written", 5_000),
        (
            "payload: log-lines\nkeys: zipf:100\ntopics: 3\nwarmup_seconds: 0\nrecords: 3000\n",
            "written",
            3_000,
        ),
    ];
    let report = |text: &str| -> Value {
        let workload = file(folder.path(), "w.yaml", &format!("name: w\n{text}"));
        let ran = bench(&["run", &workload, "--bootstrap-server", &node.address, "--json"]);
        assert_eq!(ran.status.code(), Some(0), "{text}{}", stderr(&ran));
        serde_json::from_str(&stdout(&ran)).expect("it is JSON")
    };
    for (text, flow, records) in cases {
        let report = report(text);
        let run = &report["points"][0]["systems"][0]["runs"][0];
        assert_eq!((&run[flow]["records"], &run["wrong"]), (&records.into(), &Value::Null), "{text}");
    }
    // What is less than was asked for is said, and of whom.
    let notes = report("acks: [0, 1]\nwarmup_seconds: 0\nrecords: 5000\nrecords_max: 1000\n")["notes"].take();
    for acks in ["acks=0", "acks=1"] {
        let is_said = |note: &&str| note.contains(&format!("{acks}: scaled: it ended with 1000 records"));
        let notes = notes.as_array().into_iter().flatten().filter_map(Value::as_str);
        assert_eq!(notes.clone().filter(is_said).count(), 1, "{acks}: {:?}", notes.collect::<Vec<_>>());
    }
    let topics = Command::new(env!("CARGO_BIN_EXE_vltava"))
        .args(["topic", "list", "--bootstrap-server", &node.address])
        .output()
        .expect("the binary starts");
    assert!(!stdout(&topics).contains("bench-"), "{}", stdout(&topics));
}

/// Shows a page for Prometheus at this address, on which a processor's time grows with each look.
fn show_page() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    std::thread::spawn(move || {
        for (seconds, connection) in (0_u32..).zip(listener.incoming()) {
            let mut connection = connection.expect("it is there");
            let _ = connection.read(&mut [0; 1024]);
            let page = format!(
                "process_cpu_seconds_total {seconds}\n# TYPE process_resident_memory_bytes gauge\n\
                 process_resident_memory_bytes 1048576\n"
            );
            let _ = write!(connection, "HTTP/1.0 200 OK\r\n\r\n{page}");
        }
    });
    format!("http://{address}/metrics")
}

#[test]
fn a_cluster_that_is_there_tells_what_its_brokers_took() {
    let (node, folder) = (Node::start(), tempfile::tempdir().expect("there is a place for files"));
    let driver = format!(
        "name: there\nsystem: bootstrap\nbootstrap_servers: {}\nmetrics: ['{}']\n",
        node.address,
        show_page()
    );
    let driver = file(folder.path(), "driver.yaml", &driver);
    let workload = file(folder.path(), "w.yaml", "name: w\nrate: 1000\nwarmup_seconds: 0\nseconds: 2\n");
    let said_at_once = ["--bootstrap-server", &node.address, "--broker-metrics", &show_page()];
    for brokers in [&["--driver", &driver][..], &said_at_once] {
        let ran = bench(&[&["run", &workload, "--json"], brokers].concat());
        assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
        let report: Value = serde_json::from_str(&stdout(&ran)).expect("it is JSON");
        let run = &report["points"][0]["systems"][0]["runs"][0];
        // A second between two looks, for all records of two.
        let took = run["resources"]["broker_cpu_ns_per_record"].as_f64();
        assert!(took.is_some_and(|nanos| (nanos - 1e9 / 2e3).abs() < 1e3), "{took:?}: {}", run["resources"]);
        assert_eq!(run["resources"]["broker_rss_bytes"], 1 << 20, "{}", run["resources"]);
        assert_eq!(run["resources"]["used"]["brokers"], Value::Null, "nothing is known of each second");
    }
    for (brokers, url, why) in [
        (&said_at_once[..2], "h:1/metrics", "error: --broker-metrics: an address begins with http://\n"),
        (&[], "http://h:1/metrics", "error: --broker-metrics: vltava starts its brokers itself\n"),
    ] {
        let ran = bench(&[&["run", &workload, "--broker-metrics", url], brokers].concat());
        assert_eq!((ran.status.code(), stderr(&ran)), (Some(1), why.to_owned()));
    }
}

#[test]
fn files_of_the_openmessaging_benchmark_run_as_they_are() {
    let (node, folder) = (Node::start(), tempfile::tempdir().expect("there is a place for files"));
    let workload = file(
        folder.path(),
        "workload.yaml",
        "name: 1 topic / 4 partitions / 1kb\ntopics: 1\npartitionsPerTopic: 4\nmessageSize: 1024\n\
         payloadFile: \"payload/payload-1Kb.data\"\nsubscriptionsPerTopic: 1\nconsumerPerSubscription: 2\n\
         producersPerTopic: 2\nproducerRate: 2000\nconsumerBacklogSizeGB: 0\ntestDurationMinutes: 0.02\n\
         warmupDurationMinutes: 0.01\n",
    );
    let driver = file(
        folder.path(),
        "driver.yaml",
        &format!(
            "name: Kafka\ndriverClass: io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver\n\
             replicationFactor: 1\ntopicConfig: |\n  min.insync.replicas=1\ncommonConfig: |\n  \
             bootstrap.servers={}\nproducerConfig: |\n  acks=all\n  linger.ms=1\n  key.serializer=none\n\
             consumerConfig: |\n  auto.offset.reset=earliest\n",
            node.address
        ),
    );
    let shown = stdout(&bench(&["show", &workload]));
    assert!(shown.contains("# payloadFile payload/payload-1Kb.data is not there"), "{shown}");
    assert!(shown.contains("\npartitions: 4\n") && shown.contains("\nrate: 2000.0\n"), "{shown}");
    let nobody = "name: n\nsystem: bootstrap\nbootstrap_servers: 127.0.0.1:9\n";
    let nobody = file(folder.path(), "nobody.yaml", nobody);
    let said = stderr(&bench(&["run", &workload, "--driver", &nobody]));
    assert!(said.starts_with("error: cannot connect to 127.0.0.1:9: "), "{said}");
    let ours = file(folder.path(), "ours.yaml", &shown);
    assert_eq!(stdout(&bench(&["show", &ours])), shown, "it is a workload of ours");
    let ran = bench(&["run", &workload, "--driver", &driver, "--json"]);
    assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
    let report: Value = serde_json::from_str(&stdout(&ran)).expect("it is JSON");
    let run = &report["points"][0]["systems"][0]["runs"][0];
    assert_eq!((&run["wrong"], &run["settings"]["linger.ms"]), (&Value::Null, &"1".into()));
    assert!(
        run["written"]["records"].as_u64().is_some_and(|records| (2_300..=2_400).contains(&records)),
        "{run}"
    );
    assert!(stderr(&ran).contains("note: this producer has no setting key.serializer"), "{}", stderr(&ran));
}
