//! The sums of the checks over rows of which only the probabilities of the logged actions are known, column by column.
//! They are the sums of [`SummedChecks::row`].

use super::{CAP, CheckSums, NEAR_DETERMINISTIC, SummedChecks, TRACKED, Widths, grow};
use crate::log::LoggedRows;
use crate::numerics::dispatch_wide;
use crate::numerics::exact::ExactSum;
use crate::numerics::exact_terms::add_all_to;

/// How many rows are looked at at once, and how many are sorted by their actions at once.
const AT_ONCE: usize = 512;
const SORTED: usize = 1 << 13;
/// How many sums there are.
const TERMS: usize = 7;
/// With fewer rows for each action it is not worth while to add to two sums at once.
const FEW: usize = 64;

impl SummedChecks {
    /// Adds rows of the log that the plan is of, and of its only candidate.
    pub fn logged(&mut self, rows: &LoggedRows) {
        let mut terms = [[0.0; AT_ONCE]; TERMS];
        for rows in rows.blocks(SORTED) {
            let inverted = self.actions(&rows);
            rows.blocks(AT_ONCE).for_each(|rows| self.block(&rows, inverted, &mut terms));
        }
    }

    /// Adds what is summed over all rows. 1/π0 may have been added already.
    fn block(&mut self, rows: &LoggedRows, inverted: bool, terms: &mut [[f64; AT_ONCE]; TERMS]) {
        let widths = self.rules.widths();
        let of_candidate = self.plan.candidates.first().map(|plan| Widths::of_written(plan.rounding));
        let (n, k) = (rows.costs.len(), self.plan.n_actions);
        let (mut upper, mut lower) = ([1.0; AT_ONCE], [0.0; AT_ONCE]);
        let ends = |out: &mut [f64], written: &[f64], end: &dyn Fn(f64) -> f64| {
            out.iter_mut().zip(written).for_each(|(out, &written)| *out = end(written));
        };
        match widths.exact() {
            true => upper[..n].copy_from_slice(rows.propensities),
            false => ends(&mut upper, rows.propensities, &|p| widths.upper(p)),
        }
        match of_candidate {
            Some(own) if !own.exact() => ends(&mut lower, rows.played, &|p| own.lower(p)),
            _ => lower[..n].copy_from_slice(rows.played),
        }
        let numbers = [rows.propensities, &upper[..n], rows.played, &lower[..n]];
        terms_of(numbers, (k.max(2) - 1) as f64, terms);
        let sums = &mut self.sums;
        sums.rows += n as u64;
        sums.random += n as u64;
        sums.expected.add((k * n) as f64);
        sums.near_deterministic +=
            rows.propensities.iter().filter(|&&p| p >= NEAR_DETERMINISTIC).count() as u64;
        let [inverse, inverse_squares, above, above_squares, capped, capped_squares, weights] =
            terms.each_ref().map(|terms| &terms[..n]);
        if !inverted {
            sums.inverse.add_all(inverse);
            sums.inverse_squares.add_all(inverse_squares);
        }
        sums.inverse_above.sum.add_all(above);
        sums.inverse_above.squares.add_all(above_squares);
        if of_candidate.is_none() {
            return;
        }
        // Most weights are neither rounded nor capped.
        let mut own = [&mut sums.weights_above.sum, &mut sums.weights];
        match are_equal(capped, weights) {
            true => add_all_to(own, capped),
            false => (own.iter_mut().zip([capped, weights])).for_each(|(sum, terms)| sum.add_all(terms)),
        }
        sums.weights_above.squares.add_all(capped_squares);
    }

    /// Adds what is summed for each action. True if 1/π0 was added to the sums over all rows too.
    fn actions(&mut self, rows: &LoggedRows) -> bool {
        let widths = *self.rules.widths();
        let most = rows.actions.iter().fold(0, |most, &action| most.max(action)) as usize;
        let tracked = (most + 1).min(TRACKED);
        // Rows of other actions are behind those of the tracked ones.
        let place = |action: u32| (action as usize).min(tracked);
        let mut begins = vec![0usize; tracked + 2];
        rows.actions.iter().for_each(|&action| begins[place(action) + 1] += 1);
        (0..=tracked).for_each(|i| begins[i + 1] += begins[i]);
        let mut next = begins.clone();
        let mut sorted = vec![0.0; rows.actions.len()];
        for (&action, &p) in rows.actions.iter().zip(rows.propensities) {
            let next = &mut next[place(action)];
            sorted[*next] = if widths.exact() { p } else { widths.upper(p) };
            *next += 1;
        }
        inverses_of(&mut sorted);
        let seen = rows.actions.iter().filter(|&&action| (action as usize) < TRACKED).max();
        let CheckSums { actions, inverse, inverse_squares, .. } = &mut self.sums;
        grow(actions, seen.map_or(0, |&action| action as usize + 1));
        // If every action is tracked and no z is capped, they are the 1/π0 of all rows.
        let all = most < TRACKED && sorted.len() >= FEW * tracked && widths.exact();
        let inverts = all && sorted.iter().fold(true, |all, &z| all & (z < CAP));
        let add = |sum: &mut ExactSum, whole: &mut ExactSum, z: &[f64]| match inverts {
            true => add_all_to([sum, whole], z),
            false => sum.add_all(z),
        };
        for (sums, ends) in actions.iter_mut().zip(begins.windows(2).take(tracked)) {
            let z = &mut sorted[ends[0]..ends[1]];
            sums.count += z.len() as u64;
            add(&mut sums.sum, inverse, z);
            z.iter_mut().for_each(|z| *z *= *z);
            add(&mut sums.squares, inverse_squares, z);
        }
        inverts
    }
}

dispatch_wide! {
    fn inverses_of(numbers: &mut [f64]) = inverses_of_body
}

#[inline(always)]
fn inverses_of_body(numbers: &mut [f64]) {
    numbers.iter_mut().for_each(|z| *z = (1.0 / *z).min(CAP));
}

/// Whether all numbers are the same, without a branch for each.
fn are_equal(one: &[f64], other: &[f64]) -> bool {
    one.iter().zip(other).fold(true, |so_far, (one, other)| so_far & (one.to_bits() == other.to_bits()))
}

dispatch_wide! {
    fn terms_of(numbers: [&[f64]; 4], others: f64, out: &mut [[f64; AT_ONCE]; TERMS]) = terms_of_body
}

/// As [`SummedChecks::row`]. The numbers are π0 as it was written and at its upper end, and π as it was written and at its lower
/// end.
#[inline(always)]
fn terms_of_body([p, upper, played, lower]: [&[f64]; 4], others: f64, out: &mut [[f64; AT_ONCE]; TERMS]) {
    // NaN is evidence.
    let capped = |z: f64| if z < CAP { z.max(0.0) } else { CAP };
    let n = p.len().min(AT_ONCE);
    let (p, upper, played, lower) = (&p[..n], &upper[..n], &played[..n], &lower[..n]);
    for i in 0..n {
        let written = (1.0 / p[i]).min(1e12);
        out[0][i] = written;
        out[1][i] = written * written;
        let above = capped((1.0 / upper[i] - 1.0) / others);
        out[2][i] = above;
        out[3][i] = above * above;
        let weight = capped(lower[i] / upper[i]);
        out[4][i] = weight;
        out[5][i] = weight * weight;
        out[6][i] = (played[i] / p[i]).min(1e12);
    }
}
