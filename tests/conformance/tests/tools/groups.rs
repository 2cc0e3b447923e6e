//! Groups: ConsumerGroupCommand; ConsoleConsumer and VerifiableConsumer as members; GetOffsetShell of their offsets.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vltava_conformance::group::{Joining, Protocol};

use crate::dump::partition_folder;
use crate::toolbox::{Toolbox, eventually, writer};

const PROTOCOLS: [Protocol; 2] = [Protocol::Classic, Protocol::Consumer];
/// Seconds, of the records in partition 0. Partition 1 has one of an early time.
const TIMES_MS: [i64; 3] = [10_000, 30_000, 20_000];

/// A topic of two partitions with 3 and 1 records.
fn topic(toolbox: &Toolbox, story: &str) -> Result<String> {
    let topic = toolbox.create(story, 2)?;
    toolbox.write(&topic, 0, &TIMES_MS)?;
    toolbox.write(&topic, 1, &[1])?;
    Ok(topic)
}

/// A member reads all of the topic, commits 2 and 1, and something is done while it is there.
fn with_member(toolbox: &Toolbox, joining: &Joining<'_>, during: impl FnOnce() -> Result<()>) -> Result<()> {
    toolbox.suite.tell(&writer()?, |driver| {
        driver.join(joining)?;
        eventually(|| {
            let seen = driver.member()?;
            ensure!(seen.records.len() == TIMES_MS.len() + 1, "{seen:?}");
            Ok(())
        })?;
        driver.commit(joining.topic, &[Some(2), Some(1)])?;
        during()?;
        driver.leave()
    })
}

/// The rows of a table, by its words, in their order; one that is empty has no heading either.
fn rows(out: &str, heading: &str) -> Vec<Vec<String>> {
    let lines = out.lines().map(str::trim).skip_while(|line| !line.starts_with(heading)).skip(1);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    let mut rows: Vec<Vec<String>> = lines.filter(|line| !line.is_empty()).map(words).collect();
    rows.sort();
    rows
}

/// Checks rows: what is `*` is any word.
fn check(out: &str, wanted: &[&[&str]]) -> Result<()> {
    let rows = rows(out, "GROUP");
    let is_same = |(row, wanted): (&Vec<String>, &&[&str])| {
        row.len() == wanted.len()
            && row.iter().zip(*wanted).all(|(word, wanted)| *wanted == "*" || word == wanted)
    };
    let all_are = rows.len() == wanted.len() && rows.iter().zip(wanted).all(is_same);
    ensure!(all_are, "{rows:?}, not {wanted:?}: {out}");
    Ok(())
}

pub(crate) fn consumer_group_command(toolbox: &Toolbox) -> Result<()> {
    let mut groups = Vec::new();
    for (protocol, assignor) in
        [(Protocol::Classic, "range"), (Protocol::Consumer, "uniform"), (Protocol::Consumer, "range")]
    {
        let topic = topic(toolbox, &format!("group-command-{protocol}-{assignor}"))?;
        let joining = Joining::new(&topic, &topic, protocol).assigned_by(assignor);
        with_member(toolbox, &joining, || with_a_member(toolbox, &topic, (protocol, assignor)))
            .context(assignor)
            .context(protocol)?;
        groups.push((topic, protocol));
    }
    // It asks for what all of them have committed at once; a group of another story may go meanwhile.
    eventually(|| {
        let said =
            toolbox.run("ConsumerGroupCommand", &["--describe", "--all-groups", "--offsets"])?.done()?;
        let rows = rows(&said, "GROUP");
        let is_told = |group: &String| rows.iter().filter(|row| row.first() == Some(group)).count() == 2;
        ensure!(groups.iter().all(|(group, _)| is_told(group)), "{groups:?} in {said}");
        Ok(())
    })?;
    groups.iter().try_for_each(|(group, protocol)| without_members(toolbox, group).context(*protocol))
}

fn with_a_member(toolbox: &Toolbox, group: &str, (protocol, assignor): (Protocol, &str)) -> Result<()> {
    let run = |arguments: &[&str]| toolbox.run("ConsumerGroupCommand", arguments);
    let describe = |arguments: &[&str]| run(&[&["--describe", "--group", group], arguments].concat())?.done();
    let kind = match protocol {
        Protocol::Classic => "Classic",
        Protocol::Consumer => "Consumer",
    };
    eventually(|| check(&describe(&["--state"])?, &[&[group, "*", "*", assignor, "Stable", "1"]]))?;
    check(
        &describe(&[])?,
        &[
            &[group, group, "0", "2", "3", "1", "*", "/127.0.0.1", "librdkafka"],
            &[group, group, "1", "1", "1", "0", "*", "/127.0.0.1", "librdkafka"],
        ],
    )?;
    check(&describe(&["--members"])?, &[&[group, "*", "/127.0.0.1", "librdkafka", "2"]])?;
    // Only the server knows epochs, and a target, of a group that it assigns itself.
    let assignment = format!("{group}:0,1");
    let (epoch, target) = match protocol {
        Protocol::Classic => ("-", "-"),
        Protocol::Consumer => ("*", &*assignment),
    };
    let member = [group, "*", "/127.0.0.1", "librdkafka", "2", epoch, &assignment, epoch, target];
    check(&describe(&["--members", "--verbose"])?, &[&member])?;
    let state = [group, "*", "*", assignor, "Stable", epoch, epoch, "1"];
    check(&describe(&["--state", "--verbose"])?, &[&state])?;
    let row = |partition, current, end, lag| {
        [group, group, partition, "-", current, end, lag, "*", "/127.0.0.1", "librdkafka"]
    };
    check(&describe(&["--offsets", "--verbose"])?, &[&row("0", "2", "3", "1"), &row("1", "1", "1", "0")])?;
    let listed = |arguments: &[&str]| run(&[&["--list"], arguments].concat())?.done();
    for (arguments, row) in [
        (&["--state"][..], &[group, "Stable"][..]),
        (&["--state", "stable"], &[group, "Stable"]),
        (&["--type"], &[group, kind]),
        (&["--type", kind], &[group, kind]),
    ] {
        let said = listed(arguments)?;
        ensure!(rows(&said, "GROUP").iter().any(|found| found == row), "{arguments:?}: {said}");
    }
    let said = listed(&["--state", "empty"])?;
    ensure!(!said.contains(group), "{said}");

    let said = run(&["--delete", "--group", group])?;
    ensure!(
        said.out.contains("GroupNotEmptyException") || said.err.contains("GroupNotEmptyException"),
        "{said}"
    );
    let said = run(&["--delete-offsets", "--group", group, "--topic", group])?;
    let words = "GroupSubscribedToTopicException";
    ensure!(
        said.out.contains(words) || said.err.contains(words) || said.out.contains("subscribed"),
        "{said}"
    );
    let said = run(&["--reset-offsets", "--group", group, "--topic", group, "--to-earliest", "--execute"])?;
    ensure!(said.to_string().contains("inactive"), "{said}");
    check(
        &describe(&["--offsets"])?,
        &[
            &[group, group, "0", "2", "3", "1", "*", "/127.0.0.1", "librdkafka"],
            &[group, group, "1", "1", "1", "0", "*", "/127.0.0.1", "librdkafka"],
        ],
    )
}

fn without_members(toolbox: &Toolbox, group: &str) -> Result<()> {
    let run = |arguments: &[&str]| toolbox.run("ConsumerGroupCommand", arguments);
    let describe = |arguments: &[&str]| run(&[&["--describe", "--group", group], arguments].concat());
    eventually(|| {
        let said = describe(&["--state"])?;
        ensure!(rows(&said.out, "GROUP").iter().any(|row| row.contains(&"Empty".to_owned())), "{said}");
        Ok(())
    })?;
    let offsets = describe(&[])?;
    ensure!(offsets.to_string().contains("has no active members"), "{offsets}");
    let row = |partition, current, end, lag| [group, group, partition, current, end, lag, "-", "-", "-"];
    check(&offsets.out, &[&row("0", "2", "3", "1"), &row("1", "1", "1", "0")])?;

    let partition = format!("{group}:1");
    let said = run(&["--delete-offsets", "--group", group, "--topic", &partition])?.done()?;
    ensure!(said.contains("Request succeeded for deleting offsets"), "{said}");
    check(&describe(&[])?.out, &[&row("0", "2", "3", "1")])?;

    let said = run(&["--delete", "--group", group])?.done()?;
    ensure!(said.contains("was successful"), "{said}");
    let said = run(&["--list"])?.done()?;
    ensure!(said.lines().all(|line| line.trim() != group), "{said}");
    let said = run(&["--delete", "--group", group])?;
    ensure!(said.to_string().contains("GroupIdNotFoundException"), "{said}");
    let said = describe(&[])?;
    ensure!(said.to_string().contains("does not exist") || said.to_string().contains("not found"), "{said}");
    Ok(())
}

/// Each form of a reset, after the ones before it: where the partitions of 3 and 1 records stand then.
const RESETS: &[(&[&str], [i64; 2])] = &[
    (&["--to-latest"], [3, 1]),
    (&["--to-earliest"], [0, 0]),
    (&["--to-offset", "2"], [2, 1]),
    (&["--shift-by", "1"], [3, 1]),
    (&["--shift-by", "-2"], [1, 0]),
    (&["--to-current"], [1, 0]),
    (&["--to-datetime", "1970-01-01T00:00:20.000Z"], [1, 1]),
    (&["--by-duration", "P1D"], [3, 1]),
];

pub(crate) fn reset_offsets(toolbox: &Toolbox) -> Result<()> {
    let topic = topic(toolbox, "reset-offsets")?;
    let run = |arguments: &[&str]| {
        toolbox
            .run("ConsumerGroupCommand", &[&["--reset-offsets", "--group", &topic], arguments].concat())?
            .done()
    };
    let wanted = |[first, second]: [i64; 2]| {
        let row = |partition: i32, offset: i64| {
            vec![topic.clone(), topic.clone(), partition.to_string(), offset.to_string()]
        };
        vec![row(0, first), row(1, second)]
    };
    let stands = || -> Result<Vec<Vec<String>>> {
        let said = toolbox.run("ConsumerGroupCommand", &["--describe", "--group", &topic])?;
        Ok(rows(&said.out, "GROUP").into_iter().map(|row| row.into_iter().take(4).collect()).collect())
    };
    let all = ["--topic", &topic];
    for (form, offsets) in RESETS {
        let before = stands()?;
        for how in ["--dry-run", "--execute"] {
            let said = run(&[*form, &all, &[how]].concat())?;
            ensure!(rows(&said, "GROUP") == wanted(*offsets), "{form:?} {how}: {said}");
            let now = stands()?;
            let want = if how == "--execute" { wanted(*offsets) } else { before.clone() };
            ensure!(now == want, "{form:?} {how}: it stands at {now:?}");
        }
    }
    // One partition alone; and what is told as a file is read from one.
    let one = format!("{topic}:0");
    run(&["--to-offset", "1", "--topic", &one, "--execute"])?;
    ensure!(stands()? == wanted([1, 1]), "{:?}", stands()?);
    let exported = run(&["--to-earliest", "--all-topics", "--export", "--dry-run"])?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("offsets.csv");
    fs::write(&file, exported)?;
    let path = file.display().to_string();
    run(&["--from-file", &path, "--execute"])?;
    ensure!(stands()? == wanted([0, 0]), "{:?}", stands()?);
    let offsets = toolbox.run("GetOffsetShell", &["--topic", "__consumer_offsets"])?.done()?;
    let end = |line: &str| line.rsplit(':').next().and_then(|offset| offset.parse::<u64>().ok());
    ensure!(offsets.lines().filter_map(end).sum::<u64>() > 0, "{offsets}");
    Ok(())
}

/// What groups wrote is what Kafka's tool takes it for.
pub(crate) fn dump_log_segments(toolbox: &Toolbox) -> Result<()> {
    for protocol in PROTOCOLS {
        let topic = topic(toolbox, &format!("dumped-group-{protocol}"))?;
        let joining = Joining::new(&topic, &topic, protocol);
        with_member(toolbox, &joining, || Ok(()))?;
        let data_dir = toolbox.suite.data_dir().context("the node is ours")?;
        let mut said = String::new();
        for partition in 0.. {
            let Ok(folder) = partition_folder(&data_dir, "__consumer_offsets", partition) else { break };
            let log = folder.join("00000000000000000000.log").display().to_string();
            let dump = toolbox.run_alone("DumpLogSegments", &["--offsets-decoder", "--files", &log], "")?;
            said += &dump.done()?;
        }
        let of_group = |line: &&str| line.contains(&format!("\"{topic}\""));
        let lines: Vec<&str> = said.lines().filter(of_group).collect();
        let has = |words: &[&str]| lines.iter().any(|line| words.iter().all(|word| line.contains(word)));
        ensure!(has(&[r#""type":"1""#, r#""partition":0"#, r#""offset":2"#]), "no commit: {lines:#?}");
        let kinds: &[&str] = match protocol {
            Protocol::Classic => &["2"],
            Protocol::Consumer => &["3", "5", "6", "7", "8"],
        };
        for kind in kinds {
            ensure!(has(&[&format!(r#""type":"{kind}""#)]), "nothing of type {kind}: {lines:#?}");
        }
        ensure!(!said.contains("Error") && !said.contains("Unknown"), "{said}");
    }
    Ok(())
}

pub(crate) fn console_consumer(toolbox: &Toolbox) -> Result<()> {
    for protocol in PROTOCOLS {
        let topic = topic(toolbox, &format!("console-consumer-{protocol}"))?;
        let property = format!("group.protocol={protocol}");
        let read = |count: usize| -> Result<()> {
            let count = count.to_string();
            let arguments =
                ["--topic", &topic, "--group", &topic, "--from-beginning", "--max-messages", &count];
            let more = ["--timeout-ms", "20000", "--command-property", &property];
            let said = toolbox.run("ConsoleConsumer", &[&arguments[..], &more].concat())?.done()?;
            ensure!(said.lines().filter(|line| *line == "value").count().to_string() == count, "{said}");
            Ok(())
        };
        read(4).context(protocol)?;
        // It committed what it read, and another one begins there.
        toolbox.write(&topic, 1, &[2, 3])?;
        read(2).context(protocol)?;
        let said = toolbox.run("ConsumerGroupCommand", &["--describe", "--group", &topic])?;
        let row = |partition, end| [&*topic, &topic, partition, end, end, "0", "-", "-", "-"];
        check(&said.out, &[&row("0", "3"), &row("1", "3")])?;
    }
    Ok(())
}

pub(crate) fn verifiable_consumer(toolbox: &Toolbox) -> Result<()> {
    for protocol in PROTOCOLS {
        let topic = topic(toolbox, &format!("verifiable-{protocol}"))?;
        let protocol = protocol.to_string();
        let mut arguments = vec!["--topic", &topic, "--group-id", &topic, "--max-messages", "4"];
        arguments.extend(["--reset-policy", "earliest", "--group-protocol", &protocol]);
        let said = toolbox.run("VerifiableConsumer", &arguments)?.done().context(protocol.clone())?;
        let lines = said.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
        let lines = lines.with_context(|| said.clone())?;
        let named = |name: &'static str| lines.iter().filter(move |line| line["name"] == name);
        let assigned = named("partitions_assigned").filter_map(|line| line["partitions"].as_array());
        ensure!(assigned.map(Vec::len).sum::<usize>() == 2, "{said}");
        let count: u64 = named("records_consumed").filter_map(|line| line["count"].as_u64()).sum();
        ensure!(count == 4, "{said}");
        ensure!(named("offsets_committed").count() > 0, "{said}");
        ensure!(named("offsets_committed").all(|line| line["success"] == true), "{said}");
        ensure!(named("shutdown_complete").count() == 1, "{said}");
        let said = toolbox.run("ConsumerGroupCommand", &["--describe", "--group", &topic])?;
        let row = |partition, end| [&*topic, &topic, partition, end, end, "0", "-", "-", "-"];
        check(&said.out, &[&row("0", "3"), &row("1", "1")])?;
    }
    Ok(())
}
