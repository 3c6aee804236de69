//! The options of an upload: in the query next to a raw body, or in the part `manifest` of a form.

use serde::Deserialize;

use super::content::essence;
use crate::http::App;
use crate::http::codes::Code;
use crate::http::problem::Problem;
use crate::store::{Dataset, PolicyId, StoreError, Workspace};
use guarantor_engine::log::{Outcome, OutcomeKind};
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::{Format, Hashing, IngestLimits};

/// The format of a log by name. `dsjson` and `obd` must be named, because they share their content types
/// with other formats. Naming the others is optional.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FormatName {
    Ndjson,
    Csv,
    Parquet,
    ArrowStream,
    /// The decision-service JSON of Vowpal Wabbit.
    Dsjson,
    /// The CSV of the Open Bandit Dataset.
    Obd,
}

/// The options of an upload.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UploadOptions {
    /// A name of at most 200 characters.
    pub name: Option<String>,
    /// The format, if the content type does not tell: required for `dsjson` (the decision-service JSON of
    /// Vowpal Wabbit) and `obd` (the CSV of the Open Bandit Dataset).
    #[param(inline)]
    pub format: Option<FormatName>,
    /// For `dsjson` and `obd`: the number of dimensions into which named features are hashed
    /// (MurmurHash3 with signs, like scikit-learn's FeatureHasher). The default is 256; 0 means no
    /// features. `obd` adds 3 dimensions for the position.
    pub hash_dims: Option<usize>,
    /// K, the number of actions. By default it is the number of `propensities`, of `a` in `dsjson`, of
    /// affinities in `obd`, or 1 + the largest action.
    #[param(minimum = 2)]
    #[schema(minimum = 2)]
    pub n_actions: Option<usize>,
    /// Whether rows have a `cost` or a `reward`. The default is `cost`, and `reward` for `format=obd`.
    #[param(inline)]
    pub outcome: Option<OutcomeKind>,
    /// The smallest possible outcome. The default is -1 for `cost` and 0 for `reward`.
    pub outcome_min: Option<f64>,
    /// The largest possible outcome. The default is 0 for `cost` and 1 for `reward`.
    pub outcome_max: Option<f64>,
    /// The id of the stored policy that logged the rows, if there is one.
    pub logging_policy_id: Option<String>,
}

impl UploadOptions {
    /// The name.
    ///
    /// # Errors
    /// If it is too long or contains NUL.
    pub fn name(&self) -> Result<Option<String>, Problem> {
        match &self.name {
            Some(name) if name.chars().count() > 200 => {
                Err(Problem::field(Code::InvalidValue, "name", "must have at most 200 characters"))
            }
            Some(name) if name.contains('\0') => {
                Err(Problem::field(Code::InvalidValue, "name", "must not contain the character NUL"))
            }
            name => Ok(name.clone()),
        }
    }

    /// The format, by name or content type.
    ///
    /// # Errors
    /// If the two do not fit each other, or `hash_dims` does not fit the format.
    pub fn format(&self, content_type: &str) -> Result<Format, Problem> {
        let format = named(content_type, self.format)?;
        let Some(dims) = self.hash_dims else { return Ok(format) };
        format.with_hash_dims(dims).ok_or_else(|| {
            let message = "requires format=dsjson or format=obd; other formats have their features in x";
            Problem::field(Code::InvalidValue, "hash_dims", message)
        })
    }

    /// The kind and range of outcomes.
    ///
    /// # Errors
    /// If the range is empty or not finite.
    pub fn outcome(&self, format: Format) -> Result<Outcome, Problem> {
        format.outcome(self.outcome, self.outcome_min, self.outcome_max).map_err(|(min, max)| {
            let message = format!(
                "[{min}, {max}] is not a valid range; it must be finite, with the minimum below the maximum"
            );
            Problem::field(Code::InvalidValue, "outcome_min", message)
        })
    }

    /// The logging policy with its parameters.
    ///
    /// # Errors
    /// If there is no such policy.
    pub async fn logging_policy(
        &self,
        app: &App,
        workspace: &Workspace,
    ) -> Result<Option<(PolicyId, PolicyParams)>, Problem> {
        let Some(text) = &self.logging_policy_id else { return Ok(None) };
        let unknown = || {
            let message = format!("no policy has the id {text:?}; create it with POST /v1/policies");
            Problem::field(Code::UnknownPolicy, "logging_policy_id", message)
        };
        let id: PolicyId = text.parse().map_err(|_| unknown())?;
        match app.store.repository().policy(workspace, id).await {
            Err(StoreError::NotFound(..)) => Err(unknown()),
            policy => Ok(Some((id, app.store.policy_params(&policy?).await?))),
        }
    }
}

/// The options of an append. Everything else is taken from the dataset.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AppendOptions {
    /// The format, as for an upload. Features are hashed into the number of dimensions that the dataset has.
    #[param(inline)]
    pub format: Option<FormatName>,
}

impl AppendOptions {
    /// The format, by name or content type.
    ///
    /// # Errors
    /// If the two do not fit each other.
    pub fn format(&self, content_type: &str, dataset: &Dataset) -> Result<Format, Problem> {
        Ok(named(content_type, self.format)?.with_dim(dataset.content.dim))
    }
}

/// The format that the content type names, or `name` if the content type allows it.
fn named(content_type: &str, name: Option<FormatName>) -> Result<Format, Problem> {
    let essence = essence(content_type)?;
    let Some(name) = name else {
        let all = [FormatName::Ndjson, FormatName::Csv, FormatName::Parquet, FormatName::ArrowStream];
        let found = all.into_iter().find(|name| name.content_types()[0] == essence);
        return found.map(FormatName::format).ok_or_else(|| {
            let types: Vec<&str> = all.iter().map(|name| name.content_types()[0]).collect();
            let what = format!("it must be one of {}, or have format=dsjson or format=obd", types.join(", "));
            unsupported(&what, &essence)
        });
    };
    match essence.as_str() {
        "" | "application/octet-stream" | "text/plain" => Ok(name.format()),
        other if name.content_types().contains(&other) => Ok(name.format()),
        other => Err(unsupported(
            &format!("for this format it must be {}", name.content_types().join(" or ")),
            other,
        )),
    }
}

impl FormatName {
    /// The content type, and others that are accepted if the format is named.
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
    Problem::new(Code::UnsupportedMediaType, format!("The content type is {got}; {what}."))
}

/// The limits of an upload.
pub fn limits(app: &App) -> IngestLimits {
    IngestLimits {
        actions: app.config.max_actions,
        dim: app.config.max_features,
        decoded_bytes: app.config.max_decoded_bytes,
        spool: Some(app.config.data_dir.clone()),
        ..IngestLimits::default()
    }
}
