//! CSV: a header that names the columns, then a row a record. Row numbers are line numbers, the
//! header's line being 1; empty lines are passed over. A cell that is empty is a field left out.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Read;

use super::IngestLimits;
use super::records::{Cells, Records};
use super::row::{CANDIDATE_PREFIX, Fault, FormatError, List, RawRow, Visit};

const COLUMNS: &str =
    "x0, x1, …, action, propensity, p0, p1, …, cost, reward, context_id, event_id, candidate.NAME";

pub fn read(source: impl Read, limits: &IngestLimits, visit: &mut Visit) -> Result<(), FormatError> {
    let mut records = Records::new(source, limits.line_bytes);
    let broken = |error: std::io::Error| FormatError::Unreadable(error.to_string());
    let header = match records.next().map_err(broken)? {
        Some((_, Ok(cells))) => Header::of(cells).map_err(FormatError::Unreadable)?,
        Some((line, Err(fault))) => {
            return Err(FormatError::Unreadable(format!("the header, line {line}, {}", fault.message)));
        }
        None => return Err(FormatError::Unreadable("there is no header and no row in the body".into())),
    };
    while let Some((number, cells)) = records.next().map_err(broken)? {
        let row = cells.and_then(|cells| header.row(cells));
        visit(number, row).map_err(FormatError::Stopped)?;
    }
    Ok(())
}

enum Column {
    X(usize),
    Action,
    Propensity,
    P(usize),
    Cost,
    Reward,
    ContextId,
    EventId,
    Candidate(String),
}

struct Header {
    columns: Vec<Column>,
    /// Columns x0, x1, …
    dim: usize,
    /// Columns p0, p1, …
    full: usize,
}

impl Header {
    /// The error names the column and says what there may be.
    fn of(cells: Cells) -> Result<Header, String> {
        let mut names = HashSet::new();
        let mut columns = Vec::with_capacity(cells.len());
        for (i, cell) in cells.iter().enumerate() {
            let name = if i == 0 { without_mark(cell)? } else { cell };
            let name = std::str::from_utf8(name)
                .map_err(|_| format!("the name of column {} is not UTF-8; save the file as UTF-8", i + 1))?;
            if !names.insert(name) {
                return Err(format!("the column {name:?} is there twice"));
            }
            columns.push(column(name).ok_or_else(|| unknown(name, i, cells.len()))?);
        }
        let index = |of: fn(&Column) -> Option<usize>| columns.iter().filter_map(of).collect::<BTreeSet<_>>();
        let x = index(|c| if let Column::X(j) = c { Some(*j) } else { None });
        let p = index(|c| if let Column::P(a) = c { Some(*a) } else { None });
        check_sequence("x", &x)?;
        check_sequence("p", &p)?;
        if !names.contains("action") {
            return Err(format!("the column \"action\" is missing; columns are {COLUMNS}"));
        }
        if !names.contains("cost") && !names.contains("reward") {
            return Err(format!("there is neither a column \"cost\" nor \"reward\"; columns are {COLUMNS}"));
        }
        Ok(Header { columns, dim: x.len(), full: p.len() })
    }

    fn row(&self, cells: Cells) -> Result<RawRow<'static>, Fault> {
        if cells.len() != self.columns.len() {
            let message = format!("has {} cells where the header has {}", cells.len(), self.columns.len());
            return Err(Fault::new("row", message));
        }
        let mut row = RawRow::default();
        let (mut x, mut p) = (vec![None; self.dim], vec![None; self.full]);
        let mut candidates = BTreeMap::new();
        for (column, cell) in self.columns.iter().zip(cells.iter()).filter(|(_, cell)| !cell.is_empty()) {
            match column {
                Column::X(j) => x[*j] = Some(number(cell, || format!("x[{j}]"))?),
                Column::P(a) => p[*a] = Some(number(cell, || format!("propensities[{a}]"))?),
                Column::Action => row.action = Some(integer(cell)?),
                Column::Propensity => row.propensity = Some(number(cell, || "propensity".into())?),
                Column::Cost => row.cost = Some(number(cell, || "cost".into())?),
                Column::Reward => row.reward = Some(number(cell, || "reward".into())?),
                Column::ContextId => row.context_id = Some(text(cell, "context_id")?),
                Column::EventId => row.event_id = Some(text(cell, "event_id")?),
                Column::Candidate(name) => {
                    let value = number(cell, || format!("candidates.{name}"))?;
                    candidates.insert(name.clone(), value);
                }
            }
        }
        row.x = whole(x, "x")?.map(List::Made);
        row.propensities = whole(p, "propensities")?.map(List::Made);
        row.candidates = (!candidates.is_empty()).then_some(candidates);
        Ok(row)
    }
}

/// The first name without the mark that some programs put before UTF-8.
fn without_mark(name: &[u8]) -> Result<&[u8], String> {
    match name {
        [0xef, 0xbb, 0xbf, rest @ ..] => Ok(rest),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Err("the file is UTF-16; save it as UTF-8".into()),
        name => Ok(name),
    }
}

fn column(name: &str) -> Option<Column> {
    Some(match name {
        "action" => Column::Action,
        "propensity" => Column::Propensity,
        "cost" => Column::Cost,
        "reward" => Column::Reward,
        "context_id" => Column::ContextId,
        "event_id" => Column::EventId,
        _ => {
            if let Some(name) = name.strip_prefix(CANDIDATE_PREFIX).filter(|name| !name.is_empty()) {
                return Some(Column::Candidate(name.into()));
            }
            let (kind, index) = name.split_at_checked(1)?;
            let plain =
                index.bytes().all(|b| b.is_ascii_digit()) && (index == "0" || !index.starts_with('0'));
            let index = index.parse().ok().filter(|_| plain)?;
            match kind {
                "x" => Column::X(index),
                "p" => Column::P(index),
                _ => return None,
            }
        }
    })
}

fn unknown(name: &str, i: usize, columns: usize) -> String {
    let shown: String = name.chars().take(60).collect();
    let hint = match name {
        _ if columns == 1 => "; the first line must name the columns, with commas between them",
        _ if name.trim() != name => "; there must be no space around a name",
        _ => "",
    };
    format!("the column {shown:?} (number {}) is not one of a log{hint}; columns are {COLUMNS}", i + 1)
}

fn check_sequence(letter: &str, found: &BTreeSet<usize>) -> Result<(), String> {
    match found.iter().enumerate().find(|(expected, index)| expected != *index) {
        Some((missing, index)) => Err(format!(
            "the column \"{letter}{missing}\" is missing; there is {letter}{index}, and they are counted from 0 without a gap"
        )),
        None => Ok(()),
    }
}

/// All of the numbers, or none of them.
fn whole(cells: Vec<Option<f64>>, field: &str) -> Result<Option<Vec<f64>>, Fault> {
    if cells.iter().all(Option::is_none) {
        return Ok(None);
    }
    let given = |(j, cell): (usize, Option<f64>)| {
        cell.ok_or_else(|| Fault::new(format!("{field}[{j}]"), "is empty while its neighbours are not"))
    };
    cells.into_iter().enumerate().map(given).collect::<Result<_, _>>().map(Some)
}

/// Digits, a point, an exponent: nothing else is a number here, whatever a library would accept.
fn number(cell: &[u8], field: impl FnOnce() -> String) -> Result<f64, Fault> {
    let plain = cell.iter().all(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    let value = std::str::from_utf8(cell).ok().filter(|_| plain).and_then(|text| text.parse().ok());
    value.ok_or_else(|| {
        let message = format!(
            "{:?} is not a number such as 0.25 or 2.5e-1; NaN, infinity, hexadecimal, spaces and separators are not read",
            shown(cell)
        );
        Fault::new(field(), message)
    })
}

fn integer(cell: &[u8]) -> Result<i64, Fault> {
    let value = std::str::from_utf8(cell).ok().and_then(|text| text.parse().ok());
    value
        .ok_or_else(|| Fault::new("action", format!("{:?} is not an integer; write 3, not 3.0", shown(cell))))
}

fn text(cell: &[u8], field: &str) -> Result<String, Fault> {
    String::from_utf8(cell.to_vec()).map_err(|_| Fault::new(field, "is not UTF-8"))
}

fn shown(cell: &[u8]) -> String {
    String::from_utf8_lossy(cell).chars().take(40).collect()
}
