//! `guarantor simulate --dataset shop`: a log whose rows have several outcomes.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use guarantor_ingest::simulate::{ROWS, ShopFound, shop_layout, write_shop};
use guarantor_ingest::write::file::{OutputFile, counts};
use guarantor_ingest::{FileFormat, shop};

use super::Failure;
use super::log_file::read_policy;
use super::simulate::{SimulateToyArgs, print_next};

/// Writes the log of a simulated shop, and the truth if it is asked for.
pub fn simulate_shop(args: &SimulateToyArgs, format: FileFormat) -> Result<(), Failure> {
    let rows = args.rows.unwrap_or(ROWS);
    if rows == 0 {
        return Err("--rows 0: must be positive".into());
    }
    for (option, used) in [("--interactions", args.interactions > 1), ("--retrain", args.retrain > 0)] {
        if used {
            return Err(format!("{option}: the shop does not have it; use --dataset toy").into());
        }
    }
    let layout = shop_layout(args.no_features);
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
    let mut found = ShopFound::default();
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
