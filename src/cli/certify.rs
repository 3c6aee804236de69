//! `guarantor certify`: the same result as a job, with no server. The log is read into a store of
//! its own that is removed afterwards, so that pipelines and the service share every step.

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

#[derive(Args)]
pub struct CertifyArgs {
    #[command(flatten)]
    log: LogArgs,
    /// The job's specification, as POST /v1/jobs takes it but without dataset_id; metadata is passed over.
    #[arg(long, value_name = "SPEC.json")]
    spec: Option<PathBuf>,
    /// Print the whole certificate as JSON.
    #[arg(long)]
    json: bool,
    /// A policy that the specification names: NAME=FILE, NAME standing where a policy_id would.
    #[arg(long, value_name = "NAME=FILE")]
    policy: Vec<String>,
    /// Sign the certificate with the key in this file. Where there is no such file, one is made that
    /// only you can read.
    #[arg(long, value_name = "FILE", requires = "json")]
    signing_key: Option<PathBuf>,
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
    if let Value::Object(fields) = &mut spec {
        fields.remove("metadata");
    }
    let request: SpecRequest =
        serde_json::from_value(spec).map_err(|error| format!("the specification: {error}"))?;
    let dataset = args.log.file()?.dataset(&store, &workspace).await?;
    let (spec, _) = resolve(&store, &workspace, &dataset, &request).await?;
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
