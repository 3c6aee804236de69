//! The checks of a row's outcomes.

use std::collections::BTreeMap;

use guarantor_engine::log::{Outcome, OutcomeKind};

use crate::batch::LogRows;
use crate::errors::IngestError;
use crate::outcome_options::{MAX_OUTCOMES, example};
use crate::row::{RawRow, RowFault};
use crate::rules::Rules;

/// How many names a message lists.
const LISTED: usize = 20;

/// Which outcomes of a row were cut: one bit for each.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cut(u16);

/// How many rows of an upload had each outcome cut.
#[derive(Debug, Clone, Copy, Default)]
pub struct CutCounts([u64; MAX_OUTCOMES]);

impl CutCounts {
    /// Counts a row.
    pub fn add(&mut self, Cut(bits): Cut) {
        if bits != 0 {
            self.0.iter_mut().enumerate().for_each(|(i, count)| *count += u64::from(bits >> i & 1));
        }
    }

    /// Counts rows whose only outcome was cut.
    pub fn add_only(&mut self, rows: u64) {
        self.0[0] += rows;
    }

    /// The number of rows in which this outcome was cut.
    pub fn of(&self, outcome: usize) -> u64 {
        self.0.get(outcome).copied().unwrap_or(0)
    }
}

/// Checks the outcomes of a row. Returns the cost of the primary one and appends those of the others to the batch.
pub fn push_outcomes(row: &RawRow, rules: &Rules, to: &mut LogRows) -> Result<(f64, Cut), RowFault> {
    if rules.outcomes.is_empty() {
        return single(row, rules);
    }
    for (field, present) in [("cost", row.cost.is_some()), ("reward", row.reward.is_some())] {
        if present {
            let message = "is present, but the log has named outcomes; move it to outcomes under a declared name, or \
                           remove it";
            return Err(RowFault::new(field, message));
        }
    }
    let none = BTreeMap::new();
    let given = row.outcomes.as_ref().unwrap_or(&none);
    let declared = |name: &str| rules.outcomes.iter().any(|named| named.name == name);
    if let Some(name) = given.keys().find(|name| !declared(name)) {
        let names = listed(rules.outcomes.iter().map(|named| named.name.as_str()));
        let message = format!(
            "is not declared; the declared outcomes are {names}; declare its kind and range, or leave it out of the rows"
        );
        return Err(RowFault::new(field_of(name), message));
    }
    to.outcomes.resize_with(rules.outcomes.len() - 1, Vec::new);
    let (mut primary, mut cut) = (0.0, Cut::default());
    for (i, named) in rules.outcomes.iter().enumerate() {
        let missing =
            || RowFault::new(field_of(&named.name), "is missing; every row has every declared outcome");
        let value = *given.get(&named.name).ok_or_else(missing)?;
        let what =
            "declare another range, or define the outcome as the value cut at its ends with cap and floor";
        let (cost, was_cut) =
            cost_of(value, &named.outcome, what).map_err(|why| RowFault::new(field_of(&named.name), why))?;
        cut.0 |= u16::from(was_cut) << i;
        match i.checked_sub(1) {
            Some(other) => to.outcomes[other].push(cost),
            None => primary = cost,
        }
    }
    Ok((primary, cut))
}

fn field_of(name: &str) -> String {
    format!("outcomes.{name}")
}

/// The only outcome of a row.
fn single(row: &RawRow, rules: &Rules) -> Result<(f64, Cut), RowFault> {
    let (field, value, other_field, other) = match rules.outcome.kind {
        OutcomeKind::Cost => ("cost", row.cost, "reward", row.reward),
        OutcomeKind::Reward => ("reward", row.reward, "cost", row.cost),
    };
    if row.outcomes.is_some() {
        let message = format!("is present, but earlier rows have {field}, and the log has one outcome");
        return Err(RowFault::new("outcomes", message));
    }
    if other.is_some() {
        let message = format!(
            "is present, but the upload says outcome={field}; remove it, or upload with outcome={other_field}"
        );
        return Err(RowFault::new(other_field, message));
    }
    let value = value.ok_or_else(|| RowFault::new(field, "is missing"))?;
    let what = "if the range is different, set outcome_min and outcome_max; to define the outcome as the value cut at \
                its ends, set outcome_cap and outcome_floor";
    let (cost, cut) = cost_of(value, &rules.outcome, what).map_err(|why| RowFault::new(field, why))?;
    Ok((cost, Cut(cut.into())))
}

/// The cost of a value, and whether it was cut. If it is out of range, the error ends with `what` to do.
fn cost_of(value: f64, outcome: &Outcome, what: &str) -> Result<(f64, bool), String> {
    // An infinite value is an error of the log, and no large one.
    let counts = if value.is_finite() { outcome.cut(value) } else { value };
    match outcome.contains(counts) {
        true => Ok((outcome.to_cost(counts), counts != value)),
        false => Err(format!("{value} is not in [{}, {}]; {what}", outcome.min, outcome.max)),
    }
}

/// The error of a log that starts with a row whose outcomes have names, if the upload declares none.
pub fn undeclared(names: &BTreeMap<String, f64>) -> IngestError {
    let found = || names.keys().map(String::as_str);
    let message = format!(
        "is missing: the rows have the outcomes {}; declare the kind (cost or reward) and the range of each, the primary \
         one first, for example outcomes={}",
        listed(found()),
        example(found().take(LISTED))
    );
    IngestError::Option { field: "outcomes", message: crate::errors::shortened(message) }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.len() {
        n if n > LISTED => format!("{} and {} more", names[..LISTED].join(", "), n - LISTED),
        _ => names.join(", "),
    }
}
