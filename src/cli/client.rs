//! A small client of the service, for the commands that call one. HTTPS uses the same library as the server, and trusts
//! the certificate authorities of the system or those in a file.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tokio_rustls::rustls::Error as TlsError;
use tokio_rustls::rustls::crypto::ring;
use ureq::http::Response;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

use super::Failure;

/// A client of one server.
pub struct Client {
    agent: Agent,
    base: String,
    key: Option<String>,
}

impl Client {
    /// A client of the server at `base`, with an API key if it needs one. With HTTPS it trusts the authorities in
    /// `ca_file`, or else those of the system.
    ///
    /// # Errors
    /// If the authorities cannot be read.
    pub fn new(base: &str, key: Option<String>, ca_file: Option<&Path>) -> Result<Client, Failure> {
        let mut config = Agent::config_builder().http_status_as_error(false);
        if base.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
            let authorities = match ca_file {
                Some(path) => authorities_in(path)?,
                None => authorities_of_system()?,
            };
            let tls = TlsConfig::builder()
                .root_certs(RootCerts::Specific(Arc::new(authorities)))
                .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()));
            config = config.tls_config(tls.build());
        }
        let agent = config.build().new_agent();
        Ok(Client { agent, base: base.trim_end_matches('/').into(), key })
    }

    /// Sends a GET request and returns the status and the body.
    pub fn get(&self, path: &str) -> Result<(u16, Value), Failure> {
        let mut request = self.agent.get(format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        read(request.call().map_err(|error| self.unreachable(error))?)
    }

    /// Sends a POST request and returns the status and the body.
    pub fn post(&self, path: &str, content_type: &str, body: &[u8]) -> Result<(u16, Value), Failure> {
        let mut request =
            self.agent.post(format!("{}{path}", self.base)).header("content-type", content_type);
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        read(request.send(body).map_err(|error| self.unreachable(error))?)
    }

    /// Why there is no response, and what to do about it.
    fn unreachable(&self, error: ureq::Error) -> Failure {
        let hint = match tls_error(&error) {
            Some(TlsError::InvalidCertificate(_)) => {
                "; if its certificate is of your own authority, name the authority's certificate with --ca-file"
            }
            Some(TlsError::InvalidMessage(_)) => "; does the server speak HTTPS?",
            _ => "",
        };
        format!("{}: {error}{hint}", self.base).into()
    }
}

fn tls_error(error: &ureq::Error) -> Option<&TlsError> {
    match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}

/// The certificates in a PEM file.
fn authorities_in(path: &Path) -> Result<Vec<Certificate<'static>>, Failure> {
    let unusable = |why: String| format!("--ca-file {}: {why}", path.display());
    let pem = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let mut found = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| unusable(error.to_string()))? {
            found.push(certificate);
        }
    }
    match found.is_empty() {
        true => Err(unusable("it contains no certificate; it must be a PEM file".into()).into()),
        false => Ok(found),
    }
}

/// The certificates that the system trusts. One that cannot be read does not matter as long as there are others.
fn authorities_of_system() -> Result<Vec<Certificate<'static>>, Failure> {
    let loaded = rustls_native_certs::load_native_certs();
    let found: Vec<_> = loaded.certs.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    match (found.is_empty(), loaded.errors.first()) {
        (false, _) => Ok(found),
        (true, Some(error)) => Err(format!("the system's certificate authorities: {error}").into()),
        (true, None) => {
            let advice = "install ca-certificates, or name a file with --ca-file";
            Err(format!("the system has no certificate authorities; {advice}").into())
        }
    }
}

fn read(mut response: Response<Body>) -> Result<(u16, Value), Failure> {
    let status = response.status().as_u16();
    let text = response.body_mut().with_config().limit(u64::MAX).read_to_string()?;
    let value = serde_json::from_str(&text)
        .map_err(|_| format!("the response (status {status}) is not JSON; is this a Guarantor server?"))?;
    Ok((status, value))
}

/// Returns the body if the response has the `wanted` status.
///
/// # Errors
/// If it has another status, with the server's explanation.
pub fn expect(wanted: u16, (status, answer): (u16, Value)) -> Result<Value, Failure> {
    if status == wanted {
        return Ok(answer);
    }
    let detail = answer["detail"].as_str().unwrap_or("no detail");
    Err(format!("the server answered {status}: {detail}").into())
}
