//! Whatever happens in a group that is read with both protocols, in whatever order: members come, go, fall silent and
//! are fenced, answers are lost, coordinators are replaced, and the group turns from one protocol to the other.
//!
//! No partition is told to two members that are both there, what was acknowledged is there, and the log says what the
//! state is (I11).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::ErrorCode;
use proptest::prelude::*;

use super::consumers::Reader;
use super::stage::{Client, Stage};
use super::turned::{assigned_by, read_assignment};
use crate::{Response, Ticket};

/// A member that was not heard for so long may be out of the group without having heard of it.
const SURELY_THERE: Duration = Duration::from_secs(9);

/// One thing that happens: what, to whom, and a number that says how much.
type Happening = (u8, usize, u16);

/// A member of the classic protocol, which gives everything back when it is to join again.
#[derive(Debug)]
struct Old {
    client: Client,
    joining: Option<Ticket>,
    syncing: Option<Ticket>,
    /// Whom it assigns to, if it leads.
    members: Vec<String>,
    is_in: bool,
    has: BTreeSet<i32>,
    heard: Duration,
}

/// When a member of the new protocol was heard, and heard the answer.
#[derive(Debug, Clone, Copy, Default)]
struct Heard {
    last: Duration,
    /// The time before that. Who was silent in between may hear that it is to give something back just before it is
    /// taken out for not having done so: the answer that said it first was lost.
    before: Duration,
}

impl Heard {
    fn is_surely_there(&self, now: Duration) -> bool {
        now < self.last + SURELY_THERE && self.last < self.before + SURELY_THERE
    }
}

struct World {
    stage: Stage,
    new: Vec<(Reader, Heard)>,
    old: Vec<Old>,
    acknowledged: BTreeMap<i32, i64>,
    next_offset: i64,
}

impl World {
    fn new() -> Self {
        let old = |name: &str| Old {
            client: Client::new(name),
            joining: None,
            syncing: None,
            members: Vec::new(),
            is_in: false,
            has: BTreeSet::new(),
            heard: Duration::ZERO,
        };
        Self {
            stage: Stage::new(),
            new: ["n1", "n2"].map(|id| (Reader::new(id), Heard::default())).into(),
            old: ["o1", "o2"].map(old).into(),
            acknowledged: BTreeMap::new(),
            next_offset: 0,
        }
    }

    fn happen(&mut self, (what, who, amount): Happening) {
        let who = who % 2;
        match what {
            0..=11 => self.beat(who, true),
            12..=21 => self.behave(who),
            22 => self.beat(who, false),
            23 => self.leave(who),
            24 => {
                self.stage.leave(&self.old[who].client);
                self.restart(who);
            }
            25 => self.new[who].0 = Reader::new(&self.new[who].0.id.clone()),
            26 => self.restart(who),
            27..=34 => self.stage.pass_ms(u64::from(amount) % 1_500),
            35 => self.stage.pass_ms(u64::from(amount)),
            36 => {
                self.stage.refuses = Some(ErrorCode::NotEnoughReplicas);
                self.beat(who, true);
                self.behave(who);
                self.stage.refuses = None;
            }
            37 => {
                self.stage.fail_over();
                self.old.iter_mut().for_each(|old| (old.joining, old.syncing) = (None, None));
            }
            _ => self.stage.check_replay(),
        }
        self.hear();
        self.check();
    }

    /// A member of the new protocol is heard, and hears the answer unless that is lost.
    fn beat(&mut self, who: usize, hears: bool) {
        let ticket = self.stage.beat(&self.new[who].0);
        if !hears {
            self.stage.told(ticket);
            return;
        }
        let (reader, heard) = &mut self.new[who];
        let joins = reader.epoch == 0;
        match self.stage.heard(ticket, reader).as_str() {
            "FENCED_MEMBER_EPOCH" | "UNKNOWN_MEMBER_ID" | "GROUP_ID_NOT_FOUND" => {
                *reader = Reader::new(&reader.id.clone());
            }
            "COORDINATOR_NOT_AVAILABLE" => {}
            _ => {
                let before = if joins { self.stage.now } else { heard.last };
                *heard = Heard { last: self.stage.now, before };
            }
        }
        let reader = &self.new[who].0;
        if let Some(partition) = reader.has.first().copied() {
            self.commit(&reader.client(), partition);
        }
    }

    fn leave(&mut self, who: usize) {
        let (reader, _) = &mut self.new[who];
        if reader.epoch > 0 {
            reader.epoch = -1;
            reader.has.clear();
            let ticket = self.stage.beat(reader);
            self.stage.told(ticket);
        }
        *reader = Reader::new(&reader.id.clone());
    }

    /// A member of the classic protocol does what it should do next.
    fn behave(&mut self, who: usize) {
        let old = &mut self.old[who];
        if old.joining.is_some() || old.syncing.is_some() {
            return;
        }
        if !old.is_in {
            old.has.clear();
            old.joining = Some(self.stage.join(&mut old.client));
            return;
        }
        match self.stage.heartbeat(&old.client) {
            ErrorCode::None => old.heard = self.stage.now,
            ErrorCode::RebalanceInProgress | ErrorCode::IllegalGeneration => {
                old.is_in = false;
                old.has.clear();
            }
            _ => return self.restart(who),
        }
        let old = &self.old[who];
        if let Some(partition) = old.has.first().copied() {
            self.commit(&old.client.clone(), partition);
        }
    }

    fn restart(&mut self, who: usize) {
        let old = &mut self.old[who];
        old.client = old.client.again();
        (old.joining, old.syncing, old.is_in) = (None, None, false);
        old.has.clear();
    }

    fn commit(&mut self, client: &Client, partition: i32) {
        self.next_offset += 1;
        let ticket = self.stage.commit_as(client, &[("events", partition, self.next_offset)]);
        if self.stage.commit_told(ticket) == Some(vec![ErrorCode::None]) {
            self.acknowledged.insert(partition, self.next_offset);
        }
    }

    /// Those of the classic protocol hear what they waited for, as soon as it is said: what one does is what another
    /// waits for.
    fn hear(&mut self) {
        while self.hear_once() {}
    }

    /// Whether any of them heard anything.
    fn hear_once(&mut self) -> bool {
        let mut heard = false;
        for old in &mut self.old {
            if let Some(joined) = old.joining.and_then(|ticket| self.stage.told(ticket)) {
                (old.joining, heard) = (None, true);
                let Response::JoinGroup(joined) = joined else { panic!("{joined:?}") };
                match joined.error {
                    ErrorCode::None => {
                        (old.client.id, old.client.generation) = (joined.member_id, joined.generation);
                        old.members = joined.members.iter().map(|it| it.member_id.to_string()).collect();
                        old.heard = self.stage.now;
                        old.syncing = Some(assigned_by(&mut self.stage, &old.client, &old.members));
                    }
                    ErrorCode::RebalanceInProgress | ErrorCode::CoordinatorLoadInProgress => {}
                    _ => old.client = old.client.again(),
                }
            }
            if let Some(synced) = old.syncing.and_then(|ticket| self.stage.told(ticket)) {
                (old.syncing, heard) = (None, true);
                let Response::SyncGroup(synced) = synced else { panic!("{synced:?}") };
                old.is_in = synced.error.is_none();
                if old.is_in {
                    old.heard = self.stage.now;
                    old.has = read_assignment(&synced.assignment).into_iter().collect();
                }
            }
        }
        heard
    }

    /// Nobody has what another one has that is surely there, too.
    fn check(&self) {
        let now = self.stage.now;
        let new = self.new.iter().filter(|(_, heard)| heard.is_surely_there(now));
        let new = new.map(|(it, _)| (&it.id, &it.has));
        let old =
            self.old.iter().filter(|it| now < it.heard + SURELY_THERE).map(|it| (&it.client.name, &it.has));
        let mut owners: BTreeMap<i32, &String> = BTreeMap::new();
        for (name, has) in new.chain(old) {
            for partition in has {
                let other = owners.insert(*partition, name);
                assert_eq!(other, None, "{partition} is {name}'s, too");
            }
        }
    }

    fn end(mut self) {
        for _ in 0..2 {
            for (partition, offset) in self.acknowledged.clone() {
                assert!(self.stage.offset("events", partition) >= offset, "{partition} was at {offset}");
            }
            self.stage.check_replay();
            self.stage.fail_over();
        }
    }
}

proptest! {
    #[test]
    fn whatever_happens_in_a_group_of_both(
        happenings in prop::collection::vec((0_u8..39, 0_usize..2, any::<u16>()), 1..300),
    ) {
        let mut world = World::new();
        happenings.into_iter().for_each(|happening| world.happen(happening));
        world.end();
    }
}
