//! A proxy that breaks connections: in the middle of a request, in the middle of an answer, or so that
//! the request arrives and its answer does not.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use anyhow::Result;

use crate::chance::Chance;

/// Stands between clients and a node, until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    node: SocketAddr,
    is_over: AtomicBool,
    /// While it is off, connections live for ever.
    is_cruel: AtomicBool,
    cuts: AtomicU64,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// After so many bytes to the node, the last request half sent.
    CutRequest(u64),
    /// After so many bytes to the client.
    CutAnswer(u64),
    /// After so many bytes to the client nothing more reaches it, though the node gets everything.
    SwallowAnswers(u64),
}

impl Proxy {
    /// On a free port, before the node at this address.
    pub fn start(node: SocketAddr, seed: u64) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        Self::on(listener, node, seed)
    }

    /// On a port that is taken already, so that the node can be told of it first.
    pub fn on(listener: TcpListener, node: SocketAddr, seed: u64) -> Result<Self> {
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            node,
            is_over: AtomicBool::new(false),
            is_cruel: AtomicBool::new(true),
            cuts: AtomicU64::new(0),
        });
        let accepting = shared.clone();
        thread::spawn(move || {
            let mut chance = Chance::new(seed);
            for client in listener.incoming() {
                if accepting.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let fate = Fate::draw(&mut chance);
                if let Ok(client) = client {
                    relay(&accepting, client, fate);
                }
            }
        });
        Ok(Self { address, shared })
    }

    /// Where clients connect to.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether connections are broken.
    pub fn set_cruel(&self, is_cruel: bool) {
        self.shared.is_cruel.store(is_cruel, Ordering::Relaxed);
    }

    /// How many connections it broke.
    pub fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // The listener's thread looks once more.
        let _ = TcpStream::connect(self.address);
    }
}

impl Fate {
    fn draw(chance: &mut Chance) -> Self {
        // A greeting takes a few hundred bytes and is broken now and then as well.
        let after = |chance: &mut Chance, most: u64| chance.pick(100..most);
        match chance.pick(0..3) {
            0 => Self::CutRequest(after(chance, 2_000_000)),
            1 => Self::CutAnswer(after(chance, 5_000)),
            _ => Self::SwallowAnswers(after(chance, 5_000)),
        }
    }
}

fn relay(shared: &Arc<Shared>, client: TcpStream, fate: Fate) {
    let Ok(node) = TcpStream::connect(shared.node) else { return };
    let (Ok(client_too), Ok(node_too)) = (client.try_clone(), node.try_clone()) else { return };
    let _ = (client.set_nodelay(true), node.set_nodelay(true));
    let request_max = match fate {
        Fate::CutRequest(bytes) => Some(bytes),
        Fate::CutAnswer(_) | Fate::SwallowAnswers(_) => None,
    };
    let answer_max = match fate {
        Fate::CutAnswer(bytes) | Fate::SwallowAnswers(bytes) => Some(bytes),
        Fate::CutRequest(_) => None,
    };
    let swallows = matches!(fate, Fate::SwallowAnswers(_));
    let (up, down) = (shared.clone(), shared.clone());
    thread::spawn(move || pump(&up, client, node, request_max, false));
    thread::spawn(move || pump(&down, node_too, client_too, answer_max, swallows));
}

/// Copies one direction until it ends, or until so many bytes went through.
fn pump(shared: &Shared, mut from: TcpStream, mut to: TcpStream, bytes_max: Option<u64>, swallows: bool) {
    let mut buffer = vec![0; 16 << 10];
    let mut copied = 0_u64;
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let is_cruel = shared.is_cruel.load(Ordering::Relaxed);
        let left = bytes_max.filter(|_| is_cruel).map_or(u64::MAX, |max| max.saturating_sub(copied));
        let passed = read.min(usize::try_from(left).unwrap_or(usize::MAX));
        if to.write_all(&buffer[..passed]).is_err() {
            break;
        }
        copied += passed as u64;
        if passed < read {
            shared.cuts.fetch_add(1, Ordering::Relaxed);
            if swallows {
                // The node's answers are read, so that it goes on, and the client gives up waiting.
                let _ = to.shutdown(Shutdown::Both);
                while matches!(from.read(&mut buffer), Ok(1..)) {}
            }
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
