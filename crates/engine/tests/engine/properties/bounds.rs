//! Bounds as functions of their statistics, of KL, of δ and of n, and against one another.

use crate::given::Given;
use guarantor_engine::bound::{Betting, Bound, Catoni, Cbb, Choice, Ix, LondonSandler, Sample, lambda_grid};
use guarantor_engine::log::{Columns, MemoryLog};
use guarantor_engine::numerics::divergence::{bernoulli, bernoulli_inverse};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::PolicyClass;
use proptest::prelude::*;

use super::small::{bounds, cases, measured, multiplicities, recipes, sample, value};

/// A few rounding errors of numbers of size 1 to 10.
const ROUNDING: f64 = 1e-12;

/// Sums of tens of terms in two orders, or by two formulas, of size up to 100.
const FORMULA: f64 = 1e-10;

fn once_each(n: u64) -> Sample {
    Sample { rows: n, contexts: n }
}

/// Statistics that a policy could have: `u` in [0, 1) places each within its range.
fn plausible(bound: &dyn Bound, tau: f64, u: &[f64]) -> Vec<f64> {
    let u = |s: usize| u[s % u.len()];
    match (bound.name(), bound.statistics()) {
        ("london_sandler" | "catoni", _) => vec![-u(0) / tau],
        // 1/(π0 + γ) is at most 2√n, and a policy's weights have the mean 1 at most.
        ("ix", _) => vec![-u(0)],
        // R̂ − ξ, B and V.
        ("cbb", count) => (0..count).map(|s| if s == 0 { -u(0) } else { u(s) / tau }).collect(),
        // Means of ln(1 − λz), with 1 − λz at least 0.1.
        (_, count) => (0..count).map(|s| 3.0 * u(s) - 2.3).collect(),
    }
}

fn unit_numbers() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(0.0..1.0f64, 7)
}

proptest! {
    #![proptest_config(cases(300))]

    /// Paper, Theorem 2.
    #[test]
    fn catoni_is_never_above_london_sandler(
        n in 1u64..100_000, tau in 0.001..1.0f64, delta in 0.001..0.5f64, u in 0.0..1.0f64, kl in 0.0..500.0f64,
    ) {
        let (sample, statistics) = (once_each(n), [-u / tau]);
        let catoni = Catoni { sample, tau, delta }.value_and_gradient(&statistics, kl).value;
        let ls = LondonSandler { sample, tau, delta }.value_and_gradient(&statistics, kl).value;
        prop_assert!(catoni <= ls + ROUNDING / tau, "{catoni} > {ls}");
    }

    /// The two forms of Catoni's bound: the kl⁻¹ form is the minimum of the λ form.
    #[test]
    fn catoni_is_the_minimum_over_lambda(
        n in 10u64..100_000, tau in 0.01..1.0f64, u in 0.0..1.0f64, kl in 0.0..100.0f64, lambda in 0.001..5.0f64,
    ) {
        let catoni = Catoni { sample: once_each(n), tau, delta: 0.05 };
        let least = catoni.value_and_gradient(&[-u / tau], kl).value;
        prop_assert!(least <= catoni.at_lambda(-u / tau, kl, lambda) + ROUNDING / tau);
    }

    #[test]
    fn every_bound_grows_with_kl(
        n in 1u64..10_000, tau in 0.01..1.0f64, u in unit_numbers(), kl in 0.0..100.0f64, more in 0.0..100.0f64,
    ) {
        for bound in bounds(once_each(n), &[1], tau, 0.05) {
            let statistics = plausible(&*bound, tau, &u);
            let (low, high) =
                (bound.value_and_gradient(&statistics, kl), bound.value_and_gradient(&statistics, kl + more));
            prop_assert!(low.value <= high.value + ROUNDING / tau, "{}", bound.name());
            prop_assert!(low.d_kl >= 0.0, "{}", bound.name());
        }
    }

    /// CBB is left out: its λ grid depends on δ.
    #[test]
    fn less_confidence_never_costs_more(
        n in 1u64..10_000, tau in 0.01..1.0f64, u in unit_numbers(), kl in 0.0..50.0f64,
        delta in 0.001..0.5f64, factor in 1.0..2.0f64,
    ) {
        let pairs = bounds(once_each(n), &[1], tau, delta).into_iter()
            .zip(bounds(once_each(n), &[1], tau, delta * factor));
        for (strict, loose) in pairs.filter(|(b, _)| b.name() != "cbb") {
            let statistics = plausible(&*strict, tau, &u);
            let (strict_value, loose_value) =
                (strict.value_and_gradient(&statistics, kl).value, loose.value_and_gradient(&statistics, kl).value);
            prop_assert!(loose_value <= strict_value + ROUNDING / tau, "{}", strict.name());
        }
    }

    /// At the same statistics. CBB is left out: its λ grid depends on n.
    #[test]
    fn more_rows_never_cost_more(
        n in 1u64..10_000, more in 0u64..10_000, tau in 0.01..1.0f64, u in unit_numbers(), kl in 0.0..50.0f64,
    ) {
        let pairs = bounds(once_each(n), &[1], tau, 0.05).into_iter()
            .zip(bounds(once_each(n + more), &[1], tau, 0.05));
        for (few, many) in pairs.filter(|(b, _)| b.name() != "cbb") {
            let statistics = plausible(&*few, tau, &u);
            let (few_value, many_value) =
                (few.value_and_gradient(&statistics, kl).value, many.value_and_gradient(&statistics, kl).value);
            prop_assert!(many_value <= few_value + ROUNDING / tau, "{}", few.name());
        }
    }

    #[test]
    fn kl_inverse_is_monotone_and_inverts(
        q in 0.0..1.0f64, dq in 0.0..0.5f64, epsilon in 0.0..5.0f64, more in 0.0..5.0f64,
    ) {
        let p = bernoulli_inverse(q, epsilon);
        prop_assert!((q..=1.0).contains(&p));
        prop_assert!(p <= bernoulli_inverse(q, epsilon + more));
        prop_assert!(p <= bernoulli_inverse((q + dq).min(1.0), epsilon) + ROUNDING);
        // Never below the exact value, except for the last digit of p, which near 1 is many digits of kl.
        prop_assert!(p == 1.0 || bernoulli(q, p.next_up()) >= epsilon - ROUNDING);
    }
}

/// CBB of the main text (paper, Proposition 3), written out for logs with one interaction per context.
fn cbb_by_hand(columns: &Columns, pi: &[Vec<f64>], tau: f64, xi: f64, delta: f64, kl: f64) -> f64 {
    let (n, full) = (columns.rows() as f64, columns.full.as_ref().unwrap());
    let (mut risk, mut bias, mut moment) = (xi, 0.0, 0.0);
    for (i, pi) in pi.iter().enumerate() {
        let a = columns.actions[i] as usize;
        risk += pi[a] / columns.propensities[i].max(tau) * (columns.costs[i] - xi) / n;
        for (a, pi) in pi.iter().enumerate() {
            let p = full[i * columns.n_actions + a];
            bias += if p < tau { pi * (1.0 - p / tau) / n } else { 0.0 };
            moment += pi * p / p.max(tau).powi(2) / n;
        }
    }
    let (l, b) = (xi.powi(2).max((1.0 + xi).powi(2)), (1.0 + xi) / tau - xi);
    let (from, to) = ((2.0 * tau * (1.0 / delta).ln() / (5.0 * n * l)).sqrt(), 2.0 / b);
    let term = |i: usize| {
        let lambda = from + (to - from) * i as f64 / 99.0;
        let u = lambda * b;
        let g = (u.exp() - 1.0 - u) / (u * u);
        (kl + (200.0 / delta).ln()) / (lambda * n) + lambda * l * g * moment
    };
    let least = (0..100).map(term).fold(f64::INFINITY, f64::min);
    risk - xi * bias + ((kl + (4.0 * n.sqrt() / delta).ln()) / (2.0 * n)).sqrt() + least
}

/// π(·|x) of each row.
fn propensities(log: &MemoryLog, policy: &PolicyParams) -> Vec<Vec<f64>> {
    policy.propensities(log.x()).unwrap().rows().into_iter().map(|r| r.to_vec()).collect()
}

proptest! {
    #![proptest_config(cases(60))]

    /// If every context was logged once, the form for several interactions is that of the main text.
    #[test]
    fn cbb_of_single_interactions_is_the_papers(recipe in recipes(1), tau in 0.05..1.0f64, xi in -1.0..0.0f64) {
        let columns = recipe.columns();
        let log = MemoryLog::new(columns.clone()).unwrap();
        let (q, prior) = recipe.gaussians();
        let (policy, kl) = (q.policy(PolicyClass::Lig), q.kl(&prior));
        let bound = Cbb::new(sample(&log), multiplicities(&columns), tau, xi, 0.1);
        let want = cbb_by_hand(&columns, &propensities(&log, &policy), tau, xi, 0.1, kl);
        let got = value(&log, &policy, &bound, kl);
        prop_assert!((got - want).abs() <= FORMULA * (1.0 + want.abs()), "{got} is not {want}");
        let unnamed = MemoryLog::new(Columns { contexts: None, ..columns }).unwrap();
        prop_assert_eq!(got, value(&unnamed, &policy, &bound, kl));
    }

    /// The step of the proof that replaces a logarithm: with the same γ, logarithmic smoothing at λ = 2γ is never
    /// above implicit exploration if KL is paid alike.
    #[test]
    fn implicit_exploration_is_never_below_smoothing_at_its_gamma(recipe in recipes(3), more in 0.0..10.0f64) {
        let log = MemoryLog::new(recipe.columns()).unwrap();
        let (q, prior) = recipe.gaussians();
        let (policy, kl) = (q.policy(PolicyClass::Lig), q.kl(&prior) + more);
        let (sample, delta) = (sample(&log), 0.05);
        let ix = Ix { sample, delta };
        let choice = Choice { xi: 0.0, tau: 0.0, lambda: 2.0 * ix.gamma() };
        let smooth = Betting { choices: vec![choice], ..Betting::log_smoothing(sample, delta) };
        let (wide, narrow) = (value(&log, &policy, &ix, kl), value(&log, &policy, &smooth, kl));
        prop_assert!(narrow <= wide + FORMULA, "{narrow} > {wide}");
    }

    /// log_smoothing is betting at ξ = 0, κ = 0 in the limit τ → 0: betting decreases toward it as τ falls,
    /// and equals it once no propensity is clipped.
    #[test]
    fn log_smoothing_is_the_limit_of_betting(recipe in recipes(3), taus in (0.01..1.0f64, 0.01..1.0f64)) {
        let log = MemoryLog::new(recipe.columns()).unwrap();
        let (q, prior) = recipe.gaussians();
        let (policy, kl) = (q.policy(PolicyClass::Lig), q.kl(&prior));
        let limit = Betting::log_smoothing(sample(&log), 0.05);
        let at = |tau: f64| {
            let choices = lambda_grid(0.0, tau, 0);
            value(&log, &policy, &Betting { choices, ..limit.clone() }, kl)
        };
        let (low, high) = (taus.0.min(taus.1), taus.0.max(taus.1));
        prop_assert!(at(low) <= at(high) + ROUNDING);
        prop_assert_eq!(at(1e-12), value(&log, &policy, &limit, kl));
        prop_assert_eq!(at(1e-12), value(&log, &policy, &Betting::new(sample(&log), 0, &[0.0], 0.5, 0.05), kl));
    }

    /// By Jensen's inequality, a policy's propensities never give a worse bound than its decision rules, at
    /// every λ and ξ.
    #[test]
    fn a_given_policy_is_never_worse_than_its_rules(recipe in recipes(3), tau in 0.05..1.0f64, kappa in 0u8..2) {
        let log = MemoryLog::new(recipe.columns()).unwrap();
        let policy = recipe.gaussians().0.policy(PolicyClass::Lig);
        let rules = Betting::new(sample(&log), kappa, &[0.0, -0.3, -0.9], tau, 0.05);
        let of_rules = measured(&log, &policy, &(&rules as &dyn Bound)).statistics;
        let given = Given { betting: rules.clone() };
        let of_given = measured(&log, &policy, &given).statistics;
        for choice in 0..rules.choices.len() {
            let (a, b) = (rules.at(choice, of_given[choice], 0.0).0, rules.at(choice, of_rules[choice], 0.0).0);
            prop_assert!(a <= b + ROUNDING / rules.choices[choice].lambda, "{choice}: {a} > {b}");
        }
    }
}
