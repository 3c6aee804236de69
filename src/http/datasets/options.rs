//! What an upload may say about itself: in the query beside a raw body, or in a `manifest` part.

use serde::Deserialize;

use super::content::essence;
use crate::http::App;
use crate::http::codes::Code;
use crate::http::problem::Problem;
use crate::store::{Dataset, PolicyId, StoreError, Workspace};
use guarantor_engine::log::{Outcome, OutcomeKind};
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::{Format, Hashing, IngestLimits};

/// A log's format by name. `dsjson` and `obd` must be named, because their content types are those
/// of other formats; the others may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FormatName {
    Ndjson,
    Csv,
    Parquet,
    ArrowStream,
    /// Vowpal Wabbit's decision-service JSON.
    Dsjson,
    /// The Open Bandit Dataset's CSV.
    Obd,
}

#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UploadOptions {
    /// To recognise it by; up to 200 characters.
    pub name: Option<String>,
    /// Where the content type does not say it: `dsjson` (Vowpal Wabbit's decision-service JSON) and
    /// `obd` (the Open Bandit Dataset's CSV) must be named.
    #[param(inline)]
    pub format: Option<FormatName>,
    /// For `dsjson` and `obd`: into how many dimensions named features are hashed (MurmurHash3 with
    /// signs, as scikit-learn's FeatureHasher does); 256 unless given, 0 for none. `obd` adds 3 for
    /// the position.
    pub hash_dims: Option<usize>,
    /// K. Left out, it is the number of `propensities`, of `a` in `dsjson`, of affinities in `obd`, or
    /// 1 + the largest action.
    #[param(minimum = 2)]
    #[schema(minimum = 2)]
    pub n_actions: Option<usize>,
    /// Whether rows carry `cost` (the default, but for `format=obd`) or `reward`.
    #[param(inline)]
    pub outcome: Option<OutcomeKind>,
    /// The outcome's range; cost is in [-1, 0] and reward in [0, 1] where an end is not given.
    pub outcome_min: Option<f64>,
    pub outcome_max: Option<f64>,
    /// The stored policy that made the log, where it is one.
    pub logging_policy_id: Option<String>,
}

impl UploadOptions {
    pub fn name(&self) -> Result<Option<String>, Problem> {
        match &self.name {
            Some(name) if name.chars().count() > 200 => {
                Err(Problem::field(Code::InvalidValue, "name", "must have at most 200 characters"))
            }
            Some(name) if name.contains('\0') => {
                Err(Problem::field(Code::InvalidValue, "name", "must not have the character NUL"))
            }
            name => Ok(name.clone()),
        }
    }

    pub fn format(&self, content_type: &str) -> Result<Format, Problem> {
        let format = named(content_type, self.format)?;
        let Some(dims) = self.hash_dims else { return Ok(format) };
        format.with_hash_dims(dims).ok_or_else(|| {
            let message = "goes with format=dsjson and format=obd; other formats have their features in x";
            Problem::field(Code::InvalidValue, "hash_dims", message)
        })
    }

    pub fn outcome(&self, format: Format) -> Result<Outcome, Problem> {
        format.outcome(self.outcome, self.outcome_min, self.outcome_max).map_err(|(min, max)| {
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

/// What an append may say; everything else is the dataset's.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AppendOptions {
    /// As for an upload. Features are hashed into as many dimensions as the dataset has.
    #[param(inline)]
    pub format: Option<FormatName>,
}

impl AppendOptions {
    pub fn format(&self, content_type: &str, dataset: &Dataset) -> Result<Format, Problem> {
        Ok(named(content_type, self.format)?.with_dim(dataset.content.dim))
    }
}

/// The format that the content type names, or that `name` does where the type allows it.
fn named(content_type: &str, name: Option<FormatName>) -> Result<Format, Problem> {
    let essence = essence(content_type)?;
    let Some(name) = name else {
        let all = [FormatName::Ndjson, FormatName::Csv, FormatName::Parquet, FormatName::ArrowStream];
        let found = all.into_iter().find(|name| name.content_types()[0] == essence);
        return found.map(FormatName::format).ok_or_else(|| {
            let types: Vec<&str> = all.iter().map(|name| name.content_types()[0]).collect();
            let what =
                format!("a log is one of {}, or goes with format=dsjson or format=obd", types.join(", "));
            unsupported(&what, &essence)
        });
    };
    match essence.as_str() {
        "" | "application/octet-stream" | "text/plain" => Ok(name.format()),
        other if name.content_types().contains(&other) => Ok(name.format()),
        other => Err(unsupported(&format!("this format is {}", name.content_types().join(" or ")), other)),
    }
}

impl FormatName {
    /// Its content type, and others that it may have where it is named.
    fn content_types(self) -> &'static [&'static str] {
        match self {
            FormatName::Ndjson | FormatName::Dsjson => &["application/x-ndjson", "application/json"],
            FormatName::Csv | FormatName::Obd => &["text/csv"],
            FormatName::Parquet => &["application/vnd.apache.parquet"],
            FormatName::ArrowStream => &["application/vnd.apache.arrow.stream"],
        }
    }

    fn format(self) -> Format {
        match self {
            FormatName::Ndjson => Format::Ndjson,
            FormatName::Csv => Format::Csv,
            FormatName::Parquet => Format::Parquet,
            FormatName::ArrowStream => Format::ArrowStream,
            FormatName::Dsjson => Format::Dsjson(Hashing::default()),
            FormatName::Obd => Format::Obd(Hashing::default()),
        }
    }
}

fn unsupported(what: &str, got: &str) -> Problem {
    let got = if got.is_empty() { "none".to_owned() } else { format!("{got:?}") };
    Problem::new(Code::UnsupportedMediaType, format!("The content type of {what}; it is {got}."))
}

pub fn limits(app: &App) -> IngestLimits {
    IngestLimits {
        actions: app.config.max_actions,
        dim: app.config.max_features,
        decoded_bytes: app.config.max_decoded_bytes,
        spool: Some(app.config.data_dir.clone()),
        ..IngestLimits::default()
    }
}
