//! The repository on SQLite: one file, one writer, any number of readers (WAL), and every commit is on disk
//! before it returns (`synchronous=FULL`).
//!
//! The SQL is limited to what other databases support too; SQLite-specific code is in this file.

/// The current time in microseconds by the database's clock, as an SQL expression.
macro_rules! now_sql {
    () => {
        "(CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000)"
    };
}

mod datasets;
mod gates;
mod jobs;
mod keys;
mod leases;
mod ledger;
mod outbox;
mod policies;
mod recent;
mod requests;
mod row_sets;
mod rows;
mod same_rows;
mod schema;
mod snapshot;
mod upkeep;
mod versions;
mod webhooks;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Row, SqliteConnection, SqlitePool, Transaction};

use recent::{Changed, ReadingJobs, RecentJobs};

pub use snapshot::Snapshot;

use super::error::Result;
use super::ids::Timestamp;
use super::records::BlobRef;

/// Connections for reading.
const READERS: u32 = 4;

/// A repository in an SQLite file.
pub struct Sqlite {
    writer: SqlitePool,
    readers: SqlitePool,
    recent: Arc<RecentJobs>,
    reading: ReadingJobs,
}

/// A transaction that holds the write lock from its start, and the time at which it began.
struct Write {
    tx: Transaction<'static, sqlx::Sqlite>,
    now: Timestamp,
    changed: Changed,
}

impl Sqlite {
    /// Opens the file, which is created if necessary, and brings its schema up to date.
    pub async fn open(file: &Path) -> Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(Duration::from_secs(10));
        let writer = SqlitePoolOptions::new().max_connections(1).connect_with(options.clone()).await?;
        schema::migrate(&mut *writer.acquire().await?).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .connect_with(options.pragma("query_only", "ON"))
            .await?;
        Ok(Sqlite { writer, readers, recent: Arc::default(), reading: ReadingJobs::default() })
    }

    /// Waits until everything is written and closes the file.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    /// Begins a transaction that may write.
    async fn write(&self) -> Result<Write> {
        let mut tx = match self.writer.begin_with("BEGIN IMMEDIATE").await {
            // SQLite ended a transaction by itself, as it does when the disk is full, but the connection
            // still counts it as open and will never begin another. A new connection will.
            Err(sqlx::Error::InvalidSavePointStatement) => {
                self.writer.acquire().await?.close().await?;
                self.writer.begin_with("BEGIN IMMEDIATE").await?
            }
            begun => begun?,
        };
        let now = now(&mut tx).await?;
        Ok(Write { tx, now, changed: Changed::new(self.recent.clone()) })
    }
}

impl Write {
    fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.tx
    }

    async fn commit(self) -> Result<()> {
        Ok(self.tx.commit().await?)
    }

    /// Records that rows of `owner` name these files.
    async fn name_blobs(&mut self, owner: &str, blobs: &[BlobRef]) -> Result<()> {
        for blob in blobs {
            sqlx::query("INSERT INTO blobs (key, owner, bytes) VALUES ($1, $2, $3)")
                .bind(&blob.key)
                .bind(owner)
                .bind(blob.bytes as i64)
                .execute(self.connection())
                .await?;
        }
        Ok(())
    }

    /// Removes these records. Returns the keys, whose files the caller deletes after the commit.
    async fn forget_blobs(&mut self, owner: &str) -> Result<Vec<String>> {
        let rows = sqlx::query("DELETE FROM blobs WHERE owner = $1 RETURNING key")
            .bind(owner)
            .fetch_all(self.connection())
            .await?;
        rows.iter().map(|row| Ok(row.try_get("key")?)).collect()
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

async fn now(connection: &mut SqliteConnection) -> Result<Timestamp> {
    let row = sqlx::query(concat!("SELECT ", now_sql!(), " AS now")).fetch_one(connection).await?;
    Ok(Timestamp(row.try_get("now")?))
}
