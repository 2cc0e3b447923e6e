//! Frames out of bytes that come in any pieces, and the headers in them.
//!
//! What the reader of the broker makes of a stream must be what its size prefixes say, however it is
//! cut on its way, and cost no more than what has come.
#![no_main]

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use libfuzzer_sys::fuzz_target;
use net::{FrameError, FrameLimits, FrameReader, MemoryBudget};
use tokio::io::{AsyncRead, ReadBuf};
use vltava_fuzz::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

const FRAME_BYTES_MAX: u32 = 1 << 20;
/// What a reader may take, whatever has come.
const CAPACITY_FREE: usize = 64 << 10;

/// A runtime, a reader, and what decoding takes.
const BYTES_MAX: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    ALLOCATOR.within(BYTES_MAX + 16 * bytes.len(), || examine(bytes));
});

fn examine(bytes: &[u8]) {
    let Some((count, rest)) = bytes.split_first() else { return };
    let (cuts, stream) = rest.split_at(usize::from(*count).min(rest.len()));
    let (frames, is_bad) = split(stream);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let budget = MemoryBudget::new(1 << 30);
        let limits = FrameLimits { bytes_max: FRAME_BYTES_MAX, ..FrameLimits::default() };
        let mut reader = FrameReader::new(Pieces { stream, cuts, next: 0 }, limits, &budget);
        for frame in frames {
            assert_eq!(reader.next().await.expect("a frame is there"), frame);
            assert!(reader.capacity() <= CAPACITY_FREE.max(2 * stream.len()), "{}", reader.capacity());
            decode(frame);
        }
        let end = reader.next().await.map(<[u8]>::len).expect_err("the stream has ended");
        let says_bad = matches!(end, FrameError::Negative(_) | FrameError::TooLarge { .. });
        assert_eq!(says_bad, is_bad, "{end}");
        drop(reader);
        assert_eq!(budget.used(), 0);
    });
}

/// The whole frames at the front of a stream, and whether a size that cannot be comes behind them.
fn split(mut stream: &[u8]) -> (Vec<&[u8]>, bool) {
    let mut frames = Vec::new();
    while let Some((prefix, behind)) = stream.split_first_chunk::<4>() {
        let Ok(len) = wire::frame_len(*prefix, FRAME_BYTES_MAX as usize) else { return (frames, true) };
        let Some((frame, after)) = behind.split_at_checked(len) else { break };
        frames.push(frame);
        stream = after;
    }
    (frames, false)
}

fn decode(frame: &[u8]) {
    if let Ok((header, body)) = wire::decode_request_header(frame) {
        assert!(body.position() + body.remaining().len() == frame.len(), "{header:?}");
    }
    for key in wire::ApiKey::ALL {
        let _ = wire::decode_response_header(frame, *key, *key.versions().end());
    }
}

/// A stream that comes in pieces of these lengths; at a length of 0 its reader has to wait.
struct Pieces<'a> {
    stream: &'a [u8],
    cuts: &'a [u8],
    next: usize,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let cut = self.cuts.get(self.next).copied().unwrap_or(u8::MAX);
        self.next += 1;
        if cut == 0 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let (now, later) = self.stream.split_at(usize::from(cut).min(self.stream.len()).min(into.remaining()));
        into.put_slice(now);
        self.stream = later;
        Poll::Ready(Ok(()))
    }
}
