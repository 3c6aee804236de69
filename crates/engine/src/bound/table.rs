//! The plays of a log, kept for bounds that pass over them many times. Numbers are rounded up to single precision:
//! a larger z only makes a bound larger.

use std::ops::Range;

use super::clipped;
use super::play::shrunk;
use crate::error::{EngineError, Result};
use crate::numerics::elementary::ln_1p;
use crate::numerics::logs::{ln_lanes, ln_of_eight};
use crate::numerics::{dispatch, dispatch_wide};

/// z is raised to at least this. Such a z has won every bet already.
const LOWEST: f64 = -1e12;
/// Where the control variate could make z larger than this, it is left out.
const HIGHEST: f64 = 1e12;

/// The smallest f32 that is not below `x`.
#[inline(always)]
fn rounded_up(x: f64) -> f32 {
    let near = x as f32;
    // The number after `near`, without branches: negative numbers come nearer to 0.
    let bits = near.to_bits();
    let up = if near < 0.0 { bits.wrapping_sub(1) } else { bits.wrapping_add(1) };
    if f64::from(near) < x { f32::from_bits(up) } else { near }
}

/// u and v of each interaction, and the largest z of its context, in the order in which they are played.
#[derive(Debug, Clone, Default)]
pub struct Table {
    u: Vec<f32>,
    /// Empty without a control variate, like `top`.
    v: Vec<f32>,
    top: Vec<f32>,
    /// The weight of each interaction in its context; empty if every context was logged once.
    weights: Vec<f64>,
    kappa: u8,
}

/// Sums over some plays of a table with the same θ.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    /// The number of contexts.
    pub contexts: f64,
    /// Σu.
    pub u: f64,
    /// Σu².
    pub uu: f64,
    /// Σv.
    pub v: f64,
    /// Σv².
    pub vv: f64,
    /// Σuv.
    pub uv: f64,
}

impl Moments {
    /// Adds the sums of other plays.
    pub fn add(&mut self, other: &Moments) {
        self.contexts += other.contexts;
        self.u += other.u;
        self.uu += other.uu;
        self.v += other.v;
        self.vv += other.vv;
        self.uv += other.uv;
    }

    /// The θ in [0, 1] that makes the variance of u + θv smallest, drawn toward `start` as if by `strength` contexts.
    pub fn theta(&self, start: f64, strength: f64) -> f64 {
        if self.contexts <= 0.0 || self.vv <= 0.0 {
            return start;
        }
        let covariance = self.uv - self.u * self.v / self.contexts;
        let pull = strength * self.vv / self.contexts;
        ((pull * start - covariance) / (self.vv + pull)).clamp(0.0, 1.0)
    }
}

/// Sums over a block of bets at one λ.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bets {
    /// Σ ln(1 − λz).
    pub logs: f64,
    /// Σz.
    pub z: f64,
    /// Σz².
    pub zz: f64,
}

impl Table {
    /// An empty table.
    pub fn new(kappa: u8) -> Self {
        Table { kappa, ..Table::default() }
    }

    /// The number of plays.
    pub fn len(&self) -> usize {
        self.u.len()
    }

    /// Whether the table has no plays.
    pub fn is_empty(&self) -> bool {
        self.u.is_empty()
    }

    /// Whether plays have a control variate.
    pub fn controlled(&self) -> bool {
        !self.v.is_empty()
    }

    /// κ.
    pub fn kappa(&self) -> f64 {
        f64::from(self.kappa)
    }

    /// Whether contexts have several plays, with weights.
    pub fn weighted(&self) -> bool {
        !self.weights.is_empty()
    }

    /// Adds a play. `control` is v and the largest z of the context at θ = 1; `weight` is that of the interaction, if
    /// contexts have several. All plays of a table must have them, or none.
    ///
    /// # Errors
    /// If a number is not a number.
    pub fn push(&mut self, u: f64, control: Option<(f64, f64)>, weight: Option<f64>) -> Result<()> {
        if u.is_nan() || control.is_some_and(|(v, top)| v.is_nan() || top.is_nan()) {
            return Err(EngineError::Numerical("a term of the bound is not a number".into()));
        }
        // Without a control variate z is κ at most.
        self.u.push(rounded_up(u.clamp(LOWEST, f64::from(self.kappa))));
        if let Some((v, top)) = control {
            let kept = top <= HIGHEST;
            self.v.push(if kept { rounded_up(v.max(LOWEST)) } else { 0.0 });
            self.top.push(if kept { rounded_up(top) } else { self.kappa.into() });
        }
        self.weights.extend(weight);
        Ok(())
    }

    /// Adds plays of contexts with one interaction each, without a control variate: the logged actions with their costs,
    /// propensities, and the π(a|x) of a policy. z is rounded up by `relative` of its terms.
    ///
    /// # Errors
    /// If a number is not a number.
    pub fn push_each(
        &mut self,
        [played, propensities, costs]: [&[f64]; 3],
        tau: f64,
        relative: f64,
    ) -> Result<()> {
        let from = self.u.len();
        self.u.resize(from + costs.len(), 0.0);
        let added = &mut self.u[from..];
        plays_of([played, propensities, costs], [f64::from(self.kappa), tau, relative], added);
        match added.iter().any(|u| u.is_nan()) {
            true => Err(EngineError::Numerical("a term of the bound is not a number".into())),
            false => Ok(()),
        }
    }

    /// Appends the plays of another table.
    pub fn append(&mut self, mut other: Table) {
        self.u.append(&mut other.u);
        self.v.append(&mut other.v);
        self.top.append(&mut other.top);
        self.weights.append(&mut other.weights);
    }

    /// Puts the plays in the order of their blocks, and within a block in their present order. Returns where each
    /// block begins, and the number of plays at the end.
    pub fn arrange(&mut self, blocks: &[u16], count: usize) -> Vec<usize> {
        let mut starts = vec![0; count + 1];
        blocks.iter().for_each(|&block| starts[block as usize + 1] += 1);
        (0..count).for_each(|block| starts[block + 1] += starts[block]);
        arranged(&mut self.u, blocks, &starts);
        arranged(&mut self.v, blocks, &starts);
        arranged(&mut self.top, blocks, &starts);
        arranged(&mut self.weights, blocks, &starts);
        starts
    }

    /// Sums over some plays.
    pub fn moments(&self, range: Range<usize>) -> Moments {
        let mut sums = Moments::default();
        for i in range {
            let (u, v) = (f64::from(self.u[i]), self.v.get(i).map_or(0.0, |&v| f64::from(v)));
            let weight = self.weights.get(i).copied().unwrap_or(1.0);
            sums.add(&Moments {
                contexts: weight,
                u: weight * u,
                uu: weight * u * u,
                v: weight * v,
                vv: weight * v * v,
                uv: weight * u * v,
            });
        }
        sums
    }

    /// u, u², v, v² or uv of some plays of contexts with one interaction each, by its position in this list.
    pub fn moment(&self, range: Range<usize>, which: usize, out: &mut [f64]) {
        let v = self.v.get(range.clone()).unwrap_or(&[]);
        let u = &self.u[range];
        let (one, other) = [(u, &[][..]), (u, u), (v, &[][..]), (v, v), (u, v)][which];
        match other.is_empty() {
            true => out.iter_mut().zip(one).for_each(|(out, &one)| *out = f64::from(one)),
            false => products_of(one, other, out),
        }
    }

    fn z(&self, i: usize, theta: f64, lambda: f64) -> f64 {
        let u = f64::from(self.u[i]);
        match self.v.get(i) {
            Some(&v) => limited(u, f64::from(v), f64::from(self.top[i]), theta, lambda, self.kappa()),
            None => u,
        }
    }

    /// Sums over bets of λ on some plays, with the control variate's factor θ where it keeps λz at or below 0.9.
    pub fn bets(&self, range: Range<usize>, theta: f64, lambda: f64) -> Bets {
        if self.weights.is_empty() {
            return self.unweighted(range, theta, lambda);
        }
        let mut bets = Bets::default();
        for i in range {
            let (z, weight) = (self.z(i, theta, lambda), self.weights[i]);
            bets.logs += weight * ln_1p((-lambda * z).max(-1.0));
            bets.z += weight * z;
            bets.zz += weight * z * z;
        }
        bets
    }

    /// Σ ln(1 − λz) of [`Self::bets`] alone, with the same bits.
    pub fn logs(&self, range: Range<usize>, theta: f64, lambda: f64) -> f64 {
        if !self.weights.is_empty() || self.controlled() {
            return self.bets(range, theta, lambda).logs;
        }
        let mut logs = 0.0;
        product_logs(&self.u[range], lambda, &mut logs);
        logs
    }

    /// Shows z of some plays, with the control variate's factor θ where it keeps λz at or below 0.9.
    pub fn each(&self, range: Range<usize>, theta: f64, lambda: f64, show: impl FnMut(f64)) {
        range.map(|i| self.z(i, theta, lambda)).for_each(show);
    }

    /// 1 − λz of some plays, with the control variate's factor θ where it keeps λz at or below 0.9; 0 if it is negative.
    pub fn factors(&self, range: Range<usize>, theta: f64, lambda: f64, out: &mut [f64]) {
        match self.controlled() {
            true => {
                let factor = |i: usize| (1.0 - lambda * self.z(i, theta, lambda)).max(0.0);
                out.iter_mut().zip(range).for_each(|(out, i)| *out = factor(i));
            }
            false => factors_of(&self.u[range], lambda, out),
        }
    }

    /// The logarithm of a product costs less than the sum of logarithms. λz is at most 0.9 for the λ of every game, and z
    /// at least −1e12, so factors are between 0.1 and 1e12, and 16 of them neither overflow nor vanish. A negative factor
    /// would be an error of the program. It counts as 0: everything is lost.
    fn unweighted(&self, range: Range<usize>, theta: f64, lambda: f64) -> Bets {
        let (mut bets, mut z) = (Bets::default(), [0.0; LANES * DEPTH]);
        let mut first = range.start;
        while first < range.end {
            let taken = (range.end - first).min(LANES * DEPTH);
            let z = &mut z[..taken];
            let u = &self.u[first..first + taken];
            if self.controlled() {
                let (v, top) = (&self.v[first..first + taken], &self.top[first..first + taken]);
                for i in 0..taken {
                    let (u, v, top) = (f64::from(u[i]), f64::from(v[i]), f64::from(top[i]));
                    z[i] = limited(u, v, top, theta, lambda, self.kappa());
                }
            } else {
                z.iter_mut().zip(u).for_each(|(z, &u)| *z = f64::from(u));
            }
            let (mut products, mut sums, mut squares) = ([1.0; LANES], [0.0; LANES], [0.0; LANES]);
            for z in z.chunks(LANES) {
                for (lane, &z) in z.iter().enumerate() {
                    products[lane] *= (1.0 - lambda * z).max(0.0);
                    sums[lane] += z;
                    squares[lane] += z * z;
                }
            }
            ln_of_eight(&mut products);
            bets.logs += products.iter().sum::<f64>();
            bets.z += sums.iter().sum::<f64>();
            bets.zz += squares.iter().sum::<f64>();
            first += taken;
        }
        bets
    }
}

dispatch_wide! {
    /// u of plays, as [`Table`] keeps it. The numbers are π, π0 and c, and κ, τ and the relative error.
    fn plays_of(columns: [&[f64]; 3], numbers: [f64; 3], out: &mut [f32]) = plays_of_body
}

#[inline(always)]
fn plays_of_body(
    [played, propensities, costs]: [&[f64]; 3],
    [kappa, tau, relative]: [f64; 3],
    out: &mut [f32],
) {
    for (out, ((&played, &propensity), &cost)) in
        out.iter_mut().zip(played.iter().zip(propensities).zip(costs))
    {
        let u = (played * clipped(propensity, tau) - kappa) * cost;
        // z is κ at most without the control variate, whatever the error. NaN stays NaN.
        let u = (u + relative * (u.abs() + 2.0)).min(kappa).clamp(LOWEST, kappa);
        *out = rounded_up(u);
    }
}

dispatch_wide! {
    fn products_of(one: &[f32], other: &[f32], out: &mut [f64]) = products_of_body
}

#[inline(always)]
fn products_of_body(one: &[f32], other: &[f32], out: &mut [f64]) {
    let both = one.iter().zip(other);
    out.iter_mut().zip(both).for_each(|(out, (&one, &other))| *out = f64::from(one) * f64::from(other));
}

dispatch_wide! {
    fn factors_of(u: &[f32], lambda: f64, out: &mut [f64]) = factors_of_body
}

#[inline(always)]
fn factors_of_body(u: &[f32], lambda: f64, out: &mut [f64]) {
    out.iter_mut().zip(u).for_each(|(out, &u)| *out = (1.0 - lambda * f64::from(u)).max(0.0));
}

dispatch! {
    /// The sum of the logarithms of the products of 1 − λu over blocks, as `unweighted` forms them.
    fn product_logs(u: &[f32], lambda: f64, logs: &mut f64) = product_logs_body
}

#[inline(always)]
fn product_logs_body(u: &[f32], lambda: f64, logs: &mut f64) {
    for block in u.chunks(LANES * DEPTH) {
        let mut products = [1.0; LANES];
        let (rows, rest) = block.as_chunks::<LANES>();
        for row in rows {
            for lane in 0..LANES {
                products[lane] *= (1.0 - lambda * f64::from(row[lane])).max(0.0);
            }
        }
        for (product, &u) in products.iter_mut().zip(rest) {
            *product *= (1.0 - lambda * f64::from(u)).max(0.0);
        }
        *logs += ln_lanes(products).iter().sum::<f64>();
    }
}

/// z with the control variate shrunk for λ. u and v were rounded up, and z is never above κ + θ(top − κ).
#[inline]
fn limited(u: f64, v: f64, top: f64, theta: f64, lambda: f64, kappa: f64) -> f64 {
    let theta = shrunk(theta, top, lambda, kappa);
    (u + theta * v).min(kappa + theta * (top - kappa).max(0.0))
}

const LANES: usize = 8;
const DEPTH: usize = 16;

fn arranged<T: Copy + Default>(values: &mut Vec<T>, blocks: &[u16], starts: &[usize]) {
    if values.is_empty() {
        return;
    }
    let mut next = starts.to_vec();
    let mut out = vec![T::default(); values.len()];
    for (&value, &block) in values.iter().zip(blocks) {
        let place = &mut next[block as usize];
        out[*place] = value;
        *place += 1;
    }
    *values = out;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::elementary::ln;

    #[test]
    fn both_copies_of_the_logarithms_agree() {
        let u: Vec<f32> = (0..3 * LANES * DEPTH + 21).map(|i| (i as f32 * 0.37).sin() * 3.0 - 2.1).collect();
        for n in [0, 1, LANES, LANES * DEPTH + 5, u.len()] {
            let mut logs = [0.0; 2];
            product_logs(&u[..n], 0.3, &mut logs[0]);
            product_logs_body(&u[..n], 0.3, &mut logs[1]);
            assert_eq!(logs[0].to_bits(), logs[1].to_bits(), "{n}");
            let plain: f64 = u[..n].iter().map(|&u| ln(1.0 - 0.3 * f64::from(u))).sum();
            assert!((logs[0] - plain).abs() <= 1e-10, "{n}: {} {plain}", logs[0]);
        }
    }

    #[test]
    fn rounds_up_only() {
        for x in [0.1, -0.1, 1.0, -1.0, 1e-50, -1e-50, 0.0, -0.0, 1e-40, -1e-40, 1e30, -1e300, 1e300] {
            let near = x as f32;
            let want = if f64::from(near) < x { near.next_up() } else { near };
            assert!(rounded_up(x) == want, "{x}");
        }
        assert!(rounded_up(f64::NAN).is_nan());
        for x in [0.1, -0.1, 1.0, -1.0, 1e-50, -1e-50, 0.0] {
            let up = f64::from(rounded_up(x));
            assert!(up >= x && up - x <= 1.2e-7 * x.abs() + 1e-44, "{x} {up}");
        }
    }

    #[test]
    fn products_agree_with_sums_of_logarithms() {
        let (mut plain, mut weighted) = (Table::new(1), Table::new(1));
        for i in 0..1000 {
            let (w, c) = (f64::from(i % 37) * 0.4, -f64::from(i % 5) / 4.0);
            let control = Some(((w - 1.0), 15.0));
            plain.push((w - 1.0) * c, control, None).unwrap();
            weighted.push((w - 1.0) * c, control, Some(1.0)).unwrap();
        }
        for (lambda, theta) in [(0.5, 0.7), (0.01, 0.3), (0.2, 1.0)] {
            let (a, b) = (plain.bets(3..997, theta, lambda), weighted.bets(3..997, theta, lambda));
            assert!((a.logs - b.logs).abs() < 1e-10 * b.logs.abs().max(1.0), "{a:?} {b:?}");
            assert!((a.z - b.z).abs() < 1e-9 && (a.zz - b.zz).abs() < 1e-9 * b.zz, "{a:?} {b:?}");
        }
    }

    #[test]
    fn extreme_numbers_are_bounded() {
        let mut table = Table::new(0);
        table.push(-1e300, Some((1e300, f64::INFINITY)), None).unwrap();
        table.push(-0.5, Some((0.2, 3.0)), None).unwrap();
        let bets = table.bets(0..2, 1.0, 0.5);
        assert!(bets.logs.is_finite() && bets.z.is_finite());
        assert!(table.push(f64::NAN, None, None).is_err());
    }
}
