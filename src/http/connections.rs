//! Connections: their number, their time limits, and TLS.
//!
//! A connection is closed if the head of a request does not arrive within `header_seconds`; bodies
//! that stop arriving are handled by `layers/linger.rs`. Once `max_connections` are open, the next
//! one stays in the operating system's backlog until one of them ends.

use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// The most bytes of the head of a request: request line and headers. hyper accepts at most 100 headers.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// How connections are served.
#[derive(Clone)]
pub struct Connections {
    pub router: Router,
    pub tls: Option<TlsAcceptor>,
    /// How long the head of a request may take, and how long a connection may be idle.
    pub silence: Duration,
    /// How many connections may be open.
    pub most: u32,
    /// Becomes true when the server shuts down.
    pub closing: watch::Receiver<bool>,
}

impl Connections {
    /// Serves until told to close, and returns when the last connection has ended.
    pub async fn serve(self, listener: TcpListener) {
        let permits = Arc::new(Semaphore::new(self.most as usize));
        let mut closing = self.closing.clone();
        let accepting = async {
            loop {
                let Ok(permit) = permits.clone().acquire_owned().await else { return };
                let stream = accept(&listener).await;
                let connection = self.clone().connection(stream);
                tokio::spawn(async move {
                    connection.await;
                    drop(permit);
                });
            }
        };
        tokio::select! {
            () = accepting => {}
            () = closed(&mut closing) => {}
        }
        drop(listener);
        let _ = permits.acquire_many(self.most).await;
    }

    async fn connection(self, stream: TcpStream) {
        // Responses are written whole; waiting to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return self.serve_stream(stream).await };
        match tokio::time::timeout(self.silence, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.serve_stream(stream).await,
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake timed out"),
        }
    }

    async fn serve_stream(self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut protocol = http1::Builder::new();
        protocol.timer(TokioTimer::new()).header_read_timeout(self.silence).max_header_size(MAX_HEAD_BYTES);
        let service = TowerToHyperService::new(self.router);
        let mut connection = pin!(protocol.serve_connection(TokioIo::new(stream), service));
        let mut closing = self.closing;
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => ended,
            () = closed(&mut closing) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection failed");
        }
    }
}

/// Returns when the server shuts down, or when the sender has been dropped.
async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // The client gave up before it was accepted.
            Err(error) if is_client_error(error.kind()) => {}
            Err(error) => {
                tracing::error!(%error, "cannot accept connections");
                // Probably out of file descriptors: other connections must end first.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

fn is_client_error(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset)
}
