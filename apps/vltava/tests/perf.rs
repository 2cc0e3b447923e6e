//! `vltava perf` against a node that this test starts: the arguments of Kafka's tools, and their lines.

mod node;

use std::process::{Command, Output};

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

/// A line with its numbers taken out.
fn shape(line: &str) -> String {
    let (mut shape, mut rest) = (String::new(), line);
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let number = &rest[at..];
        let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
        // A full stop behind a number is not part of it.
        let end = end - usize::from(number[..end].ends_with('.'));
        shape += &rest[..at];
        shape.push('#');
        rest = &number[end..];
    }
    shape + rest
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
        "Warmup first 20000 records. Steady state results will print after the complete test summary.",
        "In steady state.",
        "19961 records sent, 9965.6 records/sec (0.95 MB/sec), 3.8 ms avg latency, 9.0 ms max latency.",
        "50000 records sent, 9996.001599 records/sec (0.95 MB/sec), 4.51 ms avg latency, 346.00 ms max latency, \
         4 ms 50th, 9 ms 95th, 15 ms 99th, 25 ms 99.9th.",
        "30000 steady state records sent, 9976.720984 records/sec (0.95 MB/sec), 3.70 ms avg latency, \
         9.00 ms max latency, 4 ms 50th, 6 ms 95th, 7 ms 99th, 9 ms 99.9th.",
    ];
    for (line, at) in expected.iter().zip(["first", "any", "any", "any", "last"]) {
        let found = lines.iter().find(|found| shape(found) == shape(line));
        assert!(found.is_some(), "{at}: {line}\nis not in\n{}", lines.join("\n"));
    }
    assert!(lines.iter().all(|line| expected.iter().any(|known| shape(known) == shape(line))), "{lines:?}");
    assert!(lines.last().is_some_and(|line| line.starts_with("2000 steady state records sent")), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("3000 records sent, ")), "{lines:?}");

    let lines =
        node.says(&["consumer", "--topic", "t", "--messages", "3000", "--group", "any", "--timeout", "5000"]);
    let expected = [
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, \
         rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec",
        "2026-11-21 15:08:02:717, 2026-11-21 15:08:06:915, 1907.3486, 454.3470, 20000000, 4764173.4159, 0, 4198, \
         454.3470, 4764173.4159",
    ];
    let shapes = |lines: &[String]| lines.iter().map(|line| shape(line)).collect::<Vec<_>>();
    assert_eq!(shapes(&lines), shapes(&expected.map(str::to_owned)));
    assert!(lines[1].contains(", 0.2861, ") && lines[1].contains(", 3000, "), "{lines:?}");
}

#[test]
fn latency_is_measured_as_kafkas_tool_does() {
    let node = Node::start();
    node.says(&["producer", "--topic", "t", "--num-records", "10", "--record-size", "10"]);
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
        "0\t43.08879",
        "1000\t0.517027",
        "Avg latency: 0.7742 ms",
        "Percentiles: 50th = 0, 99th = 4, 99.9th = 9",
    ];
    assert_eq!(lines.iter().map(|line| shape(line)).collect::<Vec<_>>(), expected.map(shape));
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
    let unknown = node.perf(&[&record[..], &["--command-property", "no.such=1"]].concat());
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no.such is not a setting of this producer"));
}
