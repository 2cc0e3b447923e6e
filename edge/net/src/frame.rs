//! Frames in: `| length i32 | bytes |`, one after the other, as many at once as the peer likes.
//!
//! One buffer per connection, filled by reads and lent out frame by frame:
//!
//! ```text
//!   |consumed|frame|frame|part of a frame|      room      |
//!            ▲ start                     ▲ len            ▲ capacity
//! ```
//!
//! The buffer doubles when received bytes fill it, up to the frame that is being received: a length
//! that a peer declares but does not send costs nothing. What it holds above 64 KiB is charged to a
//! budget, and given back once the connection is quiet.
//!
//! A peer is judged by a clock that runs only while it is waited for: what a frame waits for us, for
//! memory or for the answers before it, is not its fault.
//!
//! **Invariant:** capacity ≤ max(64 KiB, 2 × the bytes received of one frame).

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::budget::{Charge, MemoryBudget};
use crate::limits::FrameLimits;

/// What a connection starts with: small requests fit, and ten thousand idle connections are 40 MiB.
const CAPACITY_FIRST: usize = 4 << 10;
/// What a connection may hold without asking the budget.
const CAPACITY_FREE: usize = 64 << 10;
/// Less room than this is not worth a read if more is on its way.
const ROOM_MIN: usize = 8 << 10;
/// How long a connection keeps its large buffer between frames: growing anew for each costs copies.
const LARGE_KEPT: Duration = Duration::from_secs(1);
const LENGTH_BYTES: usize = 4;
/// What is read at once of what nobody wants.
const DISCARD_BYTES: usize = 4 << 10;

/// Why no further frame comes.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The peer ended the connection between two frames.
    #[error("closed by the peer")]
    Closed,
    /// The peer ended the connection within a frame.
    #[error("closed by the peer after {received} bytes of a frame")]
    Cut {
        /// How much of the frame had come, with its length.
        received: usize,
    },
    /// Nothing came for too long. The reader may be used on: then the wait begins anew.
    #[error("idle for {0:?}")]
    Idle(Duration),
    /// A frame came too slowly to be honest.
    #[error("{received} bytes of a frame in {elapsed:?} is too slow")]
    TooSlow {
        /// How much of the frame had come, with its length.
        received: usize,
        /// In how long.
        elapsed: Duration,
    },
    /// A frame would be longer than `socket.request.max.bytes`.
    #[error("a frame of {declared} bytes is over the limit of {max}{hint}")]
    TooLarge {
        /// What the peer declared.
        declared: u32,
        /// What is allowed.
        max: u32,
        /// What the bytes look like, for the log; empty if like nothing known.
        hint: &'static str,
    },
    /// The length is negative.
    #[error("a frame of {0} bytes cannot be")]
    Negative(i32),
    /// The socket failed.
    #[error("read: {0}")]
    Io(#[from] io::Error),
}

/// Reads frames from one connection.
///
/// ```text
///   loop { let frame: &[u8] = reader.next().await?; … }
/// ```
#[derive(Debug)]
pub struct FrameReader<S> {
    source: S,
    limits: FrameLimits,
    buffer: Vec<u8>,
    /// The first byte that is not consumed.
    start: usize,
    /// The length of the frame that is lent out, with its prefix; consumed at the next call.
    lent: usize,
    charge: Charge,
    /// Since when a frame is incomplete, by the peer's clock.
    frame_since: Option<Instant>,
    /// When the last byte came, by the peer's clock.
    active: Instant,
    /// Since when the peer is not waited for; of no meaning while it is.
    away_since: Instant,
    /// Fires at or before the nearest deadline; set anew only when it fires or is too late, so that
    /// a busy connection does not touch the timer per frame.
    alarm: Pin<Box<Sleep>>,
}

impl<S: AsyncRead + Unpin> FrameReader<S> {
    /// A reader of a fresh connection. Must be made within a tokio runtime.
    pub fn new(source: S, limits: FrameLimits, budget: &MemoryBudget) -> Self {
        let now = Instant::now();
        Self {
            source,
            alarm: Box::pin(sleep_until(now + limits.idle_max)),
            limits,
            buffer: Vec::new(),
            start: 0,
            lent: 0,
            charge: budget.charge(),
            frame_since: None,
            active: now,
            away_since: now,
        }
    }

    /// The next frame without its length. It is valid until the next call, which consumes it.
    ///
    /// Dropping the future loses nothing. After an error other than [`FrameError::Idle`] the
    /// connection is of no use.
    pub async fn next(&mut self) -> Result<&[u8], FrameError> {
        self.ready().await?;
        self.lent = self.whole_frame()?.unwrap_or(0);
        Ok(&self.buffer[self.start + LENGTH_BYTES..self.start + self.lent])
    }

    /// Waits until a whole frame is there, as [`Self::next`] does, and consumes the one before it.
    pub async fn ready(&mut self) -> Result<(), FrameError> {
        self.consume();
        while self.whole_frame()?.is_none() {
            self.make_room().await?;
            Waiting::of(self).fill().await?;
        }
        self.frame_since = None;
        Ok(())
    }

    /// Consumes the frame that is lent out and gives back the memory that what is left does not need:
    /// for when no frame will be asked for in a while.
    pub fn rest(&mut self) {
        if !self.is_large() {
            return;
        }
        self.forget_consumed();
        self.charge.leave_queue();
        self.buffer.shrink_to(CAPACITY_FIRST);
        self.charge.shrink_to(self.buffer.capacity().saturating_sub(CAPACITY_FREE) as u64);
    }

    /// Reads and forgets what still comes, until the peer ends or the time is over. A socket that is
    /// closed with bytes unread takes back what was sent and not yet taken.
    pub async fn discard(mut self, time_max: Duration) {
        let mut bytes = vec![0; DISCARD_BYTES];
        let all = async { while self.source.read(&mut bytes).await.is_ok_and(|read| read > 0) {} };
        // Either way there is nothing more to do for it.
        let _ = timeout(time_max, all).await;
    }

    /// Whether a whole frame is there, so that [`Self::next`] would not wait.
    pub fn has_frame(&self) -> bool {
        let from = self.start + self.lent;
        let declared = self.buffer.get(from..from + LENGTH_BYTES).and_then(|length| length.try_into().ok());
        declared.is_some_and(|length| {
            usize::try_from(i32::from_be_bytes(length))
                .is_ok_and(|length| self.buffer.len() - from - LENGTH_BYTES >= length)
        })
    }

    /// Bytes that the buffer takes.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    fn received(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// The length of the frame at `start` with its prefix, once the prefix is there.
    fn frame_bytes(&self) -> Result<Option<usize>, FrameError> {
        let Some(Ok(length)) =
            self.buffer.get(self.start..self.start + LENGTH_BYTES).map(<[u8; 4]>::try_from)
        else {
            return Ok(None);
        };
        let declared = i32::from_be_bytes(length);
        let Ok(bytes) = u32::try_from(declared) else { return Err(FrameError::Negative(declared)) };
        if bytes > self.limits.bytes_max {
            return Err(FrameError::TooLarge {
                declared: bytes,
                max: self.limits.bytes_max,
                hint: looks_like(length),
            });
        }
        Ok(Some(LENGTH_BYTES + bytes as usize))
    }

    /// The length of the frame at `start` with its prefix, if all of it is there.
    fn whole_frame(&self) -> Result<Option<usize>, FrameError> {
        Ok(self.frame_bytes()?.filter(|bytes| *bytes <= self.received()))
    }

    fn consume(&mut self) {
        self.start += std::mem::take(&mut self.lent);
    }

    fn forget_consumed(&mut self) {
        self.consume();
        self.buffer.drain(..self.start);
        self.start = 0;
    }

    /// Sees to it that there is room for at least one more byte.
    async fn make_room(&mut self) -> Result<(), FrameError> {
        self.forget_consumed();
        if self.buffer.is_empty() && self.is_large() && self.charge.budget().is_short() {
            self.shrink();
        }
        let frame_bytes = self.frame_bytes()?.unwrap_or(0);
        let capacity = capacity_for(self.buffer.len(), self.buffer.capacity(), frame_bytes);
        if capacity > CAPACITY_FREE {
            self.charge.grow_to((capacity - CAPACITY_FREE) as u64).await;
        }
        self.buffer.reserve_exact(capacity - self.buffer.len());
        Ok(())
    }

    /// Lets the peer's clock go on.
    fn start_clock(&mut self) {
        let now = Instant::now();
        let away = now - self.away_since;
        self.active += away;
        self.frame_since = match self.frame_since {
            Some(since) => Some(since + away),
            None => (!self.buffer.is_empty()).then_some(now),
        };
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<Result<(), FrameError>> {
        let room = pin!(self.source.read_buf(&mut self.buffer));
        if let Poll::Ready(read) = Future::poll(room, context) {
            let bytes = read?;
            return Poll::Ready(if bytes > 0 { self.filled() } else { Err(self.ended()) });
        }
        loop {
            let due = self.due();
            if self.alarm.deadline() > due {
                self.alarm.as_mut().reset(due);
            }
            ready!(Future::poll(self.alarm.as_mut(), context));
            let now = Instant::now();
            if now >= self.due() {
                self.on_deadline(now)?;
            }
            let due = self.due();
            self.alarm.as_mut().reset(due);
        }
    }

    fn filled(&mut self) -> Result<(), FrameError> {
        self.active = Instant::now();
        Ok(())
    }

    fn ended(&self) -> FrameError {
        match self.received() {
            0 => FrameError::Closed,
            received => FrameError::Cut { received },
        }
    }

    /// When to look at this connection again although nothing came.
    fn due(&self) -> Instant {
        match self.frame_since {
            // One that came fast at first is not given hours for its last byte.
            Some(since) => self.frame_due(since).min(self.idle_due()),
            None if self.is_large() => (self.active + LARGE_KEPT).min(self.idle_due()),
            None => self.idle_due(),
        }
    }

    fn idle_due(&self) -> Instant {
        self.active + self.limits.idle_max
    }

    fn frame_due(&self, since: Instant) -> Instant {
        let pace = u64::from(self.limits.bytes_per_second_min.max(1));
        let earned = Duration::from_millis(self.received() as u64 * 1_000 / pace);
        since + self.limits.time_max.max(earned)
    }

    fn on_deadline(&mut self, now: Instant) -> Result<(), FrameError> {
        if let Some(since) = self.frame_since {
            return Err(FrameError::TooSlow { received: self.received(), elapsed: now - since });
        }
        if now >= self.idle_due() {
            self.active = now;
            return Err(FrameError::Idle(self.limits.idle_max));
        }
        self.shrink();
        self.buffer.reserve_exact(CAPACITY_FIRST);
        Ok(())
    }

    fn is_large(&self) -> bool {
        self.buffer.capacity() > CAPACITY_FREE
    }

    fn shrink(&mut self) {
        assert!(self.buffer.is_empty(), "{} bytes would be lost", self.buffer.len());
        self.buffer = Vec::new();
        self.charge.shrink_to(0);
    }
}

/// The peer's clock runs for as long as this lives.
struct Waiting<'a, S>(&'a mut FrameReader<S>);

impl<'a, S: AsyncRead + Unpin> Waiting<'a, S> {
    fn of(reader: &'a mut FrameReader<S>) -> Self {
        reader.start_clock();
        Self(reader)
    }

    async fn fill(self) -> Result<(), FrameError> {
        poll_fn(|context| self.0.poll_fill(context)).await
    }
}

impl<S> Drop for Waiting<'_, S> {
    fn drop(&mut self) {
        self.0.away_since = Instant::now();
    }
}

/// The capacity to read on with, given what is there and how long the frame is (0: not known).
fn capacity_for(len: usize, capacity: usize, frame_bytes: usize) -> usize {
    if capacity == 0 {
        return CAPACITY_FIRST;
    }
    let room = capacity - len;
    let missing = frame_bytes.saturating_sub(len);
    let half_full = len >= capacity / 2;
    if room > 0 && !(half_full && room < missing.min(ROOM_MIN)) {
        return capacity;
    }
    (capacity * 2).min(frame_bytes.max(CAPACITY_FREE)).max(len + 1)
}

/// What a peer that does not speak Kafka sent instead of a length.
fn looks_like(first: [u8; LENGTH_BYTES]) -> &'static str {
    const METHODS: [&[u8; 4]; 8] = [b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"CONN", b"PATC"];
    match first {
        _ if METHODS.contains(&&first) => " (looks like HTTP: the HTTP port is 9644)",
        [0x16, 3, ..] => " (looks like TLS: this port is plaintext)",
        [b'S', b'S', b'H', b'-'] => " (looks like SSH)",
        _ => "",
    }
}

#[cfg(test)]
mod tests;
