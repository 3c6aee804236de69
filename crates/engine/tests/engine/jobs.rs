//! Whole jobs through the engine's entry point.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use guarantor_engine::certificate::{Certificate, CheckCode, Decision, Evidence, METHOD, check_digest};
use guarantor_engine::control::{Control, Progress, TerminationReason, unattended};
use guarantor_engine::error::EngineError;
use guarantor_engine::log::{Chunk, Columns, LogShape, LogSource, Logging, MemoryLog, Repetitions};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{
    Baseline, BaselineKind, BoundKind, Candidate, JobSpec, OptimizerRequest, PolicyShape, Preset, PriorKind,
    PriorRequest, SpecContext, SpecRequest,
};
use guarantor_engine::verify::{Wording, verify_unsupported};
use guarantor_engine::{Finished, Inputs, Result, run, verify};

const BOUNDS: [BoundKind; 7] = [
    BoundKind::Auto,
    BoundKind::LondonSandler,
    BoundKind::Catoni,
    BoundKind::Cbb,
    BoundKind::Ix,
    BoundKind::LogSmoothing,
    BoundKind::Betting,
];

/// n rows, three features, K = 3; the best action is the largest feature. Logged by a known policy.
fn columns(n: usize, full: bool) -> Columns {
    let mut state = 11u64;
    let mut unit = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let mut columns = Columns {
        n_actions: 3,
        dim: 3,
        full: full.then(Vec::new),
        logging: Logging::Fixed,
        repetitions: Repetitions::Designed,
        ..Columns::default()
    };
    let mut logged = Vec::new();
    for _ in 0..n {
        let x = [unit(), unit(), unit()];
        let best = (0..3).max_by(|&a, &b| x[a].total_cmp(&x[b])).unwrap();
        let mut pi = [0.3; 3];
        pi[best] = 0.4;
        let action = guarantor_engine::policy::pick(pi.iter().copied(), unit());
        let good = if action == best { 0.9 } else { 0.1 };
        columns.x.extend(x.iter().map(|&v| v as f32));
        columns.actions.push(action as u32);
        columns.costs.push(if unit() < good { -1.0 } else { 0.0 });
        columns.propensities.push(pi[action]);
        columns.full.iter_mut().for_each(|f| f.extend(pi));
        logged.push(if action == best { 0.9 } else { 0.05 });
    }
    columns.candidates = vec![("oracle".into(), logged)];
    columns
}

fn log(n: usize) -> MemoryLog {
    MemoryLog::new(columns(n, true)).unwrap()
}

fn policies() -> BTreeMap<String, PolicyParams> {
    let mean: Vec<Vec<f64>> =
        (0..3).map(|j| (0..3).map(|a| if a == j { 8.0 } else { 0.0 }).collect()).collect();
    let lig = PolicyParams::Lig { mean: mean.clone(), scale: 0.5, features: Default::default() };
    let softmax = PolicyParams::Softmax { mean, inverse_temperature: 2.0, features: Default::default() };
    let uniform = PolicyParams::Uniform { n_actions: 3, dim: 3 };
    let steep = PolicyParams::Softmax {
        mean: vec![vec![1.0, -2.0, 3.0]; 3],
        inverse_temperature: 5e14,
        features: Default::default(),
    };
    [("lig", lig), ("softmax", softmax), ("uniform", uniform), ("steep", steep)]
        .map(|(k, p)| (k.to_string(), p))
        .into()
}

fn resolve(log: &dyn LogSource, request: &SpecRequest) -> JobSpec {
    let stored = policies();
    let shape_of = |id: &str| stored.get(id).map(PolicyShape::of);
    let context = SpecContext {
        shape: log.shape(),
        logging_policy: None,
        policy: &shape_of,
        seen_rows: 0,
        caller: "nobody",
    };
    request.resolve(&context).unwrap()
}

fn with_inputs<T>(log: &dyn LogSource, then: impl FnOnce(&Inputs) -> T) -> T {
    let policies = policies();
    then(&Inputs {
        log,
        logging_policy: None,
        policies: &policies,
        dataset_version: 3,
        dataset_digest: "sha256:test",
        log_checks: None,
    })
}

fn start(log: &dyn LogSource, request: &SpecRequest) -> Result<Finished> {
    let spec = resolve(log, request);
    with_inputs(log, |inputs| run(&spec, inputs, &unattended()))
}

fn learn(bound: BoundKind, prior: Option<PriorKind>) -> SpecRequest {
    let prior = prior.map(|kind| PriorRequest {
        kind: Some(kind),
        policy_id: (kind == PriorKind::Policy).then(|| "softmax".into()),
        ..PriorRequest::default()
    });
    SpecRequest { bound: Some(bound), prior, ..SpecRequest::default() }
}

fn evaluate(bound: BoundKind, candidates: &[Candidate]) -> SpecRequest {
    SpecRequest {
        bound: Some(bound),
        candidates: Some(candidates.to_vec()),
        independent_of_log: Some(true),
        ..SpecRequest::default()
    }
}

fn policy(id: &str) -> Candidate {
    Candidate::Policy { policy_id: id.into() }
}

/// Checks what must hold for every certificate, whatever it decides.
fn check_sound(certificate: &Certificate) {
    let c = certificate;
    let total: f64 = c.delta_accounting.iter().map(|s| s.share).sum();
    assert!((total - c.spec.delta).abs() < 1e-12, "{:?}", c.delta_accounting);
    assert_eq!(c.digest, c.content_digest().unwrap());
    assert!(c.guaranteed_risk.is_finite() && c.guaranteed_improvement.is_finite());
    // No policy can gain more than 1. A bound above 1 shows that the propensities are wrong.
    let plausible = c.guaranteed_improvement <= 1.0;
    assert_eq!(c.decision == Decision::Deploy, plausible && c.guaranteed_improvement > c.min_improvement);
    assert!(c.bounds.iter().any(|b| b.used), "no bound is used");
    for share in &c.delta_accounting {
        assert!(c.bounds.iter().any(|b| b.event == share.event && b.delta == share.share), "{share:?}");
    }
}

#[test]
fn every_bound_learns_from_every_prior_and_verifies() {
    let log = log(600);
    for bound in BOUNDS {
        let priors = match bound {
            BoundKind::Auto => vec![None],
            _ => vec![Some(PriorKind::Zero), Some(PriorKind::Policy), Some(PriorKind::Split)],
        };
        for prior in priors {
            let spec = resolve(&log, &learn(bound, prior));
            with_inputs(&log, |inputs| {
                let finished = run(&spec, inputs, &unattended()).unwrap();
                check_sound(&finished.certificate);
                let again = verify(
                    &finished.certificate,
                    Wording::Compared,
                    &finished.evidence,
                    inputs,
                    &unattended(),
                )
                .unwrap();
                assert!(again.valid, "{bound:?} {prior:?}: {:?}", again.checks);
            });
        }
    }
}

#[test]
fn auto_deploys_what_is_plainly_better_and_keeps_what_is_not() {
    let finished = start(&log(4000), &SpecRequest::default()).unwrap();
    assert_eq!(finished.certificate.decision, Decision::Deploy);
    let mut flat = columns(4000, true);
    flat.costs.fill(-0.5);
    let finished = start(&MemoryLog::new(flat).unwrap(), &SpecRequest::default()).unwrap();
    assert_eq!(finished.certificate.decision, Decision::Keep);
}

#[test]
fn candidates_share_delta_and_have_their_own_decisions() {
    let log = log(3000);
    let all = [policy("lig"), policy("uniform"), Candidate::Logged { name: "oracle".into() }];
    let bounds =
        [BoundKind::Auto, BoundKind::Betting, BoundKind::LogSmoothing, BoundKind::Ix, BoundKind::Catoni];
    for bound in bounds {
        let certificate = start(&log, &evaluate(bound, &all)).unwrap().certificate;
        check_sound(&certificate);
        assert_eq!(certificate.candidates.len(), 3);
        let best = certificate.candidates.iter().map(|c| c.guaranteed_improvement).fold(f64::MIN, f64::max);
        assert_eq!(best, certificate.guaranteed_improvement);
        assert_eq!(certificate.candidates[1].decision, Decision::Keep, "uniform is no improvement");
        let named =
            certificate.candidates.iter().find(|c| Some(&c.candidate) == certificate.candidate.as_ref());
        let estimate = certificate.breakdown.as_ref().map(|breakdown| breakdown.estimate);
        assert_eq!(named.unwrap().estimated_improvement, estimate);
        let alone = start(&log, &evaluate(bound, &all[..1])).unwrap().certificate;
        let shared = &certificate.candidates[0];
        assert!(alone.guaranteed_improvement > shared.guaranteed_improvement, "sharing δ must cost");
    }
}

#[test]
fn number_of_threads_changes_no_byte() {
    let log = log(1500);
    for request in [SpecRequest::default(), learn(BoundKind::Cbb, Some(PriorKind::Policy))] {
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let finished = pool.install(|| start(&log, &request).unwrap());
            serde_json::to_string(&(&finished.certificate, &finished.evidence)).unwrap()
        };
        assert_eq!(on(1), on(2));
        assert_eq!(on(1), on(3));
    }
}

#[test]
fn a_changed_digit_is_caught() {
    let log = log(800);
    let finished = start(&log, &SpecRequest::default()).unwrap();
    let verified = |certificate: &Certificate, evidence| {
        with_inputs(&log, |inputs| {
            verify(certificate, Wording::Compared, evidence, inputs, &unattended()).unwrap().valid
        })
    };
    assert!(verified(&finished.certificate, &finished.evidence));
    let mut forged = finished.certificate.clone();
    forged.guaranteed_improvement = forged.guaranteed_improvement.next_up();
    assert!(!verified(&forged, &finished.evidence));
    // Also if the forger recomputes the digest.
    forged.digest = forged.content_digest().unwrap();
    assert!(!verified(&forged, &finished.evidence));
    let mut forged = finished.certificate.clone();
    let slack = &mut forged.bounds[0].terms.numerical_slack;
    *slack = slack.next_up();
    forged.digest = forged.content_digest().unwrap();
    assert!(!verified(&forged, &finished.evidence));
    let Evidence::Auto(learned) = &finished.evidence else { panic!("not `auto`") };
    let mut changed = learned.clone();
    let PolicyParams::Exploring { base, .. } = &mut changed.policy else { panic!("it explores by default") };
    let PolicyParams::Lig { mean, .. } = &mut **base else { panic!("`auto` learns LIG policies") };
    mean[0][0] += 0.5;
    let evidence = Evidence::Auto(changed);
    assert!(!verified(&finished.certificate, &evidence));
    // Another start of the bets is not evidence either.
    let mut changed = learned.clone();
    changed.split.improvement.variance *= 2.0;
    let evidence = Evidence::Auto(changed);
    assert!(!verified(&finished.certificate, &evidence));
    assert!(!verified(&finished.certificate, &Evidence::Candidates));
    let mut moved = finished.certificate.clone();
    moved.dataset.digest = "sha256:other".into();
    moved.digest = moved.content_digest().unwrap();
    assert!(!verified(&moved, &finished.evidence));
}

/// What was certified does not change with the ids of policies and the number of parts of a log.
#[test]
fn the_digest_does_not_cover_ids() {
    let log = log(400);
    let certify = |ids: [&str; 2], version: u64, prior: Option<&str>| {
        let known = policies();
        let policies: BTreeMap<String, PolicyParams> = ids
            .into_iter()
            .zip(["lig", "softmax"])
            .map(|(id, own)| (id.into(), known[own].clone()))
            .collect();
        let named = |id: &str| Candidate::Policy { policy_id: id.into() };
        let request = match prior {
            Some(id) => SpecRequest {
                bound: Some(BoundKind::Betting),
                prior: Some(PriorRequest {
                    kind: Some(PriorKind::Policy),
                    policy_id: Some(id.into()),
                    ..PriorRequest::default()
                }),
                ..SpecRequest::default()
            },
            None => SpecRequest {
                candidates: Some(vec![
                    named(ids[0]),
                    named(ids[1]),
                    Candidate::Logged { name: "oracle".into() },
                ]),
                independent_of_log: Some(true),
                ..SpecRequest::default()
            },
        };
        let shape_of = |id: &str| policies.get(id).map(PolicyShape::of);
        let context = SpecContext {
            shape: log.shape(),
            logging_policy: None,
            policy: &shape_of,
            seen_rows: 0,
            caller: "nobody",
        };
        let spec = request.resolve(&context).unwrap();
        let inputs = Inputs {
            log: &log,
            logging_policy: None,
            policies: &policies,
            dataset_version: version,
            dataset_digest: "sha256:test",
            log_checks: None,
        };
        run(&spec, &inputs, &unattended()).unwrap().certificate
    };
    // One id is the beginning of the other, and the same id stands for different policies.
    let (one, other) = (certify(["ab", "abc"], 1, None), certify(["abc", "ab"], 2, None));
    assert_ne!(one, other);
    assert_eq!(one.digest, other.digest);
    assert_eq!(check_digest(&other).detail, "the document is as it was issued");
    // It does cover which of them is which.
    let mut swapped = one.clone();
    let digest = swapped.candidates[0].policy_digest.take();
    swapped.candidates[0].policy_digest = swapped.candidates[1].policy_digest.replace(digest.unwrap());
    assert!(!check_digest(&swapped).ok);
    let mut renamed = one.clone();
    renamed.candidates[0].candidate = "policy:x".into();
    assert!(!check_digest(&renamed).ok, "a name must be the same everywhere");
    let (one, other) = (certify(["ab", "abc"], 1, Some("ab")), certify(["x", "y"], 1, Some("x")));
    assert_ne!(one.spec, other.spec);
    assert_eq!(one.digest, other.digest);
    // Earlier methods covered everything.
    let [old, older] = [1, 2].map(|version| {
        let mut certificate = one.clone();
        (certificate.method, certificate.dataset.version) = (2, version);
        certificate.content_digest().unwrap()
    });
    assert_ne!(old, older);
}

#[test]
fn a_certificate_of_another_release_with_the_same_method_verifies() {
    let log = log(500);
    let finished = start(&log, &SpecRequest::default()).unwrap();
    let verified = |mut certificate: Certificate, wording: Wording| {
        certificate.engine_version = "0.0.1".into();
        certificate.digest = certificate.content_digest().unwrap();
        let again = with_inputs(&log, |inputs| {
            verify(&certificate, wording, &finished.evidence, inputs, &unattended()).unwrap()
        });
        let note = again.checks.iter().find(|check| check.name == "engine_version").unwrap();
        assert!(note.ok && note.detail.contains("0.0.1"), "{note:?}");
        again.valid
    };
    let issued = finished.certificate.clone();
    assert!(verified(issued.clone(), Wording::Compared) && verified(issued.clone(), Wording::Vouched));
    // Its wording is accepted only if something vouches for it. Its numbers are always compared.
    let mut worded = issued.clone();
    worded.statement = "The same in other words.".into();
    worded.reasons[0].message = "Another reason in words.".into();
    worded.delta_accounting[0].what = "Another explanation.".into();
    assert!(!verified(worded.clone(), Wording::Compared) && verified(worded, Wording::Vouched));
    let mut better = issued;
    better.guaranteed_improvement += 1e-6;
    assert!(!verified(better.clone(), Wording::Compared) && !verified(better, Wording::Vouched));
}

#[test]
fn a_certificate_of_another_method_keeps_its_digest_but_is_not_recomputed() {
    let log = log(300);
    let finished = start(&log, &SpecRequest::default()).unwrap();
    let json = serde_json::to_value(&finished.certificate).unwrap();
    assert_eq!(json["method"], METHOD);
    // As an earlier release wrote it: without the field, which stays absent.
    let mut old = finished.certificate.clone();
    old.method = 1;
    old.digest = old.content_digest().unwrap();
    let mut written = serde_json::to_value(&old).unwrap();
    assert_eq!(written.get("method"), None);
    let read: Certificate = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(read, old);
    assert_eq!(serde_json::to_value(&read).unwrap(), written);
    for (method, release) in [
        (1, "release 0.1 can"),
        (2, "release 0.2 can"),
        (3, "release 0.3 can"),
        (4, "release 0.4 can"),
        (5, "release 0.6 can"),
        (7, "a newer release is needed"),
    ] {
        let mut other = old.clone();
        other.method = method;
        other.digest = other.content_digest().unwrap();
        for wording in [Wording::Compared, Wording::Vouched] {
            let verification = with_inputs(&log, |inputs| {
                verify(&other, wording, &finished.evidence, inputs, &unattended()).unwrap()
            });
            assert!(!verification.valid);
            let failed: Vec<_> = verification.checks.iter().filter(|check| !check.ok).collect();
            let [failed] = &failed[..] else { panic!("{failed:?}") };
            assert_eq!(failed.name, "recomputation");
            assert_eq!(failed.code, Some(CheckCode::MethodNotSupported));
            assert!(failed.detail.contains(release), "{}", failed.detail);
        }
        assert!(!verify_unsupported(&other).unwrap().valid);
    }
    assert!(verify_unsupported(&finished.certificate).is_none());
    // Removing the field does not turn a new certificate into an old one.
    written = json;
    written.as_object_mut().unwrap().remove("method");
    let stripped: Certificate = serde_json::from_value(written).unwrap();
    assert!(!check_digest(&stripped).ok);
}

#[test]
fn learning_never_ends_above_its_prior() {
    let log = log(300);
    // The prior is already the best policy, and moving away from it costs more than it gains.
    for bound in BOUNDS.into_iter().filter(|b| *b != BoundKind::Auto) {
        let baseline = Some(Baseline { kind: BaselineKind::PointEstimate, risk: None });
        let mut request = SpecRequest { baseline, ..learn(bound, Some(PriorKind::Policy)) };
        let learned = start(&log, &request).unwrap().certificate.guaranteed_risk;
        request.optimizer = Some(OptimizerRequest { max_seconds: Some(0.0), ..OptimizerRequest::default() });
        let at_prior = start(&log, &request).unwrap().certificate;
        assert_eq!(at_prior.learning.as_ref().unwrap().termination, TerminationReason::TimeBudget);
        assert!(
            learned <= at_prior.guaranteed_risk + 1e-6,
            "{bound:?}: {learned} {}",
            at_prior.guaranteed_risk
        );
    }
}

#[test]
fn the_paper_preset_learns_too() {
    let optimizer = OptimizerRequest {
        preset: Some(Preset::Paper),
        epochs: Some(3),
        learning_rate: Some(0.05),
        ..OptimizerRequest::default()
    };
    let request =
        SpecRequest { optimizer: Some(optimizer), ..learn(BoundKind::Betting, Some(PriorKind::Zero)) };
    let finished = start(&log(2000), &request).unwrap();
    assert_eq!(finished.certificate.learning.as_ref().unwrap().termination, TerminationReason::EpochBudget);
    assert!(finished.certificate.bounds[0].terms.kl.unwrap() > 0.0, "nothing was learned");
}

#[test]
fn progress_grows_and_cancellation_ends_the_job() {
    let log = log(2000);
    let spec = resolve(&log, &SpecRequest::default());
    let last = std::sync::Mutex::new(0.0f64);
    let watch = |p: Progress| {
        let mut last = last.lock().unwrap();
        assert!(p.fraction >= *last, "{} after {last}", p.fraction);
        *last = p.fraction;
    };
    let cancel = AtomicBool::new(false);
    with_inputs(&log, |inputs| run(&spec, inputs, &Control::new(&cancel, &watch)).unwrap());
    assert_eq!(*last.lock().unwrap(), 1.0);
    let seen = AtomicUsize::new(0);
    let cancel_at_second = |_: Progress| {
        if seen.fetch_add(1, Ordering::SeqCst) == 1 {
            cancel.store(true, Ordering::SeqCst);
        }
    };
    let ended = with_inputs(&log, |inputs| run(&spec, inputs, &Control::new(&cancel, &cancel_at_second)));
    assert_eq!(ended.unwrap_err(), EngineError::Cancelled);
}

/// Extreme but valid inputs: each gives a certificate that does not deploy without evidence.
#[test]
fn degenerate_logs_get_certificates() {
    let edit = |n: usize, f: &dyn Fn(&mut Columns)| {
        let mut c = columns(n, true);
        f(&mut c);
        MemoryLog::new(c).unwrap()
    };
    let logs = [
        ("one row", edit(1, &|_| {})),
        ("five rows", edit(5, &|_| {})),
        ("zero features", edit(200, &|c| c.x.fill(0.0))),
        ("costs 0", edit(200, &|c| c.costs.fill(0.0))),
        ("costs -1", edit(200, &|c| c.costs.fill(-1.0))),
        (
            "one context",
            edit(60, &|c| {
                c.contexts = Some(vec![7; 60]);
                let first = c.x[..3].to_vec();
                c.x = first.repeat(60);
                c.full = Some([0.3, 0.3, 0.4].repeat(60));
                c.propensities = c.actions.iter().map(|&a| if a == 2 { 0.4 } else { 0.3 }).collect();
            }),
        ),
        (
            "certain and impossible",
            edit(100, &|c| {
                c.full = None;
                c.propensities = (0..100).map(|i| if i % 2 == 0 { 1.0 } else { 1e-12 }).collect();
            }),
        ),
    ];
    for (name, log) in &logs {
        for request in [
            SpecRequest::default(),
            learn(BoundKind::Betting, Some(PriorKind::Zero)),
            evaluate(BoundKind::Auto, &[policy("lig")]),
        ] {
            let certificate = start(log, &request).unwrap_or_else(|e| panic!("{name}: {e}")).certificate;
            check_sound(&certificate);
            // Nothing can be gained in these logs. In the others, a deploy is rare but within δ.
            if ["one row", "five rows", "costs 0", "one context"].contains(name) {
                assert_eq!(certificate.decision, Decision::Keep, "{name}");
            }
        }
    }
}

#[test]
fn repeated_contexts_and_missing_propensities_are_reported() {
    let mut c = columns(900, false);
    c.contexts = Some((0..900).map(|i| i / 3).collect());
    for i in 0..900 {
        let from = i / 3 * 3;
        let x: Vec<f32> = c.x[from * 3..from * 3 + 3].to_vec();
        c.x[i * 3..i * 3 + 3].copy_from_slice(&x);
    }
    let log = MemoryLog::new(c).unwrap();
    let certificate = start(&log, &SpecRequest::default()).unwrap().certificate;
    check_sound(&certificate);
    assert_eq!(certificate.dataset.contexts, 300);
    assert!(certificate.learning.unwrap().choices.iter().any(|c| c.contains("logged propensities only")));
}

/// A source that goes bad after it was checked: NaN in the features, or rows that are not there.
struct Faulty<'a> {
    log: &'a MemoryLog,
    nan: bool,
}

impl LogSource for Faulty<'_> {
    fn shape(&self) -> &LogShape {
        self.log.shape()
    }
    fn chunks(&self) -> usize {
        if self.nan { self.log.chunks() } else { self.log.chunks() - 1 }
    }
    fn chunk(&self, index: usize) -> Result<Chunk<'_>> {
        let mut chunk = self.log.chunk(index)?;
        if self.nan && index == self.log.chunks() - 1 {
            let mut x = chunk.x.to_owned();
            x[(0, 0)] = f32::NAN;
            chunk.x = ndarray::CowArray::from(x);
        }
        Ok(chunk)
    }
}

#[test]
fn a_log_that_goes_bad_never_deploys() {
    let log = log(4000);
    for nan in [true, false] {
        for request in [
            SpecRequest::default(),
            learn(BoundKind::Betting, Some(PriorKind::Zero)),
            evaluate(BoundKind::Auto, &[policy("lig")]),
        ] {
            let ended = start(&Faulty { log: &log, nan }, &request);
            assert!(ended.is_err(), "nan {nan} {request:?}: {:?}", ended.map(|f| f.certificate.decision));
        }
    }
}

/// Propensities that rounding could have changed by more than a little are an error, never a deploy.
#[test]
fn a_policy_whose_scores_are_lost_in_rounding_is_an_error() {
    let evaluate = |id: &str| {
        let request = SpecRequest {
            candidates: Some(vec![policy(id)]),
            independent_of_log: Some(true),
            ..SpecRequest::default()
        };
        start(&log(320), &request)
    };
    assert!(evaluate("softmax").is_ok());
    let error = evaluate("steep").unwrap_err().to_string();
    assert!(error.contains("use smaller parameters"), "{error}");
}
