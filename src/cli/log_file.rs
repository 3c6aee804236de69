//! Log files, read in the same way as the service reads an upload: into a temporary store.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use futures_util::StreamExt;
use guarantor::store::{
    self, BodyError, Dataset, DatasetId, FileFailed, PolicyId, SourceObject, SourceUri, Sources, Store,
    StoreError, Upload, UploadError, Workspace,
};
use guarantor_engine::certificate::StrictJson;
use guarantor_engine::log::{Logging, NamedOutcome, Outcome, OutcomeKind, Repetitions};
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::{
    DeclaredOutcomes, FileFormat, Format, IngestError, IngestLimits, LogOptions, OutcomeRange,
};
use serde_json::Value;
use tokio::io::AsyncReadExt;

use super::Failure;
use super::partial::PartitionArgs;

/// The options that describe a log.
#[derive(Args)]
pub struct LogArgs {
    /// The log. Several files are one log, in the order given; rows with a timestamp are put in the order of their
    /// timestamps. The name of a file implies its format: .ndjson, .jsonl, .dsjson, .csv, .parquet, .arrow or
    /// .arrows, followed by .gz or .zst if it is compressed. - is standard input, which needs --format. s3://bucket/key
    /// and file:///path are read where they lie; * and ? stand for characters of one segment.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The objects that addresses among `files` stand for.
    #[arg(skip)]
    found: FoundObjects,
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
    /// Define the outcome as the value cut here: a larger one counts as this one, and the range ends here.
    #[arg(long, allow_negative_numbers = true)]
    outcome_cap: Option<f64>,
    /// Define the outcome as the value cut here: a smaller one counts as this one, and the range begins here.
    #[arg(long, allow_negative_numbers = true)]
    outcome_floor: Option<f64>,
    /// The kind and range of each outcome, if rows have several with names, as JSON; the first is the primary one. For
    /// example {"revenue": {"kind": "reward", "min": 0, "max": 100}, "complaint": {"kind": "cost"}}.
    #[arg(long, value_name = "JSON", conflicts_with_all = ["outcome", "outcome_min", "outcome_max", "outcome_cap", "outcome_floor"])]
    outcomes: Option<DeclaredOutcomes>,
    /// The number of actions, if the log does not imply it.
    #[arg(long)]
    n_actions: Option<usize>,
    /// The number of dimensions into which named features are hashed [default: 16777216 if every row has its own
    /// actions, otherwise 256].
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

/// A log, and the options that its files do not contain.
pub struct InputLog<'a> {
    /// The files with their formats, in order. The path `-` is standard input.
    pub files: Vec<(&'a Path, FileFormat)>,
    /// Those of them that are read by their address.
    pub found: &'a FoundObjects,
    pub outcome: Outcome,
    /// All outcomes, if they have names.
    pub outcomes: Vec<NamedOutcome>,
    pub n_actions: Option<usize>,
    pub logging_policy: Option<&'a Path>,
    pub options: LogOptions,
}

/// Objects that are read where they lie, by their addresses.
pub type FoundObjects = HashMap<PathBuf, SourceObject>;

/// The files, with each address replaced by those of the objects that it stands for, and these objects.
///
/// # Errors
/// If an address is invalid or stands for nothing.
pub async fn find_objects(named: &[PathBuf]) -> Result<(Vec<PathBuf>, FoundObjects), Failure> {
    let (sources, mut files, mut found) = (Sources::default(), Vec::new(), FoundObjects::new());
    for file in named {
        let Some(text) = file.to_str().filter(|text| SourceUri::is_meant_by(text)) else {
            files.push(file.clone());
            continue;
        };
        for object in sources.objects(&text.parse()?, None).await? {
            let path = PathBuf::from(&object.uri);
            files.push(path.clone());
            found.insert(path, object);
        }
    }
    Ok((files, found))
}

/// The path of standard input.
const STDIN: &str = "-";

/// The files with the formats that their names imply, or with the named one.
///
/// # Errors
/// If a format is not known, or standard input is named twice.
pub fn with_formats(files: &[PathBuf], named: Option<Format>) -> Result<Vec<(&Path, FileFormat)>, Failure> {
    let is_stdin = |path: &&PathBuf| path.as_os_str() == STDIN;
    match files.iter().filter(is_stdin).count() {
        0 => {}
        1 if named.is_some() => {}
        1 => return Err("- is standard input, which has no name; state its format with --format".into()),
        _ => return Err("- is standard input, which can be read only once".into()),
    }
    let with_format = |path: &'_ PathBuf| FileFormat::of_file(path, named);
    files.iter().map(|path| Ok((path.as_path(), with_format(path)?))).collect()
}

impl LogArgs {
    /// The files as one partition, which a recipe describes.
    pub fn partition(&self) -> PartitionArgs {
        PartitionArgs::new(self.files.clone(), self.format, self.hash_dims)
    }

    /// Finds the objects of addresses, before `log` can be asked for.
    ///
    /// # Errors
    /// If an address is invalid or stands for nothing.
    pub async fn find_objects(&mut self) -> Result<(), Failure> {
        (self.files, self.found) = find_objects(&self.files).await?;
        Ok(())
    }

    /// The log that the options describe.
    ///
    /// # Errors
    /// If the options contradict each other or are incomplete.
    pub fn log(&self) -> Result<InputLog<'_>, Failure> {
        let mut files = with_formats(&self.files, self.format)?;
        for (_, format) in &mut files {
            if let Some(dims) = self.hash_dims {
                let hashed = format.with_hash_dims(dims);
                *format = hashed.ok_or("--hash-dims cannot be used with csv, which has no named features")?;
            }
        }
        let outcomes = files.iter().map(|(_, format)| self.outcome(format.format));
        let outcomes = outcomes.collect::<Result<Vec<Outcome>, Failure>>()?;
        let Some(&outcome) = outcomes.first() else { return Err("name a log".into()) };
        if outcomes.iter().any(|other| *other != outcome) {
            return Err("the formats of the files have different outcomes; add --outcome".into());
        }
        Ok(InputLog {
            files,
            found: &self.found,
            outcome,
            outcomes: match &self.outcomes {
                Some(declared) => declared.outcomes().map_err(|why| format!("--outcomes: {why}"))?,
                None => Vec::new(),
            },
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
        let range = OutcomeRange {
            min: self.outcome_min,
            max: self.outcome_max,
            cap: self.outcome_cap,
            floor: self.outcome_floor,
        };
        let outcome = format.outcome(kind, range);
        Ok(outcome.map_err(|fault| format!("--outcome-{}: {}", fault.option, fault.message))?)
    }
}

impl InputLog<'_> {
    /// Reads the log into `store`. The outer error is about the files or the options, the inner one about the
    /// log.
    pub async fn read(
        &self,
        store: &Store,
        workspace: &Workspace,
    ) -> Result<Result<Dataset, FileFailed>, Failure> {
        let logging_policy = match self.logging_policy {
            Some(path) => {
                let id = store_policy(store, workspace, path).await?;
                let policy = store.repository().policy(workspace, id).await?;
                Some((id, store.policy_params(&policy).await?))
            }
            None => None,
        };
        let Some(&(_, format)) = self.files.first() else { return Err("name a log".into()) };
        let upload = Upload {
            id: DatasetId::new(),
            workspace: workspace.clone(),
            name: None,
            format,
            n_actions: self.n_actions,
            outcome: self.outcome,
            outcomes: self.outcomes.clone(),
            options: self.options,
            logging_policy,
            limits: local_limits(),
        };
        let mut files = Vec::new();
        for (path, format) in &self.files {
            let body = match self.found.get(*path) {
                Some(object) => object.clone().read().boxed(),
                None => chunks(open(path).await?).boxed(),
            };
            files.push((*format, body));
        }
        Ok(store::upload_files(store, upload, files).await)
    }

    /// Reads the log into `store`, with any error as a message.
    pub async fn dataset(&self, store: &Store, workspace: &Workspace) -> Result<Dataset, Failure> {
        self.read(store, workspace).await?.map_err(|failed| {
            let name = self.name_of(failed.file);
            match failed.error {
                UploadError::Log(IngestError::Rows(rows)) => {
                    let rows: Vec<String> = rows.first.iter().map(ToString::to_string).collect();
                    format!("{name} has invalid rows:\n  {}", rows.join("\n  ")).into()
                }
                other => format!("{name}: {other}").into(),
            }
        })
    }

    /// The name of the file at this position, or of the log as a whole.
    pub fn name_of(&self, file: Option<usize>) -> String {
        let name = |(path, _): &(&Path, FileFormat)| match path.as_os_str() {
            path if path == STDIN => "standard input".to_owned(),
            path => path.to_string_lossy().into_owned(),
        };
        let first = self.files.first().map_or_else(String::new, name);
        match (file.and_then(|file| self.files.get(file)), self.files.len()) {
            (Some(file), _) => name(file),
            (None, 0 | 1) => first,
            (None, n) => format!("{first} and {} more", n - 1),
        }
    }

    /// The size of all files; `None` if standard input is one of them.
    pub fn bytes(&self) -> Option<u64> {
        let size = |(path, _): &(&Path, FileFormat)| match self.found.get(*path) {
            Some(object) => Some(object.bytes()),
            None => std::fs::metadata(path).ok().map(|meta| meta.len()),
        };
        self.files.iter().map(size).sum()
    }
}

/// The limits of the caller's own files. They are trusted, so they need no protection against decompression bombs.
pub fn local_limits() -> IngestLimits {
    IngestLimits {
        decoded_bytes: u64::MAX,
        decoded_ratio: u64::MAX,
        identity_bytes: u64::MAX,
        ..IngestLimits::default()
    }
}

/// Opens files, or standard input, for reading without a store.
///
/// # Errors
/// If a file cannot be opened.
pub fn open_files(files: &[(&Path, FileFormat)]) -> Result<Vec<(FileFormat, std::fs::File)>, Failure> {
    let open = |(path, format): &(&Path, FileFormat)| {
        let file = match path.as_os_str() == STDIN {
            true => std::io::stdin().as_fd().try_clone_to_owned()?.into(),
            false => match path.to_str().filter(|text| SourceUri::is_meant_by(text)) {
                Some(uri) => {
                    return Err(format!(
                        "{uri}: this command reads files of this machine only; copy the object, or use `guarantor certify` \
                         without a recipe"
                    )
                    .into());
                }
                None => std::fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?,
            },
        };
        Ok((*format, file))
    };
    files.iter().map(open).collect()
}

/// A file, or standard input.
async fn open(path: &Path) -> Result<tokio::fs::File, Failure> {
    if path.as_os_str() == STDIN {
        let own = std::io::stdin().as_fd().try_clone_to_owned()?;
        return Ok(tokio::fs::File::from_std(own.into()));
    }
    Ok(tokio::fs::File::open(path).await.map_err(|error| format!("{}: {error}", path.display()))?)
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

/// Stores the policy whose parameters are in a file. Its id follows from the parameters, so that a certificate that
/// names it is the same every time.
pub async fn store_policy(store: &Store, workspace: &Workspace, path: &Path) -> Result<PolicyId, Failure> {
    let params = read_policy(path)?;
    let id: PolicyId = params.id_of_content()?.parse()?;
    match store.create_policy(workspace, id, &params).await {
        // Another name has the same parameters.
        Ok(_) | Err(StoreError::Exists(..)) => Ok(id),
        Err(error) => Err(error.into()),
    }
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
