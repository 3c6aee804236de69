//! Connections: how many are open, how long they may be silent, and TLS.
//!
//! A client that sends its request byte by byte, or nothing at all, is closed on after
//! `header_seconds`; a body that stops is `linger.rs`' matter. Where `max_connections` are open, the
//! next one waits in the system's line until one of them ends.

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

/// Of a request's head, line and headers together; hyper itself takes at most 100 headers.
const MAX_HEAD_BYTES: usize = 64 << 10;

#[derive(Clone)]
pub struct Connections {
    pub router: Router,
    pub tls: Option<TlsAcceptor>,
    /// For a request's head, and between two requests.
    pub silence: Duration,
    pub most: u32,
    /// True when the server shuts down.
    pub closing: watch::Receiver<bool>,
}

impl Connections {
    /// Serves until told to close, and returns when the last connection has ended.
    pub async fn serve(self, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(self.most as usize));
        let mut closing = self.closing.clone();
        let accepting = async {
            loop {
                let Ok(place) = places.clone().acquire_owned().await else { return };
                let stream = accept(&listener).await;
                let connection = self.clone().connection(stream);
                tokio::spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
        };
        tokio::select! {
            () = accepting => {}
            () = closed(&mut closing) => {}
        }
        drop(listener);
        let _ = places.acquire_many(self.most).await;
    }

    async fn connection(self, stream: TcpStream) {
        // Answers are written whole; waiting to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return self.talk(stream).await };
        match tokio::time::timeout(self.silence, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.talk(stream).await,
            Ok(Err(error)) => tracing::debug!(%error, "no TLS connection"),
            Err(_) => tracing::debug!("no TLS connection: the client was silent"),
        }
    }

    async fn talk(self, stream: impl AsyncRead + AsyncWrite + Unpin) {
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
            tracing::debug!(%error, "a connection ended badly");
        }
    }
}

/// Returns when the server shuts down; a sender that is gone has shut down too.
async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // The client's doing, between its asking and our answer.
            Err(error) if is_clients(error.kind()) => {}
            Err(error) => {
                tracing::error!(%error, "no connection could be accepted");
                // Out of files, likely: others must end first.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

fn is_clients(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset)
}
