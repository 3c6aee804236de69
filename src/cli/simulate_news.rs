//! `guarantor simulate --dataset news`: a log whose rows have their own actions.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use guarantor_ingest::simulate::{NewsFound, ROWS, news_layout, write_news};
use guarantor_ingest::write::file::OutputFile;
use guarantor_ingest::{FileFormat, news};

use super::Failure;
use super::log_file::read_policy;
use super::simulate::{SimulateToyArgs, print_next};

/// Writes the log of a simulated news site, and the truth if it is asked for.
pub fn simulate_news(args: &SimulateToyArgs, format: FileFormat) -> Result<(), Failure> {
    let (rows, retrain) = (args.rows.unwrap_or(ROWS), args.retrain as usize);
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
    // DSJSON has no policy versions.
    let layout = news_layout(retrain > 0 && format.format != guarantor_ingest::Format::Dsjson);
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
    let mut found = NewsFound::default();
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
