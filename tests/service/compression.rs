//! Compression of responses: what is compressed, and that nothing changes for clients that ask for it.

use std::io::Read;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::common::Server;

/// The head and the raw bytes of a response.
fn curl(directory: &Path, url: &str, headers: &[&str]) -> (String, Vec<u8>) {
    let (head, body) = (directory.join("head"), directory.join("body"));
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "60", "-D"]).arg(&head).arg("-o").arg(&body);
    headers.iter().for_each(|header| {
        command.args(["-H", header]);
    });
    assert!(command.arg(url).status().unwrap().success(), "{url}");
    let head = std::fs::read_to_string(&head).unwrap().to_lowercase();
    (head, std::fs::read(&body).unwrap_or_default())
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
    plain
}

#[test]
fn large_json_is_compressed_and_decodes_to_the_same_bytes() {
    let server = Server::start();
    let (client, directory) = (server.client(), tempfile::tempdir().unwrap());
    let job =
        client.submit(json!({"dataset_id": client.dataset(500), "metadata": {"notes": "n".repeat(9000)}}));
    client.finish(&job);
    let certificate = format!("/v1/jobs/{job}/certificate");
    for path in [format!("/v1/jobs/{job}"), certificate.clone(), "/openapi.json".to_owned()] {
        let url = format!("{}{path}", server.base);
        let (head, plain) = curl(directory.path(), &url, &[]);
        assert!(!head.contains("content-encoding"), "{head}");
        let (head, bytes) = curl(directory.path(), &url, &["accept-encoding: gzip"]);
        if plain.len() < 8 << 10 {
            assert!(path == certificate && bytes == plain, "{path} has {} bytes", plain.len());
            continue;
        }
        assert!(head.contains("content-encoding: gzip") && head.contains("vary: accept-encoding"), "{head}");
        assert!(bytes.len() < plain.len());
        assert_eq!(gunzip(&bytes), plain, "{path}");
        let Some(tag) = head.lines().find_map(|line| line.strip_prefix("etag: ")) else { continue };
        assert!(tag.starts_with("w/"), "{tag}");
        let tag = format!("if-none-match: W{}", &tag[1..]);
        let (head, _) = curl(directory.path(), &url, &["accept-encoding: gzip", &tag]);
        assert!(head.starts_with("http/1.1 304"), "{head}");
    }
}

#[test]
fn small_responses_and_event_streams_are_not_compressed() {
    let server = Server::start();
    let (client, directory) = (server.client(), tempfile::tempdir().unwrap());
    let job = client.submit(json!({"dataset_id": client.dataset(500)}));
    client.finish(&job);
    let accept = "accept-encoding: gzip, deflate, br";
    let (head, _) = curl(directory.path(), &format!("{}/v1/jobs/{job}", server.base), &[accept]);
    assert!(!head.contains("content-encoding") && head.contains("content-length"), "{head}");
    let url = format!("{}/v1/jobs/{job}/events", server.base);
    let (head, stream) = curl(directory.path(), &url, &[accept, "accept: text/event-stream"]);
    assert!(!head.contains("content-encoding"), "{head}");
    assert!(String::from_utf8(stream).unwrap().contains("event: succeeded"));
}
