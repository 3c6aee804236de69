//! `guarantor-lab simulate` through the real binary.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn simulate(&self, name: &str, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_guarantor-lab"));
        command.arg("simulate").args(args).arg("--out").arg(self.path(name));
        command.output().unwrap()
    }

    #[track_caller]
    fn simulated(&self, name: &str, args: &[&str]) -> Vec<u8> {
        let output = self.simulate(name, args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::read(self.path(name)).unwrap()
    }

    #[track_caller]
    fn rejected(&self, name: &str, args: &[&str]) -> String {
        let output = self.simulate(name, args);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(std::fs::read_dir(self.0.path()).unwrap().count(), 0, "nothing is left behind");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn fashion_mnist_becomes_a_log() {
    let folder = Folder::new();
    let policy = folder.path("policy.json");
    let args = [
        "--dataset",
        "fashion-mnist",
        "--alpha",
        "0.5",
        "--rows",
        "40",
        "--interactions",
        "2",
        "--policy-out",
    ];
    let bytes = folder.simulated("a.ndjson", &[&args[..], &[policy.to_str().unwrap()]].concat());
    let rows: Vec<Value> = bytes
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
        .map(|l| serde_json::from_slice(l).unwrap())
        .collect();
    assert_eq!(rows.len(), 40);
    let policy: Value = serde_json::from_slice(&std::fs::read(policy).unwrap()).unwrap();
    assert_eq!((&policy["kind"], &policy["inverse_temperature"]), (&"softmax".into(), &0.5.into()));
    for pair in rows.chunks(2) {
        assert_eq!((&pair[0]["x"], &pair[0]["context_id"]), (&pair[1]["x"], &pair[1]["context_id"]));
        let x: Vec<f64> = pair[0]["x"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
        let norm: f64 = x.iter().map(|v| v * v).sum();
        assert!(x.len() == 784 && (norm - 1.0).abs() < 1e-6, "{norm}");
        // The written policy gives the propensities of the row.
        let score = |a: usize| {
            0.5 * x.iter().enumerate().map(|(j, v)| v * policy["mean"][j][a].as_f64().unwrap()).sum::<f64>()
        };
        let total: f64 = (0..10).map(|a| score(a).exp()).sum();
        for (a, pi) in pair[1]["propensities"].as_array().unwrap().iter().enumerate() {
            assert!((pi.as_f64().unwrap() - score(a).exp() / total).abs() < 1e-6);
        }
        assert!(pair.iter().all(|row| row["cost"] == 0 || row["cost"] == -1));
    }
}

#[test]
fn datasets_that_cannot_be_read_are_rejected() {
    let folder = Folder::new();
    let missing = folder.rejected("a.csv", &["--dataset", "mediamill", "--data-dir", "/nowhere"]);
    assert!(missing.contains("/nowhere") && missing.contains("Extreme Classification"), "{missing}");
    let many = folder.rejected("a.csv", &["--dataset", "fashion-mnist", "--rows", "57001"]);
    assert!(many.contains("57000 contexts"), "{many}");
}
