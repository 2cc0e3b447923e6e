//! ConfigCommand, of topics, of brokers and of groups.

use anyhow::{Context, Result, ensure};

use crate::toolbox::{Toolbox, eventually, topic};

pub(crate) fn of_topic(toolbox: &Toolbox) -> Result<()> {
    let topic = toolbox.create("config-command", 1)?;
    let run = |arguments: &[&str]| {
        toolbox.run(
            "ConfigCommand",
            &[&["--entity-type", "topics", "--entity-name", &topic], arguments].concat(),
        )
    };
    let shows = |lines: &[&str], not: &[&str]| {
        eventually(|| {
            let described = run(&["--describe"])?.done()?;
            let has = |line: &&str| described.contains(&format!("  {line} sensitive=false"));
            ensure!(lines.iter().all(has) && !not.iter().any(has), "{lines:?} and not {not:?}: {described}");
            Ok(())
        })
    };
    // The topic was created with this one.
    shows(&["retention.ms=-1"], &[])?;
    let add = "retention.ms=1234567,cleanup.policy=[compact,delete],max.message.bytes=2000000";
    run(&["--alter", "--add-config", add])?.done()?;
    shows(&["retention.ms=1234567", "cleanup.policy=compact,delete", "max.message.bytes=2000000"], &[])?;
    let synonyms =
        "{DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000000, DEFAULT_CONFIG:message.max.bytes=1048588}";
    let described = run(&["--describe"])?.done()?;
    ensure!(described.contains(synonyms), "{synonyms} is not in {described}");
    run(&[
        "--alter",
        "--delete-config",
        "cleanup.policy,max.message.bytes",
        "--add-config",
        "segment.ms=60000",
    ])?
    .done()?;
    shows(&["retention.ms=1234567", "segment.ms=60000"], &["cleanup.policy=compact,delete"])?;

    let all = run(&["--describe", "--all"])?.done()?;
    for default in ["cleanup.policy=delete", "segment.bytes=1073741824", "max.message.bytes=1048588"] {
        ensure!(all.contains(&format!("  {default} sensitive=false")), "{default} is not in {all}");
    }

    run(&["--alter", "--add-config", "retention.ms=soon"])?.fails_with("InvalidConfigurationException")?;
    run(&["--alter", "--add-config", "retention.ms=-2"])?.fails_with("InvalidConfigurationException")?;
    run(&["--alter", "--add-config", "no.such=1"])?.fails_with("InvalidConfigurationException")?;
    shows(&["retention.ms=1234567", "segment.ms=60000"], &[])
}

pub(crate) fn of_broker(toolbox: &Toolbox) -> Result<()> {
    let id = broker_id(toolbox)?;
    let run = |entity: &[&str], arguments: &[&str]| {
        toolbox.run("ConfigCommand", &[&["--entity-type", "brokers"], entity, arguments].concat())
    };
    let one: &[&str] = &["--entity-name", &id];
    let every: &[&str] = &["--entity-default"];
    let all = run(one, &["--describe", "--all"])?.done()?;
    for setting in ["log.segment.bytes=", "log.dirs=", "num.partitions=1"] {
        ensure!(all.contains(&format!("  {setting}")), "{setting} is not in {all}");
    }
    let described = |entity: &[&str], has: &str, is_there: bool| {
        eventually(|| {
            let described = run(entity, &["--describe"])?.done()?;
            ensure!(described.contains(has) == is_there, "{has} should be {is_there}: {described}");
            Ok(())
        })
    };
    let setting = "message.max.bytes";
    run(every, &["--alter", "--add-config", "message.max.bytes=3145728"])?.done()?;
    described(every, "message.max.bytes=3145728", true)?;
    run(one, &["--alter", "--add-config", "message.max.bytes=2097152"])?.done()?;
    described(
        one,
        "{DYNAMIC_BROKER_CONFIG:message.max.bytes=2097152, DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=3145728",
        true,
    )?;
    run(one, &["--alter", "--delete-config", setting])?.done()?;
    run(every, &["--alter", "--delete-config", setting])?.done()?;
    described(one, "message.max.bytes=2097152", false)?;
    described(every, "message.max.bytes=3145728", false)?;
    run(one, &["--alter", "--add-config", "message.max.bytes=many"])?.fails_with("InvalidRequestException")
}

/// Settings of a group, which there need not be.
pub(crate) fn of_group(toolbox: &Toolbox) -> Result<()> {
    let group = topic("config-command-group");
    let run = |arguments: &[&str]| {
        toolbox.run(
            "ConfigCommand",
            &[&["--entity-type", "groups", "--entity-name", &group], arguments].concat(),
        )
    };
    let shows = |line: &str, is_there: bool| {
        eventually(|| {
            let described = run(&["--describe"])?.done()?;
            ensure!(described.contains(line) == is_there, "{line} should be {is_there}: {described}");
            Ok(())
        })
    };
    run(&["--alter", "--add-config", "consumer.session.timeout.ms=50000"])?.done()?;
    shows("  consumer.session.timeout.ms=50000 sensitive=false", true)?;
    // Brokers say what a group may choose.
    run(&["--alter", "--add-config", "consumer.session.timeout.ms=60001"])?
        .fails_with("consumer.session.timeout.ms must be less than or equal to")?;
    run(&["--alter", "--add-config", "consumer.session.timeout=1"])?.fails_with("Unknown group config")?;
    shows("  consumer.session.timeout.ms=50000 sensitive=false", true)?;
    run(&["--alter", "--delete-config", "consumer.session.timeout.ms"])?.done()?;
    shows("consumer.session.timeout.ms=50000", false)
}

/// The node's id, as the leader of a topic.
fn broker_id(toolbox: &Toolbox) -> Result<String> {
    let topic = toolbox.create("config-command-broker", 1)?;
    let described = toolbox.run("TopicCommand", &["--describe", "--topic", &topic])?.done()?;
    let leader = described.split("Leader: ").nth(1).and_then(|rest| rest.split_whitespace().next());
    Ok(leader.context(described.clone())?.to_owned())
}
