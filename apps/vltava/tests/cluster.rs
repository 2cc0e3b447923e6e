//! `vltava cluster` against a node that this test starts. With several nodes it moves partitions; one alone has
//! nowhere to move them.

mod node;

use std::process::{Command, Output};

use serde_json::Value;

use node::Node;

impl Node {
    fn vltava(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vltava"));
        command.args(arguments).args(["--bootstrap-server", &self.address]);
        command.output().expect("the binary starts")
    }

    /// The answer of a command that must succeed.
    fn says(&self, arguments: &[&str]) -> String {
        let output = self.vltava(arguments);
        let (said, error) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
        said
    }

    /// The error of a command that must fail.
    fn refuses(&self, arguments: &[&str]) -> String {
        let output = self.vltava(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stdout));
        text(&output.stderr)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_node_alone_is_a_cluster_that_is_well() {
    let node = Node::start();
    node.says(&["topic", "create", "orders", "--partitions", "3"]);
    let said = node.says(&["cluster", "status"]);
    assert!(
        said.starts_with("Cluster ") && said.contains("1 topic, 3 partitions: 0 without a leader"),
        "{said}"
    );
    let status: Value =
        serde_json::from_str(&node.says(&["cluster", "status", "--json"])).expect("it is JSON");
    assert_eq!((&status["partitions"], &status["partitions_not_in_sync"]), (&3.into(), &0.into()));
    let only = &status["nodes"][0];
    assert_eq!((&only["id"], &only["up"], &only["leads"]), (&1.into(), &true.into(), &3.into()));
    assert!(only["usable_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{status}");
    assert_eq!(only["address"], node.address.as_str());
}

#[test]
fn a_node_alone_has_nowhere_to_move_anything() {
    let node = Node::start();
    node.says(&["topic", "create", "orders"]);
    assert_eq!(node.says(&["cluster", "rebalance"]), "nothing has to be moved\n");
    let plan: Value = serde_json::from_str(&node.says(&["cluster", "rebalance", "--json", "--dry-run"]))
        .expect("it is JSON");
    assert_eq!((&plan["moves"], &plan["done"]), (&serde_json::json!([]), &false.into()));
    assert_eq!(node.says(&["cluster", "cancel"]), "nothing is on its way\n");
    assert_eq!(node.says(&["cluster", "watch"]), "nothing is on its way\n");
    let said = node.refuses(&["cluster", "drain", "1"]);
    assert!(said.contains("orders-0 has nowhere to go") && said.contains("--replication-factor"), "{said}");
    assert!(node.refuses(&["cluster", "drain", "9"]).contains("the cluster has no broker 9"));
    let said = node.refuses(&["topic", "alter", "orders", "--replication-factor", "2", "--yes"]);
    assert!(said.contains("2 replicas of it need as many brokers"), "{said}");
    node.says(&["topic", "alter", "orders", "--replication-factor", "1"]);
    assert!(node.refuses(&["cluster", "remove", "9"]).contains("the cluster has no node 9"));
}
