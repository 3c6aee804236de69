//! `guarantor simulate`: the log of a known policy in a small simulated world, in any format that can be
//! uploaded. `guarantor-lab simulate` does the same for the paper's datasets.

use std::path::PathBuf;

use clap::Args;
use guarantor_ingest::simulate::{ROWS, ToyPlan, toy_layout, write_toy};
use guarantor_ingest::write::LogWriter;
use guarantor_ingest::write::file::{OutputFile, contexts, counts};
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

/// The log of `guarantor demo`, as NDJSON.
pub fn demo_log(rows: usize, seed: u64) -> Result<Vec<u8>, Failure> {
    let mut writer = LogWriter::new(Format::Ndjson, &toy_layout(1, false, false), Vec::new())?;
    let plan = ToyPlan { contexts: rows, interactions: 1, dim: toy::FEATURES, retrain: 0 };
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
    let rows = args.rows.unwrap_or(ROWS - ROWS % m);
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
    let plan = ToyPlan { contexts, interactions: m, dim: layout.dim, retrain };
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
