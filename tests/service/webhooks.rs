//! Webhooks through the real server: what is sent, who may define them, and which addresses are refused.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::receiver::{Received, Receiver, Reply};
use crate::common::{Client, Server, eventually, id_of};

const NOBODY: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// A server that may deliver to these receivers.
fn server_for(receivers: &[&Receiver]) -> Server {
    let allow: Vec<String> =
        receivers.iter().map(|receiver| format!("http://{}/", receiver.address)).collect();
    Server::start_with(&[("GUARANTOR_WEBHOOK_ALLOW", &allow.join(","))])
}

fn create(client: &Client, body: Value) -> (String, String) {
    let created = client.post("/v1/webhooks", &body).expect(201);
    (id_of(&created), created["secret"].as_str().unwrap().to_owned())
}

fn put(client: &Client, path: &str, body: &Value) -> crate::common::Answer {
    client.send("PUT", path, &[("content-type", "application/json")], Some(body.to_string().as_bytes()))
}

fn deliveries(client: &Client, webhook: &str) -> Vec<Value> {
    let listed = client.get(&format!("/v1/webhooks/{webhook}/deliveries")).expect(200);
    listed["data"].as_array().unwrap().clone()
}

/// The snippet of the guide that verifies a delivery, run by Python.
fn verified_by_the_guide(received: &Received, secret: &str) -> bool {
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guide.md")).unwrap();
    let (_, rest) = guide.split_once("```python\nimport base64, hashlib, hmac, time\n").unwrap();
    let (snippet, _) = rest.split_once("```").unwrap();
    let program = format!(
        "import base64, hashlib, hmac, time\n{snippet}\nimport json, sys\n\
         given = json.load(sys.stdin)\n\
         print(verify(given['secret'], given['headers'], given['body'].encode()))\n"
    );
    let mut python = Command::new("python3")
        .args(["-c", &program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let given = json!({"secret": secret, "headers": received.headers, "body": received.body});
    python.stdin.take().unwrap().write_all(given.to_string().as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    match String::from_utf8(output.stdout).unwrap().trim() {
        "True" => true,
        "False" => false,
        other => panic!("the snippet printed {other:?}"),
    }
}

#[test]
fn the_end_of_a_job_is_delivered_as_a_signed_cloud_event() {
    let receiver = Receiver::start();
    let server = server_for(&[&receiver]);
    let client = server.client();
    let (webhook, secret) = create(&client, json!({"url": receiver.url(), "name": "chat"}));
    let dataset = client.dataset(400);
    let digest = client.get(&format!("/v1/datasets/{dataset}")).expect(200)["digest"].clone();
    let job =
        client.submit(json!({"dataset_id": dataset, "min_improvement": 0.99, "metadata": {"a": "private"}}));
    let done = client.finish(&job);
    let received = receiver.wait_for(1).remove(0);
    assert_eq!(received.path, "/hook");
    assert_eq!(received.header("content-type"), "application/cloudevents+json; charset=utf-8");
    assert!(received.header("user-agent").starts_with("guarantor/"));
    let event = received.json();
    assert_eq!((&event["specversion"], &event["type"]), (&json!("1.0"), &json!("job.succeeded")), "{event}");
    assert_eq!(event["id"], received.event_id());
    assert_eq!(
        (&event["source"], &event["datacontenttype"]),
        (&json!("urn:guarantor"), &json!("application/json"))
    );
    assert_eq!((&event["subject"], &event["time"]), (&json!(format!("jobs/{job}")), &done["finished_at"]));
    let data = &event["data"];
    assert_eq!((&data["decision"], &data["status"]), (&json!("keep"), &json!("succeeded")));
    assert_eq!(data["guaranteed_improvement"], done["result"]["guaranteed_improvement"]);
    assert_eq!((&data["dataset_id"], &data["dataset_digest"]), (&json!(dataset), &digest));
    assert_eq!(data["job_id"], job);
    for link in data["links"].as_object().unwrap().values() {
        assert_ne!(client.get(link.as_str().unwrap()).status, 404, "{link}");
    }
    assert!(received.body.len() < 2000 && !received.body.contains("private"), "{}", received.body);

    assert!(verified_by_the_guide(&received, &secret));
    let forged = Received { body: received.body.replace("keep", "deploy"), ..received.clone() };
    assert!(!verified_by_the_guide(&forged, &secret));
    let mut old = received.clone();
    let time: i64 = received.header("webhook-timestamp").parse().unwrap();
    old.headers.insert("webhook-timestamp".into(), (time - 3600).to_string());
    assert!(!verified_by_the_guide(&old, &secret));

    let shown = || deliveries(&client, &webhook)[0].clone();
    eventually(|| shown()["status"].clone(), &json!("delivered"));
    let shown = shown();
    assert_eq!((&shown["event_id"], &shown["type"]), (&event["id"], &json!("job.succeeded")));
    assert_eq!(
        (&shown["attempts"], &shown["last_status"], &shown["last_error"]),
        (&json!(1), &json!(204), &json!(null))
    );
    let metrics = client.get("/metrics").text;
    assert!(metrics.contains("guarantor_webhook_attempts_total{result=\"delivered\"} 1"), "{metrics}");
    assert!(metrics.contains("guarantor_webhook_deliveries_pending 0"), "{metrics}");

    // The same event again, on request.
    let path = format!("/v1/webhooks/{webhook}/deliveries/{}/redeliver", id_of(&shown));
    assert_eq!(client.send("POST", &path, &[], None).expect(202)["status"], "pending");
    let again = receiver.wait_for(2).remove(1);
    assert_eq!((again.event_id(), &again.body), (received.event_id(), &received.body));
}

#[test]
fn tests_rotation_and_disabling() {
    let receiver = Receiver::start();
    let server = server_for(&[&receiver]);
    let client = server.client();
    let (webhook, first) = create(&client, json!({"url": receiver.url()}));
    let path = format!("/v1/webhooks/{webhook}");
    let ping = || client.send("POST", &format!("{path}/test"), &[], None);
    assert_eq!(ping().expect(202)["type"], "ping");
    let received = receiver.wait_for(1).remove(0);
    assert_eq!(received.json()["type"], "ping");
    assert!(verified_by_the_guide(&received, &first));

    let rotated = client.post(&format!("{path}/secret"), &json!({"grace": "12h"}));
    assert_eq!(rotated.header("cache-control"), Some("no-store"));
    let rotated = rotated.expect(200);
    let second = rotated["secret"].as_str().unwrap();
    assert!(second != first && rotated["old_secret_until"].is_string(), "{rotated}");
    ping().expect(202);
    let received = receiver.wait_for(2).remove(1);
    assert_eq!(received.header("webhook-signature").split(' ').count(), 2);
    assert!(verified_by_the_guide(&received, &first) && verified_by_the_guide(&received, second));
    // A secret of one's own; the first one is gone.
    let own = format!("whsec_{}", "QUFB".repeat(10));
    client.post(&format!("{path}/secret"), &json!({"secret": own})).expect(200);
    ping().expect(202);
    let received = receiver.wait_for(3).remove(2);
    assert!(verified_by_the_guide(&received, &own) && verified_by_the_guide(&received, second));
    assert!(!verified_by_the_guide(&received, &first));

    let disabled = put(&client, &path, &json!({"url": receiver.url(), "enabled": false})).expect(200);
    assert_eq!((&disabled["status"], &disabled["enabled"]), (&json!("disabled"), &json!(false)));
    ping().problem(409, "webhook_disabled");
    let one = deliveries(&client, &webhook)[0].clone();
    let again = format!("{path}/deliveries/{}/redeliver", id_of(&one));
    client.send("POST", &again, &[], None).problem(409, "webhook_disabled");
    let dataset = client.dataset(200);
    let job = client.submit(json!({"dataset_id": dataset}));
    client.finish(&job);
    assert_eq!(deliveries(&client, &webhook).len(), 3);
    assert_eq!(client.delete(&path).status, 204);
    client.get(&path).problem(404, "not_found");
    client.get(&format!("{path}/deliveries")).problem(404, "not_found");
    assert_eq!(client.get("/v1/webhooks").expect(200)["data"], json!([]));
}

#[test]
fn a_failing_webhook_is_shown_and_delays_no_job() {
    let failing = Receiver::answering(|_, _| Reply::Status(500, ""));
    let silent = Receiver::answering(|_, _| Reply::Hold);
    let server = server_for(&[&failing, &silent]);
    let client = server.client();
    let (webhook, _) =
        create(&client, json!({"url": failing.url(), "events": ["job.failed", "job.cancelled"]}));
    create(&client, json!({"url": silent.url()}));
    let dataset = client.dataset(200);
    let endless = client.submit_endless(&dataset);
    client.send("POST", &format!("/v1/jobs/{endless}/cancel"), &[], None).expect(200);
    assert_eq!(client.finish(&endless)["status"], "cancelled");
    // The silent receiver has not answered, and the next job ends all the same.
    silent.wait_for(1);
    let job = client.submit(json!({"dataset_id": dataset}));
    assert_eq!(client.finish(&job)["status"], "succeeded");
    let shown = || client.get(&format!("/v1/webhooks/{webhook}")).expect(200);
    eventually(|| shown()["status"].clone(), &json!("failing"));
    assert!(shown()["failing_since"].is_string());
    let sent = deliveries(&client, &webhook);
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!((&sent[0]["type"], &sent[0]["last_status"]), (&json!("job.cancelled"), &json!(500)));
    assert!(
        sent[0]["last_error"].as_str().unwrap().contains("500") && sent[0]["next_attempt_at"].is_string()
    );
    assert!(client.get("/metrics").text.contains("guarantor_webhooks_failing 1"));
}

/// Otherwise it would be sent for three days to somebody who has it.
#[test]
fn a_receiver_whose_answer_never_ends_has_received_the_event() {
    let receiver = Receiver::answering(|_, _| Reply::Unending);
    let server = server_for(&[&receiver]);
    let client = server.client();
    let (webhook, _) = create(&client, json!({"url": receiver.url()}));
    client.send("POST", &format!("/v1/webhooks/{webhook}/test"), &[], None).expect(202);
    eventually(|| deliveries(&client, &webhook)[0]["status"].clone(), &json!("delivered"));
    let sent = deliveries(&client, &webhook);
    assert_eq!((&sent[0]["attempts"], &sent[0]["last_status"]), (&json!(1), &json!(200)), "{sent:?}");
}

#[test]
fn without_an_allow_list_there_are_no_webhooks() {
    let server = Server::start();
    let client = server.client();
    for url in ["https://hooks.example.com/", "http://127.0.0.1:1/", "nonsense"] {
        client.post("/v1/webhooks", &json!({"url": url})).problem(403, "webhooks_off");
    }
    assert_eq!(client.get("/v1/webhooks").expect(200)["data"], json!([]));
}

#[test]
fn only_listed_addresses_are_accepted() {
    let receiver = Receiver::start();
    let server = Server::start_with(&[(
        "GUARANTOR_WEBHOOK_ALLOW",
        &format!("http://{}/hook, https://hooks.example.com/in", receiver.address),
    )]);
    let client = server.client();
    let port = receiver.address.port();
    for (url, code) in [
        ("https://hooks.example.com/other", "address_not_allowed"),
        ("https://hooks.example.com/inner", "address_not_allowed"),
        ("https://hooks.example.com.evil.example/in", "address_not_allowed"),
        ("http://hooks.example.com/in", "address_not_allowed"),
        ("https://hooks.example.com:444/in", "address_not_allowed"),
        ("https://169.254.169.254/in", "address_not_allowed"),
        ("https://[::ffff:127.0.0.1]/in", "invalid_value"),
        ("https://hooks.example.com@evil.example/in", "invalid_value"),
        ("https://hooks.example.com/in/../other", "invalid_value"),
        ("https://hooks.example.com/in/%2e%2e/other", "invalid_value"),
        ("https://hooks.example.com/in%2f..%2fother", "invalid_value"),
        ("https://evil.example\\@hooks.example.com/in", "invalid_value"),
        ("https://HOOKS.example.com/in", "invalid_value"),
        ("https://hooks.example.com/in\r\nx: y", "invalid_value"),
        ("file:///etc/passwd", "invalid_value"),
        ("", "invalid_value"),
        (&format!("http://localhost:{port}/hook"), "address_not_allowed"),
        (&format!("http://127.1:{port}/hook"), "invalid_value"),
        (&format!("http://2130706433:{port}/hook"), "invalid_value"),
        (&format!("http://127.0.0.1:{port}/"), "address_not_allowed"),
        (&format!("http://127.0.0.1:{port}/hook#x"), "invalid_value"),
    ] {
        let refused = client.post("/v1/webhooks", &json!({"url": url}));
        refused.problem(422, code);
        assert_eq!(refused.json["errors"][0]["field"], "url", "{url}");
    }
    assert_eq!(client.get("/v1/webhooks").expect(200)["data"], json!([]));
    // An address cannot be changed to one that is not allowed either, even for a disabled webhook.
    let (webhook, _) = create(&client, json!({"url": receiver.url()}));
    for enabled in [true, false] {
        let body = json!({"url": "https://evil.example/", "enabled": enabled});
        put(&client, &format!("/v1/webhooks/{webhook}"), &body).problem(422, "address_not_allowed");
    }
    assert_eq!(client.get(&format!("/v1/webhooks/{webhook}")).expect(200)["url"], receiver.url());
}

#[test]
fn malformed_webhooks_are_rejected_with_the_field() {
    let receiver = Receiver::start();
    let server = server_for(&[&receiver]);
    let client = server.client();
    let url = receiver.url();
    for (more, code, field) in [
        (json!({"colour": "red"}), "unknown_field", "colour"),
        (json!({"events": []}), "invalid_value", "events"),
        (json!({"events": ["ping"]}), "invalid_value", "events"),
        (json!({"events": ["job.deployed"]}), "invalid_value", "events"),
        (json!({"events": "job.failed"}), "invalid_value", "events"),
        (json!({"decision": "maybe"}), "invalid_value", "decision"),
        (json!({"dataset_id": NOBODY}), "unknown_dataset", "dataset_id"),
        (json!({"dataset_id": "x"}), "unknown_dataset", "dataset_id"),
        (json!({"name": "n".repeat(201)}), "invalid_value", "name"),
        (json!({"enabled": "yes"}), "invalid_value", "enabled"),
        (json!({"secret": "hunter2"}), "invalid_value", "secret"),
        (json!({"secret": "whsec_QUFB"}), "invalid_value", "secret"),
        (json!({"secret": format!("whsec_{}", "QUFB".repeat(400))}), "invalid_value", "secret"),
        (json!({"url": null}), "invalid_value", "url"),
        (json!({"url": format!("{url}/{}", "x".repeat(3000))}), "invalid_value", "url"),
    ] {
        let mut body = json!({"url": url});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        let refused = client.post("/v1/webhooks", &body);
        refused.problem(422, code);
        let named = refused.json["errors"][0]["field"].as_str().unwrap();
        assert!(named.starts_with(field), "{named}: {}", refused.text);
        assert!(!refused.text.contains("hunter2") && !refused.text.contains("QUFB"), "{}", refused.text);
    }
    client.post("/v1/webhooks", &json!([1])).problem(422, "invalid_value");
    client.post("/v1/webhooks", &json!({})).problem(422, "invalid_value");
    let json_kind = [("content-type", "application/json")];
    client.send("POST", "/v1/webhooks", &json_kind, Some(b"{")).problem(400, "malformed_json");
    client.send("POST", "/v1/webhooks", &[], Some(b"{}")).problem(415, "unsupported_media_type");
    assert_eq!(client.get("/v1/webhooks").expect(200)["data"], json!([]), "nothing was stored");

    let (webhook, _) = create(&client, json!({"url": url}));
    let path = format!("/v1/webhooks/{webhook}");
    let body = json!({"url": url, "secret": format!("whsec_{}", "QUFB".repeat(10))});
    put(&client, &path, &body).problem(422, "invalid_value");
    for (body, field) in [
        (json!({"grace": "31d"}), "grace"),
        (json!({"grace": "0s"}), "grace"),
        (json!({"grace": 7}), "grace"),
        (json!({"secret": "x"}), "secret"),
    ] {
        let refused = client.post(&format!("{path}/secret"), &body);
        refused.problem(422, "invalid_value");
        assert_eq!(refused.json["errors"][0]["field"], field);
    }
    client.send("POST", &format!("{path}/secret"), &[], Some(b"{}")).problem(415, "unsupported_media_type");
    for unknown in [NOBODY, "x", "..%2f..%2flock", "%00", "%ff"] {
        client.get(&format!("/v1/webhooks/{unknown}")).problem(404, "not_found");
        client.send("POST", &format!("/v1/webhooks/{unknown}/test"), &[], None).problem(404, "not_found");
        let again = format!("{path}/deliveries/{unknown}/redeliver");
        client.send("POST", &again, &[], None).problem(404, "not_found");
    }
    client.get(&format!("{path}/deliveries?limit=101")).problem(400, "invalid_query");
    client.get(&format!("{path}/deliveries?after=x")).problem(400, "invalid_cursor");
    for _ in 1..20 {
        create(&client, json!({"url": url}));
    }
    client.post("/v1/webhooks", &json!({"url": url})).problem(409, "limit_reached");
    assert!(receiver.received().is_empty(), "nothing was sent");
}

#[test]
fn secrets_and_addresses_are_in_no_log_metric_or_later_response() {
    let receiver = Receiver::answering(|_, _| Reply::Status(500, ""));
    let file = tempfile::NamedTempFile::new().unwrap();
    let allow = format!("http://{}/", receiver.address);
    let settings = [
        ("GUARANTOR_WEBHOOK_ALLOW", allow.as_str()),
        ("GUARANTOR_LOG_FORMAT", "json"),
        ("GUARANTOR_LOG_FILTER", "debug"),
    ];
    let server = Server::start_logging(&settings, file.path());
    let client = server.client();
    let created = client.post("/v1/webhooks", &json!({"url": format!("{allow}token-of-the-receiver")}));
    assert_eq!(created.header("cache-control"), Some("no-store"));
    let location = created.header("location").unwrap().to_owned();
    let created = created.expect(201);
    let secret = created["secret"].as_str().unwrap().strip_prefix("whsec_").unwrap().to_owned();
    let rotated = client.send("POST", &format!("{location}/secret"), &[], None).expect(200);
    let second = rotated["secret"].as_str().unwrap().strip_prefix("whsec_").unwrap().to_owned();
    client.send("POST", &format!("{location}/test"), &[], None).expect(202);
    receiver.wait_for(1);
    eventually(|| client.get(&location).expect(200)["status"].clone(), &json!("failing"));
    let mut seen = String::new();
    for path in ["/v1/webhooks", &location, &format!("{location}/deliveries"), "/metrics"] {
        seen += &client.get(path).text;
    }
    seen += &put(&client, &location, &json!({"url": format!("{allow}token-of-the-receiver")})).text;
    assert_eq!(client.delete(&location).status, 204);
    let log = std::fs::read_to_string(file.path()).unwrap();
    for line in [
        "webhook created",
        "secret of a webhook rotated",
        "event not delivered",
        "webhook changed",
        "webhook deleted",
    ] {
        assert!(log.contains(line), "{line} is not in the log:\n{log}");
    }
    for secret in [&secret, &second] {
        assert!(!seen.contains(secret.as_str()) && !log.contains(secret.as_str()), "a secret is shown");
    }
    assert!(!log.contains("token-of-the-receiver"), "the address is in the log");
}

#[test]
fn links_begin_with_the_public_url() {
    let receiver = Receiver::start();
    let allow = format!("http://{}/", receiver.address);
    let settings =
        [("GUARANTOR_WEBHOOK_ALLOW", allow.as_str()), ("GUARANTOR_PUBLIC_URL", "https://g.example/")];
    let server = Server::start_with(&settings);
    let client = server.client();
    let (webhook, _) = create(&client, json!({"url": receiver.url()}));
    client.send("POST", &format!("/v1/webhooks/{webhook}/test"), &[], None).expect(202);
    let event = receiver.wait_for(1).remove(0).json();
    assert_eq!(event["source"], "https://g.example/");
    assert_eq!(event["data"]["links"]["webhook"], format!("https://g.example/v1/webhooks/{webhook}"));
}
