//! `guarantor verify`: has the server that issued a certificate recompute it or, without a server, checks
//! its signature with the public key and its numbers with the log.

use std::path::{Path, PathBuf};

use clap::Args;
use guarantor::queue::{RunError, StoredInputs};
use guarantor::store::{Dataset, PolicyId, Store, Workspace};
use guarantor_engine::certificate::{
    Certificate, Check, PublicKey, SignatureState, StrictJson, Verification, check_signature, extra_field,
};
use guarantor_engine::control::unattended;
use guarantor_engine::verify::{Wording, verify_unsupported};
use guarantor_ingest::{FileFormat, Format};
use serde_json::Value;

use super::client::{Client, expect};
use super::log_file::{InputFile, StatedArgs, format_parser, read_policy};
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
    /// Recompute the certificate from this log, and compare the numbers.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// The format of the log, if its file name does not imply it.
    #[arg(long, value_parser = format_parser(), requires = "log")]
    format: Option<Format>,
    /// Parameters of the logging policy, if the dataset named one.
    #[arg(long, value_name = "FILE", requires = "log")]
    logging_policy: Option<PathBuf>,
    #[command(flatten)]
    stated: StatedArgs,
    /// Parameters of a policy that the spec names. Can be repeated.
    #[arg(long, value_name = "ID=FILE", requires = "log")]
    policy: Vec<String>,
    /// The server that has the log. Not used with --public-key or --log.
    #[arg(long, env = "GUARANTOR_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// API key of the server.
    #[arg(long, env = "GUARANTOR_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: Option<String>,
}

/// Prints every check. The verdict is whether the certificate is valid.
pub fn verify(args: VerifyArgs) -> Result<Verdict, Failure> {
    let path = args.certificate.display();
    let document = std::fs::read(&args.certificate).map_err(|error| format!("{path}: {error}"))?;
    let verification = match (&args.public_key, &args.log) {
        (None, None) => by_server(&args, &document)?,
        _ => here(&args, &document)?,
    };
    for check in &verification.checks {
        println!("{}  {:<24}  {}", if check.ok { "ok  " } else { "FAIL" }, check.name, check.detail);
    }
    println!("{}", if verification.valid { "valid" } else { "NOT VALID" });
    Ok(if verification.valid { Verdict::Yes } else { Verdict::No })
}

/// Has the server recompute the certificate.
fn by_server(args: &VerifyArgs, document: &[u8]) -> Result<Verification, Failure> {
    let client = Client::new(&args.url, args.api_key.clone());
    let answer = expect(200, client.post("/v1/certificates/verify", "application/json", document)?)?;
    Ok(serde_json::from_value(answer)?)
}

/// Checks the signature and the numbers without a server, as far as the arguments allow.
fn here(args: &VerifyArgs, bytes: &[u8]) -> Result<Verification, Failure> {
    let path = args.certificate.display();
    let read = serde_json::from_slice(bytes);
    let StrictJson(document) = read.map_err(|error| format!("{path}: {error}"))?;
    let mut checks = Vec::new();
    let mut wording = Wording::Compared;
    if let Some(key) = &args.public_key {
        let signature = signature(&document, &public_keys(key)?);
        if signature.ok {
            wording = Wording::Vouched;
        }
        checks.push(signature);
    }
    if let Some(log) = &args.log {
        let certificate = certificate_of(document).map_err(|error| format!("{path}: {error}"))?;
        let recomputed = match verify_unsupported(&certificate) {
            Some(verification) => verification,
            None => {
                let directory = tempfile::tempdir()?;
                runtime()?.block_on(recompute(args, log, certificate, wording, directory.path()))?
            }
        };
        checks.extend(recomputed.checks);
    }
    Ok(Verification::of(checks))
}

/// Checks the signature.
fn signature(document: &Value, keys: &[PublicKey]) -> Check {
    let (ok, detail) = match check_signature(document, keys) {
        SignatureState::Valid { key_id } => (true, format!("the whole document is signed by key {key_id}")),
        SignatureState::Unsigned => (false, "the document is unsigned".into()),
        SignatureState::Invalid(why) => (false, why),
    };
    Check::new("signature", ok, detail)
}

/// The given key, or the keys in the file of that name.
fn public_keys(key_or_file: &str) -> Result<Vec<PublicKey>, Failure> {
    if let Some(key) = PublicKey::from_text(key_or_file) {
        return Ok(vec![key]);
    }
    let unusable = || format!("--public-key {key_or_file}: expected a key in base64 or a file with one");
    let text = std::fs::read_to_string(key_or_file).map_err(|_| unusable())?;
    let keys = match serde_json::from_str::<Value>(&text) {
        Ok(answer @ Value::Object(_)) => {
            let earlier = answer["earlier"].as_array().into_iter().flatten();
            let texts = std::iter::once(&answer).chain(earlier).map(|key| key["public_key"].as_str());
            texts.map(|text| PublicKey::from_text(text?)).collect()
        }
        _ => PublicKey::from_text(&text).map(|key| vec![key]),
    };
    Ok(keys.ok_or_else(unusable)?)
}

/// The certificate of a document. The document must have no other member, because no check would cover it.
fn certificate_of(mut document: Value) -> Result<Certificate, Failure> {
    if let Value::Object(fields) = &mut document {
        fields.retain(|name, _| !["issued", "ledger", "signature"].contains(&name.as_str()));
    }
    let certificate: Certificate = serde_json::from_value(document.clone())?;
    match extra_field(&document, &serde_json::to_value(&certificate)?) {
        Some(field) => Err(format!("unknown member {field}").into()),
        None => Ok(certificate),
    }
}

/// Runs the whole job again. The learned policy is not in the certificate, but learning again gives the same one.
async fn recompute(
    args: &VerifyArgs,
    log: &Path,
    certificate: Certificate,
    wording: Wording,
    directory: &Path,
) -> Result<Verification, Failure> {
    let (store, workspace) = (Store::open(directory).await?, Workspace::default());
    for named in &args.policy {
        let (id, path) =
            named.split_once('=').ok_or_else(|| format!("--policy {named}: expected ID=FILE"))?;
        let id: PolicyId =
            id.parse().map_err(|_| format!("--policy {named}: {id:?} is not the id of a policy"))?;
        store.create_policy(&workspace, id, &read_policy(Path::new(path))?).await?;
    }
    let log = InputFile {
        file: log,
        format: FileFormat::of_file(log, args.format)?.for_dim(certificate.dataset.dim),
        outcome: certificate.user_units.outcome,
        // A number that was read off the rows is read off them again.
        n_actions: (certificate.dataset.actions_declared != Some(false))
            .then_some(certificate.dataset.n_actions),
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
