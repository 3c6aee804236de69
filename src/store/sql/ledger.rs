//! The ledger's rows. A look is written in the transaction that ends its job, so that neither exists without
//! the other. All rules are in `guarantor_engine::ledger`; this file only reads and writes rows.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::types::Json;
use sqlx::{FromRow, Row};

use super::rows::{Count, Named, Written, name_of, to_json, to_text};
use super::same_rows::{ledger_of, of_same_ledger};
use super::{Connection, DbRow, Repo, Write, micros};
use crate::store::error::{Resource, Result, StoreError};
use crate::store::ids::{DatasetId, JobId, Timestamp, Workspace};
use crate::store::page::{Cursor, Page, PageRequest};
use crate::store::records::{Job, LedgerEntry, LedgerSummary, NewJob};
use crate::store::repository::Ledger;
use guarantor_engine::EngineError;
use guarantor_engine::certificate::{
    Certificate, Decision, Document, LedgerPlace, PublicKey, Signature, SigningKey,
};
use guarantor_engine::ledger::{self, EarlierLook, NewLook, NoLookLeft, RowCounts, asked};
use guarantor_engine::spec::{BoundKind, Family, JobKind, JobSpec};

#[derive(FromRow)]
struct EntryRow {
    #[sqlx(json)]
    place: LedgerPlace,
    job_id: JobId,
    dataset_id: DatasetId,
    #[sqlx(try_from = "i64")]
    dataset_version: u64,
    row_count: Option<Count>,
    /// Orders the looks, also those of ledgers that have become one.
    seq: i64,
    created_at: Timestamp,
    kind: Named<JobKind>,
    bound: Named<BoundKind>,
    #[sqlx(try_from = "i64")]
    candidates: u64,
    decision: Option<Named<Decision>>,
    digest: Option<String>,
    #[sqlx(json(nullable))]
    signature: Option<Signature>,
}

impl From<EntryRow> for LedgerEntry {
    fn from(row: EntryRow) -> Self {
        LedgerEntry {
            place: row.place,
            job_id: row.job_id,
            dataset_id: row.dataset_id,
            dataset_version: row.dataset_version,
            rows: row.row_count.map(|count| count.0),
            created_at: row.created_at,
            kind: row.kind.0,
            bound: row.bound.0,
            candidates: row.candidates,
            decision: row.decision.map(|decision| decision.0),
            digest: row.digest,
            signature: row.signature,
        }
    }
}

#[derive(FromRow)]
struct EarlierRow {
    #[sqlx(try_from = "i64")]
    look: u64,
    same_dataset: bool,
    #[sqlx(try_from = "i64")]
    dataset_version: u64,
    certified: bool,
    cost: f64,
    family: Option<Written<Family>>,
    digest: Option<String>,
    event: Option<String>,
    asked: Option<String>,
    every_n: bool,
}

impl From<EarlierRow> for EarlierLook {
    fn from(row: EarlierRow) -> Self {
        EarlierLook {
            look: row.look,
            same_dataset: row.same_dataset,
            dataset_version: row.dataset_version,
            certified: row.certified,
            cost: row.cost,
            family: row.family.map(|family| family.0),
            digest: row.digest,
            event: row.event,
            asked: row.asked,
            every_n: row.every_n,
        }
    }
}

/// The looks that share a name with a new one. This only avoids reading the whole ledger: a look that shares
/// none of these names changes no result (see `EarlierLook`). There is one search per index, because SQLite
/// would read all looks of the dataset for an `OR`. Events and questions mean the same on one dataset only.
const RELATED: &str = "SELECT look, dataset_id = $1 AS same_dataset, dataset_version, \
     decision IS NOT NULL AS certified, cost, family, digest, event, asked, every_n FROM ledger WHERE seq IN (\
     SELECT seq FROM ledger WHERE ledger_id = $2 AND digest = $3 UNION \
     SELECT seq FROM ledger WHERE dataset_id = $1 AND event = $4 UNION \
     SELECT seq FROM ledger WHERE dataset_id = $1 AND asked = $5 UNION \
     SELECT seq FROM ledger WHERE ledger_id = $2 AND family = $6)";

/// The names by which related looks are found.
#[derive(Default)]
struct Names<'a> {
    digest: Option<&'a str>,
    event: Option<&'a str>,
    asked: &'a str,
    family: Option<&'a Family>,
}

/// A spec or a certificate has no digest, and therefore no name.
fn unnamed(error: EngineError) -> StoreError {
    StoreError::damaged("a certificate", error)
}

/// The number of looks of a ledger, and their total cost.
async fn summary(connection: &mut Connection, ledger: &str) -> Result<LedgerSummary> {
    let (looks, spent): (Count, f64) = sqlx::query_as("SELECT looks, spent FROM ledgers WHERE id = $1")
        .bind(ledger)
        .fetch_one(connection)
        .await?;
    Ok(LedgerSummary { looks: looks.0, spent })
}

/// The job of a look, as far as its entry names it.
struct Looker<'a> {
    job_id: JobId,
    workspace: &'a Workspace,
    dataset_id: DatasetId,
    dataset_version: u64,
    kind: JobKind,
    bound: BoundKind,
    candidates: usize,
}

impl<'a> From<&'a Job> for Looker<'a> {
    fn from(job: &'a Job) -> Self {
        Looker {
            job_id: job.id,
            workspace: &job.workspace,
            dataset_id: job.dataset_id,
            dataset_version: job.dataset_version,
            kind: job.spec.kind,
            bound: job.spec.bound,
            candidates: job.spec.candidates.len(),
        }
    }
}

/// What is left of a job whose row is damaged.
#[derive(FromRow)]
struct Remains {
    id: JobId,
    workspace: Workspace,
    dataset_id: DatasetId,
    #[sqlx(try_from = "i64")]
    dataset_version: u64,
}

impl Write {
    /// Enters a job's certificate as the next look at its dataset, signed as it will be shown.
    pub async fn enter_look(
        &mut self,
        job: &Job,
        certificate: &Certificate,
        key: Option<&SigningKey>,
    ) -> Result<()> {
        let look = NewLook::certified(&job.spec, job.dataset_version, certificate).map_err(unnamed)?;
        let place = self.place(job.dataset_id, &look).await?;
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
        self.insert_look(&job.into(), &look, Some(certificate.decision), &place, signature.as_ref()).await
    }

    /// Enters a look for a job that ended without a certificate, if it had shown a bound.
    pub async fn enter_shown(&mut self, job: &Job) -> Result<()> {
        if !job.shown {
            return Ok(());
        }
        let rows = self.row_counts(job.dataset_id, job.dataset_version).await?;
        let look = NewLook::shown(&job.spec, job.dataset_version, rows).map_err(unnamed)?;
        let place = self.place(job.dataset_id, &look).await?;
        self.insert_look(&job.into(), &look, None, &place, None).await
    }

    /// Enters a look for a job whose row is damaged, unless it is certain that it has shown nothing. If its δ cannot be
    /// read either, the look costs everything: nothing is known about what was shown.
    pub async fn enter_damaged(&mut self, id: &str) -> Result<()> {
        let row =
            sqlx::query("SELECT * FROM jobs WHERE id = $1").bind(id).fetch_one(self.connection()).await?;
        if row.try_get::<bool, _>("shown").is_ok_and(|shown| !shown) {
            return Ok(());
        }
        let Remains { id, workspace, dataset_id, dataset_version } = Remains::from_row(&row)?;
        let (mut kind, mut bound, mut candidates) = (JobKind::Learn, BoundKind::Auto, 0);
        let look = match row.try_get::<Json<JobSpec>, _>("spec") {
            Ok(Json(spec)) => {
                (kind, bound, candidates) = (spec.kind, spec.bound, spec.candidates.len());
                let rows = self.row_counts(dataset_id, dataset_version).await?;
                NewLook::shown(&spec, dataset_version, rows).map_err(unnamed)?
            }
            Err(_) => NewLook {
                dataset_version,
                delta: 1.0,
                family: None,
                digest: None,
                event: None,
                asked: format!("damaged:{id}"),
                every_n: false,
                prior_is_fixed: false,
            },
        };
        let place = self.place(dataset_id, &look).await?;
        let workspace = &workspace;
        let looker = Looker { job_id: id, workspace, dataset_id, dataset_version, kind, bound, candidates };
        self.insert_look(&looker, &look, None, &place, None).await
    }

    async fn insert_look(
        &mut self,
        job: &Looker<'_>,
        look: &NewLook,
        decision: Option<Decision>,
        place: &LedgerPlace,
        signature: Option<&Signature>,
    ) -> Result<()> {
        let ledger = self.ledger_of(&job.dataset_id.to_string()).await?;
        sqlx::query("UPDATE ledgers SET looks = $2, spent = $3 WHERE id = $1")
            .bind(&ledger)
            .bind(place.look as i64)
            .bind(place.spent)
            .execute(self.connection())
            .await?;
        let rows = self.row_counts(job.dataset_id, job.dataset_version).await?;
        sqlx::query(
            "INSERT INTO ledger (dataset_id, look, workspace, job_id, dataset_version, created_at, kind, bound, \
             candidates, decision, cost, spent, family, digest, event, asked, every_n, place, signature, \
             ledger_id, row_count, row_set, seq) SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, \
             $16, $17, $18, $19, $20, $21, (SELECT row_set FROM dataset_versions WHERE dataset_id = $1 AND version = $5), \
             COALESCE(MAX(seq), 0) + 1 FROM ledger",
        )
        .bind(job.dataset_id.to_string())
        .bind(place.look as i64)
        .bind(job.workspace.as_str())
        .bind(job.job_id.to_string())
        .bind(job.dataset_version as i64)
        .bind(self.now.0)
        .bind(name_of(job.kind)?)
        .bind(name_of(job.bound)?)
        .bind(job.candidates as i64)
        .bind(decision.map(name_of).transpose()?)
        .bind(place.cost)
        .bind(place.spent)
        .bind(look.family.as_ref().map(to_text).transpose()?)
        .bind(&look.digest)
        .bind(&look.event)
        .bind(&look.asked)
        .bind(look.every_n)
        .bind(to_json(place)?)
        .bind(signature.map(to_json).transpose()?)
        .bind(ledger)
        .bind(rows.map(|counts| counts.rows as i64))
        .execute(self.connection())
        .await?;
        Ok(())
    }

    async fn place(&mut self, dataset: DatasetId, look: &NewLook) -> Result<LedgerPlace> {
        let names = Names {
            digest: look.digest.as_deref(),
            event: look.event.as_deref(),
            asked: &look.asked,
            family: look.family.as_ref(),
        };
        let ledger = self.ledger_of(&dataset.to_string()).await?;
        let before = summary(self.connection(), &ledger).await?;
        let related = self.related_looks(dataset, &ledger, &names).await?;
        Ok(ledger::enter(look, before, &related))
    }

    async fn related_looks(
        &mut self,
        dataset: DatasetId,
        ledger: &str,
        names: &Names<'_>,
    ) -> Result<Vec<EarlierLook>> {
        let rows: Vec<EarlierRow> = sqlx::query_as(RELATED)
            .bind(dataset.to_string())
            .bind(ledger)
            .bind(names.digest)
            .bind(names.event)
            .bind(names.asked)
            .bind(names.family.map(to_text).transpose()?)
            .fetch_all(self.connection())
            .await?;
        Ok(rows.into_iter().map(EarlierLook::from).collect())
    }

    /// `None` if the version is gone. Unless repetitions are designed, every row is a context of its own.
    async fn row_counts(&mut self, dataset: DatasetId, version: u64) -> Result<Option<RowCounts>> {
        let counts: Option<(Count, Count)> = sqlx::query_as(
            "SELECT v.row_count, CASE CAST(d.repetitions AS TEXT) WHEN '\"designed\"' THEN v.context_count ELSE v.row_count END \
             FROM dataset_versions v JOIN datasets d ON d.id = v.dataset_id \
             WHERE v.dataset_id = $1 AND v.version = $2",
        )
        .bind(dataset.to_string())
        .bind(i64::try_from(version).unwrap_or(i64::MAX))
        .fetch_optional(self.connection())
        .await?;
        Ok(counts.map(|(rows, contexts)| RowCounts { rows: rows.0, contexts: contexts.0 }))
    }

    /// Checks that the family of a new job, if it has one, has a look left.
    pub async fn check_family(&mut self, new: &NewJob) -> Result<()> {
        if new.spec.family.is_none() {
            return Ok(());
        }
        let asked = asked(&new.spec).map_err(unnamed)?;
        let names = Names { asked: &asked, family: new.spec.family.as_ref(), ..Names::default() };
        let ledger = self.ledger_of(&new.dataset_id.to_string()).await?;
        let earlier = self.related_looks(new.dataset_id, &ledger, &names).await?;
        let rows = self.row_counts(new.dataset_id, new.dataset_version).await?;
        let unfinished = self.unfinished_families(&ledger).await?;
        ledger::check_family(&new.spec, &asked, rows, &earlier, unfinished)
            .map_err(|NoLookLeft { looks, taken, held }| StoreError::FamilyExhausted { looks, taken, held })
    }

    /// The families of the unfinished jobs on the ledger's datasets.
    async fn unfinished_families(&mut self, ledger: &str) -> Result<Vec<Option<Family>>> {
        let specs: Vec<(Json<JobSpec>,)> = sqlx::query_as(
            "SELECT j.spec FROM ledger_datasets d JOIN jobs j ON j.dataset_id = d.dataset_id \
             WHERE d.ledger_id = $1 AND j.status IN ('queued', 'running')",
        )
        .bind(ledger)
        .fetch_all(self.connection())
        .await?;
        Ok(specs.into_iter().map(|(spec,)| spec.0.family).collect())
    }
}

#[async_trait]
impl Ledger for Repo {
    async fn ledger(
        &self,
        workspace: &Workspace,
        dataset: DatasetId,
        page: &PageRequest,
    ) -> Result<(LedgerSummary, Page<LedgerEntry>)> {
        let cursor = Cursor::of(page)?;
        let mut tx = self.read().await?;
        let known = sqlx::query("SELECT 1 FROM datasets WHERE id = $1 AND workspace = $2")
            .bind(dataset.to_string())
            .bind(workspace.as_str())
            .fetch_optional(&mut *tx)
            .await?;
        known.ok_or_else(|| StoreError::not_found(Resource::Dataset, dataset))?;
        let ledger = ledger_of(&mut tx, &dataset.to_string()).await?;
        let summary = summary(&mut tx, &ledger).await?;
        // Numbers repeat where two ledgers have become one, so the cursor carries the order of entry instead of a
        // time.
        let rows: Vec<EntryRow> = sqlx::query_as(
            "SELECT * FROM ledger WHERE ledger_id = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3",
        )
        .bind(&ledger)
        .bind(cursor.created_at.0)
        .bind(i64::from(page.limit) + 1)
        .fetch_all(&mut *tx)
        .await?;
        let cursor = |row: &EntryRow| Cursor { created_at: Timestamp(row.seq), id: row.job_id.to_string() };
        let Page { data, next } = Page::from_extra(rows, page.limit, cursor);
        Ok((summary, Page { data: data.into_iter().map(LedgerEntry::from).collect(), next }))
    }

    async fn of_same_ledger(
        &self,
        dataset: DatasetId,
        others: &BTreeSet<DatasetId>,
    ) -> Result<Option<DatasetId>> {
        of_same_ledger(&mut *self.readers.acquire().await?, dataset, others).await
    }

    async fn look_of_job(&self, workspace: &Workspace, job: JobId) -> Result<Option<LedgerEntry>> {
        let row: Option<EntryRow> =
            sqlx::query_as("SELECT * FROM ledger WHERE job_id = $1 AND workspace = $2")
                .bind(job.to_string())
                .bind(workspace.as_str())
                .fetch_optional(&self.readers)
                .await?;
        Ok(row.map(LedgerEntry::from))
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

    async fn announce_signing_key(&self, key: &PublicKey) -> Result<()> {
        let mut write = self.write().await?;
        let now = write.now.0;
        sqlx::query(
            "INSERT INTO signing_keys (public_key, first_used) VALUES ($1, $2) \
             ON CONFLICT (public_key) DO UPDATE SET first_used = excluded.first_used",
        )
        .bind(key.base64())
        .bind(now)
        .execute(write.connection())
        .await?;
        write.commit().await
    }

    async fn accept_signing_key(&self, key: &PublicKey, grace: Duration) -> Result<bool> {
        let mut write = self.write().await?;
        let now = write.now.0;
        let known: Vec<(String, i64)> = sqlx::query_as(
            "SELECT public_key, first_used FROM signing_keys ORDER BY first_used DESC, public_key LIMIT 2",
        )
        .fetch_all(write.connection())
        .await?;
        let own = key.base64();
        let accepted = match known.as_slice() {
            [] => {
                sqlx::query("INSERT INTO signing_keys (public_key, first_used) VALUES ($1, $2)")
                    .bind(&own)
                    .bind(now)
                    .execute(write.connection())
                    .await?;
                true
            }
            [(newest, _), ..] if *newest == own => true,
            [(_, announced), (before, _)] => *before == own && now - announced < micros(grace),
            _ => false,
        };
        write.commit().await?;
        Ok(accepted)
    }

    async fn signing_keys(&self) -> Result<Vec<PublicKey>> {
        let rows = sqlx::query("SELECT public_key FROM signing_keys ORDER BY first_used DESC, public_key")
            .fetch_all(&self.readers)
            .await?;
        let key = |row: &DbRow| {
            let text: String = row.try_get("public_key")?;
            PublicKey::from_text(&text).ok_or_else(|| StoreError::damaged("a public key", text))
        };
        rows.iter().map(key).collect()
    }
}
