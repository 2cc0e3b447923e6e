//! `vltava produce` and `vltava consume` beside kcat, on our node and on Apache Kafka: the same options give
//! the same bytes.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use conformance::{Node, Program, Setup, home};
use serde_json::Value;
use vltava_e2e::churn::{Churn, admin};
use vltava_e2e::process::{setup, with_node};

/// What a program prints for an input.
fn said(program: &mut Command, input: &[u8]) -> Result<Vec<u8>> {
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("it is a pipe")?.write_all(input)?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{program:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

fn vltava(node: &Node, command: &str, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>> {
    let mut program = Command::new(home::vltava()?);
    said(program.arg(command).args(["-b", &node.bootstrap()]).args(arguments), input)
}

fn kcat(node: &Node, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>> {
    said(Command::new("kcat").args(["-q", "-b", &node.bootstrap()]).args(arguments), input)
}

/// What both are told of what to print.
const PRINTS: &[&[&str]] = &[
    &[],
    &["-K", "\\t"],
    &["-D", "\\x1e"],
    &["-f", "%t [%p] at offset %o: key %k (%K): %s (%S) %h %T\\n"],
    &["-f", "%R%s\\x1f"],
    &["-o", "2"],
    &["-o", "-2"],
    &["-o", "beginning", "-c", "3"],
    &["-o", "s@1600000000003"],
    &["-o", "s@1600000000001", "-o", "e@1600000000004"],
];

fn reads_what_kcat_reads(setup: Setup) -> Result<()> {
    with_node(Node::start(setup)?, |node| {
        let mut churn = Churn::default();
        for topic in ["ours", "theirs"] {
            churn.create(&admin(&node.bootstrap())?, topic, 1, &[])?;
        }
        for (line, timestamp) in ["k1:one", "k2:two:2", "none", ":empty", "k5:řeka", "k6:"].iter().zip(0..) {
            let timestamp = format!("16000000000{timestamp:02}");
            let headers = ["-K", ":", "-H", "trace=4711", "-H", "nothing", "--timestamp", &timestamp];
            vltava(node, "produce", &[&headers[..], &["ours"]].concat(), line.as_bytes())?;
        }
        let theirs = ["-P", "-t", "theirs", "-K", ":", "-H", "trace=4711", "-z", "lz4"];
        kcat(node, &theirs, b"k1:one\nk2:two:2\nk3:\nlast")?;
        for topic in ["ours", "theirs"] {
            for &print in PRINTS {
                let ours = vltava(node, "consume", &[print, &["-t", topic, "-e"]].concat(), b"")?;
                let kcats = kcat(node, &[print, &["-C", "-t", topic, "-e"]].concat(), b"")?;
                let [ours, kcats] = [ours, kcats].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                ensure!(ours == kcats, "{topic} {print:?}: {ours:?}, but from kcat {kcats:?}");
            }
            let ours = objects(&vltava(node, "consume", &["-J", "-e", topic], b"")?)?;
            let kcats = objects(&kcat(node, &["-C", "-J", "-e", "-t", topic], b"")?)?;
            ensure!(ours == kcats, "{topic}: {ours:?}, but from kcat {kcats:?}");
        }
        // kcat's own JSON can be written, too.
        let kcats = kcat(node, &["-C", "-J", "-e", "-t", "ours"], b"")?;
        vltava(node, "produce", &["--json", "copy", "--acks", "1", "--compression", "gzip"], &kcats)?;
        let format = ["-e", "-f", "%o %T %k %K %s %S %h\\n"];
        let [first, copy] = ["ours", "copy"]
            .map(|topic| vltava(node, "consume", &[&format[..], &["--read-committed", topic]].concat(), b""));
        ensure!(first? == copy?, "the copy is the same");
        Ok(())
    })
}

/// One object a line, without the broker, which kcat alone tells of.
fn objects(lines: &[u8]) -> Result<Vec<Value>> {
    let lines = std::str::from_utf8(lines)?.lines();
    lines
        .map(|line| {
            let mut object: Value = serde_json::from_str(line)?;
            object.as_object_mut().context("it is an object")?.remove("broker");
            Ok(object)
        })
        .collect()
}

#[test]
fn our_node_is_read_as_kcat_reads_it() -> Result<()> {
    reads_what_kcat_reads(setup()?)
}

#[test]
fn kafka_is_read_as_kcat_reads_it() -> Result<()> {
    reads_what_kcat_reads(Setup::of(Program::Kafka))
}
