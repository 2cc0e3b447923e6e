//! Follows the metadata without a vote: asks the leader of the quorum for what comes next, or another voter
//! while nobody leads.

use std::time::{Duration, Instant};

use base::BrokerId;
use metadata::settings::BrokerSettings;
use net::Stop;
use quorum::{Next, ObserveError, Observer, Voter};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tracing::{debug, info};
use wire::cluster::ClusterRequest;

use super::joining;
use super::link::Source;
use super::links::Links;

/// How long a voter may wait for something to tell.
const READ_WAIT_MAX: Duration = Duration::from_millis(500);

/// How long after all were asked in vain they are asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// How often it is said that nobody answers.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// What it takes to follow.
pub(super) struct Following<'a> {
    pub(super) me: BrokerId,
    pub(super) settings: &'a BrokerSettings,
    pub(super) links: &'a Links,
    /// Where messages to other nodes are carried.
    pub(super) cluster: &'a Handle,
    /// Rings when a leader takes this node for a member.
    pub(super) called: &'a Notify,
    pub(super) stop: Stop,
    /// Is told who votes.
    pub(super) note_voters: &'a dyn Fn(Vec<Voter>),
}

/// Why this node is no more what it was.
pub(super) enum Ended {
    /// It is the other thing now: a member where it followed, one who follows where it was a member.
    Changed,
    /// The node stops.
    Stopped,
    /// It cannot go on.
    Failed(String),
}

/// Whom to ask.
#[derive(Default)]
struct Choice {
    /// Those of `cluster.join`, and whom they named.
    bootstrap: Vec<Voter>,
    /// How many may be asked.
    candidates: usize,
    at: usize,
    /// How many were asked in vain, one after the other.
    failures: usize,
    said_at: Option<Instant>,
}

/// What came of a question.
enum Asked {
    Answered(Vec<u8>),
    Nobody(String),
    Ended(Ended),
}

/// Follows until this node is called to be a member, or stops.
pub(super) fn run(with: &Following<'_>, mut observer: Observer) -> Ended {
    let mut choice = Choice::default();
    loop {
        (with.note_voters)(observer.voters());
        let asked = match choice.next(&observer, with) {
            Some(to) => ask(with, &observer, &to),
            None => Asked::Nobody("no node is known that votes".to_owned()),
        };
        let why = match asked {
            Asked::Ended(ended) => {
                if let Err(stopped) = observer.close() {
                    return Ended::Failed(stopped.to_string());
                }
                return ended;
            }
            Asked::Answered(answer) => match observer.on_answer(&answer) {
                Ok(next) => {
                    choice.failures = 0;
                    if next == Next::CaughtUp && observer.leader().is_none() {
                        // Another may know who leads.
                        choice.at = choice.at.wrapping_add(1);
                    }
                    continue;
                }
                Err(ObserveError::Stopped(stopped)) => return Ended::Failed(stopped.to_string()),
                Err(why) => why.to_string(),
            },
            Asked::Nobody(why) => why,
        };
        if let Some(ended) = choice.failed(with, &why) {
            return match observer.close() {
                Ok(()) => ended,
                Err(stopped) => Ended::Failed(stopped.to_string()),
            };
        }
    }
}

fn ask(with: &Following<'_>, observer: &Observer, to: &Voter) -> Asked {
    let patience = with.settings.quorum_fetch_timeout;
    let wait = READ_WAIT_MAX.min(patience / 2);
    let request = match observer.next_request(to, wait) {
        Ok(request) => request,
        Err(why) => return Asked::Nobody(why.to_string()),
    };
    let link = with.links.to(to.id, Source::Quorum, &to.address);
    until_called(with, async {
        match link.ask(ClusterRequest::Quorum(&request), patience).await {
            Ok(answer) => Asked::Answered(answer),
            Err(why) => Asked::Nobody(why.to_string()),
        }
    })
}

/// Waits for something, unless this node is called or stops before.
fn until_called(with: &Following<'_>, what: impl Future<Output = Asked>) -> Asked {
    let mut stop = with.stop.clone();
    with.cluster.block_on(async {
        tokio::select! {
            biased;
            () = stop.stopped() => Asked::Ended(Ended::Stopped),
            () = with.called.notified() => Asked::Ended(Ended::Changed),
            asked = what => asked,
        }
    })
}

impl Choice {
    fn next(&mut self, observer: &Observer, with: &Following<'_>) -> Option<Voter> {
        let mut all = observer.voters();
        let more = self.bootstrap.iter().filter(|voter| !all.iter().any(|known| known.id == voter.id));
        let more: Vec<Voter> = more.cloned().collect();
        all.extend(more);
        all.retain(|voter| voter.id != with.me);
        self.candidates = all.len();
        let leader = observer.leader().filter(|_| self.failures == 0);
        let leading = leader.and_then(|leader| all.iter().find(|voter| voter.id == leader));
        leading.or_else(|| all.get(self.at % all.len().max(1))).cloned()
    }

    /// One was asked in vain; another is next, after a while if all were.
    fn failed(&mut self, with: &Following<'_>, why: &str) -> Option<Ended> {
        debug!(why, "a voter was asked for the metadata in vain");
        self.at = self.at.wrapping_add(1);
        self.failures += 1;
        if self.said_at.is_none_or(|at| at.elapsed() >= SAY_EVERY) && self.failures > 3 {
            self.said_at = Some(Instant::now());
            info!(why, "nobody can be asked for the metadata for now");
        }
        if !self.failures.is_multiple_of(self.candidates.max(1)) {
            return None;
        }
        let (identity, addresses) = (&with.links.identity, &with.settings.cluster_join);
        let mut found = Vec::new();
        let waited = until_called(with, async {
            if !addresses.is_empty() {
                found = joining::voters(identity, addresses).await;
            }
            tokio::time::sleep(ASK_AGAIN_AFTER).await;
            Asked::Nobody(String::new())
        });
        for voter in &found {
            with.links.to(voter.id, Source::Told, &voter.address);
        }
        self.bootstrap = found;
        match waited {
            Asked::Ended(ended) => Some(ended),
            Asked::Answered(_) | Asked::Nobody(_) => None,
        }
    }
}
