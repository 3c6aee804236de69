//! Recipes, partials and their merge: the same certificate however the rows are divided, and errors for everything that
//! would count rows twice, leave rows out or mix recipes.

use std::collections::BTreeMap;
use std::sync::Arc;

use guarantor_engine::Inputs;
use guarantor_engine::certificate::{Certificate, Decision, check_digest};
use guarantor_engine::checks::CheckName;
use guarantor_engine::control::unattended;
use guarantor_engine::log::{Columns, LogSource, MemoryLog, Outcome, Precision, PrecisionFinder};
use guarantor_engine::partial::{
    FreezeRequest, MergeCode, MergeError, Partial, PartialBuilder, Recipe, SplitRule, merge, partial_of,
};
use guarantor_engine::spec::{BoundKind, Candidate, JobKind, JobSpec, SpecContext, SpecRequest};

/// What the rows of a world have.
#[derive(Clone, Copy)]
struct World {
    /// How much better the best action is.
    gain: f64,
    full: bool,
    /// What the candidate's column is multiplied with: 1 for its probability.
    confidence: f64,
    /// To how many decimals propensities are written.
    decimals: Option<i32>,
    seed: u64,
}

const WORLD: World = World { gain: 0.6, full: true, confidence: 1.0, decimals: None, seed: 3 };

/// Rows of a policy over three actions, with times, features and a candidate that nearly always plays the best action.
fn rows_of(world: World, from: usize, to: usize) -> Columns {
    let mut columns = Columns { n_actions: 3, dim: 3, full: world.full.then(Vec::new), ..Columns::default() };
    let (mut times, mut played) = (Vec::new(), Vec::new());
    for i in from..to {
        let mut state = world.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (i as u64 + 1);
        let mut unit = || {
            for _ in 0..3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state ^= state >> 29;
            }
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let x = [unit(), unit(), unit()];
        let best = (0..3).max_by(|&a, &b| x[a].total_cmp(&x[b])).unwrap();
        let weights = [0.4 + unit(), 0.4 + unit(), 0.4 + unit()];
        let total: f64 = weights.iter().sum();
        let mut pi = weights.map(|w| w / total);
        if let Some(decimals) = world.decimals {
            let unit = 10f64.powi(decimals);
            pi = pi.map(|p| (p * unit).round() / unit);
        }
        let action = guarantor_engine::policy::pick(pi.iter().copied(), unit());
        let good = 0.5 + if action == best { world.gain / 2.0 } else { -world.gain / 4.0 };
        columns.x.extend(x.map(|v| v as f32));
        columns.actions.push(action as u32);
        columns.costs.push(if unit() < good { -1.0 } else { 0.0 });
        columns.propensities.push(pi[action]);
        columns.full.iter_mut().for_each(|full| full.extend(pi));
        let least = 0.03 + 0.01 * unit();
        let probability = if action == best { 1.0 - 2.0 * least } else { least };
        played.push((probability * world.confidence).min(1.0));
        times.push(1_000 + i as i64);
    }
    columns.precision = precision_of(columns.full.as_ref().unwrap_or(&columns.propensities));
    columns.candidate_precision = vec![precision_of(&[0.25]), precision_of(&played)];
    columns.candidates = vec![("other".into(), vec![0.25; to - from]), ("better".into(), played)];
    columns.timestamps = Some(times);
    columns
}

/// The precision that ingest finds.
fn precision_of(written: &[f64]) -> Precision {
    let mut finder = PrecisionFinder::default();
    written.iter().for_each(|&p| finder.see(p));
    finder.finish()
}

fn resolve(log: &MemoryLog, request: &SpecRequest) -> JobSpec {
    let context = SpecContext {
        shape: log.shape(),
        logging_policy: None,
        policy: &|_| None,
        seen_rows: 0,
        caller: "test",
    };
    request.resolve(&context).unwrap()
}

fn evaluate() -> SpecRequest {
    SpecRequest {
        candidates: Some(vec![Candidate::Logged { name: "better".into() }]),
        independent_of_log: Some(true),
        ..SpecRequest::default()
    }
}

fn freeze_on(columns: Columns, request: &SpecRequest, planned: Option<u64>) -> Result<Recipe, MergeError> {
    let log = MemoryLog::new(columns).unwrap();
    let spec = resolve(&log, request);
    let policies = BTreeMap::new();
    let inputs = Inputs {
        log: &log,
        logging_policy: None,
        policies: &policies,
        dataset_version: 1,
        dataset_digest: "sha256:test",
        log_checks: None,
    };
    let request = FreezeRequest { spec: &spec, planned_rows: planned, sketch: None };
    Recipe::freeze(&inputs, &request, &unattended())
}

/// Rows in another order, divided into this many partials, each in two chunks and through JSON.
fn divided(columns: &Columns, recipe: &Recipe, parts: usize, step: usize) -> Vec<Partial> {
    let n = columns.rows();
    let order: Vec<u32> = (0..n).map(|i| (i * step % n) as u32).collect();
    let recipe = Arc::new(recipe.clone());
    let part = |i: usize, rows: &[u32]| {
        let mut builder = PartialBuilder::new(Arc::clone(&recipe), &format!("part {i}")).unwrap();
        for rows in rows.chunks(rows.len().div_ceil(2)) {
            let mut chunk = columns.clone();
            chunk.reorder(rows);
            builder.add(chunk, &unattended()).unwrap();
        }
        let partial = builder.finish(None).unwrap();
        Partial::from_json(&partial.to_json().unwrap()).unwrap()
    };
    let mut partials: Vec<Partial> =
        order.chunks(n.div_ceil(parts)).enumerate().map(|(i, rows)| part(i, rows)).collect();
    partials.rotate_left(parts / 3);
    partials
}

fn certificate(columns: &Columns, recipe: &Recipe, parts: usize, step: usize) -> Certificate {
    let rows = Some(columns.rows() as u64);
    merge(recipe, divided(columns, recipe, parts, step), rows).unwrap().certificate().unwrap()
}

/// A step that has no factor in common with 2000 gives a permutation of as many rows.
const STEPS: [usize; 3] = [1, 7, 1999];

#[test]
fn the_certificate_does_not_depend_on_partitions_and_orders() {
    let learn = SpecRequest { kind: Some(JobKind::Learn), ..SpecRequest::default() };
    let requests = [(evaluate(), true), (evaluate(), false), (learn, true)];
    for (request, full) in requests {
        let world = World { full, ..WORLD };
        let recipe = freeze_on(rows_of(world, 0, 400), &request, Some(1600)).unwrap();
        let text = recipe.to_json().unwrap();
        assert_eq!(Recipe::from_json(&text).unwrap().digest(), recipe.digest());
        assert_eq!(recipe.split, SplitRule::After { timestamp: 1399 });
        let columns = rows_of(world, 0, 2000);
        let want = certificate(&columns, &recipe, 1, 1);
        assert!(check_digest(&want).ok);
        assert_eq!(want.decision, Decision::Deploy, "{}", want.statement);
        assert!(want.statement.ends_with("did not recompute."), "{}", want.statement);
        let certified = want.certified.as_ref().unwrap();
        assert_eq!((certified.rows, want.dataset.rows), (1600, 2000));
        for (parts, step) in [1, 7, 200].into_iter().zip(STEPS) {
            assert_eq!(certificate(&columns, &recipe, parts, step).digest, want.digest, "{parts} {step}");
        }
        // The control: one other outcome is another certificate.
        let mut other = columns.clone();
        other.costs[1999] = -1.0 - other.costs[1999];
        assert_ne!(certificate(&other, &recipe, 7, 1).digest, want.digest);
        // Rows that were learned from are counted, and nothing else: their outcomes do not matter.
        let mut other = columns.clone();
        other.costs[..400].iter_mut().for_each(|cost| *cost = -1.0 - *cost);
        assert_eq!(certificate(&other, &recipe, 7, 1).digest, want.digest);
    }
}

/// The bound by the textbook: z of every row, a sum of logarithms, and the inversion of one bet in closed form.
#[test]
fn the_bound_is_that_of_the_formula() {
    let world = World { full: false, ..WORLD };
    let recipe = freeze_on(rows_of(world, 0, 400), &evaluate(), Some(1600)).unwrap();
    let columns = rows_of(world, 400, 2000);
    let certificate = certificate(&columns, &recipe, 7, 1);
    let (lambda, n) = (recipe.improvement[0].lambda, 1600.0);
    let z = |i: usize| (columns.candidates[1].1[i] / columns.propensities[i] - 1.0) * columns.costs[i];
    let logs: f64 = (0..1600).map(|i| (-lambda * z(i)).ln_1p()).sum();
    let value = (1.0 - ((logs - (1.0f64 / (0.95 * 0.05)).ln()) / n).exp()) / lambda;
    let record = certificate.bounds.iter().find(|record| record.event.starts_with("improvement")).unwrap();
    assert!((record.value - value).abs() < 1e-6, "{} {value}", record.value);
    assert!(record.value >= value - 1e-12, "numbers are rounded up, never down: {} {value}", record.value);
    // The parts of the sum must not be small: with a hundredth of the rows the bound is another.
    assert!((certificate.guaranteed_improvement + value).abs() < 1e-6 && value < -0.05, "{value}");
}

#[test]
fn what_cannot_be_merged_is_rejected() {
    let recipe = freeze_on(rows_of(WORLD, 0, 400), &evaluate(), None).unwrap();
    assert_eq!(recipe.improvement.len(), 4, "without a planned number of rows, several bets share the claim");
    let columns = rows_of(WORLD, 400, 1000);
    let partials = divided(&columns, &recipe, 3, 1);
    let refused =
        |partials: Vec<Partial>, rows: Option<u64>| merge(&recipe, partials, rows).unwrap_err().code;
    assert!(merge(&recipe, partials.clone(), Some(600)).is_ok());
    assert_eq!(refused(partials[..2].to_vec(), Some(600)), MergeCode::MissingRows);
    assert_eq!(refused(partials.clone(), Some(599)), MergeCode::TooManyRows);
    assert_eq!(refused(Vec::new(), None), MergeCode::NoRows);
    let twice = [partials.clone(), vec![partials[0].clone()]].concat();
    assert_eq!(refused(twice, None), MergeCode::RepeatedPartial);
    let other = freeze_on(rows_of(WORLD, 0, 300), &evaluate(), None).unwrap();
    let mixed = [divided(&columns, &other, 3, 1)[..1].to_vec(), partials[1..].to_vec()].concat();
    assert_eq!(refused(mixed, None), MergeCode::MixedRecipes);
    // Only rows that were learned from.
    let learned = divided(&rows_of(WORLD, 0, 100), &recipe, 2, 1);
    assert_eq!(refused(learned, None), MergeCode::NoRows);
}

#[test]
fn a_changed_partial_or_recipe_is_not_read() {
    let recipe = freeze_on(rows_of(WORLD, 0, 400), &evaluate(), Some(600)).unwrap();
    let partial = partial_of(rows_of(WORLD, 400, 500), &recipe, "a", &unattended()).unwrap();
    let text = partial.to_json().unwrap();
    assert!(Partial::from_json(&text).is_ok());
    let changes = [
        ("\"certified\":100", "\"certified\":101"),
        ("\"partition\":\"a\"", "\"partition\":\"b\""),
        ("\"sums\":{", "\"extra\":1,\"sums\":{"),
        ("\"partition\":\"a\"", "\"partition\":\"a\",\"partition\":\"a\""),
        ("{", "["),
    ];
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        let error = Partial::from_json(&text.replacen(from, to, 1)).unwrap_err();
        assert_eq!(error.code, MergeCode::InvalidPartial, "{to}");
    }
    let text = recipe.to_json().unwrap();
    let changes = [
        ("\"share\":1", "\"share\":0.5"),
        ("\"delta\":0.05", "\"delta\":0"),
        ("\"format\":\"guarantor.recipe/1\"", "\"format\":\"guarantor.recipe/2\""),
        ("\"n_actions\":3", "\"n_actions\":1"),
        ("\"kind\":\"certified\"", "\"kind\":\"point_estimate\""),
        ("\"bound\":\"auto\"", "\"bound\":\"catoni\""),
        ("\"looks\":\"once\"", "\"looks\":\"anytime\""),
        ("\"name\":\"better\"", "\"name\":\"other\""),
        ("\"planned_rows\":600", "\"planned_rows\":600,\"more\":1"),
    ];
    for (from, to) in changes {
        assert!(text.contains(from), "{from} in {text}");
        let error = Recipe::from_json(&text.replacen(from, to, 1)).unwrap_err();
        assert_eq!(error.code, MergeCode::InvalidRecipe, "{to}");
    }
    let mut later = recipe.clone();
    later.engine_version = "99.0.0".into();
    assert_eq!(later.check().unwrap_err().code, MergeCode::MixedReleases);
}

#[test]
fn what_is_no_sum_is_refused_when_it_is_frozen() {
    let catoni = SpecRequest { bound: Some(BoundKind::Ix), ..evaluate() };
    let fixed = Columns { logging: guarantor_engine::log::Logging::Fixed, ..rows_of(WORLD, 0, 400) };
    let error = freeze_on(fixed, &catoni, None).unwrap_err();
    assert!(error.message.contains("constant bets"), "{error}");
    let two = SpecRequest {
        candidates: Some(["other", "better"].map(|name| Candidate::Logged { name: name.into() }).to_vec()),
        ..evaluate()
    };
    assert!(freeze_on(rows_of(WORLD, 0, 400), &two, None).unwrap_err().message.contains("one policy"));
}

#[test]
fn rows_must_have_what_the_recipe_needs() {
    let recipe = freeze_on(rows_of(WORLD, 0, 400), &evaluate(), None).unwrap();
    let of = |columns: Columns| partial_of(columns, &recipe, "a", &unattended()).unwrap_err().message;
    let rows = rows_of(WORLD, 400, 500);
    assert!(of(Columns { timestamps: None, ..rows.clone() }).contains("timestamp"));
    assert!(of(Columns { full: None, ..rows.clone() }).contains("propensities"));
    assert!(of(Columns { candidates: Vec::new(), ..rows.clone() }).contains("better"));
    let mut beyond = rows.clone();
    beyond.actions[7] = 3;
    assert!(of(beyond).contains("row 8"));
    let mut nan = rows.clone();
    nan.costs[3] = f64::NAN;
    assert!(of(nan).contains("row 4"));
    // The outcome is the recipe's, whatever the columns say.
    let other = Columns { outcome: Outcome::reward(), ..rows.clone() };
    assert_eq!(
        partial_of(other, &recipe, "a", &unattended()).unwrap(),
        partial_of(rows, &recipe, "a", &unattended()).unwrap()
    );
}

/// A recipe for rows of full precision must not certify rounded ones, whose weights may be too large.
#[test]
fn rows_that_are_rounded_more_than_the_recipe_assumes_are_rejected() {
    let exact = World { full: false, ..WORLD };
    let rounded = World { decimals: Some(2), ..exact };
    let recipe = freeze_on(rows_of(exact, 0, 400), &evaluate(), None).unwrap();
    let error = merge(&recipe, divided(&rows_of(rounded, 400, 1000), &recipe, 3, 1), None).unwrap_err();
    assert_eq!(error.code, MergeCode::InvalidNumbers);
    assert!(error.message.contains("less precisely"), "{error}");
    // The other way around is careful: intervals are wider than they need be.
    let careful = freeze_on(rows_of(rounded, 0, 400), &evaluate(), None).unwrap();
    assert_eq!(careful.log.precision.decimals, Some(2));
    let (rows, unrounded) = (rows_of(rounded, 400, 2000), rows_of(exact, 400, 2000));
    let low = certificate(&rows, &careful, 3, 1).guaranteed_improvement;
    let high = certificate(&unrounded, &recipe, 3, 1).guaranteed_improvement;
    assert!(low < high, "{low} {high}");
    assert!(merge(&careful, divided(&unrounded, &careful, 3, 1), None).is_ok());
}

#[test]
fn a_log_that_fails_a_check_is_kept() {
    for full in [true, false] {
        // The column has the candidate's confidence in the action that it prefers, not that of the logged action.
        let world = World { full, confidence: 6.0, gain: 0.0, ..WORLD };
        let recipe = freeze_on(rows_of(world, 0, 400), &evaluate(), Some(3000)).unwrap();
        let kept = certificate(&rows_of(world, 400, 3400), &recipe, 7, 7);
        assert_eq!(kept.decision, Decision::Keep);
        let failed = kept.checks.iter().find(|check| check.failed()).unwrap();
        assert_eq!(failed.name, CheckName::CandidateWeights, "{failed:?}");
        // Logged propensities that are half of what was played.
        let mut wrong = rows_of(World { full, ..WORLD }, 400, 3400);
        wrong.propensities.iter_mut().for_each(|p| *p *= 0.5);
        if let Some(all) = &mut wrong.full {
            // Permuted, so that they still sum to 1.
            all.chunks_exact_mut(3).for_each(|pi| pi.rotate_left(1));
            let taken: Vec<f64> = (0..3000).map(|i| all[3 * i + wrong.actions[i] as usize]).collect();
            wrong.propensities = taken;
        }
        let recipe = freeze_on(rows_of(World { full, ..WORLD }, 0, 400), &evaluate(), Some(3000)).unwrap();
        let kept = certificate(&wrong, &recipe, 7, 7);
        assert_eq!(kept.decision, Decision::Keep, "{}", kept.statement);
        assert!(kept.checks.iter().any(|check| check.failed()), "{:?}", kept.checks);
        // The control: the log as it was passes.
        let sound = certificate(&rows_of(World { full, ..WORLD }, 400, 3400), &recipe, 7, 7);
        assert!(sound.checks.iter().all(|check| check.ok == Some(true)), "{:?}", sound.checks);
        assert_eq!(sound.decision, Decision::Deploy);
    }
}

/// With nothing to gain, deploys are rare. A candidate that was chosen on the certified rows themselves shows that the test
/// can fail.
#[test]
fn nothing_to_gain_is_not_certified() {
    let request = SpecRequest { delta: Some(0.1), ..evaluate() };
    let (mut honest, mut cheating) = (0, 0);
    const LOGS: u64 = 120;
    for seed in 0..LOGS {
        let world = World { gain: 0.0, full: seed % 2 == 0, seed: 100 + seed, ..WORLD };
        let recipe = freeze_on(rows_of(world, 0, 100), &request, Some(400)).unwrap();
        let mut rows = rows_of(world, 100, 500);
        honest += u32::from(certificate(&rows, &recipe, 3, 7).decision == Decision::Deploy);
        // A candidate that plays what brought a reward more often.
        let chosen: Vec<f64> =
            (0..400).map(|i| rows.propensities[i] * if rows.costs[i] < -0.5 { 1.3 } else { 0.7 }).collect();
        rows.candidates[1].1 = chosen.into_iter().map(|p| p.min(1.0)).collect();
        cheating += u32::from(certificate(&rows, &recipe, 3, 7).decision == Decision::Deploy);
    }
    assert!(honest <= 12, "{honest} of {LOGS} at δ = 0.1");
    assert!(cheating > 60, "the control found only {cheating} of {LOGS}");
}
