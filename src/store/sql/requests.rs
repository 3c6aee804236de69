//! Idempotency: the requests under each key, and their responses.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::FromRow;
use sqlx::types::Json;
use uuid::Uuid;

use super::rows::{is_taken, to_json};
use super::{Repo, Write, micros};
use crate::store::error::{Result, StoreError};
use crate::store::ids::Workspace;
use crate::store::records::{Begun, IdempotentRequest, StoredAnswer};
use crate::store::repository::Idempotency;

/// How long a response is kept.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(FromRow)]
struct RequestRow {
    fingerprint: String,
    #[sqlx(try_from = "String")]
    resource_id: ResourceId,
    /// Absent while there is no response.
    status: Option<i64>,
    headers: Option<Json<Vec<(String, String)>>>,
    body: Option<Vec<u8>>,
    pending_until: i64,
}

struct ResourceId(Uuid);

impl TryFrom<String> for ResourceId {
    type Error = uuid::Error;

    fn try_from(text: String) -> Result<Self, uuid::Error> {
        text.parse().map(ResourceId)
    }
}

/// Records a request in the place of an expired one with the same key.
/// `None` if another process was faster.
async fn remember(write: &mut Write, request: &IdempotentRequest) -> Result<Option<Begun>> {
    let now = write.now.0;
    sqlx::query("DELETE FROM requests WHERE workspace = $1 AND key = $2")
        .bind(request.workspace.as_str())
        .bind(&request.key)
        .execute(write.connection())
        .await?;
    let inserted = sqlx::query(
        "INSERT INTO requests (workspace, key, fingerprint, resource_id, pending_until, expires_at) \
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(request.workspace.as_str())
    .bind(&request.key)
    .bind(&request.fingerprint)
    .bind(request.resource_id.to_string())
    .bind(now + micros(request.patience))
    .bind(now + micros(KEPT))
    .execute(write.connection())
    .await;
    match inserted {
        Err(error) if is_taken(&error) => return Ok(None),
        inserted => inserted?,
    };
    Ok(Some(Begun::Proceed { resource_id: request.resource_id }))
}

#[async_trait]
impl Idempotency for Repo {
    async fn begin_request(&self, request: &IdempotentRequest) -> Result<Begun> {
        let mut write = self.write_rows().await?;
        let now = write.now.0;
        let row: Option<RequestRow> = sqlx::query_as(concat!(
            "SELECT * FROM requests WHERE workspace = $1 AND key = $2 AND expires_at > $3",
            lock_rows!()
        ))
        .bind(request.workspace.as_str())
        .bind(&request.key)
        .bind(now)
        .fetch_optional(write.connection())
        .await?;
        let Some(row) = row else {
            let Some(begun) = remember(&mut write, request).await? else {
                write.roll_back().await?;
                return Ok(Begun::InProgress);
            };
            write.commit().await?;
            return Ok(begun);
        };
        if row.fingerprint != request.fingerprint {
            return Ok(Begun::Mismatch);
        }
        if let Some(status) = row.status {
            let absent = || StoreError::damaged("a stored response", "it has no headers or no body");
            return Ok(Begun::Replay(StoredAnswer {
                status: u16::try_from(status).unwrap_or(500),
                headers: row.headers.ok_or_else(absent)?.0,
                body: row.body.ok_or_else(absent)?,
            }));
        }
        if row.pending_until > now {
            return Ok(Begun::InProgress);
        }
        sqlx::query("UPDATE requests SET pending_until = $3 WHERE workspace = $1 AND key = $2")
            .bind(request.workspace.as_str())
            .bind(&request.key)
            .bind(now + micros(request.patience))
            .execute(write.connection())
            .await?;
        write.commit().await?;
        Ok(Begun::Proceed { resource_id: row.resource_id.0 })
    }

    async fn complete_request(&self, workspace: &Workspace, key: &str, answer: &StoredAnswer) -> Result<()> {
        let mut write = self.write_rows().await?;
        sqlx::query(
            "UPDATE requests SET status = $3, headers = $4, body = $5 \
             WHERE workspace = $1 AND key = $2 AND status IS NULL",
        )
        .bind(workspace.as_str())
        .bind(key)
        .bind(i64::from(answer.status))
        .bind(to_json(&answer.headers)?)
        .bind(&answer.body)
        .execute(write.connection())
        .await?;
        write.commit().await
    }

    async fn abandon_request(&self, workspace: &Workspace, key: &str) -> Result<()> {
        let mut write = self.write_rows().await?;
        sqlx::query("DELETE FROM requests WHERE workspace = $1 AND key = $2 AND status IS NULL")
            .bind(workspace.as_str())
            .bind(key)
            .execute(write.connection())
            .await?;
        write.commit().await
    }

    async fn renew_request(&self, workspace: &Workspace, key: &str, patience: Duration) -> Result<()> {
        let mut write = self.write_rows().await?;
        let until = write.now.0 + micros(patience);
        sqlx::query(
            "UPDATE requests SET pending_until = $3 WHERE workspace = $1 AND key = $2 AND status IS NULL",
        )
        .bind(workspace.as_str())
        .bind(key)
        .bind(until)
        .execute(write.connection())
        .await?;
        write.commit().await
    }

    async fn release_request(&self, workspace: &Workspace, key: &str) -> Result<()> {
        let mut write = self.write_rows().await?;
        sqlx::query(
            "UPDATE requests SET pending_until = 0 WHERE workspace = $1 AND key = $2 AND status IS NULL",
        )
        .bind(workspace.as_str())
        .bind(key)
        .execute(write.connection())
        .await?;
        write.commit().await
    }

    async fn release_requests(&self) -> Result<()> {
        let mut write = self.write_rows().await?;
        sqlx::query("UPDATE requests SET pending_until = 0 WHERE status IS NULL")
            .execute(write.connection())
            .await?;
        write.commit().await
    }
}
