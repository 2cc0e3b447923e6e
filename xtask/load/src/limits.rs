//! What the machine can do at all: the same bytes on the same ways, and nothing else.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use crc_fast::CrcAlgorithm;
use rustix::fs::sendfile;
use serde_json::{Value, json};

/// What is received, checked and written at once.
const CHUNK_BYTES: usize = 64 << 10;
/// What is sent from the page cache at once.
const FETCH_BYTES: u64 = 1 << 20;

/// Sends so many bytes through a socket into a new file, back out of it, and from it into another one.
pub(crate) fn run(file: &Path, bytes: u64) -> Result<Value> {
    let bytes = bytes.next_multiple_of(FETCH_BYTES);
    let mut stored = File::options().create(true).truncate(true).read(true).write(true).open(file)?;
    let found = limits(&mut stored, &file.with_extension("copy"), bytes);
    std::fs::remove_file(file)?;
    found
}

fn limits(stored: &mut File, copy: &Path, bytes: u64) -> Result<Value> {
    let written = write_in(stored, bytes)?;
    let read = read_out(stored, bytes, |_| Ok(()))?;
    let mut to = File::create(copy)?;
    let copied = read_out(stored, bytes, |chunk| Ok(to.write_all(chunk)?));
    std::fs::remove_file(copy)?;
    Ok(json!({
        "bytes": bytes,
        "write_bytes_per_sec": written,
        "read_bytes_per_sec": read,
        "copy_bytes_per_sec": copied?,
    }))
}

fn connection() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    Ok((client, listener.accept()?.0))
}

/// Client, socket, checksum, page cache; bytes a second.
fn write_in(file: &mut File, bytes: u64) -> Result<f64> {
    let (mut client, mut server) = connection()?;
    let since = Instant::now();
    std::thread::scope(|scope| {
        let sending = scope.spawn(move || {
            let chunk = vec![b'v'; CHUNK_BYTES];
            (0..bytes / CHUNK_BYTES as u64).try_for_each(|_| client.write_all(&chunk))
        });
        let mut chunk = vec![0; CHUNK_BYTES];
        for _ in 0..bytes / CHUNK_BYTES as u64 {
            server.read_exact(&mut chunk)?;
            std::hint::black_box(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, &chunk));
            file.write_all(&chunk)?;
        }
        sending.join().ok().context("the sender panicked")??;
        Ok(bytes as f64 / since.elapsed().as_secs_f64())
    })
}

/// Page cache, `sendfile`, socket, checksum, and what is done with it; bytes a second.
fn read_out(file: &mut File, bytes: u64, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<f64> {
    let (mut client, server) = connection()?;
    file.rewind()?;
    let since = Instant::now();
    std::thread::scope(|scope| {
        let sending = scope.spawn(move || {
            let mut left = bytes;
            while left > 0 {
                left -= sendfile(&server, &*file, None, FETCH_BYTES.min(left) as usize)? as u64;
            }
            rustix::io::Result::Ok(())
        });
        let mut chunk = vec![0; FETCH_BYTES as usize];
        let mut left = bytes;
        while left > 0 {
            let count = client.read(&mut chunk)?;
            ensure!(count > 0, "the sender ended early");
            std::hint::black_box(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, &chunk[..count]));
            take(&chunk[..count])?;
            left -= count as u64;
        }
        sending.join().ok().context("the sender panicked")??;
        Ok(bytes as f64 / since.elapsed().as_secs_f64())
    })
}
