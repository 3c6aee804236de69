//! A client: what it does next, and what the server acknowledged.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::common::{Answer, Client, id_of};

/// A SplitMix64 generator, so that the moments and choices of a run depend on its seed alone.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }

    fn unit(&mut self) -> f64 {
        self.below(1 << 30) as f64 / (1u64 << 30) as f64
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { from.get(self.below(from.len() as u64) as usize) }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    Upload {
        rows: String,
        n: u64,
    },
    Append {
        dataset: String,
        rows: String,
        n: u64,
    },
    Candidates {
        dataset: String,
        name: String,
        rows: String,
    },
    Policy {
        body: Value,
    },
    Job {
        dataset: String,
        prior: &'static str,
    },
    Cancel {
        job: String,
    },
    DeleteDataset {
        dataset: String,
    },
    DeletePolicy {
        policy: String,
    },
    Gate {
        gate: String,
        dataset: String,
    },
    DeleteGate {
        gate: String,
    },
    Token {
        gate: String,
    },
    RevokeToken {
        gate: String,
        id: String,
    },
    /// An upload with a key that may only read. It must be rejected, and leave nothing.
    Forbidden {
        rows: String,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct KnownDataset {
    pub rows: u64,
    pub version: u64,
    pub digest: String,
}

/// A request that was sent with an idempotency key and not answered yet.
#[derive(Debug, Clone)]
pub struct Pending {
    pub op: Op,
    key: String,
    tries: u32,
}

/// The keys of a client, by role.
#[derive(Clone)]
pub struct Secrets {
    pub admin: String,
    pub read: String,
}

pub struct Worker {
    secrets: Secrets,
    random: Random,
    name: String,
    keys: u64,
    pub pending: Option<Pending>,
    pub datasets: BTreeMap<String, KnownDataset>,
    /// The names of the candidates that were added to each dataset.
    columns: BTreeMap<String, Vec<String>>,
    pub policies: BTreeMap<String, String>,
    /// By id, with whether a cancellation was acknowledged.
    pub jobs: BTreeMap<String, bool>,
    /// The names of standing gates, with the ids and secrets of their tokens.
    pub gates: BTreeMap<String, BTreeMap<String, String>>,
    /// Requests that had to be sent again.
    pub repeated: u64,
    pub answered: BTreeMap<&'static str, u64>,
}

/// The number of datasets above which some are deleted.
const MANY: usize = 6;

impl Worker {
    pub fn new(seed: u64, number: u64, secrets: Secrets) -> Worker {
        Worker {
            secrets,
            random: Random::new(seed.wrapping_mul(1000) + number + 1),
            name: format!("client-{number}"),
            keys: 0,
            pending: None,
            datasets: BTreeMap::new(),
            columns: BTreeMap::new(),
            policies: BTreeMap::new(),
            jobs: BTreeMap::new(),
            gates: BTreeMap::new(),
            repeated: 0,
            answered: BTreeMap::new(),
        }
    }

    /// Sends requests until one is not answered. That one stays pending.
    pub fn work(&mut self, base: &str, dead: &AtomicBool) {
        let client = Client::new(base, Some(&self.secrets.admin));
        loop {
            if let Err(error) = self.step(&client) {
                // A running server must respond.
                while !dead.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                    assert!(!matches!(error, ureq::Error::Timeout(_)), "{}: {error}", self.name);
                }
                return;
            }
        }
    }

    /// Sends the pending request again, and expects an answer.
    pub fn settle(&mut self, client: &Client) {
        if self.pending.is_some() {
            self.step(client).unwrap();
        }
    }

    fn step(&mut self, client: &Client) -> Result<(), ureq::Error> {
        let mut pending = match self.pending.take() {
            Some(pending) => pending,
            None => {
                self.keys += 1;
                Pending { op: self.choose(), key: format!("{}-{}", self.name, self.keys), tries: 0 }
            }
        };
        pending.tries += 1;
        let sent = match &pending.op {
            Op::Forbidden { .. } => send(&client.with_key(&self.secrets.read), &pending),
            _ => send(client, &pending),
        };
        match sent {
            Ok(answer) => {
                self.repeated += u64::from(pending.tries > 1);
                self.learn(pending, answer);
                Ok(())
            }
            Err(error) => {
                self.pending = Some(pending);
                Err(error)
            }
        }
    }

    fn choose(&mut self) -> Op {
        let datasets: Vec<String> = self.datasets.keys().cloned().collect();
        let jobs: Vec<String> = self.jobs.keys().rev().take(8).cloned().collect();
        let policies: Vec<String> = self.policies.keys().cloned().collect();
        if datasets.len() > MANY {
            let dataset = self.random.pick(&datasets).unwrap().clone();
            return Op::DeleteDataset { dataset };
        }
        let gates: Vec<String> = self.gates.keys().cloned().collect();
        let gate = self.random.pick(&gates).cloned();
        let choice = self.random.below(100);
        match (choice, self.random.pick(&datasets), self.random.pick(&jobs)) {
            (0..20, Some(dataset), _) => {
                let n = 1 + self.random.below(40);
                let columns = self.columns.get(dataset).cloned().unwrap_or_default();
                Op::Append { dataset: dataset.clone(), rows: self.rows(n, &columns), n }
            }
            (20..25, Some(dataset), _) => {
                let name = format!("c{}", self.columns.get(dataset).map_or(0, Vec::len));
                let row = |_| format!("{{\"candidates\":{{\"{name}\":{}}}}}\n", self.random.unit());
                let rows = (0..self.datasets[dataset].rows).map(row).collect();
                Op::Candidates { dataset: dataset.clone(), name, rows }
            }
            (25..55, Some(dataset), _) => {
                // Most jobs are short. A split learns twice and takes long enough to be interrupted.
                let prior = if self.random.below(6) == 0 { "split" } else { "zero" };
                Op::Job { dataset: dataset.clone(), prior }
            }
            (55..63, _, Some(job)) => Op::Cancel { job: job.clone() },
            (63..70, Some(dataset), _) => Op::DeleteDataset { dataset: dataset.clone() },
            (70..76, ..) => {
                let mean = [[self.random.unit(), self.random.unit()], [self.random.unit(), 0.0]];
                Op::Policy { body: json!({"kind": "softmax", "mean": mean}) }
            }
            (88..91, ..) => Op::Forbidden { rows: self.rows(20, &[]) },
            (76..80, ..) if !policies.is_empty() => {
                Op::DeletePolicy { policy: self.random.pick(&policies).unwrap().clone() }
            }
            (80..83, Some(dataset), _) => {
                Op::Gate { gate: format!("{}-{}", self.name, self.keys), dataset: dataset.clone() }
            }
            (83..86, ..) if gate.is_some() => Op::Token { gate: gate.unwrap_or_default() },
            (86..87, ..) if gate.is_some() => Op::DeleteGate { gate: gate.unwrap_or_default() },
            (87..88, ..) if gate.is_some() => {
                let gate = gate.unwrap_or_default();
                match self.gates[&gate].keys().next() {
                    Some(id) => Op::RevokeToken { id: id.clone(), gate },
                    None => Op::Token { gate },
                }
            }
            _ => {
                // Some uploads take long enough to be interrupted.
                let most = if self.random.below(6) == 0 { 1500 } else { 150 };
                let n = 30 + self.random.below(most);
                Op::Upload { rows: self.rows(n, &[]), n }
            }
        }
    }

    /// Rows without event ids, with these candidates: only idempotency keeps them from being stored twice.
    fn rows(&mut self, n: u64, columns: &[String]) -> String {
        let mut out = String::new();
        for _ in 0..n {
            let named: Vec<String> =
                columns.iter().map(|c| format!("\"{c}\":{}", self.random.unit())).collect();
            let candidates = match named.is_empty() {
                true => String::new(),
                false => format!(",\"candidates\":{{{}}}", named.join(",")),
            };
            let x = [self.random.unit() as f32, self.random.unit() as f32];
            let action = self.random.below(2);
            let cost = if (action == 1) == (x[0] > 0.5) { -1 } else { 0 };
            out += &format!(
                "{{\"x\":[{},{}],\"action\":{action},\"propensities\":[0.5,0.5],\"cost\":{cost}{candidates}}}\n",
                x[0], x[1]
            );
        }
        out
    }

    /// Remembers what the response acknowledges.
    fn learn(&mut self, pending: Pending, answer: Answer) {
        let again = pending.tries > 1;
        let context = format!("{} {:?} (try {})", self.name, short(&pending.op), pending.tries);
        let expect = |statuses: &[u16]| {
            assert!(statuses.contains(&answer.status), "{context}: {} {}", answer.status, answer.text);
        };
        let what = match pending.op {
            Op::Upload { n, .. } => {
                expect(&[201]);
                let known = known(&answer.json);
                assert_eq!((known.rows, known.version), (n, 1), "{context}");
                assert!(
                    self.datasets.insert(id_of(&answer.json), known).is_none(),
                    "{context}: duplicate id"
                );
                "uploads"
            }
            Op::Append { dataset, n, .. } => {
                expect(&[201]);
                let (before, after) = (&self.datasets[&dataset], known(&answer.json));
                assert_eq!((after.rows, after.version), (before.rows + n, before.version + 1), "{context}");
                self.datasets.insert(dataset, after);
                "appends"
            }
            Op::Candidates { dataset, name, .. } => {
                expect(&[201]);
                let (before, after) = (&self.datasets[&dataset], known(&answer.json));
                assert_eq!((after.rows, after.version), (before.rows, before.version + 1), "{context}");
                self.columns.entry(dataset.clone()).or_default().push(name);
                self.datasets.insert(dataset, after);
                "additions of candidates"
            }
            Op::Policy { .. } => {
                expect(&[201]);
                let digest = answer.json["digest"].as_str().unwrap().to_owned();
                assert!(
                    self.policies.insert(id_of(&answer.json), digest).is_none(),
                    "{context}: duplicate id"
                );
                "policies"
            }
            Op::Job { .. } => {
                expect(&[202]);
                assert!(self.jobs.insert(id_of(&answer.json), false).is_none(), "{context}: duplicate id");
                "jobs"
            }
            Op::Cancel { job } => {
                expect(&[200, 409]);
                let cancelled = self.jobs.get_mut(&job).unwrap();
                *cancelled = *cancelled || answer.status == 200;
                "cancellations"
            }
            Op::DeleteDataset { dataset } => {
                // 404 is possible only if an earlier try was not answered.
                expect(if again { &[204, 404, 409] } else { &[204, 409] });
                if answer.status != 409 {
                    self.datasets.remove(&dataset);
                }
                "deletions of datasets"
            }
            Op::Forbidden { .. } => {
                expect(&[403]);
                assert_eq!(answer.json["code"], "role_not_sufficient", "{context}");
                "uploads that a role forbids"
            }
            Op::DeletePolicy { policy } => {
                expect(if again { &[204, 404] } else { &[204] });
                self.policies.remove(&policy);
                "deletions of policies"
            }
            Op::Gate { gate, dataset } => {
                expect(&[201]);
                assert_eq!(answer.json["dataset_id"], dataset, "{context}");
                assert!(self.gates.insert(gate, BTreeMap::new()).is_none(), "{context}: duplicate name");
                "gates"
            }
            Op::DeleteGate { gate } => {
                expect(if again { &[204, 404] } else { &[204] });
                self.gates.remove(&gate);
                "deletions of gates"
            }
            Op::Token { gate } => {
                expect(&[201]);
                let token = answer.json["token"].as_str().unwrap().to_owned();
                self.gates.get_mut(&gate).unwrap().insert(id_of(&answer.json), token);
                "tokens"
            }
            Op::RevokeToken { gate, id } => {
                expect(if again { &[204, 404] } else { &[204] });
                self.gates.get_mut(&gate).unwrap().remove(&id);
                "revocations of tokens"
            }
        };
        *self.answered.entry(what).or_default() += 1;
    }
}

fn known(dataset: &Value) -> KnownDataset {
    KnownDataset {
        rows: dataset["rows"].as_u64().unwrap(),
        version: dataset["version"].as_u64().unwrap(),
        digest: dataset["digest"].as_str().unwrap().to_owned(),
    }
}

fn short(op: &Op) -> String {
    format!("{op:?}").chars().take(120).collect()
}

fn send(client: &Client, pending: &Pending) -> Result<Answer, ureq::Error> {
    let key = ("idempotency-key", pending.key.as_str());
    let ndjson = [key, ("content-type", "application/x-ndjson")];
    let json = [key, ("content-type", "application/json")];
    let post =
        |path: &str, body: Value| client.try_send("POST", path, &json, Some(body.to_string().as_bytes()));
    match &pending.op {
        Op::Upload { rows, .. } | Op::Forbidden { rows } => client.try_send(
            "POST",
            "/v1/datasets?logging=fixed&exact_propensities=true",
            &ndjson,
            Some(rows.as_bytes()),
        ),
        Op::Candidates { dataset, rows, .. } => {
            let path = format!("/v1/datasets/{dataset}/candidates");
            client.try_send("POST", &path, &ndjson, Some(rows.as_bytes()))
        }
        Op::Append { dataset, rows, .. } => {
            client.try_send("POST", &format!("/v1/datasets/{dataset}/rows"), &ndjson, Some(rows.as_bytes()))
        }
        Op::Policy { body } => post("/v1/policies", body.clone()),
        Op::Job { dataset, prior } => post(
            "/v1/jobs",
            json!({"dataset_id": dataset, "bound": "cbb", "prior": {"kind": prior},
            "optimizer": {"preset": "paper", "epochs": 4}}),
        ),
        Op::Cancel { job } => client.try_send("POST", &format!("/v1/jobs/{job}/cancel"), &[], Some(b"")),
        Op::DeleteDataset { dataset } => {
            client.try_send("DELETE", &format!("/v1/datasets/{dataset}"), &[], None)
        }
        Op::DeletePolicy { policy } => {
            client.try_send("DELETE", &format!("/v1/policies/{policy}"), &[], None)
        }
        Op::Gate { gate, dataset } => post("/v1/gates", json!({"name": gate, "dataset_id": dataset})),
        Op::DeleteGate { gate } => client.try_send("DELETE", &format!("/v1/gates/{gate}"), &[], None),
        Op::Token { gate } => client.try_send("POST", &format!("/v1/gates/{gate}/tokens"), &[], Some(b"")),
        Op::RevokeToken { gate, id } => {
            client.try_send("DELETE", &format!("/v1/gates/{gate}/tokens/{id}"), &[], None)
        }
    }
}

pub fn totals(workers: &[Worker]) -> BTreeMap<&'static str, u64> {
    let mut totals = BTreeMap::new();
    for (what, n) in workers.iter().flat_map(|worker| &worker.answered) {
        *totals.entry(*what).or_default() += n;
    }
    totals
}
