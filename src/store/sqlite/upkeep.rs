//! Checks and sweeps.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::Row;

use super::policies::policy_user;
use super::{Sqlite, Write, micros};
use crate::store::error::{Result, StoreError};
use crate::store::repository::Upkeep;

/// How many jobs one transaction deletes, so that a sweep does not block other writers for long.
const BATCH: i64 = 100;

/// Deletes one finished job and what it learned; returns the keys of its files.
async fn delete_job(write: &mut Write, id: &str) -> Result<Vec<String>> {
    let learned = sqlx::query("SELECT id FROM policies WHERE source_job_id = $1")
        .bind(id)
        .fetch_all(write.connection())
        .await?;
    let mut blobs = write.forget_blobs(id).await?;
    for row in &learned {
        let policy: String = row.try_get("id")?;
        if policy_user(write, &policy).await?.is_none() {
            sqlx::query("DELETE FROM policies WHERE id = $1")
                .bind(&policy)
                .execute(write.connection())
                .await?;
            blobs.extend(write.forget_blobs(&policy).await?);
        }
    }
    if let Ok(id) = id.parse() {
        write.changed.add(id);
    }
    sqlx::query("DELETE FROM jobs WHERE id = $1").bind(id).execute(write.connection()).await?;
    Ok(blobs)
}

#[async_trait]
impl Upkeep for Sqlite {
    async fn ping(&self) -> Result<()> {
        sqlx::query("SELECT 1 FROM schema_version LIMIT 1").fetch_one(&self.readers).await?;
        Ok(())
    }

    async fn truncate_log(&self) -> Result<()> {
        sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&self.writer).await?;
        Ok(())
    }

    async fn check_integrity(&self) -> Result<()> {
        let row = sqlx::query("PRAGMA quick_check(1)").fetch_one(&self.readers).await?;
        let found: String = row.try_get(0)?;
        match found.as_str() {
            "ok" => Ok(()),
            found => Err(StoreError::damaged("the database", found)),
        }
    }

    async fn sweep_jobs(&self, age: Duration) -> Result<Vec<String>> {
        let age = micros(age);
        let mut blobs = Vec::new();
        loop {
            let mut write = self.write().await?;
            let before = write.now.0 - age;
            let rows = sqlx::query("SELECT id FROM jobs WHERE finished_at <= $1 LIMIT $2")
                .bind(before)
                .bind(BATCH)
                .fetch_all(write.connection())
                .await?;
            for row in &rows {
                blobs.extend(delete_job(&mut write, &row.try_get::<String, _>("id")?).await?);
            }
            write.commit().await?;
            if (rows.len() as i64) < BATCH {
                return Ok(blobs);
            }
        }
    }

    async fn sweep_requests(&self) -> Result<u64> {
        let mut write = self.write().await?;
        let now = write.now.0;
        let swept = sqlx::query("DELETE FROM requests WHERE expires_at <= $1")
            .bind(now)
            .execute(write.connection())
            .await?;
        write.commit().await?;
        Ok(swept.rows_affected())
    }

    async fn unnamed_blobs(&self, keys: &[String]) -> Result<Vec<String>> {
        let named: Vec<(String,)> = sqlx::query_as("SELECT key FROM blobs").fetch_all(&self.readers).await?;
        let named: HashSet<String> = named.into_iter().map(|(key,)| key).collect();
        Ok(keys.iter().filter(|key| !named.contains(*key)).cloned().collect())
    }
}
