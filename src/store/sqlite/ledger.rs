//! The ledger: one entry a certificate, written in the transaction that ends its job, so that the
//! two cannot come apart.

use async_trait::async_trait;
use serde::Serialize;
use serde::de::{DeserializeOwned, IntoDeserializer};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::rows::{count, json, json_option, parsed, time, to_json};
use super::{Sqlite, Write};
use crate::engine::certificate::{
    Certificate, Document, LedgerPlace, PublicKey, SharedLook, SharedWhy, SigningKey, anytime_event,
};
use crate::engine::spec::{Family, JobSpec};
use crate::store::error::{Resource, Result, StoreError};
use crate::store::ids::{DatasetId, JobId, Timestamp, Workspace};
use crate::store::page::{Cursor, Page, PageRequest};
use crate::store::records::{Job, LedgerEntry, LedgerSummary, NewJob};
use crate::store::repository::Ledger;

fn entry(row: &SqliteRow) -> Result<LedgerEntry> {
    let shares = match row.try_get::<Option<i64>, _>("shares_look")? {
        Some(_) => Some(SharedLook { look: count(row, "shares_look")?, why: named(row, "shares_why")? }),
        None => None,
    };
    let family = match json_option::<Family>(row, "family")? {
        // The place counts this look by itself, where it cost anything.
        Some(family) => {
            let taken: u64 = count(row, "family_taken")?;
            Some((family, taken.saturating_sub(u64::from(shares.is_none()))))
        }
        None => None,
    };
    let (look, delta, spent) = (count(row, "look")?, row.try_get("delta")?, row.try_get("spent_before")?);
    Ok(LedgerEntry {
        place: LedgerPlace::new(look, delta, shares, spent, family),
        job_id: parsed(row, "job_id")?,
        dataset_id: parsed(row, "dataset_id")?,
        dataset_version: count(row, "dataset_version")?,
        created_at: time(row, "created_at")?,
        kind: named(row, "kind")?,
        bound: named(row, "bound")?,
        candidates: count(row, "candidates")?,
        decision: named(row, "decision")?,
        digest: row.try_get("digest")?,
        signature: json_option(row, "signature")?,
    })
}

/// An enumeration by the name that JSON has for it.
fn named<T: DeserializeOwned>(row: &SqliteRow, column: &str) -> Result<T> {
    let name: String = row.try_get(column)?;
    T::deserialize(name.as_str().into_deserializer())
        .map_err(|error: serde::de::value::Error| StoreError::damaged(column, error))
}

fn name_of<T: Serialize>(value: T) -> Result<String> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => Ok(name),
        other => Err(StoreError::damaged("an enumeration", format!("{other:?}"))),
    }
}

const SAME_DIGEST: &str = "SELECT MIN(look) AS look FROM ledger WHERE dataset_id = $1 AND digest = $2";
const SAME_EVENT: &str = "SELECT MIN(look) AS look FROM ledger WHERE dataset_id = $1 AND event = $2";

impl Write {
    /// Enters a job's certificate as the next look at its dataset, signed as it will be shown.
    pub async fn enter_look(
        &mut self,
        job: &Job,
        certificate: &Certificate,
        key: Option<&SigningKey>,
    ) -> Result<()> {
        let event = anytime_event(certificate);
        let place = self.place(job, certificate, event.as_deref()).await?;
        let signature = match key {
            Some(key) => {
                let (issued, ledger) = (Some(job.issued()), Some(place.clone()));
                let mut document =
                    Document { certificate: certificate.clone(), issued, ledger, signature: None };
                key.sign(&mut document).map_err(|error| StoreError::damaged("a certificate", error))?;
                document.signature
            }
            None => None,
        };
        let family = job.spec.family.as_ref().map(to_json).transpose()?;
        sqlx::query(
            "INSERT INTO ledger (dataset_id, look, workspace, job_id, dataset_version, created_at, kind, bound, \
             candidates, decision, delta, spent_before, cost, shares_look, shares_why, family, family_taken, digest, \
             event, signature) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)",
        )
        .bind(job.dataset_id.to_string())
        .bind(place.look as i64)
        .bind(job.workspace.as_str())
        .bind(job.id.to_string())
        .bind(job.dataset_version as i64)
        .bind(self.now.0)
        .bind(name_of(job.kind)?)
        .bind(name_of(job.spec.bound)?)
        .bind(job.spec.candidates.len() as i64)
        .bind(name_of(certificate.decision)?)
        .bind(place.delta)
        .bind(place.spent_before)
        .bind(place.cost)
        .bind(place.shares.map(|shared| shared.look as i64))
        .bind(place.shares.map(|shared| name_of(shared.why)).transpose()?)
        .bind(family)
        .bind(place.family.map(|family| family.taken as i64))
        .bind(&certificate.digest)
        .bind(event)
        .bind(signature.as_ref().map(to_json).transpose()?)
        .execute(self.connection())
        .await?;
        Ok(())
    }

    async fn place(
        &mut self,
        job: &Job,
        certificate: &Certificate,
        event: Option<&str>,
    ) -> Result<LedgerPlace> {
        let dataset = job.dataset_id.to_string();
        let last = sqlx::query(
            "SELECT look, spent_before + cost AS spent FROM ledger WHERE dataset_id = $1 ORDER BY look DESC LIMIT 1",
        )
        .bind(&dataset)
        .fetch_optional(self.connection())
        .await?;
        let (look, spent) = match last {
            Some(row) => (count::<u64>(&row, "look")?, row.try_get("spent")?),
            None => (0, 0.0),
        };
        let repeated = self.earliest_look(SAME_DIGEST, &dataset, Some(&certificate.digest)).await?;
        let shares = match repeated {
            Some(look) => Some(SharedLook { look, why: SharedWhy::Repeat }),
            None => (self.earliest_look(SAME_EVENT, &dataset, event).await?)
                .map(|look| SharedLook { look, why: SharedWhy::Anytime }),
        };
        let family = match &job.spec.family {
            Some(family) => Some((*family, self.family_looks(&dataset, family).await?)),
            None => None,
        };
        Ok(LedgerPlace::new(look + 1, job.spec.delta, shares, spent, family))
    }

    async fn earliest_look(
        &mut self,
        query: &'static str,
        dataset: &str,
        value: Option<&str>,
    ) -> Result<Option<u64>> {
        let Some(value) = value else { return Ok(None) };
        let row = sqlx::query(query).bind(dataset).bind(value).fetch_one(self.connection()).await?;
        Ok(row.try_get::<Option<i64>, _>("look")?.and_then(|look| u64::try_from(look).ok()))
    }

    /// How many looks of a family cost something.
    async fn family_looks(&mut self, dataset: &str, family: &Family) -> Result<u64> {
        let row = sqlx::query(
            "SELECT COUNT(*) AS looks FROM ledger WHERE dataset_id = $1 AND family = $2 AND cost > 0",
        )
        .bind(dataset)
        .bind(to_json(family)?)
        .fetch_one(self.connection())
        .await?;
        count(&row, "looks")
    }

    /// Whether the family has a look left for one more job. One that is not finished holds its place:
    /// so no job can end and find that there is none.
    pub async fn check_family(&mut self, new: &NewJob) -> Result<()> {
        let Some(family) = &new.spec.family else { return Ok(()) };
        let dataset = new.dataset_id.to_string();
        let rows =
            sqlx::query("SELECT spec FROM jobs WHERE dataset_id = $1 AND status IN ('queued', 'running')")
                .bind(&dataset)
                .fetch_all(self.connection())
                .await?;
        let mut held = 0;
        for row in &rows {
            let spec: JobSpec = json(row, "spec")?;
            held += u64::from(spec.family.as_ref() == Some(family));
        }
        let taken = self.family_looks(&dataset, family).await?;
        if taken + held < family.looks {
            return Ok(());
        }
        Err(StoreError::FamilyExhausted { looks: family.looks, taken, held })
    }
}

#[async_trait]
impl Ledger for Sqlite {
    async fn ledger(
        &self,
        workspace: &Workspace,
        dataset: DatasetId,
        page: &PageRequest,
    ) -> Result<(LedgerSummary, Page<LedgerEntry>)> {
        let cursor = Cursor::of(page)?;
        let mut tx = self.readers.begin().await?;
        let known = sqlx::query("SELECT 1 FROM datasets WHERE id = $1 AND workspace = $2")
            .bind(dataset.to_string())
            .bind(workspace.as_str())
            .fetch_optional(&mut *tx)
            .await?;
        known.ok_or_else(|| StoreError::not_found(Resource::Dataset, dataset))?;
        let last = sqlx::query(
            "SELECT look, spent_before + cost AS spent FROM ledger WHERE dataset_id = $1 ORDER BY look DESC LIMIT 1",
        )
        .bind(dataset.to_string())
        .fetch_optional(&mut *tx)
        .await?;
        let summary = match last {
            Some(row) => LedgerSummary { looks: count(&row, "look")?, spent: row.try_get("spent")? },
            None => LedgerSummary::default(),
        };
        // Looks count up by one, so they order the list; the cursor carries one in the place of a time.
        let rows = sqlx::query(
            "SELECT * FROM ledger WHERE dataset_id = $1 AND look < $2 ORDER BY look DESC LIMIT $3",
        )
        .bind(dataset.to_string())
        .bind(cursor.created_at.0)
        .bind(i64::from(page.limit) + 1)
        .fetch_all(&mut *tx)
        .await?;
        let entries = rows.iter().map(entry).collect::<Result<Vec<_>>>()?;
        let place =
            |e: &LedgerEntry| Cursor { created_at: Timestamp(e.place.look as i64), id: e.job_id.to_string() };
        Ok((summary, Page::from_extra(entries, page.limit, place)))
    }

    async fn look_of_job(&self, workspace: &Workspace, job: JobId) -> Result<Option<LedgerEntry>> {
        let row = sqlx::query("SELECT * FROM ledger WHERE job_id = $1 AND workspace = $2")
            .bind(job.to_string())
            .bind(workspace.as_str())
            .fetch_optional(&self.readers)
            .await?;
        row.as_ref().map(entry).transpose()
    }

    async fn remember_signing_key(&self, key: &PublicKey) -> Result<()> {
        let mut write = self.write().await?;
        let now = write.now.0;
        sqlx::query(
            "INSERT INTO signing_keys (public_key, first_used) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        )
        .bind(key.base64())
        .bind(now)
        .execute(write.connection())
        .await?;
        write.commit().await
    }

    async fn signing_keys(&self) -> Result<Vec<PublicKey>> {
        let rows = sqlx::query("SELECT public_key FROM signing_keys ORDER BY first_used DESC, public_key")
            .fetch_all(&self.readers)
            .await?;
        let key = |row: &SqliteRow| {
            let text: String = row.try_get("public_key")?;
            PublicKey::from_text(&text).ok_or_else(|| StoreError::damaged("a public key", text))
        };
        rows.iter().map(key).collect()
    }
}
