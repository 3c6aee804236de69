//! The conditional Bernstein bound, CBB (paper, Proposition 3 and its appendix), docs/math.md#cbb and
//! docs/math.md#repeated-contexts.
//!
//!   R(π_Q) ≤ R̂ − ξB + sqrt((KL + ln(4√n_c/δ))/(2n_c))
//!            + min_{λ∈Λ} { (KL + ln(2n_Λ/δ))/λ + (λ l_ξ/n_c) Σ_i g(λ b_ξ/(m_i n_c)) V_i/(m_i n_c) }
//!
//! Context i was logged m_i times; there are n_c contexts and n = Σ m_i rows. This λ is n times the λ of the
//! main text. If every m_i is 1, this is the formula of the main text. Needs π0(·|x) for all actions.

use super::{Bound, BoundValue, Needs, Sample, Seen, add_cips, impossible, smallest};
use crate::error::Result;
use crate::numerics::elementary::{exp_m1, ln};
use crate::terms::Terms;

/// The bias and the second moment are sums over all actions.
pub const NEEDS: Needs = Needs {
    full_propensities: true,
    single_interactions: false,
    fixed_logging: true,
    instead: "betting or log_smoothing, or log `propensities`",
};

/// n_Λ, the number of points of the λ grid.
const POINTS: usize = 100;

/// The conditional Bernstein bound.
#[derive(Debug, Clone)]
pub struct Cbb {
    sample: Sample,
    tau: f64,
    xi: f64,
    delta: f64,
    /// The distinct m_i, ascending. Statistic 2 + j is the second moment of the contexts that were logged
    /// `multiplicities[j]` times.
    multiplicities: Vec<u64>,
    /// Λ, on the scale of the main text.
    grid: Vec<f64>,
}

/// g(u) = (e^u − 1 − u)/u².
fn g(u: f64) -> f64 {
    if u.abs() < 1e-2 {
        // The series up to u^6; the next term is below 1e-16 of the sum.
        let terms = [1.0 / 40_320.0, 1.0 / 5_040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5];
        terms.iter().fold(0.0, |acc, c| acc * u + c)
    } else {
        (exp_m1(u) - u) / (u * u)
    }
}

impl Cbb {
    /// The bound for a log whose contexts were logged as often as `multiplicities` lists (ascending).
    pub fn new(sample: Sample, multiplicities: Vec<u64>, tau: f64, xi: f64, delta: f64) -> Self {
        let mut bound = Cbb { sample, tau, xi, delta, multiplicities, grid: Vec::new() };
        let n = sample.rows as f64;
        let from = (2.0 * tau * ln(1.0 / delta) / (5.0 * n * bound.l())).sqrt();
        let to = 2.0 / bound.b();
        let step = (to - from) / (POINTS - 1) as f64;
        bound.grid = (0..POINTS).map(|i| from + step * i as f64).collect();
        bound
    }

    /// l_ξ.
    fn l(&self) -> f64 {
        (self.xi * self.xi).max((1.0 + self.xi) * (1.0 + self.xi))
    }

    /// b_ξ.
    fn b(&self) -> f64 {
        (1.0 + self.xi) / self.tau - self.xi
    }

    /// The factor of the second moment of the contexts that were logged m times.
    fn moment_weight(&self, lambda: f64, m: u64) -> f64 {
        // nλ/(m·n_c), which is λ itself if every m is 1.
        let u = lambda * self.sample.rows as f64 / (m as f64 * self.sample.contexts as f64);
        u * self.l() * g(u * self.b())
    }

    /// The square root of the bound and its derivative with respect to KL.
    fn complexity(&self, kl: f64) -> (f64, f64) {
        let contexts = self.sample.contexts as f64;
        let k = kl + ln(4.0 * contexts.sqrt() / self.delta);
        let root = (k / (2.0 * contexts)).sqrt();
        (root, 0.25 / (contexts * root))
    }

    /// The term in λ that depends on KL: its value and its derivative with respect to KL.
    fn lambda_term(&self, lambda: f64, kl: f64) -> (f64, f64) {
        let scale = lambda * self.sample.rows as f64;
        ((kl + ln(2.0 * POINTS as f64 / self.delta)) / scale, 1.0 / scale)
    }

    /// The term in λ that depends on the second moments.
    fn moment_term(&self, lambda: f64, moments: &[f64]) -> f64 {
        let weights = self.multiplicities.iter().map(|&m| self.moment_weight(lambda, m));
        weights.zip(moments).map(|(w, v)| w * v).sum()
    }

    /// Adds `bias` times the coefficients of B and `moment` times those of V.
    ///
    /// # Errors
    /// If the context has no propensities of all actions.
    fn add_bias_and_moment(&self, seen: &Seen, bias: f64, moment: f64, h: &mut [f64]) -> Result<()> {
        // A log may serve a context in pieces; each piece counts for its share.
        let share: f64 = seen.context.weights.iter().sum();
        let full = seen.context.full.filter(|full| full.len() == h.len());
        let full = full.ok_or_else(|| impossible("CBB needs the propensities of all actions"))?;
        for (h, &p) in h.iter_mut().zip(full) {
            let clip = p.max(self.tau);
            *h += share * (bias * (1.0 - p / clip) + moment * p / (clip * clip));
        }
        Ok(())
    }

    /// m_i of the context.
    fn multiplicity(&self, seen: &Seen) -> u64 {
        (1.0 / seen.context.weights[0]).round() as u64
    }
}

impl Bound for Cbb {
    fn name(&self) -> &'static str {
        "cbb"
    }

    fn statistics(&self) -> usize {
        2 + self.multiplicities.len()
    }

    fn coefficients(&self, seen: &Seen, h: &mut [f64]) -> Result<()> {
        let k = h.len() / self.statistics();
        let m = self.multiplicity(seen);
        let place = self.multiplicities.binary_search(&m);
        let place = place.map_err(|_| impossible(&format!("no context is listed as logged {m} times")))?;
        add_cips(seen, self.tau, self.xi, &mut h[..k]);
        self.add_bias_and_moment(seen, 1.0, 0.0, &mut h[k..2 * k])?;
        self.add_bias_and_moment(seen, 0.0, 1.0, &mut h[(2 + place) * k..(3 + place) * k])
    }

    fn value_and_gradient(&self, statistics: &[f64], kl: f64) -> BoundValue {
        let (risk, bias, moments) = (statistics[0], statistics[1], &statistics[2..]);
        let (root, d_root) = self.complexity(kl);
        let at = |&lambda: &f64| self.lambda_term(lambda, kl).0 + self.moment_term(lambda, moments);
        let values: Vec<f64> = self.grid.iter().map(at).collect();
        let choice = smallest(&values);
        let lambda = self.grid[choice];
        let mut d_statistics = vec![1.0, -self.xi];
        d_statistics.extend(self.multiplicities.iter().map(|&m| self.moment_weight(lambda, m)));
        BoundValue {
            value: self.xi + risk - self.xi * bias + root + values[choice],
            d_statistics,
            d_kl: d_root + self.lambda_term(lambda, kl).1,
            choice,
        }
    }

    fn held(&self, choice: usize) -> Box<dyn Bound + '_> {
        Box::new(HeldCbb { bound: self, choice, lambda: self.grid[choice] })
    }

    fn terms(&self, statistics: &[f64], kl: f64) -> Terms {
        let choice = self.value_and_gradient(statistics, kl).choice;
        Terms {
            n: self.sample.rows,
            contexts: self.sample.contexts,
            empirical_risk: Some(self.xi + statistics[0]),
            kl: Some(kl),
            penalty: Some(ln(2.0 * POINTS as f64 / self.delta)),
            bias: Some(statistics[1]),
            second_moment: Some(statistics[2..].iter().sum()),
            lambda: Some(self.grid[choice]),
            xi: Some(self.xi),
            tau: Some(self.tau),
            grid_size: Some(POINTS as u64),
            ..Terms::default()
        }
    }
}

/// The bound at one λ, which is linear in the policy.
struct HeldCbb<'a> {
    bound: &'a Cbb,
    choice: usize,
    lambda: f64,
}

impl Bound for HeldCbb<'_> {
    fn name(&self) -> &'static str {
        "cbb"
    }

    fn coefficients(&self, seen: &Seen, h: &mut [f64]) -> Result<()> {
        let moment = self.bound.moment_weight(self.lambda, self.bound.multiplicity(seen));
        add_cips(seen, self.bound.tau, self.bound.xi, h);
        self.bound.add_bias_and_moment(seen, -self.bound.xi, moment, h)
    }

    fn value_and_gradient(&self, statistics: &[f64], kl: f64) -> BoundValue {
        let (root, d_root) = self.bound.complexity(kl);
        let (term, d_term) = self.bound.lambda_term(self.lambda, kl);
        BoundValue {
            value: self.bound.xi + statistics[0] + root + term,
            d_statistics: vec![1.0],
            d_kl: d_root + d_term,
            choice: self.choice,
        }
    }

    fn held(&self, choice: usize) -> Box<dyn Bound + '_> {
        self.bound.held(choice)
    }

    fn terms(&self, _: &[f64], kl: f64) -> Terms {
        Terms { kl: Some(kl), lambda: Some(self.lambda), ..Terms::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden::{assert_close, load, number};
    use super::*;

    #[test]
    fn reproduces_golden_values() {
        for case in load("bounds.json")["cbb"].as_array().unwrap() {
            let get = |name: &str| number(&case[name]);
            let n = get("n") as u64;
            let sample = Sample { rows: n, contexts: n };
            let bound = Cbb::new(sample, vec![1], get("tau"), get("xi"), get("delta"));
            // The golden `rhat` is cvcIPS including its constant ξ.
            let statistics = [get("rhat") - get("xi"), get("bias"), get("second_moment")];
            let value = bound.value_and_gradient(&statistics, get("kl"));
            assert_close("cbb", value.value, get("cbb"));
            assert_close("lambda", bound.grid[value.choice], get("lambda"));
        }
    }

    #[test]
    fn g_is_smooth_where_its_two_forms_meet() {
        for u in [0.009_999f64, 0.010_001, -0.009_999, -0.010_001] {
            let exact = 0.5 + u / 6.0 + u * u / 24.0 + u.powi(3) / 120.0 + u.powi(4) / 720.0;
            assert!((g(u) - exact).abs() < 2e-12, "{u}");
        }
        assert_eq!(g(0.0), 0.5);
    }
}
