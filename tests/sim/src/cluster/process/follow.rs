//! Asks the leaders of the partitions that follow, one connection a leader and lane.

use std::time::Duration;

use base::{BrokerId, Now};
use broker::replication::{Fetcher, Hurry, LeaderAnswer, Next};
use replica::{FollowError, FollowerFetch, FollowerId, FromLeader, Lane, NextFetch};

use super::{Act, PartitionKey, Process};
use crate::cluster::net::{ConnId, Place, Purpose};
use crate::cluster::plant::Plant;
use crate::cluster::quorum::node_of;

/// A leader that is asked, and the lane.
pub(crate) type Whom = (BrokerId, Lane);

/// What is asked of one leader in one lane.
pub(crate) struct Follow {
    fetcher: Fetcher,
    conn: Option<ConnId>,
    is_open: bool,
    /// The request on its way, and since when.
    asked: Option<(i32, Duration)>,
    next: i32,
    retry_at: Duration,
    /// Until when disks that are behind are waited for.
    behind_until: Duration,
    hurry: Hurry,
}

/// How long disks that are behind are waited for before the rest is asked for without them.
const BEHIND_MAX: Duration = Duration::from_millis(100);

impl Process {
    /// What to ask for of a partition may be something else.
    pub(super) fn follow_on(&mut self, now: Now, key: PartitionKey) {
        let Some(epoch) = self.epoch else { return };
        let (next, lane) = self.next_fetch(key);
        let whom = next.leader().map(|leader| (leader, lane));
        if let Some(before) = self.followed.get(&key).copied()
            && Some(before) != whom
        {
            self.unfollow(key);
        }
        let Some(whom) = whom else { return };
        let is_new = self.followed.insert(key, whom) != Some(whom);
        let (me, limits) = (FollowerId { broker: self.id, epoch }, self.times.fetcher);
        let follow = self.follows.entry(whom).or_insert_with(|| Follow {
            fetcher: Fetcher::new(me, limits),
            conn: None,
            is_open: false,
            asked: None,
            next: 0,
            retry_at: Duration::ZERO,
            behind_until: Duration::ZERO,
            hurry: Hurry::default(),
        });
        if is_new && follow.asked.is_some() {
            follow.hurry.on_news(now.elapsed);
        }
        follow.fetcher.set(key, next);
    }

    pub(super) fn unfollow(&mut self, key: PartitionKey) {
        if let Some(whom) = self.followed.remove(&key)
            && let Some(follow) = self.follows.get_mut(&whom)
        {
            follow.fetcher.set(key, NextFetch::Nothing);
        }
    }

    /// What to ask for of a partition, the planted bugs included, and in which lane.
    fn next_fetch(&self, key: PartitionKey) -> (NextFetch, Lane) {
        let Some(cell) = self.cells.get(&key) else { return (NextFetch::Nothing, Lane::KeepingUp) };
        let (next, lane) = cell.with(|partition| (partition.next_fetch(), partition.lane()));
        let next = match (next, self.plant) {
            (NextFetch::Ask(fetch), Some(Plant::EpochsUncompared)) => {
                NextFetch::Ask(FollowerFetch { last_epoch: base::LeaderEpoch::NONE, ..fetch })
            }
            (next, _) => next,
        };
        (next, lane)
    }

    /// Asks whoever has answered, and connects to whoever is to be asked.
    pub(super) fn follow(&mut self, now: Now) {
        let all: Vec<Whom> = self.follows.keys().copied().collect();
        for whom in all {
            let follow = self.follows.get_mut(&whom).expect("it was listed");
            let rests = follow.fetcher.due_at().is_none_or(|at| at > now.elapsed);
            let waits = follow.fetcher.is_behind() && now.elapsed < follow.behind_until;
            if follow.asked.is_some() || rests || waits {
                continue;
            }
            match follow.conn {
                None if now.elapsed >= follow.retry_at => {
                    let conn = self.new_conn();
                    self.follows.get_mut(&whom).expect("it was listed").conn = Some(conn);
                    let to = Place::Node(node_of(whom.0));
                    self.acts.push_back(Act::Connect { conn, to, purpose: Purpose::Records });
                }
                Some(conn) if follow.is_open => {
                    follow.next += 1;
                    let correlation_id = follow.next;
                    let request = follow.fetcher.request(now, correlation_id).expect("it is small");
                    if let Some(frame) = request {
                        follow.asked = Some((correlation_id, now.elapsed));
                        self.acts.push_back(Act::Send { conn, frame: frame.bytes[4..].to_vec() });
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn leader_on(&self, conn: ConnId) -> Option<Whom> {
        let mut follows = self.follows.iter();
        follows.find(|(_, follow)| follow.conn == Some(conn)).map(|(whom, _)| *whom)
    }

    pub(super) fn on_leader_open(&mut self, now: Now, whom: Whom) {
        if let Some(follow) = self.follows.get_mut(&whom) {
            follow.is_open = true;
            follow.behind_until = now.elapsed + BEHIND_MAX;
        }
    }

    pub(super) fn on_leader_lost(&mut self, now: Now, whom: Whom) {
        let retry_at = now.elapsed + self.times.retry_after;
        if let Some(follow) = self.follows.get_mut(&whom) {
            follow.fetcher.on_disconnected();
            follow.hurry.on_disconnected();
            (follow.conn, follow.is_open, follow.asked, follow.retry_at) = (None, false, None, retry_at);
        }
    }

    /// A leader answered.
    pub(super) fn on_leader_frame(&mut self, now: Now, whom: Whom, frame: &[u8]) {
        let (leader, lane) = whom;
        let mut changed = Vec::new();
        let Some(mut follow) = self.follows.remove(&whom) else { return };
        let Some((correlation_id, _)) = follow.asked.take() else { return };
        follow.hurry.on_answer();
        let answered = follow.fetcher.on_answer(now, correlation_id, frame, &mut |key, answer| {
            let is_refused = matches!(answer, LeaderAnswer::Refused(_));
            let done = self.take_in(now, key, &answer);
            if let Err(why) = &done {
                self.say(format!("{key:?} cannot follow: {why}"));
            }
            let (next, now_in) = self.next_fetch(key);
            if now_in != lane {
                changed.push(key);
            }
            let fetch = if now_in == lane { next.of(leader) } else { NextFetch::Nothing };
            Next { fetch, has_failed: done.is_err() || is_refused, rests_until: None }
        });
        follow.behind_until = now.elapsed + BEHIND_MAX;
        self.follows.insert(whom, follow);
        changed.into_iter().for_each(|key| self.follow_on(now, key));
        if let Err(why) = answered {
            self.say(format!("asks broker {leader} anew: {why}"));
            self.lose_leader(now, whom);
        }
    }

    fn take_in(&mut self, now: Now, key: PartitionKey, answer: &LeaderAnswer<'_>) -> Result<(), FollowError> {
        let Some(cell) = self.cells.get(&key).cloned() else { return Ok(()) };
        match answer {
            LeaderAnswer::Fetched(said) => {
                let said = self.mishear(&cell, *said);
                cell.act(|partition, out| partition.on_fetched(now, &said, out))?;
            }
            LeaderAnswer::OutOfRange { epoch, start, end } => {
                cell.act(|partition, out| partition.on_out_of_range(*epoch, (*start, *end), out))?;
            }
            LeaderAnswer::Refused(_) => {}
        }
        Ok(())
    }

    /// Planted bugs: what a follower makes of what it is told.
    fn mishear<'a>(&self, cell: &super::cell::Cell, said: FromLeader<'a>) -> FromLeader<'a> {
        match self.plant {
            Some(Plant::CutToCommitted) if said.diverging.is_some() => {
                let committed = cell.with(|partition| partition.high_watermark());
                let diverging = said.diverging.map(|(epoch, _)| (epoch, committed));
                FromLeader { diverging, ..said }
            }
            Some(Plant::AllIsCommitted) => FromLeader { high_watermark: base::Offset(i64::MAX), ..said },
            _ => said,
        }
    }

    fn lose_leader(&mut self, now: Now, whom: Whom) {
        if let Some(conn) = self.follows.get(&whom).and_then(|follow| follow.conn) {
            self.acts.push_back(Act::Close(conn));
        }
        self.on_leader_lost(now, whom);
    }

    /// Gives up waiting for leaders that do not answer.
    pub(super) fn look_at_late_leaders(&mut self, now: Now) {
        let patience = self.times.patience + self.times.fetcher.wait_max;
        let is_late =
            |follow: &Follow| follow.asked.is_some_and(|(_, since)| since + patience <= now.elapsed);
        let late = self.follows.iter().filter(|(_, follow)| is_late(follow));
        let late: Vec<Whom> = late.map(|(whom, _)| *whom).collect();
        late.into_iter().for_each(|whom| self.lose_leader(now, whom));
    }

    /// Asks those anew whose question is in the way of a partition that came later.
    pub(super) fn hurry(&mut self, now: Now) {
        let is_due = |follow: &Follow| follow.hurry.due_at().is_some_and(|at| at <= now.elapsed);
        let due: Vec<Whom> =
            self.follows.iter().filter(|(_, follow)| is_due(follow)).map(|(whom, _)| *whom).collect();
        for whom in due {
            self.lose_leader(now, whom);
            let follow = self.follows.get_mut(&whom).expect("it was listed");
            follow.hurry.on_given_up(now.elapsed);
            follow.retry_at = now.elapsed;
        }
    }

    pub(super) fn follow_deadline(&self) -> Option<Duration> {
        let patience = self.times.patience + self.times.fetcher.wait_max;
        let of = |follow: &Follow| match (follow.asked, follow.conn) {
            (Some((_, since)), _) => {
                let late_at = since + patience;
                Some(follow.hurry.due_at().map_or(late_at, |at| at.min(late_at)))
            }
            (None, Some(_)) if !follow.is_open => None,
            (None, conn) => {
                let retry_at = if conn.is_none() { follow.retry_at } else { Duration::ZERO };
                let wait = if follow.fetcher.is_behind() { follow.behind_until } else { Duration::ZERO };
                follow.fetcher.due_at().map(|at| at.max(retry_at).max(wait))
            }
        };
        self.follows.values().filter_map(of).min()
    }
}
