//! The table against Kafka's own, and what becomes of values.

use std::time::Duration;

use super::*;

const KAFKA_TOPIC: &str = include_str!("../../testdata/kafka-4.4.0-topic-settings.tsv");
const KAFKA_BROKER: &str = include_str!("../../testdata/kafka-4.4.0-broker-settings.tsv");

/// Ours has a setting that Kafka does not.
const OURS: [&str; 10] = [
    "cluster.join",
    "cluster.listen",
    "cluster.peers",
    "flush.policy",
    "flush.interval.ms",
    // Kafka has these two in a list apart.
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "http.listen",
    "inter.broker.protocol.version",
    "log.dir.reserve.bytes",
];
/// Ours differs from Kafka in the default or the range; the table gives the reason.
const DIFFERENT: [&str; 16] = [
    "broker.heartbeat.interval.ms",
    "broker.session.timeout.ms",
    "connections.max.idle.ms",
    "controller.quorum.election.timeout.ms",
    "cordoned.log.dirs",
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
    TopicSettings::resolve(&topic, Layers { broker: &broker, default_broker: &map(&[]), fixed: &fixed })
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
        let Some(row) = kafka.iter().find(|row| row[0] == setting.name) else {
            assert!(OURS.contains(&setting.name), "{} is not Kafka's", setting.name);
            continue;
        };
        assert_eq!(setting.kind.name(), row[1], "{}", setting.name);
        if !DIFFERENT.contains(&setting.name) {
            assert_eq!(setting.default.unwrap_or("null"), row[2], "{}", setting.name);
        }
        if setting.scope == Scope::BrokerDynamic {
            assert_eq!(row[4], "dynamic", "{}", setting.name);
        }
    }
}

#[test]
fn the_table_is_sorted_documented_and_its_defaults_are_legal() {
    for table in [topic_settings(), broker_settings()] {
        assert!(table.windows(2).all(|pair| pair[0].name < pair[1].name), "sorted by name, none twice");
        for setting in table {
            assert!(!setting.documentation().is_empty() && !setting.reason.is_empty(), "{}", setting.name);
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
    assert_eq!(resolve(&[], &[], &[("log.retention.hours", "-1")]).retention, None);
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

#[test]
fn a_description_says_where_each_value_is_from() {
    let overrides = map(&[("retention.ms", "1")]);
    let (broker, default) = (map(&[("log.retention.ms", "2")]), map(&[("log.retention.ms", "3")]));
    let fixed = map(&[("log.retention.hours", "4")]);
    let layers = Layers { broker: &broker, default_broker: &default, fixed: &fixed };
    let described = describe_topic(&overrides, layers).find(|d| d.setting.name == "retention.ms");
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
    let described = describe_topic(&none, layers).find(|d| d.setting.name == "segment.bytes");
    let described = described.expect("every setting is described");
    assert_eq!((described.value.as_deref(), described.source), (Some("1073741824"), Source::Default));
    let of_broker: Vec<Described> = describe_broker(layers).collect();
    assert_eq!(of_broker.len(), broker_settings().len());
    let version = of_broker.iter().find(|d| d.setting.name == "inter.broker.protocol.version");
    assert!(version.is_some_and(|d| d.value.is_some()), "tools read it");
}

#[test]
fn a_broker_starts_with_nothing_set() {
    let settings = BrokerSettings::parse(Vec::<(String, String)>::new()).expect("defaults are enough");
    assert_eq!(settings.node_id, base::BrokerId(1));
    assert_eq!(settings.listeners[0].to_string(), "PLAINTEXT://127.0.0.1:9092");
    assert_eq!(settings.advertised_listeners(), settings.listeners);
    assert_eq!(settings.log_dirs, [std::path::PathBuf::from("./vltava-data")]);
    assert_eq!(settings.http_listen.as_deref(), Some("127.0.0.1:9644"));
    assert_eq!((settings.io_threads, settings.queued_request_bytes_max), (None, None));
    assert!(settings.auto_create_topics && settings.delete_topics && settings.fixed.is_empty());
}

#[test]
fn a_broker_reads_what_it_is_given() {
    let file =
        "# a comment\nnode.id=7\nlog.dirs = /a, /b\n\nlisteners=\"PLAINTEXT://[::1]:0\"\nhttp.listen=\n";
    let mut given = parse_properties(file).expect("it is well formed");
    given.push(("node.id".into(), "8".into()));
    let settings = BrokerSettings::parse(given).expect("all of it is legal");
    assert_eq!(settings.node_id, base::BrokerId(8), "the command line comes last");
    assert_eq!(settings.log_dirs, ["/a", "/b"].map(std::path::PathBuf::from));
    assert_eq!((settings.listeners[0].host.as_str(), settings.listeners[0].port), ("::1", 0));
    assert_eq!(settings.listeners[0].to_string(), "PLAINTEXT://[::1]:0");
    assert_eq!(settings.http_listen, None);

    let old_name = BrokerSettings::parse([("broker.id", "3")]).expect("Kafka's older name");
    assert_eq!(old_name.node_id, base::BrokerId(3));
}

#[test]
fn a_broker_does_not_start_with_what_it_does_not_understand() {
    let unknown = BrokerSettings::parse([("num.partition", "3")]).expect_err("a letter is missing");
    assert_eq!(
        unknown.to_string(),
        "there is no setting num.partition (did you mean num.partitions?); `vltava config` lists all of them"
    );
    let far = BrokerSettings::parse([("zookeeper.connect", "x")]).expect_err("nothing is near");
    assert!(!far.to_string().contains("did you mean"), "{far}");
    for (name, value) in [
        ("listeners", "9092"),
        ("listeners", "PLAINTEXT://a:70000"),
        ("listeners", "SASL_SSL://a:1"),
        ("listeners", "PLAINTEXT://a:1,PLAINTEXT://b:2"),
        ("listeners", ""),
        ("log.dirs", ""),
        ("node.id", "-1"),
    ] {
        let wrong = BrokerSettings::parse([(name, value)]).expect_err(value);
        assert!(wrong.to_string().contains(name), "{wrong}");
    }
    let line = parse_properties("a=1\nbroken\n").expect_err("no equals sign");
    assert_eq!(line.to_string(), "line 2: expected name = value, found \"broken\"");
}

/// What Kafka's own config/server.properties sets.
const KAFKAS_OWN: &str = "
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
";

#[test]
fn kafkas_own_file_fits() {
    let given = parse_properties(KAFKAS_OWN).expect("it is well formed");
    let settings = BrokerSettings::parse(given).expect("it fits");
    assert_eq!(settings.listeners.len(), 1, "the controller's is left out");
    assert_eq!((settings.listeners[0].host.as_str(), settings.listeners[0].port), ("", 9092));
    assert_eq!(settings.advertised_listeners()[0].host, "localhost");
    assert_eq!((settings.io_threads, settings.recovery_threads), (Some(8), 1));
    assert_eq!(settings.roles, Roles { broker: true, controller: true });
    assert!(settings.ignored.iter().any(|name| name == "controller.quorum.bootstrap.servers"));
    assert!(settings.ignored.iter().all(|name| find_broker(name).is_none()));
}

#[test]
fn what_would_open_the_door_is_not_passed_over() {
    let guarded = [("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")];
    let refused = BrokerSettings::parse(guarded).expect_err("nobody would be asked");
    assert!(refused.to_string().contains("authorizer.class.name"), "{refused}");
    assert!(BrokerSettings::parse([("authorizer.class.name", "")]).is_ok());
}

#[test]
fn every_setting_is_read_or_says_that_it_is_without_effect() {
    let sources = [include_str!("topic.rs"), include_str!("broker.rs")];
    for setting in all() {
        let is_read = sources.iter().any(|source| source.contains(&format!("\"{}\"", setting.name)));
        let gives_default =
            topic_settings().iter().any(|topic| topic.synonyms.iter().any(|(name, _)| *name == setting.name));
        let is_idle = setting.documentation().contains("ithout effect");
        assert!(is_read || gives_default || is_idle, "{} is not read, and does not say so", setting.name);
    }
}

#[test]
fn what_changes_while_a_broker_runs_lies_over_what_it_was_started_with() {
    let started = BrokerSettings::parse([("producer.id.expiration.ms", "5"), ("node.id", "3")]);
    let started = started.expect("all of it is legal");
    let default = map(&[("producer.id.expiration.ms", "6"), ("node.id", "4")]);
    let changed = started.with(&default, &map(&[]));
    assert_eq!(changed.producer_id_expiration, Duration::from_millis(6));
    assert_eq!((changed.node_id, &changed.fixed), (started.node_id, &started.fixed));
    let own = started.with(&default, &map(&[("producer.id.expiration.ms", "7")]));
    assert_eq!(own.producer_id_expiration, Duration::from_millis(7));
    let broken = started.with(&map(&[("producer.id.expiration.ms", "x")]), &map(&[]));
    assert_eq!(broken, started);
}

#[test]
fn only_dynamic_settings_change_while_a_broker_runs() {
    assert_eq!(validate_broker(&map(&[("log.retention.ms", "1000")])), Ok(()));
    let fixed = validate_broker(&map(&[("node.id", "3")])).expect_err("it is read at start");
    assert_eq!(fixed.to_string(), "Cannot update these configs dynamically: [node.id]");
    assert!(validate_broker(&map(&[("no.such", "3")])).is_err());
}

#[test]
fn the_document_has_every_setting() {
    let document = render_markdown();
    assert!(all().all(|setting| document.contains(&format!("| `{}` |", setting.name))));
}

#[test]
fn a_node_says_what_it_is_for() {
    let roles = |given: &[(&'static str, &'static str)]| {
        BrokerSettings::parse(given.iter().copied())
            .map(|settings| (settings.roles, settings.listeners.len()))
    };
    let both = Roles { broker: true, controller: true };
    assert_eq!(roles(&[]), Ok((both, 1)));
    let listen = ("cluster.listen", "10.0.0.4:19092");
    let broker = [("process.roles", "broker"), listen, ("cluster.join", "10.0.0.1:19092")];
    assert_eq!(roles(&broker), Ok((Roles { controller: false, ..both }, 1)));
    // What is listened on is Kafka's controller's, if anything.
    let controller = [
        ("process.roles", "controller"),
        listen,
        ("listeners", "CONTROLLER://:9093"),
        ("controller.listener.names", "CONTROLLER"),
    ];
    assert_eq!(roles(&controller), Ok((Roles { broker: false, ..both }, 0)));
    for wrong in ["", "observer", "broker,voter"] {
        let refused = roles(&[("process.roles", wrong)]).expect_err(wrong).to_string();
        assert!(refused.contains("process.roles"), "{refused}");
    }
}

#[test]
fn a_node_without_a_place_in_a_cluster_does_not_start() {
    let peers = ("cluster.peers", "1@10.0.0.1:19092,2@10.0.0.2:19092");
    let join = ("cluster.join", "10.0.0.1:19092,[::1]:19092");
    let listen = ("cluster.listen", "10.0.0.4:19092");
    let fourth = ("node.id", "4");
    for (given, why) in [
        (vec![fourth, peers], "cluster.peers does not name this node"),
        (vec![fourth, join], "cluster.listen is not set"),
        (vec![("process.roles", "broker")], "cluster.listen is not set"),
        (vec![("process.roles", "controller")], "cluster.listen is not set"),
        (vec![peers, ("process.roles", "broker")], "cluster.peers names nodes that vote"),
        (vec![peers, join], "set one of them"),
        (vec![fourth, listen, ("cluster.join", "10.0.0.1")], "cluster.join"),
        (vec![fourth, ("cluster.listen", "0.0.0.0:19092"), join], "told to connect to 0.0.0.0:19092"),
        (vec![("cluster.peers", "1@[::]:19092,2@b:1")], "told to connect to [::]:19092"),
    ] {
        let refused = BrokerSettings::parse(given.clone()).expect_err(why).to_string();
        assert!(refused.contains(why), "{given:?}: {refused}");
    }
    let settings = BrokerSettings::parse([fourth, join, listen, peers]).expect("it has a place");
    let told: Vec<String> = settings.cluster_join.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["10.0.0.1:19092", "[::1]:19092"]);
    assert_eq!(settings.listeners[0].host, "10.0.0.4", "clients are served where nodes are");
    let told = |settings: &BrokerSettings| settings.cluster_address().map(ToString::to_string);
    assert_eq!(told(&settings).as_deref(), Some("10.0.0.4:19092"));
    let everywhere = BrokerSettings::parse([peers, ("cluster.listen", "0.0.0.0:19092")]).expect("it has one");
    assert_eq!(told(&everywhere).as_deref(), Some("10.0.0.1:19092"));
}
