//! A proxy between clients and a node that keeps what both say, for tests of the codec.
//!
//! ```text
//! client ──▶ proxy ──▶ node        the node is told to advertise the proxy's port
//! ```
//!
//! Of each client, direction, key and version it keeps the shortest frame and the longest that is not too long.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result, ensure};

use crate::matrix;
use crate::record::{hex, unhex};

/// Longer frames make the fixture large and test nothing more.
const KEPT_BYTES_MAX: usize = 4096;
/// What a broker takes by default.
const FRAME_BYTES_MAX: u32 = 100 << 20;
/// Admin calls of Kafka's tools come under many client ids.
const TOOLS: &str = "tools";

/// `request` or `response`, API key, version.
type Kind = (&'static str, i16, i16);
type Kept = BTreeMap<String, BTreeMap<Kind, BTreeSet<Frame>>>;

/// Ordered by length.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Frame(usize, Vec<u8>);

/// What was kept. A clone is the same.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    kept: Arc<Mutex<Kept>>,
}

/// The requests of a connection that have no answer yet, by correlation id.
type Open = Arc<Mutex<BTreeMap<i32, (String, i16, i16)>>>;

impl Capture {
    /// Serves clients on the port, for as long as the process lives.
    pub fn listen(&self, port: u16, node: SocketAddr) -> Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let capture = self.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A client that came too early or late sees a closed connection, as from a node.
                let _ = capture.connect(client, node);
            }
        });
        Ok(())
    }

    fn connect(&self, client: TcpStream, node: SocketAddr) -> Result<()> {
        let node = TcpStream::connect(node)?;
        client.set_nodelay(true)?;
        node.set_nodelay(true)?;
        let open = Open::default();
        for (direction, from, to) in
            [("request", client.try_clone()?, node.try_clone()?), ("response", node, client)]
        {
            let (capture, open) = (self.clone(), Arc::clone(&open));
            thread::spawn(move || {
                // Both directions end with the first that does.
                let _ = capture.pass(direction, &from, &to, &open);
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
        Ok(())
    }

    fn pass(
        &self,
        direction: &'static str,
        mut from: &TcpStream,
        mut to: &TcpStream,
        open: &Open,
    ) -> Result<()> {
        loop {
            let mut size = [0; 4];
            from.read_exact(&mut size)?;
            let bytes = u32::from_be_bytes(size);
            ensure!(bytes <= FRAME_BYTES_MAX, "a frame of {bytes} bytes");
            let mut frame = Vec::new();
            from.take(u64::from(bytes)).read_to_end(&mut frame)?;
            ensure!(frame.len() == bytes as usize, "half a frame");
            if direction == "request" {
                let (client, key, version, correlation) = header(&frame).context("a short header")?;
                lock(open).insert(correlation, (client.clone(), key, version));
                self.keep(client, ("request", key, version), frame.clone());
            } else {
                let correlation = int32(&frame, 0).context("a short header")?;
                if let Some((client, key, version)) = lock(open).remove(&correlation) {
                    self.keep(client, ("response", key, version), frame.clone());
                }
            }
            to.write_all(&size)?;
            to.write_all(&frame)?;
        }
    }

    fn keep(&self, client: String, kind: Kind, frame: Vec<u8>) {
        let mut kept = lock(&self.kept);
        let frames = kept.entry(client).or_default().entry(kind).or_default();
        frames.insert(Frame(frame.len(), frame));
        while frames.len() > 2
            || (frames.len() > 1 && frames.last().is_some_and(|last| last.0 > KEPT_BYTES_MAX))
        {
            // The shortest stays, and the longest that may; whatever lies between or above goes.
            let second = frames.iter().nth(1).cloned();
            let top = frames.last().cloned();
            let goes = if top.as_ref().is_some_and(|top| top.0 > KEPT_BYTES_MAX) { top } else { second };
            match goes {
                Some(frame) => frames.remove(&frame),
                None => return,
            };
        }
    }

    /// Adds what was kept to the files of a folder, one for each client: see `FORMAT.txt` there.
    pub fn write(&self, folder: &Path) -> Result<()> {
        self.read(folder)?;
        for (client, kinds) in lock(&self.kept).iter() {
            let mut text = String::new();
            for ((direction, key, version), frames) in kinds {
                for Frame(_, bytes) in frames.iter().filter(|frame| frame.0 <= KEPT_BYTES_MAX) {
                    text += &format!("{direction} {key} {version} {}\n", hex(bytes));
                }
            }
            fs::write(folder.join(format!("{client}.hex")), text)?;
        }
        Ok(())
    }

    fn read(&self, folder: &Path) -> Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "hex") {
                continue;
            }
            let client = path.file_stem().and_then(|name| name.to_str()).context("a file's name")?;
            for line in fs::read_to_string(&path)?.lines() {
                let words: Vec<_> = line.split(' ').collect();
                let [direction, key, version, frame] = words[..] else { continue };
                let direction = if direction == "request" { "request" } else { "response" };
                let frame = unhex(frame).context("hexadecimal")?;
                self.keep(client.to_owned(), (direction, key.parse()?, version.parse()?), frame);
            }
        }
        Ok(())
    }
}

/// Client, key, version and correlation id. They begin every version of the request header.
///
///   0 ... 2 ....... 4 ........... 8 ........... 10
///   | key | version | correlation | client bytes | client …
fn header(frame: &[u8]) -> Option<(String, i16, i16, i32)> {
    let int16 = |at: usize| Some(i16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
    let client_bytes = usize::try_from(int16(8)?).unwrap_or(0);
    let client = String::from_utf8_lossy(frame.get(10..10 + client_bytes)?).into_owned();
    let is_known = matrix::clients().is_ok_and(|clients| clients.iter().any(|known| known.name == client));
    let client = if is_known { client } else { TOOLS.to_owned() };
    Some((client, int16(0)?, int16(2)?, int32(frame, 4)?))
}

fn int32(frame: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?))
}

fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}
