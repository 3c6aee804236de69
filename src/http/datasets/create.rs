//! `POST /v1/datasets`, `POST /v1/datasets/{id}/rows` and `POST /v1/datasets/{id}/candidates`: a log as the raw
//! body, or, for a new dataset, as the part `data` of a form that begins with the part `manifest`.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use serde_json::json;

use super::body::{Chunks, Passed, chunks, drain, limited, metered, read_ahead};
use super::by_reference::{ReferenceRequest, Sent, create as by_reference, tell_apart};
use super::content::encoding_of;
use super::digest::{Expected, verified};
use super::form::{Form, FormPart};
use super::options::{AppendOptions, UploadOptions, fingerprint_of, limits};
use super::{DatasetView, require_own_rows, require_rows};
use crate::http::App;
use crate::http::auth::{Caller, CallerName};
use crate::http::codes::Code;
use crate::http::extract::{Id, Nothing, Params, parse_json, too_large};
use crate::http::idempotency::{Created, Creation, Start, mismatch, replay};
use crate::http::imports::ImportView;
use crate::http::layers::uploads::UploadPermit;
use crate::http::problem::{FieldError, Problem};
use crate::http::turns::{LineFull, Turn};
use crate::store::{self, Append, BodyError, Dataset, DatasetId, Upload, UploadError, Workspace};
use guarantor_ingest::{Encoding, FileFormat, IngestError};

/// The most bytes of boundaries and headers in a form.
const AROUND_PARTS: u64 = 64 << 10;

/// How much of a body is read before its request waits for its turn. The turn of a small body then does not depend on
/// how fast it is sent, and its client is seen to disconnect.
const AHEAD: usize = 1 << 20;

/// How long a client should wait if too many others add to its dataset.
const RETRY_AFTER: std::time::Duration = std::time::Duration::from_secs(2);

/// A log that is being uploaded, as a raw body or as a form.
struct Incoming {
    options: UploadOptions,
    /// Everything except the rows, for the fingerprint.
    description: Vec<u8>,
    format: FileFormat,
    data: Chunks,
}

/// A log and its options.
#[derive(utoipa::ToSchema)]
#[allow(dead_code)]
struct UploadForm {
    /// The options as JSON. This part must come first.
    manifest: UploadOptions,
    /// The log, with its content type.
    #[schema(value_type = String, format = Binary)]
    data: Vec<u8>,
}

/// A file of a format that is not text, as it is sent. For the OpenAPI document only: bytes would be described as an
/// array of integers.
#[derive(utoipa::ToSchema)]
#[schema(value_type = String, format = Binary)]
#[allow(dead_code)]
struct FileBytes(Vec<u8>);

/// Create a dataset from a log: the body, with options in the query; a form; or a reference to objects, which a worker
/// reads as an import.
#[utoipa::path(post, path = "/v1/datasets", tag = "Datasets", operation_id = "create_dataset",
    params(UploadOptions, ("idempotency-key" = Option<String>, Header, description = "Repeated requests with this key get the first response"),
           ("content-encoding" = Option<String>, Header, pattern = "^(gzip|zstd|identity)$", description = "The compression of the body: `gzip` or `zstd`"),
           ("content-digest" = Option<String>, Header, example = "sha-256=:n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=:",
            description = "RFC 9530: the `sha-256` or `sha-512` digest of the body as it is sent, checked before anything is stored")),
    request_body(content(
        (String = "application/x-ndjson", example = json!(
            "{\"x\":[0.1,0.7],\"action\":1,\"propensity\":0.3,\"cost\":-1}\n{\"x\":[0.9,0.2],\"action\":0,\"propensity\":0.7,\"cost\":0}\n")),
        (String = "text/csv", example = json!("x0,x1,action,propensity,cost\n0.1,0.7,1,0.3,-1\n0.9,0.2,0,0.7,0\n")),
        (inline(FileBytes) = "application/vnd.apache.parquet"),
        (inline(FileBytes) = "application/vnd.apache.arrow.stream"),
        (UploadForm = "multipart/form-data"),
        (ReferenceRequest = "application/json", example = json!(
            {"source": {"uris": ["s3://logs/2026-11-*.parquet"]}, "outcome": "reward"})))),
    responses((status = 201, description = "Created", body = DatasetView,
               headers(("location" = String, description = "The path of the dataset"))),
              (status = 202, description = "A log by reference: the import is queued", body = ImportView,
               headers(("location" = String, description = "The path of the import"))),
              (status = 403, description = "`sources_off`: the operator allows no logs by reference"),
              (status = 409, description = "`idempotency_in_progress`; `limit_reached`: too many imports are not finished"),
              (status = 400, description = "`digest_mismatch`, `malformed_body`, `invalid_header`, `invalid_query`"),
              (status = 413, description = "`body_too_large`, as sent or after decompression"),
              (status = 422, description = "`invalid_rows` lists the first 20 invalid rows; `invalid_file` says what is wrong with the file. Nothing is stored")))]
pub async fn create(
    State(app): State<App>,
    Caller(workspace): Caller,
    CallerName(caller): CallerName,
    request: Request,
) -> Result<Response, Problem> {
    let request = match tell_apart(&app, request).await? {
        Sent::Rows(request) => request,
        Sent::Reference(headers, body) => return by_reference(app, workspace, caller, headers, body).await,
    };
    let headers = request.headers().clone();
    let permit = request.extensions().get::<UploadPermit>().cloned();
    let incoming = receive(&app, request).await?;
    let parts: [&[u8]; 2] = [b"POST /v1/datasets", &incoming.description];
    let patience = std::time::Duration::from_secs(app.config.upload_seconds);
    let creation = Creation::new(&workspace, &headers, &parts, patience)?;
    let passed = Passed::new(creation.has_key());
    let data = metered(incoming.data, app.config.max_upload_bytes, passed.clone());
    let id = match creation.start(&app).await? {
        Start::Work(id) => DatasetId::from(id),
        Start::Replay(answer) => {
            drain(data).await.map_err(body_problem)?;
            return replay(answer, passed.digest().as_deref());
        }
    };
    let worker = app.clone();
    let (options, format) = (incoming.options, incoming.format);
    let work = async move {
        let _permit = permit;
        let upload = Upload {
            id,
            name: options.name()?,
            format,
            n_actions: options.n_actions,
            outcome: options.outcome(format.format)?,
            outcomes: options.outcomes()?,
            options: options.log_options(),
            logging_policy: options.logging_policy(&worker, &workspace).await?,
            limits: limits(&worker.config),
            workspace,
        };
        let dataset = store::upload(&worker.store, upload, data).await.map_err(upload_problem)?;
        let rows = dataset.content.rows;
        answer(dataset, rows, &passed)
    };
    creation.finish(&app, work).await
}

/// Append rows to a dataset, which creates its next version. Certificates name the version that they were
/// computed from.
#[utoipa::path(post, path = "/v1/datasets/{id}/rows", tag = "Datasets", operation_id = "append_rows",
    params(("id" = String, Path, format = "uuid"), AppendOptions,
           ("idempotency-key" = Option<String>, Header, description = "Repeated requests with this key get the first response"),
           ("content-encoding" = Option<String>, Header, pattern = "^(gzip|zstd|identity)$", description = "The compression of the body: `gzip` or `zstd`"),
           ("content-digest" = Option<String>, Header, example = "sha-256=:n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=:",
            description = "RFC 9530: the `sha-256` or `sha-512` digest of the body as it is sent, checked before anything is stored")),
    request_body(content(
        (String = "application/x-ndjson", example = json!("{\"x\":[0.5,0.5],\"action\":1,\"propensity\":0.3,\"cost\":0}\n")),
        (String = "text/csv", example = json!("x0,x1,action,propensity,cost\n0.5,0.5,1,0.3,0\n")),
        (inline(FileBytes) = "application/vnd.apache.parquet"),
        (inline(FileBytes) = "application/vnd.apache.arrow.stream"))),
    responses((status = 201, description = "The dataset at its new version", body = DatasetView),
              (status = 409, description = "`in_use`: a job was submitted while the rows arrived; `idempotency_in_progress`"),
              (status = 400, description = "`digest_mismatch`, `malformed_body`, `invalid_header`, `invalid_query`"),
              (status = 413, description = "`body_too_large`, as sent or after decompression"),
              (status = 422, description = "`invalid_rows` lists the first 20 invalid rows; `repeated_rows`: they repeat earlier ones; `invalid_file` says what is wrong with the file. Nothing is stored")))]
pub async fn append(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<DatasetId>,
    Params(options): Params<AppendOptions>,
    request: Request,
) -> Result<Response, Problem> {
    add(app, workspace, id, options, request, Addition::Rows).await
}

/// Add candidates to a dataset, which creates its next version with the same rows. The body has a row for each row
/// of the dataset, with `candidates` or `candidate_propensities` and nothing else but `event_id`: if the dataset has
/// event ids, rows are matched by them, and otherwise by their order. The dataset keeps its ledger.
#[utoipa::path(post, path = "/v1/datasets/{id}/candidates", tag = "Datasets", operation_id = "add_candidates",
    params(("id" = String, Path, format = "uuid"), AppendOptions,
           ("idempotency-key" = Option<String>, Header, description = "Repeated requests with this key get the first response"),
           ("content-encoding" = Option<String>, Header, pattern = "^(gzip|zstd|identity)$", description = "The compression of the body: `gzip` or `zstd`"),
           ("content-digest" = Option<String>, Header, example = "sha-256=:n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=:",
            description = "RFC 9530: the `sha-256` or `sha-512` digest of the body as it is sent, checked before anything is stored")),
    request_body(content(
        (String = "application/x-ndjson", example = json!("{\"candidates\":{\"new\":0.25}}\n{\"candidates\":{\"new\":0.5}}\n")),
        (String = "text/csv", example = json!("candidate.new\n0.25\n0.5\n")),
        (inline(FileBytes) = "application/vnd.apache.parquet"),
        (inline(FileBytes) = "application/vnd.apache.arrow.stream"))),
    responses((status = 201, description = "The dataset at its new version", body = DatasetView),
              (status = 409, description = "`in_use`: a job was submitted while the rows arrived; `idempotency_in_progress`"),
              (status = 400, description = "`digest_mismatch`, `malformed_body`, `invalid_header`, `invalid_query`"),
              (status = 413, description = "`body_too_large`, as sent or after decompression"),
              (status = 422, description = "`invalid_rows` lists the first 20 invalid rows; `invalid_file` says what is wrong with the file. Nothing is stored")))]
pub async fn add_candidates(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(id): Id<DatasetId>,
    Params(options): Params<AppendOptions>,
    request: Request,
) -> Result<Response, Problem> {
    add(app, workspace, id, options, request, Addition::Candidates).await
}

/// What the next version of a dataset adds.
#[derive(Clone, Copy)]
enum Addition {
    Rows,
    Candidates,
}

impl Addition {
    /// The last segment of the path. It is part of the fingerprints of requests, so it must never change.
    fn segment(self) -> &'static str {
        match self {
            Addition::Rows => "rows",
            Addition::Candidates => "candidates",
        }
    }
}

/// Creates the next version of a dataset from the body of the request.
async fn add(
    app: App,
    workspace: Workspace,
    id: DatasetId,
    options: AppendOptions,
    request: Request,
    addition: Addition,
) -> Result<Response, Problem> {
    let headers = request.headers().clone();
    let permit = request.extensions().get::<UploadPermit>().cloned();
    let dataset = app.store.repository().dataset(&workspace, id).await?;
    require_rows(&dataset, "id")?;
    require_own_rows(&dataset)?;
    let format = options.format(content_type(&headers), &dataset)?;
    check_length(&headers, app.config.max_upload_bytes)?;
    let format = format.with_encoding(encoding_of(&headers)?);
    let expected = Expected::of(&headers)?;
    let path = format!("POST /v1/datasets/{id}/{}", addition.segment());
    let patience = std::time::Duration::from_secs(app.config.upload_seconds);
    let description = fingerprint_of(format);
    let creation = Creation::new(&workspace, &headers, &[path.as_bytes(), description.as_bytes()], patience)?;
    let passed = Passed::new(creation.has_key());
    let body = verified(chunks(request.into_body()), expected);
    let data = metered(body, app.config.max_upload_bytes, passed.clone());
    let data = read_ahead(data, AHEAD).await.map_err(body_problem)?;
    let turn = turn(&app, id).await?;
    // Another request may have added to the dataset in the meantime.
    let dataset = app.store.repository().dataset(&workspace, id).await?;
    let request = match creation.start(&app).await? {
        Start::Work(request) => request,
        Start::Replay(answer) => {
            drain(data).await.map_err(body_problem)?;
            return replay(answer, passed.digest().as_deref());
        }
    };
    let worker = app.clone();
    let work = async move {
        // Until the end, even if the client disconnects.
        let (_permit, _turn) = (permit, turn);
        let rows_before = dataset.content.rows;
        let logging_policy = logging_policy(&worker, &workspace, &dataset).await?;
        let append = Append { dataset, request, format, logging_policy, limits: limits(&worker.config) };
        let stored = match addition {
            Addition::Rows => store::append(&worker.store, append, data).await,
            Addition::Candidates => store::add_candidates(&worker.store, append, data).await,
        };
        let stored = stored.map_err(upload_problem)?;
        let new_rows = stored.content.rows.saturating_sub(rows_before);
        answer(stored, new_rows, &passed)
    };
    creation.finish(&app, work).await
}

/// Waits until no other request adds to the dataset. A workspace gets half of the places for uploads, and one of them
/// stays free for other datasets.
async fn turn(app: &App, dataset: DatasetId) -> Result<Turn, Problem> {
    let most = (app.config.max_concurrent_uploads as usize / 2).saturating_sub(1).max(1);
    app.turns.wait(dataset, most).await.map_err(|LineFull| {
        let detail =
            format!("{most} requests that add to this dataset are in progress or waiting; try again.");
        Problem::new(Code::TooManyUploads, detail).retry_after(RETRY_AFTER)
    })
}

async fn logging_policy(
    app: &App,
    workspace: &Workspace,
    dataset: &Dataset,
) -> Result<Option<guarantor_engine::policy::PolicyParams>, Problem> {
    let Some(id) = dataset.logging_policy_id else { return Ok(None) };
    let policy = app.store.repository().policy(workspace, id).await?;
    Ok(Some(app.store.policy_params(&policy).await?))
}

fn answer(dataset: Dataset, new_rows: u64, passed: &Passed) -> Result<Created, Problem> {
    crate::http::metrics::upload(passed.bytes(), new_rows);
    tracing::info!(dataset_id = %dataset.id, version = dataset.version, rows = dataset.content.rows, "dataset stored");
    let location = [(header::LOCATION, format!("/v1/datasets/{}", dataset.id))];
    let created = Created::json(StatusCode::CREATED, &location, &DatasetView::from(dataset))?;
    Ok(created.with_body_digest(passed.digest()))
}

async fn receive(app: &App, request: Request) -> Result<Incoming, Problem> {
    let kind = content_type(request.headers()).to_owned();
    let expected = Expected::of(request.headers())?;
    if kind.trim_start().to_ascii_lowercase().starts_with("multipart/form-data") {
        return receive_form(app, request, expected).await;
    }
    check_length(request.headers(), app.config.max_upload_bytes)?;
    let encoding = encoding_of(request.headers())?;
    let (parts, body) = request.into_parts();
    let Params(options) = Params::<UploadOptions>::of(&parts)?;
    let format = options.format(&kind)?.with_encoding(encoding);
    let query = parts.uri.query().unwrap_or("");
    let description = format!("{query}\n{}", fingerprint_of(format)).into_bytes();
    Ok(Incoming { options, description, format, data: verified(chunks(body), expected) })
}

async fn receive_form(app: &App, request: Request, expected: Expected) -> Result<Incoming, Problem> {
    if encoding_of(request.headers())? != Encoding::Identity {
        let detail = "A form must not have a content encoding; set Content-Encoding in its part `data`.";
        return Err(Problem::new(Code::UnsupportedEncoding, detail));
    }
    let (json_bytes, data_bytes) = (app.config.max_json_bytes, app.config.max_upload_bytes);
    let most = data_bytes.saturating_add(json_bytes as u64).saturating_add(AROUND_PARTS);
    check_length(request.headers(), most)?;
    let (parts, body) = request.into_parts();
    let Params(Nothing {}) = Params::of(&parts)?;
    let body = limited(verified(chunks(body), expected), most);
    let mut form = Form::new(body, content_type(&parts.headers)).map_err(body_problem)?;
    let manifest = form.part("manifest").await.map_err(body_problem)?;
    check_manifest(&manifest)?;
    let manifest = form.whole(manifest, json_bytes).await.map_err(body_problem)?;
    let options: UploadOptions = parse_json(&manifest)?;
    let part = form.part("data").await.map_err(body_problem)?;
    let format = options.format(content_type(&part.headers))?.with_encoding(encoding_of(&part.headers)?);
    let own = Expected::of(&part.headers)?;
    let description = [&manifest[..], b"\n", fingerprint_of(format).as_bytes()].concat();
    Ok(Incoming { options, description, format, data: verified(form.last(part), own) })
}

/// A manifest without a content type is read as JSON, because that is how most tools send form fields.
fn check_manifest(part: &FormPart) -> Result<(), Problem> {
    let kind = content_type(&part.headers);
    let essence = kind.split(';').next().unwrap_or("").trim();
    if !essence.is_empty() && !essence.eq_ignore_ascii_case("application/json") {
        let detail =
            format!("The content type of the part `manifest` is {essence:?}; it must be application/json.");
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    match encoding_of(&part.headers)? {
        Encoding::Identity => Ok(()),
        _ => Err(Problem::new(
            Code::UnsupportedEncoding,
            "The part `manifest` must not have a content encoding.",
        )),
    }
}

fn content_type(headers: &HeaderMap) -> &str {
    headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("")
}

/// Rejects a body whose Content-Length exceeds the limit, before it is read.
fn check_length(headers: &HeaderMap, most: u64) -> Result<(), Problem> {
    let length =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    match length {
        Some(length) if length > most => Err(too_large(most)),
        _ => Ok(()),
    }
}

/// Why a body could not be read.
pub fn body_problem(error: BodyError) -> Problem {
    match error {
        BodyError::TooLarge { limit } => too_large(limit),
        BodyError::Broken(_) => Problem::new(Code::MalformedBody, "The body ended early."),
        BodyError::Form(why) => Problem::new(Code::MalformedBody, format!("The form cannot be read: {why}.")),
        BodyError::Digest(detail) => Problem::new(Code::DigestMismatch, detail),
        // Objects are read by imports, and not by requests.
        error @ (BodyError::Changed(_) | BodyError::Denied(_)) => Problem::internal(error),
    }
}

fn upload_problem(error: UploadError) -> Problem {
    match error {
        UploadError::Log(error) => log_problem(error),
        UploadError::Body(error) => body_problem(error),
        UploadError::Store(error) => error.into(),
        error @ UploadError::RepeatedRows => {
            Problem::new(Code::RepeatedRows, format!("Nothing was stored: {error}."))
        }
        error @ UploadError::TooManyAdditions(_) => {
            Problem::new(Code::TooLarge, format!("Nothing was stored: {error}."))
        }
        UploadError::AnotherBody => mismatch(),
        UploadError::Crashed => Problem::internal("the decoder of an upload crashed"),
    }
}

/// Why a log was rejected.
pub fn log_problem(error: IngestError) -> Problem {
    match error {
        IngestError::Rows(rows) => {
            let (total, shown) = (rows.total, rows.first.len());
            let what = if total == 1 { "1 invalid row".to_owned() } else { format!("{total} invalid rows") };
            let listed = match total > shown as u64 {
                true => format!("the first {shown} are listed in errors"),
                false => "see errors".into(),
            };
            let detail = format!("{what}; {listed}. Nothing was stored.");
            let mut problem = Problem::new(Code::InvalidRows, detail).member("invalid_rows", rows.total);
            problem.errors = (rows.first.into_iter())
                .map(|e| FieldError {
                    row: (e.row > 0).then_some(e.row),
                    field: Some(e.field),
                    message: e.message,
                })
                .collect();
            problem
        }
        IngestError::Option { field, message } => Problem::field(Code::InvalidValue, field, message),
        error @ IngestError::MultipliedRows { .. } => {
            Problem::new(Code::RepeatedRows, format!("Nothing was stored: {error}."))
        }
        error @ IngestError::RepeatedRows { row, run, first } => {
            let problem = Problem::new(Code::RepeatedRows, format!("Nothing was stored: {error}."));
            let problem = problem.member("repeated", json!({"row": row, "rows": run, "first": first}));
            problem.with_fault(FieldError {
                row: Some(row),
                field: None,
                message: "repeats an earlier row".into(),
            })
        }
        IngestError::Unreadable(message) => Problem::new(Code::InvalidFile, message),
        IngestError::TooLarge(message) => Problem::new(Code::TooLarge, message),
        IngestError::Expands(message) => Problem::new(Code::BodyTooLarge, message),
        // Uploads report both of these by their cause.
        IngestError::Io(_) | IngestError::Sink => Problem::internal("the rows of an upload were not stored"),
    }
}
