//! Small files in the CSV format of the Open Bandit Dataset.

use serde_json::{Value, json};

use super::hashing::features;
use super::{ndjson, nothing_is_stored, obd, rejected_row, upload};
use crate::common::{Server, id_of};

const HEADER: &str = ",timestamp,item_id,position,click,propensity_score,user_feature_0,user_feature_1,user-item_affinity_0,user-item_affinity_1,user-item_affinity_2";

fn line(i: usize, item: usize, position: usize, click: u8, propensity: &str) -> String {
    let user = ["81ce123c", "cef3390e", ""][i % 3];
    format!(
        "{i},2019-11-24 00:00:17.004101+00:00,{item},{position},{click},{propensity},{user},{},0.0,1.0,0.0",
        i % 2
    )
}

fn row(
    dims: usize,
    i: usize,
    item: usize,
    position: usize,
    click: u8,
    propensity: &str,
    full: Option<&[f64]>,
) -> Value {
    let user = ["81ce123c", "cef3390e", ""][i % 3];
    let named = [(format!("user_feature_0={user}"), 1.0), (format!("user_feature_1={}", i % 2), 1.0)];
    let mut x = if dims == 0 { Vec::new() } else { features(dims, &named) };
    x.extend((1..=3).map(|p| f64::from(u8::from(p == position))));
    let mut row = json!({"x": x, "action": item, "propensity": propensity.parse::<f64>().unwrap(), "reward": click,
        "timestamp": "2019-11-24T00:00:17.004101Z"});
    if let Some(full) = full {
        row["propensities"] = json!(full);
    }
    row
}

fn file(lines: &[String]) -> String {
    format!("{HEADER}\n{}\n", lines.join("\n"))
}

#[test]
fn a_file_becomes_the_right_rows() {
    let server = Server::start();
    let client = server.client();
    let log: Vec<_> = (0..12).map(|i| (i, i % 2, 1 + i % 3, u8::from(i % 4 == 0))).collect();
    let third = 1.0 / 3.0;
    for (propensities, full) in [
        // Uniform over the three items that have affinities, although the third was never shown.
        (["0.3333333333333333"; 12], Some([third; 3])),
        // Rounded, and so perhaps only nearly uniform.
        (["0.33333"; 12], None),
        // Not uniform, although it begins like a uniform log.
        (
            [
                "0.3333333333333333",
                "0.3333333333333333",
                "0.25",
                "0.5",
                "0.1",
                "0.2",
                "0.3",
                "0.4",
                "0.6",
                "0.7",
                "0.8",
                "1",
            ],
            None,
        ),
    ] {
        for dims in [0, 5, 256] {
            let lines: Vec<String> =
                log.iter().map(|&(i, item, at, click)| line(i, item, at, click, propensities[i])).collect();
            let rows: Vec<Value> = log
                .iter()
                .map(|&(i, item, at, click)| {
                    row(dims, i, item, at, click, propensities[i], full.as_ref().map(|f| &f[..]))
                })
                .collect();
            let read = obd(&client, &format!("hash_dims={dims}"), &file(&lines)).expect(201);
            let written = ndjson(&client, "outcome=reward&n_actions=3", &rows).expect(201);
            assert_eq!(read["digest"], written["digest"], "{propensities:?} {dims}");
            assert_eq!(read["capabilities"], written["capabilities"]);
            assert_eq!((&read["n_actions"], &read["dim"]), (&json!(3), &json!(dims + 3)));
            assert_eq!(read["capabilities"]["full_propensities"], full.is_some());
            assert_eq!(read["outcome"], json!({"kind": "reward", "min": 0.0, "max": 1.0}));
        }
    }
}

#[test]
fn files_may_be_written_in_several_ways() {
    let server = Server::start();
    let client = server.client();
    let lines: Vec<String> = (0..6).map(|i| line(i, i % 3, 1 + i % 3, 0, "0.3333333333333333")).collect();
    let usual = obd(&client, "", &file(&lines)).expect(201);
    // A byte order mark, CRLF, quotes around everything, and no line break at the end.
    let written = file(&lines);
    let quote =
        |line: &str| line.split(',').map(|field| format!("\"{field}\"")).collect::<Vec<_>>().join(",");
    let quoted = written.lines().map(quote);
    let other = format!("\u{feff}{}", quoted.collect::<Vec<_>>().join("\r\n"));
    assert_eq!(obd(&client, "", &other).expect(201)["digest"], usual["digest"]);
    // Without affinities K is taken from the items, unless n_actions sets it.
    let without = |text: String| {
        let cut = text.lines().map(|line| line.rsplitn(4, ',').last().unwrap().to_owned());
        cut.collect::<Vec<_>>().join("\n")
    };
    let bare = without(file(&lines));
    assert_eq!(obd(&client, "", &bare).expect(201)["digest"], usual["digest"]);
    let more = obd(&client, "n_actions=5", &bare).expect(201);
    assert_eq!((&more["n_actions"], &more["capabilities"]["full_propensities"]), (&json!(5), &json!(false)));
    // Clicks as costs.
    let cost =
        obd(&client, "outcome=cost", &file(&[line(0, 0, 1, 1, "0.5"), line(1, 1, 1, 0, "0.5")])).expect(201);
    assert_eq!(cost["outcome"]["kind"], "cost");
    upload(&client, "format=obd", "application/json", &file(&lines)).problem(415, "unsupported_media_type");
}

#[test]
fn an_append_is_read_like_the_earlier_rows() {
    let server = Server::start();
    let client = server.client();
    let lines = |from: usize, propensity: &str| -> String {
        file(&(from..from + 6).map(|i| line(i, i % 3, 1 + i % 3, 0, propensity)).collect::<Vec<_>>())
    };
    let append = |dataset: &Value, body: &str| {
        let path = format!("/v1/datasets/{}/rows?format=obd", id_of(dataset));
        client.send("POST", &path, &[("content-type", "text/csv")], Some(body.as_bytes()))
    };
    let uniform = obd(&client, "hash_dims=7", &lines(0, "0.3333333333333333")).expect(201);
    let longer = append(&uniform, &lines(6, "0.3333333333333333")).expect(201);
    assert_eq!((&longer["rows"], &longer["dim"]), (&json!(12), &json!(10)));
    let answer = append(&uniform, &lines(12, "0.25"));
    answer.problem(422, "invalid_rows");
    assert_eq!(answer.json["errors"][0]["field"], "propensity_score");
    // Rows that happen to be uniform do not make the log uniform.
    let other = obd(&client, "", &lines(0, "0.25")).expect(201);
    let longer = append(&other, &lines(6, "0.3333333333333333")).expect(201);
    assert_eq!(longer["capabilities"]["full_propensities"], false);
}

#[test]
fn what_is_not_a_row_is_rejected_by_name() {
    let server = Server::start();
    let client = server.client();
    let good = line(0, 1, 1, 0, "0.5");
    let with = |at: usize, value: &str| {
        let mut fields: Vec<&str> = good.split(',').collect();
        fields[at] = value;
        fields.join(",")
    };
    let cases = [
        (with(2, "3"), "item_id", "3 is not in [0, 3)"),
        (with(2, "-1"), "item_id", "-1 is not in [0, 3)"),
        (with(2, "1.5"), "item_id", "\"1.5\" is not an integer"),
        (with(3, "4"), "position", "\"4\" is not 1, 2 or 3"),
        (with(3, ""), "position", "\"\" is not 1, 2 or 3"),
        (with(4, "2"), "click", "2 is not in [0, 1]"),
        (with(4, "yes"), "click", "\"yes\" is not a number"),
        (with(4, "NaN"), "click", "NaN is not in [0, 1]"),
        (with(5, "0"), "propensity_score", "0 is not in (0, 1]"),
        (with(5, "1.5"), "propensity_score", "1.5 is not in (0, 1]"),
        (with(5, "nan"), "propensity_score", "NaN is not in (0, 1]"),
        (with(5, ""), "propensity_score", "\"\" is not a number"),
        (good.clone() + ",7", "row", "has 12 fields, but the header has 11"),
        ("1,2".into(), "row", "has 2 fields"),
    ];
    for (line, field, words) in cases {
        rejected_row(&obd(&client, "", &file(&[good.clone(), line, good.clone()])), 3, field, words);
    }
    let bytes = [file(std::slice::from_ref(&good)).as_bytes(), b"1,2,\xff\n"].concat();
    let answer =
        client.send("POST", "/v1/datasets?format=obd", &[("content-type", "text/csv")], Some(&bytes));
    rejected_row(&answer, 3, "row", "is not UTF-8");
    let headers = [
        ("", "there is no header"),
        ("item_id,position,click\n1,1,0\n", "the column propensity_score is missing"),
        ("x0,action,reward\n1,1,0\n", "unknown column \"x0\""),
        ("item_id,item_id\n1,1\n", "duplicate column \"item_id\""),
    ];
    for (text, words) in headers {
        let answer = obd(&client, "", text);
        answer.problem(422, "invalid_file");
        assert!(answer.json["detail"].as_str().unwrap().contains(words), "{words}: {}", answer.text);
    }
    obd(&client, "", &format!("{HEADER}\n")).problem(422, "invalid_file");
    nothing_is_stored(&client);
}
