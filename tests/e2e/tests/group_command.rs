//! `vltava group` on our node and on Apache Kafka: what it says of a group with members, what it refuses, and what it
//! does to one without.

use std::process::{Command, Output};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use client::consumer::{Consumer, GroupProtocol, Reset};
use client::producer::{Producer, Record};
use conformance::{Node, Program, Setup, home};
use serde_json::{Value, json};
use vltava_e2e::churn::{Churn, admin};
use vltava_e2e::process::{setup, with_node};
use vltava_e2e::{http, wait};

const TOPIC: &str = "orders";
const GROUP: &str = "billing";
const PATIENCE: Duration = Duration::from_secs(60);
/// How old the records are, so that lag in time is something.
const AGE: Duration = Duration::from_secs(600);

/// Someone who types commands.
struct Shell<'a>(&'a Node);

impl Shell<'_> {
    fn group(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new(home::vltava()?);
        let at = ["--bootstrap-server", &self.0.bootstrap()];
        Ok(command.arg("group").args(arguments).args(at).output()?)
    }

    /// The answer of a command that must succeed.
    fn says(&self, arguments: &[&str]) -> Result<String> {
        let output = self.group(arguments)?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && error.is_empty(), "{arguments:?}: {error}");
        Ok(String::from_utf8(output.stdout)?)
    }

    fn json(&self, arguments: &[&str]) -> Result<Value> {
        Ok(serde_json::from_str(&self.says(&[arguments, &["--json"]].concat())?)?)
    }

    /// The error of a command that must fail, which says this.
    fn refuses(&self, arguments: &[&str], what: &[&str]) -> Result<()> {
        let output = self.group(arguments)?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.code() == Some(1),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stdout)
        );
        ensure!(what.iter().all(|what| error.contains(what)), "{arguments:?}: {error}");
        Ok(())
    }

    /// What is committed of each partition.
    fn committed(&self) -> Result<Vec<Option<i64>>> {
        let described = self.json(&["describe", GROUP])?;
        let partitions = described[0]["partitions"].as_array().context("it has partitions")?;
        Ok(partitions.iter().map(|partition| partition["committed_offset"].as_i64()).collect())
    }
}

/// Writes so many records into each of the three partitions, which are as old as they say.
fn write(node: &Node, count: usize) -> Result<()> {
    let producer = Producer::new(&node.bootstrap())?;
    let written = SystemTime::now().duration_since(UNIX_EPOCH)? - AGE;
    for partition in 0..3 {
        for _ in 0..count {
            let record = Record::to(TOPIC).partition(partition).timestamp_ms(written.as_millis() as i64);
            drop(producer.send_blocking(&record.value("one of ten letters or so"))?);
        }
        // Each partition has batches of its own.
        producer.flush_blocking();
    }
    Ok(())
}

fn story(setup: Setup, protocol: GroupProtocol) -> Result<()> {
    with_node(Node::start(setup)?, |node| {
        Churn::default().create(&admin(&node.bootstrap())?, TOPIC, 3, &[])?;
        write(node, 10)?;
        let shell = Shell(node);
        ensure!(shell.json(&["list"])? == json!([]));
        nobody_is_there(&shell)?;
        let mut consumer = Consumer::builder(&node.bootstrap())
            .group_id(GROUP)
            .group_protocol(protocol)
            .client_id("clerk")
            .auto_commit(None)
            .reset(Reset::Earliest)
            .build()?;
        consumer.subscribe([TOPIC])?;
        for _ in 0..30 {
            consumer.next_record_within(PATIENCE)?.context("there are thirty")?;
        }
        consumer.commit().wait()?;
        write(node, 4)?;
        has_a_member(&shell, protocol)?;
        // Only ours has metrics.
        if protocol == GroupProtocol::Classic && http::get(node.http_address(), "/metrics").is_ok() {
            is_measured(node)?;
        }
        is_not_touched(&shell)?;
        consumer.close(PATIENCE)?;
        is_reset(&shell)?;
        is_out_of_range(&shell, node)?;
        is_deleted(&shell)
    })
}

fn nobody_is_there(shell: &Shell<'_>) -> Result<()> {
    let advice = "`vltava group list` shows the groups there are";
    for command in ["describe", "members"] {
        shell.refuses(&[command, "nobody"], &["group nobody: GROUP_ID_NOT_FOUND", advice])?;
    }
    shell.refuses(&["delete", "nobody", "--yes"], &["GROUP_ID_NOT_FOUND", advice])?;
    ensure!(shell.json(&["delete", "nobody", "--yes", "--if-exists"])? == json!({ "deleted": [] }));
    let reset = ["reset-offsets", "nobody", "--topic", TOPIC, "--to-latest", "--yes"];
    shell.refuses(&reset, &["there is no such group", "--create"])?;
    // Unless it is to be there.
    let made = shell.says(&[&reset[..], &["--create"]].concat())?;
    ensure!(made.ends_with("set the offsets of 3 partitions of group nobody\n"), "{made}");
    let described = shell.json(&["describe", "nobody"])?;
    ensure!(described[0]["partitions"][2]["committed_offset"] == 10, "{described}");
    ensure!(shell.says(&["delete", "nobody", "--yes"])? == "deleted group nobody\n");
    Ok(())
}

fn has_a_member(shell: &Shell<'_>, protocol: GroupProtocol) -> Result<()> {
    let kind = if protocol == GroupProtocol::Classic { "classic" } else { "consumer" };
    let listed = shell.json(&["list", "--lag"])?;
    let expected = json!([{
        "group": GROUP, "type": kind, "state": "Stable", "protocol_type": "consumer", "members": 1,
        "coordinator": 1, "lag_records": 12,
    }]);
    ensure!(listed == expected, "{listed}");
    ensure!(shell.json(&["list", "--state", "empty"])? == json!([]));
    let table = shell.says(&["list"])?;
    ensure!(table.starts_with("GROUP ") && table.contains("billing"), "{table}");

    let described = shell.json(&["describe", GROUP])?;
    let group = &described[0];
    ensure!(
        (&group["type"], &group["state"], &group["members"]) == (&json!(kind), &json!("Stable"), &json!(1))
    );
    ensure!(group["coordinator"]["id"] == 1, "{described}");
    ensure!(group["lag"]["records"] == 12, "{described}");
    for partition in group["partitions"].as_array().context("it has partitions")? {
        let of = |name: &str| partition[name].as_i64().unwrap_or(-1);
        let offsets = [of("committed_offset"), of("earliest_offset"), of("latest_offset"), of("lag_records")];
        ensure!(offsets == [10, 0, 14, 4], "{partition}");
        // Four of fourteen records, none of which is shorter than its value.
        ensure!((4 * 24..4 * 400).contains(&of("lag_bytes_estimate")), "{partition}");
        let age_ms = AGE.as_millis() as i64;
        ensure!((age_ms..age_ms + 300_000).contains(&of("lag_ms_estimate")), "{partition}");
        ensure!(partition["client"] == "clerk" && partition["host"] == "127.0.0.1", "{partition}");
    }
    let table = shell.says(&["describe"])?;
    ensure!(table.contains("COMMITTED") && table.contains("~10 min"), "{table}");
    ensure!(shell.json(&["describe", GROUP, "--no-time"])?[0]["lag"]["ms_estimate"].is_null());

    let members = shell.json(&["members", GROUP])?;
    for of in ["group", "type", "state", "protocol_type", "assignor", "epoch", "coordinator"] {
        ensure!(members[of] == group[of], "{of}: {members}");
    }
    let member = &members["members"][0];
    ensure!(member["client"] == "clerk" && member["topics"] == json!([TOPIC]), "{members}");
    ensure!(member["assignment"].as_array().map(Vec::len) == Some(3), "{members}");
    let table = shell.says(&["members", GROUP])?;
    ensure!(table.contains("clerk") && table.contains("orders:0-2"), "{table}");
    Ok(())
}

/// What the metrics of our node say of the same.
fn is_measured(node: &Node) -> Result<()> {
    let lag = format!("vltava_group_lag_records{{group=\"{GROUP}\",topic=\"{TOPIC}\"}}");
    let expected = [
        (lag.as_str(), 12.0),
        ("vltava_groups{type=\"classic\",state=\"Stable\"}", 1.0),
        ("vltava_group_offsets", 3.0),
        ("vltava_group_lags_unknown", 0.0),
        ("vltava_group_rebalances_total{cause=\"member_joined\"}", 1.0),
        ("vltava_group_rebalance_seconds_count", 1.0),
    ];
    wait::until("the metrics know of the group", PATIENCE, || {
        let series = http::metrics(&http::get(node.http_address(), "/metrics")?.body)?;
        let is_so = |(name, value): &(&str, f64)| series.get(*name) == Some(value);
        Ok(expected.iter().all(is_so).then_some(()))
    })
}

fn is_not_touched(shell: &Shell<'_>) -> Result<()> {
    let reset = ["reset-offsets", GROUP, "--topic", TOPIC, "--to-earliest"];
    let who = ["group billing has 1 member: clerk at 127.0.0.1", "stop them first"];
    shell.refuses(&[&reset[..], &["--yes"]].concat(), &who)?;
    shell.refuses(&["delete", GROUP, "--yes"], &["NON_EMPTY_GROUP", "vltava group members"])?;
    ensure!(shell.committed()? == [Some(10); 3]);
    Ok(())
}

fn is_reset(shell: &Shell<'_>) -> Result<()> {
    ensure!(shell.json(&["describe", GROUP])?[0]["state"] == "Empty");
    let reset = |arguments: &[&'static str]| [&["reset-offsets", GROUP], arguments].concat();
    let back = reset(&["--topic", "orders:0,2", "--shift-by", "-3"]);
    // It is shown, and asked for.
    let tried = shell.json(&[&back[..], &["--dry-run"]].concat())?;
    ensure!(tried["done"] == false && tried["partitions"].as_array().map(Vec::len) == Some(2), "{tried}");
    let first = &tried["partitions"][0];
    ensure!((&first["old_offset"], &first["new_offset"]) == (&json!(10), &json!(7)), "{tried}");
    ensure!((&first["old_lag_records"], &first["new_lag_records"]) == (&json!(4), &json!(7)), "{tried}");
    shell.refuses(&back, &["say --yes"])?;
    ensure!(shell.committed()? == [Some(10); 3]);
    let done = shell.says(&[&back[..], &["--yes"]].concat())?;
    ensure!(done.starts_with("TOPIC") && done.contains("+3"), "{done}");
    ensure!(shell.committed()? == [Some(7), Some(10), Some(7)]);
    // All of the records are of one time.
    for (arguments, expected) in [
        (["--all-topics", "--by-duration", "1h", "--yes"], 0),
        (["--all-topics", "--by-duration", "1m", "--yes"], 14),
        (["--all-topics", "--to-datetime", "2020-02-29T00:00:00Z", "--yes"], 0),
        (["--all-topics", "--to-offset", "12", "--yes"], 12),
    ] {
        shell.says(&reset(&arguments))?;
        ensure!(shell.committed()? == [Some(expected); 3], "{arguments:?}: {:?}", shell.committed()?);
    }
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), "orders,1,5\n\"orders\",2,6\n")?;
    let path = file.path().to_str().context("it is text")?;
    shell.says(&["reset-offsets", GROUP, "--from-file", path, "--yes"])?;
    ensure!(shell.committed()? == [Some(12), Some(5), Some(6)]);
    let missing = reset(&["--topic", "orders:7", "--to-earliest", "--yes"]);
    shell.refuses(&missing, &["topic orders has 3 partitions, and no partition 7"])?;
    shell.refuses(&reset(&["--topic", "nothing", "--to-earliest"]), &["UNKNOWN_TOPIC_OR_PARTITION"])
}

/// What a log does not have is not set, and is told of where it is committed.
fn is_out_of_range(shell: &Shell<'_>, node: &Node) -> Result<()> {
    let far = ["reset-offsets", GROUP, "--topic", "orders:0", "--to-offset", "4711", "--yes"];
    let done = shell.json(&far)?;
    let moved = &done["partitions"][0];
    ensure!(done["done"] == true && moved["new_offset"] == 14, "{done}");
    ensure!(moved["note"] == "not 4711: the log ends at 14", "{done}");
    let trim = [(TOPIC, 1, Some(base::Offset(8)))];
    admin(&node.bootstrap())?.delete_records(trim).wait().remove(0)?;
    let said = shell.says(&["describe", GROUP])?;
    let gone =
        "orders-1: 5 is committed, and the log begins at 8: 3 records were deleted before they were read";
    ensure!(said.contains(gone), "{said}");
    let described = shell.json(&["describe", GROUP])?;
    ensure!(described[0]["partitions"][1]["lag_records"] == 9, "{described}");
    Ok(())
}

fn is_deleted(shell: &Shell<'_>) -> Result<()> {
    shell.refuses(&["delete", GROUP], &["say --yes"])?;
    ensure!(shell.says(&["delete", GROUP, "--yes"])? == "deleted group billing\n");
    ensure!(shell.json(&["list"])? == json!([]));
    Ok(())
}

#[test]
fn a_classic_group_on_our_node() -> Result<()> {
    story(setup()?, GroupProtocol::Classic)
}

#[test]
fn a_consumer_group_on_our_node() -> Result<()> {
    story(setup()?, GroupProtocol::Consumer)
}

#[test]
fn a_classic_group_on_kafka() -> Result<()> {
    story(Setup::of(Program::Kafka), GroupProtocol::Classic)
}

#[test]
fn a_consumer_group_on_kafka() -> Result<()> {
    story(Setup::of(Program::Kafka), GroupProtocol::Consumer)
}
