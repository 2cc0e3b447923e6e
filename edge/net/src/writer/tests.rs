use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::net::tcp::OwnedReadHalf;

use super::*;
use crate::answer::SendFile;

#[derive(Debug)]
struct Segment {
    file: File,
    /// Whether it shows its number.
    sendfile: bool,
    /// Whether it was said that it cannot be read.
    unreadable: Arc<AtomicBool>,
}

impl SendFile for Segment {
    fn descriptor(&self) -> Option<i32> {
        self.sendfile.then(|| self.file.as_raw_fd())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match self.file.read_at(&mut buffer[read..], position + read as u64)? {
                0 => break,
                more => read += more,
            }
        }
        Ok(read)
    }

    fn on_unreadable(&self) {
        self.unreadable.store(true, Ordering::Relaxed);
    }
}

const SEGMENT_BYTES: usize = 400_000;

fn content() -> Vec<u8> {
    (0..SEGMENT_BYTES).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

fn segment(sendfile: bool) -> Arc<dyn SendFile> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&content()).unwrap();
    Arc::new(Segment { file, sendfile, unreadable: Arc::default() })
}

fn range(file: &Arc<dyn SendFile>, position: usize, len: usize) -> FileRange {
    FileRange { file: file.clone(), position: position as u64, len: u32::try_from(len).unwrap() }
}

/// Both ends of a connection. With `tiny`, its buffers take as little as the kernel allows.
async fn connect(limits: WriteLimits, tiny: bool) -> (AnswerWriter, OwnedReadHalf) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    if tiny {
        SockRef::from(&listener).set_recv_buffer_size(1).unwrap();
    }
    let client = TcpStream::connect(listener.local_addr().unwrap());
    let (client, accepted) = tokio::join!(client, listener.accept());
    let client = client.unwrap();
    if tiny {
        SockRef::from(&client).set_send_buffer_size(1).unwrap();
    }
    let (_, writer) = client.into_split();
    let (reader, _) = accepted.unwrap().0.into_split();
    (AnswerWriter::new(writer, limits), reader)
}

/// What arrives of these answers.
async fn sent(answers: Vec<Answer>, limits: WriteLimits, tiny: bool) -> Vec<u8> {
    let (mut writer, mut reader) = connect(limits, tiny).await;
    let write = async move {
        for answer in answers {
            writer.push(answer);
        }
        writer.flush().await.unwrap();
        assert!(writer.is_empty());
        assert_eq!(writer.bytes_waiting(), 0);
    };
    let mut arrived = Vec::new();
    let (read, ()) = tokio::join!(reader.read_to_end(&mut arrived), write);
    read.unwrap();
    arrived
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever is bytes and whatever is file, what arrives is the answers one after the other.
    #[test]
    fn what_is_pushed_arrives(
        answers in prop::collection::vec(
            (0usize..3_000, prop::collection::vec((0usize..1_000, 0usize..200_000, 0usize..200_000), 0..5)),
            1..6,
        ),
        sendfile in any::<bool>(),
        sendfile_bytes_min in prop_oneof![Just(1u32), Just(16 << 10), Just(u32::MAX)],
        tiny in any::<bool>(),
    ) {
        let (file, content) = (segment(sendfile), content());
        let (mut pushed, mut expected) = (Vec::new(), Vec::new());
        for (len, files) in answers {
            let mut answer = Answer::of(vec![0xab; len]);
            let mut at = 0;
            for (gap, position, range_len) in files {
                let place = (at + gap).min(len);
                expected.extend_from_slice(&answer.bytes[at..place]);
                expected.extend_from_slice(&content[position..position + range_len]);
                answer.files.push((place, range(&file, position, range_len)));
                at = place;
            }
            expected.extend_from_slice(&answer.bytes[at..]);
            pushed.push(answer);
        }
        let limits = WriteLimits { sendfile_bytes_min, ..WriteLimits::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let arrived = runtime.block_on(sent(pushed, limits, tiny));
        prop_assert!(arrived == expected, "{} bytes arrived, {} were expected", arrived.len(), expected.len());
    }
}

/// All of it fits into the socket, which never makes the writer wait.
#[tokio::test]
async fn others_have_their_turn_after_each_call_of_a_long_flush() {
    const RANGES: usize = 16;
    let (mut writer, _reader) =
        connect(WriteLimits { sendfile_bytes_min: 1, ..WriteLimits::default() }, false).await;
    let file = segment(true);
    let mut answer = Answer::of(Vec::new());
    answer.files.extend((0..RANGES).map(|_| (0, range(&file, 0, 1_000))));
    let mut turns = 0;
    let others = async {
        loop {
            turns += 1;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        done = writer.write(answer) => done.unwrap(),
        () = others => {}
    }
    assert!(turns >= RANGES - 1, "{turns} turns");
}

#[tokio::test]
async fn a_flush_that_is_dropped_goes_on_later() {
    let (mut writer, mut reader) = connect(WriteLimits::default(), true).await;
    let file = segment(true);
    let mut answer = Answer::of(vec![1; 50_000]);
    answer.files.push((25_000, range(&file, 0, SEGMENT_BYTES)));
    let expected = [&[1; 25_000][..], &content(), &[1; 25_000]].concat();
    writer.push(answer);
    let mut arrived = Vec::new();
    let mut buffer = vec![0; 10_000];
    while arrived.len() < expected.len() {
        tokio::select! {
            biased;
            read = reader.read(&mut buffer) => arrived.extend_from_slice(&buffer[..read.unwrap()]),
            done = writer.flush(), if !writer.is_empty() => done.unwrap(),
        }
    }
    assert!(arrived == expected);
}

#[tokio::test]
async fn a_file_that_is_too_short_ends_the_connection() {
    for sendfile in [true, false] {
        let (mut writer, mut reader) = connect(WriteLimits::default(), false).await;
        let file = segment(sendfile);
        let mut answer = Answer::of(b"head".to_vec());
        answer.files.push((4, range(&file, SEGMENT_BYTES - 20_000, 20_001)));
        let drain = async {
            let mut arrived = Vec::new();
            let _ = reader.read_to_end(&mut arrived).await;
        };
        let write = async move {
            let error = writer.write(answer).await.unwrap_err();
            assert!(matches!(error, WriteError::Short { missing: 1, .. }), "{error}");
        };
        tokio::join!(drain, write);
    }
}

/// The clock is stopped once the socket is full, so the thirty seconds pass at once.
#[tokio::test]
async fn a_peer_that_does_not_read_is_given_up() {
    let (mut writer, mut reader) = connect(WriteLimits::default(), true).await;
    let file = segment(true);
    let mut answer = Answer::of(vec![1; 10]);
    answer.files.push((10, range(&file, 0, SEGMENT_BYTES)));
    writer.push(answer);
    let mut started = vec![0; 10];
    tokio::select! {
        done = writer.flush() => panic!("all went out: {done:?}"),
        read = reader.read_exact(&mut started) => assert!(read.is_ok()),
    }
    tokio::time::pause();
    let began = Instant::now();
    let error = writer.flush().await.unwrap_err();
    assert!(matches!(error, WriteError::Stalled(_)), "{error}");
    assert!(began.elapsed().as_secs() <= 31, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_peer_that_is_gone_is_an_error_and_no_signal() {
    let (mut writer, reader) = connect(WriteLimits::default(), false).await;
    drop(reader);
    let error = loop {
        if let Err(error) = writer.write(Answer::of(vec![0; 100_000])).await {
            break error;
        }
    };
    assert!(matches!(error, WriteError::Io(_)), "{error}");
}

#[test]
#[should_panic(expected = "file range at 3")]
fn a_range_outside_its_answer_is_a_bug() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut writer, _reader) = connect(WriteLimits::default(), false).await;
        let mut answer = Answer::of(vec![0; 2]);
        answer.files.push((3, range(&segment(true), 0, 1)));
        writer.push(answer);
    });
}

/// Bytes lie unread in front of the end, as they do when nobody reads: it is seen nevertheless.
#[tokio::test]
async fn an_end_behind_unread_bytes_is_seen() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    for (cut, expected) in [(false, HangUp::Sending), (true, HangUp::Whole)] {
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, listener.accept());
        let (mut client, (_reader, writer)) = (client.unwrap(), accepted.unwrap().0.into_split());
        let writer = AnswerWriter::new(writer, WriteLimits::default());
        client.write_all(b"unread").await.unwrap();
        writer.socket.as_ref().readable().await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(20), writer.hung_up()).await.is_err());
        if cut {
            SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
            drop(client);
        } else {
            client.shutdown().await.unwrap();
        }
        assert_eq!(writer.hung_up().await, expected);
    }
}

/// A read that fails below `sendfile` is told from a socket that fails.
#[tokio::test]
async fn a_file_that_cannot_be_read_is_named() {
    let (mut writer, _reader) =
        connect(WriteLimits { sendfile_bytes_min: 1, ..WriteLimits::default() }, false).await;
    // A directory can be opened and not read.
    let (file, unreadable) = (File::open("/proc/self").unwrap(), Arc::<AtomicBool>::default());
    let file: Arc<dyn SendFile> =
        Arc::new(Segment { file, sendfile: true, unreadable: Arc::clone(&unreadable) });
    let answer = Answer { bytes: b"head".to_vec(), files: vec![(4, range(&file, 0, 100))] };
    let error = writer.write(answer).await.unwrap_err();
    let WriteError::File { file, .. } = error else { panic!("{error}") };
    assert!(file.contains("/proc"), "{file}");
    assert!(unreadable.load(Ordering::Relaxed), "who has the file hears of it");
}

/// What an answer takes of memory: its bytes, and short ranges up to what one write gathers.
#[tokio::test]
async fn an_answers_memory_is_known_before_it_is_sent() {
    let (writer, _reader) = connect(WriteLimits::default(), false).await;
    let file = segment(true);
    let memory = |lens: &[usize]| {
        let files = lens.iter().map(|len| (0, range(&file, 0, *len))).collect();
        writer.memory_of(&Answer { bytes: vec![0; 1_000], files })
    };
    assert_eq!(memory(&[]), 1_000);
    assert!((11_000..12_000).contains(&memory(&[10_000])));
    assert!(memory(&[300_000]) < 2_000, "it leaves by sendfile");
    assert!(memory(&[100_000; 50]) < (300 << 10));
}
