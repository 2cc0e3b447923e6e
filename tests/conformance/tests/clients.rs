//! Every client of `matrix.toml`, through every story. A name of a test is
//! `client::story`; a part of it as an argument runs those that have it:
//! `cargo test -p vltava-conformance --test clients -- java`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};
use vltava_conformance::matrix::{self, Client};
use vltava_conformance::node::Program;
use vltava_conformance::stories;
use vltava_conformance::suite::Suite;

fn main() -> ExitCode {
    let clients = matrix::clients().expect("matrix.toml is part of the tree");
    let suite = Arc::new(Suite::default());
    let started = Instant::now();
    let mut trials = Vec::new();
    for client in &clients {
        for codec in stories::CODECS {
            trials.push(trial(&suite, &format!("{}::round_trip::{codec}", client.name), {
                let client = client.clone();
                move |suite| stories::round_trip(suite, &client, codec)
            }));
        }
        for (name, story) in [("sizes", stories::sizes as fn(&Suite, &Client) -> _), ("bulk", stories::bulk)]
        {
            let of = client.clone();
            trials.push(trial(&suite, &format!("{}::{name}", client.name), move |suite| story(suite, &of)));
        }
    }
    // Each reads what the one before it wrote.
    for (writer, reader) in clients.iter().zip(clients.iter().cycle().skip(1)) {
        let (writer, reader) = (writer.clone(), reader.clone());
        trials.push(trial(&suite, &format!("{}::read_by::{}", writer.name, reader.name), move |suite| {
            stories::ring(suite, &writer, &reader)
        }));
    }
    let arguments = Arguments::from_args();
    if let (false, Err(error)) = (arguments.list, Program::from_env()) {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    for words in suite.end(conclusion.has_failed()) {
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

fn trial(suite: &Arc<Suite>, name: &str, story: impl FnOnce(&Suite) -> Result<()> + Send + 'static) -> Trial {
    let suite = Arc::clone(suite);
    Trial::test(name, move || story(&suite).map_err(|error| Failed::from(format!("{error:#}"))))
}
