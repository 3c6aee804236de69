//! Whole jobs have the same bytes on every kind of CPU: with each copy of the kernels, and with each set of
//! functions that the C library picks by CPU.

use std::collections::BTreeMap;

use guarantor_engine::certificate::Evidence;
use guarantor_engine::control::unattended;
use guarantor_engine::log::{Columns, LogSource, Logging, MemoryLog};
use guarantor_engine::numerics::kernels::{avx2_and_fma, force_generic};
use guarantor_engine::policy::{FeatureMap, PolicyParams};
use guarantor_engine::spec::{
    BoundKind, Candidate, OptimizerRequest, PolicyClass, PolicyShape, Preset, SpecContext, SpecRequest,
};
use guarantor_engine::{Inputs, run};

/// The best of three actions depends on the sign of x₀x₁, so linear scores cannot find it.
fn log(rows: usize) -> MemoryLog {
    let mut state = 5u64;
    let mut unit = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let mut columns = Columns {
        n_actions: 3,
        dim: 5,
        full: Some(Vec::new()),
        logging: Logging::Fixed,
        ..Columns::default()
    };
    for _ in 0..rows {
        let x: [f64; 5] = std::array::from_fn(|_| 2.0 * unit() - 1.0);
        let pi = [0.5, 0.3, 0.2];
        let action = guarantor_engine::policy::pick(pi.iter().copied(), unit());
        let best = if x[0] * x[1] > 0.0 { 1 } else { 2 };
        columns.x.extend(x.iter().map(|&v| v as f32));
        columns.actions.push(action as u32);
        columns.costs.push(if unit() < if action == best { 0.9 } else { 0.1 } { -1.0 } else { 0.0 });
        columns.propensities.push(pi[action]);
        columns.full.iter_mut().for_each(|full| full.extend(pi));
    }
    MemoryLog::new(columns).unwrap()
}

fn policies() -> BTreeMap<String, PolicyParams> {
    let mean = |p: usize| -> Vec<Vec<f64>> {
        (0..p).map(|j| (0..3).map(|a| ((j * 3 + a * 5) % 7) as f64 * 0.37 - 1.1).collect()).collect()
    };
    let number = |i: usize| ((i * 29) % 31) as f32 * 0.07 - 1.0;
    let hidden = FeatureMap::Hidden {
        center: (0..5).map(|i| 0.1 * number(i)).collect(),
        inverse_scale: vec![1.7; 5],
        weights: (0..5).map(|j| (0..19).map(|u| number(j * 19 + u)).collect()).collect(),
        bias: (0..19).map(number).collect(),
    };
    let none = FeatureMap::default;
    [
        ("hidden", PolicyParams::Lig { mean: mean(20), scale: 0.3, features: hidden }),
        ("lig", PolicyParams::Lig { mean: mean(5), scale: 0.5, features: none() }),
        ("softmax", PolicyParams::Softmax { mean: mean(5), inverse_temperature: 1.3, features: none() }),
        ("mixed", PolicyParams::MixedLogit { mean: mean(5), scale: 0.7, features: none() }),
    ]
    .map(|(id, policy)| (id.to_owned(), policy))
    .into()
}

/// Jobs with their numbers of rows. Without FMA instructions, kernels are slow, so the logs are small.
fn requests() -> Vec<(&'static str, usize, SpecRequest)> {
    let policy = |id: &str| Candidate::Policy { policy_id: id.into() };
    let evaluate = |bound: BoundKind| SpecRequest {
        bound: Some(bound),
        candidates: Some(["hidden", "lig", "softmax", "mixed"].map(policy).to_vec()),
        independent_of_log: Some(true),
        ..SpecRequest::default()
    };
    let learn = |class: PolicyClass, preset: Preset| SpecRequest {
        bound: Some(BoundKind::Cbb),
        policy_class: Some(class),
        optimizer: Some(OptimizerRequest {
            preset: Some(preset),
            epochs: Some(8),
            ..OptimizerRequest::default()
        }),
        ..SpecRequest::default()
    };
    vec![
        ("auto", 1600, SpecRequest::default()),
        ("evaluate", 150, evaluate(BoundKind::Auto)),
        ("evaluate with Catoni's bound", 150, evaluate(BoundKind::Catoni)),
        ("cbb", 600, learn(PolicyClass::Lig, Preset::Fast)),
        ("cbb with Adam", 600, learn(PolicyClass::Lig, Preset::Paper)),
        ("cbb with a mixed logit", 150, learn(PolicyClass::MixedLogit, Preset::Fast)),
    ]
}

/// Runs every job. The digest of each certificate, and its bytes with those of its evidence.
fn certificates() -> Vec<(&'static str, String, String)> {
    requests().into_iter().map(|(name, rows, request)| job(name, &log(rows), &request)).collect()
}

fn job(name: &'static str, log: &MemoryLog, request: &SpecRequest) -> (&'static str, String, String) {
    let policies = policies();
    let shape_of = |id: &str| policies.get(id).map(PolicyShape::of);
    let context = SpecContext {
        shape: log.shape(),
        logging_policy: None,
        policy: &shape_of,
        seen_rows: 0,
        caller: "nobody",
    };
    let inputs = Inputs {
        log,
        logging_policy: None,
        policies: &policies,
        dataset_version: 1,
        dataset_digest: "sha256:test",
        log_checks: None,
    };
    let finished = run(&request.resolve(&context).unwrap(), &inputs, &unattended()).unwrap();
    if let Evidence::Auto(learned) = &finished.evidence {
        let features = learned.policy.features();
        assert!(matches!(features, FeatureMap::Hidden { .. }), "`auto` chose no hidden layer");
    }
    let bytes = serde_json::to_string(&(&finished.certificate, &finished.evidence)).unwrap();
    (name, finished.certificate.digest, bytes)
}

/// No other test sets the flag. While it is set, other tests run the same kernels and get the same bits.
#[test]
fn both_copies_of_the_kernels_give_the_same_certificates() {
    let ours = certificates();
    force_generic(true);
    assert!(!avx2_and_fma());
    let any = certificates();
    force_generic(false);
    for ((name, digest, bytes), (_, other_digest, other_bytes)) in ours.iter().zip(&any) {
        assert_eq!(digest, other_digest, "{name}");
        assert!(bytes == other_bytes, "{name}: the evidence differs");
    }
}

const DIGESTS: &str = "digests: ";

fn digests() -> String {
    certificates().into_iter().map(|(_, digest, _)| digest).collect::<Vec<_>>().join(" ")
}

/// For the next test, which runs this one in a process of its own.
#[test]
#[ignore = "a part of another test"]
fn prints_digests() {
    println!("\n{DIGESTS}{}", digests());
}

/// glibc has copies of `exp`, `ln` and others for CPUs with FMA. It can be told to ignore FMA when a process
/// starts. Other C libraries ignore the variable, and the test then shows only that two processes agree.
#[test]
fn the_c_library_changes_no_bit() {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kernels::prints_digests", "--ignored", "--nocapture"])
        .env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX2_Usable,-FMA_Usable")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    let printed = text.lines().find_map(|line| line.strip_prefix(DIGESTS));
    assert_eq!(printed, Some(&*digests()), "{text}{}", String::from_utf8_lossy(&child.stderr));
}
