//! Checks and sweeps.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::Row;

use super::policies::policy_user;
use super::rows::to_json;
use super::{Repo, Write, micros, now};
use crate::store::error::Result;
use crate::store::ids::Timestamp;
use crate::store::repository::Upkeep;

/// How many jobs one transaction deletes, so that a sweep does not block other writers for long.
const BATCH: i64 = 100;

/// How many keys of blobs are looked up at a time.
const KEYS_AT_ONCE: usize = 1000;

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
        write.changed.add(id, "deleted");
    }
    sqlx::query("DELETE FROM jobs WHERE id = $1").bind(id).execute(write.connection()).await?;
    Ok(blobs)
}

#[async_trait]
impl Upkeep for Repo {
    async fn ping(&self) -> Result<()> {
        self.answer().await
    }

    async fn truncate_log(&self) -> Result<()> {
        self.move_log().await
    }

    async fn check_integrity(&self) -> Result<()> {
        self.examine().await
    }

    fn is_shared(&self) -> bool {
        Repo::SHARED
    }

    async fn now(&self) -> Result<Timestamp> {
        now(&mut *self.readers.acquire().await?).await
    }

    fn clock(&self) -> Timestamp {
        self.time()
    }

    async fn may_tidy(&self) -> Result<bool> {
        self.lead().await
    }

    async fn installation(&self) -> Result<String> {
        let mut write = self.write().await?;
        sqlx::query("CREATE TABLE IF NOT EXISTS installation (id TEXT NOT NULL)")
            .execute(write.connection())
            .await?;
        sqlx::query("INSERT INTO installation (id) SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM installation)")
            .bind(uuid::Uuid::now_v7().to_string())
            .execute(write.connection())
            .await?;
        let row = sqlx::query("SELECT id FROM installation").fetch_one(write.connection()).await?;
        let id = row.try_get("id")?;
        write.commit().await?;
        Ok(id)
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
        let mut unnamed = Vec::new();
        for some in keys.chunks(KEYS_AT_ONCE) {
            let mut write = self.write().await?;
            let found: Vec<(String,)> = sqlx::query_as(concat!(
                "SELECT value FROM ",
                json_each!("$1"),
                " k WHERE NOT EXISTS (SELECT 1 FROM blobs b WHERE b.key = k.value)"
            ))
            .bind(to_json(&some)?)
            .fetch_all(write.connection())
            .await?;
            write.commit().await?;
            unnamed.extend(found.into_iter().map(|(key,)| key));
        }
        Ok(unnamed)
    }
}
