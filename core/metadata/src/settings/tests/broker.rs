//! What a broker is started with, and what changes while it runs.

use std::time::Duration;

use super::super::*;
use super::map;

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
        ("log.flush.interval.ms", "-1"),
        ("log.retention.hours", "0"),
        ("log.retention.ms", "0"),
        ("log.roll.jitter.ms", "-1"),
        ("log.roll.ms", "0"),
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
        (vec![fourth, join, ("listeners", "PLAINTEXT://10.0.0.4:0")], "no port 10000 above it"),
        (vec![fourth, join, ("listeners", "PLAINTEXT://10.0.0.4:60000")], "no port 10000 above it"),
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

#[test]
fn a_node_that_joins_is_reached_beside_its_clients_unless_it_says_where() {
    type Given = &'static [(&'static str, &'static str)];
    let cases: [(&str, Given, &str); 7] = [
        ("where clients are", &[("listeners", "PLAINTEXT://10.0.0.4:9095")], "10.0.0.4:19095"),
        ("by a name", &[("listeners", "PLAINTEXT://node4:9092")], "node4:19092"),
        (
            "where it says",
            &[("cluster.listen", "10.0.0.5:1"), ("listeners", "PLAINTEXT://:9092")],
            "10.0.0.5:1",
        ),
        ("on every address", &[("listeners", "PLAINTEXT://0.0.0.0:9095")], "nowhere at 19095"),
        ("on this machine only", &[("listeners", "PLAINTEXT://127.0.0.1:9095")], "nowhere at 19095"),
        ("as it is by default", &[], "nowhere at 19092"),
        ("all on this machine", &[("cluster.join", "127.0.0.1:19092,localhost:19093")], "127.0.0.1:19092"),
    ];
    for (name, given, expected) in cases {
        let given = [("node.id", "4"), ("cluster.join", "10.0.0.1:19092")].iter().chain(given).copied();
        let at = match BrokerSettings::parse(given) {
            Ok(settings) => settings.cluster_address().expect(name).to_string(),
            Err(StartError::Nowhere { port, .. }) => format!("nowhere at {port}"),
            Err(other) => panic!("{name}: {other}"),
        };
        assert_eq!(at, expected, "{name}");
    }
    let of_controller = [("process.roles", "controller"), ("cluster.join", "127.0.0.1:19092")];
    let settings = BrokerSettings::parse(of_controller).expect("it has a place");
    assert_eq!(settings.cluster_address().map(ToString::to_string).as_deref(), Some("127.0.0.1:19092"));
}
