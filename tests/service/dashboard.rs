//! The dashboard's files: content types, tags, compression, headers, and which paths are its own.

use crate::common::{Answer, Server};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; frame-ancestors 'none'";

/// The path of a file that the page names.
fn named(page: &Answer, name: &str) -> String {
    let found = page.text.split('"').find(|text| text.starts_with("/ui/") && text.ends_with(name));
    found.unwrap_or_else(|| panic!("{name} is not named: {}", page.text)).to_owned()
}

#[test]
fn pages_and_files_are_typed_tagged_compressed_and_restricted() {
    let server = Server::start();
    let client = server.client();
    let page = client.get("/");
    let files = [
        ("/".to_owned(), "text/html; charset=utf-8", "no-cache"),
        (
            named(&page, "/dashboard.js"),
            "text/javascript; charset=utf-8",
            "public, max-age=31536000, immutable",
        ),
        (named(&page, "dashboard.css"), "text/css; charset=utf-8", "public, max-age=31536000, immutable"),
        (named(&page, "icon.svg"), "image/svg+xml", "public, max-age=31536000, immutable"),
    ];
    for (path, kind, cache) in &files {
        let plain = client.send("GET", path, &[("accept-encoding", "identity")], None);
        assert_eq!(plain.status, 200, "{path}");
        assert_eq!(plain.header("content-type"), Some(*kind), "{path}");
        assert_eq!(plain.header("content-encoding"), None, "{path}");
        for (name, value) in [
            ("content-security-policy", POLICY),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("x-frame-options", "DENY"),
            ("vary", "accept-encoding"),
            ("cache-control", cache),
        ] {
            assert_eq!(plain.header(name), Some(value), "{path} {name}");
        }
        assert!(plain.header("x-request-id").is_some());
        let tag = plain.header("etag").unwrap().to_owned();
        let again =
            client.send("GET", path, &[("accept-encoding", "identity"), ("if-none-match", &tag)], None);
        assert_eq!((again.status, again.text.as_str()), (304, ""), "{path}");
        assert_eq!(again.header("etag"), Some(tag.as_str()), "{path}");
        // The compressed form has another tag, because it has other bytes.
        let zipped = client.send("HEAD", path, &[("accept-encoding", "gzip")], None);
        assert_eq!(zipped.status, 200, "{path}");
        if zipped.header("content-encoding") == Some("gzip") {
            assert_ne!(zipped.header("etag"), Some(tag.as_str()), "{path}");
        }
    }
    let script = client.send("HEAD", &files[1].0, &[("accept-encoding", "gzip")], None);
    assert_eq!(script.header("content-encoding"), Some("gzip"));
}

#[test]
fn pages_have_their_paths_and_everything_else_stays_a_problem() {
    let server = Server::start();
    let client = server.client();
    let page = client.get("/").text;
    let is_page = |text: &str| text.contains("<div id=\"app\"></div>");
    assert!(is_page(&page));
    for path in [
        "/upload",
        "/datasets",
        "/datasets/",
        "/datasets/x?tab=ledger",
        "/jobs/new",
        "/jobs/a/b",
        "/policies/x",
        "/gates/g",
    ] {
        let answer = client.get(path);
        assert_eq!((answer.status, is_page(&answer.text)), (200, true), "{path}");
    }
    let version = page.split("/ui/").nth(1).unwrap().split('/').next().unwrap();
    let inside = ["README.md", "vendor/preact/LICENSE", "../Cargo.toml", "%2e%2e/Cargo.toml", "nothing.js"];
    let inside = inside.map(|file| format!("/ui/{version}/{file}"));
    let outside =
        ["/ui", "/ui/0/app.js", "/index.html", "/app.js", "/dataset", "/v1", "/v1/x", "/favicon.ico"];
    for path in outside.iter().map(|path| path.to_string()).chain(inside) {
        client.get(&path).problem(404, "no_such_route");
    }
    client.send("POST", "/", &[], Some(b"")).problem(405, "method_not_allowed");
    for path in ["/docs/", "/healthz", "/metrics", "/v1/jobs"] {
        let answer = client.get(path);
        assert!(answer.status == 200 && !is_page(&answer.text), "{path}");
    }
}

#[test]
fn files_need_no_key_and_data_does() {
    let mut server = Server::start();
    server.create_key("default");
    server.kill();
    server.restart();
    let client = server.client();
    let page = client.get("/jobs/new");
    assert_eq!(page.status, 200);
    assert_eq!(client.get(&named(&page, "/dashboard.js")).status, 200);
    client.get("/v1/jobs").problem(401, "unauthorized");
}

#[test]
fn it_can_be_switched_off() {
    let server = Server::start_with(&[("GUARANTOR_DASHBOARD", "false")]);
    for path in ["/", "/jobs", "/datasets/x"] {
        server.client().get(path).problem(404, "no_such_route");
    }
    assert_eq!(server.client().get("/docs/").status, 200);
}

#[test]
fn versions_of_a_dataset_are_listed_newest_first_in_pages() {
    let server = Server::start();
    let client = server.client();
    let id = client.dataset(50);
    for seed in 2..4 {
        let kind = [("content-type", "application/x-ndjson")];
        let rows = crate::common::log_of(seed, 10);
        client.send("POST", &format!("/v1/datasets/{id}/rows"), &kind, Some(rows.as_bytes())).expect(201);
    }
    let path = format!("/v1/datasets/{id}/versions");
    let first = client.get(&format!("{path}?limit=2")).expect(200);
    let of = |page: &serde_json::Value| -> Vec<(u64, u64)> {
        let all = page["data"].as_array().unwrap().iter();
        all.map(|each| (each["version"].as_u64().unwrap(), each["rows"].as_u64().unwrap())).collect()
    };
    assert_eq!(of(&first), [(3, 70), (2, 60)]);
    assert_eq!(first["has_more"], true);
    let rest = client.get(&format!("{path}?after={}", first["next"].as_str().unwrap())).expect(200);
    assert_eq!((of(&rest), rest["has_more"].as_bool()), (vec![(1, 50)], Some(false)));
    assert_eq!(first["data"][0]["digest"], client.get(&format!("/v1/datasets/{id}")).expect(200)["digest"]);
    client.get(&format!("{path}?after=x")).problem(400, "invalid_cursor");
}
