//! `guarantor simulate`: the log of a known policy in a small simulated world, in any format that can be
//! uploaded. `guarantor-lab simulate` does the same for the paper's datasets.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use guarantor_engine::log::OutcomeKind;
use guarantor_ingest::write::file::{OutputFile, contexts, counts};
use guarantor_ingest::write::{LogWriter, LoggedRow, WriteLayout};
use guarantor_ingest::{FileFormat, Format, toy};

use super::Failure;
use super::log_file::{format_parser, read_policy};

/// The options of `guarantor simulate`.
#[derive(Args)]
pub struct SimulateToyArgs {
    /// The world to simulate.
    #[arg(long, value_parser = world, default_value = "toy")]
    dataset: World,
    /// The inverse temperature of the logging policy: 0 is uniform, larger values explore less.
    #[arg(long, default_value_t = 0.5, value_parser = temperature)]
    alpha: f64,
    /// How often each context is logged.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    interactions: u32,
    /// Rows to write [default: 20000].
    #[arg(long)]
    rows: Option<usize>,
    /// The same seed gives the same log.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The format [default: the one that the file name implies].
    #[arg(long, value_parser = format_parser())]
    format: Option<Format>,
    /// Leave the features out: a log for evaluation only.
    #[arg(long)]
    no_features: bool,
    /// Log with the policy whose parameters are in this file, as GET /v1/policies/{id}/parameters returns them, instead
    /// of the built-in one.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Retrain the logging policy on its own log this many times, once a day. Rows get a timestamp and a
    /// policy_version.
    #[arg(long, default_value_t = 0, value_name = "TIMES", value_parser = clap::value_parser!(u32).range(..=1000))]
    retrain: u32,
    /// Write the parameters of the logging policy to this file, as POST /v1/policies takes them. With --retrain, those
    /// of the last one.
    #[arg(long, value_name = "FILE")]
    policy_out: Option<PathBuf>,
    /// The file to write, compressed if its name ends in .gz or .zst; - for standard output.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// The worlds that can be simulated here.
#[derive(Clone, Copy)]
enum World {
    Toy,
}

/// Parses the name of a world; the error says where the paper's datasets are.
fn world(name: &str) -> Result<World, String> {
    match name {
        "toy" => Ok(World::Toy),
        _ => Err("the only world is `toy`; `guarantor-lab simulate` has the paper's datasets".into()),
    }
}

/// Parses α.
fn temperature(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(alpha) if alpha.is_finite() && alpha >= 0.0 => Ok(alpha),
        _ => Err("must be a number of at least 0".into()),
    }
}

const TOY_ROWS: usize = 20_000;

/// The log of `guarantor demo`, as NDJSON.
pub fn demo_log(rows: usize, seed: u64) -> Result<Vec<u8>, Failure> {
    let mut writer = LogWriter::new(Format::Ndjson, &toy_layout(1, false, false), Vec::new())?;
    let plan = Plan { contexts: rows, interactions: 1, dim: toy::FEATURES, retrain: 0 };
    write_toy(&mut toy::Toy::new(1.0, seed), &plan, &mut writer)?;
    Ok(writer.finish()?)
}

/// Writes a log of simulated decisions.
pub fn simulate(args: SimulateToyArgs) -> Result<(), Failure> {
    let format = FileFormat::of_file(&args.out, args.format)?;
    match args.dataset {
        World::Toy => simulate_toy(&args, format),
    }
}

fn simulate_toy(args: &SimulateToyArgs, format: FileFormat) -> Result<(), Failure> {
    let m = args.interactions as usize;
    let rows = args.rows.unwrap_or(TOY_ROWS - TOY_ROWS % m);
    let contexts = contexts(rows, m, usize::MAX)?;
    let retrain = args.retrain as usize;
    if retrain >= contexts {
        return Err(format!("--retrain {retrain}: there are only {contexts} contexts").into());
    }
    let layout = toy_layout(m, args.no_features, retrain > 0);
    format.format.can_write(&layout)?;
    let mut world = toy::Toy::new(args.alpha, args.seed);
    if let Some(path) = &args.policy {
        let given = world.with_policy(read_policy(path)?);
        world = given.map_err(|why| format!("{}: {why}", path.display()))?;
    }
    let file = OutputFile { path: &args.out, format, layout: &layout };
    let plan = Plan { contexts, interactions: m, dim: layout.dim, retrain };
    file.write(|writer| write_toy(&mut world, &plan, writer))?;
    if let Some(path) = &args.policy_out {
        let text = serde_json::to_vec(&world.policy())?;
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    eprintln!("toy world: {}", counts(rows, contexts, &layout));
    let upload = file.upload_command();
    if !upload.is_empty() {
        eprint!("To look at it:\n  guarantor inspect {}", args.out.display());
        if let Some(format) = args.format {
            eprint!(" --format {}", format.name());
        }
        if format.format.hashes_features() {
            eprint!(" --hash-dims {}", format.for_dim(layout.dim).dims());
        }
        eprint!(" --outcome {}\nTo upload it:\n  {upload}", layout.outcome_name());
    }
    Ok(())
}

fn toy_layout(interactions: usize, no_features: bool, retrained: bool) -> WriteLayout {
    WriteLayout {
        dim: if no_features { 0 } else { toy::FEATURES },
        n_actions: toy::ACTIONS,
        outcome: OutcomeKind::Reward,
        context_ids: interactions > 1,
        timestamps: retrained,
        versions: retrained,
    }
}

/// How many contexts are logged, and how.
struct Plan {
    contexts: usize,
    interactions: usize,
    dim: usize,
    /// How often the policy is retrained.
    retrain: usize,
}

/// The first day of a log whose policy is retrained daily: 2024-01-01, in microseconds since 1970.
const FIRST_DAY: i64 = 1_704_067_200_000_000;
const DAY: i64 = 86_400_000_000;

fn write_toy<W: Write>(world: &mut toy::Toy, plan: &Plan, writer: &mut LogWriter<W>) -> io::Result<()> {
    let Plan { contexts, interactions, dim, retrain } = *plan;
    for day in 0..=retrain {
        // Days have nearly the same number of contexts.
        let (from, to) = (contexts * day / (retrain + 1), contexts * (day + 1) / (retrain + 1));
        let version = format!("v{}", day + 1);
        if day > 0 {
            world.retrain();
        }
        for context in from..to {
            let visitor = world.visitor(interactions);
            let time = DAY / (to - from) as i64 * (context - from) as i64;
            for &(action, outcome) in &visitor.interactions {
                writer.write(&LoggedRow {
                    x: &visitor.x[..dim],
                    action,
                    propensities: &visitor.propensities,
                    outcome,
                    context: context as u64,
                    timestamp: FIRST_DAY + DAY * day as i64 + time,
                    version: &version,
                })?;
            }
            if retrain > 0 {
                world.learn(&visitor);
            }
        }
    }
    Ok(())
}
