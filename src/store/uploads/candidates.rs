//! Candidates that are added to the rows of a dataset. The next version has the same rows in a part of its own, with
//! more columns. Earlier versions keep their parts, so their certificates can still be recomputed.

use bytes::Bytes;
use futures_util::Stream;
use guarantor_ingest::{AddedCandidates, Checker, Health, IngestError};

use super::part::UploadPart;
use super::{Append, BodyError, GivingUp, Received, Target, UploadError, content, on_blocking_thread, pipe};
use crate::store::{Dataset, Store, StoredLog, dataset_part_key};

/// Reads `body` to its end and stores the next version of the dataset, or rejects it and stores nothing. If an
/// earlier attempt of the same request has stored it already, that version is returned.
///
/// # Errors
/// `AnotherBody` if that attempt stored other candidates.
pub async fn add_candidates<S>(store: &Store, append: Append, body: S) -> Result<Dataset, UploadError>
where
    S: Stream<Item = Result<Bytes, BodyError>> + Unpin,
{
    let Append { dataset, request, format, logging_policy, limits } = append;
    let target = Target::find(store, dataset, request).await?;
    target.check_additions(store).await?;
    let before = &target.before;
    let checker = Checker::new(target.rules(logging_policy, limits.clone())?);
    let (sender, reader) = pipe::pipe();
    let has_sets = before.content.capabilities.action_sets.is_some();
    let n_actions = (!has_sets).then_some(before.content.n_actions);
    let reading = tokio::task::spawn_blocking(move || {
        AddedCandidates::read(format, reader, n_actions, limits).map_err(UploadError::from)
    });
    let fed = pipe::feed(body, sender).await;
    let read = reading.await.map_err(|_| UploadError::Crashed)?;
    // If the body ended early, that explains any error of the decoder.
    fed?;
    let giving_up = GivingUp::default();
    let key = dataset_part_key(before.id, request);
    let part = UploadPart::new(store.blobs().clone(), key, giving_up.0.clone());
    let received = match read {
        Ok(candidates) => {
            let stored = store.fetch_log(before).await?;
            let health = serde_json::from_value(before.content.health.clone()).ok();
            on_blocking_thread(move || rewrite(stored, candidates, checker, health, part)).await?
        }
        Err(error) => Err(error),
    };
    let Received { content, .. } = target.unless_repeated(received)?;
    // The rows are the same, so nothing new can be recognized in other datasets, and nothing reaches back.
    target.store(store, content, None, None).await
}

/// How often candidates can be added to a dataset, because each time all of its rows are stored again.
const MAX_ADDITIONS: u64 = 20;

impl Target {
    async fn check_additions(&self, store: &Store) -> Result<(), UploadError> {
        let before = &self.before;
        let additions = store.repository().candidate_additions(&before.workspace, before.id).await?;
        match additions >= MAX_ADDITIONS && self.done.is_none() {
            true => Err(UploadError::TooManyAdditions(additions)),
            false => Ok(()),
        }
    }
}

/// Writes the stored rows with their new columns.
fn rewrite(
    stored: StoredLog,
    mut candidates: AddedCandidates,
    mut checker: Checker,
    health: Option<Health>,
    mut part: UploadPart,
) -> Result<Received, UploadError> {
    let written = stored.each_batch(|layout, rows| {
        let (layout, rows) = candidates.apply(layout, rows)?;
        // Rows without a counterpart have no candidates. `finish` will say so.
        if rows.candidates.iter().all(|column| column.len() == rows.len()) {
            checker.rewrite(&layout, rows, &mut part)?;
        }
        Ok::<_, UploadError>(())
    });
    let summary = match written.map_err(|error| of_sink(error, &mut part)) {
        // Dropping the part removes what it has written.
        Err(error) => return Err(error),
        Ok(_) => {
            candidates.finish()?;
            checker.finish_rewrite(health, &mut part).map_err(|error| of_sink(error.into(), &mut part))?
        }
    };
    let arrived = part.arrived();
    content(summary, vec![part.into_blob().ok_or(UploadError::Crashed)?], arrived)
}

/// The error, or why the sink failed.
fn of_sink(error: UploadError, part: &mut UploadPart) -> UploadError {
    match error {
        UploadError::Log(IngestError::Sink) => part.take_error(),
        error => error,
    }
}
