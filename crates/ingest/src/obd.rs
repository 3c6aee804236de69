//! The Open Bandit Dataset's CSV: a header, then one line per item that was shown at a position, and
//! whether it was clicked. Row numbers are line numbers.
//!
//! x is the user's categories, hashed (`user_feature_0=…` and so on, see `hashing.rs`), then the
//! position as three numbers of which one is 1. Affinities are not used. `timestamp` is the time of a row.
//!
//! The file is read twice. Only at its end is it known whether all items were equally likely in every row, so
//! that each row's π0(·|x) is known: in a log that is not uniform, single rows may also have the propensity
//! 1/K.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use guarantor_engine::log::OutcomeKind;

use crate::decompress::Decoded;
use crate::errors::IngestError;
use crate::records::{Cells, Records};
use crate::row::{FormatError, Notes, RawRow, ReadContext, RowFault, Visit};
use crate::spool::spool;
use crate::time;

/// The largest relative difference from 1/K of a number with all its digits. Rounded numbers cannot show that a log is
/// uniform.
const UNIFORM_TOLERANCE: f64 = 1e-12;
/// The features that follow the hashed ones: the position of the item on the page.
pub const POSITIONS: usize = 3;

pub fn read(source: &mut Decoded, context: &ReadContext, visit: &mut Visit) -> Result<Notes, FormatError> {
    let limits = &context.limits;
    let spooled = spool(source, limits)?;
    let mut records = from_start(&spooled, limits.line_bytes)?;
    let header = header(&mut records)?;
    let items = header.items(context);
    if let Some(k) = items.filter(|&k| k > limits.actions) {
        let message = format!("the file has {k} items; the maximum number of actions is {}", limits.actions);
        return Err(FormatError::Stopped(IngestError::TooLarge(message)));
    }
    let uniform = uniform_over(&mut records, &header, items, context)?.filter(|&k| k <= limits.actions);
    let rows = Rows { header, items, uniform, context };
    let mut records = from_start(&spooled, limits.line_bytes)?;
    records.next()?;
    while let Some((number, cells)) = records.next()? {
        if !is_blank(&cells) {
            visit.row(number, cells.and_then(|cells| rows.row(cells))).map_err(FormatError::Stopped)?;
        }
    }
    Ok(Notes { actions: items, ..Notes::default() })
}

fn from_start(mut file: &File, line_bytes: usize) -> Result<Records<&File>, FormatError> {
    file.seek(SeekFrom::Start(0))?;
    Ok(Records::new(file, line_bytes))
}

/// Whether a record is a line of white space.
fn is_blank(cells: &Result<Cells, RowFault>) -> bool {
    cells
        .as_ref()
        .is_ok_and(|cells| cells.len() == 1 && cells.iter().all(|cell| cell.trim_ascii().is_empty()))
}

/// The name that a row's field has in the file.
pub fn field_name(field: &str) -> &str {
    match field.split(['[', '.']).next().unwrap_or(field) {
        "action" => "item_id",
        "propensity" | "propensities" => "propensity_score",
        "cost" | "reward" => "click",
        _ => field,
    }
}

/// The indices of the columns.
struct Header {
    columns: usize,
    item: usize,
    position: usize,
    timestamp: Option<usize>,
    click: usize,
    propensity: usize,
    /// The users' categories, with their names.
    users: Vec<(usize, String)>,
    affinities: usize,
}

/// The most characters of an unknown name in a message: what it is of may be no log.
const MOST_SHOWN: usize = 30;

fn header(records: &mut Records<impl Read>) -> Result<Header, FormatError> {
    let unreadable = |why: String| FormatError::Unreadable(format!("not an Open Bandit Dataset file: {why}"));
    let Some((_, cells)) = records.next()? else {
        return Err(unreadable("there is no header".into()));
    };
    let cells = cells.map_err(|fault| unreadable(format!("the header {}", fault.message)))?;
    let names: Option<Vec<&str>> = cells.iter().map(text).collect();
    let names = names.ok_or_else(|| unreadable("the header is not UTF-8".into()))?;
    let (mut users, mut affinities, mut seen) = (Vec::new(), 0, HashSet::new());
    for (i, &name) in names.iter().enumerate() {
        if !seen.insert(name) {
            return Err(unreadable(format!("duplicate column {name:?}")));
        }
        match name {
            "" | "timestamp" | "item_id" | "position" | "click" | "propensity_score" => {}
            _ if name.starts_with("user_feature_") => users.push((i, name.to_owned())),
            _ if name.starts_with("user-item_affinity_") => affinities += 1,
            _ => {
                let shown: String = name.chars().take(MOST_SHOWN).collect();
                return Err(unreadable(format!("unknown column {shown:?}")));
            }
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
        timestamp: names.iter().position(|&name| name == "timestamp"),
        click: find("click")?,
        propensity: find("propensity_score")?,
        users,
        affinities,
    })
}

/// A cell without white space around it.
fn text(cell: &[u8]) -> Option<&str> {
    std::str::from_utf8(cell).ok().map(str::trim)
}

impl Header {
    /// K, if it is known before the rows are read.
    fn items(&self, context: &ReadContext) -> Option<usize> {
        context.actions.or(Some(self.affinities).filter(|&k| k > 0))
    }

    /// Checks that a record has as many cells as the header, all of them UTF-8.
    fn check(&self, cells: Cells) -> Result<(), RowFault> {
        if cells.iter().any(|cell| text(cell).is_none()) {
            return Err(RowFault::new("row", "is not UTF-8"));
        }
        if cells.len() != self.columns {
            let message = format!("has {} fields, but the header has {}", cells.len(), self.columns);
            return Err(RowFault::new("row", message));
        }
        Ok(())
    }
}

/// The cell with this index of a record that was checked.
fn field<'a>(cells: Cells<'a>, i: usize) -> &'a str {
    cells.get(i).and_then(text).unwrap_or_default()
}

/// K, if all K items were equally likely in every row. Rows that cannot be read do not matter: they are
/// rejected on the second reading.
fn uniform_over(
    records: &mut Records<impl Read>,
    header: &Header,
    items: Option<usize>,
    context: &ReadContext,
) -> Result<Option<usize>, FormatError> {
    let (mut least, mut most, mut seen) = (f64::INFINITY, 0.0_f64, 0_usize);
    while let Some((_, cells)) = records.next()? {
        let Some(cells) = cells.ok().filter(|&cells| header.check(cells).is_ok()) else { continue };
        if let Ok(propensity) = field(cells, header.propensity).parse::<f64>() {
            (least, most) = (least.min(propensity), most.max(propensity));
        }
        if let Ok(item) = field(cells, header.item).parse::<usize>() {
            seen = seen.max(item.saturating_add(1));
        }
    }
    let k = items.unwrap_or(seen);
    let near = |q: f64| (q * k as f64 - 1.0).abs() <= UNIFORM_TOLERANCE;
    // An append has π0(·|x) if and only if the earlier rows do.
    let wanted = context.full.unwrap_or(true);
    Ok((wanted && k > 1 && near(least) && near(most)).then_some(k))
}

struct Rows<'a> {
    header: Header,
    /// K, if it is known.
    items: Option<usize>,
    /// K, if all items were equally likely in every row.
    uniform: Option<usize>,
    context: &'a ReadContext,
}

impl Rows<'_> {
    fn row(&self, cells: Cells) -> Result<RawRow<'static>, RowFault> {
        self.header.check(cells)?;
        let number = |name: &str, at: usize| {
            let text = field(cells, at);
            text.parse::<f64>().map_err(|_| RowFault::new(name, format!("{text:?} is not a number")))
        };
        let item = field(cells, self.header.item);
        let action = item.parse::<i64>();
        let action = action.map_err(|_| RowFault::new("item_id", format!("{item:?} is not an integer")))?;
        if let Some(k) = self.items.filter(|&k| !usize::try_from(action).is_ok_and(|action| action < k)) {
            return Err(RowFault::new("item_id", format!("{action} is not in [0, {k})")));
        }
        let click = number("click", self.header.click)?;
        let (cost, reward) = match self.context.outcome {
            OutcomeKind::Cost => (Some(-click), None),
            OutcomeKind::Reward => (None, Some(click)),
        };
        // A log that was started without times goes on without them.
        let wanted = self.context.timestamps.unwrap_or(true);
        let timestamp = self.header.timestamp.filter(|_| wanted).map(|at| field(cells, at));
        let timestamp = timestamp.map(time::of_text).transpose();
        Ok(RawRow {
            timestamp: timestamp.map_err(|message| RowFault::new("timestamp", message))?,
            x: Some(self.features(cells)?.into()),
            action: Some(action),
            propensity: Some(number("propensity_score", self.header.propensity)?),
            propensities: self.uniform.map(|k| vec![1.0 / k as f64; k].into()),
            cost,
            reward,
            ..RawRow::default()
        })
    }

    fn features(&self, cells: Cells) -> Result<Vec<f64>, RowFault> {
        let hashing = self.context.hashing;
        let mut x = vec![0.0; hashing.dims + POSITIONS];
        for (at, name) in &self.header.users {
            hashing.add(&mut x, &format!("{name}={}", field(cells, *at)), 1.0);
        }
        let position = field(cells, self.header.position);
        match position.parse::<usize>() {
            Ok(place) if (1..=POSITIONS).contains(&place) => x[hashing.dims + place - 1] = 1.0,
            _ => return Err(RowFault::new("position", format!("{position:?} is not 1, 2 or 3"))),
        }
        Ok(x)
    }
}
