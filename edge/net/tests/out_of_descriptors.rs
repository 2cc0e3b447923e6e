//! A process that may open no more files keeps serving, does not spin, and recovers.
//!
//! Alone in its file, for the limit is one of the whole process.

use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::AsyncWriteExt;
use vltava_net::{IoThreads, Listener, ListenerLimits, StopSwitch};

#[tokio::test]
async fn accepting_goes_on_when_files_are_closed() {
    let limits = ListenerLimits { accepts_per_second: 0, accepts_per_ip_per_second: 0, ..Default::default() };
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), limits).unwrap();
    let (address, admission) = (listener.address(), listener.admission().clone());
    let io = Arc::new(IoThreads::start(1).unwrap());
    let switch = StopSwitch::new();
    let stop = switch.watch();
    let serve = tokio::spawn(listener.serve(io, switch.watch(), move |mut connection| {
        let mut stop = stop.clone();
        async move {
            let _ = connection.stream.write_all(b"hi").await;
            stop.stopped().await;
        }
    }));

    let before = getrlimit(Resource::Nofile);
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    setrlimit(Resource::Nofile, Rlimit { current: Some(open + 20), maximum: before.maximum }).unwrap();
    // Both ends are in this process: more and more clients, until nobody can open anything.
    let mut clients = Vec::new();
    while let Ok(client) = TcpStream::connect(address) {
        clients.push(client);
        tokio::task::yield_now().await;
    }
    while admission.counts().accept_errors.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    assert!(admission.open() < clients.len());

    setrlimit(Resource::Nofile, before).unwrap();
    let greeted = tokio::task::spawn_blocking(move || {
        clients.into_iter().all(|mut client| {
            client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            std::io::Read::read_exact(&mut client, &mut [0; 2]).is_ok()
        })
    });
    assert!(greeted.await.unwrap());
    let errors = admission.counts().accept_errors.load(Ordering::Relaxed);
    assert!(errors < 50, "{errors} failed accepts are a spin");
    switch.stop();
    serve.await.unwrap();
}
