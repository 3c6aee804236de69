//! A consistent copy of the database into a file of its own, while others write to it.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, Row, SqliteConnection};

use super::rows::count;
use crate::store::error::{Result, StoreError};

pub struct Snapshot;

impl Snapshot {
    /// Writes the copy to `to` and returns the files that it names, with their lengths. The database
    /// itself is only read: a release that knows a newer schema may copy an older one.
    pub async fn take(database: &Path, to: &Path) -> Result<HashMap<String, u64>> {
        let options = SqliteConnectOptions::new().filename(database).busy_timeout(Duration::from_secs(10));
        let mut connection = SqliteConnection::connect_with(&options).await?;
        let target = to.to_str().ok_or_else(|| {
            StoreError::Refused(format!("{} is no name that a database can have", to.display()))
        })?;
        sqlx::query("VACUUM INTO $1").bind(target).execute(&mut connection).await?;
        connection.close().await?;
        let mut copy = SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(to)).await?;
        let check = sqlx::query("PRAGMA integrity_check(1)").fetch_one(&mut copy).await?;
        let found: String = check.try_get(0)?;
        if found != "ok" {
            return Err(StoreError::damaged("the database", found));
        }
        let rows = sqlx::query("SELECT key, bytes FROM blobs").fetch_all(&mut copy).await?;
        let named = rows.iter().map(|row| Ok((row.try_get("key")?, count(row, "bytes")?)));
        let named = named.collect::<Result<_>>()?;
        copy.close().await?;
        Ok(named)
    }
}
