//! An HTTP client that keeps everything of a response.

use std::io::{BufRead, BufReader, Read};

use serde_json::{Value, json};
use ureq::Agent;

use super::{id_of, log_of};

/// A client of one server, with or without an API key.
pub struct Client {
    agent: Agent,
    pub base: String,
    key: Option<String>,
}

/// A response.
pub struct Answer {
    pub status: u16,
    pub headers: ureq::http::HeaderMap,
    pub text: String,
    pub json: Value,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The JSON of a response that must have this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json
    }

    /// Asserts the status, the code, and the form of a problem.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.json["code"].as_str()), (status, Some(code)), "{}", self.text);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(self.json["status"], status);
        assert_eq!(self.json["type"], format!("urn:guarantor:problem:{code}"));
        for member in ["title", "detail", "instance"] {
            assert!(!self.json[member].as_str().unwrap_or("").is_empty(), "{member}: {}", self.text);
        }
        assert!(self.json["errors"].is_array(), "{}", self.text);
        assert!(self.header("x-request-id").is_some());
    }
}

impl Client {
    pub fn new(base: &str, key: Option<&str>) -> Client {
        let config = Agent::config_builder().http_status_as_error(false).allow_non_standard_methods(true);
        Client { agent: config.build().new_agent(), base: base.into(), key: key.map(Into::into) }
    }

    pub fn with_key(&self, key: &str) -> Client {
        Client::new(&self.base, Some(key))
    }

    /// Sends any request. `body` is sent as it is.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Answer {
        let answer = self.try_send(method, path, headers, body);
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// The same for a server that may die in the meantime.
    pub fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<Answer, ureq::Error> {
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = match body {
            Some(body) => self.agent.run(request.body(body).unwrap())?,
            None => self.agent.run(request.body(()).unwrap())?,
        };
        let text = response.body_mut().with_config().limit(1 << 30).read_to_string()?;
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Answer { status: response.status().as_u16(), headers: response.headers().clone(), text, json })
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], None)
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        let body = body.to_string();
        self.send("POST", path, &[("content-type", "application/json")], Some(body.as_bytes()))
    }

    pub fn upload(&self, query: &str, rows: &str) -> Answer {
        let kind = [("content-type", "application/x-ndjson")];
        self.send("POST", &format!("/v1/datasets{query}"), &kind, Some(rows.as_bytes()))
    }

    /// A dataset from which learning finds an improvement, of one fixed policy, so that every bound can be used.
    pub fn dataset(&self, rows: usize) -> String {
        self.dataset_of(1, rows)
    }

    /// The same with other rows for every seed.
    pub fn dataset_of(&self, seed: u64, rows: usize) -> String {
        id_of(&self.upload("?outcome=reward&name=test&logging=fixed", &log_of(seed, rows)).expect(201))
    }

    pub fn submit(&self, spec: Value) -> String {
        id_of(&self.post("/v1/jobs", &spec).expect(202))
    }

    /// Waits for the job to finish.
    pub fn finish(&self, job: &str) -> Value {
        loop {
            let job = self.get(&format!("/v1/jobs/{job}?wait=1")).expect(200);
            if !matches!(job["status"].as_str(), Some("queued" | "running")) {
                return job;
            }
        }
    }

    /// A job that runs until it is canceled.
    pub fn submit_endless(&self, dataset: &str) -> String {
        let job = self.submit(json!({"dataset_id": dataset, "bound": "cbb", "optimizer":
            {"preset": "paper", "epochs": 100_000, "max_seconds": 3600.0}}));
        self.follow(&job, &[], |event| event.kind == "progress");
        job
    }

    /// Reads a job's events until `until` holds or the stream ends, and returns them.
    pub fn follow(&self, job: &str, headers: &[(&str, &str)], until: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut request = self.agent.get(format!("{}/v1/jobs/{job}/events", self.base));
        request = request.header("accept", "text/event-stream");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.call().unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut events = Vec::new();
        let mut reader = BufReader::new(response.into_body().into_reader());
        while let Some(event) = Event::read(&mut reader) {
            let last = until(&event);
            events.push(event);
            if last {
                break;
            }
        }
        events
    }
}

/// A job event from a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: u64,
    pub kind: String,
    pub data: Value,
}

impl Event {
    /// The next event. Keep-alive comments are skipped.
    fn read(reader: &mut BufReader<impl Read>) -> Option<Event> {
        let mut event = Event { id: 0, kind: String::new(), data: Value::Null };
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("id", id)) => event.id = id.parse().unwrap(),
                Some(("event", kind)) => event.kind = kind.into(),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                None if line.trim().is_empty() && event.id > 0 => return Some(event),
                _ => {}
            }
        }
    }
}
