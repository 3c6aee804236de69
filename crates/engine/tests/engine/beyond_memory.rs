//! The estimated memory of jobs on logs that are larger than memory.

use guarantor_engine::footprint::{Resources, footprint, log_bytes};
use guarantor_engine::log::{Capabilities, LogShape, Logging, Outcome};
use guarantor_engine::spec::{JobSpec, SpecContext, SpecRequest};
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;

/// A log whose feature matrix has 8 GB.
fn shape() -> LogShape {
    LogShape {
        rows: 2_600_000,
        contexts: 2_600_000,
        n_actions: 10,
        dim: 784,
        outcome: Outcome::default(),
        logging: Logging::Fixed,
        capabilities: Capabilities {
            features: true,
            full_propensities: true,
            candidates: vec!["new".into()],
            ..Capabilities::default()
        },
    }
}

fn spec(request: Value) -> JobSpec {
    let request: SpecRequest = serde_json::from_value(request).unwrap();
    let context = SpecContext {
        shape: &shape(),
        logging_policy: None,
        policy: &|_| None,
        seen_rows: 0,
        caller: "test",
    };
    request.resolve(&context).unwrap()
}

fn estimate(spec: &JobSpec, max_log_bytes: u64) -> u64 {
    let resources = Resources { threads: 2, max_log_bytes, ..Resources::default() };
    footprint(spec, &shape(), &resources).total()
}

#[test]
fn a_feature_matrix_of_8_gb_is_learned_from_in_1_gb() {
    assert!(4 * shape().rows * shape().dim as u64 > 8_000_000_000);
    let split = json!({ "kind": "split", "fraction": 0.5 });
    for request in [
        json!({ "kind": "learn" }),
        json!({ "kind": "learn", "bound": "betting" }),
        json!({ "kind": "learn", "bound": "cbb", "prior": split }),
    ] {
        let spec = spec(request.clone());
        assert!(estimate(&spec, 512 * MIB) < 1000 * MIB, "{request}: {}", estimate(&spec, 512 * MIB));
        assert!(estimate(&spec, 64 << 30) > 8000 * MIB, "{request}");
    }
}

#[test]
fn rows_without_features_count_up_to_the_limit_of_logs() {
    let logged = json!([{ "kind": "logged", "name": "new" }]);
    let spec = spec(json!({ "kind": "evaluate", "candidates": logged, "independent_of_log": true }));
    let (little, more) = (estimate(&spec, 16 * MIB), estimate(&spec, 256 * MIB));
    assert!(more - little > 200 * MIB && more - little <= 240 * MIB, "{little} {more}");
    assert!(log_bytes(&shape(), None) > 8_000_000_000);
}
