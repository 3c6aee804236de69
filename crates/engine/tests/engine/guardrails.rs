//! Objectives and guardrails: amounts in either unit, what is refused, and whole jobs with several outcomes.

use std::collections::BTreeMap;

use guarantor_engine::certificate::{Certificate, Decision, Evidence, ReasonCode, fields};
use guarantor_engine::control::unattended;
use guarantor_engine::error::{SpecCode, SpecError};
use guarantor_engine::ledger::{anytime_event, asked};
use guarantor_engine::log::{
    ActionSets, Columns, FeatureSpace, LogSource, Logging, MemoryLog, NamedOutcome, Outcome, OutcomeKind,
    Repetitions, Sets,
};
use guarantor_engine::policy::{PolicyParams, pick};
use guarantor_engine::spec::{
    Amount, AmountInUnit, BoundKind, Candidate, GuardrailRequest, JobSpec, Looks, OptimizerRequest,
    PolicyShape, PriorKind, PriorRequest, SpecContext, SpecRequest, Unit,
};
use guarantor_engine::verify::Wording;
use guarantor_engine::{Finished, Inputs, run, verify};

const REVENUE: &str = "revenue";
const COMPLAINT: &str = "complaint";
const MINUTES: &str = "minutes";

/// A shop: revenue in [0, 100] is a reward, a complaint a cost, and minutes in [5, 25] a cost. The best action sells most
/// and makes `harm` more complaints.
fn columns(rows: usize, harm: f64) -> Columns {
    let mut state = 5u64;
    let mut unit = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let named = |name: &str, kind, min, max| NamedOutcome {
        name: name.into(),
        outcome: Outcome::new(kind, min, max).unwrap(),
    };
    let outcomes = vec![
        named(REVENUE, OutcomeKind::Reward, 0.0, 100.0),
        named(COMPLAINT, OutcomeKind::Cost, 0.0, 1.0),
        named(MINUTES, OutcomeKind::Cost, 5.0, 25.0),
    ];
    let mut columns = Columns {
        n_actions: 3,
        dim: 3,
        full: Some(Vec::new()),
        logging: Logging::Fixed,
        outcome: outcomes[0].outcome,
        other_costs: vec![Vec::new(), Vec::new()],
        ..Columns::default()
    };
    let mut greedy = Vec::new();
    for _ in 0..rows {
        let x = [unit(), unit(), unit()];
        let best = (0..3).max_by(|&a, &b| x[a].total_cmp(&x[b])).unwrap();
        let pi = [1.0 / 3.0; 3];
        let action = pick(pi.iter().copied(), unit());
        let luck = unit();
        let revenue = if luck < if action == best { 0.8 } else { 0.3 } { 100.0 } else { 0.0 };
        // The same luck: outcomes are correlated.
        let complaint = f64::from(u8::from(luck < if action == best { 0.05 + harm } else { 0.05 }));
        let minutes = 5.0 + 20.0 * unit();
        columns.x.extend(x.iter().map(|&v| v as f32));
        columns.actions.push(action as u32);
        columns.costs.push(outcomes[0].outcome.to_cost(revenue));
        columns.other_costs[0].push(outcomes[1].outcome.to_cost(complaint));
        columns.other_costs[1].push(outcomes[2].outcome.to_cost(minutes));
        columns.propensities.push(pi[action]);
        columns.full.iter_mut().for_each(|full| full.extend(pi));
        greedy.push(f64::from(u8::from(action == best)));
    }
    columns.candidates = vec![("greedy".into(), greedy)];
    columns.named_outcomes = outcomes;
    columns
}

fn shop(rows: usize, harm: f64) -> MemoryLog {
    MemoryLog::new(columns(rows, harm)).unwrap()
}

/// `greedy` plays the best action, `uniform` plays as the log does.
fn policies() -> BTreeMap<String, PolicyParams> {
    let mean = (0..3).map(|j| (0..3).map(|a| f64::from(u8::from(a == j))).collect()).collect();
    let greedy = PolicyParams::Softmax { mean, inverse_temperature: 200.0, features: Default::default() };
    let uniform = PolicyParams::Uniform { n_actions: 3, dim: 3 };
    [("greedy", greedy), ("uniform", uniform), ("sets", PolicyParams::UniformOverSets {})]
        .map(|(id, policy)| (id.to_owned(), policy))
        .into()
}

fn resolve(log: &dyn LogSource, request: &SpecRequest) -> Result<JobSpec, SpecError> {
    let stored = policies();
    let find = |id: &str| stored.get(id).map(PolicyShape::of);
    let shape = log.shape();
    request.resolve(&SpecContext { shape, logging_policy: None, policy: &find, seen_rows: 0, caller: "test" })
}

fn with_inputs<T>(log: &dyn LogSource, then: impl FnOnce(&Inputs) -> T) -> T {
    let policies = policies();
    then(&Inputs {
        log,
        logging_policy: None,
        policies: &policies,
        dataset_version: 1,
        dataset_digest: "sha256:shop",
        log_checks: Some(&[]),
    })
}

fn start(log: &dyn LogSource, request: &SpecRequest) -> Finished {
    let spec = resolve(log, request).unwrap();
    with_inputs(log, |inputs| run(&spec, inputs, &unattended()).unwrap())
}

fn guardrail(outcome: &str, max_loss: impl Into<Amount>) -> GuardrailRequest {
    GuardrailRequest { outcome: outcome.into(), max_loss: max_loss.into() }
}

fn in_units(value: f64) -> Amount {
    Amount::InUnit(AmountInUnit { value, unit: Unit::Outcome })
}

fn guarded(guardrails: &[GuardrailRequest]) -> SpecRequest {
    SpecRequest { guardrails: Some(guardrails.to_vec()), ..SpecRequest::default() }
}

fn evaluating(ids: &[&str], request: SpecRequest) -> SpecRequest {
    let candidates = ids.iter().map(|id| Candidate::Policy { policy_id: (*id).into() }).collect();
    SpecRequest { candidates: Some(candidates), independent_of_log: Some(true), ..request }
}

/// What holds for every certificate with guardrails, and that it can be recomputed.
fn check(log: &dyn LogSource, finished: &Finished) {
    let Finished { certificate: c, evidence } = finished;
    let total: f64 = c.delta_accounting.iter().map(|share| share.share).sum();
    assert!((total - c.spec.delta).abs() < 1e-12, "{:?}", c.delta_accounting);
    let of_guardrails = c.bounds.iter().filter(|bound| bound.outcome.is_some());
    let spent: f64 = of_guardrails.clone().map(|bound| bound.delta).sum();
    assert!((spent - 0.25 * c.spec.delta).abs() < 1e-12, "guardrails get a quarter: {spent}");
    let policies = c.candidates.len().max(1);
    assert_eq!(of_guardrails.count(), policies * c.spec.guardrails.len());
    for share in &c.delta_accounting {
        let bound = c.bounds.iter().filter(|bound| bound.event == share.event);
        assert_eq!(bound.count(), 1, "{share:?}");
    }
    let holds = c.guardrails.iter().all(|result| result.ok && result.guaranteed_loss <= result.max_loss);
    if !holds {
        assert_eq!(c.decision, Decision::Keep);
    }
    for result in &c.guardrails {
        assert!(c.statement.contains(&format!("loss in {}", result.outcome)), "{}", c.statement);
        let named = c.reasons.iter().any(|reason| reason.outcome.as_ref() == Some(&result.outcome));
        assert_eq!(named, !result.ok, "{:?}", c.reasons);
    }
    let stored: Evidence = serde_json::from_value(serde_json::to_value(evidence).unwrap()).unwrap();
    let read: Certificate = serde_json::from_value(serde_json::to_value(c).unwrap()).unwrap();
    assert_eq!(read, *c);
    let verified =
        with_inputs(log, |inputs| verify(&read, Wording::Compared, &stored, inputs, &unattended()).unwrap());
    let failed: Vec<_> = verified.checks.iter().filter(|check| !check.ok).collect();
    assert!(verified.valid, "{failed:?}");
}

/// The reward improves in both worlds, and in one of them complaints rise by 0.2.
#[test]
fn a_guardrail_that_fails_means_keep_and_is_named() {
    let request = guarded(&[guardrail(COMPLAINT, 0.05), guardrail(MINUTES, in_units(2.0))]);
    for (harm, decision) in [(0.0, Decision::Deploy), (0.2, Decision::Keep)] {
        let log = shop(6000, harm);
        for request in [request.clone(), evaluating(&["greedy"], request.clone())] {
            let finished = start(&log, &request);
            let c = &finished.certificate;
            check(&log, &finished);
            assert!(c.guaranteed_improvement > 0.1, "{}", c.statement);
            assert_eq!(c.decision, decision, "{}", c.statement);
            assert_eq!(c.objective.as_deref(), Some(REVENUE));
            let [complaint, minutes] = &c.guardrails[..] else { panic!("{:?}", c.guardrails) };
            // About 0.2 · (0.98 − 1/3), and 0.
            assert!((complaint.estimated_loss - harm * 0.64).abs() < 0.03, "{complaint:?}");
            assert!(minutes.ok && (minutes.user_units.max_loss - 2.0).abs() < 1e-12, "{minutes:?}");
            assert!((minutes.user_units.guaranteed_loss - 20.0 * minutes.guaranteed_loss).abs() < 1e-12);
            if decision == Decision::Keep {
                let reason = &c.reasons[0];
                assert_eq!(reason.code, ReasonCode::GuardrailViolated, "{:?}", c.reasons);
                assert_eq!(reason.outcome.as_deref(), Some(COMPLAINT));
                assert!(reason.message.contains(COMPLAINT), "{}", reason.message);
            }
        }
    }
}

/// A cost model of each outcome narrows its bound: without π0(·|x) there is none. The true loss is 0.
#[test]
fn guardrails_have_control_variates() {
    let request = guarded(&[guardrail(COMPLAINT, 0.05)]);
    let log = shop(6000, 0.0);
    let finished = start(&log, &request);
    let Evidence::Auto(evidence) = &finished.evidence else { panic!("auto") };
    assert!(evidence.split.guardrails[0].cost_model.is_some());
    assert!(finished.certificate.guardrails[0].cost_model_digest.is_some());
    let mut columns = columns(6000, 0.0);
    columns.full = None;
    // Not recognized as uniform.
    columns.propensities[0] = 0.34;
    let without = start(&MemoryLog::new(columns).unwrap(), &request);
    let bound = |finished: &Finished| finished.certificate.guardrails[0].guaranteed_loss;
    let (narrow, wide) = (bound(&finished), bound(&without));
    println!("bound with a cost model {narrow:.5}, without {wide:.5}");
    assert!(narrow > 0.0 && narrow < 0.6 * wide, "{narrow} {wide}");
    // Another guardrail's evidence, or none, recomputes nothing.
    for broken in [Vec::new(), vec![evidence.split.guardrails[0].clone(); 2]] {
        let mut evidence = evidence.clone();
        evidence.split.guardrails = broken;
        let verified = with_inputs(&log, |inputs| {
            let evidence = Evidence::Auto(evidence);
            verify(&finished.certificate, Wording::Compared, &evidence, inputs, &unattended()).unwrap()
        });
        assert!(!verified.valid);
    }
}

#[test]
fn every_bound_certifies_guardrails() {
    let request = guarded(&[guardrail(COMPLAINT, 0.1), guardrail(MINUTES, 0.1)]);
    let quick = OptimizerRequest { epochs: Some(3), max_seconds: Some(0.0), ..OptimizerRequest::default() };
    let zero = PriorRequest { kind: Some(PriorKind::Zero), ..PriorRequest::default() };
    for logging in [Logging::Fixed, Logging::Adaptive] {
        for repeated in [None, Some(Repetitions::Decisions), Some(Repetitions::Designed)] {
            let mut columns = columns(600, 0.0);
            columns.logging = logging;
            if let Some(repetitions) = repeated {
                columns.repetitions = repetitions;
                columns.contexts = Some((0..600).map(|row| row / 2).collect());
                // Rows of one context have its features.
                for row in (1..600).step_by(2) {
                    columns.x.copy_within(3 * (row - 1)..3 * row, 3 * row);
                }
            }
            let log = MemoryLog::new(columns).unwrap();
            let bounds = [
                BoundKind::Auto,
                BoundKind::Betting,
                BoundKind::LogSmoothing,
                BoundKind::Ix,
                BoundKind::LondonSandler,
                BoundKind::Catoni,
                BoundKind::Cbb,
            ];
            let allowed = match (logging, repeated) {
                (Logging::Fixed, None) => 7,
                (Logging::Adaptive, None) => 4,
                _ => 3,
            };
            for bound in bounds.into_iter().take(allowed) {
                let request = SpecRequest { bound: Some(bound), ..request.clone() };
                check(&log, &start(&log, &evaluating(&["greedy", "uniform"], request.clone())));
                let prior = (bound != BoundKind::Auto).then(|| zero.clone());
                check(&log, &start(&log, &SpecRequest { prior, optimizer: Some(quick.clone()), ..request }));
            }
            let logged = SpecRequest {
                candidates: Some(vec![Candidate::Logged { name: "greedy".into() }]),
                independent_of_log: Some(true),
                ..request.clone()
            };
            check(&log, &start(&log, &logged));
            for bound in [BoundKind::Auto, BoundKind::Betting] {
                let pooled =
                    SpecRequest { bound: Some(bound), looks: Some(Looks::Anytime), ..request.clone() };
                check(&log, &start(&log, &evaluating(&["greedy"], pooled)));
            }
        }
    }
}

/// Every row has its own actions: two segments, and sets of 2 to 4 topics.
fn shop_with_sets(rows: usize) -> MemoryLog {
    let features = FeatureSpace::Named { dim: 64 };
    let plain = columns(rows, 0.0);
    let mut columns = Columns {
        n_actions: 4,
        full: Some(Vec::new()),
        set_features: ActionSets { x: features, actions: features },
        outcome: plain.outcome,
        named_outcomes: plain.named_outcomes,
        other_costs: plain.other_costs,
        logging: Logging::Fixed,
        ..Columns::default()
    };
    let mut sets = Sets::default();
    for row in 0..rows as u32 {
        let (segment, size) = (row % 2, 2 + (row / 2 % 3));
        sets.x.push(Some((segment, 1.0)));
        (0..size).for_each(|topic| sets.actions.push(Some((topic, 1.0))));
        sets.end_row();
        let action = (row / 7) % size;
        columns.actions.push(action);
        columns.costs.push(if action == segment { -0.8 } else { -0.2 });
        columns.propensities.push(1.0 / f64::from(size));
        columns.full.iter_mut().for_each(|full| full.extend(vec![1.0 / f64::from(size); size as usize]));
    }
    columns.sets = Some(sets);
    MemoryLog::new(columns).unwrap()
}

#[test]
fn logs_with_action_sets_have_guardrails() {
    let log = shop_with_sets(900);
    let request = guarded(&[guardrail(COMPLAINT, 0.1), guardrail(MINUTES, 0.1)]);
    let learned = start(&log, &request);
    check(&log, &learned);
    let Evidence::Auto(evidence) = &learned.evidence else { panic!("auto") };
    assert!(evidence.split.guardrails.iter().all(|guardrail| guardrail.cost_model.is_some()));
    check(&log, &start(&log, &evaluating(&["sets"], request)));
}

/// The candidate that improves most violates a guardrail, so the other one is best.
#[test]
fn a_candidate_that_deploys_comes_first() {
    let log = shop(6000, 0.2);
    let mut columns = columns(6000, 0.2);
    // Plays the best action a little more often than the log.
    let mild = columns.candidates[0].1.iter().map(|&best| if best == 1.0 { 0.4 } else { 0.3 }).collect();
    columns.candidates.push(("mild".into(), mild));
    let with_mild = MemoryLog::new(columns).unwrap();
    let logged = |names: &[&str]| SpecRequest {
        candidates: Some(names.iter().map(|name| Candidate::Logged { name: (*name).into() }).collect()),
        independent_of_log: Some(true),
        ..guarded(&[guardrail(COMPLAINT, 0.08)])
    };
    let finished = start(&with_mild, &logged(&["greedy", "mild"]));
    let c = &finished.certificate;
    check(&with_mild, &finished);
    assert_eq!(
        (c.candidate.as_deref(), c.decision),
        (Some("logged:mild"), Decision::Deploy),
        "{}",
        c.statement
    );
    assert_eq!(c.candidates[0].decision, Decision::Keep);
    assert!(c.candidates[0].guaranteed_improvement > c.candidates[1].guaranteed_improvement);
    assert_eq!(c.guardrails, c.candidates[1].guardrails);
    let units = c.candidates[1].user_units.unwrap();
    assert!((units.guaranteed_improvement - 100.0 * c.candidates[1].guaranteed_improvement).abs() < 1e-9);
    // Without guardrails, the one that improves most is best.
    let request = SpecRequest { guardrails: None, ..logged(&["greedy", "mild"]) };
    assert_eq!(start(&with_mild, &request).certificate.candidate.as_deref(), Some("logged:greedy"));
    assert_eq!(start(&log, &logged(&["greedy"])).certificate.decision, Decision::Keep);
}

#[test]
fn another_objective_is_another_question() {
    let log = shop(3000, 0.2);
    let about = |objective: &str, guardrails: &[GuardrailRequest]| {
        let request = SpecRequest { objective: Some(objective.into()), ..guarded(guardrails) };
        start(&log, &evaluating(&["greedy"], SpecRequest { looks: Some(Looks::Anytime), ..request }))
    };
    let revenue = about(REVENUE, &[guardrail(MINUTES, 0.1)]).certificate;
    let complaint = about(COMPLAINT, &[guardrail(MINUTES, 0.1)]).certificate;
    assert!(revenue.guaranteed_improvement > 0.1 && complaint.guaranteed_improvement < -0.05);
    assert_eq!(complaint.user_units.outcome.kind, OutcomeKind::Cost);
    let event = |c: &Certificate| (anytime_event(c).unwrap().unwrap(), asked(&c.spec).unwrap());
    let others = [
        complaint,
        about(REVENUE, &[]).certificate,
        about(REVENUE, &[guardrail(COMPLAINT, 0.1)]).certificate,
        about(REVENUE, &[guardrail(COMPLAINT, 0.1), guardrail(MINUTES, 0.1)]).certificate,
    ];
    for other in &others {
        assert_ne!(event(other).0, event(&revenue).0);
        assert_ne!(event(other).1, event(&revenue).1);
    }
    // Limits are no part of the event.
    let looser = about(REVENUE, &[guardrail(MINUTES, 0.2)]).certificate;
    assert_eq!(event(&looser), event(&revenue));
}

#[test]
fn equal_specs_have_equal_digests_and_nothing_is_added_without_guardrails() {
    let log = shop(800, 0.0);
    let digest = |guardrails: &[GuardrailRequest], min_improvement: Amount| {
        let request = SpecRequest { min_improvement: Some(min_improvement), ..guarded(guardrails) };
        start(&log, &evaluating(&["greedy"], request)).certificate.digest
    };
    let first = digest(&[guardrail(COMPLAINT, 0.05), guardrail(MINUTES, 0.1)], 0.005.into());
    assert_eq!(
        digest(&[guardrail(MINUTES, in_units(2.0)), guardrail(COMPLAINT, 0.05)], in_units(0.5)),
        first
    );
    assert_ne!(digest(&[guardrail(COMPLAINT, 0.05), guardrail(MINUTES, 0.2)], 0.005.into()), first);

    let plain = start(&log, &evaluating(&["greedy"], SpecRequest::default())).certificate;
    assert_eq!(start(&log, &evaluating(&["greedy"], guarded(&[]))).certificate, plain);
    let text = serde_json::to_string(&plain).unwrap();
    assert!(!text.contains("guardrail"), "{text}");
    let mut columns = columns(800, 0.0);
    (columns.named_outcomes, columns.other_costs) = (Vec::new(), Vec::new());
    let unnamed = start(&MemoryLog::new(columns).unwrap(), &evaluating(&["greedy"], SpecRequest::default()));
    let (unnamed, named) = (fields(&unnamed.certificate).unwrap(), fields(&plain).unwrap());
    assert!(!unnamed.contains_key("objective") && named["objective"] == REVENUE);
    assert!(
        unnamed["dataset"].get("outcomes").is_none() && named["dataset"]["outcomes"][0]["name"] == REVENUE
    );
    assert_eq!(unnamed["bounds"], named["bounds"]);
}

#[test]
fn what_cannot_be_guarded_is_refused() {
    let log = shop(50, 0.0);
    let many: Vec<_> = (0..9).map(|i| guardrail(&format!("o{i}"), 0.1)).collect();
    let refused = |request: SpecRequest| {
        let error = resolve(&log, &request).unwrap_err();
        (error.code, error.field)
    };
    let at = |code: SpecCode, field: &str| (code, field.to_owned());
    for (request, expected) in [
        (guarded(&many), at(SpecCode::TooManyGuardrails, "guardrails")),
        (guarded(&[guardrail("churn", 0.1)]), at(SpecCode::UnknownOutcome, "guardrails[0].outcome")),
        (guarded(&[guardrail(REVENUE, 0.1)]), at(SpecCode::GuardrailIsObjective, "guardrails[0].outcome")),
        (
            guarded(&[guardrail(MINUTES, 0.1), guardrail(MINUTES, 0.2)]),
            at(SpecCode::GuardrailRepeated, "guardrails[1].outcome"),
        ),
        (guarded(&[guardrail(MINUTES, -0.1)]), at(SpecCode::InvalidValue, "guardrails[0].max_loss")),
        (guarded(&[guardrail(MINUTES, f64::NAN)]), at(SpecCode::InvalidValue, "guardrails[0].max_loss")),
        (
            guarded(&[guardrail(MINUTES, in_units(20.001))]),
            at(SpecCode::InvalidValue, "guardrails[0].max_loss.value"),
        ),
        (
            SpecRequest { objective: Some("churn".into()), ..SpecRequest::default() },
            at(SpecCode::UnknownOutcome, "objective"),
        ),
        (
            SpecRequest { objective: Some(MINUTES.into()), ..guarded(&[guardrail(MINUTES, 0.1)]) },
            at(SpecCode::GuardrailIsObjective, "guardrails[0].outcome"),
        ),
        (
            SpecRequest { min_improvement: Some(in_units(100.5)), ..SpecRequest::default() },
            at(SpecCode::InvalidValue, "min_improvement.value"),
        ),
        (
            SpecRequest { min_improvement: Some(in_units(-0.5)), ..SpecRequest::default() },
            at(SpecCode::InvalidValue, "min_improvement.value"),
        ),
    ] {
        assert_eq!(refused(request), expected);
    }
    let mut columns = columns(50, 0.0);
    (columns.named_outcomes, columns.other_costs) = (Vec::new(), Vec::new());
    let unnamed = MemoryLog::new(columns).unwrap();
    for request in [
        guarded(&[guardrail(MINUTES, 0.1)]),
        SpecRequest { objective: Some(REVENUE.into()), ..SpecRequest::default() },
    ] {
        assert_eq!(resolve(&unnamed, &request).unwrap_err().code, SpecCode::OutcomesNotNamed);
    }
}

#[test]
fn amounts_are_numbers_or_values_with_a_unit() {
    let read = |text: &str| serde_json::from_str::<Amount>(text);
    assert_eq!(read("0.01").unwrap(), Amount::Paper(0.01));
    assert_eq!(read("1").unwrap(), Amount::Paper(1.0));
    assert_eq!(read(r#"{"value": 0.5, "unit": "outcome"}"#).unwrap(), in_units(0.5));
    for (text, why) in [
        (r#"{"value": 0.5}"#, "missing field `unit`"),
        (r#"{"unit": "paper"}"#, "missing field `value`"),
        (r#"{"value": 1, "unit": "dollars"}"#, "unknown variant `dollars`"),
        (r#"{"value": 1, "unit": "paper", "per": "day"}"#, "unknown field `per`"),
        (r#""0.5""#, "a number, or"),
        ("[1]", "a number, or"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    let written = serde_json::to_string(&in_units(0.5)).unwrap();
    assert_eq!(read(&written).unwrap(), in_units(0.5));
}

/// Golden conversions in ranges that are not [0, 1], of costs and of rewards.
#[test]
fn amounts_are_converted_by_the_range_of_their_outcome() {
    let mut columns = columns(50, 0.0);
    for (kind, min, max, value, paper) in [
        (OutcomeKind::Reward, 0.0, 100.0, 0.5, 0.005),
        (OutcomeKind::Cost, 0.0, 100.0, 0.5, 0.005),
        (OutcomeKind::Reward, -50.0, 150.0, 20.0, 0.1),
        (OutcomeKind::Cost, 5.0, 25.0, 2.0, 0.1),
        (OutcomeKind::Cost, -1.0, 0.0, 0.25, 0.25),
        (OutcomeKind::Reward, 1e-3, 2e-3, 1e-3, 1.0),
    ] {
        let outcome = Outcome::new(kind, min, max).unwrap();
        columns.named_outcomes[0].outcome = outcome;
        columns.named_outcomes[2].outcome = outcome;
        columns.outcome = outcome;
        let log = MemoryLog::new(columns.clone()).unwrap();
        let request = SpecRequest {
            min_improvement: Some(in_units(value)),
            ..guarded(&[guardrail(MINUTES, in_units(value))])
        };
        let spec = resolve(&log, &request).unwrap();
        for resolved in [spec.min_improvement, spec.guardrails[0].max_loss] {
            assert!((resolved - paper).abs() < 1e-15, "{kind:?} [{min}, {max}]: {resolved} is not {paper}");
        }
    }
}

/// A policy that always plays the worse action loses in every unit, whether the outcome is a cost or a reward; one that
/// plays the better action gains as much.
#[test]
fn a_loss_is_positive_for_costs_and_for_rewards() {
    let mut state = 3u64;
    let mut unit = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    for round in 0..40 {
        let kind = if round % 2 == 0 { OutcomeKind::Cost } else { OutcomeKind::Reward };
        let min = 200.0 * unit() - 100.0;
        let max = min + 0.01 + 300.0 * unit();
        let outcome = Outcome::new(kind, min, max).unwrap();
        // Action 1 is worse by `gap`, in the outcome's units.
        let gap = (max - min) * (0.1 + 0.8 * unit());
        let good = if kind == OutcomeKind::Cost { min } else { max };
        let bad = if kind == OutcomeKind::Cost { min + gap } else { max - gap };
        let named = |name: &str, outcome| NamedOutcome { name: name.into(), outcome };
        let actions: Vec<u32> = (0..400).map(|i| i % 2).collect();
        let of_action = |i: u32, values: [f64; 2]| outcome.to_cost(values[i as usize]);
        let log = MemoryLog::new(Columns {
            n_actions: 2,
            costs: vec![-0.5; 400],
            other_costs: vec![actions.iter().map(|&a| of_action(a, [good, bad])).collect()],
            propensities: vec![0.5; 400],
            full: Some(vec![0.5; 800]),
            outcome: Outcome::default(),
            named_outcomes: vec![named("objective", Outcome::default()), named("guarded", outcome)],
            candidates: vec![
                ("worse".into(), actions.iter().map(|&a| f64::from(a)).collect()),
                ("better".into(), actions.iter().map(|&a| f64::from(1 - a)).collect()),
            ],
            actions,
            ..Columns::default()
        })
        .unwrap();
        let candidate = |name: &str| Candidate::Logged { name: name.into() };
        let request = SpecRequest {
            candidates: Some(vec![candidate("worse"), candidate("better")]),
            independent_of_log: Some(true),
            ..guarded(&[guardrail("guarded", 0.0)])
        };
        let c = start(&log, &request).certificate;
        for (result, sign) in c.candidates.iter().zip([1.0, -1.0]) {
            let found = &result.guardrails[0].user_units;
            let loss = sign * gap / 2.0;
            assert!((found.estimated_loss - loss).abs() < 1e-9 * (max - min), "{kind:?} {found:?} {loss}");
            assert!(found.guaranteed_loss >= loss - 1e-9, "{found:?}");
            let logged = (good + bad) / 2.0;
            assert!((found.baseline_outcome - logged).abs() < 1e-9 * (max - min), "{found:?} {logged}");
        }
        // What is mapped to the paper's units and back is the same, and better is positive.
        let better = outcome.to_cost(bad) - outcome.to_cost(good);
        assert!((better - outcome.improvement_from_user(gap)).abs() < 1e-12 && better > 0.0);
        assert!((outcome.improvement_to_user(better) - gap).abs() < 1e-9 * (max - min));
    }
}
