//! The ways that bytes take between a client and the files of its brokers, with nothing else on them.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use records::crc32c;
use rustix::fs::{OFlags, sendfile};

use super::disk;

/// What is received, checked and written at once.
const CHUNK_BYTES: usize = 64 << 10;
/// What is sent from the page cache at once.
const FETCH_BYTES: u64 = 1 << 20;

/// Bytes a second on each way, of all streams at once.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Streams {
    /// Through a socket.
    pub loopback_bytes_per_sec: f64,
    /// Through a socket and a checksum into a file.
    pub write_bytes_per_sec: f64,
    /// Out of a file through a socket and a checksum.
    pub read_bytes_per_sec: f64,
    /// Out of a file through a socket and a checksum into another file.
    pub copy_bytes_per_sec: f64,
}

impl Streams {
    /// Of each way the better of two tries.
    #[must_use]
    pub fn best(&self, other: &Self) -> Self {
        Self {
            loopback_bytes_per_sec: self.loopback_bytes_per_sec.max(other.loopback_bytes_per_sec),
            write_bytes_per_sec: self.write_bytes_per_sec.max(other.write_bytes_per_sec),
            read_bytes_per_sec: self.read_bytes_per_sec.max(other.read_bytes_per_sec),
            copy_bytes_per_sec: self.copy_bytes_per_sec.max(other.copy_bytes_per_sec),
        }
    }
}

/// The files of one stream: what is written, and what it is copied to.
struct Files {
    stored: File,
    copy: File,
}

/// One end of a stream.
type End = fn(&Files, TcpStream, u64) -> Result<()>;

/// Measures each way with so many bytes a stream, and so many streams at once; files are in this directory.
pub fn streams(dir: &Path, bytes: u64, pairs: usize) -> Result<Streams> {
    let bytes = bytes.next_multiple_of(FETCH_BYTES);
    let open =
        || disk::unnamed(dir, OFlags::empty()).with_context(|| format!("cannot write to {}", dir.display()));
    let files = (0..pairs).map(|_| Ok(Files { stored: open()?, copy: open()? }));
    let files = files.collect::<Result<Vec<_>>>()?;
    Ok(Streams {
        loopback_bytes_per_sec: through(&files, bytes, send, receive)?,
        write_bytes_per_sec: through(&files, bytes, send, store)?,
        read_bytes_per_sec: through(&files, bytes, send_stored, check)?,
        copy_bytes_per_sec: through(&files, bytes, send_stored, copy)?,
    })
}

/// Bytes a second that come through; each end has a thread of its own.
fn through(files: &[Files], bytes: u64, give: End, take: End) -> Result<f64> {
    let connections = files.iter().map(|_| connection()).collect::<Result<Vec<_>>>()?;
    let since = Instant::now();
    thread::scope(|scope| {
        let mut ends = Vec::new();
        for (files, (client, server)) in files.iter().zip(connections) {
            ends.push(scope.spawn(move || give(files, client, bytes)));
            ends.push(scope.spawn(move || take(files, server, bytes)));
        }
        let join = |end: thread::ScopedJoinHandle<'_, Result<()>>| {
            end.join().map_err(|_| anyhow!("an end of a stream panicked"))?
        };
        ends.into_iter().try_for_each(join)
    })?;
    Ok((bytes * files.len() as u64) as f64 / since.elapsed().as_secs_f64())
}

fn connection() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    Ok((client, listener.accept()?.0))
}

fn send(_: &Files, mut to: TcpStream, bytes: u64) -> Result<()> {
    let chunk = vec![b'v'; CHUNK_BYTES];
    (0..bytes / CHUNK_BYTES as u64).try_for_each(|_| to.write_all(&chunk))?;
    Ok(())
}

fn send_stored(files: &Files, to: TcpStream, bytes: u64) -> Result<()> {
    (&files.stored).rewind()?;
    let mut left = bytes;
    while left > 0 {
        left -= sendfile(&to, &files.stored, None, FETCH_BYTES.min(left) as usize)? as u64;
    }
    Ok(())
}

fn receive(_: &Files, from: TcpStream, bytes: u64) -> Result<()> {
    each(from, bytes, CHUNK_BYTES, |chunk| {
        std::hint::black_box(chunk);
        Ok(())
    })
}

fn store(files: &Files, from: TcpStream, bytes: u64) -> Result<()> {
    each(from, bytes, CHUNK_BYTES, |chunk| {
        std::hint::black_box(crc32c(chunk));
        Ok((&files.stored).write_all(chunk)?)
    })
}

fn check(_: &Files, from: TcpStream, bytes: u64) -> Result<()> {
    each(from, bytes, FETCH_BYTES as usize, |chunk| {
        std::hint::black_box(crc32c(chunk));
        Ok(())
    })
}

fn copy(files: &Files, from: TcpStream, bytes: u64) -> Result<()> {
    each(from, bytes, FETCH_BYTES as usize, |chunk| {
        std::hint::black_box(crc32c(chunk));
        Ok((&files.copy).write_all(chunk)?)
    })
}

/// Has all that comes taken, in pieces of so many bytes at most.
fn each(
    mut from: TcpStream,
    bytes: u64,
    piece: usize,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let (mut chunk, mut left) = (vec![0; piece], bytes);
    while left > 0 {
        let count = from.read(&mut chunk)?;
        ensure!(count > 0, "the sender ended early");
        take(&chunk[..count])?;
        left -= count as u64;
    }
    Ok(())
}
