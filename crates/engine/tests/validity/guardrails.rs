//! Guardrails: on logs with three correlated outcomes, the joint statement of a certificate (the objective, and the loss
//! in every other outcome, for every candidate) fails with probability at most δ. A candidate that knows the outcomes of
//! the rows is caught.

use std::collections::BTreeMap;

use guarantor_engine::Finished;
use guarantor_engine::certificate::{Certificate, GuardrailResult};
use guarantor_engine::log::{Columns, Logging, MemoryLog, NamedOutcome, Outcome, Span};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{BoundKind, Candidate, GuardrailRequest, Looks, OptimizerRequest, SpecRequest};
use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::harness::{Claim, DELTA, assert_flagged, assert_valid, simulate};
use super::jobs::{learning, learning_from_zero, run_job};
use super::prefix;
use super::world::pick;

const NAMES: [&str; 3] = ["revenue", "complaint", "churn"];
const ACTIONS: usize = 3;
const CONTEXTS: usize = 4;
/// Enough for cost models, on the learn side too.
const ROWS: usize = 420;

/// Contexts that are equally likely, and the probability of a cost of −1 in each outcome by context and action.
struct Shop {
    chances: [Array2<f64>; 3],
}

impl Shop {
    /// What is good for the first outcome is bad for the second, and the third is the same for all actions.
    fn new(seed: u64) -> Shop {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let revenue = Array2::from_shape_fn((CONTEXTS, ACTIONS), |_| 0.1 + 0.8 * rng.random::<f64>());
        let complaint = revenue.mapv(|p| 1.0 - 0.9 * p);
        let churn = Array2::from_elem((CONTEXTS, ACTIONS), 0.5);
        Shop { chances: [revenue, complaint, churn] }
    }

    fn features() -> Array2<f32> {
        Array2::from_shape_fn((CONTEXTS, CONTEXTS), |(i, j)| f32::from(u8::from(i == j)))
    }

    /// R_j of a policy, given as contexts × K.
    fn risk(&self, outcome: usize, pi: &Array2<f64>) -> f64 {
        -(pi * &self.chances[outcome]).sum() / CONTEXTS as f64
    }

    /// Draws rows. `plays` is the logging policy of a row, given the rows before it. Also returns R_j(π0) of each row.
    fn draw(
        &self,
        rows: usize,
        logging: Logging,
        rng: &mut ChaCha8Rng,
        plays: impl Fn(&Columns) -> Array2<f64>,
    ) -> (Columns, Vec<[f64; 3]>) {
        let named = |name: &&str| NamedOutcome { name: (*name).into(), outcome: Outcome::reward() };
        let mut columns = Columns {
            n_actions: ACTIONS,
            dim: CONTEXTS,
            full: Some(Vec::new()),
            logging,
            outcome: Outcome::reward(),
            named_outcomes: NAMES.iter().map(named).collect(),
            other_costs: vec![Vec::new(), Vec::new()],
            ..Columns::default()
        };
        let (x, mut baselines) = (Shop::features(), Vec::with_capacity(rows));
        for _ in 0..rows {
            let pi0 = plays(&columns);
            let context = rng.random_range(0..CONTEXTS);
            let action = pick(pi0.row(context).iter().copied(), rng.random());
            // One draw for all outcomes: the first two move together, the third against them.
            let luck: f64 = rng.random();
            let happens = |outcome: usize, luck: f64| {
                -f64::from(u8::from(luck < self.chances[outcome][(context, action)]))
            };
            columns.x.extend(x.row(context));
            columns.actions.push(action as u32);
            columns.costs.push(happens(0, luck));
            columns.other_costs[0].push(happens(1, luck));
            columns.other_costs[1].push(happens(2, 1.0 - luck));
            columns.propensities.push(pi0[(context, action)]);
            columns.full.iter_mut().for_each(|full| full.extend(pi0.row(context)));
            baselines.push([0, 1, 2].map(|outcome| self.risk(outcome, &pi0)));
        }
        (columns, baselines)
    }

    /// By how much a policy is worse than what a certificate guarantees about it, in any outcome.
    fn excess(
        &self,
        policy: &PolicyParams,
        baseline: [f64; 3],
        (risk, improvement): (f64, f64),
        guardrails: &[GuardrailResult],
    ) -> Vec<f64> {
        let pi = policy.propensities(Shop::features().view()).expect("a policy on these contexts");
        let mut all = vec![self.risk(0, &pi) - risk, improvement - (baseline[0] - self.risk(0, &pi))];
        assert_eq!(guardrails.len(), 2);
        for (result, outcome) in guardrails.iter().zip([1, 2]) {
            assert_eq!(result.outcome, NAMES[outcome]);
            all.push(self.risk(outcome, &pi) - baseline[outcome] - result.guaranteed_loss);
        }
        all
    }
}

/// The mean of R_j(π0) over the certified rows.
fn baseline(certificate: &Certificate, baselines: &[[f64; 3]]) -> [f64; 3] {
    let first = match certificate.certified.as_ref().expect("the certified rows").span {
        Span::Time { first_certified_row, .. } => first_certified_row as usize,
        // One policy logged every row.
        Span::Hash(_) => 0,
    };
    let rows = &baselines[first..];
    [0, 1, 2].map(|outcome| rows.iter().map(|row| row[outcome]).sum::<f64>() / rows.len() as f64)
}

fn uniform(_: &Columns) -> Array2<f64> {
    Array2::from_elem((CONTEXTS, ACTIONS), 1.0 / ACTIONS as f64)
}

/// A policy that is retrained after every row: in each context it prefers the action with the best mean revenue so far.
fn retrained(columns: &Columns) -> Array2<f64> {
    let (mut sums, mut counts) = (vec![0.0; CONTEXTS * ACTIONS], vec![1.0; CONTEXTS * ACTIONS]);
    for (row, (&action, cost)) in columns.actions.iter().zip(&columns.costs).enumerate() {
        let x = &columns.x[row * CONTEXTS..(row + 1) * CONTEXTS];
        let context = x.iter().position(|&x| x == 1.0).expect("a context");
        sums[context * ACTIONS + action as usize] -= cost;
        counts[context * ACTIONS + action as usize] += 1.0;
    }
    Array2::from_shape_fn((CONTEXTS, ACTIONS), |(x, a)| {
        let mean = |a: usize| sums[x * ACTIONS + a] / counts[x * ACTIONS + a];
        let best = (0..ACTIONS).max_by(|&a, &b| mean(a).total_cmp(&mean(b))).expect("an action");
        if a == best { 0.6 } else { 0.2 }
    })
}

fn guarded(request: SpecRequest) -> SpecRequest {
    let guardrail = |name: &&str| GuardrailRequest { outcome: (*name).into(), max_loss: 0.1.into() };
    SpecRequest { guardrails: Some(NAMES[1..].iter().map(guardrail).collect()), ..request }
}

fn candidates(rng: &mut ChaCha8Rng) -> BTreeMap<String, PolicyParams> {
    let mut policy = |temperature: f64| {
        let mean = (0..CONTEXTS).map(|_| (0..ACTIONS).map(|_| rng.random::<f64>()).collect()).collect();
        PolicyParams::Softmax { mean, inverse_temperature: temperature, features: Default::default() }
    };
    BTreeMap::from([("mild".to_owned(), policy(1.0)), ("sharp".to_owned(), policy(20.0))])
}

fn evaluating(policies: &BTreeMap<String, PolicyParams>, request: SpecRequest) -> SpecRequest {
    let candidate = |id: &String| Candidate::Policy { policy_id: id.clone() };
    SpecRequest {
        candidates: Some(policies.keys().map(candidate).collect()),
        independent_of_log: Some(true),
        ..request
    }
}

/// `auto` with little training.
fn quick_auto(rng: &mut ChaCha8Rng) -> SpecRequest {
    let optimizer = OptimizerRequest { max_seconds: Some(0.0), ..OptimizerRequest::default() };
    SpecRequest { optimizer: Some(optimizer), ..learning(BoundKind::Auto, rng.random::<u64>() >> 11) }
}

/// All claims about all candidates, at once.
fn of_candidates(
    name: &'static str,
    shop: &Shop,
    request: &SpecRequest,
    (log, baselines): (&MemoryLog, &[[f64; 3]]),
    policies: &BTreeMap<String, PolicyParams>,
) -> Claim {
    let certificate = run_job(request, log, policies).certificate;
    let baseline = baseline(&certificate, baselines);
    let excesses = certificate.candidates.iter().zip(policies.values()).flat_map(|(result, policy)| {
        let guarantee = (result.guaranteed_risk, result.guaranteed_improvement);
        shop.excess(policy, baseline, guarantee, &result.guardrails)
    });
    Claim::that_none_exceeds(name, excesses)
}

/// All claims about the learned policy, at once.
fn of_learned(name: &'static str, shop: &Shop, finished: &Finished, baselines: &[[f64; 3]]) -> Claim {
    let c = &finished.certificate;
    let policy = finished.evidence.policy().expect("the learned policy");
    let guarantee = (c.guaranteed_risk, c.guaranteed_improvement);
    Claim::that_none_exceeds(name, shop.excess(policy, baseline(c, baselines), guarantee, &c.guardrails))
}

fn none() -> BTreeMap<String, PolicyParams> {
    BTreeMap::new()
}

#[test]
fn joint_statements_hold_on_fixed_logs() {
    let shop = Shop::new(1);
    assert_valid(&simulate(120, 1, |rng| {
        let (columns, baselines) = shop.draw(ROWS, Logging::Fixed, rng, uniform);
        let log = MemoryLog::new(columns).expect("a log");
        let (drawn, policies) = ((&log, &baselines[..]), candidates(rng));
        let auto = evaluating(&policies, guarded(learning(BoundKind::Auto, 0)));
        let catoni = evaluating(&policies, guarded(learning(BoundKind::Catoni, 0)));
        let from_zero = SpecRequest {
            optimizer: Some(OptimizerRequest { epochs: Some(3), ..OptimizerRequest::default() }),
            ..guarded(learning_from_zero(BoundKind::Betting))
        };
        vec![
            of_candidates("candidates, auto", &shop, &auto, drawn, &policies),
            of_candidates("candidates, catoni", &shop, &catoni, drawn, &policies),
            of_learned(
                "learned, auto",
                &shop,
                &run_job(&guarded(quick_auto(rng)), &log, &none()),
                &baselines,
            ),
            of_learned("learned, betting", &shop, &run_job(&from_zero, &log, &none()), &baselines),
        ]
    }));
}

#[test]
fn joint_statements_hold_on_logs_of_a_retrained_policy() {
    let shop = Shop::new(2);
    assert_valid(&simulate(120, 2, |rng| {
        let (columns, baselines) = shop.draw(ROWS, Logging::Adaptive, rng, retrained);
        let policies = candidates(rng);
        let once = evaluating(&policies, guarded(learning(BoundKind::Auto, 0)));
        let pooled = SpecRequest { looks: Some(Looks::Anytime), ..once.clone() };
        // Three looks that share one event, after appends that depend on what they showed.
        let looks = [60, 200, ROWS].map(|rows| {
            let log = prefix(&columns, rows);
            of_candidates("", &shop, &pooled, (&log, &baselines[..rows]), &policies).truth
        });
        let log = MemoryLog::new(columns).expect("a log");
        vec![
            of_candidates("candidates, once", &shop, &once, (&log, &baselines), &policies),
            Claim::that_none_exceeds("candidates, three looks", looks),
            of_learned(
                "learned, auto",
                &shop,
                &run_job(&guarded(quick_auto(rng)), &log, &none()),
                &baselines,
            ),
        ]
    }));
}

/// A candidate that plays the logged action where there was a complaint, and another one elsewhere. No policy can know
/// that: complaints are the same for all actions, so that every policy loses 0.
#[test]
fn a_candidate_that_knows_the_complaints_is_caught() {
    let even = Array2::from_elem((CONTEXTS, ACTIONS), 0.5);
    let shop = Shop { chances: [even.clone(), even.clone(), even] };
    let claims = |knows: bool| {
        simulate(60, 3, |rng| {
            let (mut columns, _) = shop.draw(ROWS, Logging::Fixed, rng, uniform);
            let third = 1.0 / 3.0;
            let plays = columns.other_costs[0].iter().map(|&cost| match knows {
                true => -2.0 * third * cost,
                false => third,
            });
            columns.candidates = vec![("seer".into(), plays.collect())];
            let request = SpecRequest {
                candidates: Some(vec![Candidate::Logged { name: "seer".into() }]),
                independent_of_log: Some(true),
                ..guarded(learning(BoundKind::Auto, 0))
            };
            let log = MemoryLog::new(columns).expect("a log");
            let c = run_job(&request, &log, &none()).certificate;
            let bound = c.guardrails[0].guaranteed_loss;
            vec![Claim { name: "loss in complaints", delta: DELTA, bound, truth: 0.0 }]
        })
    };
    assert_flagged(&claims(true));
    assert_valid(&claims(false));
}
