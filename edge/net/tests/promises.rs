//! A thousand connections that each promise 100 MiB and send next to nothing take next to no memory.

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use vltava_net::{
    Connection, FrameLimits, FrameReader, IoThreads, Listener, ListenerLimits, MemoryBudget, StopSwitch,
};

const CONNECTIONS: usize = 1_000;

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn memory_does_not_grow_with_what_is_declared() {
    vltava_net::raise_descriptors_max();
    let limits = ListenerLimits {
        accepts_per_second: 0,
        accepts_per_ip_per_second: 0,
        connections_per_ip_max: CONNECTIONS,
        ..ListenerLimits::default()
    };
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), limits).unwrap();
    let address = listener.address();
    let io = Arc::new(IoThreads::start(1).unwrap());
    let (switch, budget) = (StopSwitch::new(), MemoryBudget::new(16 << 20));
    let (stop, promised) = (switch.watch(), Arc::new(AtomicUsize::new(0)));
    let serve = tokio::spawn(listener.serve(io, switch.watch(), {
        let (budget, promised) = (budget.clone(), promised.clone());
        move |Connection { stream, seat, .. }| {
            let (budget, promised, mut stop) = (budget.clone(), promised.clone(), stop.clone());
            async move {
                let _seat = seat;
                let mut reader = FrameReader::new(stream, FrameLimits::default(), &budget);
                assert_eq!(reader.next().await.unwrap(), b"first");
                promised.fetch_add(1, Ordering::Relaxed);
                tokio::select! {
                    frame = reader.next() => panic!("{:?}", frame.map(<[u8]>::len)),
                    () = stop.stopped() => {}
                }
            }
        }
    }));

    let before = resident_kib();
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"\0\0\0\x05first\x06\x40\0\0and no more").unwrap();
        clients.push(client);
        // One that is connected is accepted before the next, so the backlog never fills.
        while promised.load(Ordering::Relaxed) < clients.len() {
            tokio::task::yield_now().await;
        }
    }
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB for {CONNECTIONS} promises");
    assert_eq!(budget.used(), 0);
    switch.stop();
    serve.await.unwrap();
}
