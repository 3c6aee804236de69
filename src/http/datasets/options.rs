//! What an upload may say about itself: in the query beside a raw body, or in a `manifest` part.

use serde::Deserialize;

use crate::engine::log::{Outcome, OutcomeKind};
use crate::engine::policy::PolicyParams;
use crate::http::App;
use crate::http::codes::Code;
use crate::http::problem::Problem;
use crate::ingest::{Format, IngestLimits};
use crate::store::{PolicyId, StoreError, Workspace};

#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UploadOptions {
    /// To recognise it by; up to 200 characters.
    pub name: Option<String>,
    /// K. Left out, it is the number of `propensities` or 1 + the largest action.
    #[param(minimum = 2)]
    #[schema(minimum = 2)]
    pub n_actions: Option<usize>,
    /// Whether rows carry `cost` (the default) or `reward`.
    #[param(inline)]
    pub outcome: Option<OutcomeKind>,
    /// The outcome's range; cost in [-1, 0] and reward in [0, 1] unless both are given.
    pub outcome_min: Option<f64>,
    pub outcome_max: Option<f64>,
    /// The stored policy that made the log, where it is one.
    pub logging_policy_id: Option<String>,
}

impl UploadOptions {
    pub fn name(&self) -> Result<Option<String>, Problem> {
        match &self.name {
            Some(name) if name.chars().count() > 200 || name.contains('\0') => {
                Err(Problem::field(Code::InvalidValue, "name", "must have at most 200 characters"))
            }
            name => Ok(name.clone()),
        }
    }

    pub fn outcome(&self) -> Result<Outcome, Problem> {
        let usual = match self.outcome.unwrap_or(OutcomeKind::Cost) {
            OutcomeKind::Cost => Outcome::default(),
            OutcomeKind::Reward => Outcome::reward(),
        };
        let (min, max) = match (self.outcome_min, self.outcome_max) {
            (None, None) => return Ok(usual),
            (min, max) => (min.unwrap_or(usual.min), max.unwrap_or(usual.max)),
        };
        Outcome::new(usual.kind, min, max).ok_or_else(|| {
            let message = format!("[{min}, {max}] is not a finite range with a minimum below its maximum");
            Problem::field(Code::InvalidValue, "outcome_min", message)
        })
    }

    /// The policy that logged, with its parameters.
    pub async fn logging_policy(
        &self,
        app: &App,
        workspace: &Workspace,
    ) -> Result<Option<(PolicyId, PolicyParams)>, Problem> {
        let Some(text) = &self.logging_policy_id else { return Ok(None) };
        let unknown = || {
            let message = format!("there is no policy {text:?}; store it with POST /v1/policies");
            Problem::field(Code::UnknownPolicy, "logging_policy_id", message)
        };
        let id: PolicyId = text.parse().map_err(|_| unknown())?;
        match app.store.repository().policy(workspace, id).await {
            Err(StoreError::NotFound(..)) => Err(unknown()),
            policy => Ok(Some((id, app.store.policy_params(&policy?).await?))),
        }
    }
}

/// The format that a content type names.
pub fn format_of(content_type: &str) -> Result<Format, Problem> {
    let essence = content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/x-ndjson" => Ok(Format::Ndjson),
        "application/vnd.apache.parquet" => Ok(Format::Parquet),
        other => {
            let got = if other.is_empty() { "none".to_owned() } else { format!("{other:?}") };
            let detail = format!(
                "The content type of a log is application/x-ndjson or application/vnd.apache.parquet; it is {got}."
            );
            Err(Problem::new(Code::UnsupportedMediaType, detail))
        }
    }
}

pub fn limits(app: &App) -> IngestLimits {
    IngestLimits { actions: app.config.max_actions, dim: app.config.max_features, ..IngestLimits::default() }
}
