//! The node under attack, and a socket to attack it with.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base::PartitionIndex;
use conformance::Node;
use records::{Compression, Producer};
use socket2::{Domain, Protocol, Socket, Type};
use vltava_e2e::load;
use vltava_e2e::sample::{Origin, batch};

/// What attackers name.
pub(crate) const TOPIC: &str = "target";
/// The longest frame that the node takes: `socket.request.max.bytes`.
pub(crate) const FRAME_BYTES_MAX: i32 = 100 << 20;
/// How long the node may take over an answer or a close that has no reason to wait.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(10);
/// And over one that has: by chance, bytes name a voter to be added, which is waited for.
const VOTER_MAX: Duration = Duration::from_secs(45);

/// The node under attack.
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) pid: u32,
    source: AtomicU8,
}

impl Target {
    pub(crate) fn new(node: &Node, pid: u32) -> Self {
        Self { address: node.address(), http: node.http_address(), pid, source: AtomicU8::new(0) }
    }

    /// Some megabytes to fetch.
    pub(crate) fn fill(&self) -> Result<()> {
        let mut connection = load::connect(&self.address.to_string())?;
        for number in 0..20 {
            let first = Origin { producer: 0, number: number * 1_000 };
            let batch = batch(first, 1_000, Compression::None, Producer::NONE);
            connection.produce(TOPIC, PartitionIndex(0), 1, &batch)?;
        }
        Ok(())
    }

    /// A connection from one of many addresses: what one address may do is bounded, and it is all of
    /// them together that the node must bear.
    pub(crate) fn connect(&self) -> Result<Attacker> {
        let last = 2 + self.source.fetch_add(1, Ordering::Relaxed) % 200;
        connect(Ipv4Addr::new(127, 0, 0, last), self.address)
    }

    /// Sends bytes and nothing more; what the node answers until it closes the connection.
    pub(crate) fn send_and_see(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut attacker = self.connect()?;
        attacker.send(bytes);
        attacker.until_closed(ANSWER_MAX)
    }

    /// Sends many frames, each on a connection of its own, ends it, and waits for the node to end it, too.
    pub(crate) fn send_each(&self, frames: impl IntoIterator<Item = Vec<u8>>) -> Result<usize> {
        const AT_ONCE: usize = 100;
        let (mut open, mut count) = (Vec::new(), 0);
        for frame in frames {
            let mut attacker = self.connect()?;
            attacker.send(&frame);
            attacker.end();
            open.push((attacker, frame));
            count += 1;
            if open.len() == AT_ONCE {
                see_closed(&mut open)?;
            }
        }
        see_closed(&mut open)?;
        Ok(count)
    }
}

fn see_closed(open: &mut Vec<(Attacker, Vec<u8>)>) -> Result<()> {
    for (mut attacker, frame) in open.drain(..) {
        attacker.until_closed(VOTER_MAX).with_context(|| format!("after {}", hex(&frame)))?;
    }
    Ok(())
}

/// The front of some bytes, for a message.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const SHOWN: usize = 120;
    let shown: String = bytes.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    if bytes.len() > SHOWN { format!("{shown}… ({} bytes)", bytes.len()) } else { shown }
}

fn connect(from: Ipv4Addr, to: SocketAddr) -> Result<Attacker> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect_timeout(&to.into(), ANSWER_MAX).context("the node takes no connection")?;
    let stream = TcpStream::from(socket);
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    Ok(Attacker(stream))
}

/// A socket. The node may close it at any time, so what cannot be sent is not sent.
#[derive(Debug)]
pub(crate) struct Attacker(TcpStream);

impl Attacker {
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes);
    }

    /// Sends until the node takes no more. How much it took.
    pub(crate) fn send_until_full(&mut self, bytes: &[u8], patience: Duration) -> Result<usize> {
        self.0.set_write_timeout(Some(patience))?;
        let mut sent = 0;
        while sent < bytes.len() {
            match self.0.write(&bytes[sent..]) {
                Ok(more) if more > 0 => sent += more,
                _ => break,
            }
        }
        Ok(sent)
    }

    /// Leaves without a word: what is on its way is lost.
    pub(crate) fn reset(self) -> Result<()> {
        socket2::SockRef::from(&self.0).set_linger(Some(Duration::ZERO))?;
        Ok(())
    }

    /// Sends nothing more.
    pub(crate) fn end(&mut self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Whether the node still takes bytes.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    /// Reads one answer, without its length.
    pub(crate) fn answer(&mut self) -> Result<Vec<u8>> {
        const BYTES_MAX: u32 = 64 << 20;
        self.0.set_read_timeout(Some(ANSWER_MAX))?;
        let mut length = [0; 4];
        self.0.read_exact(&mut length).context("no answer")?;
        let length = u32::from_be_bytes(length);
        ensure!(length < BYTES_MAX, "an answer of {length} bytes");
        let mut answer = vec![0; length as usize];
        self.0.read_exact(&mut answer).context("half an answer")?;
        Ok(answer)
    }

    /// Reads until the node closes the connection. What came.
    pub(crate) fn until_closed(&mut self, time_max: Duration) -> Result<Vec<u8>> {
        let deadline = Instant::now() + time_max;
        let (mut all, mut some) = (Vec::new(), [0; 4096]);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), "not closed in {time_max:?}; {} bytes came: {}", all.len(), hex(&all));
            self.0.set_read_timeout(Some(left))?;
            match self.0.read(&mut some) {
                Ok(0) => return Ok(all),
                Ok(read) => all.extend_from_slice(&some[..read]),
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                    return Ok(all);
                }
                // The deadline is looked at above.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A frame: its length and these bytes.
pub(crate) fn frame(bytes: &[u8]) -> Vec<u8> {
    let mut frame = i32::try_from(bytes.len()).expect("a short frame").to_be_bytes().to_vec();
    frame.extend_from_slice(bytes);
    frame
}

/// A request whose header is right: key, version, correlation id 7, no client id, no tags.
pub(crate) fn request(key: i16, version: i16, is_flexible: bool, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(key.to_be_bytes());
    bytes.extend(version.to_be_bytes());
    bytes.extend(7i32.to_be_bytes());
    bytes.extend((-1i16).to_be_bytes());
    bytes.extend(is_flexible.then_some(0));
    bytes.extend(body);
    frame(&bytes)
}
