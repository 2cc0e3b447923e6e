//! The arguments of Kafka's tools, and their lines.

use super::*;

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
    let read = ["consumer", "--topic", "t", "--messages", "10", "--print-metrics"];
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
}

#[test]
fn times_are_printed_as_they_are_wanted() {
    let node = Node::start();
    node.says(&["producer", "--topic", "t", "--num-records", "10", "--record-size", "10"]);
    let read = ["consumer", "--topic", "t", "--num-records", "10", "--hide-header", "--date-format"];
    let said = node.says(&[&read[..], &["'at' EEE dd.MM.yy"]].concat());
    let (from, behind) = said[0].split_once(", ").expect("there are columns");
    let to = behind.split(", ").next().expect("there are columns");
    for time in [from, to] {
        let letters = shape(time).replace(|letter: char| letter.is_alphabetic(), "x");
        assert_eq!(letters, "xx xxx 0.00.00", "{said:?}");
    }
    let refused = node.perf(&[&read[..], &["yyyy-ww"]].concat());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("'w' means nothing, or a week"), "{refused:?}");
}
