//! `guarantor-lab compare` through the real binary.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tempfile::TempDir;

const PI0: [f64; 3] = [0.515_625_123_4, 0.250_000_456_7, 0.234_374_419_9];
const PI: [f64; 3] = [0.101_234_567_8, 0.801_234_567_8, 0.097_530_864_4];

/// Rows of three actions, of which the second is the best. The candidate `new` mostly plays it.
fn rows(n: usize) -> Vec<(usize, f64)> {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut row = || {
        let u: f64 = rng.random();
        let action = if u < PI0[0] { 0 } else { usize::from(u >= PI0[0] + PI0[1]) + 1 };
        (action, f64::from(rng.random::<f64>() < [0.2, 0.7, 0.3][action]))
    };
    (0..n).map(|_| row()).collect()
}

fn ndjson(rows: &[(usize, f64)], full: bool) -> String {
    let mut text = String::new();
    for (action, reward) in rows {
        let mut row = json!({"action": action, "propensity": PI0[*action], "reward": reward});
        match full {
            true => {
                row["propensities"] = json!(PI0);
                row["candidate_propensities"] = json!({"new": PI});
            }
            false => row["candidates"] = json!({"new": PI[*action]}),
        }
        writeln!(text, "{row}").unwrap();
    }
    text
}

struct Folder(TempDir);

impl Folder {
    fn with(name: &str, text: &str) -> (Self, PathBuf) {
        let folder = Folder(tempfile::tempdir().unwrap());
        let path = folder.write(name, text);
        (folder, path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

fn compare(log: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guarantor-lab"));
    command.arg("compare").arg(log).args(["--outcome", "reward"]).args(args).output().unwrap()
}

#[track_caller]
fn compared(log: &Path, args: &[&str]) -> Value {
    let output = compare(log, &[args, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn rejected(log: &Path, args: &[&str]) -> String {
    let output = compare(log, args);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

fn names(comparison: &Value, with: &str) -> Vec<String> {
    let lines = comparison["bounds"].as_array().unwrap().iter().filter(|line| !line[with].is_null());
    lines.map(|line| line["bound"].as_str().unwrap().to_string()).collect()
}

#[test]
fn every_bound_is_shown_on_a_log_that_supports_them_all() {
    let (_folder, log) = Folder::with("log.ndjson", &ndjson(&rows(2000), true));
    let found = compared(&log, &["--logging", "fixed"]);
    let all = ["auto", "betting", "log_smoothing", "ix", "cbb", "catoni", "london_sandler"];
    assert_eq!(names(&found, "guaranteed"), all);
    assert_eq!((&found["candidate"], &found["rows"]), (&json!("logged:new"), &json!(2000)));
    let estimate = found["estimated"]["improvement"]["mean"].as_f64().unwrap();
    let number = |name: &str, what: &str| {
        let lines = found["bounds"].as_array().unwrap();
        lines.iter().find(|line| line["bound"] == name).unwrap()["guaranteed"][what].as_f64().unwrap()
    };
    for name in all {
        let width = number(name, "width");
        assert!((estimate - number(name, "improvement") - width).abs() < 1e-12, "{name}");
        let normal = found["normal"]["width"].as_f64().unwrap();
        match name {
            // With a control variate, bets are about as narrow as the normal interval of the plain estimate, or narrower.
            "auto" | "betting" => assert!(width < 1.1 * normal, "{width} and {normal}"),
            _ => assert!(width > normal, "{name}: {width} and {normal}"),
        }
    }
    assert!(number("catoni", "risk") <= number("london_sandler", "risk"));
    assert!(number("log_smoothing", "risk") < number("cbb", "risk"));
    assert_eq!(found["normal"]["note"], "no finite-sample guarantee");
    let text = String::from_utf8(compare(&log, &["--logging", "fixed"]).stdout).unwrap();
    for word in ["| auto", "| ix ", "normal interval (no finite-sample guarantee)", "deploy", "δ = 0.05"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn bounds_that_are_not_valid_are_left_out_with_the_reason() {
    let (folder, log) = Folder::with("log.ndjson", &ndjson(&rows(500), false));
    let adaptive = compared(&log, &["--delta", "0.1"]);
    assert_eq!(names(&adaptive, "guaranteed"), ["auto", "betting", "log_smoothing", "ix"]);
    assert_eq!(names(&adaptive, "left_out"), ["cbb", "catoni", "london_sandler"]);
    assert_eq!(adaptive["delta"], 0.1);
    let text = String::from_utf8(compare(&log, &[]).stdout).unwrap();
    assert!(text.contains("catoni is left out: catoni is proved for one fixed logging policy"), "{text}");
    // The same rows in another format give the same numbers.
    let mut csv = String::from("action,propensity,reward,candidate.new\n");
    for (action, reward) in rows(500) {
        writeln!(csv, "{action},{},{reward},{}", PI0[action], PI[action]).unwrap();
    }
    let csv = folder.write("log.csv", &csv);
    assert_eq!(compared(&csv, &["--delta", "0.1"])["bounds"], adaptive["bounds"]);
}

#[test]
fn the_candidate_must_be_clear() {
    let both = ndjson(&rows(50), false).replace("{\"new\":", "{\"old\":0.5,\"new\":");
    let (folder, log) = Folder::with("log.ndjson", &both);
    let message = rejected(&log, &[]);
    assert!(
        message.contains("new") && message.contains("old") && message.contains("--candidate"),
        "{message}"
    );
    assert_eq!(compared(&log, &["--candidate", "old"])["candidate"], "logged:old");
    let message = rejected(&log, &["--candidate", "other"]);
    assert!(message.contains("no candidate other"), "{message}");
    let bare = rows(50).iter().fold(String::new(), |text, (action, reward)| {
        text + &json!({"x": [1.0], "action": action, "propensities": PI0, "reward": reward}).to_string()
            + "\n"
    });
    let log = folder.write("bare.ndjson", &bare);
    assert!(rejected(&log, &[]).contains("--policy"), "{}", rejected(&log, &[]));
    let policy = folder.write("uniform.json", r#"{"kind":"uniform","n_actions":3,"dim":1}"#);
    let found = compared(&log, &["--policy", policy.to_str().unwrap(), "--logging", "fixed"]);
    assert_eq!(found["candidate"], "policy:uniform");
    assert_eq!(names(&found, "left_out"), [""; 0]);
}

#[test]
fn a_log_that_is_not_valid_is_rejected_with_its_row() {
    let (_folder, log) = Folder::with("log.ndjson", "{\"action\":0,\"propensity\":2,\"reward\":1}\n");
    let message = rejected(&log, &[]);
    assert!(message.contains("log.ndjson") && message.contains("propensity"), "{message}");
}
