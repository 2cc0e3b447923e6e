//! `vltava topic` against a node that this test starts.

mod node;

use std::process::{Command, Output};

use serde_json::{Value, json};

use node::Node;

impl Node {
    fn topic(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vltava"));
        command.arg("topic").args(arguments).args(["--bootstrap-server", &self.address]);
        command.output().expect("the binary starts")
    }

    /// The answer of a command that must succeed.
    fn says(&self, arguments: &[&str]) -> String {
        let output = self.topic(arguments);
        let (said, error) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
        said
    }

    /// The error of a command that must fail.
    fn refuses(&self, arguments: &[&str]) -> String {
        let output = self.topic(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stdout));
        text(&output.stderr)
    }

    fn describes(&self, name: &str) -> Value {
        let answer: Value =
            serde_json::from_str(&self.says(&["describe", name, "--json"])).expect("it is JSON");
        answer[0].clone()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_life_of_a_topic() {
    let node = Node::start();
    assert_eq!(node.says(&["list"]), "");
    let created = node.says(&["create", "orders", "--partitions", "3", "--config", "retention.ms=3600000"]);
    assert_eq!(created, "created topic orders with 3 partitions\n");
    assert_eq!(node.says(&["list"]), "orders\n");

    let described = node.describes("orders");
    assert_eq!(described["partitions"].as_array().map(Vec::len), Some(3));
    assert_eq!(described["partitions"][2]["latest_offset"], 0);
    assert_eq!(described["settings"]["retention.ms"], "3600000");
    let table = node.says(&["describe", "orders"]);
    assert!(table.contains("PARTITION") && table.contains("retention.ms  3600000"), "{table}");

    node.says(&["alter", "orders", "--partitions", "5"]);
    node.says(&["alter", "orders", "--config", "flush.policy=os", "--delete-config", "retention.ms"]);
    let described = node.describes("orders");
    assert_eq!(described["partitions"].as_array().map(Vec::len), Some(5));
    assert_eq!(described["settings"]["flush.policy"], "os");
    assert_eq!(described["settings"].get("retention.ms"), None);

    assert_eq!(node.says(&["delete", "orders", "--yes"]), "deleted topic orders\n");
    assert_eq!(node.says(&["list", "--json"]), format!("{:#}\n", json!([])));
}

#[test]
fn what_is_only_tried_changes_nothing() {
    let node = Node::start();
    assert_eq!(
        node.says(&["create", "orders", "--partitions", "2", "--dry-run"]),
        "could create topic orders with 2 partitions\n"
    );
    assert_eq!(node.says(&["list"]), "");
    node.says(&["create", "orders", "--partitions", "2"]);
    assert_eq!(node.says(&["create", "orders", "--if-not-exists"]), "topic orders exists\n");
    let more = ["alter", "orders", "--partitions", "4", "--config", "retention.ms=1", "--dry-run"];
    assert_eq!(node.says(&more), "could alter topic orders\n");
    assert!(
        node.refuses(&["alter", "orders", "--partitions", "1", "--dry-run"]).contains("INVALID_PARTITIONS")
    );
    let described = node.describes("orders");
    assert_eq!(described["partitions"].as_array().map(Vec::len), Some(2));
    assert_eq!(described["settings"], json!({}));
}

#[test]
fn if_one_change_is_refused_the_other_is_not_made() {
    let node = Node::start();
    node.says(&["create", "orders", "--partitions", "4", "--config", "retention.ms=3600000"]);
    let fewer = ["alter", "orders", "--partitions", "2", "--config", "retention.ms=5"];
    let said = node.refuses(&fewer);
    assert!(said.contains("INVALID_PARTITIONS") && !said.contains("settings were changed"), "{said}");
    assert_eq!(node.describes("orders")["settings"]["retention.ms"], "3600000");
    let odd = ["alter", "orders", "--partitions", "6", "--config", "retention.ms=soon"];
    assert!(node.refuses(&odd).contains("INVALID_CONFIG"));
    assert_eq!(node.describes("orders")["partitions"].as_array().map(Vec::len), Some(4));
    node.says(&["alter", "orders", "--partitions", "6", "--config", "retention.ms=7200000"]);
    let described = node.describes("orders");
    assert_eq!(described["partitions"].as_array().map(Vec::len), Some(6));
    assert_eq!(described["settings"]["retention.ms"], "7200000");
}

#[test]
fn records_have_offsets_go_and_take_room() {
    let node = Node::start();
    node.says(&["create", "orders", "--partitions", "2"]);
    let producer = client::producer::Producer::new(&node.address).expect("it starts");
    for number in 0..10 {
        let record =
            client::producer::Record::to("orders").partition(0).timestamp_ms(1_700_000_000_000 + number);
        producer.send_blocking(&record.value("x")).expect("it is taken").wait().expect("it is written");
    }
    assert_eq!(node.says(&["offsets", "orders"]), "PARTITION  OFFSET  TIME\n0          10\n1          0\n");
    let at = node.says(&["offsets", "orders", "--time", "1700000000004", "--json"]);
    let at: Value = serde_json::from_str(&at).expect("it is JSON");
    assert_eq!((&at[0]["offset"], &at[0]["timestamp"]), (&json!(4), &json!(1_700_000_000_004_i64)));
    assert_eq!(at[1]["offset"], json!(null), "there is nothing");

    let trimmed = node.says(&["trim", "orders", "--partition", "0", "--before", "4", "--yes"]);
    assert_eq!(trimmed, "PARTITION  BEGINS\n0          4\n");
    assert!(node.refuses(&["trim", "orders", "--before", "11", "--yes"]).contains("OFFSET_OUT_OF_RANGE"));
    assert!(
        node.refuses(&["trim", "orders", "--partition", "2", "--before", "1", "--yes"])
            .contains("no partition 2")
    );
    assert_eq!(node.describes("orders")["partitions"][0]["earliest_offset"], 4);
    node.says(&["delete-records", "orders", "--before", "end", "--yes"]);
    assert_eq!(node.describes("orders")["partitions"][0]["earliest_offset"], 10);

    let dirs = node.says(&["log-dirs", "orders", "--json"]);
    let dirs: Value = serde_json::from_str(&dirs).expect("it is JSON");
    let replicas = dirs[0]["replicas"].as_array().expect("there is a directory");
    assert_eq!(replicas.len(), 2);
    assert!(replicas[0]["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{dirs:#}");
    let table = node.says(&["log-dirs", "--broker", &dirs[0]["broker"].to_string()]);
    assert!(table.contains("bytes free") && table.contains("TOPIC"), "{table}");
    assert!(
        node.refuses(&["log-dirs", "--broker", "77"]).contains("broker 77: the cluster has no such broker")
    );
}

#[test]
fn one_topic_that_is_missing_is_not_in_the_way_of_the_others() {
    let node = Node::start();
    node.says(&["create", "orders"]);
    let output = node.topic(&["describe", "orders", "payments"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("Topic orders") && text(&output.stderr).contains("topic payments"));
    let output = node.topic(&["delete", "payments", "orders", "returns", "--yes"]);
    assert_eq!(text(&output.stdout), "deleted topic orders\n");
    let said = text(&output.stderr);
    assert!(said.contains("topic payments") && said.contains("topic returns"), "{said}");
    assert_eq!(node.says(&["delete", "payments", "--yes", "--if-exists"]), "");
}

#[test]
fn refusals_say_what_and_what_to_do() {
    let node = Node::start();
    node.says(&["create", "orders", "--partitions", "2"]);
    let cases: &[(&[&str], &str, &str)] = &[
        (&["create", "orders"], "TOPIC_ALREADY_EXISTS", "vltava topic alter"),
        (&["create", "a/b"], "INVALID_TOPIC_EXCEPTION", ""),
        (
            &["create", "copies", "--replication-factor", "3"],
            "INVALID_REPLICATION_FACTOR",
            "a broker for each",
        ),
        (&["create", "odd", "--config", "retention.ms=soon"], "INVALID_CONFIG", "vltava config show"),
        (&["create", "none", "--partitions", "0"], "INVALID_PARTITIONS", "one partition or more"),
        (&["alter", "orders", "--partitions", "1"], "INVALID_PARTITIONS", "never fewer"),
        (&["alter", "orders", "--config", "no.such=1"], "INVALID_CONFIG", "vltava config show"),
        (&["describe", "payments"], "UNKNOWN_TOPIC_OR_PARTITION", "vltava topic list"),
        (&["delete", "payments", "--yes"], "UNKNOWN_TOPIC_OR_PARTITION", "vltava topic list"),
    ];
    for (arguments, code, advice) in cases {
        let error = node.refuses(arguments);
        assert!(error.contains(code) && error.contains(advice), "{arguments:?}: {error}");
    }
    assert_eq!(node.describes("orders")["partitions"].as_array().map(Vec::len), Some(2));
}
