//! `GET /v1/gates/{name}` and `/v1/gate/{token}`: asking a standing gate.

use axum::body::Body;
use axum::extract::State;

use super::check_query;
use super::examine::{GateAnswer, Opened, examine};
use super::rules::{Facts, Unmet, first_unmet_of_gate, first_unmet_of_job, first_unmet_of_request};
use crate::http::App;
use crate::http::auth::Caller;
use crate::http::codes::Code;
use crate::http::extract::{Id, Params, read_body};
use crate::http::problem::Problem;
use crate::store::{GateName, GateRequirements, Job, KeyHash, StandingGate};
use guarantor_engine::certificate::Decision;

/// The most bytes of a body that is ignored. Flagger sends a few hundred.
const MOST_IGNORED: usize = 64 << 10;

/// The answer of a gate about a job and a candidate, unless `unmet` finds a requirement that is not met. All names of
/// `candidates` must mean the same candidate, such as `good` and `logged:good`.
///
/// # Errors
/// A problem if the gate stays closed.
async fn decide(
    app: &App,
    job: Job,
    candidates: &[&str],
    unmet: impl FnOnce(&Facts) -> Option<Unmet>,
) -> Result<GateAnswer, Problem> {
    let examined = examine(app, job).await?;
    let Some(answer) = examined.answer(app, candidates.first().copied()).await? else {
        let Some(candidate) = candidates.first() else {
            return Err(Problem::internal("a certificate does not say which candidate it is about"));
        };
        return Err(Problem::from(Unmet::candidate(candidate, examined.names())).member("ok", false));
    };
    if let Some(other) = candidates.iter().find(|name| !answer.is_about(name)) {
        let unmet = Unmet::candidate(other, vec![answer.candidate]);
        return Err(Problem::from(unmet).member("ok", false));
    }
    if answer.decision != Decision::Deploy {
        return Err(keep(answer));
    }
    let facts = Facts {
        answer: &answer,
        newest_version: examined.newest_version,
        now: app.store.repository().now().await?,
    };
    match unmet(&facts) {
        None => Ok(answer),
        Some(unmet) => Err(answer.closed(unmet.into())),
    }
}

/// The answer of the gate of a job.
///
/// # Errors
/// A problem if the gate stays closed.
pub async fn ask_about_job(
    app: &App,
    job: Job,
    requirements: &GateRequirements,
) -> Result<GateAnswer, Problem> {
    check_query(requirements)?;
    let candidate = requirements.candidate.as_deref();
    decide(app, job, candidate.as_slice(), |facts| first_unmet_of_job(requirements, facts)).await
}

fn keep(answer: GateAnswer) -> Problem {
    let reasons: Vec<&str> = answer.reasons.iter().map(|reason| reason.message.as_str()).collect();
    let detail = format!("Keep the deployed policy: {}.", reasons.join("; "));
    answer.closed(Problem::new(Code::DecisionKeep, detail))
}

/// The answer of a standing gate, which is logged.
async fn ask_gate(app: &App, gate: StandingGate, asked: &GateRequirements) -> Result<GateAnswer, Problem> {
    check_query(asked)?;
    let answered = answer_of(app, &gate, asked).await;
    match &answered {
        Ok(answer) => {
            tracing::info!(gate = %gate.name, workspace = %gate.workspace, job_id = %answer.job_id,
                candidate = answer.candidate, certificate = answer.certificate_digest, "gate opened");
        }
        Err(problem) => {
            let member =
                |name: &str| problem.more.get(name).and_then(|value| value.as_str()).map(str::to_owned);
            tracing::info!(gate = %gate.name, workspace = %gate.workspace, job_id = member("job_id"),
                code = problem.code.name(), requirement = member("requirement"), "gate stayed closed");
        }
    }
    let named = |problem: Problem| problem.member("gate", gate.name.as_str()).member("ok", false);
    answered.map(|answer| GateAnswer { gate: Some(gate.name.clone()), ..answer }).map_err(named)
}

async fn answer_of(app: &App, gate: &StandingGate, asked: &GateRequirements) -> Result<GateAnswer, Problem> {
    let Some(job) = app.store.repository().job_of_gate(gate).await? else {
        let detail = format!(
            "No job that this gate selects has ended. GET /v1/gates/{}/definition shows what it selects.",
            gate.name
        );
        return Err(Problem::new(Code::NoMatchingJob, detail));
    };
    let own = gate.definition.requirements.candidate.as_deref();
    let candidates: Vec<&str> = own.into_iter().chain(asked.candidate.as_deref()).collect();
    decide(app, job, &candidates, |facts| {
        first_unmet_of_gate(&gate.definition, facts).or_else(|| first_unmet_of_request(asked, facts))
    })
    .await
}

/// Ask a standing gate about the job that ended last among those it selects. The query can add requirements, and
/// cannot remove any.
#[utoipa::path(get, path = "/v1/gates/{name}", tag = "Gates", operation_id = "ask_gate",
    params(("name" = String, Path), GateRequirements),
    responses((status = 200, description = "Deploy", body = GateAnswer),
              (status = 403, description = "Closed, with `ok: false`: `requirement_failed`, with `requirement`, `required` and `actual`; `decision_keep`; `certificate_outdated`; `signature_invalid`; `dataset_gone`; `policy_gone`"),
              (status = 409, description = "`no_matching_job`: no job that the gate selects has ended"),
              (status = 424, description = "`job_failed` or `job_cancelled`: the job that ended last has no certificate")))]
pub async fn ask(
    State(app): State<App>,
    Caller(workspace): Caller,
    Id(name): Id<GateName>,
    Params(asked): Params<GateRequirements>,
) -> Result<Opened, Problem> {
    let gate = app.store.repository().gate(&workspace, &name).await?;
    ask_gate(&app, gate, &asked).await.map(GateAnswer::opened)
}

/// Ask the standing gate of a token, without an API key.
#[utoipa::path(get, path = "/v1/gate/{token}", tag = "Gates", operation_id = "ask_gate_by_token",
    params(("token" = String, Path), GateRequirements),
    responses((status = 200, description = "Deploy", body = GateAnswer),
              (status = 403, description = "Closed, as for `GET /v1/gates/{name}`"),
              (status = 404, description = "`not_found`: the token does not exist or was revoked"),
              (status = 409, description = "`no_matching_job`"),
              (status = 424, description = "`job_failed` or `job_cancelled`")))]
pub async fn ask_by_token(
    State(app): State<App>,
    Id(token): Id<String>,
    Params(asked): Params<GateRequirements>,
) -> Result<Opened, Problem> {
    let Some((gate, token_id)) = app.store.repository().gate_by_token(&KeyHash::of(&token)).await? else {
        let detail = "No gate has this token. It does not exist, or it was revoked, or its gate was deleted.";
        return Err(Problem::new(Code::NotFound, detail));
    };
    tracing::debug!(gate = %gate.name, %token_id, "asked by token");
    ask_gate(&app, gate, &asked).await.map(GateAnswer::opened)
}

/// Ask the standing gate of a token, for tools whose webhooks only POST, such as Flagger. The body is ignored.
#[utoipa::path(post, path = "/v1/gate/{token}", tag = "Gates", operation_id = "post_gate_by_token",
    params(("token" = String, Path), GateRequirements),
    responses((status = 200, description = "Deploy", body = GateAnswer),
              (status = 403, description = "Closed, as for `GET /v1/gates/{name}`"),
              (status = 404, description = "`not_found`: the token does not exist or was revoked"),
              (status = 409, description = "`no_matching_job`"),
              (status = 413, description = "`body_too_large`: the body is ignored, but must not be large"),
              (status = 424, description = "`job_failed` or `job_cancelled`")))]
pub async fn post_by_token(
    state: State<App>,
    token: Id<String>,
    asked: Params<GateRequirements>,
    body: Body,
) -> Result<Opened, Problem> {
    // Without a valid token nobody can make the server wait for a body.
    let opened = ask_by_token(state, token, asked).await?;
    read_body(body, MOST_IGNORED).await?;
    Ok(opened)
}
