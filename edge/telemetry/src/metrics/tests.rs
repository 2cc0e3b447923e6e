use std::collections::BTreeSet;
use std::time::Duration;

use base::ErrorCode;

use super::*;
use crate::groups::{GroupCensus, GroupLag};

fn metrics() -> Arc<Metrics> {
    Metrics::new(Build { version: "1.2.3" }, &[(0, "Produce"), (1, "Fetch")])
}

/// The value of a line, given all before it.
fn value<'a>(page: &'a str, line: &str) -> Option<&'a str> {
    page.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '))
}

#[test]
fn what_was_counted_is_shown() {
    let metrics = metrics();
    let fetch = metrics.requests.api(1);
    fetch.worked(Duration::from_micros(7));
    fetch.worked(Duration::from_micros(7));
    fetch.answered(Duration::from_millis(3));
    metrics.requests.error(ErrorCode::OffsetOutOfRange.code(), 1);
    metrics.produce.bytes.add(77);
    metrics.log.flushes.observe(Duration::from_secs(60));
    metrics.state.parked_fetch.add(3);
    metrics.state.parked_fetch.sub(1);
    metrics.state.parked_delete_records.add(1);

    let page = metrics.render(TextFormat::Prometheus);
    for (line, expected) in [
        ("vltava_requests_total{api=\"Fetch\"}", "2"),
        ("vltava_requests_failed_total{api=\"Fetch\"}", "0"),
        ("vltava_errors_total{error=\"OFFSET_OUT_OF_RANGE\"}", "1"),
        ("vltava_request_seconds_bucket{le=\"0.0025\",api=\"Fetch\",stage=\"total\"}", "0"),
        ("vltava_request_seconds_bucket{le=\"0.005\",api=\"Fetch\",stage=\"total\"}", "1"),
        ("vltava_request_seconds_count{api=\"Fetch\",stage=\"total\"}", "1"),
        ("vltava_request_seconds_count{api=\"Fetch\",stage=\"local\"}", "2"),
        ("vltava_produce_bytes_total", "77"),
        ("vltava_log_flush_seconds_bucket{le=\"30.0\"}", "0"),
        ("vltava_log_flush_seconds_bucket{le=\"+Inf\"}", "1"),
        ("vltava_log_flush_seconds_sum", "60.0"),
        ("vltava_parked_requests{api=\"Fetch\"}", "2"),
        ("vltava_parked_requests{api=\"DeleteRecords\"}", "1"),
        ("vltava_parked_requests{api=\"Produce\"}", "0"),
        ("vltava_build{version=\"1.2.3\"}", "1"),
        ("vltava_uptime_seconds", "0"),
    ] {
        assert_eq!(value(&page, line), Some(expected), "{line}\n{page}");
    }
    assert!(!page.contains("api=\"Produce\",stage"), "what was never asked for takes no lines");
    assert!(value(&page, "process_resident_memory_bytes").is_some());
}

#[test]
fn what_others_keep_is_read_when_somebody_looks() {
    let metrics = metrics();
    let number = Arc::new(Gauge::default());
    for dir in ["/a", "/b"] {
        let number = number.clone();
        let help = "Whether a directory is retired.";
        metrics.watch(WatchKind::Gauge, "vltava_dir_retired", help, &[("dir", dir)], move || number.get());
    }
    metrics.watch(WatchKind::Counter, "vltava_accepted", "Accepted.", &[], || u64::MAX);
    metrics.watch(WatchKind::Milliseconds, "vltava_busy_seconds", "Busy.", &[("dir", "/a")], || 1_250);
    number.set(1);
    let page = metrics.render(TextFormat::Prometheus);
    assert_eq!(value(&page, "vltava_busy_seconds_total{dir=\"/a\"}"), Some("1.25"));
    assert_eq!(value(&page, "vltava_dir_retired{dir=\"/a\"}"), Some("1"));
    assert_eq!(value(&page, "vltava_dir_retired{dir=\"/b\"}"), Some("1"));
    assert_eq!(value(&page, "vltava_accepted_total"), Some("18446744073709551615"));
    assert_eq!(page.matches("# TYPE vltava_dir_retired gauge\n").count(), 1);
    number.set(u64::MAX);
    assert!(
        metrics.render(TextFormat::Prometheus).contains("vltava_dir_retired{dir=\"/a\"} 9223372036854775807")
    );
}

#[test]
fn clients_cannot_write_lines_of_their_own() {
    let metrics = metrics();
    metrics.clients.connected("x\"} 1\nvltava_topics 666 \\", "\u{1}é");
    let page = metrics.render(TextFormat::Prometheus);
    assert_eq!(value(&page, "vltava_topics"), Some("0"));
    let line = page.lines().find(|line| line.starts_with("vltava_clients_connected_total{")).unwrap();
    assert!(
        line.starts_with(r#"vltava_clients_connected_total{name="x\"} 1\nvltava_topics 666 \\",version="#),
        "{line}"
    );
}

#[test]
fn what_would_end_a_label_is_escaped_in_both_formats() {
    let metrics = metrics();
    metrics.watch(WatchKind::Gauge, "vltava_dir_retired", "Retired.", &[("dir", "a\"b\\c\nd")], || 4);
    metrics.watch(WatchKind::Counter, "vltava_dir_flushes", "Flushes.", &[("dir", "a\"b\\c\nd")], || 5);
    for format in [TextFormat::Prometheus, TextFormat::OpenMetrics] {
        let page = metrics.render(format);
        let gauge = value(&page, r#"vltava_dir_retired{dir="a\"b\\c\nd"}"#);
        let counter = value(&page, r#"vltava_dir_flushes_total{dir="a\"b\\c\nd"}"#);
        assert_eq!((gauge, counter), (Some("4"), Some("5")), "{format:?}\n{page}");
    }
}

#[test]
fn groups_are_told_of_by_whoever_knows_them() {
    let metrics = metrics();
    assert!(!metrics.render(TextFormat::Prometheus).contains("vltava_groups"), "nobody knows any");
    metrics.groups.rebalanced(3, Duration::from_millis(1_500));
    metrics.groups.reconciled(Duration::from_millis(250));
    metrics.groups.watch(census);
    let page = metrics.render(TextFormat::Prometheus);
    for (line, expected) in [
        ("vltava_group_rebalance_seconds_sum", "1.5"),
        ("vltava_group_members_still_seconds_total", "4.5"),
        ("vltava_group_reconcile_seconds_sum", "0.25"),
        ("vltava_groups{type=\"classic\",state=\"Stable\"}", "2"),
        ("vltava_group_offsets", "9"),
        ("vltava_group_lag_records{group=\"a\\\"} 1\\n\",topic=\"orders\"}", "7"),
        ("vltava_group_lags_left_out", "5"),
        ("vltava_group_lags_unknown", "6"),
    ] {
        assert_eq!(value(&page, line), Some(expected), "{line}\n{page}");
    }
}

fn census() -> Arc<GroupCensus> {
    Arc::new(GroupCensus {
        groups: [(("classic", "Stable"), 2)].into(),
        offsets: 9,
        lags: vec![GroupLag { group: "a\"} 1\n".into(), topic: "orders".to_owned(), records: 7 }],
        lags_left_out: 5,
        lags_unknown: 6,
    })
}

/// Every sample belongs to a family that is declared once, with help and a type that both formats know.
#[test]
fn the_page_is_well_formed_in_both_formats() {
    let metrics = metrics();
    metrics.requests.api(0).worked(Duration::ZERO);
    metrics.clients.connected("a", "b");
    metrics.groups.watch(census);
    for format in [TextFormat::Prometheus, TextFormat::OpenMetrics] {
        let page = metrics.render(format);
        let mut families = BTreeSet::new();
        let (mut family, mut kind) = ("", "");
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                (family, kind) = rest.split_once(' ').unwrap();
                assert!(families.insert(family.to_owned()), "{family} is declared twice");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("{name} follows {family}"));
                let expected: &[&str] = match (kind, format) {
                    ("counter", TextFormat::OpenMetrics) => &["_total"],
                    ("histogram", _) => &["_sum", "_count", "_bucket"],
                    _ => &[""],
                };
                assert!(expected.contains(&suffix), "{line}");
            }
        }
        assert_eq!(page.ends_with("# EOF\n"), format == TextFormat::OpenMetrics);
    }
}
