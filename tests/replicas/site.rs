//! A database, a bucket and a signing key, which servers share.

use std::path::PathBuf;
use std::process::Command;

use sqlx::{Connection, PgConnection};

use crate::bucket::{Bucket, KEY_ID, SECRET};
use crate::common::{BINARY, Server};
use crate::postgres::{self, Cluster};

/// How long a lease lasts in these tests, in seconds: crashes and pauses are noticed soon.
pub const LEASE: u64 = 2;

/// What servers share.
pub struct Site {
    pub database: String,
    pub bucket: Bucket,
    pub key_file: PathBuf,
    pub directory: tempfile::TempDir,
    pub runtime: tokio::runtime::Runtime,
}

/// A new signing key in a file.
pub fn new_key(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    let output = Command::new(BINARY).args(["keys", "new", "--signing"]).output().unwrap();
    std::fs::write(path, output.stdout).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

impl Site {
    /// On the cluster that the tests share.
    pub fn new() -> Site {
        Site::on(postgres::shared())
    }

    pub fn on(cluster: &Cluster) -> Site {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let database = runtime.block_on(cluster.database());
        Site::at(database, Bucket::start())
    }

    pub fn at(database: String, bucket: Bucket) -> Site {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let key_file = directory.path().join("key.json");
        new_key(&key_file);
        Site { database, bucket, key_file, directory, runtime }
    }

    /// The settings of a server, with `more` of them.
    pub fn settings(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let lease = LEASE.to_string();
        let own = [
            ("GUARANTOR_DATABASE", self.database.as_str()),
            ("GUARANTOR_BLOBS", "s3://data/p"),
            ("GUARANTOR_S3_ENDPOINT", self.bucket.url()),
            ("GUARANTOR_S3_ALLOW_HTTP", "true"),
            ("GUARANTOR_SIGNING_KEY_FILE", self.key_file.to_str().unwrap()),
            ("GUARANTOR_LEASE_SECONDS", lease.as_str()),
            ("GUARANTOR_MAX_ATTEMPTS", "100000"),
            ("GUARANTOR_COMPUTE_THREADS", "1"),
            ("AWS_ACCESS_KEY_ID", KEY_ID),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
        ];
        own.iter().chain(more).map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    /// Another server.
    pub fn server(&self, more: &[(&str, &str)]) -> Server {
        let settings = self.settings(more);
        Server::start_with(&borrowed(&settings))
    }

    /// The error output of a server that must not start.
    pub fn refused(&self, more: &[(&str, &str)]) -> String {
        let settings = self.settings(more);
        Server::refused_with(tempfile::tempdir().unwrap().path(), &borrowed(&settings))
    }

    /// Runs a query that returns one text.
    pub fn query(&self, sql: &str) -> Option<String> {
        self.runtime.block_on(async {
            let mut connection = PgConnection::connect(&self.database).await.unwrap();
            let sql = sqlx::AssertSqlSafe(sql.to_owned());
            let row: Option<(Option<String>,)> =
                sqlx::query_as(sql).fetch_optional(&mut connection).await.unwrap();
            row.and_then(|(text,)| text)
        })
    }

    /// Runs a statement.
    pub fn execute(&self, sql: &str) {
        self.runtime.block_on(async {
            let mut connection = PgConnection::connect(&self.database).await.unwrap();
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
        });
    }
}

fn borrowed(settings: &[(String, String)]) -> Vec<(&str, &str)> {
    settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}
