//! `guarantor-lab simulate`: writes a log of a known policy on a known dataset, in any upload format.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use guarantor_engine::log::{LogSource, OutcomeKind};
use guarantor_ingest::write::file::{OutputFile, contexts, counts};
use guarantor_ingest::write::{LogWriter, LoggedRow, WriteLayout};
use guarantor_ingest::{FileFormat, Format};
use guarantor_lab::{Logger, PaperDataset, load, true_risk};
use indicatif::{ProgressBar, ProgressStyle};

use super::{CommandError, temperature};

/// The arguments of `simulate`.
#[derive(Args)]
pub struct SimulateDatasetArgs {
    /// The dataset.
    #[arg(long, value_enum)]
    dataset: PaperDataset,
    /// The directory of the dataset's files [default: where Debian's packages put them].
    #[arg(long, value_name = "DIR", alias = "dir")]
    data_dir: Option<PathBuf>,
    /// The inverse temperature of the logging policy: 0 is uniform, 1 is as it was trained.
    #[arg(long, default_value_t = 0.5, value_parser = temperature)]
    alpha: f64,
    /// Interactions per context.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    interactions: u32,
    /// The number of rows to write [default: one pass over the dataset].
    #[arg(long)]
    rows: Option<usize>,
    /// The seed of the split, of training and of the draws.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The format [default: implied by the file name].
    #[arg(long)]
    format: Option<Format>,
    /// Leave out the features, for a log that is only for evaluation.
    #[arg(long)]
    no_features: bool,
    /// Write the logging policy's parameters to this file, in the format of POST /v1/policies.
    #[arg(long, value_name = "FILE")]
    policy_out: Option<PathBuf>,
    /// The file to write, compressed if its name ends in .gz or .zst; - is standard output.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Runs `simulate`.
///
/// # Errors
/// If the dataset cannot be read, the format cannot hold the log, or the output cannot be written.
pub fn simulate(args: SimulateDatasetArgs) -> Result<(), CommandError> {
    let dataset = args.dataset;
    let format = FileFormat::of_file(&args.out, args.format)?;
    let m = args.interactions as usize;
    let dim = if args.no_features { 0 } else { dataset.dim() };
    let layout = WriteLayout {
        dim,
        n_actions: dataset.n_actions(),
        outcome: OutcomeKind::Cost,
        context_ids: m > 1,
        ..WriteLayout::default()
    };
    format.format.can_write(&layout)?;
    let bar = spinner(&format!("reading {}", dataset.name()));
    let data = load(dataset, args.data_dir.as_deref())?;
    let all = Logger::contexts_of(data.train.len());
    let contexts = contexts(args.rows.unwrap_or(all * m), m, all)?;
    bar.set_message("training the logging policy");
    let logger = Logger::train(&data, args.seed);
    bar.set_message("logging");
    let bandit = logger.log(args.alpha, m, Some(contexts))?;
    let risk = true_risk(&bandit.logging_policy, &data.test)?;
    bar.finish_and_clear();
    let bar = progress(contexts * m, "writing");
    let mut sum = 0.0;
    let file = OutputFile { path: &args.out, format, layout: &layout };
    file.write(|writer| write_log(&bandit.log, dim, writer, &bar, &mut sum))?;
    bar.finish_and_clear();
    if let Some(path) = &args.policy_out {
        let text = serde_json::to_vec(&bandit.logging_policy)?;
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    eprint!(
        "{}: {}\nthe logging policy has risk {risk:.4} on the {} test examples and {:.4} in the log\n{}",
        data.name,
        counts(contexts * m, contexts, &layout),
        data.test.len(),
        sum / (contexts * m) as f64,
        file.upload_command()
    );
    Ok(())
}

fn write_log<W: Write>(
    log: &dyn LogSource,
    dim: usize,
    writer: &mut LogWriter<W>,
    bar: &ProgressBar,
    sum: &mut f64,
) -> Result<(), CommandError> {
    for index in 0..log.chunks() {
        let chunk = log.chunk(index)?;
        for c in 0..chunk.contexts() {
            let row = chunk.x.row(c);
            let x = &row.as_slice().ok_or("the log's features are not row-major")?[..dim];
            let context = chunk.context(c);
            let propensities = context.full.ok_or("the log has no full propensities")?;
            for (&action, &outcome) in context.actions.iter().zip(context.costs) {
                writer.write(&LoggedRow {
                    x,
                    action,
                    propensities,
                    outcome,
                    context: chunk.ordinals[c],
                    ..LoggedRow::default()
                })?;
                *sum += outcome;
            }
        }
        bar.inc(chunk.rows() as u64);
    }
    Ok(())
}

fn spinner(message: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(message.to_owned());
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    bar
}

/// A progress bar on standard error, drawn only if that is a terminal.
fn progress(rows: usize, message: &str) -> ProgressBar {
    let bar = ProgressBar::new(rows as u64).with_message(message.to_owned());
    match ProgressStyle::with_template("{msg} [{bar:40}] {human_pos}/{human_len} rows, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
