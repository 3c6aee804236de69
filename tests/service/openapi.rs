//! The committed OpenAPI document matches the handlers.

use crate::common;

use serde_json::Value;

const COMMITTED: &str = "openapi/openapi.json";

#[test]
fn the_committed_document_is_current() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(COMMITTED);
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let generated = guarantor::http::document();
    assert!(committed == generated, "run `make openapi` and commit {COMMITTED}");
}

#[test]
fn it_is_openapi_3_1_and_every_operation_documents_its_errors() {
    let document: Value = serde_json::from_str(&guarantor::http::document()).unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"), "{}", document["openapi"]);
    let mut operations = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            operations += 1;
            let responses = operation["responses"].as_object().unwrap();
            let good = responses.keys().any(|status| status.starts_with('2'));
            assert!(good && responses.contains_key("500"), "{method} {path}");
            assert!(operation["operationId"].is_string(), "{method} {path}");
            if path.starts_with("/v1/gate/") {
                // A token in the path stands for a key.
                assert!(operation["security"].is_null() && responses.contains_key("404"), "{method} {path}");
            } else if path.starts_with("/v1/") {
                assert!(responses.contains_key("401") && operation["security"].is_array(), "{method} {path}");
            }
        }
    }
    assert!(operations >= 22, "{operations}");
}

/// Files that are not text are bytes, and not arrays of numbers.
#[test]
fn binary_bodies_are_binary_strings() {
    let document: Value = serde_json::from_str(&guarantor::http::document()).unwrap();
    let mut found = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let content = &item["post"]["requestBody"]["content"];
        for (kind, body) in content.as_object().into_iter().flatten() {
            let schema = &body["schema"];
            if kind.starts_with("application/vnd.apache.") {
                found += 1;
                assert_eq!(
                    (&schema["type"], &schema["format"]),
                    (&"string".into(), &"binary".into()),
                    "{path} {kind}"
                );
            }
            assert_ne!(schema["type"], "array", "{path} {kind}");
        }
    }
    assert_eq!(found, 6, "Parquet and Arrow, in uploads, appends and candidates");
    let data = &document["components"]["schemas"]["UploadForm"]["properties"]["data"];
    assert_eq!((&data["type"], &data["format"]), (&"string".into(), &"binary".into()));
}

#[test]
fn the_document_and_its_page_are_served_from_the_binary() {
    let server = common::Server::start();
    let client = server.client();
    let served = client.get("/openapi.json");
    assert_eq!(served.status, 200);
    assert_eq!(served.json, serde_json::from_str::<Value>(&guarantor::http::document()).unwrap());
    let page = client.get("/docs/");
    assert_eq!(page.status, 200);
    assert!(page.text.contains("swagger-ui"), "{}", page.text);
    assert!(!page.text.contains("https://"), "the page loads from another server: {}", page.text);
    assert_eq!(client.get("/docs/swagger-ui-bundle.js").status, 200);
}

/// As in `guarantor openapi | head`: the reader closes the pipe before the end of the document.
#[test]
fn a_closed_pipe_is_not_a_failure() {
    use std::process::{Command, Stdio};
    let mut command = Command::new(common::BINARY);
    command.arg("openapi").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The document is larger than the buffer of a pipe, so it cannot have been written completely.
    assert!(guarantor::http::document().len() > 1 << 16);
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
