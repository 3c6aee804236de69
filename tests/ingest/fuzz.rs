//! Mutations of a committed corpus (`tests/corpus`) for every parser that a request can reach, through the real
//! server: it never answers with a 5xx or with anything but a success or a problem, and it never dies. Proptest
//! generates the mutations, so this runs on the stable toolchain and failures shrink. The number of inputs is
//! fixed; set PROPTEST_CASES=100000 for a long run with new ones.

use crate::common;

use std::path::Path;

use common::{Answer, Client, Server, id_of, two_rows};
use proptest::prelude::*;
use serde_json::json;

/// A parser: the directory of its inputs, and how they are sent.
struct Target {
    corpus: &'static str,
    path: String,
    headers: Vec<(&'static str, &'static str)>,
    /// The status of a valid input.
    success: u16,
}

fn targets(policy: &str, dataset: &str) -> Vec<Target> {
    let target = |corpus, path: &str, headers: &[(&'static str, &'static str)], success| Target {
        corpus,
        path: path.into(),
        headers: headers.to_vec(),
        success,
    };
    let upload = |corpus, kind| target(corpus, "/v1/datasets?outcome=cost", &[("content-type", kind)], 201);
    let coded = |coding| {
        target(coding, "/v1/datasets", &[("content-type", "text/csv"), ("content-encoding", coding)], 201)
    };
    let json = [("content-type", "application/json")];
    vec![
        upload("ndjson", "application/x-ndjson"),
        upload("csv", "text/csv"),
        upload("parquet", "application/vnd.apache.parquet"),
        upload("arrow_stream", "application/vnd.apache.arrow.stream"),
        coded("gzip"),
        coded("zstd"),
        // Later ones are rejected because the candidate is there already; their rows are read before.
        target(
            "candidates",
            &format!("/v1/datasets/{dataset}/candidates"),
            &[("content-type", "application/x-ndjson")],
            201,
        ),
        target(
            "outcomes",
            "/v1/datasets?outcomes=%7B%22a%22%3A%7B%22kind%22%3A%22reward%22%2C%22cap%22%3A2%7D%2C%22b%22%3A%7B%22kind%22%3A%22cost%22%7D%7D",
            &[("content-type", "application/x-ndjson")],
            201,
        ),
        target("dsjson", "/v1/datasets?format=dsjson", &[], 201),
        target("obd", "/v1/datasets?format=obd", &[], 201),
        target("form", "/v1/datasets", &[("content-type", "multipart/form-data; boundary=frontier")], 201),
        target("spec", "/v1/jobs", &json, 202),
        target("policy", "/v1/policies", &json, 201),
        target("contexts", &format!("/v1/policies/{policy}/propensities"), &json, 200),
        target("contexts", &format!("/v1/policies/{policy}/actions"), &json, 200),
        target("certificate", "/v1/certificates/verify", &json, 200),
    ]
}

/// A change to an input. Positions are shares of its length.
#[derive(Debug, Clone)]
enum Mutation {
    Flip(f64, u8),
    Number(f64, usize),
    Word(f64, usize),
    Insert(f64, Vec<u8>),
    Remove(f64, f64),
    Repeat(f64, f64),
    /// The beginning of another input of the same corpus.
    Splice(f64, f64, usize),
}

/// Lengths and offsets that readers get wrong, in four and in eight bytes.
const NUMBERS: [i64; 10] =
    [0, 1, -1, 0x7f, 0x80, 0xffff, i32::MAX as i64, u32::MAX as i64, i64::MAX, i64::MIN];

/// Texts that a parser does not expect.
const WORDS: [&str; 16] = [
    "null",
    "NaN",
    "1e309",
    "-0",
    "1e-400",
    "[]",
    "{}",
    "\"\"",
    "\\u0000",
    "\u{feff}",
    ",",
    "\n",
    "\"",
    "9999999999999999999",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "\r\n--frontier",
];

fn mutation() -> impl Strategy<Value = Mutation> {
    let place = || 0.0f64..1.0;
    prop_oneof![
        4 => (place(), 1u8..).prop_map(|(at, by)| Mutation::Flip(at, by)),
        3 => (place(), 0..2 * NUMBERS.len()).prop_map(|(at, n)| Mutation::Number(at, n)),
        3 => (place(), 0..WORDS.len()).prop_map(|(at, n)| Mutation::Word(at, n)),
        1 => (place(), prop::collection::vec(any::<u8>(), 1..20)).prop_map(|(at, b)| Mutation::Insert(at, b)),
        2 => (place(), 0.0f64..0.2).prop_map(|(at, n)| Mutation::Remove(at, n)),
        1 => (place(), 0.0f64..0.2).prop_map(|(at, n)| Mutation::Repeat(at, n)),
        1 => (place(), place(), any::<usize>()).prop_map(|(at, n, other)| Mutation::Splice(at, n, other)),
    ]
}

fn mutated(seeds: &[Vec<u8>], which: usize, mutations: &[Mutation]) -> Vec<u8> {
    let mut bytes = seeds[which % seeds.len()].clone();
    for mutation in mutations {
        let n = bytes.len();
        let at = |share: f64| (share * n as f64) as usize;
        let range = |from: f64, share: f64| at(from)..(at(from) + at(share)).min(n);
        match mutation {
            Mutation::Flip(share, by) => bytes.iter_mut().skip(at(*share)).take(1).for_each(|b| *b ^= by),
            Mutation::Number(share, number) => {
                let width = [4, 8][number % 2];
                let number = NUMBERS[number / 2].to_le_bytes();
                bytes.iter_mut().skip(at(*share)).zip(&number[..width]).for_each(|(to, from)| *to = *from);
            }
            Mutation::Word(share, word) => drop(bytes.splice(range(*share, 0.01), WORDS[*word].bytes())),
            Mutation::Insert(share, more) => drop(bytes.splice(at(*share)..at(*share), more.iter().copied())),
            Mutation::Remove(from, share) => drop(bytes.drain(range(*from, *share))),
            Mutation::Repeat(from, share) => {
                let again = bytes[range(*from, *share)].to_vec();
                bytes.splice(at(*from)..at(*from), again);
            }
            Mutation::Splice(share, other_share, other) => {
                let other = &seeds[other % seeds.len()];
                bytes.truncate(at(*share));
                bytes.extend(&other[..(other_share * other.len() as f64) as usize]);
            }
        }
    }
    bytes
}

fn send(client: &Client, target: &Target, body: &[u8]) -> Answer {
    client.send("POST", &target.path, &target.headers, Some(body))
}

/// Whether the request was accepted, or rejected with a problem.
fn answered(answer: &Answer, target: &Target) -> bool {
    answer.status == target.success
        || (matches!(answer.status, 400..=429)
            && answer.json["code"].is_string()
            && answer.header("content-type") == Some("application/problem+json"))
}

#[test]
fn mutated_inputs_are_answered() {
    // Files on which a decoder panics are rejected; their traces are of no use here.
    let server = Server::start_with(&[("GUARANTOR_LOG_FILTER", "off"), ("RUST_BACKTRACE", "0")]);
    let client = server.client();
    let dataset = id_of(&client.upload("", two_rows()).expect(201));
    let extended = id_of(&client.upload("?n_actions=2", &two_rows().replace("0.7]", "0.8]")).expect(201));
    let policy = json!({"kind": "uniform", "n_actions": 2, "dim": 2});
    let policy = id_of(&client.post("/v1/policies", &policy).expect(201));
    let job = client.submit(json!({"dataset_id": dataset, "independent_of_log": true,
        "candidates": [{"kind": "policy", "policy_id": policy}]}));
    assert_eq!(client.finish(&job)["status"], "succeeded");
    let certificate = client.get(&format!("/v1/jobs/{job}/certificate"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut corpora = Vec::new();
    for target in targets(&policy, &extended) {
        let mut seeds = Vec::new();
        for (path, _) in common::files(&root.join(target.corpus)) {
            let mut bytes = std::fs::read(&path).unwrap();
            if target.corpus == "spec" {
                let text = String::from_utf8(bytes).unwrap();
                bytes = text.replace("DATASET", &dataset).replace("POLICY", &policy).into_bytes();
            }
            let answer = send(&client, &target, &bytes);
            let name = Path::new(&path).file_name().unwrap().to_str().unwrap().to_owned();
            assert!(answered(&answer, &target), "{path}: {}", answer.text);
            assert!(!name.starts_with("ok_") || answer.status == target.success, "{path}: {}", answer.text);
            assert!(!name.starts_with("bad_") || answer.status >= 400, "{path}: {}", answer.text);
            seeds.push(bytes);
        }
        if target.corpus == "certificate" {
            seeds.push(certificate.text.clone().into_bytes());
        }
        assert!(!seeds.is_empty(), "{} has no corpus", target.corpus);
        corpora.push((target, seeds));
    }
    let mutations = prop::collection::vec(mutation(), 1..5);
    proptest!(common::generated(3000), |(target in 0..corpora.len(), which: usize, mutations in mutations)| {
        let (target, seeds) = &corpora[target];
        let body = mutated(seeds, which, &mutations);
        let answer = send(&client, target, &body);
        prop_assert!(answered(&answer, target), "{}: {} {}\n{:?}", target.corpus, answer.status, answer.text,
            String::from_utf8_lossy(&body));
    });
    assert_eq!(client.get("/readyz").status, 200);
}

/// Headers and query parameters that are parsed by hand.
#[test]
fn any_header_and_cursor_is_answered() {
    let server = Server::start_with(&[("GUARANTOR_LOG_FILTER", "off")]);
    let client = server.client();
    let names = prop::sample::select(vec![
        "content-type",
        "content-encoding",
        "content-digest",
        "idempotency-key",
        "if-none-match",
        "x-request-id",
        "authorization",
    ]);
    let digest = "(sha-256|sha-512|md5|[a-z*.-]{0,6})=:?[A-Za-z0-9+/=]{0,50}:?(;[a-z]=1)?(, ?)?";
    let kind = "(text/csv|application/x-ndjson|multipart/form-data|[a-z/]{0,9})(; ?(charset|boundary)=\"?[a-z0-9-]{0,9}\"?)?";
    let values = prop_oneof!["[ -~]{0,60}", digest, kind, "(gzip|zstd|br|identity|,| |;q=0)*"];
    proptest!(common::generated(600), |(name in names, value in values, cursor in "[ -~]{0,40}")| {
        let kind = ("content-type", "application/x-ndjson");
        let headers = if name == "content-type" { vec![(name, value.trim())] } else { vec![kind, (name, value.trim())] };
        let answer = client.send("POST", "/v1/datasets", &headers, Some(two_rows().as_bytes()));
        prop_assert!(answer.status < 500, "{name}: {value:?}: {}", answer.text);
        let query = form_urlencoded::byte_serialize(cursor.as_bytes()).collect::<String>();
        let answer = client.get(&format!("/v1/datasets?after={query}"));
        prop_assert!(answer.status < 500, "{cursor:?}: {}", answer.text);
    });
    assert_eq!(client.get("/readyz").status, 200);
}
