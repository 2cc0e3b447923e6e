//! Answers out, in the order they were pushed.
//!
//! Bytes of neighbouring answers, and file ranges too short for a call of their own, are gathered
//! into one write. A longer file range leaves by `sendfile`: its pages go from the page cache to the
//! socket without passing through this process. Meanwhile the socket is corked, so that the header of
//! a fetch answer, its records and what follows them share segments: each segment costs about as
//! much as copying 32 KiB.
//!
//! Once the length of an answer is on the wire every byte of it must follow. A file that turned out
//! shorter than its range therefore ends the connection.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use rustix::net::{SendAncillaryBuffer, SendFlags};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::answer::{Answer, FileRange};
use crate::limits::WriteLimits;

/// What one gathered write takes at most: about what a socket takes at once, and what a peer that
/// stops reading makes us hold of file bytes.
const GATHER_BYTES_MAX: usize = 256 << 10;
/// Far below the kernel's 1024; more parts than this fill a socket buffer anyway.
const GATHER_PARTS_MAX: usize = 64;
/// What one `sendfile` takes at most: how long the other connections of the thread wait for their turn.
const SENDFILE_BYTES_MAX: usize = 256 << 10;

/// Why answers cannot be written any more.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The peer takes nothing.
    #[error("the peer took no byte for {0:?}")]
    Stalled(Duration),
    /// The file is shorter than the range that was promised.
    #[error("{file} ends {missing} bytes before the range that is being sent")]
    Short {
        /// Which file.
        file: String,
        /// How many bytes are not there.
        missing: u32,
    },
    /// The file cannot be read.
    #[error("read of a range of {file} that is being sent: {source}")]
    File {
        /// Which file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// The socket failed.
    #[error("write: {0}")]
    Io(#[from] io::Error),
}

/// Writes answers to one connection.
#[derive(Debug)]
pub struct AnswerWriter {
    socket: OwnedWriteHalf,
    limits: WriteLimits,
    pieces: VecDeque<Piece>,
    bytes_waiting: u64,
    /// Whether the kernel holds back segments that are not full.
    corked: bool,
    /// Since when the peer takes nothing.
    stalled_since: Option<Instant>,
    alarm: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
enum Piece {
    Bytes(Bytes),
    File(FileRange),
}

enum Step {
    Gathered(usize),
    SentFile(usize),
}

/// How much of a connection the peer has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HangUp {
    /// It sends nothing more, but may take answers.
    Sending,
    /// It is gone.
    Whole,
}

impl AnswerWriter {
    /// A writer to a fresh connection.
    pub fn new(socket: OwnedWriteHalf, limits: WriteLimits) -> Self {
        Self {
            socket,
            limits,
            pieces: VecDeque::new(),
            bytes_waiting: 0,
            corked: false,
            stalled_since: None,
            alarm: None,
        }
    }

    /// Puts an answer behind those that wait. Nothing is sent before [`Self::flush`].
    pub fn push(&mut self, answer: Answer) {
        self.bytes_waiting += answer.len();
        let mut bytes = Bytes::from(answer.bytes);
        let mut sent = 0;
        for (place, range) in answer.files {
            assert!(place >= sent && place - sent <= bytes.len(), "file range at {place}, after {sent}");
            self.push_bytes(bytes.split_to(place - sent));
            sent = place;
            if range.len > 0 {
                self.pieces.push_back(Piece::File(range));
            }
        }
        self.push_bytes(bytes);
    }

    /// Whether all is sent.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// How many bytes wait to be sent.
    pub fn bytes_waiting(&self) -> u64 {
        self.bytes_waiting
    }

    /// How many bytes of memory an answer takes while it waits to be sent: its own, and those of file
    /// ranges that are read to be gathered.
    pub fn memory_of(&self, answer: &Answer) -> u64 {
        let read =
            answer.files.iter().map(|(_, range)| range).filter(|range| !self.leaves_by_sendfile(range));
        let read: u64 = read.map(|range| u64::from(range.len)).sum();
        let pieces = answer.files.len() * 2 * size_of::<Piece>();
        (answer.bytes.capacity() + pieces) as u64 + read.min(GATHER_BYTES_MAX as u64)
    }

    /// Waits until the peer has ended the connection, for those who do not read from it: bytes that it
    /// sent before stay where they are.
    pub async fn hung_up(&self) -> HangUp {
        // A socket has no urgent bytes that we would ask for, so what ends this wait is the end itself.
        match self.socket.as_ref().ready(Interest::PRIORITY | Interest::ERROR).await {
            Ok(ready) if !ready.is_error() => HangUp::Sending,
            _ => HangUp::Whole,
        }
    }

    /// Sends all that waits. Dropping the future loses nothing: a later call goes on where it was.
    pub async fn flush(&mut self) -> Result<(), WriteError> {
        if !self.corked && self.has_sendfile() {
            self.cork(true);
        }
        while !self.pieces.is_empty() {
            self.read_short_ranges()?;
            let step = poll_fn(|context| self.poll_step(context)).await?;
            self.stalled_since = None;
            self.advance(step)?;
            if !self.pieces.is_empty() {
                // Else a peer that takes bytes as fast as they are sent has the thread until it has them all.
                tokio::task::yield_now().await;
            }
        }
        if self.corked {
            self.cork(false);
        }
        Ok(())
    }

    /// Pushes an answer and sends all that waits.
    pub async fn write(&mut self, answer: Answer) -> Result<(), WriteError> {
        self.push(answer);
        self.flush().await
    }

    fn push_bytes(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.pieces.push_back(Piece::Bytes(bytes));
        }
    }

    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Result<Step, WriteError>> {
        loop {
            match self.socket.as_ref().poll_write_ready(context) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => {
                    ready!(self.poll_stalled(context));
                    return Poll::Ready(Err(WriteError::Stalled(self.limits.stall_max)));
                }
            }
            match self.step() {
                Err(WriteError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(WriteError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return Poll::Ready(done),
            }
        }
    }

    /// Ready when the peer has taken nothing for too long.
    fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let due = *self.stalled_since.get_or_insert_with(Instant::now) + self.limits.stall_max;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(due)));
        loop {
            ready!(Future::poll(alarm.as_mut(), context));
            if alarm.deadline() >= due {
                return Poll::Ready(());
            }
            alarm.as_mut().reset(due);
        }
    }

    /// One system call's worth.
    fn step(&self) -> Result<Step, WriteError> {
        let socket = self.socket.as_ref();
        match self.pieces.front() {
            Some(Piece::File(range)) => send_file(socket, range).map(Step::SentFile),
            _ => self.gather(socket).map(Step::Gathered),
        }
    }

    fn gather(&self, socket: &TcpStream) -> Result<usize, WriteError> {
        let mut parts = Vec::with_capacity(self.pieces.len().min(GATHER_PARTS_MAX));
        let (mut gathered, mut is_cut) = (0, false);
        for piece in self.pieces.iter().take(GATHER_PARTS_MAX) {
            let Piece::Bytes(bytes) = piece else { break };
            let part = &bytes[..bytes.len().min(GATHER_BYTES_MAX - gathered)];
            parts.push(IoSlice::new(part));
            gathered += part.len();
            is_cut = part.len() < bytes.len();
            if gathered == GATHER_BYTES_MAX {
                break;
            }
        }
        let mut flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        if is_cut || parts.len() < self.pieces.len() {
            flags |= SendFlags::MORE;
        }
        let sent = socket.try_io(Interest::WRITABLE, || {
            Ok(rustix::net::sendmsg(socket, &parts, &mut SendAncillaryBuffer::default(), flags)?)
        })?;
        Ok(sent)
    }

    fn advance(&mut self, step: Step) -> Result<(), WriteError> {
        match step {
            Step::Gathered(mut sent) => {
                self.bytes_waiting -= sent as u64;
                while let Some(Piece::Bytes(bytes)) = self.pieces.front_mut() {
                    let taken = sent.min(bytes.len());
                    bytes.advance(taken);
                    sent -= taken;
                    if !bytes.is_empty() {
                        break;
                    }
                    self.pieces.pop_front();
                }
            }
            Step::SentFile(sent) => {
                let Some(Piece::File(range)) = self.pieces.front_mut() else { return Ok(()) };
                if sent == 0 {
                    return Err(cut_short(range, range.len));
                }
                let sent = u32::try_from(sent).expect("at most a range");
                self.bytes_waiting -= u64::from(sent);
                range.position += u64::from(sent);
                range.len -= sent;
                if range.len == 0 {
                    self.pieces.pop_front();
                }
            }
        }
        Ok(())
    }

    /// Turns the file ranges that the next write can gather into bytes.
    fn read_short_ranges(&mut self) -> Result<(), WriteError> {
        let mut gathered = 0;
        let mut index = 0;
        while index < self.pieces.len().min(GATHER_PARTS_MAX) && gathered < GATHER_BYTES_MAX {
            gathered += match &self.pieces[index] {
                Piece::Bytes(bytes) => bytes.len(),
                Piece::File(range) if self.leaves_by_sendfile(range) => return Ok(()),
                Piece::File(_) => self.read_range(index)?,
            };
            index += 1;
        }
        Ok(())
    }

    fn has_sendfile(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::File(range) if self.leaves_by_sendfile(range)))
    }

    fn cork(&mut self, corked: bool) {
        // Where it fails, the same bytes leave in more segments.
        let _ = rustix::net::sockopt::set_tcp_cork(self.socket.as_ref(), corked);
        self.corked = corked;
    }

    fn leaves_by_sendfile(&self, range: &FileRange) -> bool {
        range.len >= self.limits.sendfile_bytes_min && range.file.descriptor().is_some()
    }

    /// Replaces the range at `index`, or the first part of a long one, by its bytes.
    fn read_range(&mut self, index: usize) -> Result<usize, WriteError> {
        let Piece::File(range) = &mut self.pieces[index] else { return Ok(0) };
        let mut buffer = vec![0; (range.len as usize).min(GATHER_BYTES_MAX)];
        let read =
            range.file.read_at(&mut buffer, range.position).map_err(|source| unreadable(range, source))?;
        if read < buffer.len() {
            let missing = range.len - u32::try_from(read).unwrap_or(0);
            return Err(cut_short(range, missing));
        }
        range.position += read as u64;
        range.len -= u32::try_from(read).expect("at most a range");
        let done = range.len == 0;
        let bytes = Piece::Bytes(buffer.into());
        if done {
            self.pieces[index] = bytes;
        } else {
            self.pieces.insert(index, bytes);
        }
        Ok(read)
    }
}

fn send_file(socket: &TcpStream, range: &FileRange) -> Result<usize, WriteError> {
    let descriptor = range.file.descriptor().expect("only a range with a descriptor is at the front");
    // SAFETY: `SendFile` promises that the number stays open while the object lives, and `range`
    // holds the object for longer than this call.
    let file = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let mut position = range.position;
    let count = (range.len as usize).min(SENDFILE_BYTES_MAX);
    let sent = socket
        .try_io(Interest::WRITABLE, || Ok(rustix::fs::sendfile(socket, file, Some(&mut position), count)?));
    sent.map_err(|error| {
        if is_of_socket(&error) {
            return WriteError::Io(error);
        }
        unreadable(range, error)
    })
}

fn cut_short(range: &FileRange, missing: u32) -> WriteError {
    range.file.on_unreadable();
    WriteError::Short { file: range.name(), missing }
}

fn unreadable(range: &FileRange, source: io::Error) -> WriteError {
    range.file.on_unreadable();
    WriteError::File { file: range.name(), source }
}

/// Whether it is the socket that failed and not the file, of the two that a `sendfile` touches.
fn is_of_socket(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    let kinds = [
        Kind::WouldBlock,
        Kind::Interrupted,
        Kind::BrokenPipe,
        Kind::ConnectionReset,
        Kind::ConnectionAborted,
        Kind::NotConnected,
        Kind::TimedOut,
        Kind::HostUnreachable,
        Kind::NetworkUnreachable,
        Kind::NetworkDown,
        Kind::OutOfMemory,
    ];
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}

#[cfg(test)]
mod tests;
