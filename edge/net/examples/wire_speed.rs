//! Measures what the limits in this crate were chosen by: round trips, and file ranges by `sendfile`
//! against reading and writing them.
//!
//! The server has one thread and the client another, so on two cores the numbers to compare are the
//! CPU time of the server, not its rate.
//!
//! ```text
//!   cargo run --release -p vltava-net --example wire_speed
//! ```

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use vltava_net::{
    Answer, AnswerWriter, Connection, FileRange, FrameLimits, FrameReader, IoThreads, Listener,
    ListenerLimits, MemoryBudget, SendFile, StopSwitch, WriteLimits,
};

/// One round; of several the cheapest counts, for a shared machine only ever adds.
const MEASURED: Duration = Duration::from_millis(200);
const ROUNDS: usize = 5;
const FILE_BYTES: u64 = 64 << 20;

#[derive(Debug)]
struct Segment(File);

impl SendFile for Segment {
    fn descriptor(&self) -> Option<i32> {
        Some(self.0.as_raw_fd())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_exact_at(buffer, position).map(|()| buffer.len())
    }

    fn on_unreadable(&self) {}
}

/// A request: how many ranges of how many bytes to answer with.
fn request(ranges: u32, len: u32) -> Vec<u8> {
    [&8u32.to_be_bytes(), &ranges.to_be_bytes(), &len.to_be_bytes()].map(|part| part.to_vec()).concat()
}

async fn connection(connection: Connection, file: Arc<dyn SendFile>, limits: WriteLimits) {
    let _seat = connection.seat;
    let (source, sink) = connection.stream.into_split();
    let budget = MemoryBudget::new(1 << 30);
    let mut reader = FrameReader::new(source, FrameLimits::default(), &budget);
    let mut writer = AnswerWriter::new(sink, limits);
    let mut position = 0;
    while let Ok(frame) = reader.next().await {
        let number = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().expect("four bytes"));
        let (ranges, len) = (number(0), number(4));
        let mut answer = Answer::of(vec![0; 64 * (ranges as usize + 1)]);
        for index in 0..ranges as usize {
            position = (position + u64::from(len)) % (FILE_BYTES - u64::from(len));
            answer.files.push((64 * (index + 1), FileRange { file: file.clone(), position, len }));
        }
        writer.push(answer);
        if !reader.has_frame() && writer.flush().await.is_err() {
            return;
        }
    }
}

/// CPU time of the I/O thread.
fn cpu(io: &IoThreads) -> Duration {
    let (sender, receiver) = mpsc::channel();
    io.spawn_on(0, async move {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a Linux kernel");
        let ns = text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("nanoseconds");
        sender.send(Duration::from_nanos(ns)).expect("somebody waits");
    });
    receiver.recv().expect("the thread runs")
}

struct Measured {
    requests: u64,
    bytes: u64,
    took: Duration,
    cpu: Duration,
}

fn measure(
    address: SocketAddr,
    io: &IoThreads,
    pipelined: usize,
    ranges: u32,
    len: u32,
) -> io::Result<Measured> {
    let mut rounds = (0..ROUNDS).map(|_| measure_once(address, io, pipelined, ranges, len));
    let first = rounds.next().expect("at least one round")?;
    rounds.try_fold(first, |best, round| {
        let round = round?;
        let cheaper =
            round.cpu.as_nanos() * u128::from(best.bytes) < best.cpu.as_nanos() * u128::from(round.bytes);
        Ok(if cheaper { round } else { best })
    })
}

fn measure_once(
    address: SocketAddr,
    io: &IoThreads,
    pipelined: usize,
    ranges: u32,
    len: u32,
) -> io::Result<Measured> {
    let mut client = TcpStream::connect(address)?;
    client.set_nodelay(true)?;
    let all = request(ranges, len).repeat(pipelined);
    let answer = (64 * (u64::from(ranges) + 1) + u64::from(ranges) * u64::from(len)) * pipelined as u64;
    let mut buffer = vec![0; 1 << 20];
    let (began, cpu_before, mut rounds) = (Instant::now(), cpu(io), 0);
    while began.elapsed() < MEASURED {
        client.write_all(&all)?;
        let mut left = answer;
        while left > 0 {
            let at_most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            left -= client.read(&mut buffer[..at_most])? as u64;
        }
        rounds += 1;
    }
    let (took, cpu) = (began.elapsed(), cpu(io).saturating_sub(cpu_before));
    Ok(Measured { requests: rounds * pipelined as u64, bytes: rounds * answer, took, cpu })
}

/// Serves on loopback while `client` runs.
fn with_server(
    limits: WriteLimits,
    client: impl FnOnce(SocketAddr, &IoThreads) -> io::Result<()>,
) -> io::Result<()> {
    let path = std::env::temp_dir().join(format!("wire_speed.{}", std::process::id()));
    std::fs::write(&path, vec![7; FILE_BYTES as usize])?;
    let file: Arc<dyn SendFile> = Arc::new(Segment(File::open(&path)?));
    std::fs::remove_file(&path)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let io = Arc::new(IoThreads::start(1)?);
    let switch = StopSwitch::new();
    let _within = runtime.enter();
    let listener =
        Listener::bind(([127, 0, 0, 1], 0).into(), ListenerLimits::default()).map_err(io::Error::other)?;
    let address = listener.address();
    let serve = listener.serve(io.clone(), switch.watch(), move |accepted| {
        connection(accepted, file.clone(), limits.clone())
    });
    std::thread::scope(|scope| {
        scope.spawn(|| runtime.block_on(serve));
        let done = client(address, &io);
        switch.stop();
        done
    })
}

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "round trips of 12 bytes in, 64 out")?;
    with_server(WriteLimits::default(), |address, io| {
        for pipelined in [1, 8, 64] {
            let m = measure(address, io, pipelined, 0, 0)?;
            let rate = m.requests as f64 / m.took.as_secs_f64();
            let cpu_ns = m.cpu.as_nanos() / u128::from(m.requests.max(1));
            writeln!(out, "{pipelined:>9} at once {rate:>10.0}/s {cpu_ns:>8} ns of CPU each")?;
        }
        Ok(())
    })?;
    for (ranges, pipelined) in [(1, 1), (1, 8), (6, 1)] {
        writeln!(out, "{pipelined} at once, answers with {ranges} file ranges, GB/s and CPU ns per KiB")?;
        writeln!(out, "{:>9} {:>17} {:>17}", "bytes", "read and write", "sendfile")?;
        for len in [1, 4, 16, 32, 64, 96, 128, 192, 256, 512, 1_024].map(|kib| kib << 10) {
            write!(out, "{len:>9}")?;
            for sendfile_bytes_min in [u32::MAX, 1] {
                with_server(WriteLimits { sendfile_bytes_min, ..WriteLimits::default() }, |address, io| {
                    let m = measure(address, io, pipelined, ranges, len)?;
                    let rate = m.bytes as f64 / m.took.as_secs_f64() / 1e9;
                    write!(out, " {rate:>8.2} {:>8.0}", m.cpu.as_nanos() as f64 / (m.bytes as f64 / 1024.0))
                })?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}
