//! `guarantor-lab reproduce`: the paper's experiments and ours in one command.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use guarantor_engine::control::unattended;
use guarantor_lab::rows::{self, Row};
use guarantor_lab::{PaperDataset, Plan, load, pictures, plot, report};
use indicatif::{ProgressBar, ProgressStyle};

use super::{CommandError, temperature};

/// The arguments of `reproduce`.
#[derive(Args)]
pub struct ReproduceArgs {
    /// The dataset.
    #[arg(long, value_enum, default_value_t = PaperDataset::FashionMnist)]
    dataset: PaperDataset,
    /// The directory of the dataset's files [default: where Debian's packages put them].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Inverse temperatures of the logging policy [default: 0.1,0.3,0.5,0.7,1; with --quick: 0.1,1].
    #[arg(long, value_delimiter = ',', value_parser = temperature)]
    alphas: Vec<f64>,
    /// The number of repetitions; each has its own seed for splitting, training and logging.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// The first seed; the others follow it.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    first_seed: u64,
    /// The figures to reproduce.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 3, 4, 5], value_parser = clap::value_parser!(u8).range(1..=5))]
    figures: Vec<u8>,
    /// Finish in less than a minute, with fewer contexts, fewer α and fewer m.
    #[arg(long)]
    quick: bool,
    /// The directory for the CSV, the tables and the figures.
    #[arg(long, value_name = "DIR", default_value = "reproduction")]
    out: PathBuf,
}

/// The number of contexts that `--quick` logs.
const QUICK_CONTEXTS: usize = 10_000;

fn plan(args: &ReproduceArgs) -> Plan {
    let (alphas, interactions, contexts) = match args.quick {
        false => (vec![0.1, 0.3, 0.5, 0.7, 1.0], vec![1, 2, 4, 8], None),
        true => (vec![0.1, 1.0], vec![1, 4], Some(QUICK_CONTEXTS)),
    };
    let mut figures = args.figures.clone();
    figures.sort();
    figures.dedup();
    let mut alphas = if args.alphas.is_empty() { alphas } else { args.alphas.clone() };
    alphas.sort_by(f64::total_cmp);
    alphas.dedup();
    Plan {
        alphas,
        seeds: (args.first_seed..).take(args.seeds as usize).collect(),
        figures,
        interactions,
        contexts,
    }
}

/// Runs `reproduce`.
///
/// # Errors
/// If the dataset cannot be read, a job fails, or the output cannot be written.
pub fn reproduce(args: ReproduceArgs) -> Result<(), CommandError> {
    let start = Instant::now();
    let plan = plan(&args);
    let data = load(args.dataset, args.data_dir.as_deref())?;
    std::fs::create_dir_all(&args.out).map_err(|e| format!("{}: {e}", args.out.display()))?;
    println!(
        "{}: {} training and {} test examples, K = {}, p = {}; {} jobs",
        data.name,
        data.train.len(),
        data.test.len(),
        data.n_actions,
        data.train.x.ncols(),
        plan.len()
    );
    // Drawn on standard error, and only if that is a terminal.
    let bar = ProgressBar::new(1000);
    bar.set_style(ProgressStyle::with_template("{bar:30} {percent}%, {eta} left   {msg}")?);
    let begin = |job: &str, share: f64| {
        bar.set_position((1000.0 * share) as u64);
        bar.set_message(job.to_string());
    };
    let rows = plan.run(&data, &unattended(), &begin, &mut |rows| write(&args.out, rows))?;
    bar.finish_and_clear();

    println!("\n{}", report::text(&rows));
    println!("{}\n{}", csv(&args.out).display(), tables(&args.out).display());
    for picture in plan.figures.iter().filter_map(|&figure| pictures::picture(&rows, figure)) {
        for path in plot::write(&picture, &args.out)? {
            println!("{}", path.display());
        }
    }
    println!("{:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn csv(out: &Path) -> PathBuf {
    out.join("results.csv")
}

fn tables(out: &Path) -> PathBuf {
    out.join("tables.md")
}

/// Replaces the files with the results so far.
fn write(out: &Path, rows: &[Row]) -> Result<(), CommandError> {
    let partial = out.join("results.csv.partial");
    rows::write(rows, &partial)?;
    std::fs::rename(&partial, csv(out))?;
    Ok(std::fs::write(tables(out), report::text(rows))?)
}
