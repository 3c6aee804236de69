//! NDJSON and CSV.

use super::logs::{CSV, NDJSON};
use super::{Case, Rejection, bad_file, bad_row, case};

const GOOD: &str = r#"{"x":[1,2],"action":1,"propensity":0.5,"cost":-1,"event_id":"a","context_id":"c"}"#;

/// A file whose third line is `line`, after one that is good and an empty one.
fn third(line: &str, field: &'static str) -> Case {
    let good = GOOD.replace("\"a\"", "\"b\"");
    bad_row(NDJSON, &format!("ndjson {}", shown(line)), format!("{GOOD}\n\n{line}\n{good}"), 3, field)
}

fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

/// GOOD with something in place of a member, and another event.
fn with(member: &str, other: &str) -> String {
    let good = GOOD.replace("\"a\"", "\"d\"");
    assert!(good.contains(member), "{member}");
    good.replace(member, other)
}

pub fn ndjson() -> Vec<Case> {
    let mut cases = vec![
        third("{", "row"),
        third("[1]", "row"),
        third("null", "row"),
        third("\"text\"", "row"),
        third(&format!("{} {{}}", with("[1,2]", "[1,2]")), "row"),
        third(&with("}", ",\"ip\":1}"), "ip"),
        third(&with("}", ",\"timestamp\":\"2024-01-01T00:00:00Z\"}"), "timestamp"),
        third(&with("}", ",\"timestamp\":\"2024-01-01\"}"), "timestamp"),
        third(&with("}", ",\"timestamp\":\"2024-13-01T00:00:00Z\"}"), "timestamp"),
        third(&with("}", ",\"timestamp\":1e300}"), "timestamp"),
        third(&with("}", ",\"timestamp\":{}}"), "timestamp"),
        third(&with("}", ",\"policy_version\":\"v1\"}"), "policy_version"),
        third(&with("}", ",\"candidate_propensities\":{\"n\":[0.5,0.5]}}"), "candidates"),
        third(&with("}", ",\"candidate_propensities\":[0.5,0.5]}"), "candidate_propensities"),
        third(&with("}", ",\"candidate_propensities\":{\"n\":0.5}}"), "candidate_propensities"),
        third(&with("}", ",\"cost\":-1}"), "cost"),
        third(&with("\"action\":1,", ""), "action"),
        third(&with("\"action\":1", "\"action\":null"), "action"),
        third(&with("\"action\":1", "\"action\":-1"), "action"),
        third(&with("\"action\":1", "\"action\":10000"), "action"),
        third(&with("\"action\":1", "\"action\":99999999999999999999"), "action"),
        third(&with("\"action\":1", "\"action\":1.5"), "action"),
        third(&with("\"action\":1", "\"action\":\"1\""), "action"),
        third(&with("\"action\":1", "\"action\":true"), "action"),
        third(&with("\"propensity\":0.5,", ""), "propensity"),
        third(&with("0.5", "0"), "propensity"),
        third(&with("0.5", "-0.25"), "propensity"),
        third(&with("0.5", "1.0000001"), "propensity"),
        third(&with("0.5", "NaN"), "propensity"),
        third(&with("0.5", "\"NaN\""), "propensity"),
        third(&with("0.5", "\"inf\""), "propensity"),
        third(&with("0.5", "[0.5]"), "propensity"),
        third(&with("0.5", "1e400"), "propensity"),
        third(&with("\"cost\":-1,", ""), "cost"),
        third(&with("\"cost\":-1", "\"cost\":0.5"), "cost"),
        third(&with("\"cost\":-1", "\"cost\":-1.5"), "cost"),
        third(&with("\"cost\":-1", "\"cost\":\"-Infinity\""), "cost"),
        third(&with("\"cost\":-1", "\"cost\":-1,\"reward\":1"), "reward"),
        third(&with("[1,2]", "[1]"), "x"),
        third(&with("[1,2]", "[1,2,3]"), "x"),
        third(&with("[1,2]", "[]"), "x"),
        third(&with("[1,2]", "[1,null]"), "x"),
        third(&with("[1,2]", "[1,\"2\"]"), "x"),
        third(&with("[1,2]", "[1,1e39]"), "x[1]"),
        third(&with("[1,2]", "[1,[2]]"), "x"),
        third(&with("[1,2]", "{\"0\":1}"), "x"),
        third(&with("[1,2]", &format!("[{}]", vec!["0.5"; 120_000].join(","))), "x"),
        third(&with("[1,2]", "[1,3]"), "x"),
        third(&with("\"d\"", "\"a\""), "event_id"),
        third(&with("\"d\"", "\"\""), "event_id"),
        third(&with("\"d\"", "1.5"), "event_id"),
        third(&with("\"d\"", &format!("\"{}\"", "e".repeat(1025))), "event_id"),
        third(&with(",\"context_id\":\"c\"", ""), "context_id"),
        third(&with("\"c\"", "[]"), "context_id"),
        third(&with("\"c\"", "\"c\",\"candidates\":{\"n\":0.5}"), "candidates"),
        third(&with("\"cost\":-1", "\"cost\":-1,\"propensities\":[0.5,0.5]"), "propensities"),
        third(&"[".repeat(300), "row"),
        // A line of 3 MB that is not a row, and one beyond the limit of 4 MiB.
        third(&"9".repeat(3_000_000), "row"),
        third(&"9".repeat((4 << 20) + 1), "row"),
        bad_row(NDJSON, "ndjson with a byte order mark", format!("\u{feff}{GOOD}\n"), 1, "row"),
        bad_row(
            NDJSON,
            "ndjson invalid UTF-8",
            [b"{\"context_id\":\"", &b"\xff\xfe"[..], b"\"}"].concat(),
            1,
            "context_id",
        ),
        bad_row(
            NDJSON,
            "ndjson UTF-16",
            GOOD.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>(),
            1,
            "row",
        ),
        bad_row(NDJSON, "ndjson of zero bytes", vec![0; 100], 1, "row"),
        bad_row(
            NDJSON,
            "ndjson with a duplicate candidate",
            GOOD.replace("\"c\"", "\"c\",\"candidates\":{\"n\":0.1,\"n\":0.9}"),
            1,
            "candidates",
        ),
        bad_file(NDJSON, "ndjson empty", ""),
        bad_file(NDJSON, "ndjson with only line breaks", "\n\r\n  \n"),
        case(
            NDJSON,
            "ndjson with only action 0",
            GOOD.replace("\"action\":1", "\"action\":0"),
            Rejection::Setting("n_actions"),
        ),
    ];
    let full = |p: &str| format!("{{\"action\":1,\"propensities\":{p},\"cost\":0}}\n");
    for (p, field) in [
        ("[0.5,0.25,0.24]", "propensities"),
        ("[0.5,0.75,-0.25]", "propensities[2]"),
        ("[1e999,0,0]", "propensities"),
        ("[0.5,0.5]", "propensities"),
        ("[0.5,0,0.5]", "propensities[1]"),
        ("[1.0]", "propensities"),
        ("[]", "propensities"),
        ("[0.5,null,0.5]", "propensities"),
        ("0.5", "propensities"),
    ] {
        let text = full("[0.25,0.5,0.25]") + &full(p);
        cases.push(bad_row(NDJSON, &format!("ndjson propensities {p}"), text, 2, field));
    }
    cases.push(bad_row(
        NDJSON,
        "ndjson propensities that disagree",
        "{\"action\":1,\"propensity\":0.4,\"propensities\":[0.5,0.5],\"cost\":0}\n",
        1,
        "propensity",
    ));
    cases.push(bad_row(
        NDJSON,
        "ndjson candidate beyond 1",
        "{\"action\":1,\"propensity\":0.4,\"cost\":0,\"candidates\":{\"new\":1.5}}\n",
        1,
        "candidates.new",
    ));
    cases
}

const HEADER: &str = "x0,x1,action,propensity,cost,event_id,context_id,candidate.new";

/// A header.
fn header(names: &str) -> Case {
    bad_file(CSV, &format!("csv header {names:?}"), format!("{names}\n1,2,1,0.5,-1,a,c,0.5\n"))
}

/// A file whose fourth line is `record`; the second is good and the third empty.
fn fourth(record: &str, field: &'static str) -> Case {
    let body = format!("{HEADER}\r\n1,2,1,0.5,-1,a,c,0.5\r\n\r\n{record}\r\n1,2,1,0.5,-1,b,c,0.5");
    bad_row(CSV, &format!("csv {record:?}"), body, 4, field)
}

pub fn csv() -> Vec<Case> {
    let bytes = |record: &[u8]| [format!("{HEADER}\n").as_bytes(), record].concat();
    let mut cases = vec![
        header("x0,x1,action,propensity,cost,event_id,context_id,ip"),
        header("x0,x1,action,propensity,cost,event_id,context_id,"),
        header("x0,x0,action,propensity,cost,event_id,context_id,candidate.new"),
        header("x0,x1,action,propensity,cost,action,context_id,candidate.new"),
        header("x0,x1,propensity,cost,event_id,context_id,candidate.new,candidate.old"),
        header("x0,x1,action,propensity,event_id,context_id,candidate.new,candidate.old"),
        header("x0,x2,action,propensity,cost,event_id,context_id,candidate.new"),
        header("x1,x2,action,propensity,cost,event_id,context_id,candidate.new"),
        header("p0,p2,action,propensity,cost,event_id,context_id,candidate.new"),
        header("x00,x1,action,propensity,cost,event_id,context_id,candidate.new"),
        header("x0,x99999999999999999999999,action,propensity,cost,event_id,context_id,candidate.new"),
        header("x0,x-1,action,propensity,cost,event_id,context_id,candidate.new"),
        header("x,x1,action,propensity,cost,event_id,context_id,candidate.new"),
        header("x0, x1,action,propensity,cost,event_id,context_id,candidate.new"),
        header("X0,x1,action,propensity,cost,event_id,context_id,candidate.new"),
        header("x0,x1,action,propensity,cost,event_id,context_id,candidate."),
        header("x0;x1;action;propensity;cost"),
        header("x0\tx1\taction\tpropensity\tcost"),
        header("0.1,0.2,1,0.5,-1,a,c,0.5"),
        header("x0,x1,\"action,propensity,cost"),
        header("x0,x1,act\"ion,propensity,cost"),
        bad_file(CSV, "csv empty", ""),
        bad_file(CSV, "csv with only line breaks", "\r\n\n"),
        bad_file(CSV, "csv header only", HEADER),
        bad_file(CSV, "csv with only a byte order mark", "\u{feff}"),
        bad_file(
            CSV,
            "csv header in UTF-16",
            HEADER.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>(),
        ),
        bad_file(
            CSV,
            "csv in UTF-16 with a byte order mark",
            [b"\xff\xfe".to_vec(), HEADER.encode_utf16().flat_map(u16::to_le_bytes).collect()].concat(),
        ),
        bad_file(CSV, "csv header is not UTF-8", b"x0,\xff,action,cost\n".to_vec()),
        bad_file(CSV, "csv with CR line breaks", format!("{HEADER}\r1,2,1,0.5,-1,a,c,0.5\r")),
        bad_row(CSV, "csv id is not UTF-8", bytes(b"1,2,1,0.5,-1,\xff,c,0.5\n"), 2, "event_id"),
        bad_row(CSV, "csv quote never closed", bytes(b"1,2,1,0.5,-1,\"a,c,0.5\n1,2,1\n"), 2, "row"),
        bad_row(
            CSV,
            "csv record of 33 MiB",
            bytes(format!("1,2,1,0.5,-1,{}\n", "e".repeat(33 << 20)).as_bytes()),
            2,
            "row",
        ),
        bad_row(CSV, "csv of zero bytes", bytes(&[0; 50]), 2, "row"),
        fourth("1,2,1,0.5,-1,d,c", "row"),
        fourth("1,2,1,0.5,-1,d,c,0.5,", "row"),
        fourth("1,2,1,0.5,-1,d\"d,c,0.5", "row"),
        fourth("1,2,1,0.5,-1,\"d\"d,c,0.5", "row"),
        fourth("1,,1,0.5,-1,d,c,0.5", "x[1]"),
        fourth(",,1,0.5,-1,d,c,0.5", "x"),
        fourth("1,3,1,0.5,-1,d,c,0.5", "x"),
        fourth("1,2,,0.5,-1,d,c,0.5", "action"),
        fourth("1,2,1.0,0.5,-1,d,c,0.5", "action"),
        fourth("1,2,one,0.5,-1,d,c,0.5", "action"),
        fourth("1,2,-1,0.5,-1,d,c,0.5", "action"),
        fourth("1,2,10000,0.5,-1,d,c,0.5", "action"),
        fourth("1,2,99999999999999999999,0.5,-1,d,c,0.5", "action"),
        fourth("1,2,1,,-1,d,c,0.5", "propensity"),
        fourth("1,2,1,0,-1,d,c,0.5", "propensity"),
        fourth("1,2,1,-0.5,-1,d,c,0.5", "propensity"),
        fourth("1,2,1,1.5,-1,d,c,0.5", "propensity"),
        fourth("1,2,1,0.5,,d,c,0.5", "cost"),
        fourth("1,2,1,0.5,0.5,d,c,0.5", "cost"),
        fourth("1,2,1,0.5,-1,a,c,0.5", "event_id"),
        fourth("1,2,1,0.5,-1,,c,0.5", "event_id"),
        fourth("1,2,1,0.5,-1,d,,0.5", "context_id"),
        fourth("1,2,1,0.5,-1,d,c,", "candidates"),
        fourth("1,2,1,0.5,-1,d,c,1.5", "candidates.new"),
        bad_row(
            CSV,
            "csv with a reward and a cost",
            "action,propensity,cost,reward\n1,0.5,0,1\n",
            2,
            "reward",
        ),
        bad_row(
            CSV,
            "csv propensities that do not sum to 1",
            "action,p0,p1,cost\n1,0.5,0.4,0\n",
            2,
            "propensities",
        ),
        bad_row(CSV, "csv negative probability", "action,p0,p1,cost\n1,-0.5,1.5,0\n", 2, "propensities[0]"),
        bad_row(CSV, "csv with a missing probability", "action,p0,p1,cost\n1,,1,0\n", 2, "propensities[0]"),
        bad_row(
            CSV,
            "csv propensities that disagree",
            "action,propensity,p0,p1,cost\n1,0.4,0.5,0.5,0\n",
            2,
            "propensity",
        ),
        bad_file(CSV, "ndjson in place of csv", "{\"action\":1}\n"),
    ];
    let numbers = [
        "NaN", "nan", "inf", "-inf", "Infinity", "0x1p3", "1_000", "\"1,5\"", " 1", "1 ", "1e", "e5", "--1",
        "1.2.3", ".", "+", "null", "None", "1f", "١",
    ];
    cases.extend(numbers.map(|text| fourth(&format!("1,{text},1,0.5,-1,d,c,0.5"), "x[1]")));
    cases.push(fourth("1,1e39,1,0.5,-1,d,c,0.5", "x[1]"));
    cases.push(fourth("1,1e999,1,0.5,-1,d,c,0.5", "x[1]"));
    cases
}
