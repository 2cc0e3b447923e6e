//! What the command line says when there is no node to talk to.

use std::process::{Command, Output};

/// An address where nobody listens: the port is reserved for a service that no system runs any more.
const NOBODY: &str = "127.0.0.1:1";

fn vltava(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vltava")).args(arguments).output().expect("the binary starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn without_arguments_it_says_how_to_begin() {
    let output = vltava(&[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("vltava server"));
}

#[test]
fn every_command_has_examples() {
    let commands: &[&[&str]] = &[
        &[],
        &["server"],
        &["topic"],
        &["topic", "create"],
        &["topic", "list"],
        &["topic", "describe"],
        &["topic", "alter"],
        &["topic", "offsets"],
        &["topic", "trim"],
        &["topic", "delete-records"],
        &["topic", "log-dirs"],
        &["topic", "delete"],
        &["cluster"],
        &["cluster", "status"],
        &["cluster", "add"],
        &["cluster", "drain"],
        &["cluster", "remove"],
        &["cluster", "rebalance"],
        &["cluster", "watch"],
        &["cluster", "cancel"],
        &["group"],
        &["group", "list"],
        &["group", "describe"],
        &["group", "members"],
        &["group", "reset-offsets"],
        &["group", "delete"],
        &["bench"],
        &["bench", "run"],
        &["produce"],
        &["consume"],
        &["log"],
        &["log", "dump"],
        &["config"],
        &["completions"],
    ];
    for command in commands {
        let output = vltava(&[command, ["--help"].as_slice()].concat());
        assert!(stdout(&output).contains("Examples:\n"), "{command:?}");
    }
}

#[test]
fn exit_codes_tell_misuse_from_failure() {
    let cases: &[(&[&str], i32)] = &[
        (&["no-such-command"], 2),
        (&["topic", "create"], 2),
        (&["topic", "alter", "orders"], 2),
        (&["server", "--set", "no-value"], 2),
        (&["config", "show", "no.such.setting"], 1),
        (&["topic", "delete", "orders"], 1),
        (&["topic", "trim", "orders"], 2),
        (&["topic", "trim", "orders", "--before", "-1"], 2),
        (&["topic", "trim", "orders", "--before", "end"], 1),
        (&["topic", "offsets", "orders", "--time", "noon"], 2),
        (&["topic", "list", "--bootstrap-server", NOBODY], 1),
        (&["produce", "orders", "--bootstrap-server", NOBODY], 1),
        (&["consume", "orders", "--bootstrap-server", NOBODY], 1),
        (&["produce"], 2),
        (&["produce", "orders", "--keep-partition"], 2),
        (&["consume", "orders", "-o", "soon"], 2),
        (&["consume", "orders", "--json", "-f", "%s"], 2),
        (&["config"], 0),
    ];
    for (arguments, code) in cases {
        assert_eq!(vltava(arguments).status.code(), Some(*code), "{arguments:?}");
    }
}

#[test]
fn a_server_that_is_not_there_is_named_with_what_to_do() {
    let output = vltava(&["topic", "list", "--bootstrap-server", NOBODY]);
    let said = stderr(&output);
    assert!(said.starts_with(&format!("error: cannot connect to {NOBODY}: ")), "{said}");
    assert!(said.contains("vltava server"), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn settings_are_explained_to_people_and_programs() {
    let shown = stdout(&vltava(&["config", "show", "flush.policy"]));
    assert!(shown.starts_with("flush.policy = ack\n"), "{shown}");
    let json: serde_json::Value =
        serde_json::from_slice(&vltava(&["config", "--json"]).stdout).expect("it is JSON");
    let settings = json.as_array().expect("it is a list");
    assert!(settings.iter().any(|setting| setting["name"] == "retention.ms" && setting["scope"] == "topic"));
    let listed = stdout(&vltava(&["config"]));
    for setting in settings {
        for part in ["name", "type", "allowed", "documentation", "reason"] {
            assert!(setting[part].as_str().is_some_and(|text| !text.is_empty()), "{part} of {setting}");
        }
        let text = |part: &str| setting[part].as_str().unwrap_or_default();
        let default = match setting["default"].as_str() {
            None => "(not set)",
            Some("") => "(empty)",
            Some(default) => default,
        };
        let says_what_then = text("reason").starts_with("Not set");
        assert!(!setting["default"].is_null() || says_what_then, "{setting}");
        let range = (text("type"), text("allowed"));
        let explained = format!("{} = {default}\n    {}: {} · ", text("name"), range.0, range.1);
        assert!(listed.contains(&explained), "{explained}");
        let whole = ["int", "short", "long"].contains(&text("type"));
        assert!(!whole || text("allowed").contains(|c: char| c.is_ascii_digit()), "no range: {setting}");
    }
}

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&vltava(&["completions", shell])).contains("bootstrap-server"), "{shell}");
    }
}

#[test]
fn a_port_that_is_taken_is_said_once_and_what_to_do() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let address = taken.local_addr().expect("it has an address").to_string();
    let dir = tempfile::tempdir().expect("there is a place for files");
    let data_dir = dir.path().join("data").display().to_string();
    let output =
        vltava(&["server", "--listen", &address, "--http-listen", "127.0.0.1:0", "--data-dir", &data_dir]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("Address already in use").count(), 1, "{said}");
    assert!(said.contains("--listen"), "{said}");
}
