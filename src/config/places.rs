//! Where a server keeps its data, and what it does for the others that share it.

use std::fmt;

use serde::Deserialize;

use super::{Config, ConfigError, reject};
use crate::store::{AllowedSources, Places, S3Endpoint, S3Place, SigningKeyAt};

/// A setting that must not be shown.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "\"\"" } else { "…" })
    }
}

/// What a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum ServerRole {
    /// Everything.
    All,
    /// It answers requests and runs no jobs.
    Api,
    /// It runs jobs, and answers health checks only.
    Worker,
}

impl TryFrom<String> for ServerRole {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "all" => Ok(ServerRole::All),
            "api" => Ok(ServerRole::Api),
            "worker" => Ok(ServerRole::Worker),
            _ => Err(format!("role is {text:?}; it must be \"all\", \"api\" or \"worker\"")),
        }
    }
}

impl ServerRole {
    /// The name in settings and metrics.
    pub fn name(self) -> &'static str {
        match self {
            ServerRole::All => "all",
            ServerRole::Api => "api",
            ServerRole::Worker => "worker",
        }
    }
}

impl Config {
    /// Where the data is.
    ///
    /// # Errors
    /// If a place cannot be used.
    pub fn places(&self) -> Result<Places, ConfigError> {
        let database = self.database.0.clone();
        if !database.is_empty() && !["postgres://", "postgresql://"].iter().any(|s| database.starts_with(s)) {
            // It may contain a password, so it is not repeated.
            return reject("database must be empty or begin with postgres://".into());
        }
        if !(3..=1000).contains(&self.database_connections) {
            return reject(format!(
                "database_connections is {}; it must be between 3 and 1000",
                self.database_connections
            ));
        }
        let bucket = match self.blobs.as_str() {
            "" => None,
            text => {
                let mut place: S3Place = text.parse().map_err(|why| ConfigError(format!("blobs: {why}")))?;
                (place.endpoint, place.region) = (self.s3_endpoint.clone(), self.s3_region.clone());
                place.allow_http = self.s3_allow_http;
                self.check_endpoint()?;
                Some(place)
            }
        };
        if self.role != ServerRole::All && database.is_empty() {
            return reject(format!(
                "role is {:?}, but SQLite has one server, which must do everything; set database to share the work",
                self.role.name()
            ));
        }
        let connections = self.database_connections;
        Ok(Places { directory: self.data_dir.clone(), database, connections, bucket })
    }

    fn check_endpoint(&self) -> Result<(), ConfigError> {
        let plain = !self.s3_endpoint.is_empty() && !self.s3_endpoint.starts_with("https://");
        if plain && !self.s3_allow_http {
            return reject(
                "s3_endpoint does not begin with https://; anybody in between could read and change the data. If that is \
                 acceptable, set s3_allow_http"
                    .into(),
            );
        }
        Ok(())
    }

    /// Where logs by reference may be; `None` if nowhere.
    ///
    /// # Errors
    /// If the list cannot be used, or names data of this service.
    pub fn allowed_sources(&self) -> Result<Option<AllowedSources>, ConfigError> {
        let allowed = AllowedSources::parse(&self.sources_allow);
        let allowed = allowed.map_err(|why| ConfigError(format!("sources_allow: {why}")))?;
        if allowed.is_empty() {
            return Ok(None);
        }
        if allowed.names_buckets() {
            self.check_endpoint()?;
        }
        if let Some(folder) = allowed.touching(&self.data_dir) {
            return reject(format!(
                "sources_allow has {}, which contains data_dir or is in it; whoever can send requests could read the data \
                 of the service",
                folder.display()
            ));
        }
        let secrets = [
            ("signing_key_file", &self.signing_key_file),
            ("bootstrap_key_file", &self.bootstrap_key_file),
            ("tls_key", &self.tls_key),
        ];
        for (name, file) in secrets.into_iter().filter(|(_, file)| !file.as_os_str().is_empty()) {
            if let Some(folder) = allowed.touching(file) {
                return reject(format!(
                    "sources_allow has {}, which contains {name}; whoever can send requests could read parts of that file",
                    folder.display()
                ));
            }
        }
        let blobs = self.blobs.parse::<S3Place>().ok();
        if blobs.is_some_and(|place| allowed.touches_bucket(place.bucket(), place.prefix())) {
            return reject(
                "sources_allow has a place that contains the setting blobs or is in it; whoever can send requests could \
                 read the data of the service"
                    .into(),
            );
        }
        Ok(Some(allowed))
    }

    /// The service that has the buckets of logs by reference.
    pub fn s3(&self) -> S3Endpoint {
        S3Endpoint {
            address: self.s3_endpoint.clone(),
            region: self.s3_region.clone(),
            allow_http: self.s3_allow_http,
        }
    }

    /// Where the signing key is.
    pub fn signing_key_at(&self) -> SigningKeyAt {
        SigningKeyAt {
            directory: self.data_dir.clone(),
            file: self.signing_key_file.clone(),
            text: self.signing_key.0.clone(),
        }
    }
}
