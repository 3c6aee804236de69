//! The options that describe a log, as `guarantor certify` has them, and the log in memory.

use std::fs::File;
use std::io::{Read, stdin};
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use guarantor_engine::log::{Logging, MemoryLog, Outcome, OutcomeKind, Repetitions};
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::{
    Checker, FileFormat, Format, IngestLimits, LogOptions, LogSummary, MemorySink, OutcomeRange, Rules,
    read_files,
};

use super::CommandError;

/// The options that describe a log.
#[derive(Args)]
pub struct LogArgs {
    /// The log, in any format that `guarantor certify` reads. Several files are one log, in the order given. - is
    /// standard input, which needs --format.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The format, if the names do not imply it.
    #[arg(long, value_parser = format_parser())]
    format: Option<Format>,
    /// What the rows have [default: reward for --format obd, otherwise cost].
    #[arg(long, value_enum)]
    outcome: Option<OutcomeArg>,
    /// The smallest possible outcome [default: -1 for cost, 0 for reward].
    #[arg(long, allow_negative_numbers = true)]
    outcome_min: Option<f64>,
    /// The largest possible outcome [default: 0 for cost, 1 for reward].
    #[arg(long, allow_negative_numbers = true)]
    outcome_max: Option<f64>,
    /// The number of actions, if the log does not imply it.
    #[arg(long)]
    n_actions: Option<usize>,
    /// The number of dimensions into which the features of dsjson and obd are hashed [default: 256].
    #[arg(long)]
    hash_dims: Option<usize>,
    /// The parameters of the logging policy, as POST /v1/policies takes them.
    #[arg(long, value_name = "FILE")]
    logging_policy: Option<PathBuf>,
    /// How the log was logged. With fixed you attest that one policy logged every row and that traffic came from one
    /// distribution.
    #[arg(long, value_enum, default_value_t = LoggingArg::Adaptive)]
    logging: LoggingArg,
    /// What rows with the same context_id are. With designed you attest that their number was chosen without looking
    /// at actions and outcomes.
    #[arg(long, value_enum, default_value_t = RepetitionsArg::Decisions)]
    repetitions: RepetitionsArg,
    /// Propensities with few digits, such as 0.25, are exact and not rounded.
    #[arg(long)]
    exact_propensities: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum OutcomeArg {
    Cost,
    Reward,
}

#[derive(Clone, Copy, ValueEnum)]
enum LoggingArg {
    Fixed,
    Adaptive,
}

#[derive(Clone, Copy, ValueEnum)]
enum RepetitionsArg {
    Decisions,
    Designed,
}

fn format_parser() -> impl TypedValueParser<Value = Format> {
    let value =
        |format: Format| PossibleValue::new(format.name()).aliases(format.aliases()).help(format.title());
    PossibleValuesParser::new(Format::ALL.map(value)).try_map(|name| name.parse::<Format>())
}

/// A log in memory.
pub struct ReadLog {
    pub log: MemoryLog,
    pub summary: LogSummary,
    pub logging_policy: Option<PolicyParams>,
}

impl LogArgs {
    /// Reads the log.
    ///
    /// # Errors
    /// If the options contradict each other, a file cannot be read, or a row is invalid.
    pub fn read(&self) -> Result<ReadLog, CommandError> {
        let is_stdin = |path: &Path| path.as_os_str() == "-";
        if self.files.iter().filter(|path| is_stdin(path)).count() > 1 {
            return Err("- is standard input, which can be read only once".into());
        }
        let mut files: Vec<(FileFormat, Box<dyn Read + Send>)> = Vec::new();
        for path in &self.files {
            let mut format = FileFormat::of_file(path, self.format)?;
            if let Some(dims) = self.hash_dims {
                format = (format.with_hash_dims(dims))
                    .ok_or("--hash-dims cannot be used with csv, which has no named features")?;
            }
            let reader: Box<dyn Read + Send> = match is_stdin(path) {
                true => Box::new(stdin()),
                false => Box::new(File::open(path).map_err(|error| format!("{}: {error}", path.display()))?),
            };
            files.push((format, reader));
        }
        let outcome = self.outcome(&files)?;
        let logging_policy = self.logging_policy.as_deref().map(read_policy).transpose()?;
        let limits = IngestLimits {
            decoded_bytes: u64::MAX,
            decoded_ratio: u64::MAX,
            identity_bytes: u64::MAX,
            ..IngestLimits::default()
        };
        let rules = Rules::new(self.n_actions, outcome, logging_policy.clone(), limits)?;
        let mut sink = MemorySink::default();
        let read = read_files(files, Checker::new(rules.with_options(self.options())), &mut sink);
        let summary = read.map_err(|error| match error.file.and_then(|file| self.files.get(file)) {
            Some(path) => format!("{}: {error}", path.display()),
            None => error.to_string(),
        })?;
        let log = MemoryLog::new(sink.into_columns(&summary))?;
        Ok(ReadLog { log, summary, logging_policy })
    }

    fn options(&self) -> LogOptions {
        LogOptions {
            logging: match self.logging {
                LoggingArg::Fixed => Logging::Fixed,
                LoggingArg::Adaptive => Logging::Adaptive,
            },
            repetitions: match self.repetitions {
                RepetitionsArg::Designed => Repetitions::Designed,
                RepetitionsArg::Decisions => Repetitions::Decisions,
            },
            exact_propensities: self.exact_propensities,
        }
    }

    fn outcome<R>(&self, files: &[(FileFormat, R)]) -> Result<Outcome, CommandError> {
        let kind = self.outcome.map(|outcome| match outcome {
            OutcomeArg::Cost => OutcomeKind::Cost,
            OutcomeArg::Reward => OutcomeKind::Reward,
        });
        let range = OutcomeRange { min: self.outcome_min, max: self.outcome_max, ..OutcomeRange::default() };
        let of = |format: &FileFormat| {
            let outcome = format.format.outcome(kind, range);
            outcome.map_err(|fault| format!("--outcome-{}: {}", fault.option, fault.message))
        };
        let outcomes = files.iter().map(|(format, _)| of(format)).collect::<Result<Vec<Outcome>, _>>()?;
        match &outcomes[..] {
            [first, rest @ ..] if rest.iter().all(|other| other == first) => Ok(*first),
            _ => Err("the formats of the files have different outcomes; add --outcome".into()),
        }
    }
}

/// Reads the parameters of a policy from a file and checks them.
pub fn read_policy(path: &Path) -> Result<PolicyParams, CommandError> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read(path).map_err(|error| named(&error))?;
    let params: PolicyParams = serde_json::from_slice(&text).map_err(|error| named(&error))?;
    params.check().map_err(|error| named(&error))?;
    Ok(params)
}
