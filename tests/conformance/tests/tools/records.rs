//! Offsets and deletion: GetOffsetShell, DeleteRecordsCommand.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::toolbox::Toolbox;

/// Where each name of a time leads in a partition whose records have the times 10, 30, 20 s.
const TIMES: &[(&str, Option<i64>)] = &[
    ("latest", Some(3)),
    ("-1", Some(3)),
    ("earliest", Some(0)),
    ("-2", Some(0)),
    ("max-timestamp", Some(1)),
    ("-3", Some(1)),
    ("earliest-local", Some(0)),
    ("-4", Some(0)),
    // Nothing is in a tier.
    ("latest-tiered", None),
    ("-5", None),
    ("earliest-pending-upload", None),
    ("-6", None),
    // Milliseconds.
    ("0", Some(0)),
    ("10000", Some(0)),
    ("10001", Some(1)),
    ("20000", Some(1)),
    ("30000", Some(1)),
    ("30001", None),
];

pub(crate) fn get_offset_shell(toolbox: &Toolbox) -> Result<()> {
    let topic = toolbox.create("get-offset-shell", 3)?;
    toolbox.write(&topic, 1, &[10_000, 30_000, 20_000])?;
    let partition = format!("{topic}:1");
    for (time, offset) in TIMES {
        let said =
            toolbox.run("GetOffsetShell", &["--topic-partitions", &partition, "--time", time])?.done()?;
        let want = offset.map_or(String::new(), |offset| format!("{partition}:{offset}"));
        ensure!(said.trim() == want, "--time {time}: {said}, not {want}");
    }
    let said = toolbox.run("GetOffsetShell", &["--topic", &topic])?.done()?;
    let lines: Vec<_> = said.split_whitespace().collect();
    let want = [format!("{topic}:0:0"), format!("{topic}:1:3"), format!("{topic}:2:0")];
    ensure!(lines == want, "{said}");
    let said = toolbox.run("GetOffsetShell", &["--topic-partitions", &format!("{topic}:0-2")])?.done()?;
    ensure!(said.split_whitespace().count() == 2, "{said}");
    Ok(())
}

pub(crate) fn delete_records_command(toolbox: &Toolbox) -> Result<()> {
    let topic = toolbox.create("delete-records", 1)?;
    toolbox.write(&topic, 0, &[1, 2, 3, 4, 5])?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("offsets.json");
    let delete = |before: i64| -> Result<String> {
        let partition = json!({"topic": topic, "partition": 0, "offset": before});
        fs::write(&file, json!({"version": 1, "partitions": [partition]}).to_string())?;
        let path = file.display().to_string();
        Ok(toolbox.run("DeleteRecordsCommand", &["--offset-json-file", &path])?.out)
    };
    let earliest = |offset: i64| {
        let said = toolbox.run("GetOffsetShell", &["--topic", &topic, "--time", "earliest"])?.done()?;
        ensure!(said.trim() == format!("{topic}:0:{offset}"), "{said}, not {offset}");
        Ok(())
    };
    // In the middle of a batch.
    let said = delete(3)?;
    ensure!(said.contains("low_watermark: 3"), "{said}");
    earliest(3)?;
    // What is deleted stays deleted.
    let said = delete(1)?;
    ensure!(said.contains("low_watermark: 3"), "{said}");
    let said = delete(6)?;
    ensure!(said.contains("OffsetOutOfRangeException"), "{said}");
    earliest(3)?;
    // All that there is.
    let said = delete(-1)?;
    ensure!(said.contains("low_watermark: 5"), "{said}");
    earliest(5)
}
