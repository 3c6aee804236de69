//! `guarantor-lab simulate`: a log of a policy that is known, on data that is known, in any format that can
//! be uploaded.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use guarantor_engine::log::{LogSource, OutcomeKind};
use guarantor_ingest::write::file::{OutputFile, contexts, counts};
use guarantor_ingest::write::{LogWriter, LoggedRow, WriteLayout};
use guarantor_ingest::{FileFormat, Format};
use guarantor_lab::{Dataset, Logger, load, true_risk};
use indicatif::{ProgressBar, ProgressStyle};

use super::{Failure, temperature};

#[derive(Args)]
pub struct SimulateArgs {
    /// One of the paper's datasets.
    #[arg(long, value_enum)]
    dataset: Dataset,
    /// The directory of the dataset's files [default: where Debian's packages put them].
    #[arg(long, value_name = "DIR", alias = "dir")]
    data_dir: Option<PathBuf>,
    /// The inverse temperature of the logging policy: 0 is uniform, 1 is as it was trained.
    #[arg(long, default_value_t = 0.5, value_parser = temperature)]
    alpha: f64,
    /// How often each context is logged.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    interactions: u32,
    /// Rows to write [default: all that the dataset gives].
    #[arg(long)]
    rows: Option<usize>,
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The format [default: the one that the file's name implies].
    #[arg(long)]
    format: Option<Format>,
    /// Leave the features out: a log for evaluation only.
    #[arg(long)]
    no_features: bool,
    /// Write the parameters of the logging policy to this file, as POST /v1/policies takes them.
    #[arg(long, value_name = "FILE")]
    policy_out: Option<PathBuf>,
    /// Where the log goes; compressed if the name ends in .gz or .zst; - for standard output.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// `guarantor-lab simulate`.
pub fn simulate(args: SimulateArgs) -> Result<(), Failure> {
    let dataset = args.dataset;
    let format = FileFormat::of_file(&args.out, args.format)?;
    let m = args.interactions as usize;
    let dim = if args.no_features { 0 } else { dataset.dim() };
    let layout =
        WriteLayout { dim, n_actions: dataset.n_actions(), outcome: OutcomeKind::Cost, context_ids: m > 1 };
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
) -> Result<(), Failure> {
    for index in 0..log.chunks() {
        let chunk = log.chunk(index)?;
        for c in 0..chunk.contexts() {
            let row = chunk.x.row(c);
            let x = &row.as_slice().ok_or("the log's features are not in rows")?[..dim];
            let context = chunk.context(c);
            let propensities = context.full.ok_or("the log has no full propensities")?;
            for (&action, &outcome) in context.actions.iter().zip(context.costs) {
                writer.write(&LoggedRow { x, action, propensities, outcome, context: chunk.ordinals[c] })?;
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

/// Drawn on standard error if that is a terminal, and nowhere else.
fn progress(rows: usize, message: &str) -> ProgressBar {
    let bar = ProgressBar::new(rows as u64).with_message(message.to_owned());
    match ProgressStyle::with_template("{msg} [{bar:40}] {human_pos}/{human_len} rows, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
