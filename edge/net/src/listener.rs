//! Takes connections in and hands them to the I/O threads in turn.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, warn};

use crate::admission::{Admission, Admitted, Rate, Seat};
use crate::limits::ListenerLimits;
use crate::stop::{Stop, StopSwitch};
use crate::threads::IoThreads;

/// Connections that the kernel keeps while we are busy: a cluster's clients coming back at once.
const BACKLOG: i32 = 1_024;
/// After a failed accept: the kernel keeps the connection, so trying again at once would spin.
const BACK_OFF_MIN: Duration = Duration::from_millis(10);
const BACK_OFF_MAX: Duration = Duration::from_secs(1);
/// When to ask a silent peer whether it is still there, how often, and how many times.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(15);
const KEEPALIVE_TIMES: u32 = 4;

/// Why there is no listener.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct BindError {
    /// Where it should have been.
    pub address: SocketAddr,
    /// What the system said.
    pub source: io::Error,
}

/// A bound socket that connections come in by.
#[derive(Debug)]
pub struct Listener {
    socket: tokio::net::TcpListener,
    address: SocketAddr,
    admission: Admission,
}

/// A connection that was let in.
#[derive(Debug)]
pub struct Connection {
    /// The socket, registered with the runtime of the thread that serves it.
    pub stream: TcpStream,
    /// Who connected.
    pub peer: SocketAddr,
    /// The address they connected to.
    pub local: SocketAddr,
    /// The I/O thread it lives on.
    pub thread: usize,
    /// Its place among the open connections; to be kept until the socket is closed.
    pub seat: Seat,
    /// When those that did not end in time are cut. This is done to the task that was given the connection; whoever
    /// hands it on to another one has that end by this.
    pub cut: Stop,
}

impl Listener {
    /// Binds. Port 0 takes a free one. Must be called within a tokio runtime, the one that
    /// [`Self::serve`] runs on.
    pub fn bind(address: SocketAddr, limits: ListenerLimits) -> Result<Self, BindError> {
        let listen = || -> io::Result<(tokio::net::TcpListener, SocketAddr)> {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
            // A restart must not wait for the connections of the last run to time out.
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket.listen(BACKLOG)?;
            socket.set_nonblocking(true)?;
            let socket = tokio::net::TcpListener::from_std(socket.into())?;
            let address = socket.local_addr()?;
            Ok((socket, address))
        };
        let (socket, address) = listen().map_err(|source| BindError { address, source })?;
        Ok(Self { socket, address, admission: Admission::new(limits) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What decides about new connections; its counts may be read at any time.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Takes connections in until `stop`, starting `connection(…)` for each on one of `io`'s threads.
    ///
    /// Then no new ones come in. Those that are open see the same `stop` and should end; this
    /// returns when all have, or ends them when [`ListenerLimits::drain_max`] has passed.
    pub async fn serve<C, F>(self, io: Arc<IoThreads>, mut stop: Stop, connection: C)
    where
        C: Fn(Connection) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let end = StopSwitch::new();
        let hand_off = HandOff { io, connection: Arc::new(connection), end: end.watch() };
        tokio::select! {
            () = self.accept(&hand_off) => {}
            () = stop.stopped() => {}
        }
        let Self { socket, admission, address } = self;
        drop(socket);
        if timeout(admission.limits().drain_max, admission.emptied()).await.is_err() {
            warn!(%address, connections = admission.open(), "connections did not end in time and are cut");
            end.stop();
            admission.emptied().await;
        }
    }

    async fn accept<C, F>(&self, hand_off: &HandOff<C>)
    where
        C: Fn(Connection) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let limits = self.admission.limits();
        let mut rate = Rate::new(Instant::now());
        let mut back_off = BACK_OFF_MIN;
        loop {
            match self.socket.accept().await {
                Ok((stream, peer)) => {
                    back_off = BACK_OFF_MIN;
                    // One that is not served at once, for its address has or had enough, is not counted:
                    // the others would have to wait for it.
                    if self.admit(stream, peer, hand_off) {
                        wait_until(rate.take(Instant::now(), limits.accepts_per_second)).await;
                    }
                }
                // The peer was gone before we looked: says nothing about the next one.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    self.admission.counts().accept_errors.fetch_add(1, Ordering::Relaxed);
                    warn!(address = %self.address, %error, ?back_off, "cannot accept connections");
                    sleep(back_off).await;
                    back_off = (back_off * 2).min(BACK_OFF_MAX);
                }
            }
        }
    }

    /// Whether it is served at once.
    fn admit<C, F>(&self, stream: TcpStream, peer: SocketAddr, hand_off: &HandOff<C>) -> bool
    where
        C: Fn(Connection) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let now = Instant::now();
        let admitted = self.admission.admit(peer.ip(), now);
        let at_once = matches!(admitted, Admitted::Serve(_));
        match admitted {
            Admitted::Serve(seat) => hand_off.start(stream, peer, seat, now),
            Admitted::After(seat, at) => hand_off.start(stream, peer, seat, at),
            Admitted::Refuse(why) => debug!(%peer, %why, "connection refused"),
        }
        at_once
    }
}

/// Carries accepted sockets to the I/O threads.
struct HandOff<C> {
    io: Arc<IoThreads>,
    connection: Arc<C>,
    /// Cuts connections that do not end by themselves.
    end: Stop,
}

impl<C> HandOff<C> {
    fn start<F>(&self, stream: TcpStream, peer: SocketAddr, seat: Seat, at: Instant)
    where
        C: Fn(Connection) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let thread = self.io.next();
        let connection = self.connection.clone();
        let (mut end, cut) = (self.end.clone(), self.end.clone());
        let stream = match stream.into_std() {
            Ok(stream) => stream,
            Err(error) => return debug!(%peer, %error, "connection lost before it was served"),
        };
        self.io.spawn_on(thread, async move {
            let serve = async {
                wait_until(at).await;
                match prepare(stream) {
                    Ok((stream, local)) => {
                        connection(Connection { stream, peer, local, thread, seat, cut }).await;
                    }
                    Err(error) => debug!(%peer, %error, "connection lost before it was served"),
                }
            };
            tokio::select! {
                () = serve => {}
                () = end.stopped() => {}
            }
        });
    }
}

/// A timer rounds up to its next tick; who need not wait should not.
async fn wait_until(at: Instant) {
    if at > Instant::now() {
        sleep_until(at).await;
    }
}

fn prepare(stream: std::net::TcpStream) -> io::Result<(TcpStream, SocketAddr)> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_EVERY)
        .with_retries(KEEPALIVE_TIMES);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    let local = stream.local_addr()?;
    Ok((TcpStream::from_std(stream)?, local))
}

#[cfg(test)]
mod tests;
