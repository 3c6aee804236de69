//! `guarantor simulate --dataset shop`: a log whose rows have several outcomes.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use guarantor_ingest::write::file::{OutputFile, counts};
use guarantor_ingest::write::{LogWriter, LoggedRow, WriteLayout};
use guarantor_ingest::{FileFormat, shop};
use serde_json::json;

use super::Failure;
use super::log_file::read_policy;
use super::simulate::{SimulateToyArgs, print_next};

const SHOP_ROWS: usize = 20_000;

/// Writes the log of a simulated shop, and the truth if it is asked for.
pub fn simulate_shop(args: &SimulateToyArgs, format: FileFormat) -> Result<(), Failure> {
    let rows = args.rows.unwrap_or(SHOP_ROWS);
    if rows == 0 {
        return Err("--rows 0: must be positive".into());
    }
    for (option, used) in [("--interactions", args.interactions > 1), ("--retrain", args.retrain > 0)] {
        if used {
            return Err(format!("{option}: the shop does not have it; use --dataset toy").into());
        }
    }
    let layout = WriteLayout {
        dim: if args.no_features { 0 } else { shop::FEATURES },
        n_actions: shop::ACTIONS,
        outcomes: shop::outcomes(),
        ..WriteLayout::default()
    };
    format.format.can_write(&layout)?;
    let mut world = shop::Shop::new(args.world, args.seed, args.alpha);
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
    let mut found = [[0.0; shop::OUTCOMES]; 2];
    file.write(|writer| write_shop(&mut world, rows, layout.dim, writer, &mut truth, &mut found))?;
    if let (Some(mut to), Some(path)) = (truth, &args.truth) {
        to.flush().map_err(|error| failed(path, error))?;
    }
    if let Some(path) = &args.policy_out {
        let text = serde_json::to_vec(world.policy())?;
        std::fs::write(path, text).map_err(|error| failed(path, error))?;
    }
    let [logging, best] = found.map(|sums| sums.map(|sum| format!("{:.4}", sum / rows as f64)));
    eprintln!("shop: {}", counts(rows, rows, &layout));
    eprintln!("expected revenue, complaints and returns of the logging policy: {}", logging.join(", "));
    eprintln!("of the policy with the largest revenue: {}", best.join(", "));
    print_next(args, &file);
    Ok(())
}

/// Writes rows, and adds up the expected outcomes of the logging policy and of the one with the largest revenue.
fn write_shop<W: Write, T: Write>(
    world: &mut shop::Shop,
    rows: usize,
    dim: usize,
    writer: &mut LogWriter<W>,
    truth: &mut Option<T>,
    found: &mut [[f64; shop::OUTCOMES]; 2],
) -> io::Result<()> {
    for row in 0..rows {
        let visit = world.visit();
        let most = visit.truth.iter().max_by(|a, b| a[0].total_cmp(&b[0]));
        for i in 0..shop::OUTCOMES {
            let played = visit.propensities.iter().zip(&visit.truth);
            found[0][i] += played.map(|(p, truth)| p * truth[i]).sum::<f64>();
            found[1][i] += most.map_or(0.0, |most| most[i]);
        }
        writer.write(&LoggedRow {
            x: &visit.x[..dim],
            action: visit.action,
            propensities: &visit.propensities,
            outcomes: &visit.outcomes,
            context: row as u64,
            ..LoggedRow::default()
        })?;
        if let Some(truth) = truth {
            let of = |i: usize| visit.truth.iter().map(|truth| truth[i]).collect::<Vec<f64>>();
            let line = json!({"revenue": of(0), "complaint": of(1), "return": of(2)});
            serde_json::to_writer(&mut *truth, &line)?;
            truth.write_all(b"\n")?;
        }
    }
    Ok(())
}
