//! `POST /v1/partials`: partials of a log whose rows are elsewhere. The service merges them, enters the look into the
//! ledger of every dataset with some of the same rows, and signs the certificate.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::auth::{Caller, CallerName};
use super::codes::Code;
use super::extract::{JsonBody, Nothing, Params};
use super::idempotency::{Created, Creation, Start, replay};
use super::jobs::{JobView, check_metadata, submit};
use super::problem::Problem;
use crate::store::{Dataset, DatasetId, Job, JobId, NewJob, NewMerged, PolicyId, StoreError, Workspace};
use guarantor_engine::certificate::{Certificate, StrictJson};
use guarantor_engine::partial::{MergeError, Merged, Partial, Recipe};
use guarantor_engine::spec::Candidate;
use guarantor_ingest::{RowSketch, partials};

/// How often a job is submitted again because the ledger has changed since.
const SUBMITTED_AGAIN: u32 = 10;
/// The longest name of a dataset.
const MOST_NAME: usize = 200;

/// The routes of partials.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(create))
}

/// Partials to be merged.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PartialsRequest {
    /// The recipe, as `guarantor recipe` wrote it.
    #[schema(value_type = Object)]
    recipe: StrictJson,
    /// The partials, as `guarantor partial` wrote them.
    #[schema(value_type = Vec<Object>, max_items = 100000)]
    partials: Vec<StrictJson>,
    /// The number of rows of all partitions, those that were learned from included. Fewer or more are rejected.
    expected_rows: Option<u64>,
    /// A name for people, of the dataset that stands for the rows.
    #[schema(max_length = 200)]
    name: Option<String>,
    /// Any JSON object of at most 16384 bytes; returned with the job.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// What was merged.
struct Ready {
    merged: Merged,
    sketch: RowSketch,
    certificate: Certificate,
}

impl From<MergeError> for Problem {
    fn from(error: MergeError) -> Self {
        Problem::new(Code::PartialsRejected, error.message).member("reason", error.code.name())
    }
}

/// Certify partials of a log whose rows are elsewhere.
///
/// The service merges the sums and signs the certificate. It did not see the rows, so the certificate says that it was
/// merged, and gates accept it only if they are told to. The answer is a job like any other; its dataset stands for the
/// rows and has none, so nothing else can be computed from it. Rows that an earlier look has seen, in whatever dataset,
/// are not certified again as fresh ones.
#[utoipa::path(post, path = "/v1/partials", tag = "Partials", operation_id = "merge_partials",
    params(("idempotency-key" = Option<String>, Header, description = "Repeated requests with this key get the first response")),
    request_body(content = PartialsRequest),
    responses((status = 202, description = "Merged and queued to be signed", body = JobView,
               headers(("location" = String, description = "The path of the job"))),
              (status = 409, description = "`idempotency_in_progress`"),
              (status = 422, description = "`partials_rejected`, with `reason`: `invalid_recipe`, `invalid_partial`, `mixed_recipes`, `mixed_releases`, `repeated_partial`, `overlapping_partials`, `missing_rows`, `too_many_rows`, `no_rows` or `invalid_numbers`; `no_fresh_rows`; `unknown_policy`; `invalid_value`"),
              (status = 429, description = "`queue_full`: too many queued jobs",
               headers(("retry-after" = u32, description = "Seconds")))))]
async fn create(
    State(app): State<App>,
    Caller(workspace): Caller,
    CallerName(caller): CallerName,
    Params(_): Params<Nothing>,
    headers: HeaderMap,
    body: JsonBody<PartialsRequest>,
) -> Result<Response, Problem> {
    let PartialsRequest { recipe, partials, expected_rows, name, metadata } = body.value;
    let metadata = metadata.unwrap_or_default();
    check_metadata(&metadata)?;
    if name.as_ref().is_some_and(|name| name.len() > MOST_NAME) {
        let message = format!("is longer than {MOST_NAME} bytes");
        return Err(Problem::field(Code::InvalidValue, "name", message));
    }
    let parts: [&[u8]; 2] = [b"POST /v1/partials", &body.bytes];
    let creation = Creation::new(&workspace, &headers, &parts, app.json_patience())?;
    let id = match creation.start(&app).await? {
        Start::Work(id) => id,
        Start::Replay(answer) => return replay(answer, None),
    };
    let worker = app.clone();
    let work = async move {
        let ready = worker.compute(&workspace, move || merged(recipe, partials, expected_rows)).await??;
        let policy_ids = policies_of(&worker, &workspace, ready.merged.recipe()).await?;
        let spec = ready.merged.recipe().spec.clone();
        // The sums are large, and a thread's stack is not.
        let dataset = Box::pin(store(&worker, &workspace, DatasetId::from(id), name, ready)).await?;
        let mut left = SUBMITTED_AGAIN;
        loop {
            let seen = worker.store.repository().seen_by_looks(&workspace, dataset.id).await?;
            let seen_rows = seen.before(dataset.content.rows);
            if seen_rows > 0 {
                return Err(no_fresh_rows(&worker, dataset).await?);
            }
            let new = NewJob {
                id: JobId::from(id),
                workspace: workspace.clone(),
                dataset_id: dataset.id,
                dataset_version: dataset.version,
                seen_rows: Some(seen_rows),
                spec: spec.clone(),
                metadata: metadata.clone().into(),
                policy_ids: policy_ids.clone(),
                submitted_by: caller.clone(),
            };
            match submit(&worker, new).await {
                // A look at some of the rows was taken in the meantime.
                Err(StoreError::Changed) if left > 0 => left -= 1,
                job => return queued(job?),
            }
        }
    };
    creation.finish(&app, work).await
}

/// Reads and merges. This takes time.
fn merged(
    StrictJson(recipe): StrictJson,
    partials: Vec<StrictJson>,
    expected_rows: Option<u64>,
) -> Result<Box<Ready>, MergeError> {
    let recipe = Recipe::from_value(recipe)?;
    let partials: Vec<Partial> =
        partials.into_iter().map(|StrictJson(value)| Partial::from_value(value)).collect::<Result<_, _>>()?;
    let (merged, sketch) = partials::merge(&recipe, partials, expected_rows)?;
    let certificate = merged.certificate()?;
    Ok(Box::new(Ready { merged, sketch, certificate }))
}

/// The stored policy that the recipe names, which must be the one that was summed up.
async fn policies_of(app: &App, workspace: &Workspace, recipe: &Recipe) -> Result<Vec<PolicyId>, Problem> {
    let (Some(Candidate::Policy { policy_id }), Some(params)) =
        (recipe.spec.candidates.first(), recipe.policy())
    else {
        return Ok(Vec::new());
    };
    let field = "recipe.spec.candidates[0].policy_id";
    let unknown = |why: &str| {
        let message = format!(
            "{policy_id:?} {why}; store the policy with POST /v1/policies, and freeze the recipe with its id"
        );
        Problem::field(Code::UnknownPolicy, field, message)
    };
    let id: PolicyId = policy_id.parse().map_err(|_| unknown("is not the id of a policy"))?;
    let stored = match app.store.repository().policy(workspace, id).await {
        Err(StoreError::NotFound(..)) => return Err(unknown("does not exist")),
        stored => stored?,
    };
    if params.digest().map_err(Problem::internal)? != stored.digest {
        return Err(unknown("has other parameters than the recipe"));
    }
    Ok(vec![id])
}

async fn store(
    app: &App,
    workspace: &Workspace,
    id: DatasetId,
    name: Option<String>,
    ready: Box<Ready>,
) -> Result<Dataset, Problem> {
    let Ready { merged, sketch, certificate } = *ready;
    let health = health_of(&merged, &certificate);
    let digest = certificate.dataset.digest;
    let workspace = workspace.clone();
    let new = NewMerged { id, workspace, name, merged, digest, sketch, health };
    Ok(app.store.create_merged(new).await?)
}

/// The health report of the merged rows, as far as their sums tell.
fn health_of(merged: &Merged, certificate: &Certificate) -> Value {
    let health = merged.health();
    let never: Vec<usize> = (0..certificate.dataset.n_actions)
        .filter(|&action| health.action_counts.get(action).copied().unwrap_or(0) == 0)
        .collect();
    json!({
        "min_propensity": health.least_propensity,
        "max_weight": 1.0 / health.least_propensity,
        "effective_sample_size": health.effective_sample_size,
        "near_deterministic_share": health.near_deterministic_share,
        "action_counts": health.action_counts,
        "actions_never_logged": never,
        "inverse_propensity_mean": {
            "expected": certificate.dataset.n_actions,
            "observed": health.inverse_propensity_mean,
            "z": null,
            "ok": null,
        },
        "worst_action_count": null,
        "warnings": [],
        "checks": certificate.checks,
        "weights": [],
        "smallest_propensities": [],
        "expected_counts": [],
    })
}

/// Rejects rows that looks at other datasets have seen in part. Nobody can tell which of the sums are of fresh rows.
async fn no_fresh_rows(app: &App, dataset: Dataset) -> Result<Problem, Problem> {
    let others: Vec<String> = dataset.shares_ledger_with.iter().take(3).map(ToString::to_string).collect();
    app.store.delete_dataset(&dataset.workspace, dataset.id).await?;
    let message = format!(
        "looks at other datasets with some of these rows ({}) have seen them; merge partials of rows that no look has \
         seen, or all rows of such a dataset",
        others.join(", ")
    );
    Ok(Problem::field(Code::NoFreshRows, "partials", message))
}

fn queued(job: Job) -> Result<Created, Problem> {
    tracing::info!(job_id = %job.id, workspace = %job.workspace, dataset_id = %job.dataset_id,
        submitted_by = job.submitted_by, "partials merged");
    let location = [(header::LOCATION, format!("/v1/jobs/{}", job.id))];
    Created::json(StatusCode::ACCEPTED, &location, &JobView::from(job))
}
