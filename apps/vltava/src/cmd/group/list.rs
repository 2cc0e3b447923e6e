//! `vltava group list`.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use base::ErrorCode;
use client::Admin;
use client::admin::{GroupDescription, ListedGroup};
use serde_json::{Value, json};

use super::say_failures;
use super::survey::{Depth, survey};
use crate::output::Table;

/// List groups: state, protocol, members, coordinator
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  vltava group list
  vltava group list --lag                       with what each one has still to read
  vltava group list --state stable --state empty
  vltava group list --type consumer --json")]
pub(super) struct Arguments {
    /// Only groups in this state: stable, empty, preparing-rebalance, … Can be given several times
    #[arg(long = "state", value_name = "STATE", value_parser = state)]
    states: Vec<String>,
    /// Only groups of this type: classic or consumer. Can be given several times
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Also how many records each one has still to read, of all partitions that it committed anything of; ? if that
    /// is not known of one of them: `vltava group describe` says of which, and why
    #[arg(long)]
    lag: bool,
}

/// A state as brokers call it: they do not know a hyphen, and do not care about capital letters.
fn state(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(text.replace(['-', '_'], ""))
}

struct Row {
    listed: ListedGroup,
    /// `None` if it was deleted since it was listed.
    group: Option<GroupDescription>,
    /// In records; `None` if it is not asked for, or not known.
    lag: Option<u64>,
}

pub(super) fn run(admin: &Admin, arguments: Arguments, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let Arguments { states, types, lag } = arguments;
    let listed = admin.list_groups_of(states, types).wait()?;
    let names: Vec<String> = listed.iter().map(|group| group.group_id.clone()).collect();
    let (mut described, mut failures) = (BTreeMap::new(), Vec::new());
    if lag {
        let (all, failed) = survey(admin, &names, Depth::Records);
        failures = failed;
        for it in all {
            let lag = it.lag().records;
            described.insert(it.group.group_id.clone(), (it.group, lag));
        }
    } else {
        for result in admin.describe_groups(&names).wait() {
            match result {
                Ok(group) => drop(described.insert(group.group_id.clone(), (group, None))),
                Err(error) => failures.push(error),
            }
        }
    }
    // Groups come and go while they are looked at.
    failures.retain(|error| error.code() != Some(ErrorCode::GroupIdNotFound));
    let rows: Vec<Row> = listed
        .into_iter()
        .map(|listed| {
            let (group, lag) =
                described.remove(&listed.group_id).map_or((None, None), |(it, lag)| (Some(it), lag));
            Row { listed, group, lag }
        })
        .collect();
    if as_json {
        writeln!(out, "{:#}", rows.iter().map(|row| as_value(row, lag)).collect::<Value>())?;
    } else if !rows.is_empty() {
        writeln!(out, "{}", table(&rows, lag))?;
    }
    say_failures(failures)
}

fn table(rows: &[Row], with_lag: bool) -> Table {
    let mut columns = vec!["group", "type", "state", "protocol", "members", "coordinator"];
    columns.extend(with_lag.then_some("lag"));
    let mut table = Table::new(&columns);
    for Row { listed, group, lag } in rows {
        let mut row = vec![
            listed.group_id.clone(),
            listed.group_type.to_lowercase(),
            listed.state.clone(),
            listed.protocol_type.clone(),
            group.as_ref().map_or("?".to_owned(), |group| group.members.len().to_string()),
            listed.coordinator.map_or("?".to_owned(), |id| id.to_string()),
        ];
        row.extend(with_lag.then(|| lag.map_or("?".to_owned(), |lag| lag.to_string())));
        table.row(row);
    }
    table
}

fn as_value(Row { listed, group, lag }: &Row, with_lag: bool) -> Value {
    let mut value = json!({
        "group": listed.group_id,
        "type": listed.group_type.to_lowercase(),
        "state": listed.state,
        "protocol_type": listed.protocol_type,
        "members": group.as_ref().map(|group| group.members.len()),
        "coordinator": listed.coordinator.map(|id| id.0),
    });
    if with_lag {
        value["lag_records"] = json!(lag);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lag_that_is_not_known_is_not_none() {
        let listed = ListedGroup {
            group_id: "billing".into(),
            protocol_type: "consumer".into(),
            state: "Stable".into(),
            group_type: "Classic".into(),
            coordinator: None,
        };
        let row = |lag| Row { listed: listed.clone(), group: None, lag };
        let shown = table(&[row(Some(0)), row(None)], true).to_string();
        let lags: Vec<&str> = shown.lines().filter_map(|line| line.split_whitespace().last()).collect();
        assert_eq!(lags[lags.len() - 2..], ["0", "?"], "{shown}");
        assert_eq!(
            [Some(0), None].map(|lag| as_value(&row(lag), true)["lag_records"].clone()),
            [json!(0), Value::Null]
        );
    }
}
