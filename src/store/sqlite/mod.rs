//! The repository on SQLite: one file, one writer, any number of readers (WAL), and every commit is on disk
//! before it returns (`synchronous=FULL`).
//!
//! The queries are in `../sql/` and are compiled once for each database, with the names and the macros that its module
//! defines before it includes them. What differs between databases is in this folder.

/// The current time in microseconds by the database's clock, as an SQL expression.
macro_rules! now_sql {
    () => {
        "(CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000)"
    };
}

/// An aggregate: the values of a column as a JSON array.
macro_rules! json_array {
    ($column:literal) => {
        concat!("json_group_array(", $column, ")")
    };
}

/// A table with the elements of a JSON array in the column `value`.
macro_rules! json_each {
    ($parameter:literal) => {
        concat!("json_each(", $parameter, ")")
    };
}

/// A join that looks up each row of the first table in the second. SQLite would rather read the whole index.
macro_rules! join_in_order {
    () => {
        "CROSS JOIN"
    };
}

/// The decision of a job's result. A result that cannot be read has none.
macro_rules! decision_sql {
    () => {
        "CASE WHEN json_valid(result) THEN json_extract(result, '$.decision') END"
    };
}

/// Locks the rows that are read. A transaction that writes has locked everything.
macro_rules! lock_rows {
    () => {
        ""
    };
}

/// The same, and leaves out rows that others have locked.
macro_rules! skip_locked {
    ($table:literal) => {
        ""
    };
}

#[path = "../sql/blobs.rs"]
mod blobs;
#[path = "../sql/datasets.rs"]
mod datasets;
#[path = "../sql/gates.rs"]
mod gates;
#[path = "../sql/imports.rs"]
mod imports;
#[path = "../sql/jobs.rs"]
mod jobs;
#[path = "../sql/keys.rs"]
mod keys;
#[path = "../sql/leases.rs"]
mod leases;
#[path = "../sql/ledger.rs"]
mod ledger;
#[path = "../sql/outbox.rs"]
mod outbox;
#[path = "../sql/policies.rs"]
mod policies;
#[path = "../sql/requests.rs"]
mod requests;
#[path = "../sql/row_sets.rs"]
mod row_sets;
#[path = "../sql/rows.rs"]
mod rows;
#[path = "../sql/same_rows.rs"]
mod same_rows;
mod schema;
mod snapshot;
#[path = "../sql/upkeep.rs"]
mod upkeep;
#[path = "../sql/versions.rs"]
mod versions;
#[path = "../sql/webhooks.rs"]
mod webhooks;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Row, Transaction};
use tokio::sync::broadcast;

use super::error::{Result, StoreError};
use super::ids::Timestamp;
use super::recent::{Changed, ReadingJobs, RecentJobs};
use super::records::JobChange;
use blobs::micros;

#[cfg(test)]
pub(super) use schema::VERSION as SCHEMA_VERSION;
pub use snapshot::Snapshot;

/// What the shared queries call the parts of this database.
type Repo = Sqlite;
type Database = sqlx::Sqlite;
type Connection = sqlx::SqliteConnection;
type DbRow = sqlx::sqlite::SqliteRow;
type Pool = sqlx::SqlitePool;
/// A document in a column: JSON as text.
type Document = String;

/// Connections for reading.
const READERS: u32 = 4;

/// A repository in an SQLite file.
pub struct Sqlite {
    writer: Pool,
    readers: Pool,
    recent: Arc<RecentJobs>,
    reading: ReadingJobs,
}

/// A transaction that holds the write lock from its start, and the time at which it began.
struct Write {
    tx: Transaction<'static, Database>,
    now: Timestamp,
    changed: Changed,
}

impl Sqlite {
    /// Whether several servers can use the database at the same time.
    const SHARED: bool = false;
    /// Whether a text can contain the character 0.
    const HOLDS_ZERO: bool = true;

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

    /// Begins a transaction that writes rows of its own only. There is one writer anyway.
    async fn write_rows(&self) -> Result<Write> {
        self.write().await
    }

    /// Begins a transaction that sees the database as it is now, whatever others write.
    async fn read(&self) -> Result<Transaction<'static, Database>> {
        Ok(self.readers.begin().await?)
    }

    /// Changes by other processes. Nobody announces them.
    fn listen(&self) -> Option<broadcast::Receiver<JobChange>> {
        None
    }

    /// The database's clock is that of this machine.
    fn time(&self) -> Timestamp {
        Timestamp::now()
    }

    /// The server that holds the directory's lock is alone.
    async fn lead(&self) -> Result<bool> {
        Ok(true)
    }

    async fn answer(&self) -> Result<()> {
        sqlx::query("SELECT 1 FROM schema_version LIMIT 1").fetch_one(&self.readers).await?;
        Ok(())
    }

    async fn move_log(&self) -> Result<()> {
        sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&self.writer).await?;
        Ok(())
    }

    async fn examine(&self) -> Result<()> {
        let row = sqlx::query("PRAGMA quick_check(1)").fetch_one(&self.readers).await?;
        let found: String = row.try_get(0)?;
        match found.as_str() {
            "ok" => Ok(()),
            found => Err(StoreError::damaged("the database", found)),
        }
    }
}

impl Write {
    fn connection(&mut self) -> &mut Connection {
        &mut self.tx
    }

    async fn commit(self) -> Result<()> {
        Ok(self.tx.commit().await?)
    }

    async fn roll_back(self) -> Result<()> {
        Ok(self.tx.rollback().await?)
    }
}

async fn now(connection: &mut Connection) -> Result<Timestamp> {
    let row = sqlx::query(concat!("SELECT ", now_sql!(), " AS now")).fetch_one(connection).await?;
    Ok(Timestamp(row.try_get("now")?))
}
