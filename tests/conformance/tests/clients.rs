//! Every client of `matrix.toml`, through every story. A name of a test is `client::story`, with `on_kafka::`
//! before it if it is told on Apache Kafka; a part of it as an argument runs those that have it:
//! `cargo test -p vltava-conformance --test clients -- java`.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use libtest_mimic::{Arguments, Trial};
use vltava_conformance::matrix::{self, Client, Feature};
use vltava_conformance::node::Program;
use vltava_conformance::stories;
use vltava_conformance::suite::{Suite, trial};

fn main() -> ExitCode {
    let mut clients = matrix::clients().expect("matrix.toml is part of the tree");
    clients.retain(|client| client.can(Feature::Records));
    let started = Instant::now();
    // Where nodes are killed, no other story is told.
    let suites = [Suite::default(), Suite::on(Program::Kafka), Suite::default()].map(Arc::new);
    let [node, kafka, mortal] = &suites;
    let mut trials = alone(node, &clients);
    trials.extend(in_pairs(node, &clients));
    trials.extend(same_keys(node, &clients));
    // What the environment names instead of our node may be Kafka itself, and is looked at alone.
    let is_ours = matches!(Program::from_env(), Ok(Program::Vltava(_)));
    if is_ours {
        trials.extend(ours_on_kafka(kafka, &clients));
    }
    if matches!(Program::from_env(), Ok(Program::Cluster(_))) {
        trials.extend(clients.iter().map(|client| {
            let of = client.clone();
            trial(mortal, &format!("{}::failover", client.name), move |suite| stories::failover(suite, &of))
        }));
    }
    let arguments = Arguments::from_args();
    if let (false, Err(error)) = (arguments.list, Program::from_env()) {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    let words: BTreeSet<_> = suites.iter().flat_map(|suite| suite.end(conclusion.has_failed())).collect();
    for words in words {
        eprintln!("{words}");
    }
    for client in &clients {
        for (feature, reason) in client.cannot.iter().chain(&client.cannot_read) {
            eprintln!("{}: without {feature:?}: {reason}", client.name);
        }
    }
    eprintln!("{:.1} s", started.elapsed().as_secs_f32());
    conclusion.exit_code()
}

/// What each client does by itself.
fn alone(suite: &Arc<Suite>, clients: &[Client]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for client in clients {
        for codec in stories::CODECS {
            trials.push(trial(suite, &format!("{}::round_trip::{codec}", client.name), {
                let client = client.clone();
                move |suite| stories::round_trip(suite, &client, codec)
            }));
        }
        for (name, story) in [("sizes", stories::sizes as fn(&Suite, &Client) -> _), ("bulk", stories::bulk)]
        {
            let of = client.clone();
            trials.push(trial(suite, &format!("{}::{name}", client.name), move |suite| story(suite, &of)));
        }
    }
    trials
}

/// Each reads what the one before it wrote; and all read what ours wrote, and ours what all wrote.
fn in_pairs(suite: &Arc<Suite>, clients: &[Client]) -> Vec<Trial> {
    let ring = clients.iter().zip(clients.iter().cycle().skip(1));
    let ours = clients.iter().filter(|client| client.is_ours());
    let with_ours =
        ours.flat_map(|ours| clients.iter().flat_map(move |other| [(ours, other), (other, ours)]));
    let mut told = BTreeSet::new();
    let pairs = ring.chain(with_ours).filter(|(writer, reader)| told.insert((&writer.name, &reader.name)));
    pairs.map(|(writer, reader)| read_by(suite, "", writer, reader)).collect()
}

/// The clients that most others are made from, and ours, on Apache Kafka.
fn ours_on_kafka(suite: &Arc<Suite>, clients: &[Client]) -> Vec<Trial> {
    let Some(ours) = clients.iter().find(|client| client.is_ours()) else { return Vec::new() };
    let others = clients.iter().filter(|client| ["java-4.3", "librdkafka"].contains(&&*client.name));
    let pairs = others.flat_map(|other| [(ours, other), (other, ours)]);
    let mut trials: Vec<_> =
        pairs.map(|(writer, reader)| read_by(suite, "on_kafka::", writer, reader)).collect();
    let java = clients.iter().find(|client| client.name.starts_with("java"));
    for (java, reader) in java.into_iter().flat_map(|java| [(java, java), (java, ours)]) {
        let (java, reader) = (java.clone(), reader.clone());
        let name = format!("on_kafka::{}::transactions", reader.name);
        trials.push(trial(suite, &name, move |suite| stories::transactions(suite, &java, &reader)));
    }
    let client = ours.clone();
    trials.push(trial(suite, "on_kafka::vltava::sizes", move |suite| stories::sizes(suite, &client)));
    trials
}

fn read_by(suite: &Arc<Suite>, on: &str, writer: &Client, reader: &Client) -> Trial {
    let name = format!("{on}{}::read_by::{}", writer.name, reader.name);
    let (writer, reader) = (writer.clone(), reader.clone());
    trial(suite, &name, move |suite| stories::ring(suite, &writer, &reader))
}

fn same_keys(suite: &Arc<Suite>, clients: &[Client]) -> Vec<Trial> {
    let mut able = clients.iter().filter(|client| client.can(Feature::JavaKeys));
    let java = able.clone().find(|client| client.name.starts_with("java"));
    let Some(java) = java else { return Vec::new() };
    let others = able.by_ref().filter(|client| client.name != java.name);
    let story = |client: &Client| {
        let (client, java) = (client.clone(), java.clone());
        trial(suite, &format!("{}::keys", client.name), move |suite| stories::keys(suite, &client, &java))
    };
    others.map(story).collect()
}
