//! `POST /v1/certificates/verify`: checks a certificate and recomputes it from the stored log.
//! `GET /v1/certificates/key`: the public key with which anyone can check its signature.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::auth::Caller;
use super::codes::Code;
use super::extract::{JsonBody, Nothing, Params, field_problem};
use super::jobs::require_success;
use super::problem::Problem;
use super::{App, compute_with};
use crate::queue::{RunError, StoredInputs};
use crate::store::{Job, JobId, StoreError, Workspace};
use guarantor_engine::certificate::{
    Certificate, Check, Document, Issued, LedgerPlace, PublicKey, Signature, SignatureState, StrictJson,
    Verification, check_digest, check_signature, differing_fields, extra_field,
};
use guarantor_engine::control::Control;
use guarantor_engine::verify::{Wording, verify_merged, verify_unsupported};

/// The routes of certificates.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(verify)).routes(routes!(key))
}

/// The public half of a key that signs certificates.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = SigningKey)]
struct KeyView {
    /// `ed25519`.
    algorithm: &'static str,
    /// The id by which signatures name the key.
    key_id: String,
    /// 32 bytes in base64.
    public_key: String,
    /// The same key in PEM, for other tools.
    pem: String,
}

/// The key that signs certificates, and its predecessors.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = SigningKeys)]
struct KeysView {
    #[serde(flatten)]
    current: KeyView,
    /// Keys that were replaced. Their signatures remain valid.
    earlier: Vec<KeyView>,
}

impl KeyView {
    fn of(key: &PublicKey) -> KeyView {
        KeyView { algorithm: "ed25519", key_id: key.key_id(), public_key: key.base64(), pem: key.pem() }
    }
}

/// Get the public key that certificates are signed with. Checking a signature needs nothing else.
#[utoipa::path(get, path = "/v1/certificates/key", tag = "Certificates", operation_id = "get_signing_key",
    responses((status = 200, description = "The public key", body = KeysView)))]
async fn key(
    State(app): State<App>,
    Caller(_): Caller,
    Params(_): Params<Nothing>,
) -> Result<Json<KeysView>, Problem> {
    let keys = app.store.public_keys().await?;
    let (current, earlier) =
        keys.split_first().ok_or_else(|| Problem::internal("the server has no signing key"))?;
    let earlier = earlier.iter().map(KeyView::of).collect();
    Ok(Json(KeysView { current: KeyView::of(current), earlier }))
}

/// A certificate as the client sent it, read strictly: a field that this service does not write is
/// rejected, because no check would cover it.
#[derive(Deserialize)]
#[serde(transparent)]
pub struct Sent(StrictJson);

/// The checks of a certificate, and the state of its signature.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = CertificateVerification)]
struct VerificationView {
    #[serde(flatten)]
    verification: Verification,
    signature: SignatureView,
}

/// The state of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SignatureState)]
enum SignatureView {
    Valid,
    /// Issued before certificates were signed; `valid` then covers the other checks.
    Unsigned,
    Invalid,
}

/// Verify a certificate: its signature, its digest, whether the job issued it, and its numbers, which are
/// recomputed from the stored log and policy. Send the document as `/v1/jobs/{id}/certificate` returned it;
/// a document that differs is not recomputed.
#[utoipa::path(post, path = "/v1/certificates/verify", tag = "Certificates", operation_id = "verify_certificate",
    request_body(content = Document),
    responses((status = 200, description = "The checks; `valid` is true only if all of them passed. The numbers of a certificate of an older method are not recomputed: its check `recomputation` fails with the code `method_not_supported`, and `detail` names a release that can", body = VerificationView),
              (status = 409, description = "`job_unfinished`: the job has not issued a certificate yet",
               headers(("retry-after" = u32, description = "Seconds"))),
              (status = 429, description = "`too_many_verifications`: too many concurrent verifications",
               headers(("retry-after" = u32, description = "Seconds"))),
              (status = 424, description = "`job_failed` or `job_cancelled`: the job issued no certificate")))]
async fn verify(
    State(app): State<App>,
    Caller(workspace): Caller,
    Params(_): Params<Nothing>,
    body: JsonBody<Sent>,
) -> Result<Json<VerificationView>, Problem> {
    let Sent(StrictJson(document)) = body.value;
    let state = check_signature(&document, &app.store.public_keys().await?);
    let sent = read(document)?;
    let job = find_job(&app, &workspace, &sent.issued.job_id).await?;
    require_success(&job)?;
    let stored = app.store.document(&job).await?;
    let stored = stored.ok_or_else(|| Problem::internal("a job succeeded without a certificate"))?;
    let issued_digest = stored.certificate.digest.clone();
    let (signature, signature_check) = check_state(state, stored.signature.as_ref());
    let mut verification = match differing(&sent.certificate, &stored.certificate)? {
        None => recompute(&app, &workspace, &job, stored.certificate).await?,
        Some(differing) => differing,
    };
    let mut own = vec![
        check_issued(&sent.issued, &job),
        check_stored(&sent.certificate, &issued_digest),
        check_place(sent.ledger.as_ref(), stored.ledger.as_ref()),
    ];
    own.extend(signature_check);
    verification.valid &= own.iter().all(|check| check.ok);
    verification.checks.extend(own);
    Ok(Json(VerificationView { verification, signature }))
}

/// The verification of a document that the job did not issue, or `None` if it did. Such a document is not
/// recomputed: the numbers of another spec on these rows would be a look that the ledger does not count.
fn differing(sent: &Certificate, stored: &Certificate) -> Result<Option<Verification>, Problem> {
    let fields = differing_fields(sent, stored).map_err(Problem::internal)?;
    if fields.is_empty() && sent.digest == stored.digest {
        return Ok(None);
    }
    let mut checks = vec![check_digest(sent)];
    checks.extend(fields.into_iter().map(|name| Check::new(name, false, "differs from what the job issued")));
    checks.push(Check::new(
        "recomputation",
        false,
        "not recomputed, because the job did not issue this document",
    ));
    Ok(Some(Verification { valid: false, checks }))
}

async fn recompute(
    app: &App,
    workspace: &Workspace,
    job: &Job,
    certificate: Certificate,
) -> Result<Verification, Problem> {
    if let Some(verification) = verify_unsupported(&certificate) {
        return Ok(verification);
    }
    let permit = app.verifications.take(workspace).map_err(|own| {
        let detail = match own {
            0 => "Too many verifications in progress; try again.".to_owned(),
            _ => {
                format!("This workspace has {own} verifications in progress, which is its share; try again.")
            }
        };
        Problem::new(Code::TooManyVerifications, detail).retry_after(Duration::from_secs(5))
    })?;
    let evidence = app.store.evidence(job).await?;
    let evidence = evidence.ok_or_else(|| Problem::internal("a job succeeded without evidence"))?;
    let dataset = app.store.repository().dataset_version(workspace, job.dataset_id, job.dataset_version);
    let dataset = match dataset.await {
        Err(StoreError::NotFound(..)) => return Ok(gone("dataset", "the dataset was deleted")),
        dataset => dataset?,
    };
    if dataset.is_merged() {
        let merged = app.store.merged_sums(&dataset).await?;
        let again = move |_: &AtomicBool| verify_merged(&certificate, Wording::Vouched, &merged);
        return Ok(compute_with(permit, again).await??);
    }
    let inputs = match StoredInputs::fetch(&app.store, workspace, dataset, &job.spec).await {
        Ok(inputs) => inputs.by_digest(),
        Err(RunError::Failed(failure)) => return Ok(gone("inputs", &failure.message)),
        Err(RunError::Retry(failure)) => return Err(Problem::new(Code::Unavailable, failure.message)),
    };
    let again = move |cancelled: &AtomicBool| {
        let control = Control::new(cancelled, &|_| {});
        inputs.with(&control, |inputs| {
            guarantor_engine::verify(&certificate, Wording::Vouched, &evidence, inputs, &control)
        })
    };
    Ok(compute_with(permit, again).await??)
}

/// The parts of a document.
struct Parts {
    certificate: Certificate,
    issued: Issued,
    ledger: Option<LedgerPlace>,
}

fn read(document: Value) -> Result<Parts, Problem> {
    let Value::Object(mut document) = document else {
        return Err(Problem::new(
            Code::InvalidValue,
            "The body must be a certificate, which is a JSON object.",
        ));
    };
    let Some(issued) = document.remove("issued") else {
        let message = "is missing; send the whole document that /v1/jobs/{id}/certificate returned";
        return Err(Problem::field(Code::InvalidValue, "issued", message));
    };
    let issued: Issued = typed(issued, "issued.")?;
    let ledger: Option<LedgerPlace> = optional(&mut document, "ledger")?;
    // The signature was checked with the whole document; here only its form matters.
    let _: Option<Signature> = optional(&mut document, "signature")?;
    let sent = Value::Object(document);
    let certificate: Certificate = typed(sent.clone(), "")?;
    let again = serde_json::to_value(&certificate).map_err(Problem::internal)?;
    match extra_field(&sent, &again) {
        Some(field) => Err(Problem::field(Code::UnknownField, field, "is not a field of a certificate")),
        None => Ok(Parts { certificate, issued, ledger }),
    }
}

fn optional<T: serde::de::DeserializeOwned>(
    document: &mut Map<String, Value>,
    name: &str,
) -> Result<Option<T>, Problem> {
    document.remove(name).map_or(Ok(None), |value| typed(value, &format!("{name}.")))
}

fn typed<T: serde::de::DeserializeOwned>(value: Value, prefix: &str) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { String::new() } else { format!("{prefix}{path}") };
        field_problem(Code::InvalidValue, &path, &error.into_inner().to_string())
    })
}

async fn find_job(app: &App, workspace: &Workspace, id: &str) -> Result<Job, Problem> {
    let unknown = || Problem::field(Code::UnknownJob, "issued.job_id", format!("no job has the id {id:?}"));
    let id: JobId = id.parse().map_err(|_| unknown())?;
    match app.store.repository().job_now(workspace, id).await {
        Err(StoreError::NotFound(..)) => Err(unknown()),
        job => Ok(job?),
    }
}

/// Compares the section outside of the digest with the store.
fn check_issued(issued: &Issued, job: &Job) -> Check {
    let ok = *issued == job.issued();
    check(ok, "issued", "job, dataset, policy, times and submitter are", "as stored", "not as stored")
}

/// A document of another spec can be consistent too, but this job did not issue it.
fn check_stored(sent: &Certificate, issued: &str) -> Check {
    check(sent.digest == issued, "stored", "the job issued", "this document", "another document")
}

fn check_place(sent: Option<&LedgerPlace>, stored: Option<&LedgerPlace>) -> Check {
    check(sent == stored, "ledger", "the entry in the dataset's ledger is", "as stored", "not as stored")
}

fn check(ok: bool, name: &str, what: &str, yes: &str, no: &str) -> Check {
    Check::new(name, ok, format!("{what} {}", if ok { yes } else { no }))
}

/// A document without a signature is accepted only if the job issued it without one.
fn check_state(state: SignatureState, stored: Option<&Signature>) -> (SignatureView, Option<Check>) {
    match state {
        SignatureState::Valid { key_id } => {
            let detail = format!("the whole document is signed by the key {key_id}");
            (SignatureView::Valid, Some(Check::new("signature", true, detail)))
        }
        SignatureState::Unsigned if stored.is_none() => (SignatureView::Unsigned, None),
        SignatureState::Unsigned => {
            let detail = "the signature was removed from the document";
            (SignatureView::Invalid, Some(Check::new("signature", false, detail)))
        }
        SignatureState::Invalid(detail) => {
            (SignatureView::Invalid, Some(Check::new("signature", false, detail)))
        }
    }
}

fn gone(name: &str, why: &str) -> Verification {
    Verification::of(vec![Check::new(name, false, format!("{why}, so nothing can be recomputed"))])
}
