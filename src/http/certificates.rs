//! `POST /v1/certificates/verify`: computes a certificate again from the stored log.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::auth::Caller;
use super::codes::Code;
use super::extract::{JsonBody, Nothing, Params, field_problem};
use super::jobs::{CertificateDocument, Issued, require_success};
use super::problem::Problem;
use crate::engine::certificate::{Certificate, Check, Verification};
use crate::engine::control::unattended;
use crate::queue::{RunError, StoredInputs};
use crate::store::{Job, JobId, StoreError, Workspace};

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(verify))
}

/// A certificate document as it was sent, read strictly: a field that this service did not write
/// is refused, for nothing would vouch for it.
#[derive(Deserialize)]
#[serde(transparent)]
pub struct Sent(Map<String, Value>);

/// Check a certificate: its digest, its arithmetic, and its numbers, computed again from the stored
/// log and policy. Send the document as `/v1/jobs/{id}/certificate` gave it.
#[utoipa::path(post, path = "/v1/certificates/verify", tag = "Certificates", operation_id = "verify_certificate",
    request_body(content = CertificateDocument),
    responses((status = 200, description = "What was checked; `valid` only where all of it holds", body = Verification),
              (status = 409, description = "`job_unfinished`: the job that is named has issued nothing yet",
               headers(("retry-after" = u32, description = "Seconds"))),
              (status = 424, description = "`job_failed` or `job_cancelled`: the job that is named issued nothing")))]
async fn verify(
    State(app): State<App>,
    Caller(workspace): Caller,
    Params(_): Params<Nothing>,
    body: JsonBody<Sent>,
) -> Result<Json<Verification>, Problem> {
    let (certificate, issued) = read(body.value.0)?;
    let job = find_job(&app, &workspace, &issued.job_id).await?;
    require_success(&job)?;
    let evidence = app.store.evidence(&job).await?;
    let evidence = evidence.ok_or_else(|| Problem::internal("a job succeeded without evidence"))?;
    let dataset = app.store.repository().dataset_version(&workspace, job.dataset_id, job.dataset_version);
    let dataset = match dataset.await {
        Err(StoreError::NotFound(..)) => return Ok(Json(gone("dataset", "the dataset was deleted"))),
        dataset => dataset?,
    };
    let inputs = match StoredInputs::fetch(&app.store, &workspace, dataset, &job.spec).await {
        Ok(inputs) => inputs,
        Err(RunError::Failed(failure)) => return Ok(Json(gone("inputs", &failure.message))),
        Err(RunError::Retry(failure)) => return Err(Problem::new(Code::Unavailable, failure.message)),
    };
    let stored = app.store.certificate(&job).await?;
    let own = [check_issued(&issued, &job), check_stored(&certificate, stored.as_ref())];
    let recompute =
        move || inputs.with(|inputs| crate::engine::verify(&certificate, &evidence, inputs, &unattended()));
    let mut verification = app.compute(recompute).await??;
    verification.valid &= own.iter().all(|check| check.ok);
    verification.checks.extend(own);
    Ok(Json(verification))
}

fn read(mut document: Map<String, Value>) -> Result<(Certificate, Issued), Problem> {
    let Some(issued) = document.remove("issued") else {
        let message = "is missing; send the whole document that the certificate's URL gave";
        return Err(Problem::field(Code::InvalidValue, "issued", message));
    };
    let issued: Issued = typed(issued, "issued.")?;
    let sent = Value::Object(document);
    let certificate: Certificate = typed(sent.clone(), "")?;
    let again = serde_json::to_value(&certificate).map_err(Problem::internal)?;
    match extra_field(&sent, &again, String::new()) {
        Some(field) => Err(Problem::field(Code::UnknownField, field, "is no field of a certificate")),
        None => Ok((certificate, issued)),
    }
}

fn typed<T: serde::de::DeserializeOwned>(value: Value, prefix: &str) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { String::new() } else { format!("{prefix}{path}") };
        field_problem(Code::InvalidValue, &path, &error.into_inner().to_string())
    })
}

/// A field of `sent` that reading did not keep, by its path.
fn extra_field(sent: &Value, kept: &Value, path: String) -> Option<String> {
    match (sent, kept) {
        (Value::Object(sent), Value::Object(kept)) => sent.iter().find_map(|(name, value)| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match kept.get(name) {
                Some(kept) => extra_field(value, kept, path),
                // An absent number may be written as null.
                None => (!value.is_null()).then_some(path),
            }
        }),
        (Value::Array(sent), Value::Array(kept)) => {
            let mut pairs = sent.iter().zip(kept).enumerate();
            pairs.find_map(|(i, (sent, kept))| extra_field(sent, kept, format!("{path}[{i}]")))
        }
        _ => None,
    }
}

async fn find_job(app: &App, workspace: &Workspace, id: &str) -> Result<Job, Problem> {
    let unknown =
        || Problem::field(Code::UnknownJob, "issued.job_id", format!("there is no job {id:?} here"));
    let id: JobId = id.parse().map_err(|_| unknown())?;
    match app.store.repository().job(workspace, id).await {
        Err(StoreError::NotFound(..)) => Err(unknown()),
        job => Ok(job?),
    }
}

/// The section outside of the digest, against the store.
fn check_issued(issued: &Issued, job: &Job) -> Check {
    let ok = *issued == Issued::of(job);
    let detail = match ok {
        true => "job, dataset, policy and times are as stored".into(),
        false => "job, dataset, policy or times differ from what is stored".into(),
    };
    Check { name: "issued".into(), ok, detail }
}

/// Another specification, honestly computed, is a sound document too; only it is not this job's.
fn check_stored(sent: &Certificate, stored: Option<&Certificate>) -> Check {
    let ok = stored.is_some_and(|stored| stored.digest == sent.digest);
    let detail = match ok {
        true => "the job issued this document".into(),
        false => "the job issued another document".into(),
    };
    Check { name: "stored".into(), ok, detail }
}

fn gone(name: &str, why: &str) -> Verification {
    let detail = format!("{why}, so nothing can be computed again");
    Verification { valid: false, checks: vec![Check { name: name.into(), ok: false, detail }] }
}
