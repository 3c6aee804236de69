//! `guarantor simulate`: a log of a policy that is known, on data that is known, in any format that
//! can be uploaded.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use guarantor::engine::log::{LogSource, OutcomeKind};
use guarantor::engine::policy::PolicyParams;
use guarantor::ingest::write::{Decision, Format, Layout, LogWriter, Sink};
use guarantor::reproduce::{self, Dataset, Logger, toy, true_risk};
use indicatif::{ProgressBar, ProgressStyle};

use super::Failure;
use super::reproduce::temperature;

#[derive(Args)]
pub struct SimulateArgs {
    /// One of the paper's datasets, or a small world that needs no files.
    #[arg(long, value_enum)]
    dataset: World,
    /// Where the dataset's files are, if not where Debian would put them.
    #[arg(long, value_name = "DIR", alias = "dir")]
    data_dir: Option<PathBuf>,
    /// The inverse temperature of the policy that logs: 0 is uniform, 1 is as sure as it was trained.
    #[arg(long, default_value_t = 0.5, value_parser = temperature)]
    alpha: f64,
    /// How often each context is logged.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    interactions: u32,
    /// Rows to write; all that the dataset gives unless it is said, and 20000 of the toy world.
    #[arg(long)]
    rows: Option<usize>,
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The format; unless it is said, the one that the name of the file says.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Leave the features out: a log for evaluation only.
    #[arg(long)]
    no_features: bool,
    /// Write the parameters of the policy that logs to this file, as POST /v1/policies takes them.
    #[arg(long, value_name = "FILE")]
    policy_out: Option<PathBuf>,
    /// Where the log goes; compressed where the name ends in .gz or .zst; - for the standard output.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Clone, Copy)]
enum World {
    Paper(Dataset),
    Toy,
}

impl ValueEnum for World {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<World>> = LazyLock::new(|| {
            Dataset::value_variants().iter().map(|&d| World::Paper(d)).chain([World::Toy]).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            World::Paper(dataset) => dataset.to_possible_value(),
            World::Toy => Some(PossibleValue::new("toy")),
        }
    }
}

const TOY_ROWS: usize = 20_000;

/// The log that `guarantor demo` shows, as NDJSON.
pub fn demo_log(rows: usize, seed: u64) -> Result<Vec<u8>, Failure> {
    let mut writer = LogWriter::new(Format::Ndjson, toy_layout(1, false), Vec::new())?;
    write_toy(&mut toy::Toy::new(1.0, seed), (rows, 1, toy::FEATURES), &mut writer, || ())?;
    Ok(writer.finish()?)
}

pub fn simulate(args: SimulateArgs) -> Result<(), Failure> {
    let name = args.out.to_string_lossy().into_owned();
    let format = args.format.or_else(|| Format::by_name(&name)).ok_or_else(|| {
        format!("{name}: the name does not say which format; add --format, or end it in .ndjson, .csv, .parquet, .arrow or .dsjson")
    })?;
    let summary = match args.dataset {
        World::Paper(dataset) => from_dataset(&args, dataset, format)?,
        World::Toy => from_toy(&args, format)?,
    };
    eprint!("{summary}");
    Ok(())
}

fn from_toy(args: &SimulateArgs, format: Format) -> Result<String, Failure> {
    let m = args.interactions as usize;
    let rows = args.rows.unwrap_or(TOY_ROWS - TOY_ROWS % m);
    let contexts = contexts(rows, m, usize::MAX)?;
    let layout = toy_layout(m, args.no_features);
    format.refuse(&layout)?;
    let mut world = toy::Toy::new(args.alpha, args.seed);
    let policy = world.policy();
    let bar = bar(rows, "writing");
    write_file(args, format, &layout, |writer| {
        write_toy(&mut world, (contexts, m, layout.dim), writer, || bar.inc(m as u64))
    })?;
    bar.finish_and_clear();
    write_policy(args, &policy)?;
    Ok(format!("toy world: {}\n{}", counts(rows, contexts, &layout), hint(args, format, &layout)))
}

fn from_dataset(args: &SimulateArgs, dataset: Dataset, format: Format) -> Result<String, Failure> {
    let m = args.interactions as usize;
    let dim = if args.no_features { 0 } else { dataset.dim() };
    let layout =
        Layout { dim, n_actions: dataset.n_actions(), outcome: OutcomeKind::Cost, context_ids: m > 1 };
    format.refuse(&layout)?;
    let bar = spinner(&format!("reading {}", dataset.name()));
    let data = reproduce::load(dataset, args.data_dir.as_deref())?;
    let all = Logger::contexts_of(data.train.len());
    let contexts = contexts(args.rows.unwrap_or(all * m), m, all)?;
    bar.set_message("training the policy that logs");
    let logger = Logger::train(&data, args.seed);
    bar.set_message("logging");
    let bandit = logger.log(args.alpha, m, Some(contexts))?;
    let risk = true_risk(&bandit.logging_policy, &data.test)?;
    bar.finish_and_clear();
    let bar = self::bar(contexts * m, "writing");
    let mut sum = 0.0;
    write_file(args, format, &layout, |writer| write_log(&bandit.log, dim, writer, &bar, &mut sum))?;
    bar.finish_and_clear();
    write_policy(args, &bandit.logging_policy)?;
    Ok(format!(
        "{}: {}\nthe policy that logged has the risk {risk:.4} on the {} test examples, {:.4} in the log\n{}",
        data.name,
        counts(contexts * m, contexts, &layout),
        data.test.len(),
        sum / (contexts * m) as f64,
        hint(args, format, &layout)
    ))
}

/// How many contexts that many rows are.
fn contexts(rows: usize, m: usize, most: usize) -> Result<usize, Failure> {
    if rows == 0 || !rows.is_multiple_of(m) {
        return Err(format!("--rows {rows}: must be a multiple of --interactions {m}, and not 0").into());
    }
    if rows / m > most {
        let rows = most.saturating_mul(m);
        return Err(format!("--rows: there are {most} contexts, which give {rows} rows at most").into());
    }
    Ok(rows / m)
}

fn toy_layout(interactions: usize, no_features: bool) -> Layout {
    Layout {
        dim: if no_features { 0 } else { toy::FEATURES },
        n_actions: toy::ACTIONS,
        outcome: OutcomeKind::Reward,
        context_ids: interactions > 1,
    }
}

fn write_toy<W: Write>(
    world: &mut toy::Toy,
    (contexts, m, dim): (usize, usize, usize),
    writer: &mut LogWriter<W>,
    after: impl Fn(),
) -> io::Result<()> {
    for context in 0..contexts as u64 {
        let visitor = world.visitor(m);
        for &(action, outcome) in &visitor.interactions {
            let (x, propensities) = (&visitor.x[..dim], &visitor.propensities);
            writer.write(&Decision { x, action, propensities, outcome, context })?;
        }
        after();
    }
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
                writer.write(&Decision { x, action, propensities, outcome, context: chunk.ordinals[c] })?;
                *sum += outcome;
            }
        }
        bar.inc(chunk.rows() as u64);
    }
    Ok(())
}

/// Writes beside the file and puts it in its place when it is whole.
fn write_file<E: Into<Failure>>(
    args: &SimulateArgs,
    format: Format,
    layout: &Layout,
    write: impl FnOnce(&mut LogWriter<Sink<Box<dyn Write>>>) -> Result<(), E>,
) -> Result<(), Failure> {
    let out = &args.out;
    let name = out.to_string_lossy().into_owned();
    let failed = |error: io::Error| -> Failure { format!("{name}: {error}").into() };
    let partial = PathBuf::from(format!("{name}.partial"));
    let to_stdout = out == Path::new("-");
    let to: Box<dyn Write> = match to_stdout {
        true => Box::new(io::stdout()),
        false => Box::new(File::create(&partial).map_err(failed)?),
    };
    let written = (|| -> Result<(), Failure> {
        let buffered: Box<dyn Write> = Box::new(BufWriter::with_capacity(1 << 16, to));
        let mut writer = LogWriter::new(format, layout.clone(), Sink::by_name(&name, buffered)?)?;
        write(&mut writer).map_err(Into::into)?;
        writer.finish()?.finish()?.flush()?;
        Ok(())
    })();
    if to_stdout {
        return written;
    }
    match written {
        Ok(()) => std::fs::rename(&partial, out).map_err(failed),
        Err(error) => {
            let _ = std::fs::remove_file(&partial);
            Err(format!("{name}: {error}").into())
        }
    }
}

fn write_policy(args: &SimulateArgs, policy: &PolicyParams) -> Result<(), Failure> {
    if let Some(path) = &args.policy_out {
        let text = serde_json::to_vec(policy)?;
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn counts(rows: usize, contexts: usize, layout: &Layout) -> String {
    let (k, p) = (layout.n_actions, layout.dim);
    format!("{rows} rows, {contexts} contexts, {k} actions, {p} features")
}

/// How the file is uploaded.
fn hint(args: &SimulateArgs, format: Format, layout: &Layout) -> String {
    let name = args.out.to_string_lossy();
    if name == "-" {
        return String::new();
    }
    let mut query = vec![format!("outcome={}", layout.outcome_name())];
    match format {
        Format::Dsjson => query.push(format!("format=dsjson&hash_dims={}", layout.dim)),
        Format::Obd => query.push("format=obd".into()),
        _ => {}
    }
    let encoding = match Sink::<io::Empty>::split(&name).1 {
        Some("gz") => " -H 'content-encoding: gzip'",
        Some(_) => " -H 'content-encoding: zstd'",
        None => "",
    };
    format!(
        "curl -X POST 'localhost:8080/v1/datasets?{}' -H 'content-type: {}'{encoding} --data-binary @{name}\n",
        query.join("&"),
        format.content_type()
    )
}

fn spinner(message: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(message.to_owned());
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    bar
}

/// Drawn on the error output where that is a terminal, and nowhere else.
fn bar(rows: usize, message: &str) -> ProgressBar {
    let bar = ProgressBar::new(rows as u64).with_message(message.to_owned());
    match ProgressStyle::with_template("{msg} [{bar:40}] {human_pos}/{human_len} rows, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
