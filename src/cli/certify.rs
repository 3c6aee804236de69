//! `guarantor certify`: the same result as a job, with no server. The log is read into a store of
//! its own that is removed afterwards, so that pipelines and the service share every step.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use futures_util::StreamExt;
use guarantor::engine::certificate::{Certificate, Decision, Document, SigningKey};
use guarantor::engine::control::unattended;
use guarantor::engine::log::{Outcome, OutcomeKind};
use guarantor::engine::policy::PolicyParams;
use guarantor::engine::spec::SpecRequest;
use guarantor::ingest::{self, BodyError, Format, IngestError, IngestLimits, Upload};
use guarantor::queue::{RunError, StoredInputs, resolve};
use guarantor::store::{Dataset, DatasetId, PolicyId, Store, Workspace, make_signing_key, read_signing_key};
use serde_json::Value;
use tokio::io::AsyncReadExt;

use super::{Failure, Verdict, runtime};

#[derive(Args)]
pub struct CertifyArgs {
    /// The log: .ndjson, .jsonl or .parquet.
    file: PathBuf,
    /// The job's specification, as POST /v1/jobs takes it but without dataset_id.
    #[arg(long, value_name = "SPEC.json")]
    spec: Option<PathBuf>,
    /// Print the whole certificate as JSON.
    #[arg(long)]
    json: bool,
    /// What rows carry.
    #[arg(long, value_enum, default_value_t = OutcomeArg::Cost)]
    outcome: OutcomeArg,
    /// The outcome's range, where it is not cost in [-1, 0] or reward in [0, 1].
    #[arg(long, allow_negative_numbers = true)]
    outcome_min: Option<f64>,
    #[arg(long, allow_negative_numbers = true)]
    outcome_max: Option<f64>,
    /// K, where the log does not say it.
    #[arg(long)]
    n_actions: Option<usize>,
    /// Parameters of the policy that logged, as POST /v1/policies takes them.
    #[arg(long, value_name = "FILE")]
    logging_policy: Option<PathBuf>,
    /// A policy that the specification names: NAME=FILE, NAME standing where a policy_id would.
    #[arg(long, value_name = "NAME=FILE")]
    policy: Vec<String>,
    /// Sign the certificate with the key in this file. Where there is no such file, one is made that
    /// only you can read.
    #[arg(long, value_name = "FILE", requires = "json")]
    signing_key: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum OutcomeArg {
    Cost,
    Reward,
}

pub fn certify(args: CertifyArgs) -> Result<Verdict, Failure> {
    let directory = tempfile::tempdir()?;
    let certificate = runtime()?.block_on(run(&args, directory.path()))?;
    if args.json {
        let certificate = certificate.clone();
        let mut document = Document { certificate, issued: None, ledger: None, signature: None };
        if let Some(path) = &args.signing_key {
            signing_key(path)?.sign(&mut document)?;
        }
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        print_summary(&certificate);
    }
    Ok(match certificate.decision {
        Decision::Deploy => Verdict::Yes,
        Decision::Keep => Verdict::No,
    })
}

fn signing_key(path: &Path) -> Result<SigningKey, Failure> {
    if let Some(key) = read_signing_key(path)? {
        return Ok(key);
    }
    let key = make_signing_key(path)?;
    eprintln!("made the signing key {}; its public half is {}", path.display(), key.public().base64());
    Ok(key)
}

async fn run(args: &CertifyArgs, directory: &Path) -> Result<Certificate, Failure> {
    let (store, workspace) = (Store::open(directory).await?, Workspace::default());
    let mut spec = match &args.spec {
        Some(path) => read_json(path)?,
        None => Value::Object(Default::default()),
    };
    for named in &args.policy {
        let (name, path) =
            named.split_once('=').ok_or_else(|| format!("--policy {named}: write NAME=FILE"))?;
        let id = store_policy(&store, &workspace, Path::new(path)).await?;
        rename_policy(&mut spec, name, &id.to_string());
    }
    let request: SpecRequest =
        serde_json::from_value(spec).map_err(|error| format!("the specification: {error}"))?;
    let logging_policy = args.logging_policy.as_deref();
    let log =
        LogFile { file: &args.file, outcome: outcome(args)?, n_actions: args.n_actions, logging_policy };
    let dataset = read_log(log, &store, &workspace).await?;
    let (spec, _) = resolve(&store, &workspace, &dataset, &request).await?;
    let inputs = match StoredInputs::fetch(&store, &workspace, dataset, &spec).await {
        Ok(inputs) => inputs,
        Err(RunError::Failed(failure) | RunError::Retry(failure)) => return Err(failure.message.into()),
    };
    let compute = move || {
        let control = unattended();
        inputs.with(&control, |inputs| guarantor::engine::run(&spec, inputs, &control))
    };
    Ok(tokio::task::spawn_blocking(compute).await??.certificate)
}

/// A log in a file, and what the file does not say of it.
pub(super) struct LogFile<'a> {
    pub file: &'a Path,
    pub outcome: Outcome,
    pub n_actions: Option<usize>,
    pub logging_policy: Option<&'a Path>,
}

pub(super) async fn read_log(
    args: LogFile<'_>,
    store: &Store,
    workspace: &Workspace,
) -> Result<Dataset, Failure> {
    let logging_policy = match args.logging_policy {
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
        format: format_of(args.file)?,
        encoding: ingest::Encoding::Identity,
        n_actions: args.n_actions,
        outcome: args.outcome,
        logging_policy,
        limits: IngestLimits::default(),
    };
    let path = args.file.display();
    let file = tokio::fs::File::open(args.file).await.map_err(|error| format!("{path}: {error}"))?;
    let stored = ingest::upload(store, upload, chunks(file)).await;
    stored.map_err(|error| match error {
        IngestError::Rows(rows) => {
            let rows: Vec<String> = rows.first.iter().map(ToString::to_string).collect();
            format!("{path} has rows that are not valid:\n  {}", rows.join("\n  ")).into()
        }
        other => format!("{path}: {other}").into(),
    })
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

fn format_of(path: &Path) -> Result<Format, Failure> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("ndjson" | "jsonl") => Ok(Format::Ndjson),
        Some("parquet") => Ok(Format::Parquet),
        _ => Err(format!("{}: the name must end in .ndjson, .jsonl or .parquet", path.display()).into()),
    }
}

fn outcome(args: &CertifyArgs) -> Result<Outcome, Failure> {
    let (kind, usual) = match args.outcome {
        OutcomeArg::Cost => (OutcomeKind::Cost, Outcome::default()),
        OutcomeArg::Reward => (OutcomeKind::Reward, Outcome::reward()),
    };
    let (min, max) = (args.outcome_min.unwrap_or(usual.min), args.outcome_max.unwrap_or(usual.max));
    Outcome::new(kind, min, max).ok_or_else(|| format!("the outcome's range [{min}, {max}] is empty").into())
}

async fn store_policy(store: &Store, workspace: &Workspace, path: &Path) -> Result<PolicyId, Failure> {
    Ok(store.create_policy(workspace, PolicyId::new(), &read_policy(path)?).await?.id)
}

pub(super) fn read_policy(path: &Path) -> Result<PolicyParams, Failure> {
    let params: PolicyParams =
        serde_json::from_value(read_json(path)?).map_err(|error| format!("{}: {error}", path.display()))?;
    params.check().map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(params)
}

/// Puts the stored policy's id where the specification has the name that the caller gave it.
fn rename_policy(spec: &mut Value, name: &str, id: &str) {
    match spec {
        Value::Object(fields) => {
            for (field, value) in fields {
                if field == "policy_id" && value == name {
                    *value = id.into();
                }
                rename_policy(value, name, id);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename_policy(item, name, id)),
        _ => {}
    }
}

fn read_json(path: &Path) -> Result<Value, Failure> {
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()).into())
}

fn print_summary(certificate: &Certificate) {
    println!("{}", certificate.statement);
    println!("decision                {:?}", certificate.decision);
    println!("guaranteed improvement  {:.6}", certificate.guaranteed_improvement);
    println!("guaranteed risk         {:.6}", certificate.guaranteed_risk);
    println!("baseline risk           {:.6}", certificate.baseline_risk.estimate);
    println!("confidence              {}", certificate.confidence);
    println!("digest                  {}", certificate.digest);
    for reason in &certificate.reasons {
        println!("- {}", reason.message);
    }
}
