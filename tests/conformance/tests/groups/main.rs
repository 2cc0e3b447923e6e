//! Every client of `matrix.toml` that can be a member of a group, through the whole life of one. A name of a test
//! is `client::protocol::story`; a part of it as an argument runs those that have it.

mod change; // start here
mod offsets;
mod scene;

use std::collections::BTreeSet;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::Result;
use libtest_mimic::{Arguments, Trial};
use vltava_conformance::Program;
use vltava_conformance::group::{self, Protocol};
use vltava_conformance::matrix::{self, Client, Feature};
use vltava_conformance::suite::{Suite, trial};

use scene::Part;

type Story = fn(&Suite, &Part) -> Result<()>;

/// What each client does by each protocol it can.
const STORIES: &[(&str, Story)] = &[
    ("life", |suite, part| change::life(suite, "life", part, part)),
    ("crash", change::crash),
    ("resume", offsets::resume),
    ("reset", offsets::reset),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Most of the time a story waits for a session to run out, or for the next heartbeat.
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    arguments.test_threads.get_or_insert(cores * 2);
    let program = Program::from_env();
    if let (false, Err(error)) = (arguments.list, &program) {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    let mut clients = matrix::clients().expect("matrix.toml is part of the tree");
    clients.retain(|client| client.can(Feature::Groups));
    let suite = Arc::new(Suite::default().with(group::QUICK));
    let patient = Arc::new(Suite::default().with(&group::patient()));
    let started = Instant::now();
    let trials = [
        each_alone(&suite, &clients),
        mixed(&suite, &clients),
        migrations(&suite, &clients),
        waited_for(&patient, &clients),
    ];
    let conclusion = libtest_mimic::run(&arguments, trials.into_iter().flatten().collect());
    let words = [suite, patient].map(|suite| suite.end(conclusion.has_failed()));
    // Both name the clients.
    for words in words.into_iter().flatten().collect::<BTreeSet<_>>() {
        eprintln!("{words}");
    }
    eprintln!("{:.1} s", started.elapsed().as_secs_f32());
    conclusion.exit_code()
}

/// Groups whose members are of one client.
fn each_alone(suite: &Arc<Suite>, clients: &[Client]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for client in clients {
        let protocols = [Protocol::Classic, Protocol::Consumer].into_iter();
        for protocol in protocols.filter(|protocol| speaks(client, *protocol)) {
            let part = Part { client: client.clone(), protocol };
            let mut tell = |name: &str, story: Story| {
                let (part, name) = (part.clone(), format!("{}::{protocol}::{name}", client.name));
                trials.push(trial(suite, &name, move |suite| story(suite, &part)));
            };
            STORIES.iter().for_each(|(name, story)| tell(name, *story));
            let comes_back = match protocol {
                Protocol::Classic => Feature::Static,
                Protocol::Consumer => Feature::StaticConsumer,
            };
            if client.can(comes_back) {
                tell("static_restart", change::static_restart);
            }
            if protocol == Protocol::Consumer || client.can(Feature::Cooperative) {
                tell("cooperative", change::cooperative);
            }
            // In a classic group members look up patterns themselves, some of them every few minutes.
            if protocol == Protocol::Consumer {
                tell("pattern", offsets::pattern);
            }
        }
    }
    trials
}

fn speaks(client: &Client, protocol: Protocol) -> bool {
    protocol == Protocol::Classic || client.can(Feature::Consumer)
}

/// Each client in one group with the next.
fn mixed(suite: &Arc<Suite>, clients: &[Client]) -> Vec<Trial> {
    let able = || clients.iter().filter(|client| client.can(Feature::Range));
    let part = |client: &Client| Part { client: client.clone(), protocol: Protocol::Classic };
    let pair = |(first, second): (&Client, &Client)| {
        let name = format!("{}::with::{}", first.name, second.name);
        let (first, second) = (part(first), part(second));
        trial(suite, &name, move |suite| change::life(suite, "mixed", &first, &second))
    };
    able().zip(able().cycle().skip(1)).map(pair).collect()
}

/// One member of each protocol: the group changes its own with who is in it.
fn migrations(suite: &Arc<Suite>, clients: &[Client]) -> Vec<Trial> {
    let able = clients.iter().filter(|client| client.can(Feature::Consumer));
    let both = [(Protocol::Classic, Protocol::Consumer), (Protocol::Consumer, Protocol::Classic)];
    let pairs = able.flat_map(|client| both.map(|(from, to)| (client.clone(), from, to)));
    let story = |(client, from, to): (Client, Protocol, Protocol)| {
        let name = format!("{}::{from}_to_{to}", client.name);
        let [first, second] = [from, to].map(|protocol| Part { client: client.clone(), protocol });
        trial(suite, &name, move |suite| change::life(suite, "migration", &first, &second))
    };
    pairs.map(story).collect()
}

/// Groups whose coordinator waits for more of the first members, as it does by default (ADR 0022).
fn waited_for(suite: &Arc<Suite>, clients: &[Client]) -> Vec<Trial> {
    let story = |client: &Client| {
        let part = Part { client: client.clone(), protocol: Protocol::Classic };
        let name = format!("{}::{}::life_with_delay", client.name, part.protocol);
        trial(suite, &name, move |suite| change::life(suite, "delay", &part, &part))
    };
    clients.iter().map(story).collect()
}
