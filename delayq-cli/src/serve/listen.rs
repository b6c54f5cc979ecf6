//! The socket: who gets in, for how long, and how it ends.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Sleep;
use tower::Service;

use super::limits::{Bounds, CHANGES_MAX, HEAD_BYTES_MAX, HEADERS_MAX};
use crate::failure::{Failure, Outcome};
use crate::output::remark;

/// After a connection that couldn't be taken, for want of file descriptors as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where a request's connection comes from. What the request says of it grants nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

pub(super) async fn bind(address: SocketAddr) -> Outcome<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| Failure::io(format!("{address} can't be listened on"), error))
}

/// Serves until the process is told to end; then requests under way get their grace.
pub(super) async fn serve(listener: TcpListener, router: Router, bounds: &Bounds, changes: &Semaphore) {
    let places = Arc::new(Semaphore::new(usize::from(bounds.connections)));
    let stop = watch::Sender::new(false);
    let mut lines = JoinSet::new();
    let mut told = pin!(told_to_end());
    loop {
        let accepted = tokio::select! {
            () = &mut told => break,
            accepted = accept(&listener, &places) => accepted,
        };
        match accepted {
            Ok((stream, peer, place)) => {
                lines.spawn(line(stream, peer.ip(), router.clone(), bounds.patience, stop.subscribe(), place));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
        while lines.try_join_next().is_some() {}
    }
    // Who comes now is refused at once.
    drop(listener);
    stop.send_replace(true);
    let all_end = async {
        while lines.join_next().await.is_some() {}
        // All places are free once the changes have ended whose clients left.
        let _ = changes.acquire_many(CHANGES_MAX).await;
    };
    if tokio::time::timeout(bounds.grace, all_end).await.is_err() {
        remark("requests were cut off: they took longer than --grace");
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, place))
}

/// One connection, to its end.
async fn line(
    stream: TcpStream,
    peer: IpAddr,
    router: Router,
    patience: Duration,
    mut stop: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
) {
    // An answer is written in one piece; it must not wait for more.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        let mut router = router.clone();
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(Patient { stream, patience, waiting: None }), service);
    let mut connection = pin!(connection);
    let stopped = async {
        let _ = stop.wait_for(|stop| *stop).await;
    };
    tokio::select! {
        // How it ends is the client's affair.
        _ = connection.as_mut() => return,
        () = stopped => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// A connection that is given up when its client doesn't take what is written.
struct Patient {
    stream: TcpStream,
    patience: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn waited<T>(&mut self, written: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        waiting.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.waited(written, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
        this.waited(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

/// Ctrl-c or SIGTERM.
async fn told_to_end() {
    let interrupted = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};

        let terminated = async {
            match signal(SignalKind::terminate()) {
                Ok(mut terminations) => drop(terminations.recv().await),
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = interrupted => {}
            () = terminated => {}
        }
    }
    #[cfg(not(unix))]
    interrupted.await;
}
