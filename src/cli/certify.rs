//! `guarantor certify`: the result of a job, without a server. The log is read into a temporary store, so
//! that the command and the service take the same steps.

use std::path::{Path, PathBuf};

use clap::Args;
use guarantor::queue::{RunError, StoredInputs, resolve};
use guarantor::store::{Store, Workspace, make_signing_key, read_signing_key};
use guarantor_engine::certificate::{Certificate, Decision, Document, SigningKey};
use guarantor_engine::control::unattended;
use guarantor_engine::spec::SpecRequest;
use serde_json::Value;

use super::log_file::{LogArgs, read_json, store_policy};
use super::{Failure, Verdict, runtime};

/// Who accepts a failed check, as the certificate names them.
const CALLER: &str = "command line";

/// The arguments of `guarantor certify`.
#[derive(Args)]
pub struct CertifyArgs {
    #[command(flatten)]
    log: LogArgs,
    /// The job's spec, as for POST /v1/jobs but without dataset_id. Its metadata is ignored.
    #[arg(long, value_name = "SPEC.json")]
    spec: Option<PathBuf>,
    /// Print the certificate as JSON instead of a summary.
    #[arg(long)]
    json: bool,
    /// The parameters of a policy that the spec uses. NAME is its policy_id in the spec. Can be repeated.
    #[arg(long, value_name = "NAME=FILE")]
    policy: Vec<String>,
    /// Sign the certificate with the key in this file. If the file does not exist, a new key is created
    /// that only you can read.
    #[arg(long, value_name = "FILE", requires = "json")]
    signing_key: Option<PathBuf>,
}

/// Runs the job and prints its certificate. The verdict is the decision.
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

/// Reads the key, or creates it.
fn signing_key(path: &Path) -> Result<SigningKey, Failure> {
    if let Some(key) = read_signing_key(path)? {
        return Ok(key);
    }
    let key = make_signing_key(path)?;
    eprintln!("Created the signing key {}. Its public key is {}", path.display(), key.public().base64());
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
            named.split_once('=').ok_or_else(|| format!("--policy {named}: expected NAME=FILE"))?;
        let id = store_policy(&store, &workspace, Path::new(path)).await?;
        rename_policy(&mut spec, name, &id.to_string());
    }
    if let Value::Object(fields) = &mut spec {
        fields.remove("metadata");
    }
    let request: SpecRequest =
        serde_json::from_value(spec).map_err(|error| format!("invalid spec: {error}"))?;
    let dataset = args.log.file()?.dataset(&store, &workspace).await?;
    let spec = resolve(&store, &workspace, &dataset, &request, CALLER).await?.spec;
    let inputs = match StoredInputs::fetch(&store, &workspace, dataset, &spec).await {
        Ok(inputs) => inputs,
        Err(RunError::Failed(failure) | RunError::Retry(failure)) => return Err(failure.message.into()),
    };
    let compute = move || {
        let control = unattended();
        inputs.with(&control, |inputs| guarantor_engine::run(&spec, inputs, &control))
    };
    Ok(tokio::task::spawn_blocking(compute).await??.certificate)
}

/// Replaces the name that the caller gave a policy with its stored id, throughout the spec.
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

fn print_summary(certificate: &Certificate) {
    println!("{}", certificate.statement);
    println!("decision                {}", certificate.decision.name());
    println!("guaranteed improvement  {:.6}", certificate.guaranteed_improvement);
    println!("guaranteed risk         {:.6}", certificate.guaranteed_risk);
    println!("baseline risk           {:.6}", certificate.baseline_risk.estimate);
    println!("confidence              {}", certificate.confidence);
    println!("digest                  {}", certificate.digest);
    for reason in &certificate.reasons {
        println!("- {}", reason.message);
    }
    for check in certificate.checks.iter().filter(|check| !check.ok) {
        println!("- {}: {}", check.name.name(), check.message);
    }
}
