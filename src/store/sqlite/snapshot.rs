//! A consistent copy of the database in a separate file, taken while others write to the database.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, Row, SqliteConnection};

use crate::store::error::{Result, StoreError};

/// Takes copies of a database.
pub struct Snapshot;

impl Snapshot {
    /// Writes the copy to `to` and returns the blobs that it names, with their lengths. The database itself
    /// is only read, so a release with a newer schema can copy an older one.
    pub async fn take(database: &Path, to: &Path) -> Result<HashMap<String, u64>> {
        let options = SqliteConnectOptions::new().filename(database).busy_timeout(Duration::from_secs(10));
        let mut connection = SqliteConnection::connect_with(&options).await?;
        let target = to.to_str().ok_or_else(|| {
            StoreError::Refused(format!("{} cannot be the name of a database: it is not UTF-8", to.display()))
        })?;
        sqlx::query("VACUUM INTO $1").bind(target).execute(&mut connection).await?;
        connection.close().await?;
        let mut copy = SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(to)).await?;
        let check = sqlx::query("PRAGMA integrity_check(1)").fetch_one(&mut copy).await?;
        let found: String = check.try_get(0)?;
        if found != "ok" {
            return Err(StoreError::damaged("the database", found));
        }
        let named: Vec<(String, u64)> =
            sqlx::query_as("SELECT key, bytes FROM blobs").fetch_all(&mut copy).await?;
        copy.close().await?;
        Ok(named.into_iter().collect())
    }
}
