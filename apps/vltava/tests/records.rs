//! `vltava produce` and `vltava consume` against a node that this test starts.

mod node;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use node::Node;

impl Node {
    fn vltava(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vltava"));
        command.args(arguments).args(["--bootstrap-server", &self.address]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn spawn(&self, arguments: &[&str]) -> Child {
        self.vltava(arguments).spawn().expect("the binary starts")
    }

    fn runs(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut child = self.spawn(arguments);
        let mut stdin = child.stdin.take().expect("it is a pipe");
        let input = input.to_vec();
        // It may end before it has read everything.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().expect("it ends");
        writer.join().expect("it was written, or not");
        output
    }

    /// What a command prints that must succeed.
    fn says(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let output = self.runs(arguments, input);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        output.stdout
    }

    /// What a command complains of that must fail.
    fn refuses(&self, arguments: &[&str], input: &[u8]) -> String {
        let output = self.runs(arguments, input);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stderr)
    }

    /// All records of a topic.
    fn reads(&self, arguments: &[&str]) -> String {
        text(&self.says(&[&["consume"], arguments, &["-e"]].concat(), b""))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn objects(lines: &[u8]) -> Vec<Value> {
    text(lines).lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
}

#[test]
fn a_topic_is_copied_with_nothing_lost() {
    let node = Node::start();
    let records = [
        json!({"key": "k", "payload": "v", "ts": 1_700_000_000_000_i64, "headers": ["a", "1", "a", null, "", ""]}),
        json!({"key": null, "payload": ""}),
        json!({"key": "", "payload": null}),
        json!({"key": {"base64": "AP+A"}, "payload": {"base64": "/w=="}, "headers": [{"base64": "/g=="}, {"base64": "gA=="}]}),
        json!({"key": "ř", "payload": "two\nlines\u{0}\t\"quoted\""}),
    ];
    let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
    node.says(&["produce", "first", "--json", "-p", "0"], lines.as_bytes());
    let first = node.says(&["consume", "first", "--json", "-e"], b"");
    for ((read, written), offset) in objects(&first).iter().zip(&records).zip(0..) {
        assert_eq!((&read["topic"], &read["partition"]), (&json!("first"), &json!(0)));
        assert_eq!((&read["offset"], &read["tstype"]), (&json!(offset), &json!("create")));
        for name in ["key", "payload", "headers"] {
            assert_eq!(read[name], written[name], "{name} of {read}");
        }
    }
    assert_eq!(objects(&first)[0]["ts"], records[0]["ts"]);
    assert_eq!(objects(&first).len(), records.len());

    node.says(&["produce", "second", "--json", "--keep-partition", "-z", "zstd"], &first);
    let second = node.says(&["consume", "second", "--json", "-e"], b"");
    assert_eq!(text(&second).replace("\"second\"", "\"first\""), text(&first));
}

#[test]
fn lines_have_keys_headers_and_no_newline_at_the_end() {
    let node = Node::start();
    let arguments = ["produce", "t", "-K", ":", "-H", "trace=a=b", "-H", "flag", "--timestamp", "5"];
    node.says(&arguments, b"k:v:w\nplain\n\n:\nlast");
    let format = r"%p %o %T <%k %K> <%s %S> %h\n";
    let expected = "0 0 5 <k 1> <v:w 3> trace=a=b,flag=NULL\n\
                    0 1 5 < -1> <plain 5> trace=a=b,flag=NULL\n\
                    0 2 5 < -1> < 0> trace=a=b,flag=NULL\n\
                    0 3 5 < 0> < 0> trace=a=b,flag=NULL\n\
                    0 4 5 < -1> <last 4> trace=a=b,flag=NULL\n";
    assert_eq!(node.reads(&["t", "-f", format]), expected);
    node.says(&["produce", "u", "-K", "::", "-k", "all", "-Z", "-D", r"\x00"], b"::\0a::\0b\0");
    assert_eq!(node.reads(&["u", "-f", r"%k=%s/%S\n", "-Z"]), "all=NULL/-1\na=NULL/-1\nall=b/1\n");
    // Not text, and nobody's concern.
    node.says(&["produce", "-t", "v", "-c", "2"], b"\xff\xfe\nb\nc\n");
    assert_eq!(node.says(&["consume", "-t", "v", "-e", "-D", ";"], b""), b"\xff\xfe;b;");
}

#[test]
fn files_are_records_or_full_of_them() {
    let node = Node::start();
    let dir = tempfile::tempdir().expect("there is a place for files");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (first, second) = (path("first"), path("second"));
    std::fs::write(&first, "a\nb\n").expect("it can be written");
    std::fs::write(&second, "c").expect("it can be written");
    node.says(&["produce", "whole", &first, &second], b"");
    assert_eq!(node.reads(&["whole", "-D", "|"]), "a\nb\n|c|");
    let summary = node.runs(&["produce", "-t", "lines", "-l", &first, "-", &second, "--summary"], b"typed");
    assert_eq!(text(&summary.stderr), "4 records were written\n");
    assert_eq!(node.reads(&["lines"]), "a\nb\ntyped\nc\n");
    let settings = path("settings");
    std::fs::write(&settings, "# of a Java client\nkey.serializer=any\nacks: 1\nlinger.ms=soon\n")
        .expect("it can be written");
    let wrong = node.refuses(&["produce", "lines", "-F", &settings], b"");
    assert!(wrong.contains("linger.ms=soon: a number of milliseconds"), "{wrong}");
    std::fs::write(&settings, "key.serializer=any\nacks: all\n").expect("it can be written");
    node.says(&["produce", "lines", "-F", &settings, "-X", "compression.type=lz4"], b"set");
    assert_eq!(node.reads(&["lines", "-o", "-1"]), "set\n");
    let missing = node.refuses(&["produce", "whole", &path("missing")], b"");
    assert!(missing.contains("missing: No such file"), "{missing}");
}

#[test]
fn it_is_read_from_anywhere_to_anywhere() {
    let node = Node::start();
    node.says(&["topic", "create", "t", "--partitions", "3"], b"");
    for partition in ["0", "1", "2"] {
        let line = |number| format!(r#"{{"payload":"{partition}{number}","ts":{}}}"#, 1_000 * (number + 1));
        let lines: Vec<String> = (0..5).map(line).collect();
        node.says(&["produce", "t", "-J", "-p", partition], lines.join("\n").as_bytes());
    }
    let sorted = |arguments: &[&str]| {
        let read = node.reads(&[&["t"], arguments].concat());
        let mut lines: Vec<&str> = read.lines().collect();
        lines.sort_unstable();
        lines.join(" ")
    };
    assert_eq!(sorted(&["-p", "1"]), "10 11 12 13 14");
    assert_eq!(sorted(&["-p", "1", "-p", "2", "-o", "3"]), "13 14 23 24");
    assert_eq!(sorted(&["-o", "-1"]), "04 14 24");
    assert_eq!(sorted(&["-p", "0", "-o", "-99"]), "00 01 02 03 04");
    assert_eq!(sorted(&["-o", "end"]), "");
    assert_eq!(sorted(&["-o", "s@3500"]), "03 04 13 14 23 24");
    assert_eq!(sorted(&["-o", "s@2000", "-o", "e@4000"]), "01 02 11 12 21 22");
    assert_eq!(sorted(&["-o", "s@6000"]), "");
    assert_eq!(sorted(&["--read-committed"]).len(), 44);
    assert_eq!(sorted(&["-c", "7"]).len(), 20);
    // Without -e, when there are enough.
    assert_eq!(node.says(&["consume", "t", "-p", "2", "-c", "2"], b""), b"20\n21\n");
    node.says(&["produce", "other"], b"x");
    assert_eq!(node.reads(&["t", "other", "-o", "-1", "-f", "%t "]).len(), 3 * 2 + "other ".len());
    let far = node.runs(&["consume", "t", "-p", "0", "-o", "77", "-e"], b"");
    assert_eq!((far.status.code(), &*far.stdout), (Some(0), &b""[..]));
    assert!(text(&far.stderr).contains("t [0] has offsets 0 to 5: it is read from 5 on, not from 77"));
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_what_to_do() {
    let node = Node::start();
    node.says(&["topic", "create", "small", "--config", "max.message.bytes=1000"], b"");
    let long = [b"first\n".to_vec(), vec![b'x'; 3 << 20], b"\nlast\n".to_vec()].concat();
    let said = node.refuses(&["produce", "t"], &long);
    assert!(said.starts_with("error: line 2 has more than 1048576 bytes"), "{said}");
    assert!(said.contains("-X max.request.size"), "{said}");
    assert_eq!(node.reads(&["t"]), "first\n", "what stood before it is written");
    // It fits the limit, but not with what a record has around its value.
    let nearly = [vec![b'x'; (1 << 20) - 10], b"\nlast\n".to_vec()].concat();
    let said = node.refuses(&["produce", "t"], &nearly);
    assert!(said.starts_with("error: line 1 was not sent, nor what follows it: the record has"), "{said}");

    let refused = [b"first\n".to_vec(), vec![b'x'; 5_000]].concat();
    let said = node.refuses(&["produce", "small", "-X", "batch.size=512"], &refused);
    assert!(said.contains("1 record was written, 1 was not; the first that was not: line 2"), "{said}");
    assert!(said.contains("MESSAGE_TOO_LARGE") && said.contains("max.message.bytes"), "{said}");

    let json = b"{\"payload\":\"a\"}\n{\"payload\":\"b\",\"keys\":1}\n";
    let said = node.refuses(&["produce", "t", "--json"], json);
    assert!(said.contains("line 2 was not sent, nor what follows it: unknown field `keys`"), "{said}");
    assert_eq!(node.reads(&["t"]), "first\na\n");
    let said = node.refuses(&["produce", "t", "-p", "9"], b"a");
    assert!(said.contains("line 1") && said.contains("no partition 9"), "{said}");
    let said = node.refuses(&["consume", "t", "-p", "9"], b"");
    assert!(said.contains("topic t has 1 partitions, and no partition 9"), "{said}");
    let said = node.refuses(&["consume", "nowhere", "-e"], b"");
    assert!(said.contains("UNKNOWN_TOPIC_OR_PARTITION") && said.contains("vltava topic list"), "{said}");
    let said = node.refuses(&["consume", "t", "-X", "no.such=1"], b"");
    assert!(said.contains("no.such is not a setting of this consumer"), "{said}");
    let misuse = node.runs(&["consume", "t", "-f", "%x"], b"");
    assert_eq!(misuse.status.code(), Some(2), "{misuse:?}");
}

#[test]
fn an_interrupted_writer_writes_what_it_read() {
    let node = Node::start();
    node.says(&["topic", "create", "t"], b"");
    let mut writer = node.spawn(&["produce", "t", "--summary", "-X", "linger.ms=200"]);
    let mut stdin = writer.stdin.take().expect("it is a pipe");
    stdin.write_all(b"one\n").expect("it reads");
    // It has begun when the first has come.
    assert_eq!(node.says(&["consume", "t", "-c", "1"], b""), b"one\n");
    interrupt(&writer);
    let ended = writer.wait_with_output().expect("it ends, although its input does not");
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    assert_eq!(text(&ended.stderr), "1 record was written\n");
    drop(stdin);
}

#[test]
fn an_interrupted_writer_of_a_flood_ends_as_one_that_waits() {
    let node = Node::start();
    // It is by chance what its end comes between.
    for topic in ["a", "b", "c", "d", "e"] {
        node.says(&["topic", "create", topic], b"");
        let mut writer = node.spawn(&["produce", topic, "--summary"]);
        let mut stdin = writer.stdin.take().expect("it is a pipe");
        let lines = b"a line\n".repeat(1_000);
        let flood = std::thread::spawn(move || while stdin.write_all(&lines).is_ok() {});
        assert_eq!(node.says(&["consume", topic, "-c", "1"], b""), b"a line\n");
        interrupt(&writer);
        let ended = writer.wait_with_output().expect("it ends, although its input does not");
        flood.join().expect("nobody reads any more");
        assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
        let said = text(&ended.stderr);
        let written = said.strip_suffix(" records were written\n").and_then(|count| count.parse().ok());
        let there = text(&node.says(&["topic", "offsets", topic, "--json"], b""));
        let there: Value = serde_json::from_str(&there).expect("it is JSON");
        assert_eq!(there[0]["offset"].as_u64(), written, "{said}");
    }
}

#[test]
fn a_writer_says_why_nothing_is_known_of_its_topic() {
    let node = Node::start_with(&["--set", "auto.create.topics.enable=false"]);
    let said = node.refuses(&["produce", "nowhere", "-X", "max.block.ms=300"], b"a");
    assert!(said.contains("there is no topic nowhere") && said.contains("vltava topic create"), "{said}");
    // It takes connections, and says nothing.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let address = mute.local_addr().expect("it has one").to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_vltava"));
    command.args(["produce", "t", "-X", "max.block.ms=300", "-b", &address]);
    let mut writer = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    writer.stdin.take().expect("it is a pipe").write_all(b"a").expect("it reads");
    let ended = writer.wait_with_output().expect("it ends");
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot be reached") && said.contains("speak the Kafka protocol"), "{said}");
    assert!(!said.contains("no topic") && !said.contains("topic create"), "{said}");
}

#[test]
fn an_interrupted_reader_and_one_that_nobody_listens_to_end() {
    let node = Node::start();
    node.says(&["produce", "t"], b"one\ntwo\n");
    let first_line = |reader: &mut Child| {
        let mut lines = BufReader::new(reader.stdout.take().expect("it is a pipe"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("something is printed");
        assert_eq!(line, "one\n");
        lines
    };
    let mut interrupted = node.spawn(&["consume", "t"]);
    let mut lines = first_line(&mut interrupted);
    interrupt(&interrupted);
    assert_eq!(interrupted.wait().expect("it ends").code(), Some(130));
    let mut rest = String::new();
    lines.read_to_string(&mut rest).expect("it is text");
    assert_eq!(rest, "two\n");

    let mut unheard = node.spawn(&["consume", "t"]);
    drop(first_line(&mut unheard));
    let ended = unheard.wait_with_output().expect("it ends, although nothing comes");
    assert_eq!((ended.status.code(), text(&ended.stderr)), (Some(0), String::new()));
}

fn interrupt(process: &Child) {
    let id = rustix::process::Pid::from_child(process);
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it runs");
}
