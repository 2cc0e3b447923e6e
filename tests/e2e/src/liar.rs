//! A broker that lies: a proxy that acknowledges records which then are not there, are there twice, or
//! stand behind those that were sent after them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, ensure};
use wire::messages::produce::{
    PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse,
};
use wire::{ApiKey, Message};

/// What becomes of the records of one Produce request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// They are acknowledged and not written.
    Lose,
    /// They are written twice.
    Duplicate,
    /// They are acknowledged, and written behind the next ones for their partition.
    Reorder,
}

/// Stands between clients and a node, until it is dropped.
#[derive(Debug)]
pub struct Liar {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    node: SocketAddr,
    is_over: AtomicBool,
    /// The lie that is still to be told, and how many honest answers come before it.
    next: Mutex<Option<(Lie, u64)>>,
    told: AtomicU64,
}

impl Liar {
    /// On a port that is taken already, so that the node can be told of it first. It is honest.
    pub fn on(listener: TcpListener, node: SocketAddr) -> Result<Self> {
        let address = listener.local_addr()?;
        let next = Mutex::new(None);
        let shared =
            Arc::new(Shared { node, is_over: AtomicBool::new(false), next, told: AtomicU64::new(0) });
        let accepting = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let shared = accepting.clone();
                // A connection that breaks is the client's to notice.
                thread::spawn(move || client.map(|client| Link::relay(&shared, client)));
            }
        });
        Ok(Self { address, shared })
    }

    /// Where clients connect to.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lies once, about the Produce request that follows after so many others.
    pub fn lie(&self, lie: Lie, after: u64) {
        *self.shared.next() = Some((lie, after));
    }

    /// How often it lied.
    pub fn told(&self) -> u64 {
        self.shared.told.load(Ordering::Relaxed)
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // The listener's thread looks once more.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn next(&self) -> std::sync::MutexGuard<'_, Option<(Lie, u64)>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to do with the next Produce request.
    fn draw(&self) -> Option<Lie> {
        let mut next = self.next();
        let (lie, after) = next.as_mut()?;
        if *after > 0 {
            *after -= 1;
            return None;
        }
        let lie = *lie;
        *next = None;
        self.told.fetch_add(1, Ordering::Relaxed);
        Some(lie)
    }
}

/// One client, one request after the other.
struct Link {
    node: TcpStream,
    /// A request that was acknowledged, and its partitions.
    held: Option<(Vec<u8>, Vec<i32>)>,
}

impl Link {
    fn relay(shared: &Shared, mut client: TcpStream) -> Result<()> {
        let node = TcpStream::connect(shared.node)?;
        node.set_nodelay(true)?;
        client.set_nodelay(true)?;
        let mut link = Self { node, held: None };
        loop {
            let request = read_frame(&mut client)?;
            let answer = link.answer(shared, request)?;
            write_frame(&mut client, &answer)?;
        }
    }

    fn answer(&mut self, shared: &Shared, request: Vec<u8>) -> Result<Vec<u8>> {
        if !is_produce(&request) {
            return self.ask(&request);
        }
        let partitions = partitions(&request)?;
        match shared.draw() {
            Some(Lie::Lose) => acknowledgement(&request),
            Some(Lie::Duplicate) => {
                self.ask(&request)?;
                self.ask(&request)
            }
            Some(Lie::Reorder) => {
                let answer = acknowledgement(&request);
                self.held = Some((request, partitions));
                answer
            }
            None => {
                let answer = self.ask(&request)?;
                let is_overtaken =
                    |(_, held): &mut (_, Vec<i32>)| held.iter().any(|of| partitions.contains(of));
                if let Some((held, _)) = self.held.take_if(is_overtaken) {
                    self.ask(&held)?;
                }
                Ok(answer)
            }
        }
    }

    fn ask(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        write_frame(&mut self.node, request)?;
        read_frame(&mut self.node)
    }
}

fn is_produce(request: &[u8]) -> bool {
    request.starts_with(&ApiKey::Produce.code().to_be_bytes())
}

fn partitions(request: &[u8]) -> Result<Vec<i32>> {
    let (header, mut body) = wire::decode_request_header(request)?;
    let request = ProduceRequest::decode(&mut body, header.api_version)?;
    ensure!(request.acks != 0, "a request without an answer cannot be lied about");
    let partitions = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    Ok(partitions.map(|partition| partition.index).collect())
}

/// What the node would answer, had it written the records.
fn acknowledgement(request: &[u8]) -> Result<Vec<u8>> {
    let (header, mut body) = wire::decode_request_header(request)?;
    let request = ProduceRequest::decode(&mut body, header.api_version)?;
    let part = |index| PartitionProduceResponse { index, ..PartitionProduceResponse::default() };
    let topic = |topic: &wire::messages::produce::TopicProduceData<'_>| {
        topic.partition_data.iter().map(|data| part(data.index)).collect::<Vec<_>>()
    };
    let responses = request.topic_data.iter().map(|data| TopicProduceResponse {
        name: data.name,
        topic_id: data.topic_id,
        partition_responses: topic(data),
    });
    let response = ProduceResponse { responses: responses.collect(), ..ProduceResponse::default() };
    let frame = wire::encode_response(header.correlation_id, ApiKey::Produce, header.api_version, &response)?;
    Ok(frame.bytes.get(4..).context("a frame has a size")?.to_vec())
}

fn read_frame(stream: &mut TcpStream) -> Result<Vec<u8>> {
    const FRAME_BYTES_MAX: usize = 100 << 20;
    let mut size = [0; 4];
    stream.read_exact(&mut size)?;
    let mut frame = vec![0; wire::frame_len(size, FRAME_BYTES_MAX)?];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

fn write_frame(stream: &mut TcpStream, frame: &[u8]) -> Result<()> {
    let mut bytes = u32::try_from(frame.len())?.to_be_bytes().to_vec();
    bytes.extend_from_slice(frame);
    Ok(stream.write_all(&bytes)?)
}
