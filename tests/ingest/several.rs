//! `guarantor certify` and `guarantor inspect` on several files and on standard input, and columns as other tools
//! write them, through the real program.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, StringArray};
use serde_json::{Value, json};

use crate::common::{BINARY, Server, log};
use crate::logs::{self, CSV, NDJSON, PARQUET, written};

fn rows(n: usize) -> Vec<Value> {
    log(n).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn run(folder: &Path, args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(BINARY);
    command
        .current_dir(folder)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that rejects its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn several_files_are_one_log() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rows = rows(600);
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    write("all.ndjson", &written(NDJSON, &rows));
    write("1.ndjson", &written(NDJSON, &rows[..250]));
    write("2.csv.gz", &logs::gzip(&written(CSV, &rows[250..251])));
    write("3.parquet", &written(PARQUET, &rows[251..]));
    let certify = |files: &[&str], input: &[u8]| -> Value {
        let output = run(folder, &[&["certify", "--json", "--outcome", "reward"], files].concat(), input);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let whole = certify(&["all.ndjson"], b"");
    assert_eq!(certify(&["1.ndjson", "2.csv.gz", "3.parquet"], b""), whole);
    assert_ne!(certify(&["3.parquet", "2.csv.gz", "1.ndjson"], b"")["digest"], whole["digest"]);
    // Standard input, alone and as one of several files.
    assert_eq!(certify(&["-", "--format", "ndjson"], &written(NDJSON, &rows)), whole);
    write("rest.csv", &written(CSV, &rows[400..]));
    assert_eq!(certify(&["-", "rest.csv", "--format", "csv"], &written(CSV, &rows[..400])), whole);

    let inspect = |files: &[&str], input: &[u8]| {
        let output = run(folder, &[&["inspect", "--outcome", "reward"], files].concat(), input);
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, page, said) = inspect(&["1.ndjson", "2.csv.gz", "3.parquet"], b"");
    assert_eq!(code, Some(0), "{said}");
    assert!(page.starts_with("1.ndjson and 2 more  NDJSON and CSV and Parquet, "), "{page}");
    assert!(page.contains("rows                    600\n"), "{page}");
    let (code, page, said) = inspect(&["-", "--format", "parquet"], &written(PARQUET, &rows));
    assert_eq!(code, Some(0), "{said}");
    assert!(page.starts_with("standard input  Parquet\n"), "{page}");
}

#[test]
fn an_error_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut rows = rows(200);
    let write =
        |name: &str, rows: &[Value]| std::fs::write(folder.join(name), written(NDJSON, rows)).unwrap();
    write("good.ndjson", &rows[..30]);
    write("many.ndjson", &rows);
    rows[33]["reward"] = json!(2);
    rows[34]["reward"] = json!(2);
    rows[35]["reward"] = json!(2);
    write("bad.ndjson", &rows[30..60]);
    let run = |args: &[&str], input: &[u8]| {
        let output = run(folder, args, input);
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, page, said) = run(&["inspect", "good.ndjson", "bad.ndjson", "--outcome", "reward"], b"");
    assert_eq!((code, said.as_str()), (Some(2), "guarantor: bad.ndjson: the log cannot be used\n"));
    // The same error of consecutive rows is one line.
    assert!(
        page.starts_with("bad.ndjson  3 rows are not valid\n")
            && page.contains("\n  4–6  reward  2 is not in"),
        "{page}"
    );
    let (_, page, _) = run(&["inspect", "good.ndjson", "bad.ndjson", "--outcome", "reward", "--json"], b"");
    let json: Value = serde_json::from_str(&page).unwrap();
    assert_eq!((&json["file"], &json["errors"][0]["row"]), (&json!("bad.ndjson"), &json!(4)), "{json}");
    let (code, _, said) = run(&["certify", "bad.ndjson", "good.ndjson", "--outcome", "reward"], b"");
    assert_eq!(code, Some(2));
    assert!(said.starts_with("guarantor: bad.ndjson has invalid rows:\n  row 4"), "{said}");
    // Who forgets that the log has rewards is told how to say so.
    let (code, page, _) = run(&["inspect", "good.ndjson"], b"");
    assert_eq!(code, Some(2));
    assert!(page.contains("outcome=reward is --outcome reward"), "{page}");

    for (args, why) in [
        (&["-"][..], "state its format with --format"),
        (&["-", "-", "--format", "csv"], "only once"),
        (&["good.ndjson", "nowhere.ndjson"], "nowhere.ndjson: No such file"),
        (&["good.ndjson", "good.txt"], "good.txt: the file name does not imply a format"),
        (&["many.ndjson", "many.ndjson"], "many.ndjson: 192 rows, from row 1 of the file on, repeat"),
        (&[], "<FILE>"),
    ] {
        let (code, _, said) = run(&[&["certify", "--outcome", "reward"], args].concat(), b"x\n");
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(why), "{args:?}: {said}");
    }
    let (code, _, said) = run(&["certify", "-", "--format", "ndjson"], b"{}\n");
    assert_eq!((code, said.contains("standard input has invalid rows")), (Some(2), true), "{said}");
}

/// The log with columns of the types that other tools write, and with some that are not part of a log.
fn foreign(rows: &[Value]) -> Vec<u8> {
    let mut columns = Vec::new();
    let plain = logs::batch(rows);
    for (field, array) in plain.schema().fields().iter().zip(plain.columns()) {
        let name = field.name().clone();
        let numbers = || rows.iter().map(|row| row[&name].as_f64().unwrap());
        let array: ArrayRef = match name.as_str() {
            "action" => Arc::new(Float64Array::from_iter_values(numbers())),
            "reward" => Arc::new(BooleanArray::from_iter(numbers().map(|r| Some(r == 1.0)))),
            _ => array.clone(),
        };
        columns.push((name, array));
    }
    let countries: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|_| "NZ")));
    columns.insert(1, ("country".into(), countries.clone()));
    columns.push(("event_idd".into(), countries));
    logs::parquet(&logs::of_columns(
        columns.iter().map(|(name, array)| (name.as_str(), array.clone())).collect(),
    ))
}

#[test]
fn columns_that_other_tools_write_are_the_same_log() {
    let rows = rows(300);
    let bytes = foreign(&rows);
    let server = Server::start();
    let client = server.client();
    let send = |kind: &str, body: &[u8]| {
        client.send("POST", "/v1/datasets?outcome=reward", &[("content-type", kind)], Some(body))
    };
    let plain = send(NDJSON, &written(NDJSON, &rows)).expect(201);
    let dataset = send(PARQUET, &bytes).expect(201);
    assert_eq!(dataset["digest"], plain["digest"]);
    let warning = &dataset["health"]["warnings"][0];
    assert_eq!(warning["code"], "columns_ignored", "{dataset}");
    let message = warning["message"].as_str().unwrap();
    assert!(message.contains(r#""country", "event_idd" (was event_id meant?)"#), "{message}");
    // The candidates of stored rows are a file of their own, in which everything is needed.
    let path = format!("/v1/datasets/{}/candidates", dataset["id"].as_str().unwrap());
    client.send("POST", &path, &[("content-type", PARQUET)], Some(&bytes)).problem(422, "invalid_file");

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("log.parquet"), &bytes).unwrap();
    let output = run(folder.path(), &["inspect", "log.parquet", "--outcome", "reward"], b"");
    let page = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{page}");
    assert!(page.contains("  ! columns_ignored\n") && page.contains("\"country\""), "{page}");
}

#[test]
fn a_misspelled_column_and_a_broken_action_are_refused() {
    let rows = rows(3);
    let server = Server::start();
    let client = server.client();
    let plain = logs::batch(&rows);
    let with = |from: &str, to: &str, array: Option<ArrayRef>| {
        let schema = plain.schema();
        let columns = schema.fields().iter().zip(plain.columns()).map(|(field, column)| {
            let found = field.name() == from;
            let array = array.clone().filter(|_| found).unwrap_or_else(|| column.clone());
            (if found { to.to_owned() } else { field.name().clone() }, array)
        });
        let columns: Vec<_> = columns.collect();
        logs::parquet(&logs::of_columns(
            columns.iter().map(|(name, array)| (name.as_str(), array.clone())).collect(),
        ))
    };
    let send = |body: Vec<u8>| {
        client.send("POST", "/v1/datasets?outcome=reward", &[("content-type", PARQUET)], Some(&body))
    };
    for (from, to) in [("reward", "Reward"), ("action", "acton"), ("propensities", "propensites"), ("x", "X")]
    {
        let refused = send(with(from, to, None));
        refused.problem(422, "invalid_file");
        assert!(refused.text.contains(to), "{}", refused.text);
    }
    let refused = send(with("action", "action", Some(Arc::new(Float64Array::from(vec![0.0, 1.5, 1.0])))));
    refused.problem(422, "invalid_rows");
    let error = &refused.json["errors"][0];
    assert_eq!((&error["row"], &error["field"]), (&json!(2), &json!("action")), "{}", refused.text);
    assert_eq!(client.get("/v1/datasets").expect(200)["data"], json!([]));
}
