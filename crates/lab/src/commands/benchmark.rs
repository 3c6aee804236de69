//! `guarantor-lab benchmark`: the evidence behind the documentation, as a page with pictures.

use std::path::PathBuf;

use clap::Args;
use guarantor_lab::benchmark::{Outcome, Part, Settings, page, run};
use guarantor_lab::plot;

use super::CommandError;

/// The arguments of `benchmark`.
#[derive(Args)]
pub struct BenchmarkArgs {
    /// The published evaluation cases: a folder with cases.csv and rows.parquet.
    #[arg(long, value_name = "DIR")]
    ope: Option<PathBuf>,
    /// A folder with labelled tables as CSV, whose last column is the label. Can be repeated.
    #[arg(long, value_name = "DIR")]
    tables: Vec<PathBuf>,
    /// The folder of FashionMNIST's files [default: where Debian's package puts them].
    #[arg(long, value_name = "DIR")]
    fashion: Option<PathBuf>,
    /// The folder of the exact FashionMNIST logs.
    #[arg(long, value_name = "DIR", default_value = "crates/lab/tests/fashion_mnist")]
    fashion_logs: PathBuf,
    /// The parts to run.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::ALL)]
    parts: Vec<Part>,
    /// A small version that shows that everything works.
    #[arg(long)]
    quick: bool,
    /// The folder for benchmarks.md and benchmarks/*.svg.
    #[arg(long, value_name = "DIR", default_value = "docs")]
    out: PathBuf,
}

/// Runs `benchmark`.
///
/// # Errors
/// If data exists but is malformed, a job fails, or the page cannot be written.
pub fn benchmark(args: BenchmarkArgs) -> Result<(), CommandError> {
    let settings = Settings {
        ope: args.ope,
        tables: args.tables,
        fashion: args.fashion,
        fashion_logs: args.fashion_logs,
        quick: args.quick,
    };
    let pictures = args.out.join("benchmarks");
    std::fs::create_dir_all(&pictures).map_err(|error| format!("{}: {error}", pictures.display()))?;
    let mut outcomes = Vec::new();
    for part in args.parts {
        let outcome = run(part, &settings, &|line| eprintln!("{line}"))?;
        match &outcome {
            Outcome::Missing(what) => eprintln!("{part:?} is left out. {what}"),
            Outcome::Done(section) => {
                for figure in &section.figures {
                    plot::write_svg(figure, &pictures)?;
                }
            }
        }
        outcomes.push((part, outcome));
    }
    let (text, path) = (page(&outcomes, args.quick), args.out.join("benchmarks.md"));
    std::fs::write(&path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{text}");
    eprintln!("{}", path.display());
    Ok(())
}
