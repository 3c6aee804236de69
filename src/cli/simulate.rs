//! `guarantor simulate`: the log of a known policy in a small simulated world, in any format that can be
//! uploaded. `guarantor-lab simulate` does the same for the paper's datasets.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use guarantor_engine::log::OutcomeKind;
use guarantor_ingest::write::file::{OutputFile, contexts, counts};
use guarantor_ingest::write::{LogWriter, LoggedRow, WriteLayout};
use guarantor_ingest::{FileFormat, Format, declaration_of, toy};

use super::Failure;
use super::log_file::{format_parser, read_policy};
use super::simulate_news::simulate_news;
use super::simulate_shop::simulate_shop;

/// The options of `guarantor simulate`.
#[derive(Args)]
pub struct SimulateToyArgs {
    /// The world to simulate.
    #[arg(long, value_parser = world, default_value = "toy")]
    dataset: World,
    /// For news and shop: which world, that is, what readers or customers like.
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    pub(super) world: u64,
    /// For news: write the probability of a click on every action of every row to this file, one list per line. For
    /// shop: the expected outcomes of every action, one object per line.
    #[arg(long, value_name = "FILE")]
    pub(super) truth: Option<PathBuf>,
    /// The inverse temperature of the logging policy: 0 is uniform, larger values explore less.
    #[arg(long, default_value_t = 0.5, value_parser = temperature)]
    pub(super) alpha: f64,
    /// How often each context is logged.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) interactions: u32,
    /// Rows to write [default: 20000].
    #[arg(long)]
    pub(super) rows: Option<usize>,
    /// The same seed gives the same log.
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// The format [default: the one that the file name implies].
    #[arg(long, value_parser = format_parser())]
    format: Option<Format>,
    /// Leave the features out: a log for evaluation only.
    #[arg(long)]
    pub(super) no_features: bool,
    /// Log with the policy whose parameters are in this file, as GET /v1/policies/{id}/parameters returns them, instead
    /// of the built-in one.
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
    /// Retrain the logging policy on its own log this many times, once a day. Rows get a timestamp and a
    /// policy_version.
    #[arg(long, default_value_t = 0, value_name = "TIMES", value_parser = clap::value_parser!(u32).range(..=1000))]
    pub(super) retrain: u32,
    /// Write the parameters of the logging policy to this file, as POST /v1/policies takes them. With --retrain, those
    /// of the last one.
    #[arg(long, value_name = "FILE")]
    pub(super) policy_out: Option<PathBuf>,
    /// The file to write, compressed if its name ends in .gz or .zst; - for standard output.
    #[arg(long, value_name = "FILE")]
    pub(super) out: PathBuf,
}

/// The worlds that can be simulated here.
#[derive(Clone, Copy)]
enum World {
    Toy,
    News,
    Shop,
}

/// Parses the name of a world; the error says where the paper's datasets are.
fn world(name: &str) -> Result<World, String> {
    match name {
        "toy" => Ok(World::Toy),
        "news" => Ok(World::News),
        "shop" => Ok(World::Shop),
        _ => {
            Err("the worlds are `toy`, `news` and `shop`; `guarantor-lab simulate` has the paper's datasets"
                .into())
        }
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
        World::Toy if args.truth.is_some() => Err("--truth: only --dataset news and shop write it".into()),
        World::Toy => simulate_toy(&args, format),
        World::News => simulate_news(&args, format),
        World::Shop => simulate_shop(&args, format),
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
    print_next(args, &file);
    Ok(())
}

/// Says how to look at the file and how to upload it.
pub(super) fn print_next(args: &SimulateToyArgs, file: &OutputFile) {
    let OutputFile { format, layout, .. } = file;
    let upload = file.upload_command();
    if !upload.is_empty() {
        eprint!("To look at it:\n  guarantor inspect {}", args.out.display());
        if let Some(format) = args.format {
            eprint!(" --format {}", format.name());
        }
        if format.format.hashes_features() && layout.sets.is_none() {
            eprint!(" --hash-dims {}", format.for_dim(layout.dim).dims());
        }
        match layout.outcomes.is_empty() {
            true => eprint!(" --outcome {}", layout.outcome_name()),
            false => eprint!(" --outcomes '{}'", declaration_of(&layout.outcomes)),
        }
        eprint!("\nTo upload it:\n  {upload}");
    }
}

fn toy_layout(interactions: usize, no_features: bool, retrained: bool) -> WriteLayout {
    WriteLayout {
        dim: if no_features { 0 } else { toy::FEATURES },
        n_actions: toy::ACTIONS,
        outcome: OutcomeKind::Reward,
        context_ids: interactions > 1,
        timestamps: retrained,
        versions: retrained,
        ..WriteLayout::default()
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

/// A day of a log.
pub(super) struct Day {
    pub(super) number: usize,
    /// The contexts of the day.
    pub(super) contexts: std::ops::Range<usize>,
    /// The policy version that logs on this day.
    pub(super) version: String,
}

impl Day {
    /// When a context was logged, in microseconds since 1970.
    pub(super) fn time_of(&self, context: usize) -> i64 {
        let each = DAY / self.contexts.len() as i64;
        FIRST_DAY + DAY * self.number as i64 + each * (context - self.contexts.start) as i64
    }
}

/// The days of a log whose policy is retrained this often. They have nearly the same number of contexts.
pub(super) fn days(contexts: usize, retrain: usize) -> impl Iterator<Item = Day> {
    (0..=retrain).map(move |number| Day {
        number,
        contexts: contexts * number / (retrain + 1)..contexts * (number + 1) / (retrain + 1),
        version: format!("v{}", number + 1),
    })
}

fn write_toy<W: Write>(world: &mut toy::Toy, plan: &Plan, writer: &mut LogWriter<W>) -> io::Result<()> {
    let Plan { contexts, interactions, dim, retrain } = *plan;
    for day in days(contexts, retrain) {
        if day.number > 0 {
            world.retrain();
        }
        for context in day.contexts.clone() {
            let visitor = world.visitor(interactions);
            for &(action, outcome) in &visitor.interactions {
                writer.write(&LoggedRow {
                    x: &visitor.x[..dim],
                    action,
                    propensities: &visitor.propensities,
                    outcome,
                    context: context as u64,
                    timestamp: day.time_of(context),
                    version: &day.version,
                    ..LoggedRow::default()
                })?;
            }
            if retrain > 0 {
                world.learn(&visitor);
            }
        }
    }
    Ok(())
}
