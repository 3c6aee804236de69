//! `guarantor simulate --dataset news`: a log whose rows have their own actions.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use guarantor_ingest::write::file::OutputFile;
use guarantor_ingest::write::{LogWriter, LoggedRow, LoggedSet, WriteLayout};
use guarantor_ingest::{FileFormat, news};

use super::Failure;
use super::log_file::read_policy;
use super::simulate::{SimulateToyArgs, days, print_next};

const NEWS_ROWS: usize = 20_000;

/// Writes the log of a simulated news site, and the truth if it is asked for.
pub fn simulate_news(args: &SimulateToyArgs, format: FileFormat) -> Result<(), Failure> {
    let (rows, retrain) = (args.rows.unwrap_or(NEWS_ROWS), args.retrain as usize);
    if rows == 0 || retrain >= rows {
        return Err(format!("--rows {rows}: must be more than --retrain {retrain}").into());
    }
    for (option, used) in [
        ("--interactions", args.interactions > 1),
        ("--no-features", args.no_features),
        ("--policy-out", args.policy_out.is_some()),
    ] {
        if used {
            return Err(format!("{option}: the news world does not have it; use --dataset toy").into());
        }
    }
    // DSJSON has no policy versions, and a log without them is what most teams have.
    let layout = WriteLayout {
        timestamps: true,
        versions: retrain > 0 && format.format != guarantor_ingest::Format::Dsjson,
        sets: Some(news::LAYOUT),
        ..WriteLayout::default()
    };
    format.format.can_write(&layout)?;
    let mut world = news::News::new(args.world, args.seed);
    if let Some(path) = &args.policy {
        let given = world.with_policy(read_policy(path)?);
        world = given.map_err(|why| format!("{}: {why}", path.display()))?;
    }
    let failed = |path: &std::path::Path, error: io::Error| format!("{}: {error}", path.display());
    let mut truth = match &args.truth {
        Some(path) => Some(BufWriter::new(File::create(path).map_err(|error| failed(path, error))?)),
        None => None,
    };
    let file = OutputFile { path: &args.out, format, layout: &layout };
    let mut found = Found::default();
    file.write(|writer| write_news(&mut world, rows, retrain, writer, &mut truth, &mut found))?;
    if let (Some(mut to), Some(path)) = (truth, &args.truth) {
        to.flush().map_err(|error| failed(path, error))?;
    }
    let n = rows as f64;
    eprintln!(
        "news world: {rows} rows, 3 to 15 actions each; click rate of the logging policy {:.4}, of the best policy {:.4}",
        found.logging / n,
        found.best / n
    );
    print_next(args, &file);
    Ok(())
}

/// The expected clicks of the logging policy and of the best one.
#[derive(Default)]
struct Found {
    logging: f64,
    best: f64,
}

fn write_news<W: Write, T: Write>(
    world: &mut news::News,
    rows: usize,
    retrain: usize,
    writer: &mut LogWriter<W>,
    truth: &mut Option<T>,
    found: &mut Found,
) -> io::Result<()> {
    for day in days(rows, retrain) {
        if day.number > 0 {
            world.retrain();
        }
        for row in day.contexts.clone() {
            let request = world.request();
            world.learn(&request);
            let clicks = request.propensities.iter().zip(&request.clicks);
            found.logging += clicks.map(|(p, c)| p * c).sum::<f64>();
            found.best += request.clicks.iter().copied().fold(0.0, f64::max);
            writer.write(&LoggedRow {
                action: request.action,
                propensities: &request.propensities,
                outcome: request.reward,
                timestamp: day.time_of(row),
                version: &day.version,
                set: Some(LoggedSet { request: &request.request, actions: &request.actions }),
                ..LoggedRow::default()
            })?;
            if let Some(truth) = truth {
                serde_json::to_writer(&mut *truth, &request.clicks)?;
                truth.write_all(b"\n")?;
            }
        }
    }
    Ok(())
}
