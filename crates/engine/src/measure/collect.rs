//! The plays of a policy on a log: z of each row, rounded up by its numerical error.

use std::ops::Range;

use rayon::prelude::*;

use super::walk::logged_rows;
use super::{
    Modeled, Pass, Subject, Visited, check_total, expect_rows, link_of, player, rounding_of, safety_of,
};
use crate::bound::{ControlVariate, Order, Play, Rules, Table};
use crate::control::Control;
use crate::error::{EngineError, Result};
use crate::log::ranges::blocks;
use crate::log::{LogSource, LoggedRows, Precision};

/// The plays of a log, in order of arrival, and the block of each if there is a random order.
pub struct Collected {
    /// The plays.
    pub table: Table,
    /// The block of each play; empty without a random order.
    pub blocks: Vec<u16>,
}

impl Collected {
    /// No plays yet.
    fn new(rules: &Rules) -> Self {
        Collected { table: Table::new(rules.kappa), blocks: Vec::new() }
    }
}

/// Collects z of `subject` on `log`, rounded up by its numerical error.
///
/// # Errors
/// If the log cannot be read or has an unexpected number of rows, or a number is not finite.
pub fn collect(
    log: &dyn LogSource,
    subject: Subject,
    modeled: Option<Modeled>,
    rules: &Rules,
    order: Option<&Order>,
    control: &Control,
) -> Result<Collected> {
    let [collected] = collect_each(log, subject, modeled, [rules], order, control)?;
    Ok(collected)
}

/// The same for several rules at once, in one pass over the log.
///
/// # Errors
/// As [`collect`].
pub fn collect_each<const N: usize>(
    log: &dyn LogSource,
    subject: Subject,
    modeled: Option<Modeled>,
    rules: [&Rules; N],
    order: Option<&Order>,
    control: &Control,
) -> Result<[Collected; N]> {
    let link = link_of(subject);
    let pass = Pass { log, player: player(subject, link.as_deref()), modeled, control };
    let precision = Uncertainty::new(log, subject);
    let parts: Vec<([Collected; N], u64)> = blocks(log.chunks())
        .into_par_iter()
        .map(|range| collect_block(&pass, rules, order, precision, range))
        .collect::<Result<_>>()?;
    let mut all = rules.map(Collected::new);
    let mut rows = 0;
    for (part, read) in parts {
        rows += read;
        for (all, mut part) in all.iter_mut().zip(part) {
            all.table.append(part.table);
            all.blocks.append(&mut part.blocks);
        }
    }
    expect_rows(log, rows)?;
    Ok(all)
}

/// Propensities that are known less precisely than this are an error.
const MAX_RELATIVE_ERROR: f64 = 1e-3;

/// How far a computed propensity can be off (docs/math.md#slack).
#[derive(Clone, Copy)]
struct Uncertainty {
    /// The factor of the difference between the two resolutions.
    safety: f64,
    /// Relative to the weight.
    relative: f64,
}

impl Uncertainty {
    fn new(log: &dyn LogSource, subject: Subject) -> Self {
        let (safety, rounding) = (safety_of(subject), rounding_of(subject));
        let capabilities = &log.shape().capabilities;
        let single = capabilities.precision.single && !capabilities.uniform;
        Uncertainty { safety, relative: relative_of(rounding, single) }
    }
}

/// The relative error of weights whose propensities are rounded by `rounding`, and to single precision if so.
fn relative_of(rounding: f64, single: bool) -> f64 {
    let single = if single { 4.0 * f64::from(f32::EPSILON) } else { 0.0 };
    rounding + single + 16.0 * f64::EPSILON
}

/// Adds the plays of rows to a table of [`collect`], with the same bits. `precision` is that of their propensities.
///
/// # Errors
/// If a number is not a number.
pub fn collect_logged(rows: &LoggedRows, precision: Precision, table: &mut Table) -> Result<()> {
    let numbers = [rows.played, rows.propensities, rows.costs];
    table.push_each(numbers, 0.0, relative_of(0.0, precision.single))
}

fn collect_block<const N: usize>(
    pass: &Pass,
    rules: [&Rules; N],
    order: Option<&Order>,
    uncertainty: Uncertainty,
    range: Range<usize>,
) -> Result<([Collected; N], u64)> {
    if let (Some(candidate), None) = (pass.logged_alone(), order)
        && rules.iter().all(|rules| rules.control == ControlVariate::None)
    {
        return collect_columns(pass, rules, uncertainty, candidate, range);
    }
    let mut found = rules.map(Collected::new);
    let (mut fine, mut coarse): (Vec<Play>, Vec<Play>) = (Vec::new(), Vec::new());
    let repeated = pass.log.shape().capabilities.multiple_interactions;
    let rows = pass.each(range, |visited| {
        let Visited { seen, ordinal, played, off } = visited;
        check_total(*off)?;
        let relative = uncertainty.relative + off;
        if relative.is_nan() || relative > MAX_RELATIVE_ERROR {
            let message = format!(
                "the policy's propensities are only known up to {relative:e}; use smaller parameters"
            );
            return Err(EngineError::Numerical(message));
        }
        let block = order.map(|order| order.block(*ordinal));
        for (rules, found) in rules.iter().zip(&mut found) {
            fine.clear();
            coarse.clear();
            let top = rules.plays(seen, played[0], &mut fine)?;
            // Without integrals both resolutions are the same numbers.
            let coarse = if uncertainty.safety > 0.0 {
                rules.plays(seen, played[1], &mut coarse)?;
                &coarse
            } else {
                &fine
            };
            let controlled = rules.control != ControlVariate::None;
            for (j, (fine, coarse)) in fine.iter().zip(coarse).enumerate() {
                // The terms of z are at most |z| + 2 before they are added up.
                let error = |fine: f64, coarse: f64| {
                    uncertainty.safety * (fine - coarse).abs() + relative * (fine.abs() + 2.0)
                };
                // z is κ at most without the control variate, whatever the error.
                let u = (fine.u + error(fine.u, coarse.u)).min(f64::from(rules.kappa));
                let control = controlled.then(|| (fine.v + error(fine.v, coarse.v), top + error(top, top)));
                found.table.push(u, control, repeated.then(|| seen.context.weights[j]))?;
                found.blocks.extend(block);
            }
        }
        Ok(())
    })?;
    Ok((found, rows))
}

/// The same for a candidate of which the log carries π(a|x) of the logged actions alone, column by column.
fn collect_columns<const N: usize>(
    pass: &Pass,
    rules: [&Rules; N],
    uncertainty: Uncertainty,
    candidate: usize,
    range: Range<usize>,
) -> Result<([Collected; N], u64)> {
    let mut found = rules.map(Collected::new);
    let mut rows = 0;
    for index in range {
        pass.control.check()?;
        let chunk = pass.log.lean_chunk(index)?;
        chunk.check_lean(pass.log.shape())?;
        rows += chunk.rows() as u64;
        let LoggedRows { played, propensities, costs, .. } = logged_rows(&chunk, candidate)?;
        for (rules, found) in rules.iter().zip(&mut found) {
            // As in `collect_block`, without a second resolution.
            found.table.push_each([played, propensities, costs], rules.tau, uncertainty.relative)?;
        }
    }
    Ok((found, rows))
}
