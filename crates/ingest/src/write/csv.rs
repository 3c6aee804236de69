//! CSV: a header, then one row per line. Only the names of outcomes may need quotes.

use std::io::{self, Write};

use super::numbers::{double, list, single};
use super::{LoggedRow, RowEncoder, WriteLayout};
use crate::row::OUTCOME_PREFIX;
use crate::time;

struct Csv {
    layout: WriteLayout,
    line: Vec<u8>,
}

pub fn can_write(layout: &WriteLayout) -> Result<(), String> {
    match layout.sets {
        Some(_) => Err(super::sets::refused("csv")),
        None => Ok(()),
    }
}

pub fn start(layout: &WriteLayout, to: &mut dyn Write) -> io::Result<Box<dyn RowEncoder>> {
    let mut names: Vec<String> = Vec::new();
    names.extend(layout.context_ids.then(|| "context_id".into()));
    names.extend(layout.timestamps.then(|| "timestamp".into()));
    names.extend(layout.versions.then(|| "policy_version".into()));
    names.extend((0..layout.dim).map(|j| format!("x{j}")));
    names.push("action".into());
    names.extend((0..layout.n_actions).map(|a| format!("p{a}")));
    match layout.outcomes.is_empty() {
        true => names.push(layout.outcome_name().into()),
        false => names
            .extend(layout.outcomes.iter().map(|named| quoted(&format!("{OUTCOME_PREFIX}{}", named.name)))),
    }
    writeln!(to, "{}", names.join(","))?;
    Ok(Box::new(Csv { layout: layout.clone(), line: Vec::new() }))
}

/// A cell, in quotes if it needs them.
fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.into(),
    }
}

impl RowEncoder for Csv {
    fn write(&mut self, row: &LoggedRow, to: &mut dyn Write) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        if self.layout.context_ids {
            write!(line, "{},", row.context)?;
        }
        if self.layout.timestamps {
            write!(line, "{},", time::to_text(row.timestamp))?;
        }
        if self.layout.versions {
            write!(line, "{},", row.version)?;
        }
        if self.layout.dim > 0 {
            list(line, row.x, single);
            line.push(b',');
        }
        write!(line, "{},", row.action)?;
        list(line, row.propensities, double);
        line.push(b',');
        list(line, row.outcomes(&self.layout), double);
        line.push(b'\n');
        to.write_all(line)
    }
}
