//! Propensities are probabilities whatever the scores, and gradients are derivatives.

use guarantor_engine::policy::{Lig, LigFast, MixedLogit, Policy, Scratch, Softmax};
use proptest::prelude::*;

use super::small::cases;

/// Rounding of 60 terms, for policies without an integral.
const SUM: f64 = 1e-12;
/// The integrals are least accurate if many actions are equal, because Φ^K is then a narrow step. At K = 60,
/// Σπ − 1 is 1.7e-12 on 80 nodes, 3.3e-5 on every second of them, and 1.3e-4 on 32 nodes (computed in numpy).
const SUM_FINE: f64 = 1e-12;
const SUM_COARSE: f64 = 1e-6;
const SUM_LEARNING: f64 = 1e-3;

/// Central differences at 1e-5 have errors of 1e-10 from curvature and 1e-11 from rounding, times third
/// derivatives of size 10.
const STEP: f64 = 1e-5;
const DERIVATIVE: f64 = 1e-7;

/// Scores of every size, many of them equal.
fn wild_scores() -> impl Strategy<Value = Vec<f64>> {
    let score = prop_oneof![-3.0..3.0f64, -1e3..1e3f64, -1e9..1e9f64, Just(0.0), Just(-0.0), Just(1e-300)];
    prop::collection::vec(score, 2..=60)
}

fn propensities(policy: &dyn Policy, scores: &[f64], norm: f64) -> Vec<f64> {
    let mut pi = vec![f64::NAN; scores.len()];
    policy.propensities(scores, norm, &mut Scratch::default(), &mut pi);
    pi
}

fn check_probabilities(
    policy: &dyn Policy,
    scores: &[f64],
    norm: f64,
    tolerance: f64,
) -> Result<(), TestCaseError> {
    let pi = propensities(policy, scores, norm);
    let total: f64 = pi.iter().sum();
    prop_assert!((total - 1.0).abs() <= tolerance, "Σπ − 1 = {:e}", total - 1.0);
    prop_assert!(pi.iter().all(|p| (0.0..=1.0 + tolerance).contains(p)), "{pi:?}");
    Ok(())
}

/// Σ_a h_a π(a|x).
fn mean_of(policy: &dyn Policy, scores: &[f64], h: &[f64]) -> f64 {
    propensities(policy, scores, NORM).iter().zip(h).map(|(p, h)| p * h).sum()
}

const NORM: f64 = 1.3;

/// Compares the gradient of Σ hπ with differences; `at` makes the policy for a scale.
fn check_gradient(
    at: &dyn Fn(f64) -> Box<dyn Policy>,
    scores: &[f64],
    h: &[f64],
) -> Result<(), TestCaseError> {
    let (policy, k) = (at(0.8), scores.len());
    let (mut scratch, mut pi, mut d) = (Scratch::default(), vec![0.0; k], vec![0.0; k]);
    policy.propensities(scores, NORM, &mut scratch, &mut pi);
    let d_log_scale = policy.gradient(scores, NORM, &mut scratch, &pi, h, &mut d);
    for a in 0..k {
        let moved = |by: f64| {
            let mut scores = scores.to_vec();
            scores[a] += by;
            mean_of(&*policy, &scores, h)
        };
        let want = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
        prop_assert!((d[a] - want).abs() <= DERIVATIVE, "∂/∂score {a}: {} is not {want}", d[a]);
    }
    let scaled = |by: f64| mean_of(&*at(0.8 * by.exp()), scores, h);
    let want = (scaled(STEP) - scaled(-STEP)) / (2.0 * STEP);
    prop_assert!((d_log_scale - want).abs() <= DERIVATIVE, "∂/∂ln σ: {d_log_scale} is not {want}");
    Ok(())
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn propensities_sum_to_one(scores in wild_scores(), norm in prop_oneof![Just(1.0), 1e-6..1e6f64], scale in 1e-3..1e3f64) {
        check_probabilities(&Lig::fine(scale, scores.len()), &scores, norm, SUM_FINE)?;
        check_probabilities(&LigFast { scale }, &scores, norm, SUM_LEARNING)?;
        check_probabilities(&Softmax { inverse_temperature: scale }, &scores, norm, SUM)?;
        check_probabilities(&MixedLogit::new(scale, scores.len(), 64), &scores, norm, SUM)?;
    }

    /// Certificates take the difference to the coarse integral as the quadrature error. It must not be below
    /// the error itself, which Σπ − 1 shows.
    #[test]
    fn the_coarse_integral_shows_the_error_of_the_fine(scores in wild_scores()) {
        let (lig, k) = (Lig::fine(1.0, scores.len()), scores.len());
        let (mut scratch, mut fine, mut coarse) = (Scratch::default(), vec![0.0; k], vec![0.0; k]);
        lig.propensities(&scores, 1.0, &mut scratch, &mut fine);
        lig.coarse(1.0, &scratch, &fine, &mut coarse);
        let difference: f64 = fine.iter().zip(&coarse).map(|(a, b)| (a - b).abs()).sum();
        let error = (fine.iter().sum::<f64>() - 1.0).abs();
        prop_assert!(error <= difference + SUM, "{error:e} is more than {difference:e}");
        prop_assert!(difference <= SUM_COARSE, "{difference:e}");
    }

    #[test]
    fn gradients_are_derivatives(
        (scores, h) in (2usize..8).prop_flat_map(|k| {
            (prop::collection::vec(-3.0..3.0f64, k), prop::collection::vec(-1.0..1.0f64, k))
        }),
    ) {
        check_gradient(&|scale| Box::new(Lig::fine(scale, scores.len())), &scores, &h)?;
        check_gradient(&|scale| Box::new(MixedLogit::new(scale, scores.len(), 64)), &scores, &h)?;
        check_gradient(&|_| Box::new(Softmax { inverse_temperature: 0.8 }), &scores, &h)?;
    }
}
