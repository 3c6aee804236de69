//! Tokens: they ask one gate, and appear nowhere.

use std::fs;

use serde_json::json;

use super::{NOBODY, certify, closed, spec, unmet, upload};
use crate::common::{Server, id_of};

#[test]
fn a_token_asks_one_gate_without_a_header_until_it_is_revoked() {
    let server = Server::start();
    let keyless = server.client();
    let client = keyless.with_key(&server.create_key("one"));
    closed(&server);
    let dataset = upload(&client, 30, "");
    let job = certify(&client, spec(&dataset, &["best"], json!({})));
    client.post("/v1/gates", &json!({"name": "g", "dataset_id": dataset})).expect(201);
    client.post("/v1/gates", &json!({"name": "other", "selector": {"app": "none"}})).expect(201);
    keyless.get(&format!("/v1/jobs/{job}/gate")).problem(401, "unauthorized");
    keyless.post("/v1/gates/g/tokens", &json!({})).problem(401, "unauthorized");

    let created = client.post("/v1/gates/g/tokens", &json!({"name": "flagger"}));
    assert_eq!(created.header("cache-control"), Some("no-store"));
    let location = created.header("location").unwrap().to_owned();
    let created = created.expect(201);
    let (token, url) = (created["token"].as_str().unwrap(), created["url"].as_str().unwrap());
    assert!(token.starts_with("gt_") && token.len() == 67 && url == format!("/v1/gate/{token}"), "{created}");
    assert_eq!(location, format!("/v1/gates/g/tokens/{}", id_of(&created)));
    // The body is optional.
    let second = client.send("POST", "/v1/gates/other/tokens", &[], None).expect(201);

    let opened = client.get("/v1/gates/g").expect(200);
    assert_eq!(keyless.get(url).expect(200), opened);
    let payload = json!({"name": "recommender", "namespace": "prod", "phase": "Progressing", "metadata": {}});
    assert_eq!(keyless.post(url, &payload).expect(200), opened);
    assert_eq!(keyless.send("POST", url, &[], Some(b"anything")).expect(200), opened);
    assert_eq!(keyless.send("POST", url, &[], None).expect(200), opened);
    unmet(&keyless.get(&format!("{url}?min_confidence=0.99")), "min_confidence");
    keyless.send("POST", url, &[], Some(&vec![b'x'; 70_000])).problem(413, "body_too_large");
    keyless.get(second["url"].as_str().unwrap()).problem(409, "no_matching_job");
    // It opens nothing else.
    keyless.get("/v1/gates/g").problem(401, "unauthorized");
    keyless.with_key(token).get("/v1/gates/g").problem(401, "unauthorized");

    let listed = client.get("/v1/gates/g/tokens").expect(200);
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    assert_eq!((&listed["data"][0]["id"], &listed["data"][0]["name"]), (&created["id"], &json!("flagger")));
    assert!(!listed.to_string().contains(token), "{listed}");
    for unknown in ["gt_", "x", "%ff", &token[..66], &format!("gt_{}", "0".repeat(64))] {
        keyless.get(&format!("/v1/gate/{unknown}")).problem(404, "not_found");
    }
    client.delete(&format!("/v1/gates/g/tokens/{NOBODY}")).problem(404, "not_found");
    client.delete("/v1/gates/g/tokens/x").problem(404, "not_found");
    client.delete(&format!("/v1/gates/other/tokens/{}", id_of(&created))).problem(404, "not_found");
    client.post("/v1/gates/g/tokens", &json!({"name": "n".repeat(201)})).problem(422, "invalid_value");
    client.post("/v1/gates/g/tokens", &json!({"token": "mine"})).problem(422, "unknown_field");
    assert_eq!(client.delete(&location).status, 204);
    for method in ["GET", "POST"] {
        keyless.send(method, url, &[], None).problem(404, "not_found");
    }
    assert_eq!(client.delete("/v1/gates/other").status, 204);
    keyless.get(second["url"].as_str().unwrap()).problem(404, "not_found");
    keyless.delete(url).problem(405, "method_not_allowed");
}

#[test]
fn tokens_are_in_no_log_metric_or_problem() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let settings = [("GUARANTOR_LOG_FORMAT", "json"), ("GUARANTOR_LOG_FILTER", "debug")];
    let server = Server::start_logging(&settings, file.path());
    let client = server.client();
    client.post("/v1/gates", &json!({"name": "g", "selector": {"app": "x"}})).expect(201);
    let created = client.post("/v1/gates/g/tokens", &json!({"name": "ci"})).expect(201);
    let token = created["token"].as_str().unwrap();
    let digits = &token[3..];
    let mut bodies = Vec::new();
    for path in [
        format!("/v1/gate/{token}"),
        format!("/v1/gate/{token}?min_confidence=nan"),
        format!("/v1/gate/{token}?colour={token}"),
        format!("/v1/gate/{token}/"),
        format!("/v1/gate/{token}/tokens"),
        format!("/v1/gate/%67{}", &token[1..]),
        format!("//v1/gate/{token}"),
        format!("/gate/{token}"),
        format!("/v1/gates/{token}"),
        format!("/v1/gates/g/tokens/{token}"),
        format!("/v1/jobs/{token}/gate"),
    ] {
        for method in ["GET", "POST", "DELETE", "PUT"] {
            let answer = client.send(method, &path, &[("content-type", "application/json")], Some(b"{}"));
            assert!(answer.status >= 400, "{method} {path}: {}", answer.text);
            bodies.push(answer.text);
        }
    }
    assert_eq!(client.delete(&format!("/v1/gates/g/tokens/{}", id_of(&created))).status, 204);
    let metrics = client.get("/metrics").text;
    assert!(metrics.contains("route=\"/v1/gate/{token}\""), "{metrics}");
    let log = fs::read_to_string(file.path()).unwrap();
    for line in ["gate created", "gate token created", "gate stayed closed", "gate token revoked", "answered"]
    {
        assert!(log.contains(line), "{line} is not in the log:\n{log}");
    }
    assert!(log.contains("\"path\":\"/v1/gate/{token}\""), "{log}");
    for (what, text) in [("the log", &log), ("the metrics", &metrics), ("a problem", &bodies.join("\n"))] {
        assert!(!text.contains(digits) && !text.contains(&digits[..16]), "the token is in {what}:\n{text}");
    }
}

/// Whoever has no valid token is answered before the body has arrived, so nobody can hold connections with bodies that
/// never end.
#[test]
fn a_request_without_a_valid_token_is_answered_before_its_body() {
    use std::io::{Read, Write};
    let server = Server::start();
    let address = server.base.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    write!(stream, "POST /v1/gate/x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{{").unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 404");
}
