//! The estimate of a job's memory, compared with the peak of the real server. It takes minutes and a few gigabytes, so
//! it runs only on request: `cargo test --test trust -- --ignored --nocapture footprint`.

use serde_json::{Value, json};

use crate::common::{Server, id_of};

/// A kind of job.
struct Shape {
    name: &'static str,
    rows: usize,
    features: usize,
    actions: usize,
    /// Whether rows have the propensities of all actions.
    full: bool,
    spec: Value,
    environment: &'static [(&'static str, &'static str)],
}

fn shape(name: &'static str, rows: usize, features: usize, actions: usize, full: bool, spec: Value) -> Shape {
    Shape { name, rows, features, actions, full, spec, environment: &[] }
}

fn shapes() -> Vec<Shape> {
    let zero = json!({"bound": "cbb", "prior": {"kind": "zero"}});
    let mut paper = zero.clone();
    paper["optimizer"] = json!({"preset": "paper", "epochs": 2});
    let spooled = &[("GUARANTOR_MAX_LOG_MEMORY_BYTES", "0")];
    vec![
        shape("auto, small", 1000, 10, 4, true, json!({})),
        shape("auto, many parameters", 100, 1000, 500, false, json!({})),
        shape("auto, many actions", 2000, 10, 1000, true, json!({})),
        shape("auto, many features", 500, 10_000, 5, true, json!({})),
        shape("auto, many rows", 50_000, 40, 10, true, json!({})),
        Shape { environment: spooled, ..shape("auto, log in a file", 50_000, 40, 10, true, json!({})) },
        shape("cbb, fast", 2000, 500, 200, true, zero),
        shape("cbb, paper", 2000, 500, 200, true, paper),
        shape("evaluate", 20_000, 20, 100, true, json!({"kind": "evaluate", "independent_of_log": true})),
    ]
}

fn log(shape: &Shape) -> String {
    let mut state = 7u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let mut out = String::new();
    let each = 1.0 / shape.actions as f64;
    // A little below and above 1/K, because uniform propensities are not stored.
    let list: Vec<f64> =
        (0..shape.actions).map(|a| if a % 2 == 0 { 0.9 * each } else { 1.1 * each }).collect();
    let total: f64 = list.iter().sum();
    let list: Vec<f64> = list.iter().map(|p| p / total).collect();
    for _ in 0..shape.rows {
        let x: Vec<f64> = (0..shape.features).map(|_| (random() * 1000.0).round() / 1000.0).collect();
        let action = ((random() * shape.actions as f64) as usize).min(shape.actions - 1);
        // Which half of the actions is better depends on the first feature, so that there is something to learn.
        let good = (x[0] > 0.5) == action.is_multiple_of(2);
        let cost = -f64::from(u8::from(random() < if good { 0.9 } else { 0.1 }));
        let mut row = json!({"x": x, "action": action, "cost": cost});
        match shape.full {
            true => row["propensities"] = json!(list),
            false => row["propensity"] = json!(list[action]),
        }
        out.push_str(&format!("{row}\n"));
    }
    out
}

/// A number of `/proc/PID/status`, in bytes.
fn memory(server: &Server, name: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0
}

#[test]
#[ignore = "it takes minutes and gigabytes"]
fn the_estimate_covers_the_peak() {
    let mut failed = Vec::new();
    println!("{:<24} {:>9} {:>9} {:>6}", "job", "measured", "estimate", "ratio");
    for shape in shapes() {
        let data = tempfile::tempdir().unwrap();
        let mut environment = shape.environment.to_vec();
        environment.push(("GUARANTOR_MAX_JOB_MEMORY_BYTES", "1000000"));
        let mut first = Server::start_on(data.path(), &environment);
        let client = first.client();
        let query = format!("?logging=fixed&n_actions={}", shape.actions);
        let dataset = id_of(&client.upload(&query, &log(&shape)).expect(201));
        let mut spec = shape.spec.clone();
        spec["dataset_id"] = json!(dataset);
        if spec["kind"] == "evaluate" {
            let mean = vec![vec![0.5; shape.actions]; shape.features];
            let policy = client.post("/v1/policies", &json!({"kind": "lig", "mean": mean})).expect(201);
            spec["candidates"] = json!([{"kind": "policy", "policy_id": policy["id"]}]);
        }
        let refused = client.post("/v1/jobs", &spec);
        refused.problem(422, "job_too_large");
        let estimate = refused.json["estimated_memory_bytes"].as_f64().unwrap();
        first.kill();
        environment.pop();
        // A new process, because uploads take memory too.
        environment.push(("GUARANTOR_MAX_JOB_MEMORY_BYTES", "100000000000"));
        let server = Server::start_on(data.path(), &environment);
        let before = memory(&server, "VmRSS");
        let done = server.client().finish(&server.client().submit(spec));
        assert_eq!(done["status"], "succeeded", "{done}");
        let measured = memory(&server, "VmHWM") - before;
        let mib = |bytes: f64| format!("{:.0} MiB", bytes / 1048576.0);
        println!("{:<24} {:>9} {:>9} {:>6.2}", shape.name, mib(measured), mib(estimate), estimate / measured);
        if estimate < measured || estimate > 5.0 * measured + (64 << 20) as f64 {
            failed.push(shape.name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
