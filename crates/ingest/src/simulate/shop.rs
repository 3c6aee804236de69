//! The shop, whose rows have several outcomes.

use std::io::{self, Write};

use serde_json::json;

use crate::shop;
use crate::write::{LogWriter, LoggedRow, WriteLayout};

/// The sums of the expected outcomes: of the logging policy, and of the one with the largest revenue.
pub type ShopFound = [[f64; shop::OUTCOMES]; 2];

/// The columns of a log of the shop.
pub fn shop_layout(no_features: bool) -> WriteLayout {
    WriteLayout {
        dim: if no_features { 0 } else { shop::FEATURES },
        n_actions: shop::ACTIONS,
        outcomes: shop::outcomes(),
        ..WriteLayout::default()
    }
}

/// Writes the rows of the shop, and adds up the expected outcomes. `truth` gets those of every action of every row.
///
/// # Errors
/// If a row cannot be written.
pub fn write_shop<W: Write, T: Write>(
    world: &mut shop::Shop,
    rows: usize,
    dim: usize,
    writer: &mut LogWriter<W>,
    truth: &mut Option<T>,
    found: &mut ShopFound,
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
