//! Logs as teams have them: policies that learned while they logged, rows with times and versions, rounded
//! numbers, failed checks, exploration.

use std::collections::BTreeMap;

use guarantor_engine::certificate::{Certificate, Decision, Evidence, ReasonCode};
use guarantor_engine::checks::{CheckName, CheckScope};
use guarantor_engine::control::unattended;
use guarantor_engine::error::{EngineError, SpecCode, SpecError};
use guarantor_engine::log::{Columns, LogSource, Logging, MemoryLog, Precision, Repetitions, Span};
use guarantor_engine::policy::{PolicyParams, pick};
use guarantor_engine::spec::{
    Baseline, BaselineKind, BoundKind, Candidate, ExploreRequest, JobSpec, Looks, PolicyShape, PriorKind,
    PriorRequest, SpecContext, SpecRequest,
};
use guarantor_engine::verify::Wording;
use guarantor_engine::{Finished, Inputs, Result, run, verify};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// An adaptive log of n rows with three features and K = 3, logged uniformly. The best action is that of the
/// largest feature.
fn columns(n: usize, seed: u64) -> Columns {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut columns = Columns { n_actions: 3, dim: 3, full: Some(Vec::new()), ..Columns::default() };
    for _ in 0..n {
        let x: [f32; 3] = rng.random();
        let best = (0..3).max_by(|&a, &b| x[a].total_cmp(&x[b])).unwrap();
        let pi = [1.0 / 3.0; 3];
        let action = pick(pi.iter().copied(), rng.random());
        let good = if action == best { 0.8 } else { 0.2 };
        columns.x.extend(x);
        columns.actions.push(action as u32);
        columns.costs.push(if rng.random::<f64>() < good { -1.0 } else { 0.0 });
        columns.propensities.push(pi[action]);
        columns.full.iter_mut().for_each(|full| full.extend(pi));
    }
    columns
}

fn policies() -> BTreeMap<String, PolicyParams> {
    let mean = (0..3).map(|j| (0..3).map(|a| if a == j { 20.0 } else { 0.0 }).collect()).collect();
    let good = PolicyParams::Softmax { mean, inverse_temperature: 1.0, features: Default::default() };
    let uniform = PolicyParams::Uniform { n_actions: 3, dim: 3 };
    [("good", good), ("uniform", uniform)].map(|(id, policy)| (id.to_string(), policy)).into()
}

fn resolved(log: &dyn LogSource, request: &SpecRequest, seen_rows: u64) -> Result<JobSpec, SpecError> {
    let stored = policies();
    let policy = |id: &str| stored.get(id).map(PolicyShape::of);
    let context =
        SpecContext { shape: log.shape(), logging_policy: None, policy: &policy, seen_rows, caller: "key-7" };
    request.resolve(&context)
}

/// Runs a job and verifies its certificate.
fn start_after(log: &MemoryLog, request: &SpecRequest, seen_rows: u64) -> Result<Finished> {
    let policies = policies();
    let inputs = Inputs {
        log,
        logging_policy: None,
        policies: &policies,
        dataset_version: 1,
        dataset_digest: "sha256:test",
        log_checks: None,
    };
    let finished = run(&resolved(log, request, seen_rows)?, &inputs, &unattended())?;
    let again = verify(&finished.certificate, Wording::Compared, &finished.evidence, &inputs, &unattended())?;
    assert!(again.valid, "{:?}", again.checks.iter().filter(|check| !check.ok).collect::<Vec<_>>());
    Ok(finished)
}

fn start(columns: &Columns, request: &SpecRequest) -> Finished {
    start_after(&MemoryLog::new(columns.clone()).unwrap(), request, 0).unwrap()
}

fn code_of(columns: &Columns, request: &SpecRequest) -> SpecCode {
    let log = MemoryLog::new(columns.clone()).unwrap();
    match start_after(&log, request, 0) {
        Err(EngineError::Spec(error)) => error.code,
        other => panic!("{:?}", other.map(|finished| finished.certificate.statement)),
    }
}

fn evaluate(candidates: &[Candidate]) -> SpecRequest {
    let candidates = Some(candidates.to_vec());
    SpecRequest { candidates, independent_of_log: Some(true), ..SpecRequest::default() }
}

fn stored(id: &str) -> Candidate {
    Candidate::Policy { policy_id: id.into() }
}

fn logged(name: &str) -> Candidate {
    Candidate::Logged { name: name.into() }
}

fn codes(certificate: &Certificate) -> Vec<&'static str> {
    certificate.reasons.iter().map(|reason| reason.code.name()).collect()
}

fn span_of(certificate: &Certificate) -> &Span {
    &certificate.certified.as_ref().unwrap().span
}

fn from(row: u64) -> Span {
    Span::Time { first_certified_row: row, policy_version: None }
}

#[test]
fn an_adaptive_log_is_split_by_time_and_a_fixed_one_by_its_digest() {
    let log = columns(1000, 1);
    let adaptive = start(&log, &SpecRequest::default()).certificate;
    assert_eq!(span_of(&adaptive), &from(500));
    assert_eq!(adaptive.certified.as_ref().unwrap().rows, 500);
    assert!(adaptive.statement.contains("over the draw of the 500 certified rows"));
    assert!(adaptive.certified.as_ref().unwrap().last_quarter.is_some_and(|q| q.rows == 125));
    let fixed = Columns { logging: Logging::Fixed, ..log };
    let spans: Vec<Span> = (0..2)
        .map(|seed| {
            let request = SpecRequest { seed: Some(seed), ..SpecRequest::default() };
            let certificate = start(&fixed, &request).certificate;
            assert!(certificate.attestations[0].contains("logging = fixed"));
            span_of(&certificate).clone()
        })
        .collect();
    assert!(matches!(spans[0], Span::Hash(_)) && spans[0] == spans[1], "the seed must not move the split");
}

/// What is learned knows nothing of the certified rows: other outcomes there leave it unchanged.
#[test]
fn learning_sees_only_rows_before_the_first_certified_one() {
    let log = columns(800, 2);
    let learned = |log: &Columns, seen: u64| {
        let log = MemoryLog::new(log.clone()).unwrap();
        match start_after(&log, &SpecRequest::default(), seen).unwrap().evidence {
            Evidence::Auto(learned) => learned,
            other => panic!("{other:?}"),
        }
    };
    let mut other = log.clone();
    other.costs[500..].iter_mut().for_each(|cost| *cost = -1.0 - *cost);
    assert_eq!(learned(&log, 500), learned(&other, 500));
    assert_ne!(learned(&log, 600), learned(&other, 600));
}

#[test]
fn a_later_look_certifies_fresh_rows_only() {
    let log = MemoryLog::new(columns(900, 3)).unwrap();
    for request in [SpecRequest::default(), evaluate(&[stored("good")])] {
        let first = start_after(&log, &request, 0).unwrap().certificate;
        let second = start_after(&log, &request, 600).unwrap().certificate;
        assert_eq!(span_of(&second), &from(600));
        assert_eq!(second.certified.unwrap().rows, 300);
        assert_ne!(span_of(&first), &from(600));
    }
    let pooled = SpecRequest { looks: Some(Looks::Anytime), ..evaluate(&[stored("good")]) };
    assert_eq!(span_of(&start_after(&log, &pooled, 600).unwrap().certificate), &from(0));
    let tuned = SpecRequest { looks: Some(Looks::Anytime), ..SpecRequest::default() };
    let refused = resolved(&log, &tuned, 600).unwrap_err();
    assert_eq!(refused.code, SpecCode::LooksNeedAnytimeBound);
}

#[test]
fn rows_of_the_last_policy_version_are_certified() {
    let mut log = columns(1000, 4);
    log.version_names = vec!["monday".into(), "tuesday".into()];
    // Tuesday's policy starts at row 700, and a few of its rows are still logged by Monday's.
    log.versions = Some((0..1000).map(|row| u32::from(row >= 700 && row % 10 != 0)).collect());
    let certificate = start(&log, &evaluate(&[stored("good")])).certificate;
    let certified = certificate.certified.unwrap();
    let expected = Span::Time { first_certified_row: 701, policy_version: Some("tuesday".into()) };
    assert_eq!((certified.span, certified.rows), (expected, 270));
    assert!(certificate.statement.contains("the policy version \"tuesday\""), "{}", certificate.statement);
    let learned = start(&log, &SpecRequest::default()).certificate;
    assert_eq!(learned.certified.unwrap().rows, 270);
}

/// The order of the file does not matter if rows have times.
#[test]
fn timestamps_decide_the_order_of_arrival() {
    let mut sorted = columns(600, 5);
    sorted.timestamps = Some((0..600).map(|row| 1_000 * row as i64).collect());
    let mut shuffled = sorted.clone();
    let order: Vec<u32> = (0..600).map(|row| (row * 7) % 600).collect();
    shuffled.reorder(&order);
    assert_ne!(shuffled.timestamps, sorted.timestamps);
    let request = SpecRequest::default();
    assert_eq!(start(&sorted, &request).certificate, start(&shuffled, &request).certificate);
}

#[test]
fn bounds_that_need_a_fixed_policy_are_refused_on_adaptive_logs() {
    let log = columns(100, 6);
    for bound in [BoundKind::LondonSandler, BoundKind::Catoni, BoundKind::Cbb] {
        let request = SpecRequest { bound: Some(bound), ..SpecRequest::default() };
        assert_eq!(code_of(&log, &request), SpecCode::BoundNeedsFixedLogging);
        let fixed = Columns { logging: Logging::Fixed, ..log.clone() };
        start(&fixed, &request);
        // Users who retry: rows of one context are neither independent nor designed.
        let retries = Columns { contexts: Some((0..100).map(|row| row / 2).collect()), ..fixed };
        assert_eq!(code_of(&retries, &request), SpecCode::BoundNeedsSingleInteractions);
    }
    for bound in [BoundKind::LogSmoothing, BoundKind::Ix] {
        let request = SpecRequest { bound: Some(bound), ..SpecRequest::default() };
        let certificate = start(&log, &request).certificate;
        let baseline = certificate.bounds.iter().find(|record| record.subject == "logging_policy").unwrap();
        assert_eq!(baseline.bound, "betting", "the kl bound is for fixed logs");
    }
}

/// Rounded candidates are known at the logged action only, and so are those without `candidate_propensities`.
#[test]
fn bounds_that_need_all_of_a_candidates_probabilities_are_refused_without_them() {
    let mut log = Columns { logging: Logging::Fixed, ..columns(200, 8) };
    log.candidates = vec![("new".into(), log.actions.iter().map(|&a| [0.7, 0.2, 0.1][a as usize]).collect())];
    log.candidate_full = vec![Some([0.7, 0.2, 0.1].repeat(200))];
    let with = |bound: BoundKind| SpecRequest { bound: Some(bound), ..evaluate(&[logged("new")]) };
    start(&log, &with(BoundKind::Cbb));
    let precision = Precision { decimals: Some(1), ..Precision::default() };
    let rounded = Columns { candidate_precision: vec![precision], ..log.clone() };
    assert_eq!(code_of(&rounded, &with(BoundKind::Cbb)), SpecCode::BoundNeedsFullPropensities);
    start(&rounded, &with(BoundKind::Ix));
    let twice = |log: Columns| Columns {
        contexts: Some((0..200).map(|row| row / 2).collect()),
        x: log.x.chunks(6).flat_map(|x| [&x[..3], &x[..3]].concat()).collect(),
        repetitions: Repetitions::Designed,
        ..log
    };
    start(&twice(log.clone()), &with(BoundKind::Ix));
    for log in [rounded, Columns { candidate_full: vec![None], ..log }] {
        assert_eq!(code_of(&twice(log), &with(BoundKind::Ix)), SpecCode::BoundNeedsSingleInteractions);
    }
}

/// Rows of one context share its features, so the squares of rows do not add up to the variance of a mean over contexts.
#[test]
fn a_budget_for_the_variance_needs_one_row_per_context() {
    let bound = |log: &Columns| {
        let certificate = start(log, &SpecRequest::default()).certificate;
        certificate.bounds.iter().find(|record| record.used).expect("a bound").bound.clone()
    };
    let log = columns(4000, 9);
    assert_eq!(bound(&log), "budgeted_betting");
    let x = log.x.chunks(6).flat_map(|x| [&x[..3], &x[..3]].concat()).collect();
    let contexts = Some((0..4000).map(|row| row / 2).collect());
    assert_eq!(bound(&Columns { x, contexts, repetitions: Repetitions::Designed, ..log }), "betting");
}

#[test]
fn what_depends_on_the_number_of_actions_needs_it_stated() {
    let log = Columns { full: None, actions_declared: false, ..columns(100, 7) };
    let zero = PriorRequest { kind: Some(PriorKind::Zero), ..PriorRequest::default() };
    let betting =
        SpecRequest { bound: Some(BoundKind::Betting), prior: Some(zero), ..SpecRequest::default() };
    assert_eq!(code_of(&log, &betting), SpecCode::ActionsNotStated);
    let fixed = Columns { logging: Logging::Fixed, ..log.clone() };
    let catoni = SpecRequest { bound: Some(BoundKind::Catoni), ..SpecRequest::default() };
    assert_eq!(code_of(&fixed, &catoni), SpecCode::ActionsNotStated);
    start(&fixed, &SpecRequest { tau: Some(0.3), ..catoni });
    // The policy has as many actions as all rows show. If the certified ones show no new one, that takes a tenth of δ;
    // an action that only they show takes most of it.
    let aside = |log: &Columns| {
        let certificate = start(log, &SpecRequest::default()).certificate;
        let shares = certificate.delta_accounting.iter().filter(|share| share.event == "unstated_actions");
        let delta = certificate.spec.delta;
        shares.map(|share| share.share / delta).sum::<f64>()
    };
    assert!((aside(&log) - 0.1).abs() < 1e-12);
    let mut rare = Columns { n_actions: log.n_actions + 1, ..log.clone() };
    *rare.actions.last_mut().unwrap() = log.n_actions as u32;
    assert!((aside(&rare) - 0.95).abs() < 1e-12);
    assert_eq!(aside(&Columns { actions_declared: true, ..rare }), 0.0);
}

#[test]
fn the_guaranteed_risk_is_a_risk() {
    for seed in 0..40 {
        let mut log = columns(60, seed);
        log.costs.fill(-1.0);
        for request in [SpecRequest::default(), evaluate(&[stored("good"), stored("uniform")])] {
            let certificate = start(&log, &request).certificate;
            assert!((-1.0..=0.0).contains(&certificate.guaranteed_risk), "{}", certificate.guaranteed_risk);
            for candidate in &certificate.candidates {
                assert!((-1.0..=0.0).contains(&candidate.guaranteed_risk));
            }
        }
    }
}

/// Propensities of 1/3 that were written as 0.333, and the logging policy itself as candidate.
#[test]
fn a_policy_does_not_improve_on_itself_by_rounding() {
    let exact = columns(40_000, 8);
    let written = |full: bool, precision: Precision| {
        let mut log = exact.clone();
        log.propensities.fill(0.333);
        log.full = full.then(|| vec![0.333; 3 * log.rows()]);
        log.candidates = vec![("itself".into(), vec![0.333; log.rows()])];
        log.candidate_precision = vec![precision];
        Columns { precision, ..log }
    };
    let rounded = Precision { decimals: Some(3), significant: Some(3), single: false };
    let improvement = |log: &Columns| {
        let certificate = start(log, &evaluate(&[stored("uniform"), logged("itself")])).certificate;
        certificate.candidates.iter().map(|c| c.guaranteed_improvement).fold(f64::MIN, f64::max)
    };
    assert!(improvement(&written(true, rounded)) <= 0.0);
    assert!(improvement(&written(false, rounded)) <= 0.0);
    let uniform = Columns { uniform: true, ..written(false, rounded) };
    assert!(improvement(&uniform) <= 0.0);
    // The negative control: taken at their word, the numbers say that the policy beats itself.
    assert!(improvement(&written(false, Precision::default())) > 0.0);
}

/// A candidate's own confidence in place of its probability of the logged action.
#[test]
fn a_failed_check_means_keep_unless_it_was_accepted() {
    let mut log = columns(2000, 9);
    log.candidates = vec![("confident".into(), vec![0.77; 2000]), ("itself".into(), vec![1.0 / 3.0; 2000])];
    let request = evaluate(&[logged("confident"), logged("itself")]);
    let certificate = start(&log, &request).certificate;
    assert_eq!(certificate.candidates[0].decision, Decision::Keep);
    assert!(certificate.candidates[0].guaranteed_improvement > 0.1, "it looks like an improvement");
    // The certificate is about the candidate whose checks passed.
    assert!(certificate.guaranteed_improvement <= 0.0);
    let alone = evaluate(&[logged("confident")]);
    let certificate = start(&log, &alone).certificate;
    assert_eq!(certificate.decision, Decision::Keep);
    assert_eq!(codes(&certificate)[0], "log_check_failed:candidate_weights");
    let failed: Vec<CheckScope> =
        certificate.checks.iter().filter(|check| check.failed()).map(|check| check.scope).collect();
    assert_eq!(failed, [CheckScope::Log, CheckScope::CertifiedRows]);
    let accepted = SpecRequest { accept: Some(vec![CheckName::CandidateWeights]), ..alone };
    let certificate = start(&log, &accepted).certificate;
    assert_eq!(certificate.decision, Decision::Deploy);
    assert!(certificate.attestations.iter().any(|text| text.contains("key-7")), "{certificate:?}");
    assert!(codes(&certificate).contains(&"check_accepted"));
}

#[test]
fn wrong_propensities_and_a_wrong_baseline_mean_keep() {
    let mut log = Columns { full: None, ..columns(2000, 10) };
    log.propensities.fill(0.12);
    let certificate = start(&log, &SpecRequest::default()).certificate;
    assert_eq!(certificate.decision, Decision::Keep);
    assert_eq!(certificate.reasons[0].code, ReasonCode::PropensitiesCheckFailed);
    let known = Baseline { kind: BaselineKind::Known, risk: Some(0.0) };
    let request = SpecRequest { baseline: Some(known), ..evaluate(&[stored("uniform")]) };
    let certificate = start(&columns(2000, 11), &request).certificate;
    assert_eq!(certificate.decision, Decision::Keep);
    assert_eq!(certificate.reasons[0].code, ReasonCode::KnownBaselineCheckFailed);
}

#[test]
fn drift_contradicts_a_fixed_log_only() {
    let mut log = columns(4000, 12);
    let mut rng = ChaCha8Rng::seed_from_u64(13);
    for cost in &mut log.costs[2000..] {
        if rng.random::<f64>() < 0.5 {
            *cost = -1.0;
        }
    }
    let request = evaluate(&[stored("good")]);
    assert_eq!(start(&log, &request).certificate.decision, Decision::Deploy);
    let certificate = start(&Columns { logging: Logging::Fixed, ..log }, &request).certificate;
    assert_eq!(certificate.decision, Decision::Keep);
    assert_eq!(certificate.reasons[0].code, ReasonCode::DriftCheckFailed);
}

#[test]
fn designed_repetitions_that_depend_on_outcomes_mean_keep() {
    // Users retry until they succeed, and action 0 succeeds most often.
    let mut rng = ChaCha8Rng::seed_from_u64(14);
    let mut log = Columns {
        n_actions: 3,
        full: Some(Vec::new()),
        contexts: Some(Vec::new()),
        repetitions: Repetitions::Designed,
        ..Columns::default()
    };
    for user in 0..3000 {
        loop {
            let action = rng.random_range(0..3u32);
            let success = rng.random::<f64>() < [0.8, 0.4, 0.2][action as usize];
            log.actions.push(action);
            log.costs.push(if success { -1.0 } else { 0.0 });
            log.propensities.push(1.0 / 3.0);
            log.full.iter_mut().for_each(|full| full.extend([1.0 / 3.0; 3]));
            log.contexts.iter_mut().for_each(|contexts| contexts.push(user));
            if success {
                break;
            }
        }
    }
    let itself = vec![1.0 / 3.0; log.rows()];
    log.candidates = vec![("itself".into(), itself)];
    let certificate = start(&log, &evaluate(&[logged("itself")])).certificate;
    assert_eq!(certificate.reasons[0].code, ReasonCode::RepetitionsCheckFailed, "{:?}", certificate.checks);
    let decisions = Columns { repetitions: Repetitions::Decisions, ..log };
    let certificate = start(&decisions, &evaluate(&[logged("itself")])).certificate;
    assert!(!certificate.checks.iter().any(|check| check.failed()), "{:?}", certificate.checks);
    assert_eq!(certificate.certified.unwrap().contexts, decisions.rows() as u64);
}

#[test]
fn exploration_is_part_of_what_is_certified() {
    let log = columns(3000, 15);
    let with =
        |explore: Option<ExploreRequest>| start(&log, &SpecRequest { explore, ..SpecRequest::default() });
    let default = with(None);
    let policy = default.evidence.policy().unwrap();
    let pi = policy.propensities(MemoryLog::new(log.clone()).unwrap().x()).unwrap();
    assert!(pi.iter().all(|&p| p >= 0.0066), "every action has its share of exploration");
    assert_eq!(default.certificate.policy.as_ref().unwrap().digest, policy.digest().unwrap());
    let exploration = default.certificate.exploration.as_ref().unwrap();
    assert_eq!(exploration.explore.share, 0.02);
    assert!(exploration.estimated_cost > 0.0);
    let greedy = with(Some(ExploreRequest::Share(0.0)));
    assert!(matches!(greedy.evidence.policy().unwrap(), PolicyParams::Lig { .. }));
    assert!(greedy.certificate.exploration.as_ref().unwrap().note.contains("does not explore"));
    let more = with(Some(ExploreRequest::Share(0.3)));
    let improvement = |finished: &Finished| finished.certificate.guaranteed_improvement;
    assert!(improvement(&more) < improvement(&default), "exploration costs improvement");
}

/// π(·|x) of a logged candidate allows a control variate, which makes the certificate narrower.
#[test]
fn all_probabilities_of_a_candidate_help() {
    let mut log = columns(3000, 16);
    let good = &policies()["good"];
    let pi = good.propensities(MemoryLog::new(log.clone()).unwrap().x()).unwrap();
    let played = log.actions.iter().enumerate().map(|(row, &a)| pi[(row, a as usize)]).collect();
    log.candidates = vec![("good".into(), played)];
    let request = evaluate(&[logged("good")]);
    let narrow = start(&log, &request).certificate.guaranteed_improvement;
    log.candidate_full = vec![Some(pi.iter().copied().collect())];
    let certificate = start(&log, &request).certificate;
    let stored = start(&log, &evaluate(&[stored("good")])).certificate;
    let improvements = [certificate.guaranteed_improvement, stored.guaranteed_improvement];
    assert!((improvements[0] - improvements[1]).abs() < 1e-9, "{improvements:?}");
    assert_ne!(narrow, improvements[0]);
}
