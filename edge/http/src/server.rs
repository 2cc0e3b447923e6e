//! The socket side: how many may ask, how slowly, and how it ends.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::pages::{HttpState, router};

/// A few dashboards and scrapers; others wait in the backlog until one of these is done.
const CONNECTIONS_MAX: usize = 256;
/// How long the head of a request may take, and how long nothing may be asked.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a connection may live, however it behaves; a client that does not read its answer would
/// keep it for ever.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(300);
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
    let router = router(state);
    let (stopping, stopped) = watch::channel(false);
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut stop = pin!(stop);
    loop {
        let seat = seats.clone().acquire_owned();
        let next = async { (seat.await, listener.accept().await) };
        let (seat, accepted) = tokio::select! {
            next = next => next,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let served = connection(TokioIo::new(stream), router.clone(), stopped.clone());
                tokio::spawn(async move {
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
    let all = u32::try_from(CONNECTIONS_MAX).expect("a few hundred");
    // Those that are left are cut when the runtime ends.
    let _ = timeout(DRAIN_MAX, seats.acquire_many(all)).await;
}

async fn connection<T>(io: TokioIo<T>, router: Router, mut stopped: watch::Receiver<bool>)
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
        () = sleep(CONNECTION_TIME_MAX) => {}
        _ = stopped.wait_for(|stopped| *stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(DRAIN_MAX, connection).await;
}

#[cfg(test)]
mod tests;
