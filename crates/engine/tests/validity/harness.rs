//! Counting violated claims. A claim is an upper bound on a number whose true value is known. A valid bound
//! at confidence 1 − δ is violated in a share of at most δ of independent logs, so the count is dominated by
//! a binomial variable, and its exact tail says whether the count can be chance.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// δ of the simulated certificates. It is large, so that a wrong bound is violated often enough to be seen.
pub const DELTA: f64 = 0.2;

/// A count of violations below this probability is not chance. A hundred tests at this level raise a false
/// alarm with probability at most 1%, and seeds are fixed, so the result does not vary.
pub const IMPLAUSIBLE: f64 = 1e-4;

/// The claim "truth ≤ bound", with a name.
pub struct Claim {
    pub name: &'static str,
    /// The probability, at most, that the claim is false.
    pub delta: f64,
    pub bound: f64,
    pub truth: f64,
}

impl Claim {
    /// Several claims that share one δ: none of these differences truth − bound is above 0.
    pub fn that_none_exceeds(name: &'static str, excesses: impl IntoIterator<Item = f64>) -> Claim {
        let worst = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
        let truth = excesses.into_iter().fold(f64::NEG_INFINITY, worst);
        Claim { name, delta: DELTA, bound: 0.0, truth }
    }

    /// The same claim with another δ.
    pub fn at(self, delta: f64) -> Claim {
        Claim { delta, ..self }
    }

    /// NaN counts as violated.
    fn is_violated(&self) -> bool {
        self.bound.is_nan() || self.truth.is_nan() || self.truth > self.bound
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tally {
    pub name: &'static str,
    pub delta: f64,
    pub trials: u64,
    pub violations: u64,
    /// The mean of bound − truth over the trials: how loose the bound was.
    pub mean_margin: f64,
}

impl Tally {
    /// P(X ≥ violations) for X ~ Binomial(trials, δ).
    pub fn tail(&self) -> f64 {
        binomial_tail(self.violations, self.trials, self.delta)
    }

    pub fn is_plausible(&self) -> bool {
        self.tail() > IMPLAUSIBLE
    }
}

/// P(X ≥ at_least) for X ~ Binomial(trials, p), by summing its terms.
pub fn binomial_tail(at_least: u64, trials: u64, p: f64) -> f64 {
    let ln_factorial = |n: u64| libm::lgamma(n as f64 + 1.0);
    let term = |x: u64| {
        let ways = ln_factorial(trials) - ln_factorial(x) - ln_factorial(trials - x);
        (ways + x as f64 * p.ln() + (trials - x) as f64 * (-p).ln_1p()).exp()
    };
    (at_least..=trials).map(term).sum()
}

/// Runs independent trials, each with its own seeded generator, and counts violations by claim. Every trial
/// must make the same claims in the same order.
pub fn simulate<F>(trials: u64, seed: u64, trial: F) -> Vec<Tally>
where
    F: Fn(&mut ChaCha8Rng) -> Vec<Claim> + Sync,
{
    let run = |index: u64| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(index);
        trial(&mut rng)
    };
    let all: Vec<Vec<Claim>> = (0..trials).into_par_iter().map(run).collect();
    let tally = |i: usize| {
        let Claim { name, delta, .. } = all[0][i];
        let claims = || all.iter().map(|claims| &claims[i]);
        assert!(
            claims().all(|c| (c.name, c.delta) == (name, delta)),
            "every trial must make the same claims in the same order"
        );
        let violations = claims().filter(|c| c.is_violated()).count() as u64;
        let mean_margin = claims().map(|c| c.bound - c.truth).sum::<f64>() / trials as f64;
        Tally { name, delta, trials, violations, mean_margin }
    };
    let tallies: Vec<Tally> = (0..all[0].len()).map(tally).collect();
    for t in &tallies {
        let (name, delta, tail) = (t.name, t.delta, t.tail());
        let counts = format!("{:>4}/{}", t.violations, t.trials);
        println!("{name:>34}: {counts} δ {delta:.2} tail {tail:.3} margin {:.3}", t.mean_margin);
    }
    tallies
}

pub fn assert_valid(tallies: &[Tally]) {
    for tally in tallies {
        assert!(tally.is_plausible(), "more violations than δ allows: {tally:?}");
    }
}

/// For bounds that are known to be wrong: the harness must detect them.
pub fn assert_flagged(tallies: &[Tally]) {
    for tally in tallies {
        assert!(!tally.is_plausible(), "a broken bound was not detected: {tally:?}");
    }
}
