//! `torture run SCENARIO`, `torture check HISTORY`, `torture clean`: see `docs/operate/torture.md`.

#![expect(clippy::print_stdout, reason = "a command line tool answers on its standard output")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use vltava_torture::fault::Kind;
use vltava_torture::report::Outcome;
use vltava_torture::scenario::{self, Blow, Options, Protocols, Scenario};
use vltava_torture::stop::Stop;
use vltava_torture::system::{Flush, System};
use vltava_torture::{checker, history, lab, machine, member};

/// Clusters of real processes under faults, and a checker of what clients saw
#[derive(Parser)]
enum Command {
    /// Run a scenario; needs root
    Run(Box<Run>),
    /// Check a history that was kept
    Check {
        /// The file, one event a line
        history: PathBuf,
    },
    /// Clear away what runs left that could not do it themselves
    Clean,
    /// Be a member of a group until standard input ends; runs start these themselves
    #[command(hide = true)]
    Member {
        /// Where the cluster is
        bootstrap: String,
        /// Its number in the history
        who: u32,
        /// Settings of a consumer, by Kafka's names
        #[arg(value_name = "NAME=VALUE", value_parser = pair)]
        settings: Vec<(String, String)>,
    },
}

#[derive(clap::Args)]
struct Run {
    /// Which
    scenario: Scenario,
    /// Whose brokers: vltava (VLTAVA_BIN, or this build's) or kafka
    #[arg(long, default_value = "vltava")]
    system: String,
    /// How many brokers, if not the scenario's own number
    #[arg(long)]
    nodes: Option<i32>,
    /// When an acknowledged record is on the disk
    #[arg(long, value_enum, default_value = "ack")]
    flush: Flush,
    /// Give the topic unclean.leader.election.enable=true; with --flush os, d3 then has to lose something
    #[arg(long)]
    unclean: bool,
    /// The seed of the plan; from the clock if not given
    #[arg(long)]
    seed: Option<u64>,
    /// How long faults go on
    #[arg(long, default_value_t = 2.0)]
    minutes: f64,
    /// Which faults, between commas; `disk` is full, failing and hang
    #[arg(long, value_delimiter = ',', value_parser = kinds)]
    faults: Vec<Kinds>,
    /// Draw from all of those faults, not from some of them
    #[arg(long)]
    all_faults: bool,
    /// How often, for failover
    #[arg(long, default_value_t = 30)]
    rounds: u32,
    /// What failover does, in turn, between commas; all of it if not given
    #[arg(long, value_enum, value_delimiter = ',')]
    blows: Vec<Blow>,
    /// Partitions of the topic
    #[arg(long, default_value_t = 4)]
    partitions: i32,
    /// Records a second of each producer
    #[arg(long, default_value_t = 400)]
    rate: u32,
    /// Only producers and members of our client
    #[arg(long)]
    without_librdkafka: bool,
    /// Which protocols groups have; if not given, those that the brokers have
    #[arg(long, value_enum)]
    group_protocol: Option<Protocols>,
    /// Members of each group
    #[arg(long, default_value_t = 4)]
    members: u32,
    /// A setting of the brokers
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Leave report.json here, and what else is kept
    #[arg(long)]
    out: Option<PathBuf>,
    /// Keep the history even if nothing is wrong
    #[arg(long)]
    keep: bool,
}

/// What one word of `--faults` stands for.
type Kinds = Vec<Kind>;

fn kinds(word: &str) -> Result<Kinds, String> {
    match word {
        "disk" => Ok(vec![Kind::Full, Kind::Failing, Kind::Hang]),
        "all" => Ok(Kind::ALL.to_vec()),
        word => <Kind as clap::ValueEnum>::from_str(word, true).map(|kind| vec![kind]),
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("wants NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn main() -> ExitCode {
    match act(Command::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn act(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(run) => play(*run),
        Command::Check { history } => check(&history),
        Command::Clean => lab::clean().map(|()| ExitCode::SUCCESS),
        Command::Member { bootstrap, who, settings } => {
            member::run(&bootstrap, who, &settings).map(|()| ExitCode::SUCCESS)
        }
    }
}

fn play(run: Run) -> Result<ExitCode> {
    if let Some(why) = machine::unavailable() {
        bail!("this machine cannot run it: {why}");
    }
    let options = options(&run)?;
    println!("seed {}", options.seed);
    let report = scenario::run(run.scenario, &options, &Stop::on_signals()?)?;
    println!("\n{}", report.table());
    Ok(match report.outcome {
        Outcome::Passed => ExitCode::SUCCESS,
        Outcome::Failed => ExitCode::FAILURE,
        Outcome::Invalid => ExitCode::from(3),
    })
}

fn options(run: &Run) -> Result<Options> {
    let system = match run.system.as_str() {
        "vltava" => System::vltava()?,
        "kafka" => System::Kafka,
        other => bail!("--system is {other:?}, not vltava or kafka"),
    };
    let librdkafka = !run.without_librdkafka;
    if let (true, Some(why)) = (librdkafka, machine::without_librdkafka()) {
        bail!("librdkafka is not here ({why}); or --without-librdkafka");
    }
    let faults: Vec<Kind> = run.faults.iter().flatten().copied().collect();
    Ok(Options {
        nodes: run.nodes,
        flush: run.flush,
        unclean: run.unclean,
        seed: run.seed.unwrap_or_else(history::now_ns),
        time: Duration::try_from_secs_f64(run.minutes * 60.0).context("--minutes")?,
        kinds: if faults.is_empty() { Kind::ALL.to_vec() } else { faults },
        swarm: !run.all_faults,
        rounds: run.rounds,
        blows: run.blows.clone(),
        partitions: run.partitions,
        rate: run.rate,
        librdkafka,
        protocols: run.group_protocol,
        members: run.members,
        settings: run.set.clone(),
        out: run.out.clone(),
        keep: run.keep,
        ..Options::new(system)
    })
}

fn check(path: &std::path::Path) -> Result<ExitCode> {
    let verdict = checker::check(&history::read(path)?);
    println!("{:#?}", verdict.counts);
    for (kind, found) in verdict.found.kinds() {
        println!("{kind}: {}", found.count);
        found.first.iter().for_each(|one| println!("  {one}"));
    }
    Ok(if verdict.found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
