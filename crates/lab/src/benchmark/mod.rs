//! The evidence behind the documentation: published evaluation cases, widths in worlds with known truth, learning
//! on labelled tables and on FashionMNIST, logs of rare clicks, and logs with action sets. Everything runs through the engine's entry
//! point, from seeds and sets that were not used to choose anything (docs/benchmarks.md says which).

mod clicks;
mod fashion;
mod ope;
mod ope_files;
mod ope_report;
mod references;
mod report;
mod sets;
mod softmax;
mod tables;
mod tabular;
mod widths;
mod worlds;

use std::path::PathBuf;

use crate::plot::Figure;

pub use report::page;

/// An error of a part.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The first seed of everything that is reported. Seeds below it are for development.
pub const FIRST_SEED: u64 = 100;

/// The level of every certificate.
pub const DELTA: f64 = 0.05;

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Given policies: the published evaluation cases.
    Ope,
    /// Given policies: widths in worlds with known truth.
    Widths,
    /// Learning on labelled tables.
    Tables,
    /// Learning on FashionMNIST.
    Fashion,
    /// Learning on logs of rare clicks.
    Clicks,
    /// Learning over action sets.
    Sets,
}

impl Part {
    /// All parts, in the order of the page.
    pub const ALL: [Part; 6] =
        [Part::Ope, Part::Widths, Part::Tables, Part::Fashion, Part::Clicks, Part::Sets];
}

/// What to run, and where the data is.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The directory of cases.csv and rows.parquet.
    pub ope: Option<PathBuf>,
    /// Directories with labelled tables as CSV.
    pub tables: Vec<PathBuf>,
    /// The directory of FashionMNIST's files, if it is not where Debian's package puts them.
    pub fashion: Option<PathBuf>,
    /// The directory of the exact FashionMNIST logs.
    pub fashion_logs: PathBuf,
    /// A small version that shows that everything works, with few logs and few rows.
    pub quick: bool,
}

/// One line of the summary at the top of the page.
#[derive(Debug, Clone, PartialEq)]
pub struct Headline {
    /// What was measured.
    pub what: String,
    /// The result.
    pub value: String,
    /// For comparison: what is published, or what would be ideal.
    pub compared: String,
}

/// The result of a part.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Its heading.
    pub heading: String,
    /// Markdown.
    pub text: String,
    /// Its lines of the summary.
    pub headlines: Vec<Headline>,
    /// Its pictures.
    pub figures: Vec<Figure>,
}

/// A part was run, or its data is missing.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It was run.
    Done(Section),
    /// What is missing, and how to get it.
    Missing(String),
}

/// Runs one part. `progress` gets a line whenever something is done.
///
/// # Errors
/// If data exists but is malformed, or a job fails.
pub fn run(part: Part, settings: &Settings, progress: &(dyn Fn(&str) + Sync)) -> Result<Outcome, Failure> {
    match part {
        Part::Ope => ope::run(settings, progress),
        Part::Widths => Ok(Outcome::Done(widths::run(settings, progress)?)),
        Part::Tables => tables::run(settings, progress),
        Part::Fashion => fashion::run(settings, progress),
        Part::Clicks => Ok(Outcome::Done(clicks::run(settings, progress)?)),
        Part::Sets => Ok(Outcome::Done(sets::run(settings, progress)?)),
    }
}

/// The mean of some numbers; 0 if there are none.
fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = values.into_iter().fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}
