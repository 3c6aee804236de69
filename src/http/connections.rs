//! Connections: their number, their time limits, and TLS.
//!
//! A connection is closed if the head of a request does not arrive within `header_seconds`; bodies that stop
//! arriving are handled by `layers/linger.rs`. `seats.rs` decides what happens once `max_connections` are
//! open.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Request, Response};
use futures_util::future::{Either, Ready, ready};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

use super::App;
use super::layers::reserve::OfTheReserve;
use super::polls;
use super::seats::{Seat, Seats, Standing};
use super::silence::SilenceTimer;

/// The most bytes of the head of a request: request line and headers. hyper accepts at most 100 headers.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// How much of a body is read at once. The allocator asks the system for each larger piece of memory, and gets it page by page.
const BUFFER_BYTES: usize = 96 << 10;

/// How connections are served.
#[derive(Clone)]
pub struct Connections {
    pub router: Router,
    /// The server whose jobs are polled here, without the router if possible.
    pub polled: Option<App>,
    pub tls: Option<TlsAcceptor>,
    /// How long the head of a request may take, and how long a connection may be idle.
    pub silence: Duration,
    /// How many connections may be open, without the reserve.
    pub most: u32,
    /// Becomes true when the server shuts down.
    pub closing: watch::Receiver<bool>,
}

impl Connections {
    /// Serves until told to close, and returns when the last connection has ended.
    pub async fn serve(self, listener: TcpListener) {
        let seats = Seats::new(self.most as usize);
        let mut closing = self.closing.clone();
        // Every connection has a sender, so the receiver ends with the last connection.
        let (open, mut all_ended) = mpsc::channel::<Infallible>(1);
        let accepting = async {
            loop {
                let (stream, peer) = accept(&listener).await;
                let (seat, standing, displaced) = seats.open(peer);
                let connection = self.clone().connection(stream, seat, standing);
                let open = open.clone();
                tokio::spawn(async move {
                    let _open = open;
                    tokio::select! {
                        () = connection => {}
                        _ = displaced => tracing::debug!(%peer, "connection displaced by a newer one"),
                    }
                });
            }
        };
        tokio::select! {
            () = accepting => {}
            () = closed(&mut closing) => {}
        }
        drop(listener);
        drop(open);
        let _ = all_ended.recv().await;
    }

    async fn connection(self, stream: TcpStream, seat: Arc<Seat>, standing: Standing) {
        // Responses are written whole; waiting to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return self.serve_stream(stream, seat, standing).await };
        match tokio::time::timeout(self.silence, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.serve_stream(stream, seat, standing).await,
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake timed out"),
        }
    }

    async fn serve_stream(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        seat: Arc<Seat>,
        standing: Standing,
    ) {
        let mut protocol = http1::Builder::new();
        protocol
            .timer(SilenceTimer::default())
            .header_read_timeout(self.silence)
            .max_header_size(MAX_HEAD_BYTES)
            .max_buf_size(BUFFER_BYTES);
        // One request is enough for a health check, and the next client needs the place.
        protocol.keep_alive(standing == Standing::Regular);
        let service = Seated { router: TowerToHyperService::new(self.router), polled: self.polled, seat };
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

/// The router, as a connection calls it: its seat knows when a request is in progress.
struct Seated {
    router: TowerToHyperService<Router>,
    polled: Option<App>,
    seat: Arc<Seat>,
}

/// A connection that was displaced while the head of a request arrived. It closes without a response.
#[derive(Debug, thiserror::Error)]
#[error("the connection was displaced by a newer one")]
struct Displaced;

type Routing = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

impl Service<Request<Incoming>> for Seated {
    type Response = Response<AnswerBody>;
    type Error = Displaced;
    type Future = Either<Answering<Routing>, Ready<Result<Response<AnswerBody>, Displaced>>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let Some(standing) = self.seat.begin() else { return Either::Right(ready(Err(Displaced))) };
        let seat = Some(Busy(self.seat.clone()));
        if standing == Standing::Reserve {
            request.extensions_mut().insert(OfTheReserve);
        } else if let Some(response) = self.polled.as_ref().and_then(|app| polls::answer(app, &request)) {
            return Either::Right(ready(Ok(response.map(|body| AnswerBody { body, _seat: seat }))));
        }
        Either::Left(Answering { inner: self.router.call(request), seat })
    }
}

/// A request in progress. The connection waits for the next one when this is dropped.
struct Busy(Arc<Seat>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.wait();
    }
}

pin_project! {
    /// The future of [`Seated`].
    struct Answering<F> {
        #[pin]
        inner: F,
        seat: Option<Busy>,
    }
}

impl<F: Future<Output = Result<Response<Body>, Infallible>>> Future for Answering<F> {
    type Output = Result<Response<AnswerBody>, Displaced>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Ok(response) = ready!(this.inner.poll(context));
        let seat = this.seat.take();
        Poll::Ready(Ok(response.map(|body| AnswerBody { body, _seat: seat })))
    }
}

pin_project! {
    /// The body of a response. The request is in progress until its last byte is written.
    struct AnswerBody {
        #[pin]
        body: Body,
        _seat: Option<Busy>,
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        self.project().body.poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// Returns when the server shuts down, or when the sender has been dropped.
async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

async fn accept(listener: &TcpListener) -> (TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer.ip()),
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
