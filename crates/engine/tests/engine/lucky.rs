//! Guarantees above their own estimate: aimed bets can make them within δ, and none of them may deploy.

use std::collections::BTreeMap;

use guarantor_engine::certificate::{Certificate, Decision, ReasonCode};
use guarantor_engine::control::unattended;
use guarantor_engine::log::{Columns, LogSource, Logging, MemoryLog, NamedOutcome, Outcome, OutcomeKind};
use guarantor_engine::spec::{Amount, Candidate, GuardrailRequest, SpecContext, SpecRequest};
use guarantor_engine::{Inputs, run};

/// The most that may be lost in complaints.
const LIMIT: f64 = 0.5;

/// A few rows of two actions with two outcomes, in which the candidate plays the second action nine times of ten.
fn log(seed: u64) -> MemoryLog {
    let mut state = seed;
    let mut unit = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    // The first draws of small seeds are alike.
    for _ in 0..10 {
        unit();
    }
    let outcome = |kind| Outcome::new(kind, 0.0, 1.0).unwrap();
    let named = |name: &str, kind| NamedOutcome { name: name.into(), outcome: outcome(kind) };
    let mut columns = Columns {
        n_actions: 2,
        logging: Logging::Fixed,
        actions_declared: true,
        exact_propensities: true,
        outcome: outcome(OutcomeKind::Reward),
        named_outcomes: vec![named("sale", OutcomeKind::Reward), named("complaint", OutcomeKind::Cost)],
        other_costs: vec![Vec::new()],
        ..Columns::default()
    };
    let mut played = Vec::new();
    for _ in 0..40 {
        let action = u32::from(unit() < 0.1);
        columns.actions.push(action);
        columns.propensities.push(if action == 1 { 0.1 } else { 0.9 });
        columns.costs.push(if unit() < 0.8 { -1.0 } else { 0.0 });
        columns.other_costs[0].push(if unit() < 0.5 { 0.0 } else { -1.0 });
        played.push(if action == 1 { 0.9 } else { 0.1 });
    }
    columns.candidates = vec![("new".into(), played)];
    MemoryLog::new(columns).unwrap()
}

fn certificate(seed: u64) -> Certificate {
    let log = log(seed);
    let request = SpecRequest {
        candidates: Some(vec![Candidate::Logged { name: "new".into() }]),
        independent_of_log: Some(true),
        delta: Some(0.999),
        guardrails: Some(vec![GuardrailRequest {
            outcome: "complaint".into(),
            max_loss: Amount::Paper(LIMIT),
        }]),
        ..SpecRequest::default()
    };
    let shape = log.shape();
    let context =
        SpecContext { shape, logging_policy: None, policy: &|_| None, seen_rows: 0, caller: "test" };
    let spec = request.resolve(&context).unwrap();
    let inputs = Inputs {
        log: &log,
        logging_policy: None,
        policies: &BTreeMap::new(),
        dataset_version: 1,
        dataset_digest: &format!("sha256:{seed}"),
        log_checks: Some(&[]),
    };
    run(&spec, &inputs, &unattended()).unwrap().certificate
}

#[test]
fn a_guarantee_above_its_own_estimate_never_deploys() {
    let (mut lucky, mut lucky_guardrails, mut deployed) = (0, 0, 0);
    for seed in 0..150 {
        let c = certificate(seed);
        let own = |outcome: Option<&str>| {
            let of = c.bounds.iter().find(|bound| bound.used && bound.outcome.as_deref() == outcome);
            of.and_then(|bound| bound.terms.estimate).unwrap()
        };
        let exceeding = |outcome: Option<&str>| {
            c.reasons.iter().any(|reason| {
                reason.code == ReasonCode::GuaranteeExceedsEstimate && reason.outcome.as_deref() == outcome
            })
        };
        let improved = c.guaranteed_improvement > 0.0 && c.guaranteed_improvement <= 1.0;
        if improved && c.guaranteed_improvement > -own(None) + 1e-6 {
            assert!(c.decision == Decision::Keep && exceeding(None), "{seed}: {:?}", c.reasons);
            lucky += 1;
        }
        let guardrail = &c.guardrails[0];
        if (-1.0..=LIMIT).contains(&guardrail.guaranteed_loss)
            && guardrail.guaranteed_loss < own(Some("complaint")) - 1e-6
        {
            assert!(c.decision == Decision::Keep && !guardrail.ok && exceeding(Some("complaint")), "{seed}");
            lucky_guardrails += 1;
        }
        deployed += usize::from(c.decision == Decision::Deploy);
    }
    // The world shows what it is for (43, 5 and 7 of 150 logs), and not everything is refused.
    assert!(lucky > 5 && lucky_guardrails >= 3 && deployed > 0, "{lucky} {lucky_guardrails} {deployed}");
}
