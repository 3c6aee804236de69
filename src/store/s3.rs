//! Blobs in a bucket of S3, or of anything that speaks its protocol.
//!
//! Credentials come from where the tools of AWS take them: the environment, a file of credentials, a web identity, or the
//! machine. Failures of the network and of the service (5xx) are repeated with growing pauses.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use object_store::aws::{AmazonS3Builder, AwsCredential};
use object_store::client::{HttpClient, HttpConnector};
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, CredentialProvider, ObjectStore, RetryConfig,
};
use parking_lot::Mutex;

use super::blobs::Blobs;
use super::error::{Result, StoreError};

/// How long a request to the bucket may take in all. Parts have a few megabytes.
const REQUEST: Duration = Duration::from_secs(60);
/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a request is repeated.
const RETRY_FOR: Duration = Duration::from_secs(120);
/// How long a file of credentials is believed. Somebody else may replace it at any time.
const FRESH: Duration = Duration::from_secs(60);

/// A place for blobs in a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Place {
    bucket: String,
    prefix: String,
    /// The address of the service; empty means that of AWS, or AWS_ENDPOINT_URL.
    pub endpoint: String,
    /// The region; empty means AWS_REGION.
    pub region: String,
    /// Whether the address may be without TLS.
    pub allow_http: bool,
}

impl FromStr for S3Place {
    type Err = String;

    /// Reads `s3://bucket` or `s3://bucket/prefix`.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not a place for blobs: use s3://bucket/prefix");
        let rest = text.strip_prefix("s3://").ok_or_else(bad)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        let of_bucket = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let of_prefix = |byte: u8| of_bucket(byte) || byte == b'/' || byte == b'=';
        let named = !bucket.is_empty() && bucket.bytes().all(of_bucket);
        let plain = prefix.bytes().all(of_prefix) && !format!("/{prefix}/").contains("/../");
        if !named || !plain || (prefix.contains("//") || prefix.starts_with('/')) {
            return Err(bad());
        }
        Ok(S3Place {
            bucket: bucket.into(),
            prefix: prefix.into(),
            endpoint: String::new(),
            region: String::new(),
            allow_http: false,
        })
    }
}

impl S3Place {
    /// The blobs there. Nothing is connected to yet.
    ///
    /// # Errors
    /// `Refused` if the environment or a file of credentials cannot be used.
    pub fn blobs(&self) -> Result<Blobs> {
        Ok(Blobs::new(self.objects("the setting blobs")?))
    }

    /// The bucket.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The prefix, without slashes at its ends.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The objects there. `what` names the place in errors.
    pub(super) fn objects(&self, what: &str) -> Result<Arc<dyn ObjectStore>> {
        install_tls();
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(&self.bucket);
        if !self.endpoint.is_empty() {
            builder = builder.with_endpoint(&self.endpoint);
        }
        if !self.region.is_empty() {
            builder = builder.with_region(&self.region);
        }
        if self.allow_http {
            builder = builder.with_allow_http(true);
        }
        let retry = RetryConfig { backoff: backoff(), max_retries: 12, retry_timeout: RETRY_FOR };
        builder = builder.with_http_connector(Connector).with_retry(retry);
        if let Some(file) = CredentialsFile::of_environment() {
            file.read().map_err(StoreError::Refused)?;
            builder = builder.with_credentials(Arc::new(file));
        }
        let unusable =
            |error: object_store::Error| StoreError::Refused(format!("{what} cannot be used: {error}"));
        let bucket = builder.build().map_err(unusable)?;
        Ok(match self.prefix.as_str() {
            "" => Arc::new(bucket),
            prefix => Arc::new(PrefixStore::new(bucket, Path::from(prefix))),
        })
    }
}

/// Connects to the address in the settings and to no other: whoever answers there cannot send the service elsewhere.
#[derive(Debug)]
struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let plain = options.get_config_value(&ClientConfigKey::AllowHttp).as_deref() == Some("true");
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .https_only(!plain)
            .http1_only()
            .connect_timeout(CONNECT)
            .timeout(REQUEST)
            .build();
        let unusable = |error| object_store::Error::Generic { store: "S3", source: Box::new(error) };
        Ok(HttpClient::new(client.map_err(unusable)?))
    }
}

fn backoff() -> BackoffConfig {
    BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(15),
        base: 2.0,
    }
}

/// Chooses the cryptography of TLS connections, once for the process.
pub fn install_tls() {
    // An error means that it was chosen already.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
}

/// A file with credentials, such as `~/.aws/credentials`, and one of its profiles.
struct CredentialsFile {
    path: PathBuf,
    profile: String,
    known: Mutex<Option<(Instant, Arc<AwsCredential>)>>,
}

impl std::fmt::Debug for CredentialsFile {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "CredentialsFile({})", self.path.display())
    }
}

impl CredentialsFile {
    /// The file that the environment names, or the usual one, unless the environment has credentials itself.
    fn of_environment() -> Option<Self> {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let elsewhere = [
            "AWS_ACCESS_KEY_ID",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        ];
        if elsewhere.iter().any(|name| set(name).is_some()) {
            return None;
        }
        let named = set("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
        let usual = || {
            let path = PathBuf::from(set("HOME")?).join(".aws/credentials");
            path.is_file().then_some(path)
        };
        let profile = set("AWS_PROFILE").unwrap_or_else(|| "default".into());
        Some(CredentialsFile { path: named.or_else(usual)?, profile, known: Mutex::default() })
    }

    fn read(&self) -> Result<Arc<AwsCredential>, String> {
        let mut known = self.known.lock();
        if let Some((_, credential)) = known.as_ref().filter(|(read_at, _)| read_at.elapsed() < FRESH) {
            return Ok(credential.clone());
        }
        let text = std::fs::read_to_string(&self.path).map_err(|error| {
            format!("the file of credentials {} cannot be read: {error}", self.path.display())
        })?;
        let credential = profile_of(&text, &self.profile).map(Arc::new).ok_or_else(|| {
            format!(
                "the file of credentials {} has no profile {:?} with aws_access_key_id and aws_secret_access_key",
                self.path.display(),
                self.profile
            )
        })?;
        *known = Some((Instant::now(), credential.clone()));
        Ok(credential)
    }
}

#[async_trait]
impl CredentialProvider for CredentialsFile {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        self.read().map_err(|why| object_store::Error::Generic { store: "S3", source: why.into() })
    }
}

/// The credentials of a profile in the text of a file: sections in brackets, and lines of the form `name = value`.
fn profile_of(text: &str, profile: &str) -> Option<AwsCredential> {
    let (mut ours, mut key_id, mut secret_key, mut token) = (false, None, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            ours = section.trim() == profile;
        } else if let Some((name, value)) = line.split_once('=').filter(|_| ours) {
            let value = Some(value.trim().to_owned());
            match name.trim() {
                "aws_access_key_id" => key_id = value,
                "aws_secret_access_key" => secret_key = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
    }
    Some(AwsCredential { key_id: key_id?, secret_key: secret_key?, token })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_buckets_with_a_prefix() {
        for (text, bucket, prefix) in [
            ("s3://logs", "logs", ""),
            ("s3://logs/", "logs", ""),
            ("s3://my-logs.v2/a/b_c", "my-logs.v2", "a/b_c"),
            ("s3://logs/a/", "logs", "a"),
        ] {
            let place: S3Place = text.parse().unwrap();
            assert_eq!((place.bucket.as_str(), place.prefix.as_str()), (bucket, prefix), "{text}");
        }
        let bad = [
            "",
            "logs",
            "s3://",
            "s3:///a",
            "https://logs/a",
            "s3://logs//a",
            "s3://logs/a/../b",
            "s3://u:p@logs/a",
            "s3://logs/a?x=1",
            "s3://logs/a b",
            "s3://logs/..",
        ];
        for text in bad {
            assert!(text.parse::<S3Place>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_profile_is_found_in_its_file() {
        let text = "# keys\n[default]\naws_access_key_id = A\naws_secret_access_key=b=c\n\n[ other ]\n\
                    aws_access_key_id=D\naws_secret_access_key=e\naws_session_token = t\n[half]\naws_access_key_id=F\n";
        let found =
            |profile| profile_of(text, profile).map(|found| (found.key_id, found.secret_key, found.token));
        assert_eq!(found("default"), Some(("A".into(), "b=c".into(), None)));
        assert_eq!(found("other"), Some(("D".into(), "e".into(), Some("t".into()))));
        assert_eq!(found("half"), None);
        assert_eq!(found("none"), None);
    }
}
