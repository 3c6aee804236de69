//! One log, written in every format and with every compression. The tests of the service and of
//! `guarantor-ingest` share this file.

#![allow(dead_code)] // each test file uses its own part of this

use std::io::Write;
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, ListBuilder};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

pub const NDJSON: &str = "application/x-ndjson";
pub const CSV: &str = "text/csv";
pub const PARQUET: &str = "application/vnd.apache.parquet";
pub const ARROW: &str = "application/vnd.apache.arrow.stream";
pub const TYPES: [&str; 4] = [NDJSON, CSV, PARQUET, ARROW];

/// Rows, which all have the same fields, as a file of this content type.
pub fn written(kind: &str, rows: &[Value]) -> Vec<u8> {
    match kind {
        NDJSON => rows.iter().map(|row| format!("{row}\n")).collect::<String>().into_bytes(),
        CSV => csv(rows),
        PARQUET => parquet(&batch(rows)),
        ARROW => arrow_stream(&[batch(rows)]),
        other => panic!("{other}"),
    }
}

/// `bytes` with a content encoding; unchanged for "identity".
pub fn encoded(coding: &str, bytes: &[u8]) -> Vec<u8> {
    match coding {
        "identity" => bytes.to_vec(),
        "gzip" => {
            // Two members, as tools that compress in blocks write them.
            let (first, second) = bytes.split_at(bytes.len() / 2);
            [first, second].iter().flat_map(|part| gzip(part)).collect()
        }
        "zstd" => zstd::encode_all(bytes, 1).unwrap(),
        other => panic!("{other}"),
    }
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn content_digest(bytes: &[u8]) -> String {
    use base64::Engine;
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(bytes);
    format!("sha-256=:{}:", base64::engine::general_purpose::STANDARD.encode(digest))
}

/// The content type and the body of a form with these parts, each given as its headers and its content.
pub fn form(parts: &[(&str, &[u8])]) -> (String, Vec<u8>) {
    let mut body = Vec::new();
    for (headers, content) in parts {
        body.extend_from_slice(format!("--frontier\r\n{headers}\r\n\r\n").as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--frontier--\r\n");
    ("multipart/form-data; boundary=frontier".into(), body)
}

pub fn disposition(name: &str) -> String {
    format!("Content-Disposition: form-data; name=\"{name}\"")
}

/// The headers of the part `data`.
pub fn data_headers(kind: &str, coding: &str) -> String {
    let coding = if coding == "identity" { String::new() } else { format!("\r\nContent-Encoding: {coding}") };
    format!("{}; filename=\"log\"\r\nContent-Type: {kind}{coding}", disposition("data"))
}

fn csv(rows: &[Value]) -> Vec<u8> {
    let columns = |row: &Value| -> Vec<(String, Value)> {
        let mut cells = Vec::new();
        for (field, value) in row.as_object().unwrap() {
            match field.as_str() {
                "x" | "propensities" => {
                    let letter = &field[..1];
                    let values = value.as_array().unwrap().iter().enumerate();
                    cells.extend(values.map(|(j, v)| (format!("{letter}{j}"), v.clone())));
                }
                "candidate_propensities" => {
                    for (name, list) in value.as_object().unwrap() {
                        let values = list.as_array().unwrap().iter().enumerate();
                        cells.extend(values.map(|(a, v)| (format!("candidate.{name}.p{a}"), v.clone())));
                    }
                }
                "candidates" | "outcomes" => {
                    let members = value.as_object().unwrap().iter();
                    let prefix = field.trim_end_matches('s');
                    cells.extend(members.map(|(name, v)| (format!("{prefix}.{name}"), v.clone())));
                }
                field => cells.push((field.into(), value.clone())),
            }
        }
        cells
    };
    let quoted = |text: &str| match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    let cell = |value: &Value| value.as_str().map_or_else(|| value.to_string(), quoted);
    let names: Vec<String> = columns(&rows[0]).iter().map(|(name, _)| quoted(name)).collect();
    let mut lines = vec![names.join(",")];
    lines.extend(rows.iter().map(|r| columns(r).iter().map(|(_, v)| cell(v)).collect::<Vec<_>>().join(",")));
    lines.join("\r\n").into_bytes()
}

/// The rows as columns of plain types.
pub fn batch(rows: &[Value]) -> RecordBatch {
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    for (field, first) in rows[0].as_object().unwrap() {
        let column = |of: &dyn Fn(&Value) -> Value| -> Vec<Value> { rows.iter().map(of).collect() };
        match first {
            Value::Object(members) if field == "candidate_propensities" => {
                for name in members.keys() {
                    let values = column(&|row| row[field][name].clone());
                    columns.push((format!("candidate_propensities.{name}"), lists(&values)));
                }
            }
            Value::Object(members) => {
                for name in members.keys() {
                    let values = column(&|row| row[field][name].clone());
                    columns.push((format!("{}.{name}", field.trim_end_matches('s')), floats(&values)));
                }
            }
            Value::Array(_) => columns.push((field.clone(), lists(&column(&|row| row[field].clone())))),
            Value::String(_) => {
                let texts = StringArray::from_iter(rows.iter().map(|row| row[field].as_str()));
                columns.push((field.clone(), Arc::new(texts)));
            }
            _ if field == "action" => {
                let values = Int64Array::from_iter(rows.iter().map(|row| row[field].as_i64()));
                columns.push((field.clone(), Arc::new(values)));
            }
            _ => columns.push((field.clone(), floats(&column(&|row| row[field].clone())))),
        }
    }
    of_columns(columns.iter().map(|(name, array)| (name.as_str(), array.clone())).collect())
}

pub fn of_columns(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let field =
        |(name, array): &(&str, ArrayRef)| arrow_schema::Field::new(*name, array.data_type().clone(), true);
    let schema = arrow_schema::Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(schema), arrays).unwrap()
}

pub fn floats(values: &[Value]) -> ArrayRef {
    Arc::new(Float64Array::from_iter(values.iter().map(Value::as_f64)))
}

/// Lists of numbers. A null in a list stays a null.
pub fn lists(values: &[Value]) -> ArrayRef {
    let mut lists = ListBuilder::new(Float64Builder::new());
    for list in values {
        match list.as_array() {
            Some(list) => {
                list.iter().for_each(|v| lists.values().append_option(v.as_f64()));
                lists.append(true);
            }
            None => lists.append(false),
        }
    }
    Arc::new(lists.finish())
}

pub fn parquet(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

pub fn arrow_stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

/// A log of `n` decisions as DSJSON.
pub fn dsjson(n: usize) -> Vec<u8> {
    let line = |i: usize| {
        let (a, p) = [("[1,2]", "[0.75,0.25]"), ("[2,1]", "[0.25,0.75]")][i % 2];
        let cost = -((i % 3) as f64) / 2.0;
        format!(
            "{{\"_label_cost\":{cost},\"EventId\":\"d{i}\",\"a\":{a},\"p\":{p},\"c\":{{\"f\":{}}}}}\n",
            i % 7
        )
    };
    (0..n).map(line).collect::<String>().into_bytes()
}

/// A number that depends on `i` without a pattern: rows that repeat a pattern are refused.
pub fn scattered(i: usize) -> usize {
    let mut h = (i as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    h = (h ^ (h >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (h >> 33) as usize
}

/// A log of `n` decisions in the format of the Open Bandit Dataset.
pub fn obd(n: usize) -> Vec<u8> {
    let row = |i: usize| format!("{},{},{},0.5,u{}\n", scattered(i) % 2, i % 3 + 1, i % 5 / 4, i % 7);
    let rows: String = (0..n).map(row).collect();
    format!("item_id,position,click,propensity_score,user_feature_0\n{rows}").into_bytes()
}

/// A log with every field, of a policy with three actions. Each context occurs twice if `repeated`.
pub fn rows(n: usize, repeated: bool) -> Vec<Value> {
    let row = |i: usize| {
        let context = if repeated { i / 2 } else { i };
        let p = [[0.5, 0.25, 0.25], [0.125, 0.5, 0.375]][context % 2];
        json!({
            "x": [(context % 17) as f64 * 0.1 - 0.8, -1.5 + (context % 5) as f64],
            "action": (i * 7 + i / 3) % 3,
            "propensity": p[(i * 7 + i / 3) % 3],
            "propensities": p,
            "cost": -((i % 5) as f64) / 4.0,
            "context_id": format!("c{context}"),
            "event_id": format!("e, \"{i}\""),
            "candidates": { "new": 0.3, "a b": 0.25 },
        })
    };
    (0..n).map(row).collect()
}
