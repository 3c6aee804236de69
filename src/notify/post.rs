//! One HTTP request to one receiver, within limits: a time for the connection and one for everything, no redirects, no
//! proxies, and a small part of the response.
//!
//! The host is resolved once, and the connection goes to an address that was checked, so a name that resolves to
//! something else a moment later changes nothing.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use url::{Host, Url};

use super::NotifySettings;
use super::address::is_public;
use super::allow::AllowList;

/// How long it may take to find the host, to connect and to agree on keys.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long everything may take.
const LIMIT: Duration = Duration::from_secs(15);
/// How long the body of a response may take; it is not used.
const BODY_LIMIT: Duration = Duration::from_secs(2);
/// The most bytes of the head of a response.
const MOST_HEAD: usize = 16 << 10;
/// The most bytes of the body of a response that are read. They are not used; a receiver that is cut off while it
/// answers might take that for a failure.
const MOST_BODY: usize = 16 << 10;

/// What a receiver answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The header `Retry-After`.
    pub retry_after: Option<String>,
}

/// Sends requests to the addresses that are allowed.
pub struct Post {
    allow: AllowList,
    /// `None` if no address with TLS is allowed.
    tls: Option<TlsConnector>,
}

impl Post {
    /// A sender with these settings.
    ///
    /// # Errors
    /// If there is no certificate authority to trust although HTTPS is allowed.
    pub fn new(settings: &NotifySettings) -> Result<Post, String> {
        let tls = match settings.allow.has_https() {
            true => Some(connector(&settings.ca_file)?),
            false => None,
        };
        Ok(Post { allow: settings.allow.clone(), tls })
    }

    /// Sends a POST request, and returns the answer.
    ///
    /// # Errors
    /// What went wrong, in words for the owner of the webhook: they name neither addresses nor files of this machine.
    pub async fn send(&self, url: &str, headers: HeaderMap, body: Vec<u8>) -> Result<Answer, String> {
        // The list may have changed since the webhook was created.
        let url = self.allow.check(url).map_err(|error| format!("the address {error}"))?;
        match timeout(LIMIT, self.exchange(&url, headers, body)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no response within {} seconds", LIMIT.as_secs())),
        }
    }

    async fn exchange(&self, url: &Url, headers: HeaderMap, body: Vec<u8>) -> Result<Answer, String> {
        let request = request(url, headers, body)?;
        let connecting = async {
            let addresses = self.addresses(url).await?;
            let stream = TcpStream::connect(&addresses[..]).await;
            stream.map_err(|error| format!("cannot connect: {}", error.kind()))
        };
        let late = || format!("no connection within {} seconds", CONNECT_LIMIT.as_secs());
        let began = tokio::time::Instant::now();
        let stream = timeout(CONNECT_LIMIT, connecting).await.map_err(|_| late())??;
        match &self.tls {
            Some(tls) if url.scheme() == "https" => {
                let left = CONNECT_LIMIT.saturating_sub(began.elapsed());
                let handshake = tls.connect(server_name(url)?, stream);
                let stream = timeout(left, handshake).await.map_err(|_| late())?;
                talk(stream.map_err(|error| format!("no TLS connection: {error}"))?, request).await
            }
            None if url.scheme() == "https" => Err("this server has no certificate authorities".into()),
            _ => talk(stream, request).await,
        }
    }

    /// The addresses of the host, if all of them may be connected to.
    async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, String> {
        let port = url.port_or_known_default().unwrap_or(443);
        let name = match url.host() {
            // The operator listed this very address, so it was meant, private or not.
            Some(Host::Ipv4(address)) => return Ok(vec![(address, port).into()]),
            Some(Host::Ipv6(address)) => return Ok(vec![(address, port).into()]),
            Some(Host::Domain(name)) => name,
            None => return Err("the address has no host".into()),
        };
        let found = tokio::net::lookup_host((name, port)).await;
        let found: Vec<SocketAddr> = found.map_err(|_| format!("the host {name} cannot be found"))?.collect();
        if found.is_empty() {
            return Err(format!("the host {name} has no address"));
        }
        if !self.allow.allows_private(name) && found.iter().any(|address| !is_public(address.ip())) {
            return Err(format!(
                "the host {name} has an address that is not public; an operator can allow that with the setting \
                 webhook_private_hosts"
            ));
        }
        Ok(found)
    }
}

fn request(url: &Url, headers: HeaderMap, body: Vec<u8>) -> Result<Request<Full<Bytes>>, String> {
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let unusable = |_| "the address cannot be written as a request".to_owned();
    let host = match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (host, _) => host.unwrap_or_default().to_owned(),
    };
    let host =
        HeaderValue::try_from(host).map_err(|_| "the host cannot be written as a header".to_owned())?;
    let mut request = Request::post(target).body(Full::new(Bytes::from(body))).map_err(unusable)?;
    *request.headers_mut() = headers;
    request.headers_mut().insert(HOST, host);
    Ok(request)
}

fn server_name(url: &Url) -> Result<ServerName<'static>, String> {
    match url.host() {
        Some(Host::Ipv4(address)) => Ok(ServerName::from(IpAddr::from(address))),
        Some(Host::Ipv6(address)) => Ok(ServerName::from(IpAddr::from(address))),
        Some(Host::Domain(name)) => {
            ServerName::try_from(name.to_owned()).map_err(|_| format!("{name} cannot have a certificate"))
        }
        None => Err("the address has no host".into()),
    }
}

/// Sends the request on a connection of its own and reads the answer. The task that drives the connection ends with this
/// call, whatever happens to it.
async fn talk<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Answer, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| match error.is_parse() {
        true => "the response is not HTTP/1.1, or its head is too long".to_owned(),
        false => "the receiver closed the connection without a response".to_owned(),
    };
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MOST_HEAD);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let response: Response<Incoming> = sender.send_request(request).await.map_err(broken)?;
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let answer = Answer { status: response.status().as_u16(), retry_after: retry_after.map(str::to_owned) };
    // The status is the answer: a body that does not end must not make a delivery that was received count as failed.
    let _ = timeout(BODY_LIMIT, drain(response.into_body())).await;
    Ok(answer)
}

/// Reads the beginning of a response's body.
async fn drain(mut body: Incoming) {
    let mut read = 0;
    while read < MOST_BODY {
        match body.frame().await {
            Some(Ok(frame)) => read += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => break,
        }
    }
}

/// Speaks TLS with whoever has a certificate of an authority in the file, or of one of the system's.
fn connector(ca_file: &Path) -> Result<TlsConnector, String> {
    let roots = match ca_file.as_os_str().is_empty() {
        true => system_authorities()?,
        false => authorities_in(ca_file)?,
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn authorities_in(path: &Path) -> Result<RootCertStore, String> {
    let unusable =
        |why: &dyn std::fmt::Display| format!("webhook_ca_file {} cannot be read: {why}", path.display());
    let mut roots = RootCertStore::empty();
    for found in CertificateDer::pem_file_iter(path).map_err(|error| unusable(&error))? {
        let certificate = found.map_err(|error| unusable(&error))?;
        roots.add(certificate).map_err(|error| unusable(&error))?;
    }
    match roots.is_empty() {
        true => Err(unusable(&"it contains no certificate; it must be a PEM file")),
        false => Ok(roots),
    }
}

fn system_authorities() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    // One that cannot be read does not matter as long as there are others.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    match roots.is_empty() {
        true => {
            Err("webhook_allow has an https address, but the system has no certificate authorities; install \
                     ca-certificates, or name a file with webhook_ca_file"
                .into())
        }
        false => Ok(roots),
    }
}
