//! TLS with a certificate and a key from PEM files, which are read once, at startup.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::{Config, ConfigError};

/// Accepts TLS connections, if TLS is configured.
///
/// # Errors
/// If a file cannot be read or the key does not belong to the certificate.
pub fn acceptor(config: &Config) -> Result<Option<TlsAcceptor>, ConfigError> {
    if config.tls_cert.as_os_str().is_empty() {
        return Ok(None);
    }
    let chain = certificates(&config.tls_cert)?;
    let key = PrivateKeyDer::from_pem_file(&config.tls_key)
        .map_err(|error| unusable("tls_key", &config.tls_key, why(error, "private key")))?;
    let pair = |error: tokio_rustls::rustls::Error| {
        let (cert, key) = (config.tls_cert.display(), config.tls_key.display());
        ConfigError(format!("tls_cert {cert} and tls_key {key} cannot be used together: {error}"))
    };
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(pair)?.with_no_client_auth();
    let mut server = builder.with_single_cert(chain, key).map_err(pair)?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(server))))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let chain: Vec<_> = read.map_err(|error| unusable("tls_cert", path, why(error, "certificate")))?;
    match chain.is_empty() {
        true => Err(unusable("tls_cert", path, why(PemError::NoItemsFound, "certificate"))),
        false => Ok(chain),
    }
}

fn why(error: PemError, wanted: &str) -> String {
    match error {
        PemError::NoItemsFound => format!("it contains no {wanted}; it must be a PEM file"),
        PemError::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

fn unusable(setting: &str, path: &Path, why: String) -> ConfigError {
    ConfigError(format!("{setting} {} cannot be read: {why}", path.display()))
}
