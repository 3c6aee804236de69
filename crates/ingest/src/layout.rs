//! Whether all rows of a log have the same fields.

use std::collections::BTreeSet;

use guarantor_engine::log::ActionSets;

use crate::batch::LogLayout;
use crate::layout_sets::{check_no_set, check_set, request_form};
use crate::row::{NumberList, RawRow, RowFault};
use crate::rules::{MAX_ID_BYTES, Rules};

/// The maximum number of candidates of a log.
pub const MAX_CANDIDATES: usize = 1000;

/// The layout of a log that starts with this row.
pub fn layout_of(row: &RawRow, rules: &Rules) -> LogLayout {
    let full = row.candidate_propensities.as_ref();
    let length = |list: &NumberList| if row.set.is_some() { 0 } else { list.len() };
    LogLayout {
        dim: row.x.as_ref().map_or(0, length),
        full: row.propensities.as_ref().map(length),
        context_ids: row.context_id.is_some(),
        event_ids: row.event_id.is_some(),
        candidates: names(row).into_iter().map(str::to_owned).collect(),
        candidate_propensities: full.map(|full| full.keys().cloned().collect()).unwrap_or_default(),
        candidate_full: full.and_then(|full| full.values().next()).map(length),
        timestamps: row.timestamp.is_some(),
        versions: row.policy_version.is_some(),
        sets: row
            .set
            .as_ref()
            .map(|set| ActionSets { x: request_form(row).space(), actions: set.form.space() }),
        action_ids: row.set.as_ref().is_some_and(|set| !set.ids.is_empty()),
        outcomes: rules.outcomes.iter().skip(1).map(|named| named.name.clone()).collect(),
    }
}

/// The names of all candidates of a row, in ascending order.
pub fn names<'a>(row: &'a RawRow) -> BTreeSet<&'a str> {
    let played = row.candidates.iter().flat_map(|named| named.keys());
    let full = row.candidate_propensities.iter().flat_map(|named| named.keys());
    played.chain(full).map(String::as_str).collect()
}

/// Checks that a row has the fields of the earlier rows, if there are any, and as many actions and features.
pub fn check_layout(row: &RawRow, rules: &Rules, first: Option<&LogLayout>) -> Result<(), RowFault> {
    let dim = row.x.as_ref().map_or(0, NumberList::len);
    if dim > rules.limits.dim {
        return Err(RowFault::new("x", format!("has {dim} numbers; the maximum is {}", rules.limits.dim)));
    }
    match &row.set {
        Some(set) => check_set(row, set, rules, first)?,
        None => check_no_set(row, dim, first)?,
    }
    check_candidates(row, first)?;
    check_lengths(row, rules, first)?;
    let Some(first) = first else { return Ok(()) };
    for (field, here, before) in [
        ("propensities", row.propensities.is_some(), first.full.is_some()),
        ("context_id", row.context_id.is_some(), first.context_ids),
        ("event_id", row.event_id.is_some(), first.event_ids),
        ("timestamp", row.timestamp.is_some(), first.timestamps),
        ("policy_version", row.policy_version.is_some(), first.versions),
    ] {
        if here != before {
            let message = if here {
                "is present, but earlier rows do not have it"
            } else {
                "is missing, but earlier rows have it"
            };
            return Err(RowFault::new(field, message));
        }
    }
    Ok(())
}

fn check_candidates(row: &RawRow, first: Option<&LogLayout>) -> Result<(), RowFault> {
    if row.candidates.is_none() && row.candidate_propensities.is_none() && first.is_none() {
        return Ok(());
    }
    let all = names(row);
    check_names(&all)?;
    let Some(first) = first else { return Ok(()) };
    if !all.iter().eq(&first.candidates) {
        let names: Vec<&str> = all.into_iter().collect();
        let message =
            format!("has [{}], but earlier rows have [{}]", names.join(", "), first.candidates.join(", "));
        return Err(RowFault::new("candidates", message));
    }
    let full = || row.candidate_propensities.iter().flat_map(|named| named.keys());
    if !full().eq(&first.candidate_propensities) {
        let (names, before) = (full().cloned().collect::<Vec<_>>(), first.candidate_propensities.join(", "));
        let message = format!("has [{}], but earlier rows have [{before}]", names.join(", "));
        return Err(RowFault::new("candidate_propensities", message));
    }
    Ok(())
}

/// Checks the number of candidates and their names.
pub fn check_names(names: &BTreeSet<&str>) -> Result<(), RowFault> {
    if names.len() > MAX_CANDIDATES {
        let message = format!("has {} candidates; the maximum is {MAX_CANDIDATES}", names.len());
        return Err(RowFault::new("candidates", message));
    }
    match names.iter().find(|name| name.is_empty() || name.len() > MAX_ID_BYTES) {
        Some(name) => Err(RowFault::new(
            "candidates",
            format!("{name:?} is not a valid name; names have 1 to {MAX_ID_BYTES} bytes"),
        )),
        None => Ok(()),
    }
}

/// Every distribution must have one number per action.
fn check_lengths(row: &RawRow, rules: &Rules, first: Option<&LogLayout>) -> Result<(), RowFault> {
    let mut known = match &row.set {
        Some(set) => Some(set.len()),
        None => rules.known_actions(None).or(first.and_then(LogLayout::n_actions)),
    };
    let full = row.propensities.iter().map(|full| ("propensities".to_owned(), full.len()));
    let candidates = row.candidate_propensities.iter().flatten();
    let candidates = candidates.map(|(name, full)| (format!("candidate_propensities.{name}"), full.len()));
    for (field, k) in full.chain(candidates) {
        if let Some(known) = known.filter(|&known| known != k) {
            let whose = if row.set.is_some() { "the row has" } else { "there are" };
            return Err(RowFault::new(field, format!("has {k} numbers, but {whose} {known} actions")));
        }
        if !(2..=rules.limits.actions).contains(&k) {
            let message = format!("has {k} numbers; it must have 2 to {}", rules.limits.actions);
            return Err(RowFault::new(field, message));
        }
        known = Some(k);
    }
    Ok(())
}
