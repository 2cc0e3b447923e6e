//! `vltava perf` against a node that this test starts: the arguments of Kafka's tools, and their lines.

mod node;

use std::process::{Command, Output};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use client::Scratch;
use client::consumer::{Consumer, Start};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::Value;

use node::Node;

impl Node {
    fn perf(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vltava"));
        command.arg("perf").args(arguments).args(["--bootstrap-server", &self.address]);
        command.output().expect("the binary starts")
    }

    fn says(&self, arguments: &[&str]) -> Vec<String> {
        let output = self.perf(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }
}

impl Node {
    /// Keys and values of a topic's only partition, up to so many.
    fn records(&self, topic: &str, count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut consumer = Consumer::builder(&self.address).build().expect("the settings are fine");
        consumer.assign([(topic, 0, Start::Earliest)]);
        let (mut scratch, mut records) = (Scratch::default(), Vec::new());
        while records.len() < count {
            let batch = consumer.next_batch_within(Duration::from_secs(10)).expect("it can be read");
            let batch = batch.expect("there is more");
            for record in batch.records(&mut scratch).expect("it is a batch") {
                let record = record.expect("it is a record");
                let bytes = |bytes: Option<&[u8]>| bytes.unwrap_or_default().to_vec();
                records.push((bytes(record.key), bytes(record.value)));
            }
        }
        records
    }
}

/// A line with its numbers taken out, but for how many digits stand behind the point.
fn shape(line: &str) -> String {
    let (mut shape, mut is_behind_point) = (String::new(), false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let is_before_digit = characters.peek().is_some_and(char::is_ascii_digit);
        match character {
            '0'..='9' if is_behind_point || !is_before_digit => shape.push('0'),
            '0'..='9' => {}
            other => shape.push(other),
        }
        is_behind_point =
            is_before_digit && (character == '.' || is_behind_point && character.is_ascii_digit());
    }
    shape
}

fn shapes(lines: &[impl AsRef<str>]) -> Vec<String> {
    lines.iter().map(|line| shape(line.as_ref())).collect()
}

#[test]
fn a_shape_keeps_the_digits_behind_the_point() {
    assert_eq!(shape("19961 records, 9965.60 (15 ms)."), "0 records, 0.00 (0 ms).");
    assert_ne!(shape("1.50"), shape("1.5"));
}

#[test]
fn kafkas_arguments_give_kafkas_lines() {
    let node = Node::start();
    // As people have them in scripts: old spellings, several settings behind one name.
    let lines = node.says(&[
        "producer",
        "--topic",
        "t",
        "--num-records",
        "3000",
        "--record-size",
        "100",
        "--throughput",
        "2000",
        "--producer-props",
        "acks=1",
        "linger.ms=0",
        "key.serializer=whatever",
        "--warmup-records",
        "1000",
        "--reporting-interval",
        "200",
    ]);
    // What Apache Kafka's ProducerPerformance 4.3.1 printed for such a run.
    let expected = [
        "Option --producer-props has been deprecated and will be removed in a future version. Use \
         --command-property instead.",
        "Warmup first 20000 records. Steady state results will print after the complete test summary.",
        "In steady state.",
        "19961 records sent, 9965.6 records/sec (0.95 MB/sec), 3.8 ms avg latency, 9.0 ms max latency.",
        "50000 records sent, 9996.001599 records/sec (0.95 MB/sec), 4.51 ms avg latency, 346.00 ms max latency, \
         4 ms 50th, 9 ms 95th, 15 ms 99th, 25 ms 99.9th.",
        "30000 steady state records sent, 9976.720984 records/sec (0.95 MB/sec), 3.70 ms avg latency, \
         9.00 ms max latency, 4 ms 50th, 6 ms 95th, 7 ms 99th, 9 ms 99.9th.",
    ];
    let shapes_of = |at: &[usize]| at.iter().map(|&at| shape(expected[at])).collect::<Vec<_>>();
    let (first, last) = (lines.len().min(2), lines.len().saturating_sub(2));
    assert_eq!(shapes(&lines[..first]), shapes_of(&[0, 1]), "{lines:?}");
    assert_eq!(shapes(&lines[last..]), shapes_of(&[4, 5]), "{lines:?}");
    // How many intervals there are is chance; the steady state begins once, between two of them.
    let (steady, windows): (Vec<_>, Vec<_>) =
        lines[first..last].iter().partition(|line| *line == expected[2]);
    assert_eq!(steady.len(), 1, "{lines:?}");
    assert!(windows.len() > 1 && windows.iter().all(|line| shape(line) == shape(expected[3])), "{lines:?}");
    let of_windows: u64 = windows.iter().filter_map(|line| line.split(' ').next()?.parse::<u64>().ok()).sum();
    assert!((1_000..=3_000).contains(&of_windows), "{lines:?}");
    assert!(lines.last().is_some_and(|line| line.starts_with("2000 steady state records sent")), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("3000 records sent, ")), "{lines:?}");

    let lines =
        node.says(&["consumer", "--topic", "t", "--messages", "3000", "--group", "any", "--timeout", "5000"]);
    let expected = [
        "Warning: --messages is deprecated. Use --num-records instead.",
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, \
         rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec",
        "2026-11-21 15:08:02:717, 2026-11-21 15:08:06:915, 1907.3486, 454.3470, 20000000, 4764173.4159, 0, 4198, \
         454.3470, 4764173.4159",
    ];
    assert_eq!(shapes(&lines), shapes(&expected));
    assert!(lines[2].contains(", 0.2861, ") && lines[2].contains(", 3000, "), "{lines:?}");
}

#[test]
fn latency_is_measured_as_kafkas_tool_does() {
    let node = Node::start();
    let lines = node.says(&[
        "e2e-latency",
        "--topic",
        "t",
        "--num-records",
        "1001",
        "--producer-acks",
        "1",
        "--record-size",
        "100",
        "--record-key-size",
        "8",
        "--num-headers",
        "2",
        "--record-header-key-size",
        "3",
        "--record-header-size",
        "4",
    ]);
    // What Apache Kafka's EndToEndLatency 4.3.1 printed.
    let expected = [
        "Topic \"t\" does not exist. Will create topic with 1 partition(s) and replication factor = 1",
        "0\t43.08879",
        "1000\t0.517027",
        "Avg latency: 0.7742 ms",
        "Percentiles: 50th = 0, 99th = 4, 99.9th = 9",
    ];
    // Of a record's latency Java prints as many digits as there are, and one at least.
    for (line, number) in lines[1..3].iter().zip(["0", "1000"]) {
        let (of_line, millis) = line.split_once('\t').expect("there is a tab");
        assert_eq!(of_line, number);
        assert!(millis.contains('.') && millis.parse::<f64>().is_ok_and(|millis| millis > 0.0), "{line}");
    }
    assert_eq!(shapes(&lines[3..]), shapes(&expected[3..]));
    assert_eq!(lines[0], expected[0]);
    let output = Command::new(env!("CARGO_BIN_EXE_vltava"))
        .args(["perf", "e2e-latency", &node.address, "t", "10", "all", "100"])
        .output()
        .expect("the binary starts");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lazy = node.perf(&[
        "e2e-latency",
        "--topic",
        "t",
        "--num-records",
        "1",
        "--producer-acks",
        "0",
        "--record-size",
        "1",
    ]);
    assert!(String::from_utf8_lossy(&lazy.stderr).contains("synchronous"), "{lazy:?}");
}

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
        "--json",
    ]);
    let said: Value = serde_json::from_str(lines.last().expect("there is a line")).expect("it is JSON");
    assert_eq!((&said["records"], &said["failed"]), (&5000.into(), &0.into()), "{said}");
    for name in ["records_per_sec", "mb_per_sec", "mib_per_sec"] {
        assert!(said[name].as_f64().is_some_and(|rate| rate > 0.0), "{name}: {said}");
    }
    for name in ["p50", "p99", "p999"] {
        assert!(said["latency_ns"][name].as_u64().is_some_and(|nanos| nanos > 0), "{name}: {said}");
    }
    let lines = node.says(&["consumer", "--topic", "t", "--num-records", "5000", "--hide-header", "--json"]);
    let said: Value = serde_json::from_str(&lines[1]).expect("it is JSON");
    assert_eq!(said["records"], 5000, "{said}");
}

/// The last line, which is one object.
fn object(lines: &[String]) -> Value {
    let line = lines.last().expect("there is a line");
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
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

/// As the ToolsUtils of Apache Kafka 4.3.1 print it, for a client with the name of its own tool.
#[test]
fn metrics_are_printed_as_kafka_does() {
    let node = Node::start();
    let write =
        ["producer", "--topic", "t", "--num-records", "100", "--record-size", "10", "--print-metrics"];
    let lines = node.says(&write);
    let at = lines.iter().position(|line| line.starts_with("Metric Name ")).expect("there is a headline");
    assert!(lines[at - 1].is_empty() && lines[at].ends_with("   Value"), "{lines:?}");
    let sent = lines.iter().find(|line| line.starts_with("producer-metrics:record-send-total:{client-id="));
    assert!(sent.is_some_and(|line| line.ends_with(" : 100.000")), "{lines:?}");
    let width = lines[at].find("   Value");
    assert!(lines[at + 1..].iter().all(|line| line.find(" : ") == width), "{lines:?}");
}

/// What Apache Kafka's ConsumerPerformance 4.3.1 printed with --show-detailed-stats.
#[test]
fn details_of_a_consumer_are_kafkas() {
    let node = Node::start();
    node.says(&["producer", "--topic", "t", "--num-records", "20000", "--record-size", "10"]);
    let read = ["consumer", "--topic", "t", "--num-records", "20000", "--show-detailed-stats"];
    let lines = node.says(&[&read[..], &["--reporting-interval", "1"]].concat());
    let expected = [
        "time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, \
         fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec",
        "2026-11-21 18:58:51:783, 0, 0.2385, 4.5850, 2501, 48076.9231, 0, 52, 4.5850, 48076.9231",
    ];
    assert_eq!(lines[0], expected[0]);
    assert!(lines.len() > 1, "an interval has passed");
    for line in &lines[1..] {
        assert_eq!(shape(line), shape(expected[1]));
    }
}

#[test]
fn settings_are_those_of_kafkas_scripts() {
    let node = Node::start();
    let folder = tempfile::tempdir().expect("there is a place for files");
    let path = folder.path().join("client.properties");
    let file = |text: &str| {
        std::fs::write(&path, text).expect("it can be written");
        path.to_str().expect("it is text").to_owned()
    };
    let everyday = format!(
        "bootstrap.servers={}\nsecurity.protocol=PLAINTEXT\nretries=5\nacks=all\nmax.poll.records=100\n\
         metadata.max.age.ms=60000\nfetch.min.bytes=1\n",
        node.address
    );
    // The brokers are named by the file alone.
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vltava"));
        command.arg("perf").args(arguments).output().expect("the binary starts")
    };
    let write = ["producer", "--topic", "t", "--num-records", "10", "--record-size", "100"];
    let read = ["consumer", "--topic", "t", "--num-records", "10"];
    let measure = ["e2e-latency", "--topic", "t", "--num-records", "10", "--record-size", "100"];
    let acks = ["--producer-acks", "1", "--num-headers", "1", "--record-header-size", "-1"];
    for (arguments, passed) in [
        (
            &[&write[..], &["--command-property", "fetch.max.bytes=5"]].concat()[..],
            "fetch.max.bytes, fetch.min.bytes, ",
        ),
        (&read, "acks, "),
        (&[&measure[..], &acks].concat(), ""),
    ] {
        let config = file(&everyday);
        let output = run(&[arguments, &["--command-config", &config, "--json"]].concat());
        let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {error}");
        let note = format!(
            "note: settings of Java's clients that do nothing here: {passed}max.poll.records, retries\n"
        );
        assert!(error.contains(&note), "{note} is not in\n{error}");
        let lines: Vec<String> = out.lines().map(str::to_owned).collect();
        let said = object(&lines);
        if passed.is_empty() {
            // The argument comes before the file, and both clients are told of.
            assert_eq!(said["settings"]["acks"], "1", "{said}");
            assert_eq!(said["settings"]["fetch.min.bytes"], "1", "{said}");
            assert!(
                said["durability"]["mode"].as_str().is_some_and(|mode| mode.contains("acks=1")),
                "{said}"
            );
        }
    }
    for (text, says) in
        [("linger=5", "linger is not a setting of this producer or consumer"), ("linger.ms=x", "linger.ms=x")]
    {
        let wrong = node.perf(&[&measure[..], &["--command-config", &file(text)]].concat());
        let error = String::from_utf8_lossy(&wrong.stderr);
        assert!(wrong.status.code() == Some(1) && error.contains(says), "{error}");
    }
}

/// What Apache Kafka's tools 4.3.1 print for their older arguments, in the first line of stdout.
#[test]
fn older_arguments_are_warned_of_as_kafka_does() {
    let node = Node::start();
    let write = ["producer", "--topic", "t", "--num-records", "10", "--record-size", "10"];
    let read = [
        "consumer",
        "--topic",
        "t",
        "--messages",
        "10",
        "--print-metrics",
        "--date-format",
        "yyyy-MM-dd HH:mm:ss:SSS",
    ];
    let said = node.says(&[&write[..], &["--producer-props", "acks=1"]].concat());
    assert_eq!(
        said[0],
        "Option --producer-props has been deprecated and will be removed in a future version. Use \
         --command-property instead."
    );
    let said = node.says(&read);
    assert_eq!(said[0], "Warning: --messages is deprecated. Use --num-records instead.");
    assert!(said.last().is_some_and(|line| line.ends_with("} : 10.000")), "{said:?}");
    let output = Command::new(env!("CARGO_BIN_EXE_vltava"))
        .args(["perf", "e2e-latency", &node.address, "t", "1", "all", "100"])
        .output()
        .expect("the binary starts");
    assert!(output.stdout.starts_with(b"WARNING: Positional argument usage is deprecated"), "{output:?}");
    let other = node.perf(&["consumer", "--topic", "t", "--num-records", "1", "--date-format", "HH:mm"]);
    assert!(String::from_utf8_lossy(&other.stderr).contains("--date-format"), "{other:?}");
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
        let verified = ["--verify", "--json", "--producers", "2", "--throughput", rate];
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
