//! Connections that others made: their requests, and answers in their order.

use std::collections::VecDeque;
use std::time::Duration;

use base::{Now, Offset};
use broker::call::{Answer, Finish, Outcome, ParkedRequest, Peer, Session};
use broker::session::Dispatched;
use controller::{ControllerError, Reply};
use storage::disk::DiskError;

use super::command::Asker;
use super::{Act, Process};
use crate::cluster::net::{ConnId, Place, Purpose};
use crate::cluster::plant::{alter_request, answer_blindly};
use crate::cluster::quorum::broker;

/// A connection that another made.
pub(crate) struct Incoming {
    purpose: Purpose,
    session: Session,
    unread: VecDeque<Vec<u8>>,
    queue: VecDeque<Waiting>,
}

/// A request that is not answered yet.
enum Waiting {
    Answer(Answer),
    Parked(ParkedRequest),
    Submitted { decision: Option<(Result<Reply, ControllerError>, Offset)>, finish: Finish },
    Close,
}

impl Process {
    /// Somebody has connected.
    pub(crate) fn on_accepted(&mut self, conn: ConnId, purpose: Purpose) {
        let peer = match conn.owner {
            Place::Node(node) => Peer::Node(broker(node)),
            Place::Client(_) => Peer::Client,
        };
        let session = self.session(conn, peer);
        let (unread, queue) = (VecDeque::new(), VecDeque::new());
        self.incoming.insert(conn, Incoming { purpose, session, unread, queue });
    }

    /// A connection that this process asked for stands.
    pub(crate) fn on_connected(&mut self, now: Now, conn: ConnId) {
        if self.is_control_link(conn) {
            self.on_control_open(conn);
        } else if let Some(whom) = self.leader_on(conn) {
            self.on_leader_open(now, whom);
        }
        self.settle(now);
    }

    /// A connection is no more, or could not be made.
    pub(crate) fn on_closed(&mut self, now: Now, conn: ConnId) {
        if let Some(mut incoming) = self.incoming.remove(&conn) {
            self.waiters.remove(&incoming.session.waiter.id);
            for waiting in incoming.queue.drain(..) {
                if let Waiting::Parked(parked) = waiting {
                    parked.abandon(self.context(now), &incoming.session);
                }
            }
            incoming.session.on_closed(&self.context(now), true);
        } else if self.is_control_link(conn) {
            self.drop_control_link(now);
        } else if let Some(whom) = self.leader_on(conn) {
            self.on_leader_lost(now, whom);
        }
        self.settle(now);
    }

    /// A frame came, without its size.
    pub(crate) fn on_frame(&mut self, now: Now, conn: ConnId, frame: Vec<u8>) {
        if let Some(incoming) = self.incoming.get_mut(&conn) {
            if incoming.purpose == Purpose::Control {
                self.on_remote_command(now, conn, &frame);
            } else {
                incoming.unread.push_back(frame);
                self.read_on(now, conn);
            }
        } else if self.is_control_link(conn) {
            self.on_control_frame(&frame);
        } else if let Some(whom) = self.leader_on(conn) {
            self.on_leader_frame(now, whom, &frame);
        }
        self.settle(now);
    }

    /// Takes in what may be taken in: nothing overtakes a command, whose end it may have to see.
    fn read_on(&mut self, now: Now, conn: ConnId) {
        loop {
            let Some(incoming) = self.incoming.get_mut(&conn) else { return };
            if matches!(incoming.queue.back(), Some(Waiting::Submitted { .. } | Waiting::Close)) {
                return;
            }
            let Some(frame) = incoming.unread.pop_front() else { return };
            self.take(now, conn, &frame);
            self.answer(now, conn, false);
        }
    }

    fn take(&mut self, now: Now, conn: ConnId, frame: &[u8]) {
        let Some(mut incoming) = self.incoming.remove(&conn) else { return };
        let mut scratch = std::mem::take(&mut self.scratch);
        let frame = alter_request(self.plant, incoming.purpose, frame);
        let frame = self.heard.alter(self.plant, incoming.purpose, frame);
        if let Some(answer) = answer_blindly(self.plant, &frame) {
            incoming.queue.push_back(Waiting::Answer(answer));
            self.scratch = scratch;
            self.incoming.insert(conn, incoming);
            return;
        }
        let Dispatched { outcome, background, .. } =
            incoming.session.on_request(self.context(now), &frame, &mut scratch);
        self.scratch = scratch;
        self.incoming.insert(conn, incoming);
        for command in background {
            self.give(now, Asker::Nobody, &command);
        }
        self.enqueue(now, conn, outcome);
    }

    fn enqueue(&mut self, now: Now, conn: ConnId, outcome: Outcome) {
        let waiting = match outcome {
            Outcome::Silent => return,
            Outcome::Answer(answer) => Waiting::Answer(answer),
            Outcome::Parked(parked) => Waiting::Parked(parked),
            Outcome::Close(why) => {
                self.say(format!("closes {conn:?}: {why}"));
                Waiting::Close
            }
            Outcome::Submit(submission) => {
                self.give(now, Asker::Request(conn), &submission.command);
                Waiting::Submitted { decision: None, finish: submission.finish }
            }
        };
        if let Some(incoming) = self.incoming.get_mut(&conn) {
            incoming.queue.push_back(waiting);
        }
    }

    /// A command of a request was decided.
    pub(super) fn on_decision(
        &mut self,
        now: Now,
        conn: ConnId,
        result: Result<Reply, ControllerError>,
        end: Offset,
    ) {
        let Some(incoming) = self.incoming.get_mut(&conn) else { return };
        if let Some(Waiting::Submitted { decision, .. }) = incoming.queue.back_mut() {
            *decision = Some((result, end));
        }
        self.answer(now, conn, false);
    }

    /// Sends what is settled at the front of a connection's queue. `looks` is whether parked requests are to
    /// look again.
    pub(super) fn answer(&mut self, now: Now, conn: ConnId, looks: bool) {
        while let Some(incoming) = self.incoming.get_mut(&conn) {
            let Some(waiting) = incoming.queue.pop_front() else { return self.read_on(now, conn) };
            let outcome = match waiting {
                Waiting::Answer(answer) => {
                    match bytes_of(answer) {
                        Ok(frame) => self.acts.push_back(Act::Send { conn, frame }),
                        Err(why) => {
                            self.say(format!("an answer cannot be read: {why}"));
                            self.close(now, conn);
                        }
                    }
                    continue;
                }
                Waiting::Close => return self.close(now, conn),
                Waiting::Parked(parked) if looks || parked.deadline() <= now.elapsed => {
                    let mut incoming = self.incoming.remove(&conn).expect("it is there");
                    let outcome = parked.look(self.context(now), &mut incoming.session);
                    self.incoming.insert(conn, incoming);
                    outcome
                }
                Waiting::Submitted { decision: Some((result, end)), finish } if self.image.end() >= end => {
                    finish(&self.context(now), result)
                }
                waiting => {
                    let incoming = self.incoming.get_mut(&conn).expect("it is there");
                    return incoming.queue.push_front(waiting);
                }
            };
            let Some(incoming) = self.incoming.get_mut(&conn) else { return };
            match outcome {
                Outcome::Answer(answer) => incoming.queue.push_front(Waiting::Answer(answer)),
                Outcome::Parked(parked) => return incoming.queue.push_front(Waiting::Parked(parked)),
                Outcome::Silent => {}
                Outcome::Close(_) => incoming.queue.push_front(Waiting::Close),
                Outcome::Submit(_) => unreachable!("nobody submits twice"),
            }
        }
    }

    fn close(&mut self, now: Now, conn: ConnId) {
        self.acts.push_back(Act::Close(conn));
        self.on_closed(now, conn);
    }

    /// When a parked request gives up waiting.
    pub(super) fn serve_deadline(&self) -> Option<Duration> {
        let of = |incoming: &Incoming| match incoming.queue.front() {
            // Some wait for as long as it takes.
            Some(Waiting::Parked(parked)) => Some(parked.deadline()).filter(|at| *at < Duration::MAX),
            _ => None,
        };
        self.incoming.values().filter_map(of).min()
    }

    /// Those whose time is up look again; others that wait for the metadata do, too.
    pub(super) fn look_at_late(&mut self, now: Now) {
        self.look_at_late_commands(now);
        self.look_at_late_leaders(now);
        self.hurry(now);
        let conns: Vec<ConnId> = self.incoming.keys().copied().collect();
        conns.into_iter().for_each(|conn| self.answer(now, conn, false));
    }
}

/// A frame with its holes filled from files, without its size.
fn bytes_of(answer: Answer) -> Result<Vec<u8>, DiskError> {
    let Answer { frame, slices, .. } = answer;
    let mut records = Vec::new();
    for slice in slices {
        let start = records.len();
        records.resize(start + slice.len as usize, 0);
        slice.file.read_at(&mut records[start..], slice.position)?;
    }
    let (mut rest, mut whole) = (records.as_slice(), Vec::new());
    for part in frame.parts() {
        match part {
            wire::Part::Bytes(bytes) => whole.extend_from_slice(bytes),
            wire::Part::Hole(hole) => {
                let (filling, after) = rest.split_at(hole.len as usize);
                whole.extend_from_slice(filling);
                rest = after;
            }
        }
    }
    Ok(whole.split_off(4))
}
