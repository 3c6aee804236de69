//! Uploads that are wrong around their rows, or after many valid ones, through the real server: each gets its
//! exact status and code, names its row and field if it has one, and leaves the store unchanged. What can be
//! wrong with the rows themselves is tested in `crates/ingest/tests`.

use crate::common;
use crate::logs;

mod around;
mod late;

use common::{Client, Server, id_of};
use logs::NDJSON;
use serde_json::Value;

/// An upload that must be rejected.
pub struct Case {
    name: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    status: u16,
    code: &'static str,
    /// The row and the field that the first error must name.
    at: Option<(Option<u64>, &'static str)>,
}

pub fn case(name: &str, kind: &str, body: impl Into<Vec<u8>>, status: u16, code: &'static str) -> Case {
    let headers = match kind {
        "" => vec![],
        kind => vec![("content-type".into(), kind.into())],
    };
    let path = "/v1/datasets".into();
    Case { name: name.into(), path, headers, body: body.into(), status, code, at: None }
}

/// Rows are rejected; the first of them is named.
pub fn bad_row(kind: &str, name: &str, body: impl Into<Vec<u8>>, row: u64, field: &'static str) -> Case {
    let case = case(name, kind, body, 422, "invalid_rows");
    Case { at: Some((Some(row), field)), ..case }
}

/// The file as a whole is rejected.
pub fn bad_file(kind: &str, name: &str, body: impl Into<Vec<u8>>) -> Case {
    case(name, kind, body, 422, "invalid_file")
}

impl Case {
    fn path(mut self, path: impl Into<String>) -> Case {
        self.path = path.into();
        self
    }

    fn header(mut self, name: &str, value: impl Into<String>) -> Case {
        self.headers.push((name.into(), value.into()));
        self
    }

    fn field(mut self, field: &'static str) -> Case {
        self.at = Some((None, field));
        self
    }

    /// What is wrong with the response, if anything.
    fn check(&self, client: &Client) -> Result<(), String> {
        let headers: Vec<(&str, &str)> = self.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let answer = client.send("POST", &self.path, &headers, Some(&self.body));
        let code = answer.json["code"].as_str().unwrap_or("");
        if (answer.status, code) != (self.status, self.code) {
            return Err(format!("wanted {} {}, got {}", self.status, self.code, answer.text));
        }
        answer.problem(self.status, self.code);
        let first = &answer.json["errors"][0];
        match self.at {
            Some((row, field)) if first["row"].as_u64() != row || first["field"] != field => {
                Err(format!("wanted row {row:?} and field {field}, got {}", answer.text))
            }
            _ => Ok(()),
        }
    }
}

/// The list, the files and the folders.
fn contents(server: &Server, client: &Client) -> (Value, Vec<(String, u64)>, Vec<std::path::PathBuf>) {
    let list = client.get("/v1/datasets?limit=100").expect(200);
    let blobs = server.data.path().join("blobs");
    (list, common::files(&blobs), common::folders(&blobs))
}

#[test]
fn whatever_is_wrong_is_rejected_and_leaves_nothing() {
    let server = Server::start_with(&[("GUARANTOR_MAX_JSON_BYTES", "100000")]);
    let client = server.client();
    let rows = logs::rows(6, true);
    let kind = [("content-type", NDJSON)];
    let stored =
        client.send("POST", "/v1/datasets?repetitions=designed", &kind, Some(&logs::written(NDJSON, &rows)));
    let dataset = id_of(&stored.expect(201));
    let before = contents(&server, &client);
    let cases: Vec<Case> = [
        around::codings(),
        around::digests(),
        around::types_and_options(),
        around::forms(),
        around::appends(&dataset),
        late::cases(),
    ]
    .into_iter()
    .flatten()
    .collect();
    assert!(cases.len() >= 120, "{}", cases.len());
    check_all(&client, &cases);
    common::eventually(|| contents(&server, &client), &before);
}

#[test]
fn what_is_too_large_is_rejected_and_leaves_nothing() {
    let limits = [("GUARANTOR_MAX_UPLOAD_BYTES", "2000"), ("GUARANTOR_MAX_DECODED_BYTES", "3000")];
    let server = Server::start_with(&limits);
    let client = server.client();
    // The limit applies to the data: the rest of a form does not count.
    let (kind, body) = around::form_of(2000);
    client.send("POST", "/v1/datasets", &[("content-type", &kind)], Some(&body)).expect(201);
    let before = contents(&server, &client);
    check_all(&client, &around::too_large());
    common::eventually(|| contents(&server, &client), &before);
}

fn check_all(client: &Client, cases: &[Case]) {
    let mut wrong = Vec::new();
    for case in cases {
        if let Err(what) = case.check(client) {
            wrong.push(format!("{}: {what}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
