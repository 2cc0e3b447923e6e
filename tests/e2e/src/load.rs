//! Producers and a reader, each in a thread of its own, who go on where they were when the node comes back.
//!
//! An idempotent producer sends again what was not acknowledged, with the same sequences; a plain one
//! sends nothing twice and never learns what became of it.

use std::collections::VecDeque;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use base::{Offset, ProducerEpoch, ProducerId, Sequence};
use client::raw::{self, FetchLimits};
use client::{ClientError, ConnectOptions, Connection};
use records::{Compression, Producer as Writer, Scratch};
use wire::ApiKey;
use wire::messages::init_producer_id::InitProducerIdRequest;

use crate::chance::Chance;
use crate::churn::Churn;
use crate::ledger::{Acknowledged, Ledger, Place};
use crate::progress::Progress;
use crate::sample::{Origin, batch};

/// As many as Kafka's clients have in flight, and as many as a broker knows again of an idempotent one.
const IN_FLIGHT_MAX: usize = 5;
const RECORDS_MAX: u64 = 40;

/// Connects as these threads do: longer than this nothing may take.
pub fn connect(bootstrap: &str) -> Result<Connection, ClientError> {
    let options = ConnectOptions { timeout: Duration::from_secs(20), ..ConnectOptions::default() };
    Connection::connect(bootstrap, options)
}

/// A producer, with what it would have to send again.
#[derive(Debug)]
pub struct Producer {
    id: u32,
    at: Place,
    compression: Compression,
    /// Whom it waits for: 1, or -1 for all.
    acks: i16,
    /// Its id with the node if it is idempotent.
    writer: Option<(ProducerId, ProducerEpoch)>,
    next: u64,
    in_flight: VecDeque<Sent>,
    chance: Chance,
}

#[derive(Debug)]
struct Sent {
    first: Origin,
    count: u32,
    batch: Vec<u8>,
}

impl Producer {
    /// One that never sends anything twice.
    pub fn plain(id: u32, at: Place, compression: Compression) -> Self {
        let chance = Chance::new(u64::from(id));
        Self { id, at, compression, acks: -1, writer: None, next: 0, in_flight: VecDeque::new(), chance }
    }

    /// The same, content with what the leader has: that survives the leader's process, if not its machine.
    pub fn leader_only(id: u32, at: Place, compression: Compression) -> Self {
        Self { acks: 1, ..Self::plain(id, at, compression) }
    }

    /// One whose records are there once. Asks the node for an id.
    pub fn idempotent(
        id: u32,
        at: Place,
        compression: Compression,
        connection: &mut Connection,
    ) -> Result<Self> {
        let request = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: 60_000,
            ..InitProducerIdRequest::default()
        };
        let answer = connection.ask(&request)?;
        let answer = answer.read()?;
        ensure!(answer.error_code == 0, "InitProducerId answers error {}", answer.error_code);
        let writer = (ProducerId(answer.producer_id), ProducerEpoch(answer.producer_epoch));
        Ok(Self { writer: Some(writer), ..Self::plain(id, at, compression) })
    }

    /// What it is called.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Whether its records are there once.
    pub fn is_idempotent(&self) -> bool {
        self.writer.is_some()
    }

    /// Sends until it is stopped or the node is gone. Answers what was acknowledged.
    fn run(&mut self, bootstrap: &str, progress: &Progress) -> Result<Vec<Acknowledged>> {
        let mut acknowledged = Vec::new();
        match self.talk(bootstrap, progress, &mut acknowledged) {
            Ok(())
            | Err(ClientError::Connect { .. } | ClientError::Broken { .. } | ClientError::Closed { .. }) => {
                Ok(acknowledged)
            }
            Err(other) => bail!("producer {} to {}: {other}", self.id, self.at),
        }
    }

    fn talk(
        &mut self,
        bootstrap: &str,
        progress: &Progress,
        acknowledged: &mut Vec<Acknowledged>,
    ) -> Result<(), ClientError> {
        let mut connection = connect(bootstrap)?;
        let version = raw::version(&connection, ApiKey::Produce)?;
        if self.writer.is_none() {
            self.in_flight.clear();
        }
        for sent in &self.in_flight {
            self.send(&mut connection, &sent.batch, version)?;
        }
        loop {
            while !progress.is_stopped() && self.in_flight.len() < IN_FLIGHT_MAX {
                let sent = self.make();
                self.in_flight.push_back(sent);
                let sent = self.in_flight.back().expect("one was put there");
                self.send(&mut connection, &sent.batch, version)?;
            }
            let Some(sent) = self.in_flight.front() else { return Ok(()) };
            let produced = raw::produced(&connection.receive()?)?;
            let of = Acknowledged { base: produced.base_offset, first: sent.first, count: sent.count };
            self.in_flight.pop_front();
            acknowledged.push(of);
            progress.acknowledged();
        }
    }

    fn send(&self, connection: &mut Connection, batch: &[u8], version: i16) -> Result<(), ClientError> {
        let request = raw::produce_request(&self.at.topic, self.at.partition, self.acks, batch);
        connection.send(&request, version).map(|_| ())
    }

    fn make(&mut self) -> Sent {
        let count = self.chance.pick(1..RECORDS_MAX) as u32;
        let first = Origin { producer: self.id, number: self.next };
        self.next += u64::from(count);
        let writer = self.writer.map_or(Writer::NONE, |(id, epoch)| {
            let base_sequence = Sequence((first.number & i32::MAX as u64) as i32);
            Writer { id, epoch, base_sequence }
        });
        Sent { first, count, batch: batch(first, count, self.compression, writer) }
    }
}

/// Reads a partition to its end and waits there for more, until it is stopped or the node is gone.
fn read(bootstrap: &str, at: &Place, from: Offset, progress: &Progress) -> Result<Vec<(Offset, Origin)>> {
    let mut seen = Vec::new();
    match read_into(&mut seen, bootstrap, at, from, progress) {
        Ok(()) => Ok(seen),
        Err(error) => match error.downcast_ref() {
            Some(ClientError::Connect { .. } | ClientError::Broken { .. } | ClientError::Closed { .. }) => {
                Ok(seen)
            }
            _ => Err(error.context(format!("reader of {at}"))),
        },
    }
}

fn read_into(
    seen: &mut Vec<(Offset, Origin)>,
    bootstrap: &str,
    at: &Place,
    from: Offset,
    progress: &Progress,
) -> Result<()> {
    let limits = FetchLimits { wait_ms_max: 50, bytes_max: 1 << 20, ..FetchLimits::default() };
    let mut connection = connect(bootstrap)?;
    let mut scratch = Scratch::default();
    let mut next = from;
    while !progress.is_stopped() {
        let fetched = connection.fetch(&at.topic, at.partition, next, limits)?;
        for batch in records::batches(&fetched.records) {
            let batch = batch?;
            for record in batch.records(&mut scratch)? {
                let record = record?;
                let offset = record.offset(batch.header());
                if offset >= from {
                    seen.push((offset, Origin::of(&record, record.timestamp(batch.header()))?));
                }
            }
            next = batch.next_offset();
        }
    }
    Ok(())
}

/// Everyone who talks to the node.
#[derive(Debug)]
pub struct Load {
    producers: Vec<Producer>,
    churn: Churn,
}

impl Load {
    /// These producers, and someone who creates and deletes topics.
    pub fn new(producers: Vec<Producer>, churn: Churn) -> Self {
        Self { producers, churn }
    }

    /// An empty ledger for its records.
    pub fn ledger(&self) -> Ledger {
        Ledger::new(self.producers.iter().filter(|one| one.is_idempotent()).map(Producer::id))
    }

    /// Who creates and deletes topics.
    pub fn churn(&self) -> &Churn {
        &self.churn
    }

    /// Lets all of them work while `act` does something to the node; then stops them, and takes down
    /// what was acknowledged to them. One partition is also read meanwhile.
    pub fn during<R>(
        &mut self,
        bootstrap: &str,
        ledger: &mut Ledger,
        read_at: &Place,
        act: impl FnOnce(&Progress) -> Result<R>,
    ) -> Result<R> {
        let progress = Progress::default();
        let from = ledger.end(read_at);
        thread::scope(|scope| {
            let reader = scope.spawn(|| read(bootstrap, read_at, from, &progress));
            let churn = scope.spawn(|| self.churn.run(bootstrap, &progress));
            let producers: Vec<_> = self
                .producers
                .iter_mut()
                .map(|producer| {
                    let at = producer.at.clone();
                    (at, scope.spawn(|| producer.run(bootstrap, &progress)))
                })
                .collect();
            let done = act(&progress);
            progress.stop();
            for (at, producer) in producers {
                ledger.acknowledged(&at, joined(producer)?);
            }
            ledger.seen(read_at, joined(reader)?);
            joined(churn)?;
            done
        })
    }

    /// Sends again what was not acknowledged, and nothing else.
    pub fn settle(&mut self, bootstrap: &str, ledger: &mut Ledger) -> Result<()> {
        let progress = Progress::default();
        progress.stop();
        for producer in &mut self.producers {
            let acknowledged = producer.run(bootstrap, &progress)?;
            ledger.acknowledged(&producer.at, acknowledged);
            let is_settled = producer.in_flight.is_empty();
            ensure!(is_settled, "the node left producer {} without an answer", producer.id);
        }
        Ok(())
    }
}

fn joined<R>(thread: ScopedJoinHandle<'_, Result<R>>) -> Result<R> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
