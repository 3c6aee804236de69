//! Which files rows name.

use std::time::Duration;

use sqlx::Row;

use super::Write;
use crate::store::error::Result;
use crate::store::records::BlobRef;

impl Write {
    /// Records that rows of `owner` name these files.
    pub async fn name_blobs(&mut self, owner: &str, blobs: &[BlobRef]) -> Result<()> {
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
    pub async fn forget_blobs(&mut self, owner: &str) -> Result<Vec<String>> {
        let rows = sqlx::query("DELETE FROM blobs WHERE owner = $1 RETURNING key")
            .bind(owner)
            .fetch_all(self.connection())
            .await?;
        rows.iter().map(|row| Ok(row.try_get("key")?)).collect()
    }
}

/// A duration in microseconds, as times are stored.
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}
