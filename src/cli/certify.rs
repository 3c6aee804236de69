//! `guarantor certify`: the result of a job, without a server. The log is read into a temporary store, so
//! that the command and the service take the same steps.

use std::path::{Path, PathBuf};

use clap::Args;
use guarantor::config::default_job_memory;
use guarantor::queue::{JobMemory, RunError, StoredInputs, check_fit, resolve};
use guarantor::store::{Dataset, Store, Workspace, make_signing_key, read_signing_key};
use guarantor_engine::Finished;
use guarantor_engine::certificate::{Decision, Document, SigningKey};
use guarantor_engine::control::unattended;
use guarantor_engine::spec::{JobSpec, SpecRequest};
use serde_json::Value;

use super::goals::GoalArgs;
use super::log_file::{LogArgs, read_json, store_policy};
use super::merge::certify_by_recipe;
use super::report::ReportPage;
use super::{Failure, Verdict, print_text, runtime, summary};

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
    #[command(flatten)]
    goals: GoalArgs,
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
    /// Write the parameters of the learned policy to this file, as POST /v1/policies takes them.
    #[arg(long, value_name = "FILE")]
    policy_out: Option<PathBuf>,
    /// The most memory that the job may take by its estimate, in bytes [default: three quarters of this machine's
    /// memory].
    #[arg(long, value_name = "BYTES")]
    max_memory: Option<u64>,
    /// Certify by a recipe of `guarantor recipe`, as a merge of the partials of these files would. The recipe says
    /// everything but the files and their format.
    #[arg(long, value_name = "RECIPE.json", conflicts_with_all = ["spec", "policy", "policy_out"])]
    recipe: Option<PathBuf>,
}

/// Runs the job and prints its certificate. The verdict is the decision.
pub fn certify(mut args: CertifyArgs) -> Result<Verdict, Failure> {
    if let Some(recipe) = &args.recipe {
        return certify_by_recipe(recipe, &args.log.partition(), args.json, args.signing_key.as_deref());
    }
    let directory = tempfile::tempdir()?;
    let Finished { certificate, evidence } = runtime()?.block_on(run(&mut args, directory.path()))?;
    if let Some(path) = &args.policy_out {
        let policy = evidence.policy().ok_or("--policy-out: the job did not learn a policy")?;
        let text = serde_json::to_vec(policy)?;
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if args.json {
        let certificate = certificate.clone();
        let mut document = Document { certificate, issued: None, ledger: None, signature: None };
        if let Some(path) = &args.signing_key {
            signing_key(path)?.sign(&mut document)?;
        }
        print_text(&format!("{}\n", serde_json::to_string_pretty(&document)?))?;
    } else {
        let mut page = ReportPage::new(false);
        summary::show(&mut page, &certificate);
        print_text(page.text())?;
    }
    Ok(match certificate.decision {
        Decision::Deploy => Verdict::Yes,
        Decision::Keep => Verdict::No,
    })
}

/// Reads the key, or creates it.
pub fn signing_key(path: &Path) -> Result<SigningKey, Failure> {
    if let Some(key) = read_signing_key(path)? {
        return Ok(key);
    }
    let key = make_signing_key(path)?;
    eprintln!("Created the signing key {}. Its public key is {}", path.display(), key.public().base64());
    Ok(key)
}

async fn run(args: &mut CertifyArgs, directory: &Path) -> Result<Finished, Failure> {
    args.log.find_objects().await?;
    let (store, workspace) = (Store::open(directory).await?, Workspace::default());
    let mut spec = match &args.spec {
        Some(path) => read_json(path)?,
        None => Value::Object(Default::default()),
    };
    args.goals.add_to(&mut spec)?;
    for named in &args.policy {
        let (name, path) =
            named.split_once('=').ok_or_else(|| format!("--policy {named}: expected NAME=FILE"))?;
        let id = store_policy(&store, &workspace, Path::new(path)).await?;
        if !rename_policy(&mut spec, name, &id.to_string()) {
            return Err(format!("--policy {named}: the spec has no policy_id {name:?}").into());
        }
    }
    if let Value::Object(fields) = &mut spec {
        fields.remove("metadata");
    }
    let request: SpecRequest =
        serde_json::from_value(spec).map_err(|error| format!("invalid spec: {error}"))?;
    let dataset = args.log.log()?.dataset(&store, &workspace).await?;
    let spec = resolve(&store, &workspace, &dataset, &request, CALLER).await?.spec;
    check_memory(args, &store, &workspace, &dataset, &spec).await?;
    let inputs = match StoredInputs::fetch(&store, &workspace, dataset, &spec).await {
        Ok(inputs) => inputs,
        Err(RunError::Failed(failure) | RunError::Retry(failure)) => return Err(failure.message.into()),
    };
    let compute = move || {
        let control = unattended();
        inputs.with(&control, |inputs| guarantor_engine::run(&spec, inputs, &control))
    };
    Ok(tokio::task::spawn_blocking(compute).await??)
}

/// Checks that the job fits into memory.
async fn check_memory(
    args: &CertifyArgs,
    store: &Store,
    workspace: &Workspace,
    dataset: &Dataset,
    spec: &JobSpec,
) -> Result<(), Failure> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let max_bytes = args.max_memory.unwrap_or_else(|| default_job_memory(1));
    match check_fit(store, workspace, dataset, spec, &JobMemory { max_bytes, threads }).await? {
        Ok(()) => Ok(()),
        Err(too_large) => {
            let needed = too_large.footprint.total();
            Err(format!("{too_large}; to run it anyway, set --max-memory {needed}").into())
        }
    }
}

/// Replaces the name that the caller gave a policy with its stored id, throughout the spec. Returns whether the spec
/// has the name.
fn rename_policy(spec: &mut Value, name: &str, id: &str) -> bool {
    match spec {
        Value::Object(fields) => {
            let mut found = false;
            for (field, value) in fields {
                if field == "policy_id" && value == name {
                    *value = id.into();
                    found = true;
                }
                found |= rename_policy(value, name, id);
            }
            found
        }
        Value::Array(items) => {
            items.iter_mut().fold(false, |found, item| rename_policy(item, name, id) | found)
        }
        _ => false,
    }
}
