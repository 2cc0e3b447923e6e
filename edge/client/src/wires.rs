//! Sockets: performs what a machine of `client_core` wants done with its connections.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::ops::RangeInclusive;
use std::sync::Arc;

use client_core::{Address, ConnectionId, NetEffect, Outgoing};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use wire::{Part, frame_len};

/// What happened on a connection.
#[derive(Debug)]
pub(crate) enum Event {
    /// It stands.
    Connected(ConnectionId),
    /// It ended, or could not be opened.
    Closed(ConnectionId),
    /// A frame came; without its size.
    Frame(ConnectionId, Vec<u8>),
    /// A request without an answer went out.
    Written(ConnectionId),
}

/// An answer longer than this is none.
const FRAME_BYTES_MAX: usize = 256 << 20;
/// What is read at once: a buffer grows with what arrives, not with what is declared.
const READ_BYTES: usize = 64 << 10;
/// The kernel takes no more parts than this in one call.
const PARTS_MAX: usize = 1_024;

/// Buffers of large frames, for the next ones: fresh memory costs several times what filling it does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spare(Arc<Mutex<Spares>>);

#[derive(Debug, Default)]
struct Spares {
    frames: Vec<Vec<u8>>,
    /// What they take together.
    bytes: usize,
}

/// As many as are on their way or being read at once, with a few brokers.
const SPARE_MAX: usize = 8;
/// A smaller one is cheap, and would be in the way of a larger; a larger one is rare, and would be kept for
/// nothing.
const SPARE_BYTES: RangeInclusive<usize> = READ_BYTES..=16 << 20;
/// What all of them may take together.
const SPARE_BYTES_MAX: usize = 64 << 20;

impl Spare {
    pub(crate) fn give_back(&self, mut frame: Vec<u8>) {
        let bytes = frame.capacity();
        if !SPARE_BYTES.contains(&bytes) {
            return;
        }
        frame.clear();
        let mut spare = self.0.lock();
        if spare.frames.len() < SPARE_MAX && spare.bytes + bytes <= SPARE_BYTES_MAX {
            spare.bytes += bytes;
            spare.frames.push(frame);
        }
    }

    fn take(&self) -> Vec<u8> {
        let mut spare = self.0.lock();
        let frame = spare.frames.pop().unwrap_or_default();
        spare.bytes -= frame.capacity();
        frame
    }
}

/// The connections of one client, each with a task that reads and one that writes.
pub(crate) struct Wires {
    open: HashMap<ConnectionId, Wire>,
    // Bounded by what was asked for: an event is an answer, or the end of something the machine began.
    events_out: UnboundedSender<Event>,
    events: UnboundedReceiver<Event>,
    spare: Spare,
}

struct Wire {
    // Bounded by the requests that the machine lets be in flight.
    out: UnboundedSender<Outgoing>,
    task: JoinHandle<()>,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Wires {
    pub(crate) fn new(spare: Spare) -> Self {
        let (events_out, events) = unbounded_channel();
        Self { open: HashMap::new(), events_out, events, spare }
    }

    /// Performs an effect. Must run within a `LocalSet`.
    pub(crate) fn perform(&mut self, effect: NetEffect) {
        match effect {
            NetEffect::Connect { connection, address } => {
                let (out, requests) = unbounded_channel();
                let (events, spare) = (self.events_out.clone(), self.spare.clone());
                let task = tokio::task::spawn_local(run(connection, address, requests, events, spare));
                self.open.insert(connection, Wire { out, task });
            }
            NetEffect::Send { connection, outgoing } => {
                if let Some(wire) = self.open.get(&connection) {
                    // One that just ended is about to say so.
                    let _ = wire.out.send(outgoing);
                }
            }
            NetEffect::Close { connection } => {
                self.open.remove(&connection);
            }
        }
    }

    /// What happened next.
    pub(crate) async fn next(&mut self) -> Event {
        let event = self.events.recv().await.expect("a sender is kept here");
        if let Event::Closed(connection) = event {
            self.open.remove(&connection);
        }
        event
    }
}

/// One connection, from its opening to its end.
async fn run(
    connection: ConnectionId,
    address: Address,
    requests: UnboundedReceiver<Outgoing>,
    events: UnboundedSender<Event>,
    spare: Spare,
) {
    let ended = async {
        let stream = TcpStream::connect((&*address.host, address.port)).await?;
        stream.set_nodelay(true)?;
        let _ = events.send(Event::Connected(connection));
        let (reader, writer) = stream.into_split();
        tokio::select! {
            ended = read_frames(reader, connection, &events, &spare) => ended,
            ended = write_frames(writer, requests, connection, &events) => ended,
        }
    };
    // Why it ended is no help to the machine, which tries again whatever it was.
    let _: io::Result<()> = ended.await;
    let _ = events.send(Event::Closed(connection));
}

async fn read_frames(
    mut reader: OwnedReadHalf,
    connection: ConnectionId,
    events: &UnboundedSender<Event>,
    spare: &Spare,
) -> io::Result<()> {
    let mut buffer: Vec<u8> = Vec::with_capacity(READ_BYTES);
    loop {
        if reader.read_buf(&mut buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut start = 0;
        while let Some(prefix) = buffer[start..].first_chunk() {
            let len = frame_len(*prefix, FRAME_BYTES_MAX).map_err(io::Error::other)?;
            let come = &buffer[start + 4..];
            let frame = match come.get(..len) {
                Some(frame) => frame.to_vec(),
                // The rest of a small one comes into the same buffer.
                None if len <= READ_BYTES / 2 => break,
                None => {
                    let mut frame = spare.take();
                    frame.extend_from_slice(come);
                    read_rest(&mut reader, len, &mut frame).await?;
                    buffer.truncate(start);
                    let _ = events.send(Event::Frame(connection, frame));
                    break;
                }
            };
            let _ = events.send(Event::Frame(connection, frame));
            start += 4 + len;
        }
        buffer.drain(..start);
        buffer.reserve(READ_BYTES / 2);
    }
}

/// Reads a large frame straight to where it stays. The buffer grows with what arrives, not with what is
/// declared, and one that was used before seldom has to.
async fn read_rest(reader: &mut OwnedReadHalf, len: usize, frame: &mut Vec<u8>) -> io::Result<()> {
    while frame.len() < len {
        if frame.len() == frame.capacity() {
            frame.reserve(frame.len().max(READ_BYTES).min(len - frame.len()));
        }
        let left = (len - frame.len()) as u64;
        if (&mut *reader).take(left).read_buf(frame).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

async fn write_frames(
    mut writer: OwnedWriteHalf,
    mut requests: UnboundedReceiver<Outgoing>,
    connection: ConnectionId,
    events: &UnboundedSender<Event>,
) -> io::Result<()> {
    while let Some(outgoing) = requests.recv().await {
        write(&mut writer, &outgoing).await?;
        if outgoing.is_unanswered {
            let _ = events.send(Event::Written(connection));
        }
    }
    // Whoever sends is gone: the connection is not wanted any more.
    Ok(())
}

async fn write(writer: &mut OwnedWriteHalf, outgoing: &Outgoing) -> io::Result<()> {
    let mut fills = outgoing.fills.iter();
    let parts = outgoing.frame.parts().map(|part| match part {
        Part::Bytes(bytes) => IoSlice::new(bytes),
        Part::Hole(_) => IoSlice::new(fills.next().expect("each hole has its batch").bytes()),
    });
    let mut parts: Vec<IoSlice<'_>> = parts.collect();
    let mut left = &mut parts[..];
    while !left.is_empty() {
        let count = left.len().min(PARTS_MAX);
        let written = writer.write_vectored(&left[..count]).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut left, written);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_frames_are_few_and_of_use() {
        let spare = Spare::default();
        spare.give_back(Vec::with_capacity(READ_BYTES - 1));
        spare.give_back(Vec::with_capacity((16 << 20) + 1));
        assert_eq!(spare.take().capacity(), 0, "neither is worth it");
        for _ in 0..10 {
            spare.give_back(Vec::with_capacity(15 << 20));
        }
        let kept: Vec<_> = (0..10).map(|_| spare.take()).filter(|frame| frame.capacity() > 0).collect();
        assert_eq!(kept.len(), 4, "64 MiB in all");
        kept.into_iter().for_each(|frame| spare.give_back(frame));
        assert!(spare.take().capacity() > 0, "what was taken makes room");
    }
}
