//! Jobs on logs whose rows have their own actions: what is refused and why, and that a certificate can be recomputed.

use std::collections::BTreeMap;

use guarantor_engine::certificate::Decision;
use guarantor_engine::control::unattended;
use guarantor_engine::error::{SpecCode, SpecError};
use guarantor_engine::log::{ActionSets, Columns, FeatureSpace, LogSource, MemoryLog, Sets};
use guarantor_engine::policy::{ActionScorer, PolicyParams};
use guarantor_engine::spec::{
    BoundKind, Candidate, JobKind, JobSpec, PolicyClass, PolicyShape, SpecContext, SpecRequest,
};
use guarantor_engine::verify::Wording;
use guarantor_engine::{Inputs, run, verify};

const NAMED: FeatureSpace = FeatureSpace::Named { dim: 64 };

/// Two segments and sets of 2 to 5 topics. Segment s likes topic s, and the log is nearly uniform.
fn log(rows: usize, features: ActionSets) -> MemoryLog {
    let mut columns =
        Columns { n_actions: 5, full: Some(Vec::new()), set_features: features, ..Columns::default() };
    let mut sets = Sets::default();
    let mut state = 7u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..rows {
        let (segment, size) = (next(2) as u32, 2 + next(4) as usize);
        let has = |space: FeatureSpace| space != FeatureSpace::None;
        sets.x.push(has(features.x).then_some((segment, 1.0)));
        let topics: Vec<u32> = (0..size).map(|_| next(3) as u32).collect();
        topics.iter().for_each(|&topic| sets.actions.push(has(features.actions).then_some((topic, 1.0))));
        sets.end_row();
        let action = next(size as u64) as usize;
        let rate = if topics[action] == segment { 70 } else { 20 };
        columns.actions.push(action as u32);
        columns.costs.push(if next(100) < rate { -1.0 } else { 0.0 });
        columns.propensities.push(1.0 / size as f64);
        columns.full.iter_mut().for_each(|full| full.extend(vec![1.0 / size as f64; size]));
    }
    columns.sets = Some(sets);
    MemoryLog::new(columns).expect("a log")
}

fn named() -> ActionSets {
    ActionSets { x: NAMED, actions: NAMED }
}

fn resolve(
    request: &SpecRequest,
    log: &MemoryLog,
    policies: &BTreeMap<String, PolicyParams>,
) -> Result<JobSpec, SpecError> {
    let find = |id: &str| policies.get(id).map(PolicyShape::of);
    let context =
        SpecContext { shape: log.shape(), logging_policy: None, policy: &find, seen_rows: 0, caller: "test" };
    request.resolve(&context)
}

fn evaluating(policy: &str) -> SpecRequest {
    SpecRequest {
        candidates: Some(vec![Candidate::Policy { policy_id: policy.into() }]),
        independent_of_log: Some(true),
        ..SpecRequest::default()
    }
}

#[test]
fn what_needs_fixed_actions_is_refused_with_what_would_work() {
    let none = BTreeMap::new();
    let long = log(100, named());
    let code = |request: &SpecRequest, log: &MemoryLog| {
        let error = resolve(request, log, &none).expect_err("refused");
        (error.code, error.field)
    };
    for bound in [BoundKind::Betting, BoundKind::LogSmoothing, BoundKind::Cbb, BoundKind::Catoni] {
        let request =
            SpecRequest { bound: Some(bound), kind: Some(JobKind::Learn), ..SpecRequest::default() };
        assert_eq!(code(&request, &long), (SpecCode::BoundNeedsFixedActions, "bound".into()));
    }
    let class = SpecRequest { policy_class: Some(PolicyClass::Lig), ..SpecRequest::default() };
    assert_eq!(code(&class, &long), (SpecCode::NotForThisKind, "policy_class".into()));
    let learn = SpecRequest::default();
    let bare = log(100, ActionSets { x: NAMED, actions: FeatureSpace::None });
    assert_eq!(code(&learn, &bare).0, SpecCode::LearningNeedsFeatures);
    assert_eq!(code(&learn, &log(19, named())).0, SpecCode::BoundCannotLearnHere);
    assert!(resolve(&learn, &log(20, named()), &none).is_ok_and(|spec| spec.policy_class.is_none()));
}

#[test]
fn a_policy_must_play_the_sets_of_the_log() {
    let scorer = |features| {
        PolicyParams::ActionScorer(Box::new(ActionScorer {
            features,
            inverse_temperature: 1.0,
            constant: 0.0,
            x: Vec::new(),
            actions: Vec::new(),
            pairs: None,
            hidden: None,
        }))
    };
    let other = ActionSets { x: FeatureSpace::List { dim: 64 }, actions: NAMED };
    let policies = BTreeMap::from([
        ("fixed".to_owned(), PolicyParams::Uniform { n_actions: 5, dim: 0 }),
        ("uniform".to_owned(), PolicyParams::UniformOverSets {}),
        ("same".to_owned(), scorer(named())),
        ("other".to_owned(), scorer(other)),
        (
            "wrapped".to_owned(),
            PolicyParams::Exploring {
                share: 1.0,
                base: Box::new(PolicyParams::UniformOverSets {}),
                with: Box::new(scorer(other)),
            },
        ),
    ]);
    let log = log(100, named());
    let result =
        |id: &str| resolve(&evaluating(id), &log, &policies).map(drop).map_err(|e| (e.code, e.message));
    assert_eq!(result("uniform"), Ok(()));
    assert_eq!(result("same"), Ok(()));
    let (code, message) = result("other").unwrap_err();
    assert_eq!(code, SpecCode::PolicyShapeMismatch);
    assert!(message.contains("lists of 64 numbers"), "{message}");
    assert_eq!(result("wrapped").unwrap_err().0, SpecCode::PolicyShapeMismatch);
    assert_eq!(result("fixed").unwrap_err().0, SpecCode::PolicyShapeMismatch);
    for bound in [BoundKind::LondonSandler, BoundKind::Catoni, BoundKind::Cbb] {
        let request = SpecRequest { bound: Some(bound), ..evaluating("same") };
        let refused = resolve(&request, &log, &policies).unwrap_err();
        assert_eq!(refused.code, SpecCode::BoundNeedsFixedActions);
    }
}

#[test]
fn a_certificate_over_sets_is_recomputed_to_the_last_digit() {
    let (log, none) = (log(4000, named()), BTreeMap::new());
    let spec = resolve(&SpecRequest::default(), &log, &none).unwrap();
    let inputs = Inputs {
        log: &log,
        logging_policy: None,
        policies: &none,
        dataset_version: 1,
        dataset_digest: "sha256:sets",
        log_checks: None,
    };
    let with_threads = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| run(&spec, &inputs, &unattended()).unwrap())
    };
    let (one, two) = (with_threads(1), with_threads(3));
    assert_eq!(one, two);
    assert_eq!(one.certificate.decision, Decision::Deploy);
    assert!(one.certificate.guaranteed_improvement > 0.1, "{}", one.certificate.guaranteed_improvement);
    let verified =
        verify(&one.certificate, Wording::Compared, &one.evidence, &inputs, &unattended()).unwrap();
    assert!(verified.valid, "{verified:?}");
    // The policy plays over sets that it has never seen, with the floor of its exploration.
    let mut sets = Sets::default();
    sets.x.push([(0, 1.0)]);
    (0..9).for_each(|a| sets.actions.push([(a % 4, 1.0)]));
    sets.end_row();
    let pi = one.evidence.policy().unwrap().propensities(sets.view()).unwrap();
    assert!((pi.sum() - 1.0).abs() < 1e-12);
    assert!(pi.iter().all(|&p| p >= 0.02 / 9.0 - 1e-15), "{pi}");
    assert!(pi[(0, 0)] > 0.3 && pi[(0, 0)] == pi[(0, 4)], "three actions are equally good: {pi}");
}
