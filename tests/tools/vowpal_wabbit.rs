//! Vowpal Wabbit, from PyPI, reads logs that we wrote, and we read a log that it wrote while it learned.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::python::environment;

/// Runs tests/vw.py in an environment that has Vowpal Wabbit. `None` if it cannot be installed.
fn vowpal_wabbit(arguments: &[&str]) -> Option<Value> {
    let python = environment("vowpalwabbit", &["vowpalwabbit>=9.11,<10"], "import vowpalwabbit")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vw.py");
    let output = Command::new(python).arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn skipped() {
    eprintln!(
        "\n*** SKIPPED: Vowpal Wabbit cannot be installed from PyPI; nothing was exchanged with it. ***\n"
    );
}

fn guarantor(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_guarantor")).args(arguments).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "{error}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn file(directory: &tempfile::TempDir, name: &str) -> PathBuf {
    directory.path().join(name)
}

#[test]
fn vowpal_wabbit_sees_the_log_that_we_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let log = file(&directory, "log.dsjson");
    let made = guarantor(&["simulate", "--dataset", "news", "--rows", "3000", "--out", text(&log)]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let Some(seen) = vowpal_wabbit(&["read", text(&log)]) else { return skipped() };
    let (mut actions, mut largest, mut cost, mut weights) = (0, 0, 0.0, 0.0);
    for line in std::fs::read_to_string(&log).unwrap().lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let set = event["c"]["_multi"].as_array().unwrap().len();
        (actions, largest) = (actions + set, largest.max(set));
        cost += event["_label_cost"].as_f64().unwrap();
        weights += 1.0 / event["_label_probability"].as_f64().unwrap();
    }
    assert_eq!((&seen["rows"], &seen["logged"]), (&3000.into(), &3000.into()));
    assert_eq!((&seen["actions"], &seen["largest"]), (&actions.into(), &largest.into()));
    assert!((seen["cost"].as_f64().unwrap() - cost).abs() < 1e-3, "{seen}");
    // Vowpal Wabbit has single precision.
    assert!((seen["weights"].as_f64().unwrap() / weights - 1.0).abs() < 1e-4, "{seen} {weights}");
    assert!(seen["mean_loss"].as_f64().unwrap() < -0.05, "it learns something: {seen}");
}

/// The log of a policy that learns after every decision. Its probabilities are honest, so no check fails, and what is
/// certified is true: at the end Vowpal Wabbit is hard to beat.
#[test]
fn we_read_the_log_that_vowpal_wabbit_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let log = file(&directory, "own.dsjson");
    let Some(wrote) = vowpal_wabbit(&["write", text(&log), "6000"]) else { return skipped() };
    let inspected = json(&guarantor(&["inspect", text(&log), "--json"]));
    assert_eq!(inspected["rows"], wrote["rows"]);
    let certificate = json(&guarantor(&["certify", text(&log), "--json"]));
    let failed = |check: &&Value| check["verdict"] == "failed";
    let checks = certificate["checks"].as_array().unwrap();
    assert!(!checks.is_empty() && checks.iter().find(failed).is_none(), "{certificate}");
    // The best policy takes a topic at 0.5 wherever there is one, and 0.1 otherwise.
    let ceiling = wrote["best"].as_f64().unwrap() - wrote["later"].as_f64().unwrap();
    let improvement = certificate["guaranteed_improvement"].as_f64().unwrap();
    assert!(improvement < ceiling, "{improvement} is above {ceiling}");
}
