//! A log on disk, read as the service reads an upload: into a store of its own, which is removed
//! afterwards.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use futures_util::StreamExt;
use guarantor::store::{
    self, BodyError, Dataset, DatasetId, PolicyId, Store, Upload, UploadError, Workspace,
};
use guarantor_engine::certificate::StrictJson;
use guarantor_engine::log::{Outcome, OutcomeKind};
use guarantor_engine::policy::PolicyParams;
use guarantor_ingest::{Encoding, Format, Hashing, IngestError, IngestLimits};
use serde_json::Value;
use tokio::io::AsyncReadExt;

use super::Failure;

#[derive(Args)]
pub struct LogArgs {
    /// The log. Its name says the format: .ndjson, .jsonl, .dsjson, .csv, .parquet, .arrow or .arrows,
    /// and after any of them .gz or .zst.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The format, where the name does not say it.
    #[arg(long, value_enum)]
    format: Option<FormatArg>,
    /// What rows carry: cost, but for --format obd.
    #[arg(long, value_enum)]
    outcome: Option<OutcomeArg>,
    /// The outcome's range, where it is not cost in [-1, 0] or reward in [0, 1].
    #[arg(long, allow_negative_numbers = true)]
    outcome_min: Option<f64>,
    #[arg(long, allow_negative_numbers = true)]
    outcome_max: Option<f64>,
    /// K, where the log does not say it.
    #[arg(long)]
    n_actions: Option<usize>,
    /// Into how many dimensions dsjson and obd hash their features [default: 256].
    #[arg(long)]
    hash_dims: Option<usize>,
    /// Parameters of the policy that logged, as POST /v1/policies takes them.
    #[arg(long, value_name = "FILE")]
    logging_policy: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum FormatArg {
    Ndjson,
    Csv,
    Parquet,
    /// An Arrow IPC stream.
    Arrow,
    /// Vowpal Wabbit's decision-service JSON.
    Dsjson,
    /// The Open Bandit Dataset's CSV.
    Obd,
}

#[derive(Clone, Copy, ValueEnum)]
enum OutcomeArg {
    Cost,
    Reward,
}

/// A log in a file, and what the file does not say of it.
pub struct LogFile<'a> {
    pub file: &'a Path,
    pub format: Format,
    pub encoding: Encoding,
    pub outcome: Outcome,
    pub n_actions: Option<usize>,
    pub logging_policy: Option<&'a Path>,
}

impl LogArgs {
    pub fn file(&self) -> Result<LogFile<'_>, Failure> {
        let named = format_of(&self.file, self.format)?;
        let format = match self.hash_dims {
            Some(dims) => named.with_hash_dims(dims),
            None => Some(named),
        };
        let format = format.ok_or("--hash-dims goes with --format dsjson and --format obd")?;
        Ok(LogFile {
            file: &self.file,
            format,
            encoding: encoding_of(&self.file).0,
            outcome: self.outcome(format)?,
            n_actions: self.n_actions,
            logging_policy: self.logging_policy.as_deref(),
        })
    }

    fn outcome(&self, format: Format) -> Result<Outcome, Failure> {
        let kind = self.outcome.map(|outcome| match outcome {
            OutcomeArg::Cost => OutcomeKind::Cost,
            OutcomeArg::Reward => OutcomeKind::Reward,
        });
        let outcome = format.outcome(kind, self.outcome_min, self.outcome_max);
        Ok(outcome.map_err(|(min, max)| format!("the outcome's range [{min}, {max}] is empty"))?)
    }
}

impl LogFile<'_> {
    /// The outer error is about the file or the options, the inner one about what is in the log.
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
            encoding: self.encoding,
            n_actions: self.n_actions,
            outcome: self.outcome,
            logging_policy,
            // A file of one's own may be packed as tightly as it likes.
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

    /// The same with any error in words.
    pub async fn dataset(&self, store: &Store, workspace: &Workspace) -> Result<Dataset, Failure> {
        let path = self.file.display();
        self.read(store, workspace).await?.map_err(|error| match error {
            UploadError::Log(IngestError::Rows(rows)) => {
                let rows: Vec<String> = rows.first.iter().map(ToString::to_string).collect();
                format!("{path} has rows that are not valid:\n  {}", rows.join("\n  ")).into()
            }
            other => format!("{path}: {other}").into(),
        })
    }

    /// The format, for people.
    pub fn format_words(&self) -> &'static str {
        match self.format {
            Format::Ndjson => "NDJSON",
            Format::Csv => "CSV",
            Format::Parquet => "Parquet",
            Format::ArrowStream => "Arrow stream",
            Format::Dsjson(_) => "DSJSON",
            Format::Obd(_) => "Open Bandit Dataset",
        }
    }
}

/// The format that is named, or that the file's name says.
pub fn format_of(path: &Path, name: Option<FormatArg>) -> Result<Format, Failure> {
    let by_name = || match encoding_of(path).1?.extension()?.to_str()? {
        "ndjson" | "jsonl" => Some(FormatArg::Ndjson),
        "dsjson" => Some(FormatArg::Dsjson),
        "csv" => Some(FormatArg::Csv),
        "parquet" => Some(FormatArg::Parquet),
        "arrow" | "arrows" => Some(FormatArg::Arrow),
        _ => None,
    };
    match name.or_else(by_name) {
        Some(FormatArg::Ndjson) => Ok(Format::Ndjson),
        Some(FormatArg::Csv) => Ok(Format::Csv),
        Some(FormatArg::Parquet) => Ok(Format::Parquet),
        Some(FormatArg::Arrow) => Ok(Format::ArrowStream),
        Some(FormatArg::Dsjson) => Ok(Format::Dsjson(Hashing::default())),
        Some(FormatArg::Obd) => Ok(Format::Obd(Hashing::default())),
        None => {
            let names = ".ndjson, .jsonl, .dsjson, .csv, .parquet, .arrow or .arrows, before any .gz or .zst";
            Err(format!("{}: the name must end in {names}; or say --format", path.display()).into())
        }
    }
}

/// How the file is packed, and its name without that.
pub fn encoding_of(path: &Path) -> (Encoding, Option<&Path>) {
    let encoding = match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => Encoding::Gzip,
        Some("zst" | "zstd") => Encoding::Zstd,
        _ => return (Encoding::Identity, Some(path)),
    };
    (encoding, path.file_stem().map(Path::new))
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

pub async fn store_policy(store: &Store, workspace: &Workspace, path: &Path) -> Result<PolicyId, Failure> {
    Ok(store.create_policy(workspace, PolicyId::new(), &read_policy(path)?).await?.id)
}

pub fn read_policy(path: &Path) -> Result<PolicyParams, Failure> {
    let params: PolicyParams =
        serde_json::from_value(read_json(path)?).map_err(|error| format!("{}: {error}", path.display()))?;
    params.check().map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(params)
}

pub fn read_json(path: &Path) -> Result<Value, Failure> {
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let StrictJson(value) =
        serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(value)
}
