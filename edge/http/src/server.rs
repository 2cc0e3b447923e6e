//! The socket side: how many may ask, how slowly, and how it ends.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::pages::{HttpState, health, router};
use crate::seats::{Kind, Seats};

/// How long the head of a request may take, and how long nothing may be asked.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a connection may live, however it behaves; a client that does not read its answer would
/// keep it for ever.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(300);
/// How long one may live that has a spare seat.
const SPARE_TIME_MAX: Duration = Duration::from_secs(5);
/// How long answers may take to leave once we want to end.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// After a failed accept the kernel keeps the connection: trying again at once would spin.
const BACK_OFF: Duration = Duration::from_millis(100);
/// A head of a request is short; this much is kept of it.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Why there is no HTTP port.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for HTTP on {address}: {source}")]
pub struct BindError {
    /// Where it should have been.
    pub address: SocketAddr,
    /// What the system said.
    pub source: io::Error,
}

/// Binds the HTTP port; port 0 takes a free one.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    TcpListener::bind(address).await.map_err(|source| BindError { address, source })
}

/// Answers until `stop` is done, then lets answers that are on their way leave.
pub async fn serve(listener: TcpListener, state: HttpState, stop: impl Future<Output = ()>) {
    let (health, router) = (health(state.clone()), router(state));
    let (stopping, stopped) = watch::channel(false);
    let (seats, mut open) = (Seats::default(), JoinSet::new());
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // Those that are done are forgotten.
            Some(_) = open.join_next() => continue,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(seat) = seats.take(peer.ip()) else {
                    debug!(%peer, "http connection refused: too many are open");
                    continue;
                };
                let (router, time_max) = match seat.kind {
                    Kind::Any => (router.clone(), CONNECTION_TIME_MAX),
                    Kind::Health => (health.clone(), SPARE_TIME_MAX),
                };
                let served = connection(TokioIo::new(stream), router, time_max, stopped.clone());
                open.spawn(async move {
                    served.await;
                    debug!(%peer, "http connection done");
                    drop(seat);
                });
            }
            Err(error) => {
                warn!(%error, "cannot accept HTTP connections");
                tokio::select! { () = sleep(BACK_OFF) => {}, () = &mut stop => break }
            }
        }
    }
    drop(listener);
    stopping.send_replace(true);
    // Those that are left are cut.
    let _ = timeout(DRAIN_MAX, async { while open.join_next().await.is_some() {} }).await;
}

async fn connection<T>(io: TokioIo<T>, router: Router, time_max: Duration, mut stopped: watch::Receiver<bool>)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(io, TowerToHyperService::new(router))
    );
    tokio::select! {
        // What a client does wrong is its own affair.
        _ = connection.as_mut() => return,
        () = sleep(time_max) => {}
        _ = stopped.wait_for(|stopped| *stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(DRAIN_MAX, connection).await;
}

#[cfg(test)]
mod tests;
