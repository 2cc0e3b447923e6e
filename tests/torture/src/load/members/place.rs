//! A place in a group, which is taken by one member after the other.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use conformance::home;
use e2e::{Chance, wait};
use rustix::process::{Pid, Signal};

use super::trouble::{Trouble, Victim, signal};
use super::{Common, join, spawn};
use crate::cluster::{TOPIC, group_name};
use crate::history::{Away, Event, History, Line};
use crate::net::Cable;

/// How long a member is one, and how long its place is empty then.
const LASTS_MS: std::ops::Range<u64> = 4_000..25_000;
const EMPTY_MAX: Duration = Duration::from_secs(4);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// After it was told to leave; the cluster may be in pieces.
const LEAVE_MAX: Duration = Duration::from_secs(30);
/// One of so many that have an instance id lives on beside its successor, from so long after it.
const REPLACED_ONE_IN: u64 = 4;
const REPLACED_AFTER_MS: std::ops::Range<u64> = 2_000..12_000;
/// Until it hears of that, if its group can be reached.
const HEARD_MAX: Duration = Duration::from_secs(10);

/// A place in a group, and whoever has it.
pub(super) struct Place {
    common: Common,
    group: u32,
    cable: Cable,
    is_foreign: bool,
    instance: Option<String>,
    chance: Chance,
    /// From which its members' troubles are drawn.
    troubles: Chance,
    /// Those that live beside their successors.
    replaced: Vec<JoinHandle<Result<()>>>,
}

/// How a member ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Leaves,
    Killed,
    /// It is stopped, another takes its place and its instance id, and then it goes on.
    Replaced,
}

/// A member, or who takes itself for one.
struct Member {
    who: u32,
    child: Child,
    /// Its lines are taken down.
    said: JoinHandle<Result<()>>,
    /// It was given partitions.
    was_in: Arc<AtomicBool>,
}

impl Place {
    /// One that nobody has taken yet; there is a cable to each.
    pub(super) fn new(common: Common, group: u32, index: u32) -> Result<Self> {
        let is_foreign = common.crowd.librdkafka && index % 4 == 3;
        let instance = (index % 4 == 1).then(|| format!("place-{index}"));
        let cable = common.crowd.cables.get((group * common.crowd.members + index) as usize);
        let cable = cable.context("a place without a cable")?.clone();
        let number = u64::from(group) << 32 | u64::from(index);
        let mut seeds = Chance::new(common.crowd.seed ^ number);
        let (chance, troubles) = (Chance::new(seeds.draw()), Chance::new(seeds.draw()));
        Ok(Self { common, group, cable, is_foreign, instance, chance, troubles, replaced: Vec::new() })
    }

    /// Is taken and left until all is over.
    pub(super) fn live(mut self) -> Result<()> {
        // Whom this thread starts is there, too.
        self.cable.enter()?;
        self.common.calm.wait(self.chance.time(EMPTY_MAX));
        let mut lived = Ok(());
        while lived.is_ok() && !self.common.over.is_set() {
            let lasts = Duration::from_millis(self.chance.pick(LASTS_MS));
            let end = *self.chance.one_of(&[End::Leaves, End::Killed]);
            let trouble = Trouble::draw(&mut self.troubles);
            let is_replaced = self.instance.is_some() && self.troubles.one_in(REPLACED_ONE_IN);
            lived = self.one_life(lasts, if is_replaced { End::Replaced } else { end }, trouble);
            // Who has an instance id may be back before anybody has missed it.
            if self.instance.is_none() || self.chance.one_in(2) {
                self.common.calm.wait(self.chance.time(EMPTY_MAX));
            }
        }
        lived.and(join(&mut self.replaced))
    }

    fn one_life(&mut self, lasts: Duration, end: End, mut trouble: Trouble) -> Result<()> {
        let Common { shared, calm, over, .. } = &self.common.clone();
        let mut member = self.begin()?;
        let Member { who, child, said, was_in } = &mut member;
        let process = Pid::from_child(child);
        let victim = Victim { who: *who, process, cable: &self.cable, history: &shared.history };
        let began = Instant::now();
        let end = loop {
            if shared.interrupted.is_set() {
                break Some(End::Killed);
            }
            if over.wait(LOOK_EVERY) {
                break Some(End::Leaves);
            }
            if said.is_finished() {
                break None;
            }
            if !calm.is_set() && began.elapsed() > lasts {
                // Who goes on without ever having been a member joins as whoever comes last does, and fences its
                // successor, as it should.
                let is_none = end == End::Replaced && !was_in.load(Ordering::Relaxed);
                break Some(if is_none { End::Killed } else { end });
            }
            trouble.keep(&victim, began.elapsed(), calm.is_set())?;
        };
        match end {
            Some(End::Leaves) => trouble.let_leave(&victim)?,
            Some(End::Replaced) => {
                trouble.end(&victim)?;
                return self.replace(member);
            }
            Some(End::Killed) | None => {}
        }
        let by_itself = self.end(child, end)?;
        trouble.survive(&victim)?;
        if let Some(status) = by_itself {
            // Whatever it does next is the next one's.
            calm.wait(Duration::from_millis(500));
            let what = format!("member {who} of group {} ended by itself: {status}", self.group);
            // If the group has lost both meanwhile, the place is whose JoinGroup comes last: it may be the one before.
            let has_rival = self.replaced.iter().any(|rival| !rival.is_finished());
            let told = &mut *self.common.told();
            if self.is_foreign || has_rival { told.notes.push(what) } else { told.wrong.push(what) }
        }
        shared.history.push(Event::Gone { who: *who, killed: end == Some(End::Killed) });
        joined(member.said)
    }

    fn begin(&self) -> Result<Member> {
        let Common { shared, .. } = &self.common;
        let who = shared.reader(if self.is_foreign { "librdkafka, a member" } else { "vltava, a member" });
        shared.history.push(Event::Member { who, group: self.group });
        self.common.told().groups.insert(who, self.group);
        let mut child = self.command(who)?.spawn().context("a member")?;
        let lines = BufReader::new(child.stdout.take().context("its output is a pipe")?);
        let (history, was_in) = (Arc::clone(&shared.history), Arc::new(AtomicBool::new(false)));
        let given = Arc::clone(&was_in);
        let said = spawn("member's lines", move || take_down(&history, lines, &given))?;
        Ok(Member { who, child, said, was_in })
    }

    /// Stops a member, and lets it go on when another may have its place.
    fn replace(&mut self, member: Member) -> Result<()> {
        let Member { who, mut child, said, .. } = member;
        let (common, group) = (self.common.clone(), self.group);
        let lasts = Duration::from_millis(self.troubles.pick(REPLACED_AFTER_MS));
        let history = Arc::clone(&common.shared.history);
        history.push(Event::Away { who, why: Away::Stopped });
        signal(Pid::from_child(&child), Signal::STOP)?;
        self.replaced.push(spawn("replaced", move || {
            common.calm.wait(lasts);
            signal(Pid::from_child(&child), Signal::CONT)?;
            history.push(Event::Back { who });
            let ended = wait::until("it hears that it is none", HEARD_MAX, || Ok(child.try_wait()?));
            if ended.is_err() {
                let what = format!("member {who} of group {group} did not end, though it was replaced");
                common.told().notes.push(what);
                child.kill()?;
                child.wait()?;
            }
            history.push(Event::Gone { who, killed: ended.is_err() });
            joined(said)
        })?);
        Ok(())
    }

    /// Ends a member; what it said if it ended by itself.
    fn end(&self, child: &mut Child, end: Option<End>) -> Result<Option<String>> {
        match end {
            None => return Ok(Some(child.wait()?.to_string())),
            Some(End::Killed | End::Replaced) => {}
            Some(End::Leaves) => {
                drop(child.stdin.take());
                let left = wait::until("a member leaves", LEAVE_MAX, || Ok(child.try_wait()?));
                match left {
                    Ok(status) if status.success() => return Ok(None),
                    Ok(status) => return Ok(Some(status.to_string())),
                    Err(_) if !self.is_foreign => {
                        self.common
                            .told()
                            .wrong
                            .push(format!("a member of group {} did not leave", self.group));
                    }
                    Err(_) => {}
                }
            }
        }
        child.kill()?;
        child.wait()?;
        Ok(None)
    }

    fn command(&self, who: u32) -> Result<Command> {
        let Common { shared, crowd, .. } = &self.common;
        let mut command = if self.is_foreign {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers/member.py");
            let mut command = Command::new(home::installed("python/bin/python")?);
            command.arg(script).args([&shared.bootstrap, &who.to_string(), TOPIC]);
            command
        } else {
            ensure!(crowd.program.exists(), "{} is missing", crowd.program.display());
            let mut command = Command::new(&crowd.program);
            command.args(["member", &shared.bootstrap, &who.to_string()]);
            command
        };
        let mut settings = crowd.groups[self.group as usize].settings();
        settings.push(("group.id", group_name(self.group)));
        settings.extend(self.instance.iter().map(|id| ("group.instance.id", id.clone())));
        command.args(settings.into_iter().map(|(name, value)| format!("{name}={value}")));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(command)
    }
}

fn joined(thread: JoinHandle<Result<()>>) -> Result<()> {
    thread.join().unwrap_or_else(|_| Err(anyhow!("it panicked")))
}

/// Takes down what a member says; what it was saying when it was killed nobody knows.
fn take_down(history: &History, mut from: BufReader<ChildStdout>, was_in: &AtomicBool) -> Result<()> {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
        let said: Line =
            serde_json::from_slice(&line).with_context(|| String::from_utf8_lossy(&line).into_owned())?;
        if matches!(said.event, Event::Assigned { .. }) {
            was_in.store(true, Ordering::Relaxed);
        }
        history.push_line(said);
        line.clear();
    }
    Ok(())
}
