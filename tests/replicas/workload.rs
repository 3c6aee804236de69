//! Clients that repeat every request until it is answered, on whichever server, and remember what they were told.

use std::collections::BTreeMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Answer, Client, id_of};

/// A SplitMix64 generator, so that the moments and choices of a run depend on its seed alone.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }

    fn pick(&mut self, from: Vec<String>) -> Option<String> {
        if from.is_empty() { None } else { from.get(self.below(from.len() as u64) as usize).cloned() }
    }
}

/// The addresses of the servers, which change when one is started again.
pub struct Fleet(pub RwLock<Vec<String>>);

impl Fleet {
    fn any(&self, random: &mut Random) -> String {
        let bases = self.0.read().unwrap();
        bases[random.below(bases.len() as u64) as usize].clone()
    }
}

/// One client.
pub struct Worker {
    random: Random,
    number: u64,
    keys: u64,
    /// By id, with the number of rows that were acknowledged. Deleted ones are gone from here.
    pub datasets: BTreeMap<String, u64>,
    /// By id, with whether a cancellation was acknowledged.
    pub jobs: BTreeMap<String, bool>,
    pub repeated: u64,
    pub answered: u64,
    /// Server errors and requests without an answer.
    pub failed: u64,
}

/// The number of datasets above which some are deleted.
const MANY: usize = 5;
/// A server that died is noticed by the others after the lease; this is far more.
const PATIENCE: Duration = Duration::from_secs(60);

impl Worker {
    pub fn new(seed: u64, number: u64) -> Worker {
        let random = Random(seed.wrapping_mul(1000) + number);
        let (datasets, jobs) = Default::default();
        Worker { random, number, keys: 0, datasets, jobs, repeated: 0, answered: 0, failed: 0 }
    }

    /// Works until `stop`, and then ends its last request.
    pub fn work(&mut self, fleet: &Fleet, stop: &AtomicBool) {
        while !stop.load(Ordering::SeqCst) {
            self.step(fleet);
        }
    }

    /// Uploads a dataset and submits a job on it.
    pub fn first_job(&mut self, fleet: &Fleet) -> (String, String) {
        self.keys += 1;
        let dataset = self.upload(fleet);
        self.keys += 1;
        (dataset.clone(), self.submit(fleet, &dataset))
    }

    fn upload(&mut self, fleet: &Fleet) -> String {
        let n = 2 + self.random.below(6);
        let rows = self.rows(n);
        let answer = self.send(fleet, "POST", "/v1/datasets", "application/x-ndjson", &rows);
        assert_eq!(answer.status, 201, "{}", answer.text);
        let id = id_of(&answer.json);
        assert_eq!(self.datasets.insert(id.clone(), n), None, "a dataset was acknowledged twice");
        id
    }

    fn submit(&mut self, fleet: &Fleet, dataset: &str) -> String {
        let spec = json!({"dataset_id": dataset, "independent_of_log": true,
            "candidates": [{"kind": "logged", "name": "new"}]});
        let answer = self.send(fleet, "POST", "/v1/jobs", "application/json", &spec.to_string());
        assert_eq!(answer.status, 202, "{}", answer.text);
        let id = id_of(&answer.json);
        assert_eq!(self.jobs.insert(id.clone(), false), None, "a job was acknowledged twice");
        id
    }

    fn rows(&mut self, n: u64) -> String {
        let mut text = String::new();
        for _ in 0..n {
            // No two rows of a run are the same.
            let p = 0.2 + 0.6 * self.random.below(1 << 40) as f64 / (1u64 << 40) as f64;
            let action = self.random.below(2);
            let row = json!({"action": action, "propensities": [p, 1.0 - p], "cost": -(action as f64),
                "candidates": {"new": 0.9}});
            text.push_str(&format!("{row}\n"));
        }
        text
    }

    fn step(&mut self, fleet: &Fleet) {
        self.keys += 1;
        let dataset = self.random.pick(self.datasets.keys().cloned().collect());
        let job = self.random.pick(self.jobs.keys().rev().take(4).cloned().collect());
        match (self.random.below(12), dataset, job) {
            (0..=1, Some(dataset), _) => {
                let n = 1 + self.random.below(4);
                let rows = self.rows(n);
                let path = format!("/v1/datasets/{dataset}/rows");
                let answer = self.send(fleet, "POST", &path, "application/x-ndjson", &rows);
                if answer.status == 200 || answer.status == 201 {
                    let known = self.datasets.get_mut(&dataset).unwrap();
                    *known += n;
                    assert_eq!(answer.json["rows"], *known, "{}", answer.text);
                } else {
                    panic!("{path}: {} {}", answer.status, answer.text);
                }
            }
            (2..=6, Some(dataset), _) => {
                self.submit(fleet, &dataset);
            }
            (7, _, Some(job)) => {
                let answer =
                    self.send(fleet, "POST", &format!("/v1/jobs/{job}/cancel"), "application/json", "");
                // It may have ended.
                assert!(matches!(answer.status, 200 | 202 | 409), "{} {}", answer.status, answer.text);
                if answer.status != 409 {
                    self.jobs.insert(job, true);
                }
            }
            (8, Some(dataset), _) if self.datasets.len() > MANY => {
                let answer = self.send(fleet, "DELETE", &format!("/v1/datasets/{dataset}"), "", "");
                // An unfinished job may need it. After a repetition it may be gone.
                assert!(matches!(answer.status, 204 | 404 | 409), "{} {}", answer.status, answer.text);
                if answer.status != 409 {
                    self.datasets.remove(&dataset);
                }
            }
            _ => {
                self.upload(fleet);
            }
        }
    }

    /// Sends a request until it is answered, each time to any server.
    fn send(&mut self, fleet: &Fleet, method: &str, path: &str, kind: &str, body: &str) -> Answer {
        let key = format!("client-{}-{}", self.number, self.keys);
        let began = std::time::Instant::now();
        let mut tries = 0;
        loop {
            tries += 1;
            let client = Client::new(&fleet.any(&mut self.random), None);
            let headers = [("idempotency-key", key.as_str()), ("content-type", kind)];
            let body = (method == "POST").then_some(body.as_bytes());
            let last =
                match client.try_send(method, path, &headers[..if kind.is_empty() { 1 } else { 2 }], body) {
                    Ok(answer) if answer.status < 500 && !in_progress(&answer) => {
                        self.answered += 1;
                        self.repeated += u64::from(tries > 1);
                        return answer;
                    }
                    Ok(answer) => {
                        self.failed += u64::from(answer.status >= 500);
                        format!("{} {}", answer.status, answer.text)
                    }
                    Err(error) => {
                        self.failed += 1;
                        error.to_string()
                    }
                };
            assert!(began.elapsed() < PATIENCE, "{method} {path} is not answered: {last}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Whether another server still holds the key, or another request the dataset.
fn in_progress(answer: &Answer) -> bool {
    let code = answer.json["code"].as_str().unwrap_or_default();
    matches!(answer.status, 409 | 429)
        && matches!(code, "idempotency_in_progress" | "queue_full" | "too_many_requests")
}

/// Checks that exactly what was acknowledged is there, on every server, and that every job has ended once.
pub fn check(clients: &[Client], workers: &[Worker]) -> Value {
    let mut datasets: BTreeMap<String, u64> = BTreeMap::new();
    let mut jobs: BTreeMap<String, bool> = BTreeMap::new();
    for worker in workers {
        datasets.extend(worker.datasets.clone());
        jobs.extend(worker.jobs.clone());
    }
    for job in jobs.keys() {
        clients[0].finish(job);
    }
    let mut statuses: BTreeMap<String, u64> = BTreeMap::new();
    for (i, client) in clients.iter().enumerate() {
        let listed: BTreeMap<String, u64> = all(client, "/v1/datasets")
            .into_iter()
            .map(|dataset| (dataset["id"].as_str().unwrap().into(), dataset["rows"].as_u64().unwrap()))
            .collect();
        assert_eq!(listed, datasets, "server {i}");
        let listed = all(client, "/v1/jobs");
        let ids: Vec<&str> = listed.iter().map(|job| job["id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), jobs.len(), "server {i}: jobs are lost or doubled");
        for job in &listed {
            let (id, status) = (job["id"].as_str().unwrap(), job["status"].as_str().unwrap());
            let cancelled = jobs.get(id).unwrap_or_else(|| panic!("server {i}: nobody was told about {id}"));
            assert!(status == "succeeded" || status == "cancelled", "server {i}: {job}");
            assert!(*cancelled || status == "succeeded", "server {i}: nobody canceled {id}");
            if i == 0 {
                *statuses.entry(status.into()).or_default() += 1;
                check_job(client, id, status);
            }
        }
    }
    json!(statuses)
}

/// A job ends once, and its certificate is signed as it is shown.
fn check_job(client: &Client, id: &str, status: &str) {
    let events = client.follow(id, &[], |_| false);
    let ends: Vec<&str> = events
        .iter()
        .map(|event| event.kind.as_str())
        .filter(|kind| matches!(*kind, "succeeded" | "failed" | "cancelled"))
        .collect();
    assert_eq!(ends, [status], "{id}");
    if status == "succeeded" {
        let document = client.get(&format!("/v1/jobs/{id}/certificate")).expect(200);
        let verified = client.post("/v1/certificates/verify", &document).expect(200);
        assert_eq!(verified["signature"], "valid", "{verified}");
    }
}

/// Every item of a list.
pub fn all(client: &Client, path: &str) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("{path}?limit=100{cursor}")).expect(200);
        items.extend(page["data"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&after={next}"),
            None => return items,
        }
    }
}
