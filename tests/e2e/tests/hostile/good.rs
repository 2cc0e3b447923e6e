//! A client that behaves: writes a batch, reads it back, asks who leads, now and then on a new connection.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base::PartitionIndex;
use client::raw::FetchLimits;
use client::{ConnectOptions, Connection};
use records::{Compression, Producer};
use vltava_e2e::http;
use vltava_e2e::sample::{Origin, batch};
use wire::messages::metadata::{MetadataRequest, MetadataRequestTopic};

pub(crate) const TOPIC: &str = "good";

/// No request may take longer, whatever others do.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Requests on one connection.
const ROUNDS_PER_CONNECTION: u64 = 25;
const RECORDS: u32 = 10;

/// How it was served.
#[derive(Debug, Default)]
pub(crate) struct Served {
    pub(crate) requests: u64,
    /// How long each took.
    times: Vec<Duration>,
    /// What took longest, and how long.
    pub(crate) slowest: (Duration, &'static str),
}

impl Served {
    /// The time within which 99 of 100 requests were answered.
    pub(crate) fn p99(&mut self) -> Duration {
        self.times.sort_unstable();
        self.times.get(self.times.len() * 99 / 100).copied().unwrap_or_default()
    }

    fn timed<R>(&mut self, what: &'static str, ask: impl FnOnce() -> Result<R>) -> Result<R> {
        let since = Instant::now();
        let answer =
            ask().with_context(|| format!("{what}, the request {} of one who behaves", self.requests))?;
        let took = since.elapsed();
        ensure!(took < ANSWER_MAX, "{what} took {took:?}");
        self.requests += 1;
        self.times.push(took);
        self.slowest = self.slowest.max((took, what));
        Ok(answer)
    }
}

/// Goes on until it is over, or something is wrong.
pub(crate) fn serve(bootstrap: &str, http: SocketAddr, over: &AtomicBool) -> Result<Served> {
    let mut served = Served::default();
    let mut round = 0;
    while !over.load(Ordering::Relaxed) {
        let options = ConnectOptions { timeout: ANSWER_MAX, ..ConnectOptions::default() };
        let mut connection = served.timed("a connection", || Ok(Connection::connect(bootstrap, options)?))?;
        for _ in 0..ROUNDS_PER_CONNECTION {
            round_trip(&mut connection, &mut served, round)?;
            round += 1;
        }
        served.timed("/health/ready", || {
            let page = http::get(http, "/health/ready")?;
            ensure!(page.status == 200, "{page:?}");
            Ok(())
        })?;
    }
    Ok(served)
}

fn round_trip(connection: &mut Connection, served: &mut Served, round: u64) -> Result<()> {
    let partition = PartitionIndex(0);
    let first = Origin { producer: 1, number: round * u64::from(RECORDS) };
    let sent = batch(first, RECORDS, Compression::Lz4, Producer::NONE);
    let produced =
        served.timed("Produce", || Ok(connection.produce(TOPIC, partition, -1, &sent)?))?.base_offset;
    ensure!(produced.0 == first.number as i64, "{first:?} got the offset {produced}");
    let limits = FetchLimits { bytes_max: 1 << 20, ..FetchLimits::default() };
    let fetched =
        served.timed("Fetch", || Ok(connection.fetch(TOPIC, partition, produced, limits)?))?.records;
    // All but base offset and leader epoch, which the node assigns.
    ensure!(fetched.get(16..) == sent.get(16..), "another batch at {produced}");
    served.timed("Metadata", || {
        let topics = vec![MetadataRequestTopic { name: Some(TOPIC), ..MetadataRequestTopic::default() }];
        let request = MetadataRequest { topics: Some(topics), ..MetadataRequest::default() };
        let answer = connection.ask(&request)?;
        let answer = answer.read()?;
        ensure!(answer.topics.len() == 1 && answer.topics[0].error_code == 0, "{answer:?}");
        Ok(())
    })
}
