//! CSV: a header that names the columns, then one row per record. Row numbers are line numbers, and the
//! header is in line 1; empty lines are skipped. An empty cell is a missing field.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::decompress::Decoded;
use crate::records::{Cells, Records};
use crate::row::{
    CANDIDATE_PREFIX, FormatError, Notes, NumberList, OUTCOME_PREFIX, RawRow, ReadContext, RowFault, Visit,
};
use crate::time;

const COLUMNS: &str = "x0, x1, …, action, propensity, p0, p1, …, cost, reward, outcome.NAME, timestamp, policy_version, context_id, event_id, \
     candidate.NAME, candidate.NAME.p0, candidate.NAME.p1, …";

pub fn read(source: &mut Decoded, context: &ReadContext, visit: &mut Visit) -> Result<Notes, FormatError> {
    let mut records = Records::new(source, context.limits.line_bytes);
    let header = match records.next()? {
        Some((_, Ok(cells))) => {
            Header::of(cells, context.candidates_only).map_err(FormatError::Unreadable)?
        }
        Some((line, Err(fault))) => {
            return Err(FormatError::Unreadable(format!("the header in line {line} {}", fault.message)));
        }
        None => return Err(FormatError::Unreadable("the log is empty; it has no header and no rows".into())),
    };
    while let Some((number, cells)) = records.next()? {
        let row = cells.and_then(|cells| header.row(cells));
        visit.row(number, row).map_err(FormatError::Stopped)?;
    }
    Ok(Notes::default())
}

/// What a column holds.
enum Column {
    X(usize),
    Action,
    Propensity,
    P(usize),
    Cost,
    Reward,
    Outcome(String),
    ContextId,
    EventId,
    Candidate(String),
    /// π(a|x) of one of all actions, of the candidate with this number in `Header::candidates`.
    CandidateP(usize, usize),
    Timestamp,
    PolicyVersion,
}

struct Header {
    columns: Vec<Column>,
    /// Columns x0, x1, …
    dim: usize,
    /// Columns p0, p1, …
    full: usize,
    /// The candidates with columns candidate.NAME.p0, candidate.NAME.p1, … and the number of these columns.
    candidates: Vec<(String, usize)>,
}

impl Header {
    /// The error names the column and lists the valid columns.
    fn of(cells: Cells, candidates_only: bool) -> Result<Header, String> {
        let mut names = HashSet::new();
        let mut lists: Vec<(String, BTreeSet<usize>)> = Vec::new();
        let mut columns = Vec::with_capacity(cells.len());
        for (i, cell) in cells.iter().enumerate() {
            if i == 0 && (cell.starts_with(b"\xff\xfe") || cell.starts_with(b"\xfe\xff")) {
                return Err("the file is UTF-16; save it as UTF-8".into());
            }
            let name = std::str::from_utf8(cell)
                .map_err(|_| format!("the name of column {} is not UTF-8; save the file as UTF-8", i + 1))?;
            if !names.insert(name) {
                return Err(format!("duplicate column {name:?}"));
            }
            let known = candidate_list(name, &mut lists).or_else(|| column(name));
            columns.push(known.ok_or_else(|| unknown(name, i, cells.len()))?);
        }
        let index = |of: fn(&Column) -> Option<usize>| columns.iter().filter_map(of).collect::<BTreeSet<_>>();
        let x = index(|c| if let Column::X(j) = c { Some(*j) } else { None });
        let p = index(|c| if let Column::P(a) = c { Some(*a) } else { None });
        check_sequence("x", &x)?;
        check_sequence("p", &p)?;
        for (name, list) in &lists {
            check_sequence(&format!("{CANDIDATE_PREFIX}{name}.p"), list)?;
        }
        let candidates = lists.into_iter().map(|(name, list)| (name, list.len())).collect();
        let header = Header { columns, dim: x.len(), full: p.len(), candidates };
        if candidates_only {
            return Ok(header);
        }
        if !names.contains("action") {
            return Err(format!("the column \"action\" is missing; the columns are {COLUMNS}"));
        }
        let named_outcomes = header.columns.iter().any(|column| matches!(column, Column::Outcome(_)));
        if !names.contains("cost") && !names.contains("reward") && !named_outcomes {
            return Err(format!("the column \"cost\" or \"reward\" is missing; the columns are {COLUMNS}"));
        }
        Ok(header)
    }

    fn row(&self, cells: Cells) -> Result<RawRow<'static>, RowFault> {
        if cells.len() != self.columns.len() {
            let message = format!("has {} cells, but the header has {}", cells.len(), self.columns.len());
            return Err(RowFault::new("row", message));
        }
        let mut row = RawRow::default();
        let (mut x, mut p) = (vec![None; self.dim], vec![None; self.full]);
        let mut candidates = BTreeMap::new();
        let mut lists: Vec<Vec<Option<f64>>> = self.candidates.iter().map(|(_, k)| vec![None; *k]).collect();
        for (column, cell) in self.columns.iter().zip(cells.iter()).filter(|(_, cell)| !cell.is_empty()) {
            match column {
                Column::X(j) => x[*j] = Some(number(cell, || format!("x[{j}]"))?),
                Column::P(a) => p[*a] = Some(number(cell, || format!("propensities[{a}]"))?),
                Column::Action => row.action = Some(integer(cell)?),
                Column::Propensity => row.propensity = Some(number(cell, || "propensity".into())?),
                Column::Cost => row.cost = Some(number(cell, || "cost".into())?),
                Column::Reward => row.reward = Some(number(cell, || "reward".into())?),
                Column::Outcome(name) => {
                    let value = number(cell, || format!("outcomes.{name}"))?;
                    row.outcomes.get_or_insert_default().insert(name.clone(), value);
                }
                Column::ContextId => row.context_id = Some(text(cell, "context_id")?),
                Column::EventId => row.event_id = Some(text(cell, "event_id")?),
                Column::Candidate(name) => {
                    let value = number(cell, || format!("candidates.{name}"))?;
                    candidates.insert(name.clone(), value);
                }
                Column::CandidateP(at, a) => {
                    let field = || format!("candidate_propensities.{}[{a}]", self.candidates[*at].0);
                    lists[*at][*a] = Some(number(cell, field)?);
                }
                Column::Timestamp => row.timestamp = Some(timestamp(cell)?),
                Column::PolicyVersion => row.policy_version = Some(text(cell, "policy_version")?),
            }
        }
        row.x = whole(x, "x")?.map(NumberList::Parsed);
        row.propensities = whole(p, "propensities")?.map(NumberList::Parsed);
        row.candidates = (!candidates.is_empty()).then_some(candidates);
        for ((name, _), list) in self.candidates.iter().zip(lists) {
            if let Some(list) = whole(list, &format!("candidate_propensities.{name}"))? {
                let all = row.candidate_propensities.get_or_insert_default();
                all.insert(name.clone(), NumberList::Parsed(list));
            }
        }
        Ok(row)
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
        "timestamp" => Column::Timestamp,
        "policy_version" => Column::PolicyVersion,
        _ => {
            if let Some(name) = name.strip_prefix(CANDIDATE_PREFIX).filter(|name| !name.is_empty()) {
                return Some(Column::Candidate(name.into()));
            }
            if let Some(name) = name.strip_prefix(OUTCOME_PREFIX).filter(|name| !name.is_empty()) {
                return Some(Column::Outcome(name.into()));
            }
            let (kind, index) = name.split_at_checked(1)?;
            let index = plain_index(index)?;
            match kind {
                "x" => Column::X(index),
                "p" => Column::P(index),
                _ => return None,
            }
        }
    })
}

/// The column of one action's probability, candidate.NAME.p0 and so on, whose candidate is numbered in `lists`.
fn candidate_list(name: &str, lists: &mut Vec<(String, BTreeSet<usize>)>) -> Option<Column> {
    let (candidate, action) = name.strip_prefix(CANDIDATE_PREFIX)?.rsplit_once(".p")?;
    let action = plain_index(action).filter(|_| !candidate.is_empty())?;
    let at = lists.iter().position(|(other, _)| other == candidate).unwrap_or_else(|| {
        lists.push((candidate.into(), BTreeSet::new()));
        lists.len() - 1
    });
    lists[at].1.insert(action);
    Some(Column::CandidateP(at, action))
}

/// An index in digits without leading zeros.
fn plain_index(digits: &str) -> Option<usize> {
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|_| plain)
}

fn unknown(name: &str, i: usize, columns: usize) -> String {
    let shown: String = name.chars().take(60).collect();
    let hint = match name {
        _ if columns == 1 => "; the first line must name the columns, separated by commas",
        _ if name.trim() != name => "; remove the spaces around the name",
        _ => "",
    };
    format!("the column {shown:?} (number {}) is unknown{hint}; the columns are {COLUMNS}", i + 1)
}

fn check_sequence(letter: &str, found: &BTreeSet<usize>) -> Result<(), String> {
    match found.iter().enumerate().find(|(expected, index)| expected != *index) {
        Some((missing, index)) => Err(format!(
            "the column \"{letter}{missing}\" is missing although there is \"{letter}{index}\"; number them from 0 without gaps"
        )),
        None => Ok(()),
    }
}

/// The numbers if all are present, or `None` if all are missing.
fn whole(cells: Vec<Option<f64>>, field: &str) -> Result<Option<Vec<f64>>, RowFault> {
    if cells.iter().all(Option::is_none) {
        return Ok(None);
    }
    let given = |(j, cell): (usize, Option<f64>)| {
        cell.ok_or_else(|| {
            RowFault::new(format!("{field}[{j}]"), "is empty although other numbers of the list are not")
        })
    };
    cells.into_iter().enumerate().map(given).collect::<Result<_, _>>().map(Some)
}

/// A number made of digits, a point and an exponent. Nothing else is accepted, even if the library would
/// accept it.
fn number(cell: &[u8], field: impl FnOnce() -> String) -> Result<f64, RowFault> {
    let plain = cell.iter().all(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    let value = std::str::from_utf8(cell).ok().filter(|_| plain).and_then(|text| text.parse().ok());
    value.ok_or_else(|| {
        let message = format!(
            "{:?} is not a number such as 0.25 or 2.5e-1; NaN, infinity, hexadecimal digits, spaces and separators are not accepted",
            shown(cell)
        );
        RowFault::new(field(), message)
    })
}

fn integer(cell: &[u8]) -> Result<i64, RowFault> {
    let value = std::str::from_utf8(cell).ok().and_then(|text| text.parse().ok());
    value.ok_or_else(|| {
        RowFault::new("action", format!("{:?} is not an integer; write 3, not 3.0", shown(cell)))
    })
}

/// A time as a number or as text.
fn timestamp(cell: &[u8]) -> Result<i64, RowFault> {
    let fault = |message: String| RowFault::new("timestamp", message);
    match number(cell, String::new) {
        Ok(value) => time::of_number(value).map_err(fault),
        Err(_) => time::of_text(&text(cell, "timestamp")?).map_err(fault),
    }
}

fn text(cell: &[u8], field: &str) -> Result<String, RowFault> {
    String::from_utf8(cell.to_vec()).map_err(|_| RowFault::new(field, "is not UTF-8"))
}

fn shown(cell: &[u8]) -> String {
    String::from_utf8_lossy(cell).chars().take(40).collect()
}
