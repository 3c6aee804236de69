//! Gradients of every bound through the policy. The whole chain (μ, ln σ) → scores → propensities →
//! statistics → value, with the member of the grid held, is compared with central differences of the value
//! from `measure`. The learner's own gradient, which is in f32, is compared with the same chain.

use guarantor_engine::bound::{Bound, Seen};
use guarantor_engine::control::unattended;
use guarantor_engine::learn::bound_learner::{Gaussian, Learner, LearningProblem, minimize};
use guarantor_engine::log::{LogSource, MemoryLog};
use guarantor_engine::policy::Scratch;
use guarantor_engine::spec::{Optimizer, PolicyClass, Preset};
use ndarray::Array2;
use proptest::prelude::*;

use crate::light_kl::LightKl;

use super::small::{Recipe, bounds, cases, measured, multiplicities, recipes, sample, value};

/// Central differences at 1e-5 have errors of 1e-10 from curvature and 1e-11 from rounding, times the size of
/// the bound's derivatives, which is some hundreds because of 1/τ and 1/λ.
const STEP: f64 = 1e-5;
const RELATIVE: f64 = 1e-6;

/// Propensities in f32 have errors of 1e-6, relative to the largest component of a gradient that is a sum
/// over rows.
const SINGLE: f64 = 1e-3;

/// d value/d(μ, ln σ) by the chain rule, from the public traits.
fn by_chain(log: &MemoryLog, held: &dyn Bound, q: &Gaussian, prior: &Gaussian) -> (Array2<f64>, f64) {
    let policy = q.policy(PolicyClass::Lig);
    let statistic = measured(log, &policy, &held).statistics;
    let outer = held.value_and_gradient(&statistic, q.kl(prior));
    let scale = outer.d_statistics[0] / log.shape().contexts as f64;
    let (link, mut scratch, k) = (policy.link(), Scratch::default(), q.mean.ncols());
    let squared = (q.scale / prior.scale).powi(2);
    let mut d_mean = (&q.mean - &prior.mean) * (outer.d_kl / prior.scale.powi(2));
    let mut d_log_scale = outer.d_kl * q.mean.len() as f64 * (squared - 1.0);
    for index in 0..log.chunks() {
        let chunk = log.chunk(index).unwrap();
        let guarantor_engine::policy::Scored { scores, norms, .. } = policy.scores(chunk.x.view()).unwrap();
        for (c, &norm) in norms.iter().enumerate() {
            let (mut h, mut pi, mut d) = (vec![0.0; k], vec![0.0; k], vec![0.0; k]);
            let seen = Seen { n_actions: k, context: chunk.context(c), cost_model: None };
            held.coefficients(&seen, &mut h).unwrap();
            let scores = scores.row(c).to_vec();
            link.propensities(&scores, norm, &mut scratch, &mut pi);
            d_log_scale += scale * link.gradient(&scores, norm, &mut scratch, &pi, &h, &mut d);
            for ((j, a), d_mean) in d_mean.indexed_iter_mut() {
                *d_mean += scale * d[a] * f64::from(chunk.x[(c, j)]);
            }
        }
    }
    (d_mean, d_log_scale)
}

/// Central differences of the held bound's value.
fn by_differences(log: &MemoryLog, held: &dyn Bound, q: &Gaussian, prior: &Gaussian) -> (Array2<f64>, f64) {
    let at = |q: &Gaussian| value(log, &q.policy(PolicyClass::Lig), held, q.kl(prior));
    let slope = |move_by: &dyn Fn(f64) -> Gaussian| (at(&move_by(STEP)) - at(&move_by(-STEP))) / (2.0 * STEP);
    let d_mean = Array2::from_shape_fn(q.mean.dim(), |place| {
        slope(&|by| {
            let mut moved = q.clone();
            moved.mean[place] += by;
            moved
        })
    });
    (d_mean, slope(&|by| Gaussian { scale: q.scale * by.exp(), ..q.clone() }))
}

/// Every bound on a log, with its best member of the grid held.
fn for_each_held(
    recipe: &Recipe,
    check: impl Fn(&MemoryLog, &dyn Bound, &dyn Bound) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let columns = recipe.columns();
    let (q, prior) = recipe.gaussians();
    let log = MemoryLog::new(columns.clone()).unwrap();
    for bound in bounds(sample(&log), &multiplicities(&columns), 0.3, 0.1) {
        let statistics = measured(&log, &q.policy(PolicyClass::Lig), &&*bound).statistics;
        let held = bound.held(bound.value_and_gradient(&statistics, q.kl(&prior)).choice);
        check(&log, &*bound, &*held)?;
    }
    Ok(())
}

/// Catoni's bound is at most 0. If it is 0 in all digits, its differences are 0, but the gradient that it
/// reports is not, so that the learner can leave that region.
fn is_saturated(log: &MemoryLog, held: &dyn Bound, q: &Gaussian, prior: &Gaussian) -> bool {
    held.name() == "catoni" && value(log, &q.policy(PolicyClass::Lig), held, q.kl(prior)) > -1e-6
}

fn largest(d_mean: &Array2<f64>, d_log_scale: f64) -> f64 {
    d_mean.iter().fold(d_log_scale.abs(), |most, d| most.max(d.abs()))
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn gradients_through_the_policy_are_derivatives(recipe in recipes(3)) {
        let (q, prior) = recipe.gaussians();
        for_each_held(&recipe, |log, bound, held| {
            if is_saturated(log, held, &q, &prior) {
                return Ok(());
            }
            let (d_mean, d_log_scale) = by_chain(log, held, &q, &prior);
            let (want_mean, want_log_scale) = by_differences(log, held, &q, &prior);
            let tolerance = RELATIVE * (1.0 + largest(&want_mean, want_log_scale));
            for (got, want) in d_mean.iter().zip(&want_mean) {
                prop_assert!((got - want).abs() <= tolerance, "{}: ∂/∂μ {got} is not {want}", bound.name());
            }
            let (got, want) = (d_log_scale, want_log_scale);
            prop_assert!((got - want).abs() <= tolerance, "{}: ∂/∂ln σ {got} is not {want}", bound.name());
            Ok(())
        })?;
    }

    /// The bound with its best member of the grid held equals the whole bound in value and gradient.
    #[test]
    fn holding_the_best_choice_changes_nothing(recipe in recipes(3)) {
        let (q, prior) = recipe.gaussians();
        let policy = q.policy(PolicyClass::Lig);
        for_each_held(&recipe, |log, bound, held| {
            let (whole, part) = (value(log, &policy, bound, q.kl(&prior)), value(log, &policy, held, q.kl(&prior)));
            prop_assert!((whole - part).abs() <= 1e-12 * (1.0 + whole.abs()), "{}: {whole} {part}", bound.name());
            prop_assert_eq!(held.statistics(), 1);
            Ok(())
        })?;
    }

    /// The learner's pass at Q = P. Its variables are u = (μ − μ0)/σ0 and √(2d)·ln(σ/σ0).
    #[test]
    fn the_learners_gradient_is_the_same(recipe in recipes(3)) {
        let (q, _) = recipe.gaussians();
        for_each_held(&recipe, |log, bound, held| {
            let problem =
                LearningProblem { log, bound, class: PolicyClass::Lig, prior: &q, seed: 0 };
            let control = unattended();
            let learner = Learner::new(&problem, &control).unwrap();
            let (_, got) = learner.pass(held, &learner.start()).unwrap();
            let (d_mean, d_log_scale) = by_chain(log, held, &q, &q);
            let mut want: Vec<f64> = d_mean.iter().map(|d| d * q.scale).collect();
            want.push(d_log_scale / (2.0 * q.mean.len() as f64).sqrt());
            let most = want.iter().fold(0.0f64, |most, d| most.max(d.abs()));
            for (got, want) in got.iter().zip(&want) {
                prop_assert!((got - want).abs() <= SINGLE * (0.01 + most), "{}: {got} is not {want}", bound.name());
            }
            Ok(())
        })?;
    }

    /// Learning never ends above its prior, both measured as certificates do.
    #[test]
    fn learning_never_ends_above_the_prior(recipe in recipes(2), kl_weight in prop_oneof![Just(1.0), Just(0.01)]) {
        let (_, prior) = recipe.gaussians();
        for_each_held(&recipe, |log, bound, _| {
            let light = LightKl::new(bound, kl_weight);
            let problem = LearningProblem { log, bound: &light, class: PolicyClass::Lig, prior: &prior, seed: 0 };
            let optimizer =
                Optimizer { preset: Preset::Fast, epochs: Some(20), learning_rate: None, batch_size: None, max_seconds: None };
            let learned = minimize(&problem, &optimizer, &unattended());
            prop_assert!(learned.is_ok(), "{}: {:?}", bound.name(), learned);
            let q = learned.unwrap().gaussian;
            let at = |g: &Gaussian| value(log, &g.policy(PolicyClass::Lig), bound, kl_weight * g.kl(&prior));
            let (after, before) = (at(&q), at(&prior));
            prop_assert!(after <= before + 1e-4 * (1.0 + before.abs()), "{}: {after} > {before}", bound.name());
            Ok(())
        })?;
    }
}
