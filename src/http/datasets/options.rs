//! The options of an upload: in the query of a raw body, or in the part `manifest` of a form.

use serde::Deserialize;

use super::content::essence;
use crate::config::Config;
use crate::http::App;
use crate::http::codes::Code;
use crate::http::problem::Problem;
use crate::store::{Dataset, PolicyId, StoreError, Workspace};
use guarantor_engine::log::{Logging, NamedOutcome, Outcome, OutcomeKind, Repetitions};
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::{
    DeclaredOutcomes, Encoding, FileFormat, Format, IngestLimits, LogOptions, OutcomeDeclaration,
    OutcomeRange,
};

/// The options of an upload.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UploadOptions {
    /// A name for people, of up to 200 characters.
    pub name: Option<String>,
    /// The format, if the content type does not imply it: `dsjson` (Vowpal Wabbit's decision-service JSON) and
    /// `obd` (the Open Bandit Dataset's CSV) must be named.
    #[param(inline)]
    pub format: Option<Format>,
    /// The number of dimensions into which named features are hashed (MurmurHash3 with signs, like scikit-learn's
    /// FeatureHasher); 0 ignores the features. The default is 16777216 if every row has its own actions, whose
    /// features are stored sparse, and otherwise 256. `obd` adds 3 dimensions for the position.
    pub hash_dims: Option<usize>,
    /// The number of actions, K. The default is the length of `propensities`, of `a` in `dsjson` or of
    /// affinities in `obd`, or else 1 + the largest action. It cannot be set if every row has its own actions.
    #[param(minimum = 2)]
    #[schema(minimum = 2)]
    pub n_actions: Option<usize>,
    /// Whether rows have `cost` (the default) or `reward` (the default for `format=obd`).
    #[param(inline)]
    pub outcome: Option<OutcomeKind>,
    /// The smallest possible outcome. The default is -1 for `cost` and 0 for `reward`.
    pub outcome_min: Option<f64>,
    /// The largest possible outcome. The default is 0 for `cost` and 1 for `reward`.
    pub outcome_max: Option<f64>,
    /// The outcome is defined as the value cut here: a larger one counts as this one. The range ends here. Certificates
    /// say so.
    pub outcome_cap: Option<f64>,
    /// The outcome is defined as the value cut here: a smaller one counts as this one. The range begins here.
    pub outcome_floor: Option<f64>,
    /// If rows have several outcomes with names, the kind and the range of each, as a JSON object; the first is the
    /// primary one. For example `{"revenue": {"kind": "reward", "min": 0, "max": 100, "cap": 80}, "complaint": {"kind":
    /// "cost"}}`. A range is 0 to 1 unless it is stated. There are at most 16. The other options of outcomes must then
    /// be left out.
    #[param(value_type = Option<String>)]
    #[schema(value_type = Option<BTreeMap<String, OutcomeDeclaration>>)]
    pub outcomes: Option<DeclaredOutcomes>,
    /// The stored policy that logged the data, if there is one. It supplies missing propensities, and logged
    /// ones are checked against it.
    pub logging_policy_id: Option<String>,
    /// How the log was logged. The default, `adaptive`, is always safe. With `fixed` you attest, on every
    /// certificate, that one policy logged every row and that traffic came from one distribution; more bounds
    /// can then be used.
    #[param(inline)]
    pub logging: Option<Logging>,
    /// What rows with the same `context_id` are. By default they are `decisions` of their own. With `designed`
    /// you attest that the number of rows of a context was chosen without looking at its actions and outcomes;
    /// contexts then count equally.
    #[param(inline)]
    pub repetitions: Option<Repetitions>,
    /// Whether propensities with few digits are exact. By default a propensity of 0.333 is taken for a rounded
    /// number, and the bounds allow for the rounding.
    pub exact_propensities: Option<bool>,
}

impl UploadOptions {
    /// The name, checked.
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

    /// The format of a body with this content type.
    pub fn format(&self, content_type: &str) -> Result<FileFormat, Problem> {
        let format = FileFormat::from(format_of(content_type, self.format)?);
        let Some(dims) = self.hash_dims else { return Ok(format) };
        format.with_hash_dims(dims).ok_or_else(|| {
            let message = "cannot be set for csv, which has no named features";
            Problem::field(Code::InvalidValue, "hash_dims", message)
        })
    }

    /// The outcome of a log of this format, unless outcomes have names.
    pub fn outcome(&self, format: Format) -> Result<Outcome, Problem> {
        format.outcome(self.outcome, self.outcome_range()).map_err(|fault| {
            Problem::field(Code::InvalidValue, format!("outcome_{}", fault.option), fault.message)
        })
    }

    fn outcome_range(&self) -> OutcomeRange {
        OutcomeRange {
            min: self.outcome_min,
            max: self.outcome_max,
            cap: self.outcome_cap,
            floor: self.outcome_floor,
        }
    }

    /// The outcomes, if they have names.
    pub fn outcomes(&self) -> Result<Vec<NamedOutcome>, Problem> {
        let Some(declared) = &self.outcomes else { return Ok(Vec::new()) };
        for (field, given) in [
            ("outcome", self.outcome.is_some()),
            ("outcome_min", self.outcome_min.is_some()),
            ("outcome_max", self.outcome_max.is_some()),
            ("outcome_cap", self.outcome_cap.is_some()),
            ("outcome_floor", self.outcome_floor.is_some()),
        ] {
            if given {
                let message = "must be left out: outcomes declares the kind and the range of each outcome";
                return Err(Problem::field(Code::InvalidValue, field, message));
            }
        }
        declared.outcomes().map_err(|message| Problem::field(Code::InvalidValue, "outcomes", message))
    }

    /// What the caller states about the log.
    pub fn log_options(&self) -> LogOptions {
        LogOptions {
            logging: self.logging.unwrap_or_default(),
            repetitions: self.repetitions.unwrap_or_default(),
            exact_propensities: self.exact_propensities.unwrap_or(false),
        }
    }

    /// The logging policy and its parameters.
    pub async fn logging_policy(
        &self,
        app: &App,
        workspace: &Workspace,
    ) -> Result<Option<(PolicyId, PolicyParams)>, Problem> {
        let Some(text) = &self.logging_policy_id else { return Ok(None) };
        let unknown = || {
            let message = format!("there is no policy {text:?}; store it with POST /v1/policies first");
            Problem::field(Code::UnknownPolicy, "logging_policy_id", message)
        };
        let id: PolicyId = text.parse().map_err(|_| unknown())?;
        match app.store.repository().policy(workspace, id).await {
            Err(StoreError::NotFound(..)) => Err(unknown()),
            policy => Ok(Some((id, app.store.policy_params(&policy?).await?))),
        }
    }
}

/// The options of an append, and of candidates that are added. Everything else is taken from the dataset.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AppendOptions {
    /// The format, as for an upload. Features are hashed into as many dimensions as the dataset has.
    #[param(inline)]
    pub format: Option<Format>,
}

impl AppendOptions {
    /// The format of a body with this content type.
    pub fn format(&self, content_type: &str, dataset: &Dataset) -> Result<FileFormat, Problem> {
        let format = FileFormat::from(format_of(content_type, self.format)?);
        Ok(match dataset.content.capabilities.action_sets {
            Some(features) => format.for_sets(features),
            None => format.for_dim(dataset.content.dim),
        })
    }
}

/// The format that the content type implies, or `named` if the content type allows it.
fn format_of(content_type: &str, named: Option<Format>) -> Result<Format, Problem> {
    let essence = essence(content_type)?;
    let Some(format) = named else {
        return Format::of_content_type(&essence).ok_or_else(|| {
            let (implied, named): (Vec<_>, Vec<_>) = Format::ALL.into_iter().partition(|f| f.is_implied());
            let types: Vec<&str> = implied.into_iter().map(Format::content_type).collect();
            let options: Vec<String> = named.into_iter().map(|f| format!("format={}", f.name())).collect();
            unsupported(&essence, &format!("{}; or set {}", types.join(", "), options.join(" or ")))
        });
    };
    // These types say nothing about the format.
    let is_general = matches!(essence.as_str(), "" | "application/octet-stream" | "text/plain");
    if is_general || format.content_types().contains(&essence.as_str()) {
        return Ok(format);
    }
    Err(unsupported(&essence, &format.content_types().join(" or ")))
}

/// A content type that the log cannot have, and those that it can have.
fn unsupported(essence: &str, expected: &str) -> Problem {
    let what = if essence.is_empty() {
        "The content type is missing".to_owned()
    } else {
        format!("The content type {essence:?} is not supported here")
    };
    Problem::new(Code::UnsupportedMediaType, format!("{what}; expected {expected}."))
}

/// The limits of uploads to this server.
pub fn limits(config: &Config) -> IngestLimits {
    IngestLimits {
        actions: config.max_actions,
        dim: config.max_features,
        row_non_zeros: config.max_row_non_zeros,
        dataset_non_zeros: config.max_dataset_non_zeros,
        decoded_bytes: config.max_decoded_bytes,
        spool: Some(config.data_dir.clone()),
        ..IngestLimits::default()
    }
}

/// The format of a log in the fingerprint of its request. Requests may be repeated after an upgrade, so this
/// text must never change; it is not derived from the names of types for that reason.
pub fn fingerprint_of(file: FileFormat) -> String {
    let dims = file.dims();
    let format = match file.format {
        // Named features of these formats came later.
        Format::Ndjson | Format::Parquet | Format::ArrowStream if file.hash_dims.is_some() => {
            format!("{}(Hashing {{ dims: {dims} }})", file.format.name())
        }
        Format::Ndjson => "Ndjson".to_owned(),
        Format::Csv => "Csv".to_owned(),
        Format::Parquet => "Parquet".to_owned(),
        Format::ArrowStream => "ArrowStream".to_owned(),
        Format::Dsjson => format!("Dsjson(Hashing {{ dims: {dims} }})"),
        Format::Obd => format!("Obd(Hashing {{ dims: {dims} }})"),
    };
    let encoding = match file.encoding {
        Encoding::Identity => "Identity",
        Encoding::Gzip => "Gzip",
        Encoding::Zstd => "Zstd",
    };
    format!("{format} {encoding}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_of_formats_are_those_of_earlier_releases() {
        let csv = FileFormat::from(Format::Csv).with_encoding(Encoding::Gzip);
        assert_eq!(fingerprint_of(csv), "Csv Gzip");
        let obd = FileFormat { hash_dims: Some(4), ..FileFormat::from(Format::Obd) };
        assert_eq!(fingerprint_of(obd), "Obd(Hashing { dims: 4 }) Identity");
    }
}
