//! `guarantor verify`: has the server that issued a certificate recompute it or, without a server, checks
//! its signature with the public key and its numbers with the log.

use std::path::{Path, PathBuf};

use clap::Args;
use guarantor::queue::{RunError, StoredInputs};
use guarantor::store::{Dataset, PolicyId, Store, Workspace};
use guarantor_engine::certificate::{
    Certificate, PublicKey, StrictJson, Verification, certificate_of, only_signed, signature_check,
};
use guarantor_engine::control::unattended;
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::verify::{Wording, verify_merged, verify_unsupported};
use guarantor_ingest::{FileFormat, Format, partials};
use serde_json::Value;

use super::client::{Client, expect};
use super::log_file::{InputLog, StatedArgs, find_objects, format_parser, read_policy, with_formats};
use super::merge::read_partials;
use super::recipe::read_recipe;
use super::{Failure, Verdict, runtime};

/// The arguments of `guarantor verify`.
#[derive(Args)]
pub struct VerifyArgs {
    /// The certificate, as returned by GET /v1/jobs/ID/certificate.
    certificate: PathBuf,
    /// Check the signature with this key: base64, a PEM file, or a file with the response of
    /// GET /v1/certificates/key.
    #[arg(long, value_name = "KEY_OR_FILE")]
    public_key: Option<String>,
    /// Recompute the certificate from this log, and compare the numbers. Repeat it for a log of several files, in their
    /// order. - is standard input, which needs --format. s3://bucket/key and file:///path are read where they lie.
    #[arg(long, value_name = "FILE")]
    log: Vec<PathBuf>,
    /// The format of the log, if its file names do not imply it.
    #[arg(long, value_parser = format_parser(), requires = "log")]
    format: Option<Format>,
    /// Parameters of the logging policy, if the dataset named one.
    #[arg(long, value_name = "FILE", requires = "log")]
    logging_policy: Option<PathBuf>,
    #[command(flatten)]
    stated: StatedArgs,
    /// Parameters of a policy that the spec names. The id can be left out for a candidate, which the certificate
    /// recognizes by its digest. Can be repeated.
    #[arg(long, value_name = "[ID=]FILE", requires = "log")]
    policy: Vec<String>,
    /// Recompute a certificate that was merged from partials: its recipe, with all of its partials.
    #[arg(long, value_name = "RECIPE.json", requires = "partial", conflicts_with = "log")]
    recipe: Option<PathBuf>,
    /// A partial that the certificate was merged from. Repeat it for all of them.
    #[arg(long, value_name = "PARTIAL.json", requires = "recipe")]
    partial: Vec<PathBuf>,
    /// What the certificate must say besides being valid. With `deploy`, a valid certificate that says keep exits with 1.
    #[arg(long, value_name = "DECISION", value_parser = ["deploy"])]
    require: Option<String>,
    /// The server that has the log. Not used with --public-key or --log.
    #[arg(long, env = "GUARANTOR_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// Trust the certificate authorities in this PEM file instead of those of the system, for --url https://…
    #[arg(long, env = "GUARANTOR_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// API key of the server.
    #[arg(long, env = "GUARANTOR_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: Option<String>,
}

/// Prints every check. The verdict is whether the certificate is valid.
pub fn verify(args: VerifyArgs) -> Result<Verdict, Failure> {
    let path = args.certificate.display();
    let document = std::fs::read(&args.certificate).map_err(|error| format!("{path}: {error}"))?;
    let (verification, unchecked) = match (&args.public_key, args.log.is_empty() && args.recipe.is_none()) {
        (None, true) => (by_server(&args, &document)?, Vec::new()),
        _ => here(&args, &document)?,
    };
    for check in &verification.checks {
        println!("{}  {:<24}  {}", if check.ok { "ok  " } else { "FAIL" }, check.name, check.detail);
    }
    for part in unchecked {
        println!("--    {part:<24}  not checked: a log does not determine it; --public-key checks it");
    }
    println!("{}", if verification.valid { "valid" } else { "NOT VALID" });
    let required = args.require.as_deref().is_none_or(|required| says(&document, required));
    if verification.valid && !required {
        println!("valid, but the certificate says keep, and --require deploy was asked");
    }
    Ok(if verification.valid && required { Verdict::Yes } else { Verdict::No })
}

/// Whether a document has this decision. Anything but the word itself is another decision.
fn says(document: &[u8], required: &str) -> bool {
    let document: Option<StrictJson> = serde_json::from_slice(document).ok();
    document.is_some_and(|StrictJson(document)| {
        document.get("decision").and_then(Value::as_str) == Some(required)
    })
}

/// Has the server recompute the certificate.
fn by_server(args: &VerifyArgs, document: &[u8]) -> Result<Verification, Failure> {
    let client = Client::new(&args.url, args.api_key.clone(), args.ca_file.as_deref())?;
    let answer = expect(200, client.post("/v1/certificates/verify", "application/json", document)?)?;
    Ok(serde_json::from_value(answer)?)
}

/// Checks the signature and the numbers without a server, as far as the arguments allow. Also returns the members of
/// the document that were not checked: without a key nothing vouches for what the log does not determine.
fn here(args: &VerifyArgs, bytes: &[u8]) -> Result<(Verification, Vec<&'static str>), Failure> {
    let path = args.certificate.display();
    let read = serde_json::from_slice(bytes);
    let StrictJson(document) = read.map_err(|error| format!("{path}: {error}"))?;
    let mut checks = Vec::new();
    let mut wording = Wording::Compared;
    let mut unchecked = Vec::new();
    if let Some(key) = &args.public_key {
        let signature = signature_check(&document, &public_keys(key)?);
        if signature.ok {
            wording = Wording::Vouched;
        }
        checks.push(signature);
    } else {
        unchecked = only_signed(&document);
    }
    if let Some(recipe) = &args.recipe {
        let certificate = certificate_of(document).map_err(|error| format!("{path}: {error}"))?;
        let (merged, _) = partials::merge(&read_recipe(recipe)?, read_partials(&args.partial)?, None)?;
        checks.extend(verify_merged(&certificate, wording, &merged)?.checks);
    } else if !args.log.is_empty() {
        let certificate = certificate_of(document).map_err(|error| format!("{path}: {error}"))?;
        if certificate.merged.is_some() {
            return Err(
                "the certificate was merged from partials; recompute it with --recipe and --partial".into()
            );
        }
        let recomputed = match verify_unsupported(&certificate) {
            Some(verification) => verification,
            None => {
                let directory = tempfile::tempdir()?;
                runtime()?.block_on(recompute(args, certificate, wording, directory.path()))?
            }
        };
        checks.extend(recomputed.checks);
    }
    Ok((Verification::of(checks), unchecked))
}

/// The given key, or the keys in the file of that name.
fn public_keys(key_or_file: &str) -> Result<Vec<PublicKey>, Failure> {
    if let Some(keys) = PublicKey::all_from_text(key_or_file) {
        return Ok(keys);
    }
    let unusable = || format!("--public-key {key_or_file}: expected a key in base64 or a file with one");
    let text = std::fs::read_to_string(key_or_file).map_err(|_| unusable())?;
    Ok(PublicKey::all_from_text(&text).ok_or_else(unusable)?)
}

/// The id and the parameters of a policy that is given as `ID=FILE`, or as `FILE` if it is a candidate.
fn named_policy(named: &str, certificate: &Certificate) -> Result<(PolicyId, PolicyParams), Failure> {
    if let Some((id, path)) = named.split_once('=')
        && let Ok(id) = id.parse()
    {
        return Ok((id, read_policy(Path::new(path))?));
    }
    let params = read_policy(Path::new(named)).map_err(|error| match named.split_once('=') {
        Some((id, _)) => format!("--policy {named}: {id:?} is not the id of a policy").into(),
        None => error,
    })?;
    let digest = params.digest()?;
    let found = certificate.candidates.iter().find(|result| result.policy_digest.as_ref() == Some(&digest));
    let id = found.and_then(|result| result.candidate.strip_prefix("policy:")?.parse().ok());
    match id {
        Some(id) => Ok((id, params)),
        None => {
            let advice = "give the policy of a prior as ID=FILE";
            Err(format!("--policy {named}: no candidate of the certificate has its digest; {advice}").into())
        }
    }
}

/// Runs the whole job again. The learned policy is not in the certificate, but learning again gives the same one.
async fn recompute(
    args: &VerifyArgs,
    certificate: Certificate,
    wording: Wording,
    directory: &Path,
) -> Result<Verification, Failure> {
    let (store, workspace) = (Store::open(directory).await?, Workspace::default());
    for named in &args.policy {
        let (id, params) = named_policy(named, &certificate)?;
        store.create_policy(&workspace, id, &params).await?;
    }
    let (paths, found) = find_objects(&args.log).await?;
    let files = with_formats(&paths, args.format)?.into_iter();
    let hashed = |format: FileFormat| match certificate.dataset.action_sets {
        Some(features) => format.for_sets(features),
        None => format.for_dim(certificate.dataset.dim),
    };
    let declared =
        certificate.dataset.action_sets.is_none() && certificate.dataset.actions_declared != Some(false);
    let log = InputLog {
        files: files.map(|(path, format)| (path, hashed(format))).collect(),
        found: &found,
        outcome: certificate.user_units.outcome,
        outcomes: certificate.dataset.outcomes.clone(),
        // A number that was read off the rows is read off them again.
        n_actions: declared.then_some(certificate.dataset.n_actions),
        logging_policy: args.logging_policy.as_deref(),
        options: args.stated.options(certificate.spec.logging.unwrap_or_default()),
    };
    let dataset = log.dataset(&store, &workspace).await?;
    // The file has the rows of all versions up to the one of the certificate.
    let dataset = Dataset { version: certificate.dataset.version, ..dataset };
    let inputs = match StoredInputs::fetch(&store, &workspace, dataset, &certificate.spec).await {
        Ok(inputs) => inputs,
        Err(RunError::Failed(failure) | RunError::Retry(failure)) => return Err(failure.message.into()),
    };
    let work = move || {
        let control = unattended();
        inputs.with(&control, |inputs| {
            let finished = guarantor_engine::run(&certificate.spec, inputs, &control)?;
            guarantor_engine::verify(&certificate, wording, &finished.evidence, inputs, &control)
        })
    };
    Ok(tokio::task::spawn_blocking(work).await??)
}
