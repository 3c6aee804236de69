//! The text report: what `reproduce` prints and writes to `tables.md`.

use super::rows::Row;
use super::{claims, table};

/// The tables of every figure in the rows, then the claims.
pub fn text(rows: &[Row]) -> String {
    let mut figures: Vec<u8> = rows.iter().map(|r| r.figure).collect();
    figures.sort();
    figures.dedup();
    let tables: String = figures.iter().map(|&figure| format!("{}\n", table::tables(rows, figure))).collect();
    tables + &claims::table(&claims::claims(rows))
}
