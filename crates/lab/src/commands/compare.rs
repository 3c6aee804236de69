//! `guarantor-lab compare`: every valid bound on one log, side by side.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use guarantor_engine::control::unattended;
use guarantor_engine::spec::Candidate;
use guarantor_lab::compare::compare as compare_bounds;
use guarantor_lab::trial::{Trial, logged};

use super::CommandError;
use super::log_args::{LogArgs, read_policy};

/// The arguments of `compare`.
#[derive(Args)]
pub struct CompareArgs {
    #[command(flatten)]
    log: LogArgs,
    /// The candidate that the log carries under this name [default: the only one].
    #[arg(long, value_name = "NAME", conflicts_with = "policy")]
    candidate: Option<String>,
    /// A policy to compare the bounds on instead, in the format of POST /v1/policies.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// δ of each line.
    #[arg(long, default_value_t = 0.05)]
    delta: f64,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs `compare`.
///
/// # Errors
/// If the log or the policy cannot be read, or the candidate does not exist.
pub fn compare(args: CompareArgs) -> Result<(), CommandError> {
    let read = args.log.read()?;
    let names = &read.summary.capabilities.candidates;
    let mut policies = BTreeMap::new();
    let candidate = match (&args.policy, &args.candidate, &names[..]) {
        (Some(path), ..) => {
            let id = path.file_stem().map_or("policy".into(), |stem| stem.to_string_lossy().into_owned());
            policies.insert(id.clone(), read_policy(path)?);
            Candidate::Policy { policy_id: id }
        }
        (None, Some(name), _) => logged(name),
        (None, None, [only]) => logged(only),
        (None, None, []) => {
            return Err("the log carries no candidate; name a policy with --policy FILE".into());
        }
        (None, None, several) => {
            return Err(format!("the log carries {}; choose one with --candidate", several.join(", ")).into());
        }
    };
    let trial = Trial {
        log: &read.log,
        policies: &policies,
        logging_policy: read.logging_policy.as_ref(),
        digest: read.summary.digest.clone(),
    };
    let comparison = compare_bounds(&trial, &candidate, args.delta, &unattended())?;
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&comparison)?),
        false => print!("{}", comparison.text()),
    }
    Ok(())
}
