//! The Open Bandit Dataset's CSV: a header, then an item shown at a position a line, and whether it
//! was clicked. Fields have no commas or line ends in them. Row numbers are line numbers.
//!
//! x is the user's categories, hashed (`user_feature_0=…` and so on, see `hashing.rs`), then the
//! position as three numbers of which one is 1. Affinities are not used.
//!
//! The file is read twice. Whether all items were equally likely on every row, so that each row's
//! π0(·|x) is known, is only known at the end of the file: single rows of logs that are not uniform
//! can well have the propensity 1/K.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use super::IngestLimits;
use super::errors::IngestError;
use super::hashing::Hashing;
use super::line_by_line::Lines;
use super::row::{Fault, FormatError, Known, Notes, RawRow, Visit};
use guarantor_engine::log::{AGREEMENT_TOLERANCE, OutcomeKind};

pub fn read(
    source: impl Read,
    hashing: Hashing,
    known: &Known,
    limits: &IngestLimits,
    visit: &mut Visit,
) -> Result<Notes, FormatError> {
    let spooled = super::parquet::spool(source, limits)?;
    let mut lines = from_start(&spooled, limits)?;
    let header = header(&mut lines)?;
    let items = header.items(known);
    if let Some(k) = items.filter(|&k| k > limits.actions) {
        let message = format!("there are {k} items; at most {} actions can be", limits.actions);
        return Err(FormatError::Stopped(IngestError::TooLarge(message)));
    }
    let uniform = uniform_over(&mut lines, &header, items, known)?.filter(|&k| k <= limits.actions);
    let rows = Rows { header, hashing, items, uniform, outcome: known.outcome };
    let mut lines = from_start(&spooled, limits)?;
    lines.next()?;
    while let Some((number, line)) = lines.next()? {
        visit(number, line.and_then(|line| rows.row(line))).map_err(FormatError::Stopped)?;
    }
    Ok(Notes { actions: items, ..Notes::default() })
}

fn from_start<'a>(mut file: &'a File, limits: &IngestLimits) -> Result<Lines<&'a File>, FormatError> {
    file.seek(SeekFrom::Start(0))?;
    Ok(Lines::new(file, limits.line_bytes))
}

/// The name of a row's field in the file.
pub fn field_name(field: &str) -> &str {
    match field.split(['[', '.']).next().unwrap_or(field) {
        "action" => "item_id",
        "propensity" | "propensities" => "propensity_score",
        "cost" | "reward" => "click",
        _ => field,
    }
}

/// Where the columns are.
struct Header {
    columns: usize,
    item: usize,
    position: usize,
    click: usize,
    propensity: usize,
    /// With their names.
    users: Vec<(usize, String)>,
    affinities: usize,
}

fn header(lines: &mut Lines<impl Read>) -> Result<Header, FormatError> {
    let unreadable = |why: String| FormatError::Unreadable(format!("not an Open Bandit Dataset file: {why}"));
    let Some((_, line)) = lines.next()? else {
        return Err(unreadable("there is no header".into()));
    };
    let line = line.map_err(|fault| unreadable(format!("the header {}", fault.message)))?;
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let line = std::str::from_utf8(line).map_err(|_| unreadable("the header is not UTF-8".into()))?;
    let names: Vec<&str> = line.split(',').map(bare).collect();
    let (mut users, mut affinities, mut seen) = (Vec::new(), 0, HashSet::new());
    for (i, &name) in names.iter().enumerate() {
        if !seen.insert(name) {
            return Err(unreadable(format!("the column {name:?} is there twice")));
        }
        match name {
            "" | "timestamp" | "item_id" | "position" | "click" | "propensity_score" => {}
            _ if name.starts_with("user_feature_") => users.push((i, name.to_owned())),
            _ if name.starts_with("user-item_affinity_") => affinities += 1,
            _ => return Err(unreadable(format!("there is a column {name:?}"))),
        }
    }
    let find = |name: &str| {
        let at = names.iter().position(|&other| other == name);
        at.ok_or_else(|| unreadable(format!("the column {name} is missing")))
    };
    Ok(Header {
        columns: names.len(),
        item: find("item_id")?,
        position: find("position")?,
        click: find("click")?,
        propensity: find("propensity_score")?,
        users,
        affinities,
    })
}

/// A field without the quotes that some writers put around all of them.
fn bare(field: &str) -> &str {
    let field = field.trim();
    field.strip_prefix('"').and_then(|field| field.strip_suffix('"')).unwrap_or(field)
}

impl Header {
    /// K, where it is known before the rows are.
    fn items(&self, known: &Known) -> Option<usize> {
        known.actions.or(Some(self.affinities).filter(|&k| k > 0))
    }

    fn split<'a>(&self, line: &'a [u8]) -> Result<Vec<&'a str>, Fault> {
        let line = std::str::from_utf8(line).map_err(|_| Fault::new("row", "is not UTF-8"))?;
        let fields: Vec<&str> = line.split(',').map(bare).collect();
        if fields.len() != self.columns {
            let message = format!("has {} fields where the header has {}", fields.len(), self.columns);
            return Err(Fault::new("row", message));
        }
        Ok(fields)
    }
}

/// K, where all K items were equally likely on every row. Rows that cannot be read do not matter:
/// they are refused on the second reading.
fn uniform_over(
    lines: &mut Lines<impl Read>,
    header: &Header,
    items: Option<usize>,
    known: &Known,
) -> Result<Option<usize>, FormatError> {
    let (mut least, mut most, mut seen) = (f64::INFINITY, 0.0_f64, 0_usize);
    while let Some((_, line)) = lines.next()? {
        let Some(fields) = line.ok().and_then(|line| header.split(line).ok()) else { continue };
        if let Ok(propensity) = fields[header.propensity].parse::<f64>() {
            (least, most) = (least.min(propensity), most.max(propensity));
        }
        if let Ok(item) = fields[header.item].parse::<usize>() {
            seen = seen.max(item.saturating_add(1));
        }
    }
    let k = items.unwrap_or(seen);
    let near = |q: f64| (q * k as f64 - 1.0).abs() <= AGREEMENT_TOLERANCE;
    // An append has what the rows before have.
    let wanted = known.full.unwrap_or(true);
    Ok((wanted && k > 1 && near(least) && near(most)).then_some(k))
}

struct Rows {
    header: Header,
    hashing: Hashing,
    /// K, where it is known.
    items: Option<usize>,
    /// K, where all were equally likely on every row.
    uniform: Option<usize>,
    outcome: OutcomeKind,
}

impl Rows {
    fn row(&self, line: &[u8]) -> Result<RawRow<'static>, Fault> {
        let fields = self.header.split(line)?;
        let number = |field: &str, at: usize| {
            let wrong = |_| Fault::new(field, format!("{:?} is not a number", fields[at]));
            fields[at].parse::<f64>().map_err(wrong)
        };
        let action = fields[self.header.item].parse::<i64>();
        let action = action.map_err(|_| {
            Fault::new("item_id", format!("{:?} is not an integer", fields[self.header.item]))
        })?;
        if let Some(k) = self.items.filter(|&k| !usize::try_from(action).is_ok_and(|action| action < k)) {
            return Err(Fault::new("item_id", format!("{action} is not in [0, {k})")));
        }
        let click = number("click", self.header.click)?;
        let (cost, reward) = match self.outcome {
            OutcomeKind::Cost => (Some(-click), None),
            OutcomeKind::Reward => (None, Some(click)),
        };
        Ok(RawRow {
            x: Some(self.features(&fields)?.into()),
            action: Some(action),
            propensity: Some(number("propensity_score", self.header.propensity)?),
            propensities: self.uniform.map(|k| vec![1.0 / k as f64; k].into()),
            cost,
            reward,
            ..RawRow::default()
        })
    }

    fn features(&self, fields: &[&str]) -> Result<Vec<f64>, Fault> {
        let mut x = vec![0.0; self.hashing.dims + Hashing::POSITIONS];
        for (at, name) in &self.header.users {
            self.hashing.add(&mut x, &format!("{name}={}", fields[*at]), 1.0);
        }
        let position = fields[self.header.position];
        match position.parse::<usize>() {
            Ok(place) if (1..=Hashing::POSITIONS).contains(&place) => x[self.hashing.dims + place - 1] = 1.0,
            _ => return Err(Fault::new("position", format!("{position:?} is not 1, 2 or 3"))),
        }
        Ok(x)
    }
}
