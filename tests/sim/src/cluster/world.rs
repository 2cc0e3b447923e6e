//! One run: nodes, a network, a quorum and clients, and what must be true of them.
//!
//! ```text
//!   seed ─▶ options ─▶ queue of events ─▶ Process::on_… ─▶ Act ─▶ queue
//!                            │                 │
//!                            ▼ clients         ▼ Truth ─▶ invariants, at each step
//! ```

mod groups;
mod links;
mod load;
mod machines;
mod metadata;
mod rot;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ::metadata::settings::BrokerSettings;
use base::{BrokerEpoch, Now};
use controller::MetadataQuorum;
use storage::disk::Disk;

use super::EPOCH;
use super::client::Client;
use super::client::admin::Admin;
use super::invariants::{self, Cut, Look, i22_quorum};
use super::net::{Network, Parcel, Place};
use super::options::Options;
use super::plant::Plant;
use super::process::cell::View;
use super::process::{Act, PartitionKey, Process};
use super::queue::{Event, Queue};
use super::quorum::{SimProposer, SimQuorum};
use super::truth::Truth;
use crate::disk::{Halt, SimDisk};
use crate::random::Random;
use crate::trace::Trace;
use crate::violation::Violation;

/// How long a flush of a slow disk takes, at most.
const SLOW_FLUSH_US: u64 = 3_000_000;

/// How often in a row a process may be late: whoever is stepped and stays so turns in circles.
const OVERDUE_MAX: u32 = 10_000;

/// A machine, and the process that runs on it.
pub(crate) struct Node {
    pub(crate) disk: SimDisk,
    door: Arc<dyn Disk>,
    pub(crate) process: Option<Process>,
    /// Counts processes.
    pub(crate) life: u32,
    /// Until when its process is stopped.
    pub(crate) paused_until: u64,
    /// Until when its disk is slow.
    pub(crate) slow_until: u64,
    /// Until when no flush ends that began after its disk hung.
    pub(crate) hung_until: u64,
    /// Whether its machine has power.
    pub(crate) has_power: bool,
    /// What was added to its wall clock.
    pub(crate) shift_ms: i64,
    /// When it is stepped next although nothing happens.
    tick_at: u64,
    /// How often in a row it had something to do at a time that is over, as it said itself.
    overdue: u32,
    starts_at: Option<u64>,
    /// Whether it is to stay as it is when it is down.
    pub(crate) is_held: bool,
}

/// See the module.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) options: Options,
    pub(crate) plant: Option<Plant>,
    pub(crate) trace: Trace,
    /// What the disks did: too much to be read, and part of the hash all the same.
    pub(crate) disk_trace: Trace,
    pub(crate) now_us: u64,
    pub(crate) queue: Queue,
    pub(crate) net: Network,
    pub(crate) quorum: SimQuorum,
    pub(crate) nodes: Vec<Node>,
    pub(crate) clients: Vec<Client>,
    /// When each is stepped next although nothing happens.
    wakes: Vec<u64>,
    pub(crate) truth: Truth,
    pub(crate) seen: i22_quorum::Seen,
    pub(crate) random: Random,
    pub(crate) found: Vec<Violation>,
    /// Whether anything bad may happen.
    pub(crate) is_troubled: bool,
    /// Whether somebody waits for a node that is about to be in sync.
    pub(crate) is_in_ambush: bool,
    /// Nodes that got an empty disk, and the life that the metadata knew of then.
    replaced: BTreeMap<usize, Option<BrokerEpoch>>,
    /// Bytes of records that are not what was written.
    rotten: Vec<rot::Rotten>,
    /// Says whose disk that is: apart from all else that is drawn, so that a run is what it was without it.
    pub(crate) disks: Random,
    /// When logs are compacted and read into shards: apart from all else that is drawn, too.
    pub(crate) compactions: Random,
    /// Who finds whom dead, and when; in every other run.
    pub(crate) suspicions: Option<Random>,
    /// What clients and coordinators say to each other.
    pub(crate) overheard: groups::Overheard,
    known: usize,
    /// Whether what clients say and hear is told.
    is_loud: bool,
    settings: Vec<BrokerSettings>,
}

impl World {
    pub(crate) fn new(seed: u64, options: Options, plant: Option<Plant>, trace: Trace) -> Self {
        let disk_trace = Trace::default();
        let node = |number: usize| {
            let random = Random::stream(seed, &format!("disk {number}"));
            let disk = SimDisk::new(random, disk_trace.clone());
            disk.set_writeback(options.writeback_per_thousand);
            if plant == Some(Plant::BarriersIgnored) {
                disk.ignore_barriers();
            }
            let door: Arc<dyn Disk> = Arc::new(disk.clone());
            Node {
                disk,
                door,
                process: None,
                life: 0,
                paused_until: 0,
                slow_until: 0,
                hung_until: 0,
                has_power: true,
                shift_ms: 0,
                tick_at: u64::MAX,
                overdue: 0,
                starts_at: None,
                is_held: false,
            }
        };
        let mut world = Self {
            seed,
            nodes: (0..options.nodes).map(node).collect(),
            settings: (0..options.nodes).map(|node| settings(node, options.dirs, plant)).collect(),
            net: Network::new(Random::stream(seed, "network"), options.delays),
            quorum: SimQuorum::new(options.nodes, options.temper, plant, Random::stream(seed, "quorum")),
            random: Random::stream(seed, "trouble"),
            options,
            plant,
            trace,
            disk_trace,
            now_us: 0,
            queue: Queue::default(),
            clients: Vec::new(),
            wakes: Vec::new(),
            truth: Truth::default(),
            seen: i22_quorum::Seen::default(),
            found: Vec::new(),
            is_troubled: false,
            is_in_ambush: false,
            replaced: BTreeMap::new(),
            rotten: Vec::new(),
            disks: Random::stream(seed, "replaced disks"),
            compactions: Random::stream(seed, "compactions"),
            suspicions: Some(Random::stream(seed, "suspicions")).filter(|_| seed % 2 == 1),
            overheard: groups::Overheard::default(),
            known: 0,
            is_loud: std::env::var_os("VLTAVA_SIM_LOUD").is_some(),
        };
        for node in 0..world.nodes.len() {
            world.queue.push(0, Event::Start(node));
        }
        world.queue.push(0, Event::Quorum);
        let admin = Admin::new(0, world.options.nodes, world.options.topics.clone());
        world.add_client(Client::Admin(admin));
        world
    }

    pub(crate) fn add_client(&mut self, client: Client) {
        self.queue.push(self.now_us, Event::Client(self.clients.len()));
        self.clients.push(client);
        self.wakes.push(0);
    }

    pub(crate) fn say(&self, what: std::fmt::Arguments<'_>) {
        self.trace.event(format!("{:>10} {what}", self.now_us));
    }

    /// Something that happens too often to be read, unless somebody wants to.
    fn hum(&self, what: impl Fn() -> String) {
        match self.is_loud {
            true => self.say(format_args!("{}", what())),
            false => self.trace.hum(&what()),
        }
    }

    /// The clocks of a node.
    fn now_of(&self, node: usize) -> Now {
        let elapsed = Duration::from_micros(self.shown(node, self.now_us));
        let wall = EPOCH.saturating_add(elapsed);
        Now::new(elapsed, base::TimestampMs(wall.0 + self.nodes[node].shift_ms))
    }

    fn pace(&self, node: usize) -> u64 {
        self.options.paces.get(node).copied().unwrap_or(1000)
    }

    /// What a node's clock shows at a time.
    fn shown(&self, node: usize, at_us: u64) -> u64 {
        at_us * self.pace(node) / 1000
    }

    /// The first time at which a node's clock shows so much.
    fn when_shown(&self, node: usize, shown_us: u64) -> u64 {
        (shown_us * 1000).div_ceil(self.pace(node))
    }

    /// Goes on until a time, or until something is wrong; whether nothing is.
    pub(crate) fn run_until(&mut self, end_us: u64) -> bool {
        while self.found.is_empty() {
            let Some((at_us, event)) = self.queue.pop_before(end_us) else {
                self.now_us = end_us;
                return true;
            };
            self.now_us = at_us;
            self.happen(event);
        }
        false
    }

    /// Goes on until something is so, or a time is over; whether it is so.
    pub(crate) fn run_while(&mut self, end_us: u64, is_so: impl Fn(&Self) -> bool) -> bool {
        while self.found.is_empty() && self.now_us < end_us {
            if is_so(self) {
                return true;
            }
            self.run_until((self.now_us + 50_000).min(end_us));
        }
        self.found.is_empty() && is_so(self)
    }

    fn happen(&mut self, event: Event) {
        if let Some(node) = self.node_of(&event)
            && self.nodes[node].paused_until > self.now_us
        {
            return self.queue.push(self.nodes[node].paused_until, event);
        }
        match event {
            Event::Open(conn) => self.open(conn),
            Event::Arrive(conn, way) => self.arrive(conn, way),
            Event::Start(node) => self.start(node),
            Event::Tick { node, life } => {
                if self.nodes[node].tick_at > self.now_us {
                    return;
                }
                self.nodes[node].tick_at = u64::MAX;
                self.step(node, life, |process, now| process.on_tick(now));
            }
            Event::FlushBegins { node, life, key } => {
                let mut has_begun = false;
                self.step(node, life, |process, now| has_begun = process.begin_flush(now, key));
                if has_begun {
                    let is_slow = self.nodes[node].slow_until > self.now_us;
                    let longest = if is_slow { SLOW_FLUSH_US } else { self.options.flush_us };
                    let at = self.now_us + self.random.below(longest + 1);
                    let at = at.max(self.nodes[node].hung_until);
                    self.queue.push(at, Event::FlushEnds { node, life, key });
                }
            }
            Event::FlushEnds { node, life, key } => {
                self.step(node, life, |process, now| process.end_flush(now, key));
            }
            Event::Load { node, life, shard, epoch } => {
                self.step(node, life, |process, now| process.load_on(now, shard, epoch));
            }
            Event::Compact { node, life } => self.compact(node, life),
            Event::Suspect { by, suspect } => self.suspect(by, suspect),
            Event::Quorum => self.look_at_quorum(),
            Event::Tell(node) => self.tell(node),
            Event::Client(client) => {
                if self.wakes[client] <= self.now_us {
                    self.wakes[client] = u64::MAX;
                    self.client(client, |client, now_us, acts| client.step(now_us, acts));
                }
            }
            Event::Trouble => self.trouble(),
        }
    }

    /// Whose process an event is for.
    fn node_of(&self, event: &Event) -> Option<usize> {
        match event {
            Event::Tick { node, .. }
            | Event::FlushBegins { node, .. }
            | Event::FlushEnds { node, .. }
            | Event::Load { node, .. }
            | Event::Compact { node, .. }
            | Event::Suspect { by: node, .. }
            | Event::Tell(node) => Some(*node),
            Event::Arrive(conn, way) => self.net.receiver(*conn, *way)?.node(),
            Event::Open(conn) => conn.owner.node(),
            Event::Start(_) | Event::Quorum | Event::Client(_) | Event::Trouble => None,
        }
    }

    /// Steps the process of a node, if it is still that one, and does what it wants.
    pub(crate) fn step(&mut self, node: usize, life: u32, act: impl FnOnce(&mut Process, Now)) {
        let now = self.now_of(node);
        let shown = |at: Duration| Duration::from_micros(self.shown(node, at.as_micros() as u64));
        let led_at = self.quorum.led_at(node).map(shown);
        let Some(process) = self.nodes[node].process.as_mut().filter(|process| process.life == life) else {
            return;
        };
        process.led_at = led_at;
        act(process, now);
        let acts = process.take_acts();
        match self.nodes[node].disk.halted() {
            // Whatever it was about to send, it did not come to that.
            Some(Halt::Power) => return self.cut_power(node),
            Some(Halt::Process) => return self.end(node, false),
            None => {}
        }
        let cuts = self.perform(node, life, acts);
        self.observe(node, &cuts);
        self.look_at_shards(node);
        self.schedule_tick(node);
    }

    fn schedule_tick(&mut self, node: usize) {
        let Some(process) = &self.nodes[node].process else { return };
        let due = process.deadline().map(|due| self.when_shown(node, due.as_micros() as u64 + 1));
        let (life, state) = (process.life, &mut self.nodes[node]);
        state.overdue = if due.is_some_and(|due| due <= self.now_us) { state.overdue + 1 } else { 0 };
        if state.overdue > OVERDUE_MAX {
            let what = format!("node {node} does nothing about what is due since {due:?}");
            return self.found.push(Violation { invariant: "what is due is done", what });
        }
        if let Some(due) = due.map(|due| due.max(self.now_us + 1)).filter(|due| *due < state.tick_at) {
            state.tick_at = due;
            self.queue.push(due, Event::Tick { node, life });
        }
    }

    fn perform(&mut self, node: usize, life: u32, acts: VecDeque<Act>) -> Vec<(PartitionKey, Cut)> {
        let mut cuts = Vec::new();
        let mut acts = acts.into_iter();
        while let Some(act) = acts.next() {
            match act {
                Act::Connect { conn, to, purpose } => {
                    self.net.connect(conn, to, purpose);
                    self.connect(conn, Place::Node(node), to);
                }
                Act::Send { conn, frame } => {
                    self.hum(|| {
                        let asks = conn.owner == Place::Node(node);
                        let what = if asks { words_of_request(&frame) } else { String::new() };
                        format!("node {node} sends on {conn:?} {} bytes {what}", frame.len())
                    });
                    self.send(conn, Place::Node(node), Parcel::Frame(frame));
                }
                Act::Close(conn) => self.hang_up(conn, Place::Node(node)),
                Act::Propose(proposal) => {
                    self.say(format_args!("node {node} proposes {} records", proposal.records.len()));
                    let (quorum, now_us) = (&mut self.quorum, self.now_us);
                    SimProposer { quorum, now_us, node }.propose(proposal);
                }
                Act::Flush(key) => {
                    let at = self.now_us + self.random.below(self.options.flush_us / 2 + 1);
                    self.queue.push(at, Event::FlushBegins { node, life, key });
                }
                Act::Load(shard, epoch) => {
                    let at = self.now_us + self.compactions.below(self.options.load_us + 1);
                    self.queue.push(at, Event::Load { node, life, shard, epoch });
                }
                Act::Truncated { key, from, to, committed } => {
                    self.say(format_args!(
                        "node {node} cuts {} {from} to {to}, committed {committed}",
                        self.name(key)
                    ));
                    cuts.push((key, Cut { from, to, committed }));
                }
                Act::BeginAnew(key) => self.truth.on_begun_anew(node, key),
                Act::Asks { joiners } => self.ambush(node, &joiners),
                Act::Say(what) => self.say(format_args!("node {node} {what}")),
                Act::Exit { is_clean } => {
                    // What it did in the same step, before it heard that it has to end, is done.
                    for act in acts {
                        if let Act::BeginAnew(key) = act {
                            self.truth.on_begun_anew(node, key);
                        }
                    }
                    self.observe(node, &cuts);
                    self.end(node, is_clean);
                    return Vec::new();
                }
            }
        }
        cuts
    }

    fn name(&self, key: PartitionKey) -> &str {
        self.truth.histories.get(&key).map_or("?", |history| &history.name)
    }

    /// Looks at the replicas that were stepped.
    fn observe(&mut self, node: usize, cuts: &[(PartitionKey, Cut)]) {
        let Some(process) = &self.nodes[node].process else { return };
        let image = self.quorum.image();
        for key in process.outbox.take_touched() {
            let Some(cell) = process.cells.get(&key) else {
                self.truth.replicas.remove(&(key, node));
                continue;
            };
            let after = cell.with(|partition| View::of(partition));
            let known = self.truth.replicas.get(&(key, node));
            let before = known.filter(|known| known.is_up && known.life == process.life).map(|it| it.view);
            if before == Some(after) && cuts.is_empty() {
                continue;
            }
            let cuts: Vec<Cut> = cuts.iter().filter(|(of, _)| *of == key).map(|(_, cut)| *cut).collect();
            let cell_of = |node: usize| self.nodes[node].process.as_ref()?.cells.get(&key).cloned();
            let look = Look {
                node,
                life: process.life,
                key,
                cell,
                disk: &self.nodes[node].disk,
                is_rotten: &|node| rot::is_rotten(&self.rotten, &self.nodes[node].disk, (node, key)),
                before,
                after,
                cuts: &cuts,
                decided: image.partition(key.0, key.1).map(|partition| &**partition),
                cell_of: &cell_of,
            };
            // Of topics that come and go nothing is kept to compare with.
            let is_followed = self.truth.histories.contains_key(&key);
            let has_changed = |before: View| (before.leads, before.epoch) != (after.leads, after.epoch);
            if is_followed && before.is_none_or(has_changed) {
                let role = if after.leads { "leads" } else { "follows in" };
                let name = self.name(key).to_owned();
                self.say(format_args!(
                    "node {node} {role} {name} epoch {}, ends at {}",
                    after.epoch, after.end
                ));
            }
            // Who judges is not struck by what is armed for the others.
            self.nodes.iter().for_each(|node| node.disk.hold_faults(true));
            invariants::look(&look, &mut self.truth, &mut self.found);
            self.nodes.iter().for_each(|node| node.disk.hold_faults(false));
        }
    }
}

/// A request in few words.
fn words_of_request(frame: &[u8]) -> String {
    let Ok((header, _)) = wire::decode_request_header(frame) else { return "?".to_owned() };
    let key = wire::ApiKey::from_i16(header.api_key).map_or("?", wire::ApiKey::name);
    format!("{key} v{} #{}", header.api_version, header.correlation_id)
}

/// The settings of a node.
fn settings(node: usize, dirs: usize, plant: Option<Plant>) -> BrokerSettings {
    let id = super::quorum::broker(node).to_string();
    let dirs: Vec<String> = (0..dirs).map(|number| format!("/data-{number}")).collect();
    let mut given = vec![("node.id", id), ("log.dirs", dirs.join(","))];
    if plant == Some(Plant::UncleanElected) {
        given.push(("unclean.leader.election.enable", "true".to_owned()));
    }
    BrokerSettings::parse(given).expect("these fit")
}
