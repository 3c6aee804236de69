//! Errors after so many rows that some of them are already written, and the formats that must be named.

use super::logs::{self, ARROW, CSV, NDJSON, PARQUET, encoded, gzip, rows, written};
use super::{Case, bad_file, bad_row};

const GOOD: usize = 20_000;

/// A DSJSON line. A wrong line has a `p` that is not a distribution.
fn decision(i: usize, p: &str) -> String {
    format!(r#"{{"_label_cost":-1,"EventId":"d{i}","a":[1,2],"p":{p},"c":{{"f":1}}}}"#)
}

fn after(good: Vec<u8>, line: &str) -> Vec<u8> {
    [good, line.as_bytes().to_vec()].concat()
}

pub fn cases() -> Vec<Case> {
    let mut log = rows(GOOD + 1, true);
    let right = log.clone();
    log[GOOD]["propensity"] = 0.9.into();
    let late = |kind: &str| written(kind, &log);
    let number = GOOD as u64 + 1;
    let text = written(NDJSON, &right);
    let cut = gzip(&text);
    let arrow = written(ARROW, &right);
    let dsjson = |name: &str, body: Vec<u8>, row, field| {
        bad_row("application/json", name, body, row, field).path("/v1/datasets?format=dsjson")
    };
    let obd = |name: &str, body: Vec<u8>, row, field| {
        bad_row(CSV, name, body, row, field).path("/v1/datasets?format=obd&n_actions=2")
    };
    vec![
        bad_row(NDJSON, "late ndjson", late(NDJSON), number, "propensity"),
        bad_row(CSV, "late csv", late(CSV), number + 1, "propensity"),
        bad_row(PARQUET, "late Parquet", late(PARQUET), number, "propensity"),
        bad_row(ARROW, "late Arrow", late(ARROW), number, "propensity"),
        bad_row(NDJSON, "late zstd", encoded("zstd", &late(NDJSON)), number, "propensity")
            .header("content-encoding", "zstd"),
        bad_file(NDJSON, "late end of gzip", &cut[..cut.len() - 9]).header("content-encoding", "gzip"),
        bad_file(ARROW, "late end of Arrow", &arrow[..arrow.len() / 2]),
        dsjson("dsjson of one line", decision(0, "[0.5,0.6]").into(), 1, "p"),
        dsjson("late dsjson", after(logs::dsjson(GOOD), &decision(GOOD, "[0.5,0.6]")), number, "p"),
        dsjson("late dsjson twice", after(logs::dsjson(GOOD), &decision(3, "[0.5,0.5]")), number, "EventId"),
        obd("obd of one line", after(logs::obd(0), "0,4,0,0.5,u\n"), 2, "position"),
        obd("late obd", after(logs::obd(GOOD), "5,1,0,0.5,u\n"), number + 1, "item_id"),
        bad_file(CSV, "obd of other columns", "action,cost\n1,2\n").path("/v1/datasets?format=obd"),
        bad_file("application/json", "dsjson of nothing", "\n").path("/v1/datasets?format=dsjson"),
    ]
}
