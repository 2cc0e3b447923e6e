//! The table against Kafka's own, and what becomes of values.

mod broker; // what a node is started with

use std::time::Duration;

use super::*;

const KAFKA_TOPIC: &str = include_str!("../../testdata/kafka-4.4.0-topic-settings.tsv");
const KAFKA_BROKER: &str = include_str!("../../testdata/kafka-4.4.0-broker-settings.tsv");

/// Ours has a setting that Kafka does not.
const OURS: [&str; 11] = [
    "cluster.join",
    "cluster.listen",
    "cluster.peers",
    "flush.policy",
    "flush.interval.ms",
    // Kafka has these two in a list apart.
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "group.disconnect.shortens.session",
    "http.listen",
    "inter.broker.protocol.version",
    "log.dir.reserve.bytes",
];
/// Ours differs from Kafka in the default or the range; the table gives the reason.
const DIFFERENT: [&str; 18] = [
    "broker.heartbeat.interval.ms",
    "broker.session.timeout.ms",
    "connections.max.idle.ms",
    "controller.quorum.election.timeout.ms",
    "cordoned.log.dirs",
    "group.consumer.max.size",
    "group.max.size",
    "listeners",
    "log.dirs",
    "log.flush.offset.checkpoint.interval.ms",
    "max.connections",
    "max.connections.per.ip",
    "node.id",
    "num.io.threads",
    "process.roles",
    "queued.max.request.bytes",
    "replica.fetch.backoff.ms",
    "socket.request.max.bytes",
];

fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

fn map(entries: &[(&str, &str)]) -> ConfigMap {
    entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn resolve(topic: &[(&str, &str)], broker: &[(&str, &str)], fixed: &[(&str, &str)]) -> TopicSettings {
    let (topic, broker, fixed) = (map(topic), map(broker), map(fixed));
    TopicSettings::resolve("t", &topic, Layers { broker: &broker, default_broker: &map(&[]), fixed: &fixed })
}

/// Kafka's words for a range, in the form of ours.
fn range_of(text: &str) -> String {
    let inner = text.trim_start_matches('[').trim_end_matches(']');
    let numbers: Vec<&str> = inner.split(",...").collect();
    match (text, numbers.as_slice()) {
        ("", _) => String::new(),
        ("[1,...,9] or -1", _) => "1 to 9, or -1".into(),
        ("[0,...,1]", _) => "0 to 1".into(),
        (_, [low, ""]) => format!("{low} or more"),
        (_, [low, high]) => format!("{low} to {}", high.trim_start_matches(',')),
        _ => inner.to_owned(),
    }
}

#[test]
fn every_topic_setting_of_kafka_is_there_as_kafka_has_it() {
    let mut known = 0;
    for row in rows(KAFKA_TOPIC) {
        let [name, kind, default, allowed, synonyms] = row[..] else { panic!("{row:?}") };
        let setting = find_topic(name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(setting.kind.name(), kind, "{name}");
        assert_eq!(setting.default, Some(default), "{name}");
        let ours: Vec<&str> = setting.synonyms.iter().map(|(name, _)| *name).collect();
        assert_eq!(ours.join(" "), synonyms, "{name}");
        let words = setting.allowed.to_string();
        let range = range_of(allowed);
        match setting.allowed {
            Allowed::ThrottledReplicas => assert!(allowed.starts_with("[partitionId]"), "{name}"),
            Allowed::OneOf(_) | Allowed::ListOf(_) => assert!(words.ends_with(&range), "{name}: {words}"),
            // Takes them all, as Kafka, and says what they mean.
            Allowed::LimitFrom(0) => assert_eq!(range, "", "{name}"),
            _ => assert_eq!(words, range, "{name}"),
        }
        known += 1;
    }
    assert_eq!(known + 1, topic_settings().len(), "only flush.policy is ours alone");
}

#[test]
fn broker_settings_are_kafkas_unless_there_is_a_reason() {
    let kafka: Vec<Vec<&str>> = rows(KAFKA_BROKER).collect();
    for setting in broker_settings() {
        let row = kafka.iter().find(|row| row[0] == setting.name);
        let is_kafkas = row.is_some_and(|row| setting.default.unwrap_or("null") == row[2]);
        let is_throttle = setting.name.ends_with(".throttled.rate");
        let says_so = setting.reason.starts_with("Kafka's default");
        assert!(is_kafkas || is_throttle || !says_so, "{}: {}", setting.name, setting.reason);
        let Some(row) = row else {
            assert!(OURS.contains(&setting.name), "{} is not Kafka's", setting.name);
            continue;
        };
        assert_eq!(setting.kind.name(), row[1], "{}", setting.name);
        assert!(is_kafkas || DIFFERENT.contains(&setting.name), "{}: {}", setting.name, row[2]);
        if setting.scope == Scope::BrokerDynamic {
            assert_eq!(row[4], "dynamic", "{}", setting.name);
        }
    }
}

#[test]
fn the_table_is_sorted_documented_and_its_defaults_are_legal() {
    for table in [topic_settings(), group_settings(), broker_settings()] {
        assert!(table.windows(2).all(|pair| pair[0].name < pair[1].name), "sorted by name, none twice");
        for setting in table {
            assert!(!setting.documentation().is_empty() && !setting.reason.is_empty(), "{}", setting.name);
            let is_whole = matches!(setting.kind, Kind::Int | Kind::Short | Kind::Long);
            assert!(!setting.range().is_empty(), "{}", setting.name);
            assert!(!is_whole || setting.allowed != Allowed::Any, "{} has no range", setting.name);
            assert!(setting.default.is_some() || setting.reason.starts_with("Not set"), "{}", setting.name);
            if let Some(default) = setting.default {
                assert!(setting.parse(default).is_ok(), "{}", setting.name);
            }
        }
    }
    for topic in topic_settings() {
        for (name, _) in topic.synonyms {
            assert!(find_broker(name).is_some(), "{name}, behind {}", topic.name);
        }
    }
}

#[test]
fn a_wrong_value_is_refused_with_its_name_and_what_is_allowed() {
    let cases = [
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        (
            "retention.ms",
            "soon",
            "Invalid value soon for configuration retention.ms: Not a number of type LONG",
        ),
        (
            "segment.bytes",
            "14",
            "Invalid value 14 for configuration segment.bytes: Value must be at least 1048576",
        ),
        (
            "segment.bytes",
            "4294967296",
            "Invalid value 4294967296 for configuration segment.bytes: Not a number of type INT",
        ),
        (
            "cleanup.policy",
            "delete,shred",
            "Invalid value delete,shred for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            "min.cleanable.dirty.ratio",
            "1.5",
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "preallocate",
            "yes",
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be at least 1, or -1",
        ),
        (
            "flush.policy",
            "never",
            "Invalid value never for configuration flush.policy: String must be one of: ack, interval, os",
        ),
        ("no.such.thing", "1", "Unknown topic config name: no.such.thing"),
    ];
    for (name, value, words) in cases {
        let refused = validate_topic(&map(&[(name, value)])).expect_err(name);
        assert_eq!(refused.to_string(), words);
    }
    let long = validate_topic(&map(&[("retention.ms", &"9".repeat(100_000))])).expect_err("too long");
    assert!(long.to_string().len() < 1_000, "an error does not repeat all that was sent");
}

#[test]
fn legal_values_are_taken() {
    let legal = [
        ("cleanup.policy", "compact, delete"),
        ("cleanup.policy", ""),
        ("cleanup.policy", "delete,delete"),
        ("compression.gzip.level", "-1"),
        ("leader.replication.throttled.replicas", "0:1,1:2"),
        ("follower.replication.throttled.replicas", "*"),
        ("unclean.leader.election.enable", "TRUE"),
        ("retention.ms", " 5 "),
    ];
    for (name, value) in legal {
        assert_eq!(validate_topic(&map(&[(name, value)])), Ok(()), "{name}={value}");
    }
    assert!(validate_topic(&map(&[("leader.replication.throttled.replicas", "0:x")])).is_err());
}

#[test]
fn values_must_fit_together() {
    let lag = map(&[("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "9")]);
    let refused = validate_topic(&lag).expect_err("it can never be compacted");
    assert_eq!(
        refused.to_string(),
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (9)"
    );
    assert!(validate_topic(&map(&[("remote.storage.enable", "true")])).is_err());
}

#[test]
fn a_topic_falls_back_on_its_broker_and_then_on_the_default() {
    let nothing = resolve(&[], &[], &[]);
    assert_eq!(nothing.retention, Some(Duration::from_secs(7 * 24 * 3600)));
    assert_eq!((nothing.retention_bytes, nothing.segment_bytes), (None, 1 << 30));
    assert_eq!(nothing.cleanup, Cleanup { delete: true, compact: false });
    assert_eq!((nothing.flush_policy, nothing.flush_interval), (FlushPolicy::Ack, None));
    assert_eq!((nothing.flush_messages, nothing.timestamp_before_max), (None, None));
    assert_eq!((nothing.compression, nothing.compression_level), (CompressionType::Producer, None));

    let hours = [("log.retention.hours", "2")];
    assert_eq!(resolve(&[], &[], &hours).retention, Some(Duration::from_secs(7200)));
    let minutes = [("log.retention.hours", "2"), ("log.retention.minutes", "3")];
    assert_eq!(resolve(&[], &[], &minutes).retention, Some(Duration::from_secs(180)));
    let dynamic = resolve(&[], &[("log.retention.ms", "5")], &minutes);
    assert_eq!(dynamic.retention, Some(Duration::from_millis(5)));
    let own = resolve(&[("retention.ms", "-1")], &[("log.retention.ms", "5")], &minutes);
    assert_eq!(own.retention, None);
    for name in ["log.retention.hours", "log.retention.minutes", "log.retention.ms"] {
        assert_eq!(resolve(&[], &[], &[(name, "-5")]).retention, None, "{name} below zero is for ever");
    }
    assert_eq!(resolve(&[], &[("log.retention.bytes", "-5")], &[]).retention_bytes, None);
}

/// Two nodes that were given different ones would not agree on who may lead.
#[test]
fn the_minimum_in_sync_is_the_same_on_nodes_that_were_given_different_ones() {
    let name = "min.insync.replicas";
    let (given, nothing, cluster) = (map(&[(name, "2")]), map(&[]), map(&[(name, "3")]));
    for (default_broker, value, source) in
        [(&nothing, "1", Source::Default), (&cluster, "3", Source::DefaultBroker)]
    {
        for fixed in [&given, &nothing] {
            let layers = Layers { broker: &nothing, default_broker, fixed };
            assert_eq!(insync_replicas_min(&nothing, layers).to_string(), value);
            assert_eq!(TopicSettings::resolve("t", &nothing, layers).insync_replicas_min.to_string(), value);
            let described = describe_topic("t", &nothing, layers).find(|it| it.setting.name == name);
            let described = described.expect("every setting is described");
            assert_eq!((described.value.as_deref(), described.source), (Some(value), source));
            assert!(described.synonyms.iter().all(|synonym| synonym.source != Source::Static));
        }
    }
}

#[test]
fn a_topic_says_how_it_is_flushed() {
    let interval = [("flush.policy", "interval")];
    assert_eq!(resolve(&interval, &[], &[]).flush_interval, Some(Duration::from_millis(100)));
    let slower = resolve(&interval, &[], &[("flush.interval.ms", "250")]);
    assert_eq!(slower.flush_interval, Some(Duration::from_millis(250)));
    let own = resolve(&[("flush.policy", "interval"), ("flush.ms", "7")], &[], &[]);
    assert_eq!(own.flush_interval, Some(Duration::from_millis(7)));
    assert_eq!(resolve(&[], &[], &[("flush.policy", "os")]).flush_policy, FlushPolicy::Os);
    let level = resolve(&[("compression.type", "zstd"), ("compression.zstd.level", "9")], &[], &[]);
    assert_eq!((level.compression, level.compression_level), (CompressionType::Zstd, Some(9)));
}

/// Whoever made it, and whatever it and its node were set to.
#[test]
fn a_topic_of_the_clusters_books_is_compacted_and_flushed() {
    let none = map(&[]);
    let fixed = map(&[("flush.policy", "os"), ("log.cleanup.policy", "delete")]);
    let layers = Layers { broker: &none, default_broker: &none, fixed: &fixed };
    for own in [map(&[]), map(&[("flush.policy", "interval"), ("cleanup.policy", "compact,delete")])] {
        for topic in [OFFSETS_TOPIC, TRANSACTIONS_TOPIC] {
            let settings = TopicSettings::resolve(topic, &own, layers);
            let cleanup = Cleanup { delete: false, compact: true };
            assert_eq!((settings.cleanup, settings.flush_policy), (cleanup, FlushPolicy::Ack), "{topic}");
            let told: Vec<_> = describe_topic(topic, &own, layers).collect();
            for (name, value) in [("cleanup.policy", "compact"), ("flush.policy", "ack")] {
                let told = told.iter().find(|it| it.setting.name == name).expect("all are told");
                assert_eq!((told.value.as_deref(), told.source), (Some(value), Source::Topic), "{topic}");
            }
        }
        let other = TopicSettings::resolve("orders", &own, layers);
        assert_ne!(other.flush_policy, FlushPolicy::Ack, "others are what they are set to");
        assert!(other.cleanup.delete);
    }
}

#[test]
fn a_description_says_where_each_value_is_from() {
    let overrides = map(&[("retention.ms", "1")]);
    let (broker, default) = (map(&[("log.retention.ms", "2")]), map(&[("log.retention.ms", "3")]));
    let fixed = map(&[("log.retention.hours", "4")]);
    let layers = Layers { broker: &broker, default_broker: &default, fixed: &fixed };
    let described = describe_topic("t", &overrides, layers).find(|d| d.setting.name == "retention.ms");
    let described = described.expect("every setting is described");
    assert_eq!((described.value.as_deref(), described.source), (Some("1"), Source::Topic));
    let chain: Vec<(&str, &str, i8)> =
        described.synonyms.iter().map(|s| (s.name, s.value.as_str(), s.source.code())).collect();
    let expected = [
        ("retention.ms", "1", 1),
        ("log.retention.ms", "2", 2),
        ("log.retention.ms", "3", 3),
        ("log.retention.hours", "4", 4),
        ("log.retention.hours", "168", 5),
    ];
    assert_eq!(chain, expected);

    let none = map(&[]);
    let layers = Layers { broker: &none, default_broker: &none, fixed: &none };
    let described = describe_topic("t", &none, layers).find(|d| d.setting.name == "segment.bytes");
    let described = described.expect("every setting is described");
    assert_eq!((described.value.as_deref(), described.source), (Some("1073741824"), Source::Default));
    let of_broker: Vec<Described> = describe_broker(layers).collect();
    assert_eq!(of_broker.len(), broker_settings().len());
    let version = of_broker.iter().find(|d| d.setting.name == "inter.broker.protocol.version");
    assert!(version.is_some_and(|d| d.value.is_some()), "tools read it");
}

#[test]
fn every_setting_is_read_or_says_that_it_is_without_effect() {
    let sources = [
        include_str!("topic.rs"),
        include_str!("broker.rs"),
        include_str!("cluster.rs"),
        include_str!("group.rs"),
    ];
    // Those of groups are read by their coordinator.
    for setting in all().filter(|setting| setting.scope != Scope::Group) {
        let is_read = sources.iter().any(|source| source.contains(&format!("\"{}\"", setting.name)));
        let gives_default =
            topic_settings().iter().any(|topic| topic.synonyms.iter().any(|(name, _)| *name == setting.name));
        let is_idle = setting.documentation().contains("ithout effect");
        assert!(is_read || gives_default || is_idle, "{} is not read, and does not say so", setting.name);
    }
}

#[test]
fn the_document_has_every_setting() {
    let document = render_markdown();
    assert!(all().all(|setting| document.contains(&format!("| `{}` |", setting.name))));
}

#[test]
fn a_groups_settings_keep_to_the_bounds_of_brokers() {
    let quick = map(&[("group.consumer.min.session.timeout.ms", "1000")]);
    let session = |ms: &str| map(&[("consumer.session.timeout.ms", ms)]);
    assert_eq!(validate_group(&session("45000"), &map(&[])), Ok(()));
    assert_eq!(validate_group(&session("6000"), &quick), Ok(()));
    let cases = [
        (
            session("6000"),
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            session("60001"),
            "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        (
            session("soon"),
            "Invalid value soon for configuration consumer.session.timeout.ms: Not a number of type INT",
        ),
        (map(&[("retention.ms", "1")]), "Unknown group config name: retention.ms"),
    ];
    for (overrides, words) in cases {
        assert_eq!(validate_group(&overrides, &map(&[])).expect_err(words).to_string(), words);
    }
    let fixed = map(&[("group.consumer.session.timeout.ms", "50000")]);
    let own = session("46000");
    let layers = Layers { broker: &map(&[]), default_broker: &map(&[]), fixed: &fixed };
    let told = |overrides| describe_group(overrides, layers).find(|it| it.setting.name.contains("session"));
    let told = |overrides| told(overrides).map(|it| (it.value, it.source.code()));
    assert_eq!(told(&own), Some((Some("46000".into()), 8)));
    assert_eq!(told(&map(&[])), Some((Some("50000".into()), 4)));
}
