use std::net::Ipv4Addr;
use std::sync::Mutex;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use super::*;

fn limits() -> ListenerLimits {
    ListenerLimits { accepts_per_second: 0, accepts_per_ip_per_second: 0, ..ListenerLimits::default() }
}

fn local() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn io(threads: usize) -> Arc<IoThreads> {
    Arc::new(IoThreads::start(threads).unwrap())
}

/// Sends back what comes until the peer ends or all is stopped.
async fn echo(mut connection: Connection, mut stop: Stop) {
    let mut buffer = [0; 100];
    loop {
        let read = tokio::select! {
            read = connection.stream.read(&mut buffer) => read.unwrap_or(0),
            () = stop.stopped() => 0,
        };
        if read == 0 || connection.stream.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

async fn says_back(client: &mut TcpStream) -> bool {
    let mut buffer = [0; 4];
    client.write_all(b"ping").await.is_ok() && client.read_exact(&mut buffer).await.is_ok()
}

/// Waits for something that another thread does.
async fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn connections_go_to_the_threads_in_turn() {
    let listener = Listener::bind(local(), limits()).unwrap();
    let address = listener.address();
    let admission = listener.admission().clone();
    let switch = StopSwitch::new();
    let (stop, threads) = (switch.watch(), Arc::new(Mutex::new(Vec::new())));
    let serve = listener.serve(io(3), switch.watch(), {
        let threads = threads.clone();
        move |connection| {
            assert!(connection.stream.nodelay().unwrap());
            let name = std::thread::current().name().unwrap().to_owned();
            threads.lock().unwrap().push((connection.thread, name));
            echo(connection, stop.clone())
        }
    });
    let serve = tokio::spawn(serve);
    let mut clients = Vec::new();
    for _ in 0..6 {
        let mut client = TcpStream::connect(address).await.unwrap();
        assert!(says_back(&mut client).await);
        clients.push(client);
    }
    let expected: Vec<_> = [0, 1, 2, 0, 1, 2].map(|thread| (thread, format!("io-{thread}"))).into();
    assert_eq!(*threads.lock().unwrap(), expected);
    assert_eq!(admission.open(), 6);
    drop(clients.pop());
    until(|| admission.open() == 5).await;

    switch.stop();
    serve.await.unwrap();
    assert_eq!(admission.open(), 0);
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn one_too_many_is_closed_and_the_others_live() {
    let limits = ListenerLimits { connections_max: 2, ..limits() };
    let listener = Listener::bind(local(), limits).unwrap();
    let (address, admission) = (listener.address(), listener.admission().clone());
    let switch = StopSwitch::new();
    let stop = switch.watch();
    let serve =
        tokio::spawn(listener.serve(io(1), switch.watch(), move |connection| echo(connection, stop.clone())));
    let mut first = TcpStream::connect(address).await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    assert!(says_back(&mut first).await && says_back(&mut second).await);
    let mut third = TcpStream::connect(address).await.unwrap();
    assert!(!says_back(&mut third).await);
    assert_eq!(admission.counts().refused_total.load(Ordering::Relaxed), 1);
    drop(first);
    until(|| admission.open() == 1).await;
    let mut fourth = TcpStream::connect(address).await.unwrap();
    assert!(says_back(&mut second).await && says_back(&mut fourth).await);
    switch.stop();
    serve.await.unwrap();
}

async fn connect_from(last: u8, to: SocketAddr) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

/// One address comes again and again: it does not use up what all may come at together.
#[tokio::test]
async fn refused_connections_take_nobodys_turn() {
    let limits = ListenerLimits { accepts_per_second: 2, connections_per_ip_max: 1, ..limits() };
    let listener = Listener::bind(local(), limits).unwrap();
    let (address, admission) = (listener.address(), listener.admission().clone());
    let switch = StopSwitch::new();
    let stop = switch.watch();
    let serve =
        tokio::spawn(listener.serve(io(1), switch.watch(), move |connection| echo(connection, stop.clone())));
    let mut first = connect_from(2, address).await;
    assert!(says_back(&mut first).await);
    let mut refused = Vec::new();
    for _ in 0..30 {
        refused.push(connect_from(2, address).await);
    }
    let mut other = connect_from(3, address).await;
    let served = timeout(Duration::from_secs(8), says_back(&mut other)).await;
    assert!(served.is_ok_and(|served| served), "it waits behind those that were refused");
    assert_eq!(admission.counts().refused_address.load(Ordering::Relaxed), 30);
    switch.stop();
    serve.await.unwrap();
}

#[tokio::test]
async fn connections_that_do_not_end_are_cut() {
    let limits = ListenerLimits { drain_max: Duration::from_millis(20), ..limits() };
    let listener = Listener::bind(local(), limits).unwrap();
    let (address, admission) = (listener.address(), listener.admission().clone());
    let switch = StopSwitch::new();
    let served = Arc::new(Notify::new());
    let serve = tokio::spawn(listener.serve(io(1), switch.watch(), {
        let served = served.clone();
        move |connection| {
            let served = served.clone();
            async move {
                let _connection = connection;
                served.notify_one();
                std::future::pending::<()>().await;
            }
        }
    }));
    let mut client = TcpStream::connect(address).await.unwrap();
    served.notified().await;
    switch.stop();
    serve.await.unwrap();
    assert_eq!(admission.open(), 0);
    assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn a_panic_ends_one_connection() {
    let listener = Listener::bind(local(), limits()).unwrap();
    let (address, admission) = (listener.address(), listener.admission().clone());
    let switch = StopSwitch::new();
    let stop = switch.watch();
    let serve = tokio::spawn(listener.serve(io(1), switch.watch(), move |mut connection| {
        let stop = stop.clone();
        async move {
            let mut first = [0];
            let _ = connection.stream.peek(&mut first).await;
            assert_ne!(first[0], b'!', "on purpose");
            let _ = &mut connection;
            echo(connection, stop).await;
        }
    }));
    let mut calm = TcpStream::connect(address).await.unwrap();
    assert!(says_back(&mut calm).await);
    let mut bad = TcpStream::connect(address).await.unwrap();
    bad.write_all(b"!").await.unwrap();
    assert_eq!(bad.read(&mut [0]).await.unwrap_or(0), 0);
    assert!(says_back(&mut calm).await);
    until(|| admission.open() == 1).await;
    switch.stop();
    serve.await.unwrap();
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let listener = Listener::bind(local(), limits()).unwrap();
    let error = Listener::bind(listener.address(), limits()).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("cannot listen on {}: Address already in use", listener.address())),
        "{error}"
    );
}
