//! `guarantor certify` and `guarantor inspect` on files of every format.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float64Builder};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use serde_json::{Value, json};

use crate::common::{BINARY, log};

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Files {
        Files { directory: tempfile::tempdir().unwrap() }
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn guarantor(command: &str, file: &Path, args: &[&str]) -> Output {
    Command::new(BINARY).arg(command).arg(file).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The rows of a log as DSJSON. The names of features are their numbers.
fn as_dsjson(rows: &str) -> String {
    let mut lines = String::new();
    for row in rows.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let action = row["action"].as_u64().unwrap() as usize;
        let mut a: Vec<usize> = (0..3).collect();
        a.swap(0, action);
        let p: Vec<&Value> = a.iter().map(|&a| &row["propensities"][a]).collect();
        let a: Vec<usize> = a.iter().map(|a| a + 1).collect();
        let cost = -row["reward"].as_f64().unwrap();
        let line = json!({"_label_cost": cost, "a": a, "p": p, "c": {"0": row["x"][0], "1": row["x"][1]}});
        lines.push_str(&format!("{line}\n"));
    }
    lines
}

/// The same as CSV.
fn as_csv(rows: &str) -> String {
    let mut text = String::from("x0,x1,action,p0,p1,p2,reward\n");
    for row in rows.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let (x, p) = (&row["x"], &row["propensities"]);
        let (action, reward) = (&row["action"], &row["reward"]);
        text.push_str(&format!("{},{},{action},{},{},{},{reward}\n", x[0], x[1], p[0], p[1], p[2]));
    }
    text
}

/// The same as columns.
fn as_batch(rows: &str) -> RecordBatch {
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let list = |field: &str, size: i32| {
        let mut lists = FixedSizeListBuilder::new(Float64Builder::new(), size);
        for row in &rows {
            row[field]
                .as_array()
                .unwrap()
                .iter()
                .for_each(|v| lists.values().append_value(v.as_f64().unwrap()));
            lists.append(true);
        }
        Arc::new(lists.finish()) as ArrayRef
    };
    let actions = rows.iter().map(|row| row["action"].as_i64().unwrap());
    let rewards = rows.iter().map(|row| row["reward"].as_f64().unwrap());
    RecordBatch::try_from_iter([
        ("x", list("x", 2)),
        ("propensities", list("propensities", 3)),
        ("action", Arc::new(Int64Array::from_iter_values(actions)) as ArrayRef),
        ("reward", Arc::new(Float64Array::from_iter_values(rewards)) as ArrayRef),
    ])
    .unwrap()
}

fn as_parquet(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn as_arrow(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

#[test]
fn certify_reads_every_format() {
    let files = Files::new();
    let rows = log(400);
    let (dsjson, batch) = (as_dsjson(&rows), as_batch(&rows));
    let ndjson = files.write("log.ndjson", &rows);
    let certify = |file: &Path, args: &[&str]| -> Value {
        let args = [&["--json", "--outcome", "reward"], args].concat();
        let output = guarantor("certify", file, &args);
        assert_eq!(output.status.code(), Some(0), "{}: {}", file.display(), text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let expected = certify(&ndjson, &[]);
    assert_eq!(expected["decision"], "deploy");
    let two: &[&str] = &["--hash-dims", "2"];
    let cases: [(&str, Vec<u8>, &[&str]); 9] = [
        ("log.jsonl.gz", gzip(rows.as_bytes()), &[]),
        ("log.csv", as_csv(&rows).into(), &[]),
        ("log.csv.zst", zstd::encode_all(as_csv(&rows).as_bytes(), 3).unwrap(), &[]),
        ("log.parquet", as_parquet(&batch), &[]),
        ("log.arrow", as_arrow(&batch), &[]),
        ("log.arrows.gz", gzip(&as_arrow(&batch)), &[]),
        ("log.dsjson", dsjson.clone().into(), two),
        ("log.json", dsjson.clone().into(), &["--hash-dims", "2", "--format", "dsjson"]),
        ("log.gz", gzip(dsjson.as_bytes()), &["--hash-dims", "2", "--format", "dsjson"]),
    ];
    for (name, bytes, args) in cases {
        let file = files.write(name, bytes);
        assert_eq!(certify(&file, args), expected, "{name}");
    }
    let unknown = guarantor("certify", &files.write("log.txt", &dsjson), &[]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("add --format"), "{}", text(&unknown.stderr));
    let dims = guarantor("certify", &files.write("dims.csv", as_csv(&rows)), two);
    assert_eq!((dims.status.code(), text(&dims.stderr).contains("--hash-dims")), (Some(2), true));
    let cut =
        guarantor("certify", &files.write("cut.ndjson", &rows[..rows.len() - 9]), &["--outcome", "reward"]);
    assert_eq!(cut.status.code(), Some(2));
    assert!(text(&cut.stderr).contains("row 400"), "{}", text(&cut.stderr));
    let spec = files.write("spec.json", r#"{"min_improvement": 0.99}"#);
    let keep = guarantor("certify", &ndjson, &["--outcome", "reward", "--spec", spec.to_str().unwrap()]);
    assert_eq!(keep.status.code(), Some(1), "{}", text(&keep.stderr));
    // A certificate from a named format can be verified from it.
    let certificate = files.write("certificate.json", expected.to_string());
    let file = files.directory.path().join("log.json");
    let verified =
        guarantor("verify", &certificate, &["--log", file.to_str().unwrap(), "--format", "dsjson"]);
    assert_eq!(verified.status.code(), Some(0), "{}{}", text(&verified.stdout), text(&verified.stderr));
}

/// The output, with the path replaced.
fn seen(file: &Path, output: &Output) -> String {
    text(&output.stdout).replace(file.to_str().unwrap(), "FILE")
}

const HEALTHY: &str = "\
FILE  NDJSON, 287.0 kB

  rows                    2,000
  actions                 3
  features                2
  outcome                 reward in [0, 1]
  logging                 adaptive: policies and traffic may have changed
  propensities            of all actions
  propensity digits       double precision
  order of arrival        by row
  sha256:ca007e15c1d56324727dee235c2934c089af309db68520b75080aa877d49bec6

How much the deployed policy explored
  smallest propensity     0.3333
  largest weight          3 (1 / smallest propensity)
  effective rows          2,000 (100% of all rows)
  no choice on            0% of the rows

Whether the propensities fit the actions
  mean of 1/propensity    3, expected 3: fits
  worst action count      action 2: 645 rows, expected 666.7 (z = -1.0): fits

Whether the log meets the assumptions
  propensities            evidence 1 against it, the limit is 500: fits
  action_counts action 2  evidence 0.5494 against it, the limit is 500: fits

How the log changes over time
  mean reward      0.305 0.406 0.328 0.312 0.305 0.375 0.344 0.344 0.297 0.281
                   0.328 0.383 0.266 0.398 0.320 0.400
  mean propensity  0.333 0.333 0.333 0.333 0.333 0.333 0.333 0.333 0.333 0.333
                   0.333 0.333 0.333 0.333 0.333 0.333
  change                  none that cannot be chance

How often each action was taken
      0  669  ███████████████████████████████████████
      1  686  ████████████████████████████████████████
      2  645  █████████████████████████████████████▋

Nothing to fix
";

const REFUSED: &str = "\
FILE  3 rows are not valid

  row  field       what is wrong
    2  x           has 1 numbers, but earlier rows have 2
    3  x           has 0 numbers, but earlier rows have 2
    4  propensity  is missing; log it, or propensities, or upload with
                   logging_policy_id
";

#[test]
fn inspect_prints_a_report_for_people() {
    let files = Files::new();
    let healthy = files.write("log.ndjson", log(2_000));
    let output = guarantor("inspect", &healthy, &["--outcome", "reward"]);
    assert_eq!(seen(&healthy, &output), HEALTHY, "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
    let bad = [
        r#"{"x":[1,2],"action":0,"propensity":0.5,"cost":0}"#,
        r#"{"x":[1],"action":1,"propensity":1.5,"cost":-1}"#,
        r#"{"action":1,"cost":-1}"#,
        r#"{"x":[1,2],"action":1,"cost":-1}"#,
    ];
    let bad = files.write("bad.ndjson", bad.join("\n"));
    let output = guarantor("inspect", &bad, &[]);
    assert_eq!((seen(&bad, &output).as_str(), output.status.code()), (REFUSED, Some(2)));
    // A log with warnings. The page has the width of a terminal and no colors.
    let rows = (0..300)
        .map(|i| json!({"action": (i * i) % 90, "propensity": if i == 7 { 1e-7 } else { 0.999 }, "cost": 0}));
    let doubtful = files.write("doubtful.jsonl", rows.map(|row| format!("{row}\n")).collect::<String>());
    let output = guarantor("inspect", &doubtful, &["--n-actions", "100"]);
    let page = seen(&doubtful, &output);
    assert_eq!(output.status.code(), Some(1), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80) && !page.contains('\x1b'), "{page}");
    for code in [
        "propensities_look_rounded",
        "near_deterministic",
        "low_effective_sample_size",
        "actions_never_logged",
    ] {
        assert!(page.contains(&format!("  ! {code}\n")), "{code}: {page}");
    }
    assert!(page.contains("4 things to look at") && page.contains("      …  "), "{page}");
}

#[test]
fn inspect_prints_json_for_programs() {
    let files = Files::new();
    let inspect = |name: &str, bytes: &str, args: &[&str]| {
        let output = guarantor("inspect", &files.write(name, bytes), &[&["--json"], args].concat());
        let json: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        (output.status.code().unwrap(), json, text(&output.stderr))
    };
    let (code, json, _) = inspect("log.ndjson", &log(200), &["--outcome", "reward"]);
    assert_eq!(
        (code, &json["valid"], &json["rows"], &json["n_actions"]),
        (0, &json!(true), &json!(200), &json!(3))
    );
    assert!(
        json["digest"].as_str().unwrap().starts_with("sha256:")
            && json["health"]["min_propensity"].is_number()
    );
    let clicks = "item_id,position,click,propensity_score\n0,1,1,0.5\n1,2,0,0.5\n";
    let args = ["--format", "obd", "--hash-dims", "4", "--exact-propensities"];
    let (code, json, _) = inspect("clicks.csv", clicks, &args);
    assert_eq!((code, &json["dim"], &json["outcome"]["kind"]), (0, &json!(7), &json!("reward")), "{json}");
    // Unless the caller knows better, 0.5 looks rounded, which is a warning.
    let (code, json, _) = inspect("clicks.csv", clicks, &args[..4]);
    let warning = &json["health"]["warnings"][0]["code"];
    assert_eq!(
        (code, &json["valid"], warning),
        (1, &json!(true), &json!("propensities_look_rounded")),
        "{json}"
    );
    let (code, json, _) = inspect("clicks.csv", &clicks.replace(",2,", ",4,"), &["--format", "obd"]);
    assert_eq!((code, &json["valid"], &json["errors"][0]["row"]), (2, &json!(false), &json!(3)));
    assert_eq!(json["errors"][0]["field"], "position");
    let (code, json, stderr) = inspect("no.parquet", "PAR1", &[]);
    assert_eq!((code, &json["valid"]), (2, &json!(false)));
    assert!(stderr.contains("no.parquet") && stderr.contains("Parquet"), "{stderr}");
    let missing = guarantor("inspect", Path::new("/nowhere/log.ndjson"), &[]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(
        text(&missing.stderr).starts_with("guarantor: /nowhere/log.ndjson: "),
        "{}",
        text(&missing.stderr)
    );
}

/// What a certificate rests on, and every failed check once.
#[test]
fn the_summary_of_a_certificate_shows_what_it_rests_on() {
    let files = Files::new();
    let file = files.write("log.ndjson", log(2_000));
    let summary = guarantor("certify", &file, &["--outcome", "reward"]);
    let shown = text(&summary.stdout);
    for line in
        ["logging                 adaptive", "certified rows          ", "exploration             2%,"]
    {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(shown.contains("checks passed           propensities (all rows), action_counts"), "{shown}");
    // Without n_actions, and with propensities that are too small.
    let bad: String = log(2_000)
        .lines()
        .map(|line| {
            let mut row: Value = serde_json::from_str(line).unwrap();
            row.as_object_mut().unwrap().remove("propensities");
            row["propensity"] = json!(0.12);
            format!("{row}\n")
        })
        .collect();
    let file = files.write("bad.ndjson", bad);
    let output = guarantor("certify", &file, &["--outcome", "reward"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let shown = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("The log fails the checks propensities, "), "{shown}");
    assert!(shown.contains("checks failed propensities (all rows), action_counts of action"), "{shown}");
    let found = |scope: &str| shown.matches(&format!("action_counts of action {scope}")).count();
    assert_eq!(found("1 (all rows)") + found("0 (all rows)") + found("2 (all rows)"), 1, "{shown}");
    let inspected = guarantor("inspect", &file, &["--outcome", "reward"]);
    let shown = text(&inspected.stdout);
    assert!(
        shown.contains("mean of 1/propensity    8.333, expected 3") && !shown.contains(": not tested"),
        "{shown}"
    );
}
