//! What Kafka's tools do not have: loads, payloads, proof, and results for programs.

use super::*;

#[test]
fn programs_get_one_object() {
    let node = Node::start();
    let lines = node.says(&[
        "producer",
        "--topic",
        "t",
        "--num-records",
        "5000",
        "--payload-monotonic",
        "--producers",
        "3",
        "--threads",
        "2",
        "--verify",
        "--json",
    ]);
    let said: Value = serde_json::from_str(lines.last().expect("there is a line")).expect("it is JSON");
    assert_eq!((&said["threads"], &said["verified"]["records"]), (&2.into(), &5000.into()), "{said}");
    assert_eq!((&said["records"], &said["failed"]), (&5000.into(), &0.into()), "{said}");
    for name in ["records_per_sec", "mb_per_sec", "mib_per_sec"] {
        assert!(said[name].as_f64().is_some_and(|rate| rate > 0.0), "{name}: {said}");
    }
    for of in ["latency_ns", "service_ns", "send_call_ns"] {
        let at = |name: &str| said[of][name].as_u64().unwrap_or_default();
        let all = ["min", "p50", "p99", "p999", "max"].map(at);
        assert!(all[0] > 0 && all.is_sorted(), "{of}: {said}");
    }
    // Records wait for their answer, and their caller does not.
    let median = |of: &str| said[of]["p50"].as_u64();
    assert!(median("send_call_ns") < median("service_ns"), "{said}");
    let lines = node.says(&["consumer", "--topic", "t", "--num-records", "5000", "--hide-header", "--json"]);
    let said: Value = serde_json::from_str(&lines[1]).expect("it is JSON");
    assert_eq!(said["records"], 5000, "{said}");
}

#[test]
fn a_result_says_under_what_circumstances_it_came() {
    let node = Node::start();
    let write = ["producer", "--topic", "t", "--num-records", "500", "--record-size", "100"];
    let settings = ["--command-property", "acks=1", "compression.type=lz4", "batch.size=5000"];
    let said = object(&node.says(&[&write[..], &settings, &["--producers", "2", "--json"]].concat()));
    let expected =
        [("acks", "1"), ("enable.idempotence", "false"), ("compression.type", "lz4"), ("batch.size", "5000")];
    for (name, value) in expected {
        assert_eq!(said["settings"][name], value, "{said}");
    }
    assert_eq!(
        (&said["durability"]["flush.policy"], &said["durability"]["replicas"]),
        (&"ack".into(), &1.into())
    );
    assert!(said["machine"]["cores"].as_u64().is_some_and(|cores| cores > 0), "{said}");
    assert!(said["machine"]["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{said}");
    assert!(said["verified"].is_null() && said["schedule"].is_null(), "{said}");
    let read = ["consumer", "--topic", "t", "--num-records", "500"];
    let said = object(&node.says(&[&read[..], &["--json"]].concat()));
    assert_eq!(said["settings"]["isolation.level"], "read_uncommitted", "{said}");
    assert_eq!(said["durability"]["flush.policy"], "ack", "{said}");
    let measure = ["e2e-latency", "--topic", "t", "--num-records", "10", "--record-size", "100"];
    let said = object(&node.says(&[&measure[..], &["--warmup-records", "5", "--json"]].concat()));
    assert_eq!((&said["records"], &said["verified"]["records"]), (&10.into(), &15.into()), "{said}");
    assert_eq!(
        (&said["settings"]["acks"], &said["durability"]["flush.policy"]),
        (&"all".into(), &"ack".into())
    );
    for name in ["records_per_sec", "mb_per_sec", "mib_per_sec"] {
        assert!(said[name].as_f64().is_some_and(|rate| rate > 0.0), "{name}: {said}");
    }
    // For people it is beside the lines that scripts read.
    for arguments in [&write[..], &read[..], &measure[..]] {
        let output = node.perf(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        for word in [
            "rate: ",
            " MB/s (",
            " MiB/s)",
            "p99.999",
            "settings: ",
            "durability: flush.policy=ack",
            "machine: ",
        ] {
            assert!(error.contains(word), "{arguments:?}: {word} is not in\n{error}");
        }
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(!out.contains("settings:") && !out.contains("MiB"), "{out}");
    }
}

#[test]
fn loads_and_payloads_are_those_that_were_asked_for() {
    let node = Node::start();
    let folder = tempfile::tempdir().expect("there is a place for files");
    let hlog = folder.path().join("run.hlog");
    let hlog = hlog.to_str().expect("it is text");
    let write =
        ["producer", "--topic", "t", "--num-records", "2000", "--producers", "2", "--verify", "--json"];
    let values = [
        "--payload-template",
        r#"{"id":{{seq}},"word":"{{word}}","n":{{int 1 6}}}"#,
        "--keys",
        "zipf:20:1.2",
    ];
    let load =
        ["--ramp", "500:8000:0.3", "--arrivals", "poisson", "--hlog", hlog, "--reporting-interval", "100"];
    let said = object(&node.says(&[&write[..], &values, &load].concat()));
    assert_eq!(
        (&said["schedule"]["due"], &said["verified"]["records"]),
        (&2000.into(), &2000.into()),
        "{said}"
    );
    // The ramp takes 1275 records, the rest comes at its end's rate.
    assert!(said["seconds"].as_f64().is_some_and(|seconds| seconds > 0.37), "{said}");
    assert_eq!(merged(hlog), (2000, said["latency_ns"]["p99"].as_u64().expect("it is a number")));

    let out = node.says(&[
        "consumer",
        "--topic",
        "t",
        "--num-records",
        "2000",
        "--verify",
        "--json",
        "--hide-header",
    ]);
    assert_eq!(object(&out)["verified"]["records"], 2000);
    let records = node.records("t", 2_000);
    let mut ids: Vec<u64> = Vec::new();
    let mut of_first_key = 0;
    for (key, value) in &records {
        let value: Value = serde_json::from_slice(value).expect("it is JSON");
        ids.push(value["id"].as_u64().expect("it is a number"));
        assert!(value["n"].as_u64().is_some_and(|n| (1..=6).contains(&n)), "{value}");
        of_first_key += usize::from(&key[..] == b"0000000000");
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..2000).collect::<Vec<_>>());
    assert!((500..900).contains(&of_first_key), "about a third has the first key, not {of_first_key}");

    // Of the warm-up nothing counts, punctuality neither.
    let load =
        ["--num-records", "50", "--record-size", "100", "--throughput", "1000", "--warmup-records", "20"];
    let said = object(&node.says(&[&["producer", "--topic", "w", "--json"][..], &load].concat()));
    assert_eq!(said["schedule"]["due"], 30, "{said}");

    // The same seed, the same records; another, others.
    let write = |topic: &str, seed: &str| {
        let plain = [
            "producer",
            "--topic",
            topic,
            "--num-records",
            "50",
            "--record-size",
            "40",
            "--keys",
            "uniform:9",
        ];
        node.says(&[&plain[..], &["--seed", seed, "--compressibility", "0.5"]].concat());
        node.records(topic, 50)
    };
    assert_eq!(write("a", "5"), write("b", "5"));
    assert_ne!(write("c", "6"), node.records("a", 50));
}

/// How many values the untagged histograms of a log have together, and the 99th percentile of them.
fn merged(path: &str) -> (u64, u64) {
    let text = std::fs::read(path).expect("the log is there");
    let (mut all, mut intervals) = (Histogram::<u64>::new(3).expect("it has three digits"), 0);
    for entry in IntervalLogIterator::new(&text) {
        let LogEntry::Interval(interval) = entry.expect("it can be read") else { continue };
        if interval.tag().is_none() {
            let bytes = BASE64_STANDARD.decode(interval.encoded_histogram()).expect("it is base64");
            let histogram: Histogram<u64> =
                Deserializer::new().deserialize(&mut &bytes[..]).expect("it is a histogram");
            all.add(&histogram).expect("it grows");
            intervals += 1;
        }
    }
    assert!(intervals > 1, "there are several");
    (all.len(), all.value_at_quantile(0.99))
}

#[test]
fn what_was_not_written_to_be_verified_is_not() {
    let node = Node::start();
    node.says(&["producer", "--topic", "t", "--num-records", "10", "--record-size", "100"]);
    let output = node.perf(&["consumer", "--topic", "t", "--num-records", "10", "--verify"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && error.contains("none of 10 records was written by"),
        "{error}"
    );
    // Beside them a run that can be verified is.
    node.says(&["producer", "--topic", "t", "--num-records", "10", "--record-size", "100", "--verify"]);
    let out = node.says(&["consumer", "--include", "[t]", "--num-records", "20", "--verify", "--json"]);
    let said = object(&out);
    assert_eq!(
        (&said["verified"]["records"], &said["verified"]["unmarked"]),
        (&10.into(), &10.into()),
        "{said}"
    );
    // More than there is did not come.
    let fewer = ["consumer", "--topic", "t", "--num-records", "25", "--verify", "--timeout", "500"];
    let output = node.perf(&fewer);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains("records 5 lost"), "{error}");
    let said = String::from_utf8_lossy(&output.stdout);
    let kafkas = "WARNING: Exiting before consuming the expected number of records: timeout (500 ms) exceeded. You \
                  can use the --timeout option to increase the timeout.";
    assert!(said.lines().any(|line| line == kafkas), "{said}");
    let none = node.perf(&["consumer", "--include", "x.*", "--num-records", "1"]);
    assert!(String::from_utf8_lossy(&none.stderr).contains("no topic matches --include x.*"), "{none:?}");
}

#[test]
fn contradictions_are_refused() {
    let node = Node::start();
    let write = ["producer", "--topic", "t", "--num-records", "10"];
    let bytes = ["--record-size", "1"];
    for (more, says) in [
        (&["--throughput", "inf"][..], "expected a number"),
        (&["--throughput", "nan"], "expected a number"),
        (&["--warmup-records", "10"], "must be strictly fewer than the number of records in the test"),
        (&["--transactional-id", "t"], "no transactions yet"),
        (&["--command-property", "security.protocol=SSL"], "speak PLAINTEXT only"),
        (&["--command-property", "linger.ms=1", "--producer-props", "acks=1"], "cannot be used with"),
    ] {
        let output = node.perf(&[&write[..], &bytes, more].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(says), "{more:?}: {error}");
    }
    for (more, says) in [
        (&["--record-size", "1", "--ramp", "1:2:3", "--throughput", "5"][..], "leave out --throughput"),
        (&["--record-size", "1", "--arrivals", "poisson"], "needs a rate"),
        (&["--payload-template", "{{no}}"], "{{no}} is not a place of a template"),
        (&["--payload-monotonic", "--compressibility", "0.5"], "--record-size"),
        (&["--record-size", "1", "--keys", "zipf"], "zipf:N:EXPONENT"),
    ] {
        let output = node.perf(&[&write[..], more].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(says), "{more:?}: {error}");
    }
}

#[test]
fn nobody_waits_where_nobody_listens() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let address = listener.local_addr().expect("it has one").to_string();
    drop(listener);
    let output = Command::new(env!("CARGO_BIN_EXE_vltava"))
        .args(["perf", "producer", "--topic", "t", "--num-records", "1", "--record-size", "1"])
        .args(["--bootstrap-server", &address])
        .output()
        .expect("the binary starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains("is a server running there?"), "{error}");
}

#[test]
fn what_is_not_written_fails_the_run() {
    let node = Node::start();
    let record = ["producer", "--topic", "t", "--num-records", "10", "--record-size", "2000000"];
    let settings = ["--command-property", "max.request.size=4000000", "buffer.memory=8000000"];
    let refused = node.perf(&[&record[..], &settings[..]].concat());
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        error.contains("10 of 10 records were not acknowledged: the broker refused the records"),
        "{error}"
    );
    // What is given up may be missing, at a rate as at full speed.
    for rate in ["-1", "500"] {
        let verified = ["--verify", "--json", "--producers", "2", "--threads", "2", "--throughput", rate];
        let refused = node.perf(&[&record[..], &settings, &verified].concat());
        let out: Vec<String> = String::from_utf8_lossy(&refused.stdout).lines().map(str::to_owned).collect();
        let said = object(&out);
        assert_eq!((&said["failed"], &said["verified"]["lost"]), (&10.into(), &0.into()), "{said}");
    }
    // A record that the producer does not even take is one that failed; what was measured is told all the same.
    let folder = tempfile::tempdir().expect("there is a place for files");
    let hlog = folder.path().join("run.hlog");
    let told = ["--json", "--hlog", hlog.to_str().expect("it is text")];
    let wrong = ["producer", "--topic", "no/such", "--num-records", "10", "--record-size", "100"];
    let verified = [&record[..], &["--verify"]].concat();
    for (arguments, why) in [(&verified[..], "the record has 20000"), (&wrong, "topic no/such: ")] {
        let refused = node.perf(&[arguments, &told].concat());
        let error = String::from_utf8_lossy(&refused.stderr);
        let says = format!("10 of 10 records were not acknowledged: {why}");
        assert!(refused.status.code() == Some(1) && error.contains(&says), "{error}");
        let out: Vec<String> = String::from_utf8_lossy(&refused.stdout).lines().map(str::to_owned).collect();
        assert!(out.iter().any(|line| line.starts_with("0 records sent, ")), "{out:?}");
        assert_eq!((&object(&out)["failed"], &object(&out)["records"]), (&10.into(), &0.into()));
        assert!(
            std::fs::read_to_string(&hlog)
                .is_ok_and(|log| log.contains("Interval_Max") || log.contains("Tag="))
        );
    }
    let unknown = node.perf(&[&record[..], &["--command-property", "no.such=1"]].concat());
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no.such is not a setting of this producer"));
}
