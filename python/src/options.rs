//! What the caller says about a log: the options of an upload, or what a certificate says about the log that it is about.

use guarantor_engine::certificate::Certificate;
use guarantor_engine::log::{Logging, NamedOutcome, Outcome, OutcomeKind, Repetitions};
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::{
    Checker, DeclaredOutcomes, FileFormat, Format, IngestLimits, LogOptions, OutcomeRange, Rules,
};
use serde::Deserialize;

use crate::errors::{Failure, Outcome as Result};

/// The options of an upload, with the same names. They are those of `POST /v1/datasets` and of the command line.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogKeywords {
    pub format: Option<Format>,
    hash_dims: Option<usize>,
    n_actions: Option<usize>,
    outcome: Option<OutcomeKind>,
    outcome_min: Option<f64>,
    outcome_max: Option<f64>,
    outcome_cap: Option<f64>,
    outcome_floor: Option<f64>,
    outcomes: Option<DeclaredOutcomes>,
    logging: Option<Logging>,
    repetitions: Option<Repetitions>,
    exact_propensities: Option<bool>,
}

impl LogKeywords {
    /// The options of a log of these formats. If it is the log of a certificate, the certificate says most of it.
    pub fn description(&self, formats: &[FileFormat], of: Option<&Certificate>) -> Result<Description> {
        let mut description = match of {
            Some(certificate) => self.of_certificate(formats, certificate),
            None => self.of_caller(formats)?,
        };
        if let Some(dims) = self.hash_dims {
            for format in &mut description.formats {
                let hashed = format.with_hash_dims(dims);
                let why = "cannot be set for csv, which has no named features";
                *format = hashed.ok_or_else(|| Failure::argument("hash_dims", why))?;
            }
        }
        Ok(description)
    }

    fn options(&self, logging: Logging) -> LogOptions {
        LogOptions {
            logging: self.logging.unwrap_or(logging),
            repetitions: self.repetitions.unwrap_or_default(),
            exact_propensities: self.exact_propensities.unwrap_or(false),
        }
    }

    fn of_certificate(&self, formats: &[FileFormat], certificate: &Certificate) -> Description {
        let dataset = &certificate.dataset;
        let hashed = |format: &FileFormat| match dataset.action_sets {
            Some(features) => format.for_sets(features),
            None => format.for_dim(dataset.dim),
        };
        let declared = dataset.action_sets.is_none() && dataset.actions_declared != Some(false);
        Description {
            formats: formats.iter().map(hashed).collect(),
            outcome: certificate.user_units.outcome,
            outcomes: dataset.outcomes.clone(),
            // A number that was read off the rows is read off them again.
            n_actions: declared.then_some(dataset.n_actions),
            options: self.options(certificate.spec.logging.unwrap_or_default()),
        }
    }

    fn of_caller(&self, formats: &[FileFormat]) -> Result<Description> {
        let one = |format: &FileFormat| {
            let range = OutcomeRange {
                min: self.outcome_min,
                max: self.outcome_max,
                cap: self.outcome_cap,
                floor: self.outcome_floor,
            };
            let outcome = format.format.outcome(self.outcome, range);
            outcome.map_err(|fault| Failure::argument(&format!("outcome_{}", fault.option), fault.message))
        };
        let all = formats.iter().map(one).collect::<Result<Vec<Outcome>>>()?;
        let Some((&outcome, rest)) = all.split_first() else {
            return Err(Failure::argument("data", "name at least one file"));
        };
        if rest.iter().any(|other| *other != outcome) {
            let message = "the formats of the files have different outcomes; set outcome";
            return Err(Failure::argument("outcome", message));
        }
        Ok(Description {
            formats: formats.to_vec(),
            outcome,
            outcomes: self.named_outcomes()?,
            n_actions: self.n_actions,
            options: self.options(Logging::default()),
        })
    }

    fn named_outcomes(&self) -> Result<Vec<NamedOutcome>> {
        let Some(declared) = &self.outcomes else { return Ok(Vec::new()) };
        let range = [self.outcome_min, self.outcome_max, self.outcome_cap, self.outcome_floor];
        if self.outcome.is_some() || range.iter().any(Option::is_some) {
            let message =
                "declares the kind and the range of each outcome; leave the other options of outcomes out";
            return Err(Failure::argument("outcomes", message));
        }
        declared.outcomes().map_err(|message| Failure::argument("outcomes", message))
    }
}

/// How a log is read.
pub struct Description {
    /// The formats of the files, in their order.
    pub formats: Vec<FileFormat>,
    outcome: Outcome,
    outcomes: Vec<NamedOutcome>,
    n_actions: Option<usize>,
    options: LogOptions,
}

impl Description {
    /// The checker of the log's rows.
    pub fn checker(&self, logging_policy: Option<PolicyParams>) -> Result<Checker> {
        let rules = Rules::new(self.n_actions, self.outcome, logging_policy, trusted())?;
        Ok(Checker::new(rules.with_outcomes(self.outcomes.clone()).with_options(self.options)))
    }
}

/// The limits of the caller's own data. It is trusted, so it needs no protection against decompression bombs.
pub fn trusted() -> IngestLimits {
    IngestLimits {
        decoded_bytes: u64::MAX,
        decoded_ratio: u64::MAX,
        identity_bytes: u64::MAX,
        ..IngestLimits::default()
    }
}
