//! A log file, read in the same way as the service reads an upload: into a temporary store.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use futures_util::StreamExt;
use guarantor::store::{
    self, BodyError, Dataset, DatasetId, PolicyId, Store, Upload, UploadError, Workspace,
};
use guarantor_engine::certificate::StrictJson;
use guarantor_engine::log::{Logging, Outcome, OutcomeKind, Repetitions};
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::{FileFormat, Format, IngestError, IngestLimits, LogOptions};
use serde_json::Value;
use tokio::io::AsyncReadExt;

use super::Failure;

/// The options that describe a log file.
#[derive(Args)]
pub struct LogArgs {
    /// The log. Its name implies the format: .ndjson, .jsonl, .dsjson, .csv, .parquet, .arrow or .arrows,
    /// followed by .gz or .zst if it is compressed.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The format, if the name does not imply it.
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
    #[command(flatten)]
    stated: StatedArgs,
}

/// What the caller states about how a log came about.
#[derive(Args)]
pub struct StatedArgs {
    /// How the log was logged. With fixed you attest that one policy logged every row and that traffic came from
    /// one distribution [default: adaptive].
    #[arg(long, value_enum)]
    logging: Option<LoggingArg>,
    /// What rows with the same context_id are. With designed you attest that their number was chosen without
    /// looking at actions and outcomes [default: decisions].
    #[arg(long, value_enum)]
    repetitions: Option<RepetitionsArg>,
    /// Propensities with few digits, such as 0.25, are exact and not rounded.
    #[arg(long)]
    exact_propensities: bool,
}

impl StatedArgs {
    /// The statements, with `logging` as the default of how the log was logged.
    pub fn options(&self, logging: Logging) -> LogOptions {
        LogOptions {
            logging: match self.logging {
                Some(LoggingArg::Fixed) => Logging::Fixed,
                Some(LoggingArg::Adaptive) => Logging::Adaptive,
                None => logging,
            },
            repetitions: match self.repetitions {
                Some(RepetitionsArg::Designed) => Repetitions::Designed,
                Some(RepetitionsArg::Decisions) | None => Repetitions::Decisions,
            },
            exact_propensities: self.exact_propensities,
        }
    }
}

/// How a log was logged.
#[derive(Clone, Copy, ValueEnum)]
enum LoggingArg {
    Fixed,
    Adaptive,
}

/// What rows with the same context_id are.
#[derive(Clone, Copy, ValueEnum)]
enum RepetitionsArg {
    Decisions,
    Designed,
}

/// Parses the name of a format, and lists the names in `--help`.
pub fn format_parser() -> impl TypedValueParser<Value = Format> {
    let value =
        |format: Format| PossibleValue::new(format.name()).aliases(format.aliases()).help(format.title());
    PossibleValuesParser::new(Format::ALL.map(value)).try_map(|name| name.parse::<Format>())
}

/// What the rows have.
#[derive(Clone, Copy, ValueEnum)]
enum OutcomeArg {
    Cost,
    Reward,
}

/// A log file, and the options that the file does not contain.
pub struct InputFile<'a> {
    pub file: &'a Path,
    pub format: FileFormat,
    pub outcome: Outcome,
    pub n_actions: Option<usize>,
    pub logging_policy: Option<&'a Path>,
    pub options: LogOptions,
}

impl LogArgs {
    /// The file that the options describe.
    ///
    /// # Errors
    /// If the options contradict each other or are incomplete.
    pub fn file(&self) -> Result<InputFile<'_>, Failure> {
        let format = FileFormat::of_file(&self.file, self.format)?;
        let format = match self.hash_dims {
            Some(dims) => format.with_hash_dims(dims),
            None => Some(format),
        };
        let format = format.ok_or("--hash-dims can be used only with --format dsjson and --format obd")?;
        Ok(InputFile {
            file: &self.file,
            format,
            outcome: self.outcome(format.format)?,
            n_actions: self.n_actions,
            logging_policy: self.logging_policy.as_deref(),
            options: self.stated.options(Logging::default()),
        })
    }

    fn outcome(&self, format: Format) -> Result<Outcome, Failure> {
        let kind = self.outcome.map(|outcome| match outcome {
            OutcomeArg::Cost => OutcomeKind::Cost,
            OutcomeArg::Reward => OutcomeKind::Reward,
        });
        let outcome = format.outcome(kind, self.outcome_min, self.outcome_max);
        let empty = |(min, max)| {
            format!("the outcome's range [{min}, {max}] is empty; see --outcome-min and --outcome-max")
        };
        Ok(outcome.map_err(empty)?)
    }
}

impl InputFile<'_> {
    /// Reads the log into `store`. The outer error is about the file or the options, the inner one about the
    /// log.
    pub async fn read(
        &self,
        store: &Store,
        workspace: &Workspace,
    ) -> Result<Result<Dataset, UploadError>, Failure> {
        let logging_policy = match self.logging_policy {
            Some(path) => {
                let id = store_policy(store, workspace, path).await?;
                let policy = store.repository().policy(workspace, id).await?;
                Some((id, store.policy_params(&policy).await?))
            }
            None => None,
        };
        let upload = Upload {
            id: DatasetId::new(),
            workspace: workspace.clone(),
            name: None,
            format: self.format,
            n_actions: self.n_actions,
            outcome: self.outcome,
            options: self.options,
            logging_policy,
            // The caller's own file is trusted, so it needs no protection against decompression bombs.
            limits: IngestLimits {
                decoded_bytes: u64::MAX,
                decoded_ratio: u64::MAX,
                identity_bytes: u64::MAX,
                ..IngestLimits::default()
            },
        };
        let file = tokio::fs::File::open(self.file).await;
        let file = file.map_err(|error| format!("{}: {error}", self.file.display()))?;
        Ok(store::upload(store, upload, chunks(file)).await)
    }

    /// Reads the log into `store`, with any error as a message.
    pub async fn dataset(&self, store: &Store, workspace: &Workspace) -> Result<Dataset, Failure> {
        let path = self.file.display();
        self.read(store, workspace).await?.map_err(|error| match error {
            UploadError::Log(IngestError::Rows(rows)) => {
                let rows: Vec<String> = rows.first.iter().map(ToString::to_string).collect();
                format!("{path} has invalid rows:\n  {}", rows.join("\n  ")).into()
            }
            other => format!("{path}: {other}").into(),
        })
    }
}

fn chunks(
    file: tokio::fs::File,
) -> impl futures_util::Stream<Item = Result<bytes::Bytes, BodyError>> + Unpin {
    let read = futures_util::stream::unfold(file, |mut file| async {
        let mut chunk = bytes::BytesMut::with_capacity(1 << 16);
        match file.read_buf(&mut chunk).await {
            Ok(0) => None,
            Ok(_) => Some((Ok(chunk.freeze()), file)),
            Err(error) => Some((Err(BodyError::Broken(error.to_string())), file)),
        }
    });
    read.boxed()
}

/// Stores the policy whose parameters are in a file.
pub async fn store_policy(store: &Store, workspace: &Workspace, path: &Path) -> Result<PolicyId, Failure> {
    Ok(store.create_policy(workspace, PolicyId::new(), &read_policy(path)?).await?.id)
}

/// Reads the parameters of a policy from a file and checks them.
pub fn read_policy(path: &Path) -> Result<PolicyParams, Failure> {
    let params: PolicyParams =
        serde_json::from_value(read_json(path)?).map_err(|error| format!("{}: {error}", path.display()))?;
    params.check().map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(params)
}

/// Reads JSON without duplicate members from a file.
pub fn read_json(path: &Path) -> Result<Value, Failure> {
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let StrictJson(value) =
        serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(value)
}
