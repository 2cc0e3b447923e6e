//! Whatever happens, in whatever order: members that come, go and fall silent, commits that are late or lost,
//! coordinators that are replaced.
//!
//! Each partition has one owner in a generation; generations do not go back while a coordinator lives; who is of an
//! older generation commits nothing; what was acknowledged is there; and the log says what the state is (I11).

use std::collections::BTreeMap;
use std::sync::Arc;

use base::ErrorCode;
use proptest::prelude::*;

use super::stage::{Client, GROUP, Stage};
use crate::{Request, Response, Ticket};

const PARTITIONS: usize = 8;

/// One thing that happens: what, to whom, and a number that says how much.
type Happening = (u8, usize, u16);

#[derive(Debug)]
struct Reader {
    client: Client,
    joining: Option<Ticket>,
    /// In which generation it asked for its assignment.
    syncing: Option<(Ticket, i32)>,
    committing: Option<(Ticket, i32, i64)>,
    /// The members that it has to assign to, if it leads.
    members: Vec<Arc<str>>,
    /// What it was told to read.
    partitions: Vec<u8>,
    next: Next,
}

/// What a client does next that does what it should.
#[derive(Debug, Clone, Copy)]
enum Next {
    Join,
    Sync,
    Read,
}

impl Reader {
    fn new(client: Client) -> Self {
        let (members, partitions) = (Vec::new(), Vec::new());
        Self { client, joining: None, syncing: None, committing: None, members, partitions, next: Next::Join }
    }
}

struct World {
    stage: Stage,
    readers: Vec<Reader>,
    /// Who owns which partition, by generation, as members were told.
    owners: BTreeMap<(i32, u8), Arc<str>>,
    /// The highest generation that this coordinator has told of.
    generation: i32,
    /// What was acknowledged last, by partition.
    acknowledged: BTreeMap<i32, i64>,
    next_offset: i64,
}

impl World {
    fn new() -> Self {
        let clients = [
            Client::new("a"),
            Client::new("b"),
            Client::fixed("c", "third"),
            Client::fixed("d", "fourth"),
            Client { version: 3, ..Client::new("e") },
        ];
        Self {
            stage: Stage::new(),
            readers: clients.into_iter().map(Reader::new).collect(),
            owners: BTreeMap::new(),
            generation: 0,
            acknowledged: BTreeMap::new(),
            next_offset: 0,
        }
    }

    fn happen(&mut self, (what, who, amount): Happening) {
        let who = who % self.readers.len();
        match what {
            0..=23 => self.behave(who),
            24..=25 => self.join(who),
            26..=27 => self.sync(who),
            28..=29 => self.commit(who, i32::from(amount % PARTITIONS as u16)),
            30 => self.leave(who),
            31 => self.restart(who),
            32..=37 => self.stage.pass_ms(u64::from(amount) % 400),
            38 => self.stage.pass_ms(u64::from(amount) % 12_000),
            39 => self.stage.commits = !self.stage.commits,
            44 => self.stage.gathers = !self.stage.gathers,
            40..=41 => self.stage.commit(),
            42 => {
                self.stage.refuses = Some(ErrorCode::NotEnoughReplicas);
                self.behave(who);
                self.stage.refuses = None;
            }
            43 => self.fail_over(),
            _ => self.stage.check_replay(),
        }
        if self.stage.commits {
            self.stage.commit();
        }
        self.hear();
        if self.stage.shard.group_count() == 0 {
            // Nothing of it was ever written, so nobody was ever assigned anything: it begins anew.
            self.generation = 0;
        }
    }

    /// Does what a client would do next.
    fn behave(&mut self, who: usize) {
        let reader = &self.readers[who];
        if reader.joining.is_some() || reader.syncing.is_some() {
            return;
        }
        match reader.next {
            Next::Join => self.join(who),
            Next::Sync => self.sync(who),
            Next::Read => self.heartbeat(who),
        }
        let reader = &self.readers[who];
        if let (Next::Read, Some(partition)) = (reader.next, reader.partitions.first()) {
            self.commit(who, i32::from(*partition - b'0'));
        }
    }

    fn join(&mut self, who: usize) {
        let reader = &mut self.readers[who];
        reader.joining = Some(self.stage.join(&mut reader.client));
    }

    fn sync(&mut self, who: usize) {
        let reader = &self.readers[who];
        let shares = share(&reader.members);
        let clients: Vec<(Client, String)> =
            shares.into_iter().map(|(id, share)| (Client { id, ..Client::new("") }, share)).collect();
        let shares: Vec<(&Client, &str)> = clients.iter().map(|(client, share)| (client, &**share)).collect();
        let ticket = self.stage.sync(&reader.client, &shares);
        let reader = &mut self.readers[who];
        reader.syncing = Some((ticket, reader.client.generation));
    }

    fn heartbeat(&mut self, who: usize) {
        let error = self.stage.heartbeat(&self.readers[who].client);
        match error {
            ErrorCode::None => {}
            ErrorCode::RebalanceInProgress | ErrorCode::IllegalGeneration => {
                self.readers[who].next = Next::Join;
            }
            _ => self.restart(who),
        }
    }

    fn leave(&mut self, who: usize) {
        self.stage.leave(&self.readers[who].client);
        self.restart(who);
    }

    fn restart(&mut self, who: usize) {
        let reader = &mut self.readers[who];
        *reader = Reader::new(reader.client.again());
    }

    fn commit(&mut self, who: usize, partition: i32) {
        self.next_offset += 1;
        let client = &self.readers[who].client;
        let ticket = self.stage.commit_as(client, &[("events", partition, self.next_offset)]);
        let is_stale = client.generation >= 0 && client.generation < self.generation;
        if is_stale {
            let told = self.stage.commit_told(ticket).expect("it is refused at once");
            assert_ne!(told, [ErrorCode::None], "a commit of generation {}", client.generation);
            return;
        }
        self.readers[who].committing = Some((ticket, partition, self.next_offset));
    }

    fn fail_over(&mut self) {
        self.stage.fail_over();
        self.generation = 0;
        for reader in &mut self.readers {
            if reader.joining.is_some() || reader.syncing.is_some() {
                reader.next = Next::Join;
            }
            (reader.joining, reader.syncing, reader.committing) = (None, None, None);
        }
    }

    /// Everybody hears what they were told.
    fn hear(&mut self) {
        for reader in &mut self.readers {
            if let Some(joined) = reader.joining.and_then(|ticket| self.stage.told(ticket)) {
                reader.joining = None;
                let Response::JoinGroup(joined) = joined else { panic!("{joined:?}") };
                reader.next = if joined.error.is_none() { Next::Sync } else { Next::Join };
                if joined.error.is_none() {
                    // A static member is told of its generation once that is written; others may be ahead by then.
                    let is_late = reader.client.instance.is_some();
                    assert!(joined.generation >= self.generation || is_late, "{joined:?}");
                    self.generation = self.generation.max(joined.generation);
                    (reader.client.id, reader.client.generation) = (joined.member_id, joined.generation);
                    reader.members = joined.members.iter().map(|member| member.member_id.clone()).collect();
                } else if joined.error != ErrorCode::RebalanceInProgress {
                    reader.client = reader.client.again();
                }
            }
            if let Some((ticket, generation)) = reader.syncing
                && let Some(synced) = self.stage.told(ticket)
            {
                reader.syncing = None;
                let Response::SyncGroup(synced) = synced else { panic!("{synced:?}") };
                reader.next = if synced.error.is_none() { Next::Read } else { Next::Join };
                reader.partitions = synced.assignment.to_vec();
                for partition in &reader.partitions {
                    let key = (generation, *partition);
                    let owner = self.owners.entry(key).or_insert_with(|| reader.client.id.clone());
                    // A static member that came back has what its last life had.
                    let instance = reader.client.instance.unwrap_or("none");
                    let is_same = *owner == reader.client.id || owner.starts_with(instance);
                    assert!(is_same, "{key:?} is {owner}'s and {}'s", reader.client.id);
                }
            }
            if let Some((ticket, partition, offset)) = reader.committing
                && let Some(told) = self.stage.commit_told(ticket)
            {
                reader.committing = None;
                if told == [ErrorCode::None] {
                    let last = self.acknowledged.entry(partition).or_insert(-1);
                    *last = (*last).max(offset);
                }
            }
        }
    }

    /// All is well in the end: what was acknowledged is there, and the log says what the state is.
    fn end(mut self) {
        self.stage.refuses = None;
        self.stage.commit();
        self.hear();
        for (partition, offset) in self.acknowledged.clone() {
            let found = self.stage.offset("events", partition);
            assert!(found >= offset, "{offset} was acknowledged in {partition}, but {found} is there");
        }
        self.stage.check_replay();
        self.stage.fail_over();
        for (partition, offset) in self.acknowledged.clone() {
            assert!(self.stage.offset("events", partition) >= offset);
        }
        let ticket = self.stage.ask(6, "somebody", Request::DescribeGroup(GROUP));
        assert!(self.stage.told(ticket).is_some());
    }
}

/// The partitions of each member, as characters: each partition goes to one of them.
fn share(members: &[Arc<str>]) -> Vec<(Arc<str>, String)> {
    let share = |(i, id): (usize, &Arc<str>)| {
        let partitions = (0..PARTITIONS).filter(|partition| partition % members.len() == i);
        (id.clone(), partitions.map(|partition| char::from(b'0' + partition as u8)).collect())
    };
    members.iter().enumerate().map(share).collect()
}

proptest! {
    #[test]
    fn whatever_happens(happenings in prop::collection::vec((0_u8..46, 0_usize..5, any::<u16>()), 1..400)) {
        let mut world = World::new();
        happenings.into_iter().for_each(|happening| world.happen(happening));
        world.end();
    }
}
