//! Faults from a seed under groups: their coordinators are hit as often as all others, while members come, go,
//! are killed, stopped and cut off.

use anyhow::{Result, ensure};

use super::{Options, Scenario, nemesis};
use crate::load::{Crowd, Style};
use crate::report::Report;
use crate::stop::Stop;
use crate::world::{Expect, World};

/// Which protocols groups have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Protocols {
    /// JoinGroup and SyncGroup.
    Classic,
    /// ConsumerGroupHeartbeat (KIP-848).
    Consumer,
    /// One group or more with each.
    Both,
}

impl Protocols {
    fn groups(self) -> Vec<Style> {
        match self {
            Self::Classic => vec![Style::Eager, Style::Cooperative],
            Self::Consumer => vec![Style::Epochs, Style::Epochs],
            Self::Both => vec![Style::Eager, Style::Cooperative, Style::Epochs],
        }
    }
}

pub(super) fn run(options: &Options, stop: Stop) -> Result<Report> {
    let mut setup = options.setup(Scenario::Groups, 3);
    // What was asked for comes last, and counts.
    setup.launch.settings.splice(..0, Crowd::broker_settings());
    // Members read all that there is.
    setup.amount.readers = false;
    World::start(setup, stop)?.play(Expect::Nothing, |world| {
        let has_consumer = world.cluster.has_consumer_groups()?;
        let protocols = match options.protocols {
            None if has_consumer => Protocols::Both,
            None => Protocols::Classic,
            Some(protocols) => protocols,
        };
        ensure!(has_consumer || protocols == Protocols::Classic, "the brokers have no consumer protocol");
        let groups = protocols.groups();
        let places = groups.len() as u32 * options.members;
        let cables = (0..places).map(|place| world.cluster.net.add_client(place));
        let cables = cables.collect::<Result<Vec<_>>>()?;
        let rounds = nemesis::rounds(options, &world.setup, groups.len() as u32);
        world.setup.amount.crowd = Some(Crowd {
            groups,
            members: options.members,
            librdkafka: options.librdkafka,
            program: options.program.clone(),
            cables,
            seed: options.seed,
        });
        nemesis::play_all(world, &rounds, options.time)
    })
}
