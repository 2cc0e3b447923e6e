//! A run from its first namespace to its last word.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use base::BrokerId;
use client::admin::NewTopic;

use crate::checker::{self, Verdict};
use crate::cluster::{Cluster, Healed, TOPIC, connect, group_name};
use crate::gaps::{self, Blow, Times};
use crate::history::{self, Event, History, now_ns};
use crate::load::{Amount, Load, Of, read_partition};
use crate::machine::Pressure;
use crate::net::Place;
use crate::report::{Done, Groups, Outcome, Report};
use crate::stop::Stop;
use crate::system::{Flush, Launch, System};
use crate::watch::Watch;

/// Java on a busy machine, several times.
const START_MAX: Duration = Duration::from_secs(120);
/// After everything was healed.
const WHOLE_MAX: Duration = Duration::from_secs(120);
/// Until groups read again after that: sessions end, members meet.
const SETTLED_MAX: Duration = Duration::from_secs(60);
/// Until they have committed everything, once nothing is written any more.
const DRAINED_MAX: Duration = Duration::from_secs(60);
/// One broker's answer in the last reads.
const READ_MAX: Duration = Duration::from_secs(20);

/// By which a topic gives up what only those have who cannot be reached.
const UNCLEAN_ELECTION: &str = "unclean.leader.election.enable";

/// What a broker of ours may take.
const RESIDENT_BYTES_MAX: u64 = 1 << 30;
const DESCRIPTORS_MAX: usize = 4096;

/// How a run is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What it is called.
    pub scenario: String,
    /// Its brokers.
    pub launch: Launch,
    /// Its load.
    pub amount: Amount,
    /// The size of each disk.
    pub disk_bytes: u64,
    /// Who has a replica of each partition; empty leaves it to the cluster.
    pub replicas: Vec<i32>,
    /// Whether a replica that may lack what was acknowledged leads when no other can.
    pub unclean: bool,
    /// Where report and history are left; the history only if something is wrong, unless `keep`.
    pub out: Option<PathBuf>,
    /// Leave everything.
    pub keep: bool,
}

/// What a run may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Nothing,
    /// Something, or it proves nothing: data that was never flushed on any replica.
    Loss,
    /// Perhaps something: the only disk there is loses what it was made to keep.
    Anything,
}

/// A run that goes on.
#[derive(Debug)]
pub struct World {
    /// How it was set up.
    pub setup: Setup,
    /// Ctrl-C.
    pub stop: Stop,
    /// What clients saw.
    pub history: Arc<History>,
    /// Who writes and reads.
    pub load: Load,
    /// Its brokers.
    pub cluster: Cluster,
    watch: Watch,
    began: Instant,
    pressure: Pressure,
    done: Vec<Done>,
    blows: Vec<Blow>,
    /// How long somebody waited for a command, by what was done before.
    waits: BTreeMap<&'static str, Vec<Option<u64>>>,
    /// The same to coordinators, of groups.
    group_blows: Vec<Blow>,
    findings: Vec<String>,
    notes: Vec<String>,
}

impl World {
    /// Starts the brokers and makes the topic. From here on this thread is among the clients.
    pub fn start(setup: Setup, stop: Stop) -> Result<Self> {
        let began = Instant::now();
        let cluster = Cluster::start(setup.launch.clone(), setup.disk_bytes)?;
        Self::with_cluster(setup, stop, cluster, began)
    }

    /// The same on brokers that were started before.
    pub fn with_cluster(setup: Setup, stop: Stop, cluster: Cluster, began: Instant) -> Result<Self> {
        let history = Arc::new(History::create(&cluster.lab.folder().join("history.jsonl"))?);
        cluster.create_topic(topic(&setup), START_MAX, &stop)?;
        cluster.wait_until_whole(START_MAX, &stop).with_context(|| cluster.logs())?;
        let partitions = setup.amount.partitions;
        let load = Load::new(cluster.bootstrap(), Arc::clone(&history), partitions, stop.clone());
        let watch = Watch::begin(cluster.nodes().iter().map(|node| (node.id, node.pid())).collect())?;
        let (done, blows, waits, group_blows, findings, notes) = Default::default();
        let mut world = Self {
            setup,
            stop,
            history,
            load,
            cluster,
            watch,
            began,
            pressure: Pressure::now(),
            done,
            blows,
            waits,
            group_blows,
            findings,
            notes,
        };
        world.did("the cluster is up");
        if world.setup.unclean {
            world.note(format!("the topic has {UNCLEAN_ELECTION}=true"));
        }
        Ok(world)
    }

    /// Does something to the cluster, and comes to an end whatever became of it.
    pub fn play(mut self, expect: Expect, act: impl FnOnce(&mut Self) -> Result<()>) -> Result<Report> {
        if let Err(why) = act(&mut self) {
            self.stop.check()?;
            self.found(format!("{why:#}\n{}", self.cluster.logs()));
        }
        self.finish(expect)
    }

    /// Writes down what was done.
    pub fn did(&mut self, what: impl Into<String>) {
        let what = what.into();
        let at_ms = self.began.elapsed().as_millis() as u64;
        println!("  {:>8.1} s  {what}", at_ms as f64 / 1000.0);
        self.history.push(Event::Fault { what: what.clone() });
        self.done.push(Done { at_ms, what });
    }

    /// Writes down what is wrong.
    pub fn found(&mut self, what: impl Into<String>) {
        let what = what.into();
        println!("            wrong: {what}");
        self.findings.push(what);
    }

    /// Writes down what is worth knowing.
    pub fn note(&mut self, what: impl Into<String>) {
        self.notes.push(what.into());
    }

    /// Remembers that something was done at that time to the leaders of these partitions.
    pub fn blow(&mut self, kind: &'static str, at: u64, partitions: Vec<i32>) {
        self.blows.push(Blow { kind, at, until: at, partitions });
    }

    /// Notes something that was done since a time and is over now, and what it may have silenced.
    pub fn blow_since(&mut self, kind: &'static str, at: u64, partitions: Vec<i32>) {
        self.blows.push(Blow { kind, at, until: now_ns(), partitions });
    }

    /// Remembers for how many nanoseconds somebody waited for a command after something was done; `None` if in vain.
    pub fn waited(&mut self, kind: &'static str, ns: Option<u64>) {
        self.waits.entry(kind).or_default().push(ns);
    }

    /// The same, of something that was done to a coordinator of groups since a time.
    pub fn group_blow(&mut self, kind: &'static str, at: u64, groups: &[u32]) {
        if !groups.is_empty() {
            let partitions = groups.iter().map(|group| *group as i32).collect();
            self.group_blows.push(Blow { kind, at, until: now_ns(), partitions });
        }
    }

    /// Each group with its coordinator, as far as somebody says.
    pub fn coordinated(&self) -> Vec<(u32, i32)> {
        let groups = self.setup.amount.crowd.as_ref().map_or(0, |crowd| crowd.groups.len() as u32);
        let of = |group| Some((group, self.cluster.coordinator(&group_name(group))?));
        (0..groups).filter_map(of).collect()
    }

    /// What a node leads.
    pub fn led_by(&self, nodes: &[i32]) -> Vec<i32> {
        let all = self.cluster.partitions().unwrap_or_default();
        let led = all.iter().filter(|one| one.leader.is_some_and(|leader| nodes.contains(&leader.0)));
        led.map(|one| one.index.0).collect()
    }

    /// How many values were acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.history.look(|lines| {
            let counts = lines.iter().map(|line| match &line.event {
                Event::Ok { sent, .. } => u64::from(sent.count),
                _ => 0,
            });
            counts.sum()
        })
    }

    /// How many partitions acknowledged something since then.
    pub fn acknowledged_since(&self, at: u64) -> i32 {
        self.history.look(|lines| {
            let partitions =
                lines.iter().rev().take_while(|line| line.at > at).filter_map(|line| match line.event {
                    Event::Ok { sent, .. } => Some(sent.partition),
                    _ => None,
                });
            partitions.collect::<BTreeSet<_>>().len() as i32
        })
    }

    /// Lets the load go on until so many more values were acknowledged.
    pub fn wait_for_acknowledged(&mut self, more: u64, time_max: Duration) -> Result<()> {
        let before = self.acknowledged();
        let came = self.stop.clone().until(time_max, || self.acknowledged() >= before + more);
        self.stop.check()?;
        if !came {
            let came = self.acknowledged() - before;
            self.found(format!("{came} of {more} records were acknowledged in {} s", time_max.as_secs()));
        }
        Ok(())
    }

    /// Looks for brokers that ended by themselves; those that had no reason are a finding. Starts them.
    pub fn look_for_dead(&mut self) -> Result<()> {
        for index in 0..self.cluster.nodes().len() {
            let node = &mut self.cluster.nodes_mut()[index];
            let (id, may_end) = (node.id, node.may_end);
            let Some(status) = node.ended()? else { continue };
            if may_end {
                self.did(format!("b{id} ended by itself: {status}"));
            } else {
                self.found(format!("b{id} ended by itself: {status}\n{}", self.cluster.logs()));
                self.cluster.start_node(id)?;
            }
        }
        Ok(())
    }

    /// Waits until the cluster is whole, and looks who lives meanwhile.
    pub fn wait_until_whole(&mut self, time_max: Duration) -> Result<Healed> {
        const LOOK_EVERY: Duration = Duration::from_secs(5);
        let began = Instant::now();
        loop {
            self.look_for_dead()?;
            match self.cluster.wait_until_whole(LOOK_EVERY, &self.stop) {
                Err(why) if began.elapsed() > time_max => return Err(why),
                Err(_) => self.stop.check()?,
                whole => return whole,
            }
        }
    }

    /// Heals everything, waits for the cluster, ends the load, reads everything, and says what it was.
    fn finish(mut self, expect: Expect) -> Result<Report> {
        self.look_for_dead()?;
        self.load.calm();
        self.cluster.heal()?;
        self.did("everything is healed");
        let healed_at = now_ns();
        let healed = match self.cluster.wait_until_whole(WHOLE_MAX, &self.stop) {
            Ok(healed) => Some(healed),
            Err(why) => {
                self.stop.check()?;
                self.found(format!("{why:#}\n{}", self.cluster.logs()));
                None
            }
        };
        let settled = self.settle_groups(healed_at);
        self.stop.wait(Duration::from_secs(2));
        if let Err(why) = self.load.end_writing() {
            self.found(format!("the load: {why:#}"));
        }
        let groups = self.end_groups(settled);
        if let Err(why) = self.load.end() {
            self.found(format!("the load: {why:#}"));
        }
        self.look_for_dead()?;
        self.did("reading everything");
        if let Err(why) = self.read_finally() {
            self.found(format!("the last reads: {why:#}\n{}", self.cluster.logs()));
        }
        self.history.flush()?;
        let verdict = self.history.look(checker::check);
        self.conclude(expect, (healed, groups), &verdict)
    }

    /// Waits until groups read again, and says how long that took since then.
    fn settle_groups(&mut self, since: u64) -> Option<u64> {
        self.setup.amount.crowd.as_ref()?;
        if !self.stop.until(SETTLED_MAX, || self.load.have_read_since(since)) {
            let seconds = SETTLED_MAX.as_secs();
            let unread = self.load.unread_since(since).join("; ");
            self.found(format!("groups did not read of all partitions within {seconds} s: {unread}"));
            return None;
        }
        let ms = history::since(since, now_ns()).as_millis() as u64;
        self.did("groups read again");
        Some(ms)
    }

    /// Lets groups commit what there is, and has them leave.
    fn end_groups(&mut self, settled_ms: Option<u64>) -> Option<Groups> {
        self.setup.amount.crowd.as_ref()?;
        match self.load.end_groups(DRAINED_MAX) {
            Ok(end) => {
                end.wrong.into_iter().for_each(|wrong| self.found(wrong));
                end.notes.into_iter().for_each(|note| self.note(note));
                let drained_ms = end.drained.map(|time| time.as_millis() as u64);
                let silences = self.history.look(|lines| gaps::of_groups(lines, &self.group_blows));
                Some(Groups { settled_ms, drained_ms, silences })
            }
            Err(why) => {
                self.found(format!("the members: {why:#}"));
                None
            }
        }
    }

    /// Followers first: what the leader has counts.
    fn read_finally(&mut self) -> Result<()> {
        let partitions = self.cluster.partitions()?;
        for partition in &partitions {
            let followers = partition.replicas.iter().filter(|id| Some(**id) != partition.leader);
            for follower in followers {
                let read = self.read_one(partition.index.0, *follower, Of::Follower);
                match read {
                    Ok(Some(_)) => {}
                    Ok(None) => {
                        self.note(format!("b{follower} gives consumers nothing of {}", partition.index))
                    }
                    Err(why) => self.found(format!("b{follower} as a follower: {why:#}")),
                }
            }
        }
        let ends = self.cluster.ends(self.setup.amount.partitions)?;
        for (partition, end) in partitions.iter().zip(ends) {
            let leader = partition.leader.with_context(|| format!("{} has no leader", partition.index))?;
            self.read_one(partition.index.0, leader, Of::Leader(end))?;
        }
        Ok(())
    }

    fn read_one(&self, partition: i32, from: BrokerId, of: Of) -> Result<Option<u64>> {
        let shared = self.load.shared();
        let who = shared.reader(&format!("{of:?} b{from}"));
        let mut connection = connect(Place::Node(from.0), READ_MAX)?;
        read_partition(shared, &mut connection, partition, of, who)
    }

    fn conclude(
        mut self,
        expect: Expect,
        (healed, groups): (Option<Healed>, Option<Groups>),
        verdict: &Verdict,
    ) -> Result<Report> {
        self.look_at_nodes();
        let launch = &self.setup.launch;
        let mut report = Report {
            scenario: self.setup.scenario.clone(),
            system: launch.system.name(),
            nodes: launch.nodes,
            flush: if launch.flush == Flush::Ack { "ack" } else { "os" },
            seed: self.setup.amount.seed,
            seconds: self.began.elapsed().as_secs_f64(),
            outcome: Outcome::Passed,
            done: std::mem::take(&mut self.done),
            counts: verdict.counts.clone(),
            anomalies: BTreeMap::new(),
            findings: std::mem::take(&mut self.findings),
            notes: std::mem::take(&mut self.notes),
            failovers: self.failovers(),
            groups,
            healed,
            most: self.watch.most(),
            busy: self.pressure.since(self.watch.late_ms_max()),
        };
        report.take(verdict);
        report.outcome = outcome(expect, verdict, &report);
        self.leave(&report)?;
        Ok(report)
    }

    /// The times of everything that was to come back.
    fn failovers(&self) -> BTreeMap<&'static str, Times> {
        let mut times = self.history.look(|lines| gaps::times(lines, &self.blows));
        times.extend(self.waits.iter().map(|(kind, waits)| (*kind, gaps::summed(waits))));
        times
    }

    fn look_at_nodes(&mut self) {
        if self.setup.launch.system == System::Kafka {
            return;
        }
        for most in self.watch.most() {
            if most.resident_bytes > RESIDENT_BYTES_MAX || most.descriptors > DESCRIPTORS_MAX {
                let (mib, files) = (most.resident_bytes >> 20, most.descriptors);
                self.found(format!("b{} took {mib} MiB and {files} descriptors", most.node));
            }
        }
        let panics = self.cluster.nodes().iter().flat_map(|node| {
            node.panics().into_iter().map(|line| format!("b{}: {line}", node.id)).collect::<Vec<_>>()
        });
        for line in panics.collect::<Vec<_>>() {
            self.found(line);
        }
    }

    /// Leaves the report where it was asked for, and the history and logs if something is wrong.
    fn leave(&mut self, report: &Report) -> Result<()> {
        report.write(&self.cluster.lab.folder().join("report.json"))?;
        if let Some(out) = &self.setup.out {
            fs::create_dir_all(out)?;
            report.write(&out.join("report.json"))?;
        }
        if report.outcome != Outcome::Failed && !self.setup.keep {
            return Ok(());
        }
        let logs = self.cluster.nodes().iter().map(|node| format!("b{}.log", node.id));
        let names: Vec<_> = logs.chain(["history.jsonl".to_owned(), "report.json".to_owned()]).collect();
        let kept = self.cluster.lab.keep(&names, self.setup.out.as_deref())?;
        println!("\nhistory, report and logs are in {}", kept.display());
        Ok(())
    }
}

fn topic(setup: &Setup) -> NewTopic {
    let replicas = setup.launch.nodes.min(3);
    let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    // Small segments are rolled under faults too.
    let mut configs: Vec<_> = [("retention.ms", "-1"), ("segment.bytes", "4194304")].map(own).into();
    configs.push(own(("min.insync.replicas", if replicas >= 3 { "2" } else { "1" })));
    configs.extend(setup.unclean.then(|| own((UNCLEAN_ELECTION, "true"))));
    configs.extend(setup.launch.system.topic_settings(setup.launch.flush));
    let partitions = setup.amount.partitions;
    if setup.replicas.is_empty() {
        let replication_factor = Some(replicas as i16);
        return NewTopic {
            partitions: Some(partitions),
            replication_factor,
            configs,
            ..NewTopic::named(TOPIC)
        };
    }
    let brokers: Vec<BrokerId> = setup.replicas.iter().copied().map(BrokerId).collect();
    let assignments = vec![brokers; partitions as usize];
    NewTopic { assignments, configs, ..NewTopic::named(TOPIC) }
}

/// What comes of data that was acknowledged and is gone everywhere: readers had seen it, and other values
/// have its offsets.
const COMES_OF_LOSS: &[&str] =
    &["lost", "vanished", "inconsistent", "refused", "duplicate", "reordered", "out of sequence"];

fn outcome(expect: Expect, verdict: &Verdict, report: &Report) -> Outcome {
    let wrong = match expect {
        Expect::Nothing => !verdict.found.is_empty(),
        Expect::Loss | Expect::Anything => !verdict.found.without(COMES_OF_LOSS).is_empty(),
    };
    // Who saw no record acknowledged has proved nothing either.
    let proved =
        verdict.counts.acknowledged > 0 && (expect != Expect::Loss || verdict.found.count("lost") > 0);
    let proved = proved && (report.groups.is_none() || verdict.counts.groups.commits > 0);
    match (wrong || !report.findings.is_empty(), proved) {
        (true, _) => Outcome::Failed,
        (false, true) => Outcome::Passed,
        (false, false) => Outcome::Invalid,
    }
}
