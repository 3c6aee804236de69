//! What a certificate rests on must still be stored: the files as well as their rows.

use crate::http::App;
use crate::http::codes::Code;
use crate::http::problem::Problem;
use crate::store::{Dataset, Job, Owner, PolicyId, StoreError, Workspace};

/// Checks that the rows that the job certified on are still stored. Returns the newest version of the dataset.
///
/// # Errors
/// `dataset_gone` if the dataset was deleted, or if a file of the certified version is missing or has another length.
pub async fn check_dataset(app: &App, job: &Job) -> Result<u64, Problem> {
    let repository = app.store.repository();
    let gone = |why: &str| {
        let detail = format!(
            "The dataset {} of the certificate {why}, so its numbers cannot be checked anymore.",
            job.dataset_id
        );
        Problem::new(Code::DatasetGone, detail).member("ok", false)
    };
    let deleted = |error: StoreError| match error {
        StoreError::NotFound(..) => gone("was deleted"),
        error => error.into(),
    };
    let newest = repository.dataset(&job.workspace, job.dataset_id).await.map_err(deleted)?;
    let certified = match newest.version == job.dataset_version {
        true => newest.clone(),
        false => {
            let certified = repository.dataset_version(&job.workspace, job.dataset_id, job.dataset_version);
            certified.await.map_err(deleted)?
        }
    };
    check_parts(app, &certified).await.map_err(|error| match error {
        StoreError::Damaged(damage) => {
            tracing::error!(job_id = %job.id, error = %damage, "a log is damaged; the gate stays closed");
            gone("has files that are missing or were changed")
        }
        error => error.into(),
    })?;
    Ok(newest.version)
}

async fn check_parts(app: &App, dataset: &Dataset) -> Result<(), StoreError> {
    for part in &dataset.content.parts {
        app.store.blobs().check(part).await?;
    }
    Ok(())
}

/// Checks that the policy is stored with the parameters that were certified.
///
/// # Errors
/// `policy_gone` if the policy was deleted or its file is missing, `damaged` if the parameters are others.
pub async fn check_policy(
    app: &App,
    workspace: &Workspace,
    id: PolicyId,
    certified: Option<&str>,
) -> Result<(), Problem> {
    let gone = |why: &str| {
        let detail = format!("The policy {id} {why}, so there is nothing to roll out.");
        Problem::new(Code::PolicyGone, detail).member("ok", false)
    };
    let policy = match app.store.repository().policy(workspace, id).await {
        Err(StoreError::NotFound(..)) => return Err(gone("was deleted")),
        policy => policy?,
    };
    if !app.store.blobs().exists(&policy.params).await? {
        tracing::error!(policy_id = %id, key = policy.params.key, "a file is missing; the gate stays closed");
        return Err(gone("has no file anymore"));
    }
    let damaged = |error: StoreError| Problem::from(error).member("ok", false);
    if certified != Some(policy.digest.as_str()) {
        let why = "the policy does not have the digest that was certified";
        return Err(damaged(StoreError::damaged("its digest", why).of(Owner::Policy(id))));
    }
    // The row has the digest, so reading the parameters compares the file with it.
    app.store.policy_params(&policy).await.map_err(damaged)?;
    Ok(())
}
