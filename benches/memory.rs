//! Peak memory of whole jobs relative to the size of the feature matrix: `cargo bench -p guarantor-engine --bench memory`. Linux only,
//! because it reads and resets the high-water mark of the process.

use std::collections::BTreeMap;

use guarantor_engine::control::unattended;
use guarantor_engine::log::{Columns, LogSource, Logging, MemoryLog, Repetitions};
use guarantor_engine::policy::{PolicyKind, PolicyParams};
use guarantor_engine::spec::{BoundKind, PolicyShape, SpecContext, SpecRequest};
use guarantor_engine::{Inputs, run};

const N: usize = 57_000;
const P: usize = 784;
const K: usize = 10;

fn peak_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM"));
    let kib = line.and_then(|l| l.split_whitespace().nth(1)).and_then(|v| v.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) * 1024.0
}

fn log() -> MemoryLog {
    let mut state = 1u64;
    let mut unit = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    let mut x = Vec::with_capacity(N * P);
    x.extend((0..N * P).map(|_| unit()));
    let actions: Vec<u32> = (0..N).map(|_| (unit() * K as f32) as u32).collect();
    let costs = (0..N).map(|i| if (x[i * P] * K as f32) as u32 == actions[i] { -1.0 } else { 0.0 }).collect();
    let (propensities, full) = (vec![0.1; N], Some(vec![0.1; N * K]));
    MemoryLog::new(Columns {
        n_actions: K,
        dim: P,
        x,
        actions,
        costs,
        propensities,
        full,
        logging: Logging::Fixed,
        repetitions: Repetitions::Designed,
        ..Columns::default()
    })
    .expect("a valid log")
}

fn main() {
    let log = log();
    let logging = PolicyParams::Softmax {
        mean: vec![vec![0.0; K]; P],
        inverse_temperature: 1.0,
        features: Default::default(),
    };
    let shape =
        PolicyShape { kind: PolicyKind::Softmax, n_actions: K, dim: P, plays_sets: false, sets: None };
    let context = SpecContext {
        shape: log.shape(),
        logging_policy: Some(shape),
        policy: &|_| None,
        seen_rows: 0,
        caller: "nobody",
    };
    let policies = BTreeMap::new();
    let inputs = Inputs {
        log: &log,
        logging_policy: Some(&logging),
        policies: &policies,
        dataset_version: 1,
        dataset_digest: "sha256:synthetic",
        log_checks: None,
    };
    let matrix = (N * P * 4) as f64;
    for bound in [BoundKind::Cbb, BoundKind::Auto] {
        // "5" resets the high-water mark to the current resident size.
        std::fs::write("/proc/self/clear_refs", "5").expect("Linux");
        let spec =
            SpecRequest { bound: Some(bound), ..SpecRequest::default() }.resolve(&context).expect("valid");
        run(&spec, &inputs, &unattended()).expect("a job");
        let peak = peak_bytes();
        println!("{}: peak {:.0} MB, {:.2} of the feature matrix", bound.name(), peak / 1e6, peak / matrix);
    }
}
