//! `POST /v1/datasets` with a log by reference: `{"source": {"uris": […]}, …}`. The request is checked here; a worker reads
//! the log, as an import.

use std::collections::HashSet;
use std::fmt;

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, IntoDeserializer, MapAccess, Visitor};
use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Object, Schema};

use super::body::drain;
use super::content::essence;
use super::create::{body_problem, log_problem};
use super::digest::{Expected, verified};
use super::options::{UploadOptions, limits};
use crate::http::App;
use crate::http::codes::Code;
use crate::http::extract::{Nothing, Params, check_json_headers, field_problem, parse_json, read_body};
use crate::http::idempotency::{Created, Creation, Start, replay};
use crate::http::imports::ImportView;
use crate::http::problem::Problem;
use crate::store::{DatasetId, Import, NewImport, Resource, SourceRequest, SourceUri, StoreError, Workspace};
use guarantor_engine::certificate::StrictJson;
use guarantor_ingest::{FileFormat, Format, Rules};

/// The most addresses of one log, and of all of their bytes. Lists of imports have them.
const MOST_URIS: usize = 1000;
const MOST_BYTES: usize = 64 << 10;

/// Where a log is.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The addresses, `s3://bucket/key` or `file:///path`, in the order of the log. `*` and `?` stand for characters of one
    /// segment, and what they match is read in the order of its names. The operator allows places with `sources_allow`.
    #[schema(min_items = 1, max_items = 1000, example = json!(["s3://logs/2026-11-*.parquet"]))]
    uris: Vec<String>,
    /// Whether the rows are copied into the service. Otherwise the objects are pinned by their ETag, version and SHA-256,
    /// every job reads them again, and it fails with `source_changed` if one is not the same anymore.
    #[serde(default = "yes")]
    #[schema(default = true)]
    materialize: bool,
}

fn yes() -> bool {
    true
}

/// A log by reference: the options of an upload, and where the log is.
#[derive(Debug)]
pub struct ReferenceRequest {
    source: Source,
    options: UploadOptions,
}

impl ReferenceRequest {
    /// Reads a body. The order of its members is kept: the first of several outcomes is the primary one.
    fn read(body: &[u8]) -> Result<Self, Problem> {
        let StrictJson(mut whole) = parse_json(body)?;
        let source = whole.get_mut("source").map(Value::take).unwrap_or_default();
        let source = serde_path_to_error::deserialize(source).map_err(|error| {
            let path = match error.path().to_string().as_str() {
                "." => "source".to_owned(),
                path => format!("source.{path}"),
            };
            field_problem(Code::InvalidValue, &path, &error.into_inner().to_string())
        })?;
        let mut reader = serde_json::Deserializer::from_slice(body);
        let options = serde_path_to_error::deserialize(WithoutSource(&mut reader)).map_err(|error| {
            let path = error.path().to_string();
            field_problem(Code::InvalidValue, &path, &error.into_inner().to_string())
        })?;
        Ok(ReferenceRequest { source, options })
    }
}

/// An object without its member `source`.
struct WithoutSource<T>(T);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for WithoutSource<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(WithoutSource(visitor))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for WithoutSource<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(WithoutSource(members))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for WithoutSource<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(name) = self.0.next_key::<String>()? {
            if name != "source" {
                return seed.deserialize(name.into_deserializer()).map(Some);
            }
            self.0.next_value::<IgnoredAny>()?;
        }
        Ok(None)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        self.0.next_value_seed(seed)
    }
}

impl utoipa::PartialSchema for ReferenceRequest {
    /// The options of an upload with one more field, because a closed object cannot be extended by reference.
    fn schema() -> RefOr<Schema> {
        let mut object = match <UploadOptions as utoipa::PartialSchema>::schema() {
            RefOr::T(Schema::Object(object)) => object,
            _ => Object::new(),
        };
        object.properties.insert("source".into(), <Source as utoipa::PartialSchema>::schema());
        object.required.push("source".into());
        RefOr::T(Schema::Object(object))
    }
}

impl utoipa::ToSchema for ReferenceRequest {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        <UploadOptions as utoipa::ToSchema>::schemas(schemas);
    }
}

/// A request to create a dataset.
pub enum Sent {
    /// With its rows.
    Rows(Request),
    /// By reference: the headers, and the whole body.
    Reference(HeaderMap, Bytes),
}

/// Finds out what a request is. A body of JSON is a log by reference, unless the query names a format: then it has rows.
///
/// # Errors
/// If the body of a log by reference cannot be read, or does not have the digest that its sender stated.
pub async fn tell_apart(app: &App, request: Request) -> Result<Sent, Problem> {
    let kind =
        request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("").to_owned();
    let query = request.uri().query().unwrap_or("");
    if !essence(&kind).is_ok_and(|essence| essence == "application/json") || query.contains("format=") {
        return Ok(Sent::Rows(request));
    }
    let (parts, body) = request.into_parts();
    check_json_headers(&parts.headers)?;
    let expected = Expected::of(&parts.headers)?;
    let body = read_body(body, app.config.max_json_bytes).await?;
    if is_row(&body) {
        let rows = "A body of JSON is a log by reference and has `source`. Send rows as application/x-ndjson, or set `format`.";
        return Err(Problem::new(Code::UnsupportedMediaType, rows));
    }
    let Params(Nothing {}) = Params::of(&parts)?;
    let whole = verified(stream::iter([Ok(body.clone())]).boxed(), expected);
    drain(whole).await.map_err(body_problem)?;
    Ok(Sent::Reference(parts.headers, body))
}

/// Whether a body looks like rows: it is no JSON at all, or begins with an object that is not a log by reference.
fn is_row(body: &[u8]) -> bool {
    if !matches!(body.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return true;
    }
    #[derive(Deserialize)]
    struct Object {
        source: Option<IgnoredAny>,
    }
    let first = serde_json::Deserializer::from_slice(body).into_iter::<Object>().next();
    matches!(first, Some(Ok(Object { source: None })))
}

/// Queues the import of a log by reference.
pub async fn create(
    app: App,
    workspace: Workspace,
    caller: String,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let request = ReferenceRequest::read(&body)?;
    let parts: [&[u8]; 2] = [b"POST /v1/datasets by reference", &body];
    let creation = Creation::new(&workspace, &headers, &parts, app.json_patience())?;
    let id = match creation.start(&app).await? {
        Start::Work(id) => DatasetId::from(id),
        Start::Replay(answer) => return replay(answer, None),
    };
    let worker = app.clone();
    let work = async move {
        let request = checked(&worker, &workspace, request).await?;
        let new = NewImport { id, workspace: workspace.clone(), submitted_by: caller, request };
        let import = match worker.queue.submit_import(new).await {
            // An earlier attempt of this request queued it, and the process died before it could respond.
            Err(StoreError::Exists(Resource::Import, _)) => {
                worker.store.repository().import(&workspace, id).await?
            }
            import => import?,
        };
        queued(import)
    };
    creation.finish(&app, work).await
}

fn queued(import: Import) -> Result<Created, Problem> {
    tracing::info!(import_id = %import.id, workspace = %import.workspace, "import queued");
    let location = [(header::LOCATION, format!("/v1/imports/{}", import.id))];
    Created::json(StatusCode::ACCEPTED, &location, &ImportView::from(import))
}

/// Checks everything that can be checked before the log is read.
async fn checked(
    app: &App,
    workspace: &Workspace,
    request: ReferenceRequest,
) -> Result<SourceRequest, Problem> {
    let ReferenceRequest { source, options } = request;
    check_places(app, workspace, &source.uris)?;
    let format = format_of(&source.uris, options.format)?;
    let plain = FileFormat::from(format);
    if options.hash_dims.is_some_and(|dims| plain.with_hash_dims(dims).is_none()) {
        let message = "cannot be set for csv, which has no named features";
        return Err(Problem::field(Code::InvalidValue, "hash_dims", message));
    }
    let (outcome, outcomes) = (options.outcome(format)?, options.outcomes()?);
    let policy = options.logging_policy(app, workspace).await?;
    let logging_policy_id = policy.as_ref().map(|&(id, _)| id);
    let policy = policy.map(|(_, params)| params);
    Rules::new(options.n_actions, outcome, policy, limits(&app.config)).map_err(log_problem)?;
    Ok(SourceRequest {
        uris: source.uris,
        materialize: source.materialize,
        name: options.name()?,
        format,
        hash_dims: options.hash_dims,
        n_actions: options.n_actions,
        outcome,
        outcomes,
        options: options.log_options(),
        logging_policy_id,
    })
}

/// Checks that the operator allows all addresses.
fn check_places(app: &App, workspace: &Workspace, uris: &[String]) -> Result<(), Problem> {
    let Some(reader) = app.store.sources() else {
        let detail = "The operator of this server allows no logs by reference; the setting sources_allow lists places.";
        return Err(Problem::new(Code::SourcesOff, detail));
    };
    if !(1..=MOST_URIS).contains(&uris.len()) {
        let message = format!("has {} addresses; name 1 to {MOST_URIS}, or use * and ?", uris.len());
        return Err(Problem::field(Code::InvalidValue, "source.uris", message));
    }
    let length: usize = uris.iter().map(String::len).sum();
    if length > MOST_BYTES {
        let message = format!("has {length} bytes of addresses, more than {MOST_BYTES}; use * and ?");
        return Err(Problem::field(Code::InvalidValue, "source.uris", message));
    }
    let mut named = HashSet::new();
    for (i, text) in uris.iter().enumerate() {
        let field = format!("source.uris[{i}]");
        if !named.insert(text) {
            return Err(Problem::field(
                Code::InvalidValue,
                field,
                "is there twice; every object can be in a log once",
            ));
        }
        let uri: SourceUri = match text.parse() {
            Ok(uri) => uri,
            Err(error) => {
                let error: crate::store::SourceError = error;
                return Err(Problem::field(Code::InvalidValue, field, error.to_string()));
            }
        };
        reader.check(workspace, &uri).map_err(|why| Problem::field(Code::AddressNotAllowed, field, why))?;
    }
    Ok(())
}

/// The format of all objects: the named one, or the one that their names imply.
fn format_of(uris: &[String], named: Option<Format>) -> Result<Format, Problem> {
    let mut common = named;
    for (i, uri) in uris.iter().enumerate() {
        let found = FileFormat::of_file(std::path::Path::new(uri), named).map(|file| file.format);
        let field = || format!("source.uris[{i}]");
        let Ok(found) = found else {
            let message = "does not end with the extension of a format; set `format`";
            return Err(Problem::field(Code::InvalidValue, field(), message));
        };
        match common {
            Some(common) if common != found => {
                let message =
                    format!("is {}, and the first is {}; a log has one format", found.name(), common.name());
                return Err(Problem::field(Code::InvalidValue, field(), message));
            }
            _ => common = Some(found),
        }
    }
    common.ok_or_else(|| Problem::field(Code::InvalidValue, "source.uris", "is empty"))
}
