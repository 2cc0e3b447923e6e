//! The runs there are.

mod d1;
mod d2;
mod d3;
mod d4;
mod d5;
mod d6;
mod d7;
mod failover;
mod groups;
mod nemesis;

use std::env;
use std::panic;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::fault::Kind;
use crate::load::Amount;
use crate::report::Report;
use crate::stop::Stop;
use crate::system::{Flush, Launch, System};
use crate::world::Setup;

pub use failover::Blow;
pub use groups::Protocols;
pub use nemesis::KILL_OF_COORDINATOR;

/// A run that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// Faults from a seed, for as long as you like.
    Faults,
    /// The same, under groups whose members come and go.
    Groups,
    /// The rack loses power: all brokers at once.
    D1,
    /// One broker loses power while another is away.
    D2,
    /// The last replica in sync loses power.
    D3,
    /// All processes are killed, and no power is lost.
    D4,
    /// A disk begins to fail.
    D5,
    /// A controller that gave its vote loses power.
    D6,
    /// The disk of the controller hangs.
    D7,
    /// How long nobody acknowledges when a leader goes.
    Failover,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whose brokers.
    pub system: System,
    /// How many; the scenario's own number if `None`.
    pub nodes: Option<i32>,
    /// When they flush.
    pub flush: Flush,
    /// Whether the topic would rather lose records than wait: its `unclean.leader.election.enable`.
    pub unclean: bool,
    /// What the plan is made from.
    pub seed: u64,
    /// How long faults go on.
    pub time: Duration,
    /// Which.
    pub kinds: Vec<Kind>,
    /// Whether a run draws only from some of them.
    pub swarm: bool,
    /// How often, for runs that repeat something.
    pub rounds: u32,
    /// Which blows failover deals, in turn; none is all.
    pub blows: Vec<Blow>,
    /// Partitions of the topic.
    pub partitions: i32,
    /// Records a second of each producer.
    pub rate: u32,
    /// Whether librdkafka writes, and is in groups, too.
    pub librdkafka: bool,
    /// Which protocols groups have; `None` is those that the brokers have.
    pub protocols: Option<Protocols>,
    /// How many members each group has.
    pub members: u32,
    /// This program, which members are processes of.
    pub program: PathBuf,
    /// Further settings of the brokers.
    pub settings: Vec<(String, String)>,
    /// Where report and history are left.
    pub out: Option<PathBuf>,
    /// Leave the history even if nothing is wrong.
    pub keep: bool,
}

const DISK_BYTES: u64 = 1 << 30;

impl Options {
    /// Everything as it is unless somebody asks for something else.
    pub fn new(system: System) -> Self {
        Self {
            system,
            nodes: None,
            flush: Flush::Ack,
            unclean: false,
            seed: 1,
            time: Duration::from_secs(120),
            kinds: Kind::ALL.to_vec(),
            swarm: true,
            rounds: 30,
            blows: Vec::new(),
            partitions: 4,
            rate: 400,
            librdkafka: true,
            protocols: None,
            members: 4,
            program: env::current_exe().unwrap_or_default(),
            settings: Vec::new(),
            out: None,
            keep: false,
        }
    }

    /// A run of so many brokers, unless another number was asked for.
    fn setup(&self, scenario: Scenario, nodes: i32) -> Setup {
        let name = clap::ValueEnum::to_possible_value(&scenario);
        Setup {
            scenario: name.map(|name| name.get_name().to_owned()).unwrap_or_default(),
            launch: Launch {
                system: self.system.clone(),
                nodes: self.nodes.unwrap_or(nodes),
                flush: self.flush,
                settings: self.settings.clone(),
            },
            amount: Amount {
                partitions: self.partitions,
                producers: 2,
                rate: self.rate,
                librdkafka: self.librdkafka,
                readers: true,
                crowd: None,
                seed: self.seed,
            },
            disk_bytes: DISK_BYTES,
            replicas: Vec::new(),
            unclean: self.unclean,
            out: self.out.clone(),
            keep: self.keep,
        }
    }
}

/// Runs it, on a thread of its own: this one stays in its network.
pub fn run(scenario: Scenario, options: &Options, stop: &Stop) -> Result<Report> {
    let play = match scenario {
        Scenario::Faults => nemesis::run,
        Scenario::Groups => groups::run,
        Scenario::D1 => d1::run,
        Scenario::D2 => d2::run,
        Scenario::D3 => d3::run,
        Scenario::D4 => d4::run,
        Scenario::D5 => d5::run,
        Scenario::D6 => d6::run,
        Scenario::D7 => d7::run,
        Scenario::Failover => failover::run,
    };
    let (options, stop) = (options.clone(), stop.clone());
    let thread = thread::Builder::new().name("torture".to_owned());
    let played = thread.spawn(move || play(&options, stop)).context("no thread")?.join();
    played.unwrap_or_else(|panicked| panic::resume_unwind(panicked))
}
