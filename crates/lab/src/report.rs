//! All that is said of rows in words and numbers: what the command prints and `tables.md` holds.

use super::rows::Row;
use super::{claims, table};

/// The tables of each figure that the rows have, then the claims.
pub fn text(rows: &[Row]) -> String {
    let mut figures: Vec<u8> = rows.iter().map(|r| r.figure).collect();
    figures.sort();
    figures.dedup();
    let tables: String = figures.iter().map(|&figure| format!("{}\n", table::tables(rows, figure))).collect();
    tables + &claims::table(&claims::claims(rows))
}
