//! The test of a log whose number of actions was not stated and of which only the logged propensity is known. A K
//! that was read off the rows is too small while a rare action has not been seen. But whatever K is,
//! E[1[a < k]/p] ≤ k for every k, so there is a bet for each of some k that do not depend on the rows.

use super::CheckName;
use super::bets::{Bets, FACTORS, GRID, MAX_Z, apart};
use super::centered::Widths;
use super::evidence::{Finding, log_mean, readable};
use super::propensities::REMEDY;
use crate::numerics::dispatch_wide;

/// The numbers of first actions. Those that are no powers of 2 come first, so that divisions by the others are products.
const FIRST: [usize; 22] =
    [3, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096];
/// As many numbers as a vector has at least.
const LANES: usize = 8;
/// There are so many vectors of products for each λ; the last two products are not used.
const VECTORS: usize = FIRST.len().div_ceil(LANES);
/// From this vector on, all k are powers of 2.
const POWERS: usize = 2;

/// A number for each k.
type Lanes<T> = [[T; LANES]; VECTORS];

/// See the module.
#[derive(Default)]
pub(super) struct FirstActions {
    products: Products,
    /// Rows whose bets are not made yet: the action and 1/π0. So many are played at once that the products stay in
    /// registers.
    waiting: Vec<(f64, f64)>,
    observed: f64,
    rows: u64,
    seen: usize,
}

/// The [`Bets`] of each k, side by side.
#[derive(Clone)]
struct Products {
    mantissas: [Lanes<f64>; GRID.len()],
    exponents: [Lanes<i64>; GRID.len()],
    pending: Lanes<f64>,
}

impl Default for Products {
    fn default() -> Self {
        let mantissas = [[[1.0; LANES]; VECTORS]; GRID.len()];
        Products { mantissas, exponents: Default::default(), pending: Default::default() }
    }
}

impl FirstActions {
    /// Adds a row.
    pub fn add(&mut self, action: usize, p: f64, widths: &Widths) {
        self.rows += 1;
        self.observed += (1.0 / p).min(1e12);
        self.seen = self.seen.max(action + 1);
        self.waiting.push((action as f64, 1.0 / widths.upper(p)));
        if self.waiting.len() == usize::from(FACTORS) {
            self.play();
        }
    }

    /// Makes the bets on the rows that wait.
    fn play(&mut self) {
        bet_on_each(&mut self.products, &self.waiting);
        self.waiting.clear();
    }

    pub fn merge(&mut self, mut other: FirstActions) {
        self.play();
        other.play();
        self.products.merge(&other.products);
        self.observed += other.observed;
        self.rows += other.rows;
        self.seen = self.seen.max(other.seen);
    }

    pub fn finish(&self) -> Finding {
        let mut products = self.products.clone();
        bet_on_each(&mut products, &self.waiting);
        let (observed, expected) = (self.observed / self.rows.max(1) as f64, self.seen as f64);
        let bets = products.bets();
        let logs: Vec<f64> = bets.iter().map(|bets| bets.log_evidence_relative(self.rows)).collect();
        Finding {
            name: CheckName::Propensities,
            subject: None,
            observed,
            expected,
            log_evidence: log_mean(&logs),
            rows: self.rows,
            message: format!(
                "the mean of 1/propensity is {}, expected at most {} for the actions that were logged",
                readable(observed),
                readable(expected)
            ),
            remedy: REMEDY,
            skipped: false,
        }
    }
}

impl Products {
    /// The bets of each k, in the order of k.
    fn bets(&self) -> Vec<Bets> {
        let mut order: Vec<usize> = (0..FIRST.len()).collect();
        order.sort_by_key(|&at| FIRST[at]);
        order.into_iter().map(|at| self.bets_of(at / LANES, at % LANES)).collect()
    }

    fn bets_of(&self, vector: usize, lane: usize) -> Bets {
        Bets {
            mantissas: self.mantissas.map(|of| of[vector][lane]),
            exponents: self.exponents.map(|of| of[vector][lane]),
            pending: self.pending[vector][lane] as u8,
        }
    }

    fn merge(&mut self, other: &Products) {
        for at in 0..FIRST.len() {
            let (vector, lane) = (at / LANES, at % LANES);
            let mut bets = self.bets_of(vector, lane);
            bets.merge(other.bets_of(vector, lane));
            for i in 0..GRID.len() {
                self.mantissas[i][vector][lane] = bets.mantissas[i];
                self.exponents[i][vector][lane] = bets.exponents[i];
            }
            self.pending[vector][lane] = f64::from(bets.pending);
        }
    }
}

dispatch_wide! {
    /// Bets on the first actions of each k that the action of a row is among. There are at most [`FACTORS`] rows.
    fn bet_on_each(products: &mut Products, rows: &[(f64, f64)]) = bet_on_each_body
}

#[inline(always)]
fn bet_on_each_body(products: &mut Products, rows: &[(f64, f64)]) {
    // What is behind the last k is never bet on.
    let mut firsts: Lanes<f64> = Default::default();
    for (at, k) in FIRST.iter().enumerate() {
        firsts[at / LANES][at % LANES] = *k as f64;
    }
    for (vector, first) in firsts.iter().enumerate() {
        let (mut own, mut pending) = ([[1.0; LANES]; GRID.len()], products.pending[vector]);
        let inverses = first.map(|first| 1.0 / first);
        for (own, all) in own.iter_mut().zip(&products.mantissas) {
            *own = all[vector];
        }
        for &(action, inverse) in rows {
            let mut shares = [0.0; LANES];
            // Divided by a power of 2, a number has the same bits as multiplied by its inverse.
            if vector < POWERS {
                for lane in 0..LANES {
                    shares[lane] = inverse / first[lane];
                }
            } else {
                for lane in 0..LANES {
                    shares[lane] = inverse * inverses[lane];
                }
            }
            // 1 where a bet is made. Elsewhere all factors are 1.
            let (mut bets, mut full) = ([0.0; LANES], false);
            for lane in 0..LANES {
                bets[lane] = if action < first[lane] { 1.0 } else { 0.0 };
            }
            for lane in 0..LANES {
                // `capped` for numbers that are not negative, as 1/π0.
                shares[lane] = bets[lane] * if shares[lane] < MAX_Z { shares[lane] } else { MAX_Z };
            }
            for lane in 0..LANES {
                pending[lane] += bets[lane];
            }
            for lane in 0..LANES {
                full |= pending[lane] == f64::from(FACTORS);
            }
            for (own, lambda) in own.iter_mut().zip(GRID) {
                let slope = lambda / (1.0 - lambda);
                for lane in 0..LANES {
                    own[lane] *= 1.0 + slope * shares[lane];
                }
            }
            if full {
                bring_back(&mut own, &mut products.exponents, vector, &mut pending);
            }
        }
        products.pending[vector] = pending;
        for (own, all) in own.iter().zip(&mut products.mantissas) {
            all[vector] = *own;
        }
    }
}

/// Brings those mantissas back to [1, 2) that have so many factors.
#[inline(always)]
fn bring_back(
    own: &mut [[f64; LANES]; GRID.len()],
    exponents: &mut [Lanes<i64>; GRID.len()],
    vector: usize,
    pending: &mut [f64; LANES],
) {
    for (own, exponents) in own.iter_mut().zip(exponents) {
        for lane in 0..LANES {
            let (rest, power) = apart(own[lane]);
            let is_full = pending[lane] == f64::from(FACTORS);
            own[lane] = if is_full { rest } else { own[lane] };
            exponents[vector][lane] += if is_full { power } else { 0 };
        }
    }
    for pending in pending {
        *pending = if *pending == f64::from(FACTORS) { 0.0 } else { *pending };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the order of k.
    fn one_by_one(rows: &[(f64, f64)]) -> Vec<Bets> {
        let mut order = FIRST;
        order.sort_unstable();
        let bets = |k: usize| {
            let mut bets = Bets::default();
            for &(_, inverse) in rows.iter().filter(|(action, _)| *action < k as f64) {
                bets.bet_relative(inverse / k as f64);
            }
            bets
        };
        order.into_iter().map(bets).collect()
    }

    #[test]
    fn bets_on_many_rows_are_those_on_each() {
        assert!(FIRST[POWERS * LANES..].iter().all(|k| k.is_power_of_two()));
        let inverses = [1.0, 3.7, 1e5, 1e13, 1e300, f64::INFINITY, f64::NAN];
        for (n, extreme) in [(0, 1), (5, 1), (16, 3), (2000, 2), (700, inverses.len())] {
            let row = |i: usize| {
                let inverse = 1.0 + (i * 37 % 101) as f64 / 9.0;
                ((i * 7 % 5000 / (1 + i % 90)) as f64, inverse * inverses[i / 3 % extreme])
            };
            let rows: Vec<(f64, f64)> = (0..n).map(row).collect();
            let [mut fast, mut plain] = [(); 2].map(|()| Products::default());
            for block in rows.chunks(FACTORS.into()) {
                bet_on_each(&mut fast, block);
                bet_on_each_body(&mut plain, block);
            }
            // Two halves, of which neither ends with a whole block.
            let mut halves = [(); 2].map(|()| FirstActions::default());
            for (half, rows) in halves.iter_mut().zip([&rows[..n / 3], &rows[n / 3..]]) {
                for &(action, inverse) in rows {
                    half.waiting.push((action, inverse));
                    if half.waiting.len() == usize::from(FACTORS) {
                        half.play();
                    }
                }
            }
            let [mut first, second] = halves;
            let parts = [one_by_one(&rows[..n / 3]), one_by_one(&rows[n / 3..])];
            first.merge(second);
            let evidence = |bets: &[Bets]| -> Vec<u64> {
                bets.iter().map(|bets| bets.log_evidence_relative(n as u64).to_bits()).collect()
            };
            let expected = evidence(&one_by_one(&rows));
            assert_eq!(evidence(&fast.bets()), expected, "{n}, {extreme}");
            assert_eq!(evidence(&plain.bets()), expected, "{n}, {extreme}");
            let [mut one, other] = parts;
            one.iter_mut().zip(other).for_each(|(one, other)| one.merge(other));
            assert_eq!(evidence(&first.products.bets()), evidence(&one), "{n}, {extreme}");
        }
    }
}
