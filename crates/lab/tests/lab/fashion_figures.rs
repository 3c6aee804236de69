//! The acceptance figures on FashionMNIST (docs/reproduction.md), on the exact logs of tests/fashion_mnist.

use std::collections::BTreeMap;

use crate::fashion::{self, Fashion};
use guarantor_engine::certificate::Decision;
use guarantor_engine::control::unattended;
use guarantor_engine::log::{LogSource, Logging};
use guarantor_engine::policy::{PolicyKind, PolicyParams};
use guarantor_engine::spec::{
    Baseline, BaselineKind, BoundKind, ExploreRequest, PolicyShape, SpecContext, SpecRequest,
};
use guarantor_engine::verify::Wording;
use guarantor_engine::{Finished, Inputs, run, verify};

fn job(log: &dyn LogSource, logging: &PolicyParams, bound: BoundKind, baseline: BaselineKind) -> Finished {
    let shape = PolicyShape {
        kind: PolicyKind::Softmax,
        n_actions: fashion::K,
        dim: fashion::P,
        plays_sets: false,
        sets: None,
    };
    let context = SpecContext {
        shape: log.shape(),
        logging_policy: Some(shape),
        policy: &|_| None,
        seen_rows: 0,
        caller: "nobody",
    };
    let baseline = Some(Baseline { kind: baseline, risk: None });
    let explore = Some(ExploreRequest::Share(0.0));
    let request = SpecRequest { bound: Some(bound), baseline, explore, ..SpecRequest::default() };
    let spec = request.resolve(&context).unwrap();
    let policies = BTreeMap::new();
    let inputs = Inputs {
        log,
        logging_policy: Some(logging),
        policies: &policies,
        dataset_version: 1,
        dataset_digest: "sha256:fashion",
        log_checks: None,
    };
    let finished = run(&spec, &inputs, &unattended()).unwrap();
    let again =
        verify(&finished.certificate, Wording::Compared, &finished.evidence, &inputs, &unattended()).unwrap();
    assert!(again.valid, "{:?}", again.checks);
    finished
}

/// The sampling error of the test set.
const SAMPLING_ERROR: f64 = 0.01;

#[test]
fn reaches_the_acceptance_figures() {
    let data = Fashion::load();
    // α, R(π0) on the test set, the guaranteed risk that CBB must reach, the improvement that `auto` must
    // reach.
    let cases = [
        ("0.1", -0.2296, -0.5273, 0.5956),
        ("0.5", -0.6578, -0.7275, 0.1748),
        ("1.0", -0.7611, -0.7798, 0.0697),
    ];
    for (alpha, r0, guaranteed_risk, improvement) in cases {
        let log = data.log(alpha, 57_000);
        let logging = data.logging_policy(alpha.parse().unwrap());
        assert!((data.test_risk(&logging) - r0).abs() < 5e-5, "the log is not the exact one");
        let cbb = job(&log, &logging, BoundKind::Cbb, BaselineKind::PointEstimate).certificate;
        assert!(cbb.guaranteed_risk <= guaranteed_risk, "α = {alpha}: CBB {}", cbb.guaranteed_risk);
        let auto = job(&log, &logging, BoundKind::Auto, BaselineKind::Certified);
        let certified = auto.certificate.guaranteed_improvement;
        let truth = r0 - data.test_risk(auto.evidence.policy().unwrap());
        assert_eq!(auto.certificate.decision, Decision::Deploy);
        assert!(certified >= improvement, "α = {alpha}: auto certifies {certified}");
        assert!(certified <= truth + SAMPLING_ERROR, "α = {alpha}: {certified} certified, {truth} true");
        println!("α = {alpha}, fixed: CBB {:.4}, auto {certified:.4} of {truth:.4}", cbb.guaranteed_risk);

        // The same log without the statement that one policy logged it: learned on the first rows, certified on the
        // others.
        let log = log.with_logging(Logging::Adaptive);
        let auto = job(&log, &logging, BoundKind::Auto, BaselineKind::Certified);
        let certified = auto.certificate.guaranteed_improvement;
        let truth = r0 - data.test_risk(auto.evidence.policy().unwrap());
        assert_eq!(auto.certificate.decision, Decision::Deploy);
        assert!(certified >= improvement, "α = {alpha}: adaptive auto certifies {certified}");
        assert!(certified <= truth + SAMPLING_ERROR, "α = {alpha}: {certified} certified, {truth} true");
        println!("α = {alpha}, adaptive: auto {certified:.4} of {truth:.4}");
    }
}
