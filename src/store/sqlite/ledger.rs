//! The ledger: one entry a look, written in the transaction that ends its job, so that the two cannot
//! come apart. A look is a certificate, or a bound that was shown while a job ran that got none.

use async_trait::async_trait;
use serde::Serialize;
use serde::de::{DeserializeOwned, IntoDeserializer};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::rows::{count, json, json_option, parsed, time, to_json};
use super::{Sqlite, Write};
use crate::store::error::{Resource, Result, StoreError};
use crate::store::ids::{DatasetId, JobId, Timestamp, Workspace};
use crate::store::page::{Cursor, Page, PageRequest};
use crate::store::records::{Job, LedgerEntry, LedgerSummary, NewJob};
use crate::store::repository::Ledger;
use guarantor_engine::EngineError;
use guarantor_engine::certificate::{
    Certificate, Document, LedgerPlace, PublicKey, SharedLook, SharedWhy, Signature, SigningKey,
    anytime_event, asked, holds_at_every_n, prior_is_fixed,
};
use guarantor_engine::spec::{Family, JobSpec};

fn entry(row: &SqliteRow) -> Result<LedgerEntry> {
    Ok(LedgerEntry {
        place: json(row, "place")?,
        job_id: parsed(row, "job_id")?,
        dataset_id: parsed(row, "dataset_id")?,
        dataset_version: count(row, "dataset_version")?,
        created_at: time(row, "created_at")?,
        kind: named(row.try_get("kind")?)?,
        bound: named(row.try_get("bound")?)?,
        candidates: count(row, "candidates")?,
        decision: row.try_get::<Option<&str>, _>("decision")?.map(named).transpose()?,
        digest: row.try_get("digest")?,
        signature: json_option(row, "signature")?,
    })
}

/// What is entered: a certificate, or a bound that a job showed before it ended without one.
struct Look<'a> {
    job: &'a Job,
    certificate: Option<&'a Certificate>,
    event: Option<String>,
    asked: String,
    every_n: bool,
}

/// An enumeration by the name that JSON has for it.
fn named<T: DeserializeOwned>(name: &str) -> Result<T> {
    T::deserialize(name.into_deserializer())
        .map_err(|error: serde::de::value::Error| StoreError::damaged(name, error))
}

fn name_of<T: Serialize>(value: T) -> Result<String> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => Ok(name),
        other => Err(StoreError::damaged("an enumeration", format!("{other:?}"))),
    }
}

const SAME_DIGEST: &str = "SELECT MIN(look) AS look FROM ledger WHERE dataset_id = $1 AND digest = $2";
const SAME_EVENT: &str = "SELECT MIN(look) AS look FROM ledger WHERE dataset_id = $1 AND event = $2";
/// A dataset's looks and what they cost, in the last of them.
const LAST: &str = "SELECT look, spent FROM ledger WHERE dataset_id = $1 ORDER BY look DESC LIMIT 1";

/// A spec or certificate whose digest cannot be computed.
fn unnamed(error: EngineError) -> StoreError {
    StoreError::damaged("a certificate", error)
}

fn summary(last: Option<SqliteRow>) -> Result<LedgerSummary> {
    match last {
        Some(row) => Ok(LedgerSummary { looks: count(&row, "look")?, spent: row.try_get("spent")? }),
        None => Ok(LedgerSummary::default()),
    }
}

impl Write {
    /// Enters a job's certificate as the next look at its dataset, signed as it will be shown.
    pub async fn enter_look(
        &mut self,
        job: &Job,
        certificate: &Certificate,
        key: Option<&SigningKey>,
    ) -> Result<()> {
        let event = anytime_event(certificate).map_err(unnamed)?;
        let every_n = event.is_some();
        let look = Look {
            job,
            certificate: Some(certificate),
            event,
            asked: asked(&job.spec).map_err(unnamed)?,
            every_n,
        };
        let place = self.place(&look).await?;
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
        self.insert_look(&look, &place, signature.as_ref()).await
    }

    /// Enters a job that has ended without a certificate, where it had shown a bound before.
    pub async fn enter_shown(&mut self, job: &Job) -> Result<()> {
        if !job.shown {
            return Ok(());
        }
        let every_n = self.asks_at_every_n(job.dataset_id, job.dataset_version, &job.spec).await?;
        let look =
            Look { job, certificate: None, event: None, asked: asked(&job.spec).map_err(unnamed)?, every_n };
        let place = self.place(&look).await?;
        self.insert_look(&look, &place, None).await
    }

    async fn insert_look(
        &mut self,
        look: &Look<'_>,
        place: &LedgerPlace,
        signature: Option<&Signature>,
    ) -> Result<()> {
        let job = look.job;
        let decision = look.certificate.map(|certificate| name_of(certificate.decision)).transpose()?;
        sqlx::query(
            "INSERT INTO ledger (dataset_id, look, workspace, job_id, dataset_version, created_at, kind, bound, \
             candidates, decision, cost, spent, family, digest, event, asked, every_n, place, signature) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)",
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
        .bind(decision)
        .bind(place.cost)
        .bind(place.spent)
        .bind(job.spec.family.as_ref().map(to_json).transpose()?)
        .bind(look.certificate.map(|certificate| &certificate.digest))
        .bind(&look.event)
        .bind(&look.asked)
        .bind(i64::from(look.every_n))
        .bind(to_json(place)?)
        .bind(signature.map(to_json).transpose()?)
        .execute(self.connection())
        .await?;
        Ok(())
    }

    async fn place(&mut self, look: &Look<'_>) -> Result<LedgerPlace> {
        let (job, dataset) = (look.job, look.job.dataset_id.to_string());
        let last = sqlx::query(LAST).bind(&dataset).fetch_optional(self.connection()).await?;
        let LedgerSummary { looks, spent } = summary(last)?;
        let digest = look.certificate.map(|certificate| certificate.digest.as_str());
        let shares = match self.earliest_look(SAME_DIGEST, &dataset, digest).await? {
            Some(look) => Some(SharedLook { look, why: SharedWhy::Repeat }),
            None => match self.earliest_look(SAME_EVENT, &dataset, look.event.as_deref()).await? {
                Some(look) => Some(SharedLook { look, why: SharedWhy::Anytime }),
                None => self.asked_before(look).await?,
            },
        };
        let family = match &job.spec.family {
            Some(family) => Some((*family, self.family_looks(&dataset, family).await?)),
            None => None,
        };
        Ok(LedgerPlace::new(looks + 1, job.spec.delta, shares, spent, family))
    }

    /// A bound that was shown has no digest and no event by which it could be known again, but what
    /// was asked is known: where that fixes the event, asking it again is no other look.
    async fn asked_before(&mut self, look: &Look<'_>) -> Result<Option<SharedLook>> {
        let shown = look.certificate.is_none();
        let row = sqlx::query(
            "SELECT look, every_n AND $3 AS anytime FROM ledger WHERE dataset_id = $1 AND asked = $2 \
             AND ((every_n AND $3) OR (dataset_version = $4 AND $5)) AND (decision IS NULL OR $6) \
             ORDER BY look LIMIT 1",
        )
        .bind(look.job.dataset_id.to_string())
        .bind(&look.asked)
        .bind(look.every_n)
        .bind(look.job.dataset_version as i64)
        .bind(prior_is_fixed(&look.job.spec))
        .bind(shown)
        .fetch_optional(self.connection())
        .await?;
        let Some(row) = row else { return Ok(None) };
        let why = match count::<i64>(&row, "anytime")? {
            0 => SharedWhy::Asked,
            _ => SharedWhy::Anytime,
        };
        Ok(Some(SharedLook { look: count(&row, "look")?, why }))
    }

    /// Whether the specification's event holds at every number of rows of this dataset.
    async fn asks_at_every_n(&mut self, dataset: DatasetId, version: u64, spec: &JobSpec) -> Result<bool> {
        if !holds_at_every_n(spec) {
            return Ok(false);
        }
        let once = sqlx::query(
            "SELECT 1 FROM dataset_versions WHERE dataset_id = $1 AND version = $2 AND row_count = context_count",
        )
        .bind(dataset.to_string())
        .bind(i64::try_from(version).unwrap_or(i64::MAX))
        .fetch_optional(self.connection())
        .await?;
        Ok(once.is_some())
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
    /// so no job can end and find that there is none. One that will cost nothing needs none.
    pub async fn check_family(&mut self, new: &NewJob) -> Result<()> {
        let Some(family) = &new.spec.family else { return Ok(()) };
        if self.will_be_free(new).await? {
            return Ok(());
        }
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

    /// Whether an earlier look rests on the event that the job asks about, for this many rows and any.
    async fn will_be_free(&mut self, new: &NewJob) -> Result<bool> {
        if !self.asks_at_every_n(new.dataset_id, new.dataset_version, &new.spec).await? {
            return Ok(false);
        }
        let known =
            sqlx::query("SELECT 1 FROM ledger WHERE dataset_id = $1 AND asked = $2 AND every_n LIMIT 1")
                .bind(new.dataset_id.to_string())
                .bind(asked(&new.spec).map_err(unnamed)?)
                .fetch_optional(self.connection())
                .await?;
        Ok(known.is_some())
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
        let last = sqlx::query(LAST).bind(dataset.to_string()).fetch_optional(&mut *tx).await?;
        let summary = summary(last)?;
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
