//! How far a group is behind, as an operator asks for it.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use base::Offset;
use client::Admin;
use client::admin::{At, OffsetAndMetadata};
use serde_json::{Value, json};

use super::{as_millis, coordinators, quantile};

/// What is committed in one request.
const COMMITTED_AT_ONCE: usize = 1_000;

/// What an operator waits for, and its parts.
struct Asked {
    all: Duration,
    offsets: Duration,
    ends: Duration,
}

/// Commits offset 0 of each partition of topics of one record in each, and asks for the lag of all so often.
pub(super) fn run(
    broker: &str,
    group: &str,
    (topics, partitions): (usize, i32),
    times: usize,
) -> Result<Value> {
    coordinators(broker, &[group.to_owned()])?;
    let admin = Admin::new(broker)?;
    let names: Vec<String> = (0..topics).map(|topic| format!("lag-{topic}")).collect();
    let places = names.iter().flat_map(|name| (0..partitions).map(move |index| (name.as_str(), index)));
    let places: Vec<(&str, i32)> = places.collect();
    for some in places.chunks(COMMITTED_AT_ONCE) {
        let offset = || OffsetAndMetadata::at(Offset(0));
        let offsets = some.iter().map(|&(topic, index)| (topic, index, offset()));
        for committed in admin.alter_group_offsets(group, offsets).wait() {
            committed?;
        }
    }
    // A client of its own: it has asked nothing yet.
    let admin = Admin::new(broker)?;
    let all = (0..times).map(|_| ask(&admin, group, places.len())).collect::<Result<Vec<Asked>>>()?;
    let middle = |of: fn(&Asked) -> Duration| {
        let mut sorted: Vec<f64> = all.iter().map(|asked| as_millis(of(asked))).collect();
        sorted.sort_by(f64::total_cmp);
        quantile(&sorted, 0.5)
    };
    Ok(json!({
        "partitions": places.len(),
        "first_ms": all.first().map(|asked| as_millis(asked.all)),
        "median_ms": middle(|asked| asked.all),
        "offsets_ms": middle(|asked| asked.offsets),
        "ends_ms": middle(|asked| asked.ends),
    }))
}

/// Asks for what was committed and where those partitions end; the difference must be one record for each.
fn ask(admin: &Admin, group: &str, partitions: usize) -> Result<Asked> {
    let since = Instant::now();
    let Some(committed) = admin.list_group_offsets([group]).wait().pop() else { bail!("no answer") };
    let committed = committed?;
    let offsets = since.elapsed();
    let places = committed.keys().map(|of| (of.topic.as_str(), of.partition.0, At::Latest));
    let ends = admin.list_offsets(places).wait();
    let mut lag = 0;
    for (committed, end) in committed.values().zip(ends) {
        lag += end?.offset.map_or(0, |end| end.0) - committed.offset.0;
    }
    let all = since.elapsed();
    ensure!(committed.len() == partitions, "{} of {partitions} offsets are there", committed.len());
    ensure!(
        usize::try_from(lag) == Ok(partitions),
        "a lag of {lag}, and {partitions} records are to be read"
    );
    Ok(Asked { all, offsets, ends: all - offsets })
}
