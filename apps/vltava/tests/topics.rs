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
