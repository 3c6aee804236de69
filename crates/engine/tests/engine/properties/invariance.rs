//! What must not matter: the order of rows, the names of actions, the number of threads.

use std::collections::BTreeMap;

use crate::given::Given;
use guarantor_engine::bound::{Betting, Bound};
use guarantor_engine::control::unattended;
use guarantor_engine::learn::bound_learner::{Gaussian, LearningProblem, minimize};
use guarantor_engine::log::{Columns, LogSource, MemoryLog};
use guarantor_engine::numerics::random::shuffle;
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{Optimizer, PolicyClass, Preset, SpecContext, SpecRequest};
use guarantor_engine::{Inputs, run};
use ndarray::{Array2, Axis};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::small::{Recipe, bounds, cases, measured, multiplicities, recipes, sample};

/// Sums of tens of terms in another order.
const ROUNDING: f64 = 1e-12;

/// The accuracy of 4096 points (see the unit test of mixed logit).
const QUASI_MONTE_CARLO: f64 = 2e-3;

fn shuffled(n: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    shuffle(&mut order, &mut ChaCha8Rng::seed_from_u64(seed));
    order
}

fn with_rows(columns: &Columns, order: &[usize]) -> Columns {
    let (p, k) = (columns.dim, columns.n_actions);
    let pick = |values: &[f64]| order.iter().map(|&i| values[i]).collect::<Vec<f64>>();
    let wide = |values: &[f64]| order.iter().flat_map(|&i| values[i * k..(i + 1) * k].to_vec()).collect();
    Columns {
        x: order.iter().flat_map(|&i| columns.x[i * p..(i + 1) * p].to_vec()).collect(),
        actions: order.iter().map(|&i| columns.actions[i]).collect(),
        costs: pick(&columns.costs),
        propensities: pick(&columns.propensities),
        full: columns.full.as_ref().map(|f| wide(f)),
        contexts: columns.contexts.as_ref().map(|c| order.iter().map(|&i| c[i]).collect()),
        ..columns.clone()
    }
}

/// Renames action `order[a]` to a.
fn with_actions(columns: &Columns, order: &[usize]) -> Columns {
    let place = |action: &u32| order.iter().position(|&o| o == *action as usize).unwrap() as u32;
    let rename = |full: &Vec<f64>| {
        full.chunks(order.len()).flat_map(|row| order.iter().map(|&o| row[o])).collect::<Vec<f64>>()
    };
    Columns {
        actions: columns.actions.iter().map(place).collect(),
        full: columns.full.as_ref().map(rename),
        ..columns.clone()
    }
}

fn renamed(q: &Gaussian, order: &[usize]) -> Gaussian {
    Gaussian { mean: q.mean.select(Axis(1), order), scale: q.scale }
}

/// Every statistic of every bound and of the given form, with its error.
fn everything(columns: &Columns, policy: &PolicyParams) -> Vec<(f64, f64)> {
    let log = MemoryLog::new(columns.clone()).unwrap();
    let mut all = Vec::new();
    let mut add = |m: guarantor_engine::measure::Measured| all.extend(m.statistics.into_iter().zip(m.errors));
    for bound in bounds(sample(&log), &multiplicities(columns), 0.3, 0.1) {
        add(measured(&log, policy, &&*bound));
    }
    add(measured(&log, policy, &Given { betting: Betting::new(sample(&log), 1, &[0.0, -0.4], 0.3, 0.1) }));
    all
}

fn check_same(
    a: &[(f64, f64)],
    b: &[(f64, f64)],
    slack: impl Fn(f64, f64) -> f64,
) -> Result<(), TestCaseError> {
    prop_assert_eq!(a.len(), b.len());
    for ((a, a_error), (b, b_error)) in a.iter().zip(b) {
        prop_assert!((a - b).abs() <= slack(a.abs(), a_error + b_error), "{a} is not {b}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(30))]

    #[test]
    fn the_order_of_rows_does_not_matter(recipe in recipes(4)) {
        let columns = recipe.columns();
        let policy = recipe.gaussians().0.policy(PolicyClass::Lig);
        let moved = with_rows(&columns, &shuffled(columns.rows(), recipe.seed));
        let (before, after) = (everything(&columns, &policy), everything(&moved, &policy));
        check_same(&before, &after, |size, _| ROUNDING * (1.0 + size))?;
    }

    #[test]
    fn the_names_of_actions_do_not_matter(recipe in recipes(4)) {
        let (columns, order) = (recipe.columns(), shuffled(recipe.k, recipe.seed));
        let (q, moved) = (recipe.gaussians().0, with_actions(&recipe.columns(), &order));
        let of = |columns: &Columns, q: &Gaussian, class| everything(columns, &q.policy(class));
        let (before, after) = (
            of(&columns, &q, PolicyClass::Lig),
            of(&moved, &renamed(&q, &order), PolicyClass::Lig),
        );
        check_same(&before, &after, |size, _| ROUNDING * (1.0 + size))?;
    }
}

proptest! {
    #![proptest_config(cases(8))]

    /// The points of mixed logit depend on the order of actions, so results agree only to their accuracy.
    #[test]
    fn mixed_logit_hardly_depends_on_the_names_of_actions(recipe in recipes(2)) {
        let (columns, order) = (recipe.columns(), shuffled(recipe.k, recipe.seed));
        let q = recipe.gaussians().0;
        let of = |columns: &Columns, q: &Gaussian| {
            let log = MemoryLog::new(columns.clone()).unwrap();
            let bound = Betting::log_smoothing(sample(&log), 0.1);
            let m = measured(&log, &q.policy(PolicyClass::MixedLogit), &(&bound as &dyn Bound));
            m.statistics.into_iter().zip(m.errors).collect::<Vec<_>>()
        };
        let (before, after) = (of(&columns, &q), of(&with_actions(&columns, &order), &renamed(&q, &order)));
        check_same(&before, &after, |size, errors| errors + QUASI_MONTE_CARLO * (1.0 + size))?;
    }
}

/// More contexts than one chunk holds, so that two threads have work.
fn large() -> Columns {
    Recipe { seed: 9, contexts: 3000, most: 2, k: 4, p: 3 }.columns()
}

fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

#[test]
fn measuring_gives_the_same_bits_on_one_and_two_threads() {
    let columns = large();
    assert!(MemoryLog::new(columns.clone()).unwrap().chunks() > 2);
    let policy = Recipe { seed: 9, contexts: 1, most: 1, k: 4, p: 3 }.gaussians().0.policy(PolicyClass::Lig);
    let bits = |threads: usize| -> Vec<(u64, u64)> {
        let all = on_threads(threads, || everything(&columns, &policy));
        all.iter().map(|(value, error)| (value.to_bits(), error.to_bits())).collect()
    };
    assert_eq!(bits(1), bits(2));
}

#[test]
fn learning_gives_the_same_bits_on_one_and_two_threads() {
    let log = MemoryLog::new(large()).unwrap();
    let bound = Betting::new(sample(&log), 1, &[0.0, -0.4], 0.25, 0.05);
    let prior = Gaussian { mean: Array2::zeros((3, 4)), scale: 1.0 };
    let learned = |threads: usize| {
        let problem =
            LearningProblem { log: &log, bound: &bound, class: PolicyClass::Lig, prior: &prior, seed: 0 };
        let optimizer = Optimizer {
            preset: Preset::Fast,
            epochs: Some(12),
            learning_rate: None,
            batch_size: None,
            max_seconds: None,
        };
        on_threads(threads, || minimize(&problem, &optimizer, &unattended()).unwrap())
    };
    let (one, two) = (learned(1), learned(2));
    assert_ne!(one.gaussian, prior, "something was learned");
    assert_eq!(one.gaussian, two.gaussian);
    assert_eq!(one.value.to_bits(), two.value.to_bits());
}

#[test]
fn a_whole_job_gives_the_same_certificate_on_one_and_two_threads() {
    let columns = large();
    let log = MemoryLog::new(columns).unwrap();
    let request = SpecRequest { seed: Some(5), ..SpecRequest::default() };
    let context = SpecContext {
        shape: log.shape(),
        logging_policy: None,
        policy: &|_| None,
        seen_rows: 0,
        caller: "nobody",
    };
    let spec = request.resolve(&context).unwrap();
    let policies = BTreeMap::new();
    let inputs = Inputs {
        log: &log,
        logging_policy: None,
        policies: &policies,
        dataset_version: 1,
        dataset_digest: "large",
        log_checks: None,
    };
    let [one, two] =
        [1, 2].map(|threads| on_threads(threads, || run(&spec, &inputs, &unattended()).unwrap()));
    assert_eq!(one.certificate.digest, two.certificate.digest);
    assert_eq!(one, two);
}
