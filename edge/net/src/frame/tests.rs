use proptest::prelude::*;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::time::sleep;

use super::*;

fn limits() -> FrameLimits {
    FrameLimits::default()
}

fn open_with(limits: FrameLimits, budget: &MemoryBudget) -> (DuplexStream, FrameReader<DuplexStream>) {
    let (peer, source) = duplex(1 << 20);
    (peer, FrameReader::new(source, limits, budget))
}

fn open() -> (DuplexStream, FrameReader<DuplexStream>) {
    open_with(limits(), &MemoryBudget::new(1 << 30))
}

fn framed(frame: &[u8]) -> Vec<u8> {
    [&i32::try_from(frame.len()).unwrap().to_be_bytes(), frame].concat()
}

/// The error that ends a connection on which these bytes came and nothing else.
async fn error_after(bytes: &[u8]) -> FrameError {
    let (mut peer, mut reader) = open();
    peer.write_all(bytes).await.unwrap();
    drop(peer);
    loop {
        if let Err(error) = reader.next().await {
            return error;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pipelined_frames_need_one_read() {
    let (mut peer, mut reader) = open();
    let frames: Vec<Vec<u8>> = (0..100u8).map(|n| vec![n; usize::from(n)]).collect();
    let all: Vec<u8> = frames.iter().flat_map(|frame| framed(frame)).collect();
    peer.write_all(&all[..4_000]).await.unwrap();
    assert_eq!(reader.next().await.unwrap(), frames[0]);
    assert!(reader.has_frame());
    peer.write_all(&all[4_000..]).await.unwrap();
    for frame in &frames[1..] {
        assert_eq!(reader.next().await.unwrap(), frame);
    }
    assert!(!reader.has_frame());
    drop(peer);
    assert!(matches!(reader.next().await, Err(FrameError::Closed)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// However the bytes are cut on their way, the frames are the same; also when waits are dropped.
    #[test]
    fn chunks_do_not_matter(
        lens in prop::collection::vec(prop_oneof![0usize..20, 0usize..9_000, 60_000usize..200_000], 1..8),
        cuts in prop::collection::vec(1usize..70_000, 1..20),
        dropped_waits in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let budget = MemoryBudget::new(1 << 30);
            let (mut peer, mut reader) = open_with(limits(), &budget);
            let frames: Vec<Vec<u8>> = (0u8..).zip(&lens).map(|(n, len)| vec![n; *len]).collect();
            let all: Vec<u8> = frames.iter().flat_map(|frame| framed(frame)).collect();
            let writes = async {
                let (mut rest, mut cuts) = (&all[..], cuts.iter().cycle());
                while !rest.is_empty() {
                    let (now, later) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                    peer.write_all(now).await.unwrap();
                    rest = later;
                    sleep(Duration::from_millis(2)).await;
                }
                drop(peer);
            };
            let reads = async {
                for frame in &frames {
                    let wait = if dropped_waits { 1 } else { 1_000_000 };
                    loop {
                        let next = timeout(Duration::from_millis(wait), reader.next());
                        if let Ok(lent) = next.await {
                            assert!(lent.unwrap() == frame);
                            break;
                        }
                    }
                }
                assert!(matches!(reader.next().await, Err(FrameError::Closed)));
            };
            tokio::join!(writes, reads);
            drop(reader);
            assert_eq!(budget.used(), 0);
        });
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_within_a_frame_is_told_from_one_between_frames() {
    assert!(matches!(error_after(b"").await, FrameError::Closed));
    assert!(matches!(error_after(&framed(b"whole")).await, FrameError::Closed));
    assert!(matches!(error_after(b"\0\0").await, FrameError::Cut { received: 2 }));
    assert!(matches!(error_after(b"\0\0\0\x05four").await, FrameError::Cut { received: 8 }));
}

#[tokio::test(start_paused = true)]
async fn lengths_that_cannot_be_are_refused_at_once() {
    for (bytes, expected) in [
        (&b"\xff\xff\xff\xff"[..], "a frame of -1 bytes cannot be"),
        (b"\x80\0\0\0", "a frame of -2147483648 bytes cannot be"),
        (b"\x06\x40\0\x01", "a frame of 104857601 bytes is over the limit of 104857600"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes is over the limit of 104857600"),
        (
            b"GET / HTTP/1.1\r\n",
            "a frame of 1195725856 bytes is over the limit of 104857600 (looks like HTTP: the HTTP port is 9644)",
        ),
        (
            b"\x16\x03\x01\x02\0",
            "a frame of 369295618 bytes is over the limit of 104857600 (looks like TLS: this port is plaintext)",
        ),
        (
            b"SSH-2.0-OpenSSH_9.9\r\n",
            "a frame of 1397966893 bytes is over the limit of 104857600 (looks like SSH)",
        ),
    ] {
        let (mut peer, mut reader) = open();
        peer.write_all(bytes).await.unwrap();
        assert_eq!(reader.next().await.unwrap_err().to_string(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_frame_is_a_frame() {
    let (mut peer, mut reader) = open();
    peer.write_all(&[framed(b""), framed(b"12345")].concat()).await.unwrap();
    assert_eq!(reader.next().await.unwrap(), b"");
    assert_eq!(reader.next().await.unwrap(), b"12345");
}

/// Something else wakes the connection again and again: the slow frame is as slow as before.
#[tokio::test(start_paused = true)]
async fn waits_that_are_dropped_do_not_stop_the_clock() {
    let (mut peer, mut reader) = open();
    peer.write_all(b"\0\0\0\x09half").await.unwrap();
    let began = Instant::now();
    let error = loop {
        if let Ok(next) = timeout(Duration::from_secs(2), reader.next()).await {
            break next.map(<[u8]>::len).unwrap_err();
        }
    };
    assert!(matches!(error, FrameError::TooSlow { .. }), "{error}");
    assert_eq!(began.elapsed().as_secs(), 30);
}

/// What a frame waited for memory is not counted, though the wait for it was dropped on the way.
#[tokio::test(start_paused = true)]
async fn a_wait_for_memory_that_is_dropped_is_not_the_peers_fault_either() {
    let budget = MemoryBudget::new(100 << 10);
    let all = budget.acquire(100 << 10).await;
    let (mut peer, mut reader) = open_with(limits(), &budget);
    let frame = framed(&vec![7; 150 << 10]);
    peer.write_all(&frame[..100 << 10]).await.unwrap();
    for _ in 0..50 {
        assert!(timeout(Duration::from_secs(1), reader.next()).await.is_err());
    }
    drop(all);
    assert!(timeout(Duration::from_secs(20), reader.next()).await.is_err());
    peer.write_all(&frame[100 << 10..]).await.unwrap();
    assert_eq!(reader.next().await.unwrap().len(), 150 << 10);
}

#[tokio::test(start_paused = true)]
async fn a_reader_at_rest_holds_what_is_left_and_no_more() {
    let budget = MemoryBudget::new(1 << 30);
    let (mut peer, mut reader) = open_with(limits(), &budget);
    peer.write_all(&[framed(&vec![7; 500_000]), framed(b"next"), b"\0\0".to_vec()].concat()).await.unwrap();
    assert_eq!(reader.next().await.unwrap().len(), 500_000);
    assert!(budget.used() > 400_000);
    reader.rest();
    assert_eq!(budget.used(), 0);
    assert!(reader.capacity() <= CAPACITY_FREE);
    assert_eq!(reader.next().await.unwrap(), b"next");
}

#[tokio::test(start_paused = true)]
async fn a_slow_frame_is_cut() {
    for sent in [&b"\0"[..], b"\0\0\0", b"\0\0\0\x09half"] {
        let (mut peer, mut reader) = open();
        peer.write_all(sent).await.unwrap();
        let began = Instant::now();
        let error = reader.next().await.unwrap_err();
        assert!(matches!(error, FrameError::TooSlow { received, .. } if received == sent.len()), "{error}");
        assert_eq!(began.elapsed().as_secs(), 30);
    }
}

#[tokio::test(start_paused = true)]
async fn one_byte_at_a_time_is_slow_too() {
    let (mut peer, mut reader) = open();
    let drip = async {
        for byte in framed(&[7; 100]) {
            if peer.write_all(&[byte]).await.is_err() {
                return;
            }
            sleep(Duration::from_secs(10)).await;
        }
    };
    let began = Instant::now();
    tokio::select! {
        () = drip => panic!("it was let through"),
        error = reader.next() => assert!(matches!(error, Err(FrameError::TooSlow { .. }))),
    }
    assert_eq!(began.elapsed().as_secs(), 30);
}

/// A large frame on a thin line: 5 KiB/s is slow, not hostile; 3 KiB/s is too slow.
#[tokio::test(start_paused = true)]
async fn a_thin_line_has_time_for_a_large_frame() {
    for (bytes_per_second, fine) in [(5 << 10, true), (3 << 10, false)] {
        let (mut peer, mut reader) = open();
        let all = framed(&vec![7; 1 << 20]);
        let write = async {
            for chunk in all.chunks(bytes_per_second) {
                let _ = peer.write_all(chunk).await;
                sleep(Duration::from_secs(1)).await;
            }
        };
        let (frame, ()) = tokio::join!(reader.next(), write);
        assert_eq!(frame.is_ok(), fine, "{bytes_per_second}");
    }
}

/// What came fast earns no hours for a last byte that never comes: it holds memory that others wait for.
#[tokio::test(start_paused = true)]
async fn a_frame_that_stops_coming_is_cut_when_nothing_came_for_too_long() {
    let (mut peer, mut reader) = open_with(limits(), &MemoryBudget::new(1 << 30));
    let all = framed(&vec![7; 16 << 20]);
    let began = Instant::now();
    let (error, sent) = tokio::join!(reader.next(), peer.write_all(&all[..all.len() - 1]));
    sent.expect("it was read");
    assert!(matches!(error, Err(FrameError::TooSlow { received, .. }) if received == all.len() - 1));
    assert_eq!(began.elapsed().as_secs(), 600);
}

#[tokio::test(start_paused = true)]
async fn an_idle_peer_is_reported_and_may_be_waited_for_again() {
    let (mut peer, mut reader) = open();
    for _ in 0..2 {
        let began = Instant::now();
        assert!(matches!(reader.next().await, Err(FrameError::Idle(_))));
        assert_eq!(began.elapsed().as_secs(), 600);
    }
    peer.write_all(&framed(b"back")).await.unwrap();
    assert_eq!(reader.next().await.unwrap(), b"back");
    // What counts is the last byte, not the last alarm.
    sleep(Duration::from_secs(599)).await;
    peer.write_all(&framed(b"again")).await.unwrap();
    assert_eq!(reader.next().await.unwrap(), b"again");
    let began = Instant::now();
    assert!(matches!(reader.next().await, Err(FrameError::Idle(_))));
    assert_eq!(began.elapsed().as_secs(), 600);
}

/// Half a frame lay in the buffer while the broker was busy: the peer gets time to send the rest.
#[tokio::test(start_paused = true)]
async fn a_frame_that_waited_for_us_is_not_slow() {
    let (mut peer, mut reader) = open();
    peer.write_all(b"\0\0\0\x08half").await.unwrap();
    assert!(timeout(Duration::from_secs(1), reader.next()).await.is_err());
    sleep(Duration::from_secs(60)).await;
    let rest = async {
        sleep(Duration::from_secs(2)).await;
        peer.write_all(b"more").await.unwrap();
    };
    let (frame, ()) = tokio::join!(reader.next(), rest);
    assert_eq!(frame.unwrap(), b"halfmore");
}

/// A declared length costs nothing: a thousand connections that promise 100 MiB each.
#[tokio::test(start_paused = true)]
async fn promises_take_no_memory() {
    let budget = MemoryBudget::new(1 << 20);
    let mut open = Vec::new();
    for _ in 0..1_000 {
        let (mut peer, mut reader) = open_with(limits(), &budget);
        peer.write_all(&(100i32 << 20).to_be_bytes()).await.unwrap();
        peer.write_all(b"a little").await.unwrap();
        assert!(timeout(Duration::from_millis(1), reader.next()).await.is_err());
        open.push((peer, reader));
    }
    let capacity: usize = open.iter().map(|(_, reader)| reader.capacity()).sum();
    assert!(capacity <= 1_000 * CAPACITY_FIRST, "{capacity}");
    assert_eq!(budget.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_buffer_grows_with_what_was_received() {
    const FRAME: usize = 3 << 20;
    let budget = MemoryBudget::new(1 << 30);
    let (mut peer, mut reader) = open_with(limits(), &budget);
    let all = framed(&vec![7; FRAME]);
    for (index, chunk) in all.chunks(50_000).enumerate() {
        peer.write_all(chunk).await.unwrap();
        let wait = timeout(Duration::from_millis(1), reader.next()).await;
        let received = ((index + 1) * 50_000).min(all.len());
        assert_eq!(wait.is_ok(), received == all.len());
        let capacity = reader.capacity();
        assert!(capacity <= CAPACITY_FREE.max(2 * received), "{capacity} for {received}");
        assert!(capacity <= FRAME + LENGTH_BYTES);
        assert_eq!(budget.used(), capacity.saturating_sub(CAPACITY_FREE) as u64);
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_connection_gives_its_buffer_back() {
    let budget = MemoryBudget::new(1 << 30);
    let (mut peer, mut reader) = open_with(limits(), &budget);
    for _ in 0..3 {
        let (sent, frame) = (framed(&vec![7; 500_000]), reader.next());
        let (written, frame) = tokio::join!(peer.write_all(&sent), frame);
        written.unwrap();
        assert_eq!(frame.unwrap().len(), 500_000);
        assert!(budget.used() > 400_000, "it is kept while frames come");
        sleep(Duration::from_millis(900)).await;
    }
    assert!(timeout(Duration::from_millis(1_500), reader.next()).await.is_err());
    assert_eq!((budget.used(), reader.capacity()), (0, CAPACITY_FIRST));
    peer.write_all(&framed(b"small")).await.unwrap();
    assert_eq!(reader.next().await.unwrap(), b"small");
}

#[tokio::test(start_paused = true)]
async fn a_full_budget_stops_reading_and_is_not_the_peers_fault() {
    let budget = MemoryBudget::new(100 << 10);
    let all = budget.acquire(100 << 10).await;
    let (mut peer, mut reader) = open_with(limits(), &budget);
    peer.write_all(&framed(&vec![7; 150 << 10])).await.unwrap();
    assert!(timeout(Duration::from_secs(100), reader.next()).await.is_err());
    assert!(reader.capacity() <= CAPACITY_FREE);
    drop(all);
    assert_eq!(reader.next().await.unwrap().len(), 150 << 10);
    // Somebody waits for what this connection keeps for later: it is given up at once.
    let mut waiting = std::pin::pin!(budget.acquire(100 << 10));
    assert!(timeout(Duration::ZERO, waiting.as_mut()).await.is_err());
    assert!(timeout(Duration::ZERO, reader.next()).await.is_err());
    assert_eq!(waiting.await.bytes(), 100 << 10);
}

/// Frames that together need twice what there is: all of them arrive.
#[tokio::test(start_paused = true)]
async fn large_frames_share_a_small_budget() {
    const FRAME: usize = 400 << 10;
    let budget = MemoryBudget::new(1 << 20);
    let mut tasks = Vec::new();
    for _ in 0..20 {
        let (mut peer, source) = duplex(10 << 10);
        let mut reader = FrameReader::new(source, limits(), &budget);
        let budget = budget.clone();
        tasks.push(tokio::spawn(async move {
            let all = framed(&vec![7; FRAME]);
            let (written, frame) = tokio::join!(peer.write_all(&all), reader.next());
            written.unwrap();
            assert_eq!(frame.unwrap().len(), FRAME);
            assert!(budget.used() <= budget.bytes_max() + FRAME as u64);
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(budget.used(), 0);
}
