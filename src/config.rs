//! Settings: the defaults in `config/default.toml`, overridden by a file, the environment and flags, and then
//! checked against each other. A server starts only with a `Config` that passed the checks.

mod memory;
mod places;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use config::{Environment, File, FileFormat, Value, ValueKind};
use serde::{Deserialize, Deserializer};

use crate::notify::{AllowList, NotifySettings};
use crate::queue::JobMemory;
use crate::store::Workspace;

pub use places::{Secret, ServerRole};

/// The defaults, with their documentation.
pub const DEFAULTS: &str = include_str!("config/default.toml");

/// Variables with our prefix that are not settings of the server.
const NOT_SETTINGS: [&str; 4] =
    ["GUARANTOR_CONFIG", "GUARANTOR_URL", "GUARANTOR_API_KEY", "GUARANTOR_CA_FILE"];

/// The format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// For machines, one object per line.
    Json,
}

impl TryFrom<String> for LogFormat {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "pretty" => Ok(LogFormat::Pretty),
            "json" => Ok(LogFormat::Json),
            _ => Err(format!("log_format is {text:?}; it must be \"pretty\" or \"json\"")),
        }
    }
}

/// The settings. `config/default.toml` documents them in full.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The address and port to listen on.
    pub listen: SocketAddr,
    /// A second address and port for health checks and metrics only.
    #[serde(deserialize_with = "address_or_nothing")]
    pub health_listen: Option<SocketAddr>,
    /// The names, separated by commas, under which a server without API keys may be called besides localhost.
    pub allowed_hosts: String,
    /// What the server does: everything, answer requests, or run jobs.
    pub role: ServerRole,
    /// The directory for all data of the service that is not elsewhere.
    pub data_dir: PathBuf,
    /// The URL of a PostgreSQL database; empty means SQLite in the data directory.
    pub database: Secret,
    /// The most connections to the database.
    pub database_connections: u32,
    /// The bucket for files, as `s3://bucket/prefix`; empty means files in the data directory.
    pub blobs: String,
    /// The address of the service that has the bucket; empty means AWS.
    pub s3_endpoint: String,
    /// The region of the bucket; empty means that of the environment.
    pub s3_region: String,
    /// Whether `s3_endpoint` may be without TLS.
    pub s3_allow_http: bool,
    /// The PEM file with the TLS certificate chain; empty if TLS is off.
    pub tls_cert: PathBuf,
    /// The PEM file with the private key of the certificate; empty if TLS is off.
    pub tls_key: PathBuf,
    /// The file with the key that signs certificates; empty means `signing-key.json` in the data directory.
    pub signing_key_file: PathBuf,
    /// The key itself, for the environment; empty means the file.
    pub signing_key: Secret,
    /// A file with an API key that is added at the start; empty if there is none.
    pub bootstrap_key_file: PathBuf,
    /// The workspace of the key in `bootstrap_key_file`.
    pub bootstrap_workspace: String,
    /// Whether any address is served without API keys.
    pub insecure_no_auth: bool,
    /// Whether the dashboard is served at `/`.
    pub dashboard: bool,
    /// Whether `/metrics` requires an API key.
    pub metrics_need_key: bool,
    /// The format of the log.
    pub log_format: LogFormat,
    /// What to log, in the syntax of `RUST_LOG`.
    pub log_filter: String,
    /// The number of jobs that run at the same time.
    pub workers: usize,
    /// The number of compute threads that jobs share; 0 means one per core.
    pub compute_threads: usize,
    /// How long a worker's claim on a job lasts without a heartbeat.
    pub lease_seconds: u64,
    /// How many times a job whose process died is started before it fails.
    pub max_attempts: u32,
    /// The most queued jobs in total.
    pub max_queued_jobs: u64,
    /// The most queued jobs per workspace.
    pub max_queued_jobs_per_workspace: u64,
    /// The largest JSON body.
    pub max_json_bytes: usize,
    /// The largest uploaded log, as sent.
    pub max_upload_bytes: u64,
    /// The largest uploaded log, after decompression.
    pub max_decoded_bytes: u64,
    /// The most concurrent uploads in total.
    pub max_concurrent_uploads: u32,
    /// The most concurrent uploads with one API key.
    pub max_uploads_per_key: u32,
    /// The most open event streams with one API key.
    pub max_streams_per_key: u32,
    /// The most actions (K) of a log or a policy.
    pub max_actions: usize,
    /// The most features (p) of a log or a policy.
    pub max_features: usize,
    /// The most features of a row that are not 0, if every row has its own actions.
    pub max_row_non_zeros: usize,
    /// The same for all rows of a dataset together.
    pub max_dataset_non_zeros: u64,
    /// The most memory for the log of a job; a larger log is read from a temporary file.
    pub max_log_memory_bytes: u64,
    /// The most memory that a job may take by its estimate; 0 means a share of the machine's memory.
    pub max_job_memory_bytes: u64,
    /// The time limit of a request.
    pub request_seconds: u64,
    /// The time limit of an upload.
    pub upload_seconds: u64,
    /// How long a body may stop arriving before its request is ended with 408.
    pub upload_stall_seconds: u64,
    /// The most open connections.
    pub max_connections: u32,
    /// How long the head of a request may take, and how long a connection may be idle.
    pub header_seconds: u64,
    /// The longest `?wait=`.
    pub max_wait_seconds: u64,
    /// The places, separated by commas, that logs by reference may be in.
    pub sources_allow: String,
    /// The most bytes of all objects of a log by reference.
    pub sources_max_bytes: u64,
    /// The addresses, separated by commas, that webhooks may have.
    pub webhook_allow: String,
    /// The host names of such addresses, separated by commas, that may resolve to private addresses.
    pub webhook_private_hosts: String,
    /// The PEM file with the certificate authorities that receivers of webhooks may have; empty means the system's.
    pub webhook_ca_file: PathBuf,
    /// The URL under which others reach this server, for links in notifications; empty if that is not known.
    pub public_url: String,
    /// After how many days finished jobs are deleted; 0 means never.
    pub retention_days: u64,
    /// How long running jobs, and then open requests, may take to finish during shutdown.
    pub shutdown_seconds: u64,
}

/// A setting that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// Settings from flags, by name.
pub type Overrides = Vec<(&'static str, String)>;

impl Config {
    /// The defaults, overridden by `file`, then by the environment, then by `flags`.
    ///
    /// # Errors
    /// If a setting is unknown or invalid.
    pub fn load(file: Option<&std::path::Path>, flags: &Overrides) -> Result<Config, ConfigError> {
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Config::from_layers(file, environment, flags)
    }

    fn from_layers(
        file: Option<&std::path::Path>,
        environment: Vec<(String, String)>,
        flags: &Overrides,
    ) -> Result<Config, ConfigError> {
        let mut layers = config::Config::builder().add_source(File::from_str(DEFAULTS, FileFormat::Toml));
        if let Some(path) = file {
            layers = layers.add_source(File::from(path).format(FileFormat::Toml));
        }
        let settings = environment.into_iter().filter(|(name, _)| !NOT_SETTINGS.contains(&name.as_str()));
        let variables = Environment::with_prefix("GUARANTOR").prefix_separator("_").try_parsing(true);
        layers = layers.add_source(variables.source(Some(settings.collect())));
        for (name, value) in flags {
            let origin = format!("the flag --{}", name.replace('_', "-"));
            let value = Value::new(Some(&origin), ValueKind::String(value.clone()));
            layers = layers.set_override(name, value).map_err(invalid)?;
        }
        let config: Config = layers.build().and_then(|all| all.try_deserialize()).map_err(invalid)?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let positive = [
            ("workers", self.workers as u64),
            ("lease_seconds", self.lease_seconds),
            ("max_attempts", self.max_attempts.into()),
            ("max_queued_jobs", self.max_queued_jobs),
            ("max_queued_jobs_per_workspace", self.max_queued_jobs_per_workspace),
            ("max_json_bytes", self.max_json_bytes as u64),
            ("max_upload_bytes", self.max_upload_bytes),
            ("max_concurrent_uploads", self.max_concurrent_uploads.into()),
            ("max_uploads_per_key", self.max_uploads_per_key.into()),
            ("max_streams_per_key", self.max_streams_per_key.into()),
            ("upload_stall_seconds", self.upload_stall_seconds),
            ("max_connections", self.max_connections.into()),
            ("header_seconds", self.header_seconds),
            ("max_features", self.max_features as u64),
            ("max_row_non_zeros", self.max_row_non_zeros as u64),
            ("max_dataset_non_zeros", self.max_dataset_non_zeros),
            ("request_seconds", self.request_seconds),
            ("upload_seconds", self.upload_seconds),
            ("sources_max_bytes", self.sources_max_bytes),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return reject(format!("{name} is 0; it must be at least 1"));
        }
        if self.max_actions < 2 {
            return reject(format!("max_actions is {}; it must be at least 2", self.max_actions));
        }
        if self.tls_cert.as_os_str().is_empty() != self.tls_key.as_os_str().is_empty() {
            let missing = if self.tls_key.as_os_str().is_empty() { "tls_key" } else { "tls_cert" };
            return reject(format!("{missing} is not set; TLS needs both tls_cert and tls_key"));
        }
        if let Err(error) = self.bootstrap_workspace.parse::<Workspace>() {
            return reject(format!("bootstrap_workspace: {error}"));
        }
        if self.max_queued_jobs_per_workspace > self.max_queued_jobs {
            return reject(format!(
                "max_queued_jobs_per_workspace ({}) exceeds max_queued_jobs ({}), so one workspace could \
                 fill the queue; lower it or raise max_queued_jobs",
                self.max_queued_jobs_per_workspace, self.max_queued_jobs
            ));
        }
        if self.max_decoded_bytes < self.max_upload_bytes {
            return reject(format!(
                "max_decoded_bytes ({}) is less than max_upload_bytes ({}), so an upload could be rejected \
                 for being compressed; raise it",
                self.max_decoded_bytes, self.max_upload_bytes
            ));
        }
        if self.max_wait_seconds > 60 {
            return reject(format!("max_wait_seconds is {}; it must be at most 60", self.max_wait_seconds));
        }
        if self.request_seconds <= self.max_wait_seconds {
            return reject(format!(
                "request_seconds ({}) must exceed max_wait_seconds ({}), otherwise requests with ?wait= would time out",
                self.request_seconds, self.max_wait_seconds
            ));
        }
        let is_name =
            |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if let Some(name) = self.hosts().find(|name| !is_name(name)) {
            return reject(format!(
                "allowed_hosts has {name:?}; it must be host names without scheme and port, separated by commas"
            ));
        }
        self.notify_settings()?;
        self.places()?;
        self.allowed_sources()?;
        if self.data_dir.as_os_str().is_empty() {
            return reject("data_dir is empty; set it to the directory for the data of the service".into());
        }
        Ok(())
    }

    /// Checks that a server without API keys listens on loopback only, unless that risk was accepted.
    ///
    /// # Errors
    /// If others could reach the server without a key.
    pub fn check_exposure(&self, keys_exist: bool) -> Result<(), ConfigError> {
        if self.listen.ip().is_loopback() || keys_exist || self.insecure_no_auth {
            return Ok(());
        }
        reject(format!(
            "listen is {}, which other machines can reach, but there are no API keys; create one with \
             `guarantor keys create`, listen on 127.0.0.1, or accept the risk with --insecure-no-auth",
            self.listen
        ))
    }

    fn hosts(&self) -> impl Iterator<Item = &str> {
        self.allowed_hosts.split(',').map(str::trim).filter(|name| !name.is_empty())
    }

    /// Whether `allowed_hosts` has this name.
    pub fn allows_host(&self, name: &str) -> bool {
        self.hosts().any(|allowed| allowed.eq_ignore_ascii_case(name))
    }

    /// Which addresses webhooks may have, and how they are reached.
    ///
    /// # Errors
    /// If a list or the public URL cannot be used.
    pub fn notify_settings(&self) -> Result<NotifySettings, ConfigError> {
        let allow =
            AllowList::parse(&self.webhook_allow, &self.webhook_private_hosts).map_err(ConfigError)?;
        let is_web = |url: &str| url.starts_with("https://") || url.starts_with("http://");
        if !self.public_url.is_empty() && !is_web(&self.public_url) {
            return reject(format!(
                "public_url is {:?}; it must begin with https:// or http://",
                self.public_url
            ));
        }
        Ok(NotifySettings {
            allow,
            ca_file: self.webhook_ca_file.clone(),
            public_url: self.public_url.clone(),
        })
    }

    /// How long a claim on a job lasts.
    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_seconds)
    }

    /// How long finished jobs are kept; `None` means forever.
    pub fn retention(&self) -> Option<Duration> {
        (self.retention_days > 0).then(|| Duration::from_secs(self.retention_days.saturating_mul(86_400)))
    }

    /// The most memory that a job may take: the setting, or three quarters of the machine's memory divided by the
    /// number of workers. The rest is for requests and for the operating system.
    pub fn job_memory(&self) -> JobMemory {
        let max_bytes = match self.max_job_memory_bytes {
            0 => default_job_memory(self.workers),
            bytes => bytes,
        };
        JobMemory { max_bytes, threads: self.threads().div_ceil(self.workers.max(1)) }
    }

    /// The number of compute threads.
    pub fn threads(&self) -> usize {
        match self.compute_threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            n => n,
        }
    }
}

/// An address, or nothing if the text is empty.
fn address_or_nothing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.as_str() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            serde::de::Error::custom(format!(
                "health_listen is {text:?}; it must be an address and a port, or empty"
            ))
        }),
    }
}

/// The default of `max_job_memory_bytes` for this many workers.
pub fn default_job_memory(workers: usize) -> u64 {
    memory::available() / 4 * 3 / workers.max(1) as u64
}

fn reject<T>(sentence: String) -> Result<T, ConfigError> {
    Err(ConfigError(sentence))
}

fn invalid(error: config::ConfigError) -> ConfigError {
    ConfigError(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(environment: &[(&str, &str)], flags: &[(&'static str, &str)]) -> Result<Config, String> {
        let environment = environment.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let flags: Overrides = flags.iter().map(|(k, v)| (*k, v.to_string())).collect();
        Config::from_layers(None, environment, &flags).map_err(|error| error.0)
    }

    #[test]
    fn defaults_pass_their_own_checks() {
        let config = load(&[], &[]).unwrap();
        assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
        assert_eq!(config.retention(), None);
        let two = load(&[("GUARANTOR_WORKERS", "2"), ("GUARANTOR_COMPUTE_THREADS", "3")], &[]).unwrap();
        assert_eq!(two.job_memory(), JobMemory { max_bytes: default_job_memory(2), threads: 2 });
        let set = load(&[("GUARANTOR_MAX_JOB_MEMORY_BYTES", "77")], &[]).unwrap();
        assert_eq!(set.job_memory().max_bytes, 77);
        assert!(config.threads() >= 1);
    }

    #[test]
    fn flags_override_the_environment_and_the_environment_overrides_defaults() {
        let environment = [("GUARANTOR_LISTEN", "127.0.0.1:1"), ("GUARANTOR_WORKERS", "3"), ("HOME", "/")];
        let config = load(&environment, &[("listen", "127.0.0.1:2")]).unwrap();
        assert_eq!((config.listen.port(), config.workers), (2, 3));
    }

    #[test]
    fn a_file_overrides_the_defaults() {
        let file = std::env::temp_dir().join(format!("guarantor-config-{}.toml", std::process::id()));
        std::fs::write(&file, "workers = 4\nlog_format = \"json\"\n").unwrap();
        let config = Config::from_layers(Some(&file), vec![], &vec![]).unwrap();
        assert_eq!((config.workers, config.log_format), (4, LogFormat::Json));
        std::fs::write(&file, "wrokers = 4\n").unwrap();
        let error = Config::from_layers(Some(&file), vec![], &vec![]).unwrap_err().0;
        assert!(error.contains("wrokers"), "{error}");
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn invalid_settings_are_named() {
        let cases: [(&str, &str, &[&str]); 23] = [
            ("GUARANTOR_DATABASE", "mysql://u:secret@h/d", &["database", "postgres://"]),
            ("GUARANTOR_BLOBS", "gs://bucket", &["blobs", "s3://bucket/prefix"]),
            ("GUARANTOR_ROLE", "both", &["role", "worker"]),
            ("GUARANTOR_ROLE", "api", &["SQLite has one server"]),
            ("GUARANTOR_DATABASE_CONNECTIONS", "1", &["database_connections is 1"]),
            ("GUARANTOR_WEBHOOK_ALLOW", "hooks.example.com", &["webhook_allow", "hooks.example.com"]),
            ("GUARANTOR_WEBHOOK_PRIVATE_HOSTS", "a.example", &["webhook_private_hosts", "a.example"]),
            ("GUARANTOR_PUBLIC_URL", "guarantor.example", &["public_url", "https://"]),
            ("GUARANTOR_HEALTH_LISTEN", "8081", &["health_listen", "8081"]),
            ("GUARANTOR_ALLOWED_HOSTS", "a.example,http://b", &["allowed_hosts", "http://b"]),
            ("GUARANTOR_MAX_STREAMS_PER_KEY", "0", &["max_streams_per_key is 0"]),
            ("GUARANTOR_LISTEN", "localhost", &["listen"]),
            ("GUARANTOR_WORKERS", "0", &["workers is 0"]),
            ("GUARANTOR_WORKERS", "two", &["workers", "two"]),
            ("GUARANTOR_LOG_FORMAT", "xml", &["xml", "pretty"]),
            ("GUARANTOR_LISTNE", "127.0.0.1:1", &["listne"]),
            ("GUARANTOR_REQUEST_SECONDS", "60", &["request_seconds (60)", "max_wait_seconds (60)"]),
            ("GUARANTOR_MAX_WAIT_SECONDS", "61", &["at most 60"]),
            ("GUARANTOR_TLS_CERT", "a.pem", &["tls_key is not set"]),
            ("GUARANTOR_TLS_KEY", "a.pem", &["tls_cert is not set"]),
            ("GUARANTOR_HEADER_SECONDS", "0", &["header_seconds is 0"]),
            ("GUARANTOR_BOOTSTRAP_WORKSPACE", "Team A", &["bootstrap_workspace", "Team A"]),
            ("GUARANTOR_MAX_QUEUED_JOBS", "10", &["max_queued_jobs_per_workspace (500)"]),
        ];
        for (name, value, words) in cases {
            let error = load(&[(name, value)], &[]).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{name}={value}: {error}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let url = "postgres://u:hunter2@h/d";
        let secrets =
            [("GUARANTOR_DATABASE", url), ("GUARANTOR_SIGNING_KEY", "{\"secret_key\":\"hunter2\"}")];
        let config = load(&secrets, &[]).unwrap();
        assert_eq!(config.places().unwrap().database, url);
        assert!(!format!("{config:?}").contains("hunter2"));
        let wrong = load(&[("GUARANTOR_DATABASE", "mysql://u:hunter2@h/d")], &[]).unwrap_err();
        assert!(!wrong.contains("hunter2"), "{wrong}");
        let endpoint = [("GUARANTOR_BLOBS", "s3://b/p"), ("GUARANTOR_S3_ENDPOINT", "http://s3.example")];
        assert!(load(&endpoint, &[]).unwrap_err().contains("s3_allow_http"));
    }

    #[test]
    fn without_keys_only_loopback_is_allowed() {
        let open = load(&[("GUARANTOR_LISTEN", "0.0.0.0:80")], &[]).unwrap();
        let error = open.check_exposure(false).unwrap_err().0;
        assert!(error.contains("0.0.0.0:80") && error.contains("--insecure-no-auth"), "{error}");
        open.check_exposure(true).unwrap();
        load(&[("GUARANTOR_LISTEN", "[::1]:80")], &[]).unwrap().check_exposure(false).unwrap();
        let told = [("GUARANTOR_LISTEN", "0.0.0.0:80"), ("GUARANTOR_INSECURE_NO_AUTH", "true")];
        load(&told, &[]).unwrap().check_exposure(false).unwrap();
    }
}
