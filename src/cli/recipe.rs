//! `guarantor recipe`: learns on the earliest part of a log, or takes a candidate, and freezes everything that the sum
//! over the other rows depends on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use guarantor_engine::Inputs;
use guarantor_engine::control::unattended;
use guarantor_engine::log::{LogSource, MemoryLog};
use guarantor_engine::partial::{FreezeRequest, Recipe};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{JobSpec, PolicyShape, SpecContext, SpecRequest};
use guarantor_ingest::{Checker, LogSummary, MemorySink, Rules, partials, read_files};
use serde_json::Value;

use super::goals::GoalArgs;
use super::log_file::{InputLog, LogArgs, local_limits, open_files, read_json, read_policy};
use super::{Failure, Verdict, print_text};

/// Who accepts a failed check, as the certificate names them.
const CALLER: &str = "command line";

/// The arguments of `guarantor recipe`.
#[derive(Args)]
pub struct RecipeArgs {
    #[command(flatten)]
    log: LogArgs,
    /// The job's spec, as for `guarantor certify`.
    #[arg(long, value_name = "SPEC.json")]
    spec: Option<PathBuf>,
    #[command(flatten)]
    goals: GoalArgs,
    /// The parameters of a policy that the spec uses. NAME is its policy_id in the spec. Can be repeated.
    #[arg(long, value_name = "NAME=FILE")]
    policy: Vec<String>,
    /// The number of rows that will be certified. The bet is sized for it; without it, bets of several sizes share the
    /// claim.
    #[arg(long, value_name = "ROWS")]
    planned_rows: Option<u64>,
    /// Write the recipe to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Freezes a recipe and writes it.
pub fn recipe(args: RecipeArgs) -> Result<Verdict, Failure> {
    let policies = read_policies(&args.policy)?;
    let mut spec = match &args.spec {
        Some(path) => read_json(path)?,
        None => Value::Object(Default::default()),
    };
    args.goals.add_to(&mut spec)?;
    if let Value::Object(fields) = &mut spec {
        fields.remove("metadata");
    }
    let request: SpecRequest =
        serde_json::from_value(spec).map_err(|error| format!("invalid spec: {error}"))?;
    let (summary, log) = in_memory(&args.log.log()?)?;
    let spec = resolve(&request, &log, &policies)?;
    let inputs = Inputs {
        log: &log,
        logging_policy: None,
        policies: &policies,
        dataset_version: 1,
        dataset_digest: &summary.digest,
        log_checks: None,
    };
    let sketch = Some(partials::encode(&summary.sketch));
    let request = FreezeRequest { spec: &spec, planned_rows: args.planned_rows, sketch };
    let recipe = Recipe::freeze(&inputs, &request, &unattended())?;
    write_out(args.out.as_deref(), &recipe.to_json()?)?;
    if args.out.is_some() {
        print_text(&format!("{}\n", recipe.digest()?))?;
    }
    Ok(Verdict::Yes)
}

fn read_policies(named: &[String]) -> Result<BTreeMap<String, PolicyParams>, Failure> {
    let read = |named: &String| {
        let (name, path) =
            named.split_once('=').ok_or_else(|| format!("--policy {named}: expected NAME=FILE"))?;
        Ok((name.to_owned(), read_policy(Path::new(path))?))
    };
    named.iter().map(read).collect()
}

/// Reads the learn log into memory. It is the earliest part of the log, and only it is learned from.
fn in_memory(log: &InputLog) -> Result<(LogSummary, MemoryLog), Failure> {
    if log.logging_policy.is_some() {
        return Err(
            "--logging-policy: partials read the propensities of the rows; write them into the rows".into()
        );
    }
    let rules = Rules::new(log.n_actions, log.outcome, None, local_limits())?
        .with_outcomes(log.outcomes.clone())
        .with_options(log.options);
    let mut sink = MemorySink::default();
    let read = read_files(open_files(&log.files)?, Checker::new(rules), &mut sink);
    let summary = read.map_err(|failed| format!("{}: {}", log.name_of(failed.file), failed.error))?;
    let log = MemoryLog::new(sink.into_columns(&summary))?;
    Ok((summary, log))
}

fn resolve(
    request: &SpecRequest,
    log: &MemoryLog,
    policies: &BTreeMap<String, PolicyParams>,
) -> Result<JobSpec, Failure> {
    let context = SpecContext {
        shape: log.shape(),
        logging_policy: None,
        policy: &|id| policies.get(id).map(PolicyShape::of),
        seen_rows: 0,
        caller: CALLER,
    };
    Ok(request.resolve(&context)?)
}

/// Writes a document to a file, or to standard output.
pub fn write_out(path: Option<&Path>, text: &str) -> Result<(), Failure> {
    match path {
        Some(path) => {
            std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
        }
        None => print_text(&format!("{text}\n")),
    }
}

/// Reads a recipe from a file.
pub fn read_recipe(path: &Path) -> Result<Recipe, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Recipe::from_json(&text).map_err(|error| format!("{}: {error}", path.display()).into())
}
