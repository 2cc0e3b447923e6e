//! Where a group is to go on, as the command line says it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use base::{PartitionIndex, TopicName, TopicPartition};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp};

use super::plan::Goal;

/// Where to go: one of these.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct Place {
    /// To the first record there is
    #[arg(long)]
    to_earliest: bool,
    /// Behind the last record there is
    #[arg(long)]
    to_latest: bool,
    /// To the first record of this time or later: 2026-11-22T18:00:00Z (UTC where no zone is named), or
    /// milliseconds since 1970
    #[arg(long, value_name = "TIME", value_parser = time)]
    to_datetime: Option<i64>,
    /// To the first record that is at most so old: 90s, 2h 30m, 7d, or PT2H
    #[arg(long, value_name = "DURATION", value_parser = duration_ms)]
    by_duration: Option<i64>,
    /// So many records on from what is committed, or back if it is negative
    #[arg(long, value_name = "RECORDS", allow_negative_numbers = true)]
    shift_by: Option<i64>,
    /// To this offset
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(i64).range(0..))]
    to_offset: Option<i64>,
    /// To the offsets that a file names, in lines of TOPIC,PARTITION,OFFSET, as Kafka's tool exports them
    #[arg(long, value_name = "PATH", conflicts_with_all = ["topics", "all_topics"])]
    pub(super) from_file: Option<PathBuf>,
}

impl Place {
    /// What is said, of every partition.
    pub(super) fn goal(&self) -> Result<Goal> {
        let Self { to_earliest, to_latest, to_datetime, by_duration, shift_by, to_offset, from_file: _ } =
            *self;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        let goals = [
            to_earliest.then_some(Goal::Earliest),
            to_latest.then_some(Goal::Latest),
            to_datetime.map(Goal::Time),
            by_duration.map(|ms| Goal::Time(now_ms.saturating_sub(ms).max(0))),
            shift_by.map(Goal::Shift),
            to_offset.map(Goal::Offset),
        ];
        goals.into_iter().flatten().next().context("nobody says where to")
    }
}

/// A topic, and which of its partitions; all if none is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) topic: String,
    pub(super) partitions: BTreeSet<i32>,
}

/// Reads `orders` or `orders:0,3`.
pub(super) fn wanted(text: &str) -> Result<Wanted, String> {
    let (topic, partitions) = text.split_once(':').map_or((text, None), |(topic, rest)| (topic, Some(rest)));
    TopicName::new(topic).map_err(|error| error.to_string())?;
    let wrong = |_| format!("{text:?}: expected TOPIC or TOPIC:PARTITION,PARTITION,…");
    let partitions = partitions.map(|all| all.split(',').map(|one| one.trim().parse()).collect());
    let partitions = partitions.transpose().map_err(wrong)?.unwrap_or_default();
    Ok(Wanted { topic: topic.to_owned(), partitions })
}

/// A time in milliseconds since 1970.
fn time(text: &str) -> Result<i64, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map_err(|_| format!("{text} ms since 1970 are too many"));
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.as_millisecond().max(0));
    }
    let civil: DateTime = text.parse().map_err(|error| {
        format!("expected a time as 2026-11-22T18:00:00Z, or milliseconds since 1970: {error}")
    })?;
    let zoned = civil.to_zoned(TimeZone::UTC).map_err(|error| error.to_string())?;
    Ok(zoned.timestamp().as_millisecond().max(0))
}

/// A time span in milliseconds.
fn duration_ms(text: &str) -> Result<i64, String> {
    let wrong = |error: jiff::Error| format!("expected a time span as 90s, 2h 30m, 7d or PT2H: {error}");
    let span: Span = text.parse().map_err(wrong)?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(wrong)?;
    let ms = i64::try_from(duration.as_millis()).ok().filter(|ms| *ms >= 0);
    ms.ok_or_else(|| "it must not be negative".to_owned())
}

/// Reads lines of `topic,partition,offset`; empty ones, and what follows `#`, say nothing.
pub(super) fn read_file(text: &str) -> Result<BTreeMap<TopicPartition, Goal>> {
    let mut goals = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let (of, offset) = read_line(line)
            .with_context(|| format!("line {number}: expected TOPIC,PARTITION,OFFSET, and not {line:?}"))?;
        if goals.insert(of.clone(), Goal::Offset(offset)).is_some() {
            bail!("line {number}: {of} was named before");
        }
    }
    if goals.is_empty() {
        bail!("the file names no partition");
    }
    Ok(goals)
}

fn read_line(line: &str) -> Option<(TopicPartition, i64)> {
    let fields: Vec<&str> = line.split(',').map(|field| field.trim().trim_matches('"')).collect();
    let [topic, partition, offset] = fields[..] else { return None };
    let topic = TopicName::new(topic).ok()?;
    let partition = PartitionIndex(partition.parse().ok().filter(|index| *index >= 0)?);
    let offset = offset.parse().ok().filter(|offset| *offset >= 0)?;
    Some((TopicPartition { topic, partition }, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_many_forms() {
        const HOUR_18: i64 = 1_795_370_400_000;
        let cases = [
            ("1795370400000", HOUR_18),
            ("2026-11-22T18:00:00Z", HOUR_18),
            ("2026-11-22T19:00:00+01:00", HOUR_18),
            ("2026-11-22T18:00:00", HOUR_18),
            ("2026-11-22 18:00", HOUR_18),
            ("2026-11-22T18:00:00.250", HOUR_18 + 250),
            ("1960-01-01T00:00:00Z", 0),
        ];
        for (text, ms) in cases {
            assert_eq!(time(text), Ok(ms), "{text}");
        }
        for wrong in ["", "soon", "18:00", "-5", "99999999999999999999"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_have_many_forms() {
        let cases = [
            ("90s", 90_000),
            ("2h 30m", 9_000_000),
            ("PT2H", 7_200_000),
            ("7d", 604_800_000),
            ("P1D", 86_400_000),
        ];
        for (text, ms) in cases {
            assert_eq!(duration_ms(text), Ok(ms), "{text}");
        }
        for wrong in ["", "2", "-2h", "1 month", "soon"] {
            assert!(duration_ms(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn partitions_stand_behind_the_topic() {
        let of = |partitions: &[i32]| Wanted {
            topic: "orders".into(),
            partitions: partitions.iter().copied().collect(),
        };
        assert_eq!(wanted("orders"), Ok(of(&[])));
        assert_eq!(wanted("orders:0"), Ok(of(&[0])));
        assert_eq!(wanted("orders:3, 1"), Ok(of(&[1, 3])));
        for wrong in ["", ":1", "orders:", "orders:a", "orders:1,,2", "or ders"] {
            assert!(wanted(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_names_offsets() {
        let read = read_file("# kept\norders,0,5\n\n \"orders\", 1 ,6 # later\n").expect("it can be read");
        let said: Vec<String> = read.iter().map(|(of, goal)| format!("{of} {goal:?}")).collect();
        assert_eq!(said, ["orders-0 Offset(5)", "orders-1 Offset(6)"]);
        let cases = [
            ("orders,0", "line 1: expected TOPIC,PARTITION,OFFSET"),
            ("orders,0,5\norders,-1,5", "line 2"),
            ("orders,0,5\norders,0,6", "orders-0 was named before"),
            ("# nothing", "names no partition"),
        ];
        for (text, what) in cases {
            let error = format!("{:#}", read_file(text).expect_err(text));
            assert!(error.contains(what), "{error}");
        }
    }
}
