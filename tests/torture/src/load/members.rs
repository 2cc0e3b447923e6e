//! Members of groups, in processes of their own, that come and go.
//!
//! ```text
//!   a place ── a member ── leaves, or kill -9 ── another ── … ── calm: the last one stays ── over
//!     4 to a group: ours, ours with an instance id, ours, librdkafka; each on a cable of its own
//!     while it lives, it may be stopped, or cut off, for longer than its session
//!   an observer ── asks every half second what each group has committed
//! ```

mod place; // who is a member
mod trouble; // and what is done to it
mod unread;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use client::Admin;
use client::admin::At;

use super::{Shared, join, spawn};
use crate::cluster::{TOPIC, group_name};
use crate::history::{Event, now_ns};
use crate::net::Cable;
use crate::stop::Stop;
use place::Place;

/// How the members of a group come to their partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// The classic protocol; all give back all that they have, whenever one comes or goes.
    Eager,
    /// The classic protocol; they give back only what another gets (KIP-429).
    Cooperative,
    /// The consumer protocol (KIP-848).
    Epochs,
}

/// Groups, and who is in them.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// What each group is like; its number is its place here.
    pub groups: Vec<Style>,
    /// How many members each has.
    pub members: u32,
    /// Whether every fourth is of librdkafka.
    pub librdkafka: bool,
    /// The program that `torture member` is of.
    pub program: PathBuf,
    /// The cable of each place, one group after the other.
    pub cables: Vec<Cable>,
    /// From which it is drawn who comes and goes when.
    pub seed: u64,
}

const ASK_EVERY: Duration = Duration::from_millis(500);
const ASK_MAX: Duration = Duration::from_secs(4);
/// The shortest that brokers allow, unless they are told otherwise.
const SESSION_MS: u32 = 6_000;

impl Style {
    /// Kafka's settings, as both clients have them.
    fn settings(self) -> Vec<(&'static str, String)> {
        let classic = |assignor: &str| {
            vec![
                ("group.protocol", "classic".to_owned()),
                ("partition.assignment.strategy", assignor.to_owned()),
                ("session.timeout.ms", SESSION_MS.to_string()),
                ("heartbeat.interval.ms", "1000".to_owned()),
            ]
        };
        let mut settings = match self {
            Self::Eager => classic("range"),
            Self::Cooperative => classic("cooperative-sticky"),
            Self::Epochs => vec![("group.protocol", "consumer".to_owned())],
        };
        settings.push(("max.poll.interval.ms", "30000".to_owned()));
        settings
    }
}

impl Crowd {
    /// What brokers are to be told for it, by Kafka's names: few partitions keep groups, so that a coordinator
    /// has some, and members of the consumer protocol are missed as early as the others.
    pub fn broker_settings() -> Vec<(String, String)> {
        let session = SESSION_MS.to_string();
        let all = [
            ("offsets.topic.num.partitions", "3"),
            ("group.consumer.min.session.timeout.ms", &session),
            ("group.consumer.session.timeout.ms", &session),
            ("group.consumer.min.heartbeat.interval.ms", "1000"),
            ("group.consumer.heartbeat.interval.ms", "1000"),
        ];
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }
}

/// What the threads of all places share.
#[derive(Clone, Debug)]
struct Common {
    shared: Shared,
    crowd: Crowd,
    /// Nobody comes or goes any more.
    calm: Stop,
    over: Stop,
    told: Arc<Mutex<Told>>,
}

/// What became of members.
#[derive(Debug, Default)]
struct Told {
    /// By member: its group.
    groups: BTreeMap<u32, u32>,
    wrong: Vec<String>,
    notes: Vec<String>,
}

impl Common {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All of them, running.
#[derive(Debug)]
pub(crate) struct Members {
    common: Common,
    admin: Admin,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Members {
    /// Begins. Threads and processes are started from this thread's namespace.
    pub(super) fn begin(shared: Shared, crowd: Crowd) -> Result<Self> {
        let admin = Admin::builder(&shared.bootstrap).request_timeout(Duration::from_secs(2));
        let admin = admin.timeout(ASK_MAX).client_id("torture-observer").build()?;
        let (calm, over, told) = (Stop::default(), Stop::default(), Arc::default());
        let common = Common { shared, crowd, calm, over, told };
        let mut threads = Vec::new();
        for group in 0..common.crowd.groups.len() as u32 {
            for index in 0..common.crowd.members {
                let place = Place::new(common.clone(), group, index)?;
                threads.push(spawn("member", move || place.live())?);
            }
        }
        let (observed, asking) = (common.clone(), admin.clone());
        threads.push(spawn("observer", move || {
            while !observed.over.wait(ASK_EVERY) {
                (0..observed.crowd.groups.len() as u32)
                    .for_each(|group| drop(ask(&observed, &asking, group)));
            }
            Ok(())
        })?);
        Ok(Self { common, admin, threads })
    }

    /// From now on nobody comes or goes, once all places are taken.
    pub(super) fn calm(&self) {
        self.common.calm.set();
    }

    /// Whether each group has read something of each partition since then.
    pub(super) fn have_read_since(&self, at: u64) -> bool {
        let groups = self.common.told().groups.clone();
        let read = self.common.shared.history.look(|lines| unread::read_since(lines, &groups, at));
        read.len() == self.common.crowd.groups.len() * self.common.shared.partitions as usize
    }

    /// What they have not read anything of since then, and who has it, for people.
    pub(super) fn unread_since(&self, at: u64) -> Vec<String> {
        let groups = self.common.told().groups.clone();
        let partitions = self.common.shared.partitions;
        let all = (0..self.common.crowd.groups.len() as u32)
            .flat_map(|group| (0..partitions).map(move |partition| (group, partition)));
        self.common.shared.history.look(|lines| {
            let read = unread::read_since(lines, &groups, at);
            let unread = all.filter(|place| !read.contains(place)).map(|place| {
                let holder = unread::holder(lines, &groups, place, at);
                format!("group {} read nothing of {}: {holder}", place.0, place.1)
            });
            unread.collect()
        })
    }

    /// Waits until all that is written is committed by all groups; how long that took, if it came to be.
    pub(super) fn drain(&self, time_max: Duration) -> Option<Duration> {
        let began = Instant::now();
        let drained = self.common.shared.interrupted.until(time_max, || self.is_drained() == Some(true));
        drained.then(|| began.elapsed())
    }

    fn is_drained(&self) -> Option<bool> {
        let places = (0..self.common.shared.partitions).map(|index| (TOPIC, index, At::Latest));
        let ends = self.admin.list_offsets(places).wait().into_iter();
        let ends: BTreeMap<i32, i64> =
            (0..).zip(ends).map(|(index, end)| Some((index, end.ok()?.offset?.0))).collect::<Option<_>>()?;
        for group in 0..self.common.crowd.groups.len() as u32 {
            let committed = ask(&self.common, &self.admin, group)?;
            if ends.iter().any(|(index, end)| committed.get(index).copied().unwrap_or(0) != *end) {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Asks a last time, and has all of them leave. What was wrong with them, and what is worth knowing.
    pub(super) fn end(mut self) -> Result<(Vec<String>, Vec<String>)> {
        for group in 0..self.common.crowd.groups.len() as u32 {
            let since = now_ns();
            let mut told = None;
            self.common.shared.interrupted.until(ASK_MAX * 5, || {
                told = ask(&self.common, &self.admin, group);
                told.is_some()
            });
            if let Some(told) = told {
                let offsets = told.into_iter().collect();
                self.common.shared.history.push(Event::Told { group, since, offsets, last: true });
            }
        }
        self.common.over.set();
        let joined = join(&mut self.threads);
        let mut told = self.common.told();
        let (wrong, notes) = (std::mem::take(&mut told.wrong), std::mem::take(&mut told.notes));
        joined.map(|()| (wrong, notes))
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        self.common.over.set();
        // Who fails before the end has said why.
        let _ = join(&mut self.threads);
    }
}

/// What a group has committed, by partition; nothing if nobody says. It is written down.
fn ask(common: &Common, admin: &Admin, group: u32) -> Option<BTreeMap<i32, i64>> {
    let since = now_ns();
    let told = admin.list_group_offsets([group_name(group)]).wait().pop()?.ok()?;
    let of_topic = told.into_iter().filter(|(of, _)| of.topic.as_str() == TOPIC);
    let told: BTreeMap<i32, i64> = of_topic.map(|(of, at)| (of.partition.0, at.offset.0)).collect();
    let offsets = told.iter().map(|(partition, at)| (*partition, *at)).collect();
    common.shared.history.push(Event::Told { group, since, offsets, last: false });
    Some(told)
}
