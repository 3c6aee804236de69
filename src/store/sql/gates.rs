//! Standing gates and their tokens.

use async_trait::async_trait;
use serde_json::Value;
use sqlx::types::Json;
use sqlx::{FromRow, Row};

use super::rows::{Count, check_room, is_taken, plain, read_page, to_json};
use super::{Repo, Write};
use crate::store::blob_keys::Owner;
use crate::store::error::{Resource, Result, StoreError};
use crate::store::ids::{GateTokenId, JobId, Timestamp, Workspace};
use crate::store::page::{Cursor, Page, PageRequest};
use crate::store::records::{
    GateDefinition, GateName, GateToken, Job, KeyHash, NewGate, NewGateToken, StandingGate,
};
use crate::store::repository::Gates;

/// How many jobs are compared with a selector at a time.
const BATCH: i64 = 256;

fn no_gate(name: &GateName) -> StoreError {
    StoreError::not_found(Resource::Gate, name)
}

impl Write {
    async fn named_gate(&mut self, workspace: &Workspace, name: &GateName) -> Result<StandingGate> {
        let gate = sqlx::query_as("SELECT * FROM gates WHERE workspace = $1 AND name = $2")
            .bind(workspace.as_str())
            .bind(name.as_str())
            .fetch_optional(self.connection())
            .await?;
        gate.ok_or_else(|| no_gate(name))
    }
}

#[async_trait]
impl Gates for Repo {
    async fn create_gate(&self, new: NewGate, most: u64) -> Result<StandingGate> {
        let mut write = self.write().await?;
        let now = write.now.0;
        let (present, taken): (Count, Count) = sqlx::query_as(
            "SELECT COUNT(*), COUNT(CASE WHEN name = $2 THEN 1 END) FROM gates WHERE workspace = $1",
        )
        .bind(new.workspace.as_str())
        .bind(new.name.as_str())
        .fetch_one(write.connection())
        .await?;
        let exists = || StoreError::Exists(Resource::Gate, new.name.to_string());
        if taken.0 > 0 {
            return Err(exists());
        }
        check_room(Resource::Gate, present.0, most)?;
        let created = sqlx::query_as(
            "INSERT INTO gates (id, workspace, name, definition, created_at, created_by, changed_at, changed_by, \
             revision) VALUES ($1, $2, $3, $4, $5, $6, $5, $6, 1) RETURNING *",
        )
        .bind(new.id.to_string())
        .bind(new.workspace.as_str())
        .bind(new.name.as_str())
        .bind(to_json(&new.definition)?)
        .bind(now)
        .bind(&new.by)
        .fetch_one(write.connection())
        .await;
        let gate = match created {
            Err(error) if is_taken(&error) => return Err(exists()),
            gate => gate?,
        };
        write.commit().await?;
        Ok(gate)
    }

    async fn gate(&self, workspace: &Workspace, name: &GateName) -> Result<StandingGate> {
        let gate = sqlx::query_as("SELECT * FROM gates WHERE workspace = $1 AND name = $2")
            .bind(workspace.as_str())
            .bind(name.as_str())
            .fetch_optional(&self.readers)
            .await?;
        gate.ok_or_else(|| no_gate(name))
    }

    async fn gates(&self, workspace: &Workspace, page: &PageRequest) -> Result<Page<StandingGate>> {
        let sql = "SELECT * FROM gates WHERE workspace = $1 AND (created_at, id) < ($2, $3) \
             ORDER BY created_at DESC, id DESC LIMIT $4";
        read_page(&self.readers, sql, workspace.as_str(), page).await
    }

    async fn change_gate(
        &self,
        workspace: &Workspace,
        name: &GateName,
        definition: &GateDefinition,
        by: &str,
    ) -> Result<StandingGate> {
        let mut write = self.write().await?;
        let now = write.now.0;
        let gate: Option<StandingGate> = sqlx::query_as(
            "UPDATE gates SET definition = $3, changed_at = $4, changed_by = $5, revision = revision + 1 \
             WHERE workspace = $1 AND name = $2 RETURNING *",
        )
        .bind(workspace.as_str())
        .bind(name.as_str())
        .bind(to_json(definition)?)
        .bind(now)
        .bind(by)
        .fetch_optional(write.connection())
        .await?;
        let gate = gate.ok_or_else(|| no_gate(name))?;
        write.commit().await?;
        Ok(gate)
    }

    async fn delete_gate(&self, workspace: &Workspace, name: &GateName) -> Result<()> {
        let mut write = self.write().await?;
        let deleted = sqlx::query("DELETE FROM gates WHERE workspace = $1 AND name = $2")
            .bind(workspace.as_str())
            .bind(name.as_str())
            .execute(write.connection())
            .await?;
        if deleted.rows_affected() == 0 {
            return Err(no_gate(name));
        }
        write.commit().await
    }

    async fn job_of_gate(&self, gate: &StandingGate) -> Result<Option<Job>> {
        let mut before = Cursor::start();
        loop {
            let rows = sqlx::query(
                "SELECT id, metadata, finished_at FROM jobs WHERE workspace = $1 \
                 AND ($2 IS NULL OR dataset_id = $2) AND finished_at IS NOT NULL \
                 AND (finished_at, id) < ($3, $4) ORDER BY finished_at DESC, id DESC LIMIT $5",
            )
            .bind(gate.workspace.as_str())
            .bind(gate.definition.dataset_id.map(|id| id.to_string()))
            .bind(before.created_at.0)
            .bind(&before.id)
            .bind(BATCH)
            .fetch_all(&self.readers)
            .await?;
            for row in &rows {
                let id: JobId = row.try_get("id")?;
                let metadata: Json<Value> =
                    row.try_get("metadata").map_err(|error| StoreError::from(error).of(Owner::Job(id)))?;
                if gate.definition.selects(&metadata) {
                    // Not from the cache: a gate must not decide by what a job was.
                    return self.read_job(&gate.workspace, id).await.map(Some);
                }
            }
            match rows.last() {
                Some(last) if rows.len() as i64 == BATCH => {
                    let created_at: Timestamp = last.try_get("finished_at")?;
                    before = Cursor { created_at, id: last.try_get("id")? };
                }
                _ => return Ok(None),
            }
        }
    }

    async fn create_gate_token(
        &self,
        workspace: &Workspace,
        gate: &GateName,
        new: NewGateToken,
        most: u64,
    ) -> Result<GateToken> {
        let mut write = self.write().await?;
        let now = write.now.0;
        let gate = write.named_gate(workspace, gate).await?;
        let (present,): (Count,) = sqlx::query_as("SELECT COUNT(*) FROM gate_tokens WHERE gate_id = $1")
            .bind(gate.id.to_string())
            .fetch_one(write.connection())
            .await?;
        check_room(Resource::GateToken, present.0, most)?;
        let token = sqlx::query_as(
            "INSERT INTO gate_tokens (id, gate_id, name, hash, created_at, created_by) \
             VALUES ($1, $2, $3, $4, $5, $6) RETURNING *",
        )
        .bind(new.id.to_string())
        .bind(gate.id.to_string())
        .bind(plain(&new.name))
        .bind(new.hash.to_hex())
        .bind(now)
        .bind(&new.by)
        .fetch_one(write.connection())
        .await?;
        write.commit().await?;
        Ok(token)
    }

    async fn gate_tokens(&self, workspace: &Workspace, gate: &GateName) -> Result<Vec<GateToken>> {
        let gate = self.gate(workspace, gate).await?;
        let tokens =
            sqlx::query_as("SELECT * FROM gate_tokens WHERE gate_id = $1 ORDER BY created_at DESC, id DESC")
                .bind(gate.id.to_string())
                .fetch_all(&self.readers)
                .await?;
        Ok(tokens)
    }

    async fn revoke_gate_token(&self, workspace: &Workspace, gate: &GateName, id: GateTokenId) -> Result<()> {
        let mut write = self.write().await?;
        let gate = write.named_gate(workspace, gate).await?;
        let deleted = sqlx::query("DELETE FROM gate_tokens WHERE gate_id = $1 AND id = $2")
            .bind(gate.id.to_string())
            .bind(id.to_string())
            .execute(write.connection())
            .await?;
        if deleted.rows_affected() == 0 {
            return Err(StoreError::not_found(Resource::GateToken, id));
        }
        write.commit().await
    }

    async fn gate_by_token(&self, hash: &KeyHash) -> Result<Option<(StandingGate, GateTokenId)>> {
        // As for API keys: the index finds candidates by the first 8 digits, and all of the hash is then compared
        // in constant time.
        let rows = sqlx::query(
            "SELECT g.*, t.hash, t.id AS token_id FROM gate_tokens t JOIN gates g ON g.id = t.gate_id \
             WHERE t.hash >= $1 AND t.hash < $1 || 'g'",
        )
        .bind(&hash.to_hex()[..8])
        .fetch_all(&self.readers)
        .await?;
        for row in &rows {
            if KeyHash::from_hex(row.try_get("hash")?).is_some_and(|stored| stored.matches(hash)) {
                return Ok(Some((StandingGate::from_row(row)?, row.try_get("token_id")?)));
            }
        }
        Ok(None)
    }
}
