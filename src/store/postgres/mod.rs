//! The repository on PostgreSQL, which several servers can use at the same time.
//!
//! The queries are those of SQLite (`../sql/`); what differs is in this folder. Two kinds of transactions write:
//!
//! - `write` takes one advisory lock, so that there is one such transaction at a time, as on SQLite. The rules of the
//!   ledger and of shared rows rely on it. A process lets only one of its own wait for the lock.
//! - `write_rows` locks only the rows that it changes: claims, heartbeats, idempotency and keys. A heartbeat never waits
//!   for another transaction, unless that changes the same job.
//!
//! Both run at READ COMMITTED, so every statement after the lock sees what earlier holders have committed. Both take their
//! time from the database after they have the lock, so times never go back from one to the next. Every change of a job is
//! announced with NOTIFY when its transaction commits.

/// The current time in microseconds by the database's clock, as an SQL expression.
macro_rules! now_sql {
    () => {
        "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"
    };
}

/// An aggregate: the values of a column as a JSON array.
macro_rules! json_array {
    ($column:literal) => {
        concat!("COALESCE(json_agg(", $column, "), '[]'::json)")
    };
}

/// A table with the elements of a JSON array in the column `value`.
macro_rules! json_each {
    ($parameter:literal) => {
        concat!("json_array_elements_text(", $parameter, ")")
    };
}

/// A join. The planner finds the right order.
macro_rules! join_in_order {
    () => {
        "JOIN"
    };
}

/// The decision of a job's result.
macro_rules! decision_sql {
    () => {
        "(result ->> 'decision')"
    };
}

/// Locks the rows that are read.
macro_rules! lock_rows {
    () => {
        " FOR UPDATE"
    };
}

/// The same, and leaves out rows that others have locked.
macro_rules! skip_locked {
    ($table:literal) => {
        concat!(" FOR UPDATE OF ", $table, " SKIP LOCKED")
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
mod leader;
#[path = "../sql/leases.rs"]
mod leases;
#[path = "../sql/ledger.rs"]
mod ledger;
mod listener;
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
#[path = "../sql/upkeep.rs"]
mod upkeep;
#[path = "../sql/versions.rs"]
mod versions;
#[path = "../sql/webhooks.rs"]
mod webhooks;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use sqlx::encode::IsNull;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgConnectOptions, PgPoolOptions, PgTypeInfo};
use sqlx::{ConnectOptions, Executor, Row, Transaction};
use tokio::sync::{Mutex, OwnedMutexGuard, broadcast};

use super::error::{Result, StoreError};
use super::ids::Timestamp;
use super::recent::{Changed, ReadingJobs, RecentJobs};
use super::records::JobChange;
use blobs::micros;
use leader::Leader;
use listener::Listener;

/// What the shared queries call the parts of this database.
type Repo = Postgres;
type Database = sqlx::Postgres;
type Connection = sqlx::PgConnection;
type DbRow = sqlx::postgres::PgRow;
type Pool = sqlx::PgPool;

/// The advisory lock of transactions that write everything. Any number would do, if it is always the same.
const WRITES: i64 = 0x6775_6172_0001;
/// The advisory lock of migrations.
const MIGRATES: i64 = 0x6775_6172_0002;
/// The advisory lock of the process whose task upkeep is.
const TIDIES: i64 = 0x6775_6172_0003;

/// How long a request waits for a connection, also while the server restarts.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often the beginning of a transaction is tried. Nothing has happened until then.
const TRIES: u32 = 4;

/// What every connection is told. A process that stops in the middle of a transaction must not hold up the others, and
/// nobody waits forever for a lock.
const SESSION: &str = "SET idle_in_transaction_session_timeout = '15s'; SET lock_timeout = '30s'; \
     SET client_min_messages = 'warning'";

/// A repository in a PostgreSQL database.
pub struct Postgres {
    writer: Pool,
    readers: Pool,
    recent: Arc<RecentJobs>,
    reading: ReadingJobs,
    /// Held by the transaction of this process that holds or waits for the lock of `write`.
    alone: Arc<Mutex<()>>,
    listener: Listener,
    leader: Leader,
    /// How far the database's clock is ahead of this machine's, in microseconds.
    ahead: AtomicI64,
}

/// A transaction, and the time at which it began.
struct Write {
    tx: Transaction<'static, Database>,
    now: Timestamp,
    changed: Changed,
    _alone: Option<OwnedMutexGuard<()>>,
}

/// A document in a column of the type `JSON`, which keeps it as it was written.
struct Document(String);

impl From<String> for Document {
    fn from(text: String) -> Self {
        Document(text)
    }
}

impl sqlx::Type<Database> for Document {
    fn type_info() -> PgTypeInfo {
        // The number of the type `json`, which is the same in every database.
        PgTypeInfo::with_oid(Oid(114))
    }
}

impl sqlx::Encode<'_, Database> for Document {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, sqlx::error::BoxDynError> {
        buffer.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }
}

impl Postgres {
    /// Whether several servers can use the database at the same time.
    const SHARED: bool = true;
    /// Whether a text can contain the character 0.
    const HOLDS_ZERO: bool = false;

    /// Connects to the database at this URL with at most so many connections, and brings its schema up to date.
    ///
    /// # Errors
    /// `Refused` if the URL is not one, or the database was changed by a newer release that this one cannot work beside.
    pub async fn open(url: &str, connections: u32) -> Result<Self> {
        // The URL has a password, so it is in no message.
        let options: PgConnectOptions = url.parse().map_err(|error: sqlx::Error| {
            StoreError::Refused(format!("the setting database is not a URL of PostgreSQL: {error}"))
        })?;
        let options = options.application_name("guarantor").disable_statement_logging();
        let writers = (connections / 3).max(2);
        let writer = pool(writers).connect_with(options.clone()).await.map_err(unreachable)?;
        schema::migrate(&mut *writer.acquire().await?).await?;
        let readers = pool(connections.saturating_sub(writers).max(2)).connect_with(options.clone()).await?;
        let recent: Arc<RecentJobs> = Arc::default();
        let repository = Postgres {
            listener: Listener::new(pool(1).connect_lazy_with(options.clone()), recent.clone()),
            leader: Leader::new(options),
            writer,
            readers,
            recent,
            reading: ReadingJobs::default(),
            alone: Arc::default(),
            ahead: AtomicI64::new(0),
        };
        // Learns the time.
        repository.write_rows().await?.commit().await?;
        Ok(repository)
    }

    /// Closes all connections.
    pub async fn close(&self) {
        self.leader.resign().await;
        self.readers.close().await;
        self.writer.close().await;
    }

    /// Begins a transaction that may write everything.
    async fn write(&self) -> Result<Write> {
        let alone = self.alone.clone().lock_owned().await;
        self.begin(Some(alone)).await
    }

    /// Begins a transaction that writes rows of its own only.
    async fn write_rows(&self) -> Result<Write> {
        self.begin(None).await
    }

    /// A connection that is lost here has done nothing, so this is tried again, for example while the server restarts.
    async fn begin(&self, alone: Option<OwnedMutexGuard<()>>) -> Result<Write> {
        let mut tried = 0;
        let (tx, now) = loop {
            tried += 1;
            match self.try_begin(alone.is_some()).await {
                Err(error) if tried < TRIES && is_lost(&error) => {
                    tokio::time::sleep(Duration::from_millis(50) * 2u32.pow(tried)).await;
                }
                begun => break begun?,
            }
        };
        self.ahead.store(now.0 - Timestamp::now().0, Ordering::Relaxed);
        Ok(Write { tx, now, changed: Changed::new(self.recent.clone()), _alone: alone })
    }

    async fn try_begin(
        &self,
        alone: bool,
    ) -> Result<(Transaction<'static, Database>, Timestamp), sqlx::Error> {
        let mut tx = begun(&self.writer, "BEGIN").await?;
        if alone {
            sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(WRITES).execute(&mut *tx).await?;
        }
        let row = sqlx::query(concat!("SELECT ", now_sql!(), " AS now")).fetch_one(&mut *tx).await?;
        let now = Timestamp(row.try_get("now")?);
        Ok((tx, now))
    }

    /// Begins a transaction that sees the database as it is now, whatever others write.
    async fn read(&self) -> Result<Transaction<'static, Database>> {
        Ok(begun(&self.readers, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?)
    }

    /// Changes of jobs by all processes.
    fn listen(&self) -> Option<broadcast::Receiver<JobChange>> {
        Some(self.listener.subscribe())
    }

    /// The time of the last transaction, and what has passed since by this machine's clock.
    fn time(&self) -> Timestamp {
        Timestamp(Timestamp::now().0.saturating_add(self.ahead.load(Ordering::Relaxed)))
    }

    async fn lead(&self) -> Result<bool> {
        self.leader.leads().await
    }

    async fn answer(&self) -> Result<()> {
        schema::check(&mut *self.readers.acquire().await?).await
    }

    /// The database has its own log, which is none of our business.
    async fn move_log(&self) -> Result<()> {
        Ok(())
    }

    /// The database checks its pages by itself, if it was created with checksums.
    async fn examine(&self) -> Result<()> {
        Ok(())
    }
}

fn pool(connections: u32) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(PATIENCE)
        .max_lifetime(Duration::from_secs(30 * 60))
        .after_connect(|connection, _| {
            Box::pin(async move {
                connection.execute(SESSION).await?;
                let row = connection.fetch_one("SELECT pg_is_in_recovery()").await?;
                // A standby may be behind, and what it says must decide nothing.
                if row.try_get(0)? {
                    return Err(sqlx::Error::Protocol("the server is a standby".into()));
                }
                Ok(())
            })
        })
}

/// Begins a transaction, to its end also if nobody waits for it anymore, as when a client goes away. sqlx does not roll
/// back a BEGIN whose answer nobody reads: the connection would go back to the pool inside of a transaction, and later
/// requests would see the database as it was then.
async fn begun(pool: &Pool, begin: &'static str) -> Result<Transaction<'static, Database>, sqlx::Error> {
    let pool = pool.clone();
    let begun = tokio::spawn(async move { pool.begin_with(begin).await });
    begun.await.map_err(|_| sqlx::Error::WorkerCrashed)?
}

/// Whether a connection failed, or the database ended the transaction so that others could continue.
fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(error) => {
            // The classes of lost connections and of shutdown, failed serialization and deadlocks.
            let code = error.code().unwrap_or_default();
            code.starts_with("08") || code.starts_with("57P") || code == "40001" || code == "40P01"
        }
        _ => false,
    }
}

/// At the start, whoever reads the message can do something about it.
fn unreachable(error: sqlx::Error) -> StoreError {
    match StoreError::from(error) {
        StoreError::Database(error) => StoreError::Refused(format!(
            "the database cannot be reached: {error}; check the setting database and that the server runs"
        )),
        error => error,
    }
}

impl Write {
    fn connection(&mut self) -> &mut Connection {
        &mut self.tx
    }

    async fn commit(mut self) -> Result<()> {
        let announced: Vec<String> =
            self.changed.jobs().iter().map(|&(id, how)| listener::announce(how, id)).collect();
        if !announced.is_empty() {
            sqlx::query("SELECT pg_notify($1, change) FROM unnest($2) AS change")
                .bind(listener::CHANNEL)
                .bind(announced)
                .execute(&mut *self.tx)
                .await?;
        }
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
