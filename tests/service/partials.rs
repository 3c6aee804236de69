//! Partials through the real program: the same certificate from a shell for any number of partitions, and from the server
//! with a ledger, a signature and gates.

use std::process::Command;

use crate::common::{BINARY, Client, Server};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Runs the program: its exit code, and everything that it says.
fn guarantor(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(BINARY).args(args).output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), said)
}

/// Rows of a policy over three actions, with a candidate that prefers the rewarded one.
fn rows(from: usize, to: usize) -> Vec<String> {
    (from..to)
        .map(|i| {
            let mut state = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut unit = || {
                for _ in 0..3 {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    state ^= state >> 29;
                }
                (state >> 11) as f64 / (1u64 << 53) as f64
            };
            let weights = [0.3 + unit(), 0.3 + unit(), 0.3 + unit()];
            let total: f64 = weights.iter().sum();
            let draw = unit() * total;
            let action = if draw < weights[0] { 0 } else { 1 + usize::from(draw >= weights[0] + weights[1]) };
            let reward = u8::from(unit() < if action == 1 { 0.8 } else { 0.3 });
            let other = 0.02 + 0.01 * unit();
            let new = if action == 1 { 1.0 - 2.0 * other } else { other };
            json!({"action": action, "propensity": weights[action] / total, "reward": reward,
                "timestamp": 1_700_000_000 + i, "candidates": {"new": new}})
            .to_string()
        })
        .collect()
}

struct Folder(TempDir);

impl Folder {
    /// A folder with the learn log and its recipe.
    fn with_recipe(delta: f64) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder.write("learn.ndjson", rows(0, 300).join("\n"));
        let spec = json!({"candidates": [{"kind": "logged", "name": "new"}], "independent_of_log": true, "delta": delta});
        folder.write("spec.json", spec.to_string());
        let (learn, spec, out) =
            (folder.path("learn.ndjson"), folder.path("spec.json"), folder.path("recipe.json"));
        let args =
            ["recipe", &learn, "--outcome", "reward", "--n-actions", "3", "--spec", &spec, "--out", &out];
        let (code, said) = guarantor(&args);
        assert_eq!(code, Some(0), "{said}");
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// Divides rows into this many partitions and returns the paths of their partials.
    fn partials(&self, rows: &[String], parts: usize) -> Vec<String> {
        let chunks = rows.chunks(rows.len().div_ceil(parts)).enumerate();
        let partial = |(i, part): (usize, &[String])| {
            let file = self.write(&format!("{parts}-{i}.ndjson"), part.join("\n"));
            let (out, name) = (self.path(&format!("{parts}-{i}.json")), format!("part {i}"));
            let args = [
                "partial",
                &file,
                "--recipe",
                &self.path("recipe.json"),
                "--partition",
                &name,
                "--out",
                &out,
            ];
            let (code, said) = guarantor(&args);
            assert_eq!(code, Some(0), "{said}");
            out
        };
        chunks.map(partial).collect()
    }

    fn merge(&self, partials: &[String], more: &[&str]) -> (Option<i32>, String) {
        let recipe = self.path("recipe.json");
        let mut args = vec!["merge", "--recipe", &recipe];
        args.extend(partials.iter().map(String::as_str));
        args.extend(more);
        guarantor(&args)
    }

    fn request(&self, partials: &[String]) -> Value {
        let name = |path: &String| path.rsplit('/').next().unwrap().to_owned();
        let partials: Vec<Value> = partials.iter().map(|path| self.json(&name(path))).collect();
        json!({"recipe": self.json("recipe.json"), "partials": partials})
    }
}

#[test]
fn any_number_of_partitions_gives_the_same_certificate() {
    let folder = Folder::with_recipe(0.05);
    let rows = rows(0, 1400);
    let whole = folder.write("whole.ndjson", rows.join("\n"));
    let recipe = folder.path("recipe.json");
    let (code, said) = guarantor(&["certify", &whole, "--recipe", &recipe, "--json"]);
    assert_eq!(code, Some(0), "{said}");
    let single: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&single["certified"]["rows"], &single["dataset"]["rows"]), (&json!(1100), &json!(1400)));
    for parts in [1, 7, 200] {
        let mut partials = folder.partials(&rows, parts);
        partials.reverse();
        let (code, said) = folder.merge(&partials, &["--expected-rows", "1400", "--json"]);
        assert_eq!(code, Some(0), "{said}");
        let merged: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(merged["digest"], single["digest"], "{parts}");
        assert_eq!(merged["merged"]["partials"]["count"], json!(parts));
        let certificate = folder.write("certificate.json", &said);
        let mut args = vec!["verify", &certificate, "--recipe", &recipe];
        args.extend(partials.iter().flat_map(|path| ["--partial", path.as_str()]));
        let (code, said) = guarantor(&args);
        assert_eq!(code, Some(0), "{said}");
    }
    // A changed number is found.
    let forged = std::fs::read_to_string(folder.path("certificate.json")).unwrap();
    let forged =
        folder.write("forged.json", forged.replacen("\"min_improvement\": 0", "\"min_improvement\": -1", 1));
    let partials = folder.partials(&rows, 1);
    assert_eq!(guarantor(&["verify", &forged, "--recipe", &recipe, "--partial", &partials[0]]).0, Some(1));
}

#[test]
fn what_cannot_be_merged_is_an_error_with_a_sentence() {
    let folder = Folder::with_recipe(0.05);
    let all = rows(300, 1300);
    let partials = folder.partials(&all, 7);
    let says = |partials: &[String], more: &[&str], what: &str| {
        let (code, said) = folder.merge(partials, more);
        assert!(code == Some(2) && said.contains(what), "{code:?} {said}");
    };
    says(&partials[..6], &["--expected-rows", "1000"], "a partition is missing");
    says(&partials, &["--expected-rows", "999"], "partitions overlap");
    let twice = [partials.clone(), vec![partials[3].clone()]].concat();
    says(&twice, &[], "is there twice");
    // The same rows under another name.
    let copy = folder.path("copy.json");
    let file = folder.path("7-3.ndjson");
    let recipe = folder.path("recipe.json");
    guarantor(&["partial", &file, "--recipe", &recipe, "--partition", "copy", "--out", &copy]);
    says(&[partials.clone(), vec![copy]].concat(), &[], "rows in common");
    let other = Folder::with_recipe(0.04);
    let mixed = [partials[..6].to_vec(), other.partials(&all, 7)[6..].to_vec()].concat();
    says(&mixed, &[], "was computed with the recipe");
    let damaged = std::fs::read_to_string(&partials[0]).unwrap().replacen("part 0", "part 9", 1);
    let damaged = folder.write("damaged.json", damaged);
    says(&[damaged], &[], "changed or damaged");
}

fn certificate(client: &Client, request: &Value) -> (Value, Value) {
    let job = client.post("/v1/partials", request).expect(202);
    let id = job["id"].as_str().unwrap().to_owned();
    client.finish(&id);
    (job, client.get(&format!("/v1/jobs/{id}/certificate")).expect(200))
}

#[test]
fn the_server_merges_signs_and_counts_the_look() {
    let folder = Folder::with_recipe(0.05);
    let all = rows(0, 1300);
    let server = Server::start();
    let client = server.client();
    let (job, first) = certificate(&client, &folder.request(&folder.partials(&all, 7)));
    assert_eq!(first["decision"], "deploy");
    assert!(first["statement"].as_str().unwrap().contains("did not recompute"), "{first}");
    assert_eq!((&first["ledger"]["look"], &first["merged"]["partials"]["count"]), (&json!(1), &json!(7)));
    assert_eq!(client.post("/v1/certificates/verify", &first).expect(200)["valid"], true);
    // The same rows again, divided in another way: the same certificate, and no second look for free.
    let (_, again) = certificate(&client, &folder.request(&folder.partials(&all, 3)));
    assert_eq!(again["digest"], first["digest"]);
    assert_eq!((&again["ledger"]["look"], &again["ledger"]["cost"]), (&json!(2), &json!(0.0)));
    // Another question about the same rows costs another δ.
    let other = Folder::with_recipe(0.04);
    let (_, other) = certificate(&client, &other.request(&other.partials(&all, 3)));
    assert_eq!(other["ledger"]["look"], 3);
    assert!((other["ledger"]["spent"].as_f64().unwrap() - 0.09).abs() < 1e-12, "{other}");
    // Gates are closed to it unless they are told otherwise.
    let gate = format!("/v1/jobs/{}/gate", job["id"].as_str().unwrap());
    let closed = client.get(&gate);
    closed.problem(403, "requirement_failed");
    assert_eq!(client.get(&format!("{gate}?accept_merged=true")).expect(200)["merged"], true);
    let standing = json!({"name": "merged", "dataset_id": job["spec"]["dataset_id"]});
    client.post("/v1/gates", &standing).expect(201);
    client.get("/v1/gates/merged").problem(403, "requirement_failed");
    let open =
        json!({"name": "open", "dataset_id": job["spec"]["dataset_id"], "allow": ["merged_certificates"]});
    client.post("/v1/gates", &open).expect(201);
    assert_eq!(client.get("/v1/gates/open").expect(200)["ok"], true);
    client.get("/v1/gates/open?accept_merged=false").problem(403, "requirement_failed");
    assert_eq!(
        client.get("/v1/gates/merged?accept_merged=true").status,
        403,
        "a request cannot lower the bar"
    );
    // There are no rows for anything else.
    let dataset = job["spec"]["dataset_id"].as_str().unwrap();
    let evaluate = json!({"dataset_id": dataset, "candidates": [{"kind": "logged", "name": "candidate"}],
        "independent_of_log": true});
    client.post("/v1/jobs", &evaluate).problem(422, "not_for_this_kind");
    let append = client.send(
        "POST",
        &format!("/v1/datasets/{dataset}/rows"),
        &[("content-type", "application/x-ndjson")],
        Some(all[0].as_bytes()),
    );
    append.problem(422, "not_for_this_kind");
}

#[test]
fn rows_that_another_look_has_seen_in_part_are_not_fresh() {
    let folder = Folder::with_recipe(0.05);
    let all = rows(300, 1300);
    let server = Server::start();
    let client = server.client();
    // A dataset with half of the rows was looked at.
    let dataset = client.upload("?outcome=reward&n_actions=3", &all[..500].join("\n")).expect(201);
    let job = client.submit(json!({"dataset_id": dataset["id"], "independent_of_log": true,
        "candidates": [{"kind": "logged", "name": "new"}]}));
    client.finish(&job);
    client.post("/v1/partials", &folder.request(&folder.partials(&all, 2))).problem(422, "no_fresh_rows");
    // The other half is fresh.
    let (_, fresh) = certificate(&client, &folder.request(&folder.partials(&all[500..], 2)));
    assert_eq!(fresh["certified"]["rows"], 500);
}

#[test]
fn malformed_requests_are_rejected_with_a_reason() {
    let folder = Folder::with_recipe(0.05);
    let good = folder.request(&folder.partials(&rows(300, 500), 2));
    let server = Server::start();
    let client = server.client();
    let post = |change: &dyn Fn(&mut Value)| {
        let mut body = good.clone();
        change(&mut body);
        client.post("/v1/partials", &body)
    };
    let rejected = |change: &dyn Fn(&mut Value), reason: &str| {
        let answer = post(change);
        answer.problem(422, "partials_rejected");
        assert_eq!(answer.expect(422)["reason"], reason);
    };
    rejected(&|body| body["recipe"] = json!({}), "invalid_recipe");
    rejected(&|body| body["recipe"]["spec"]["delta"] = json!(0.9), "mixed_recipes");
    rejected(&|body| body["partials"][0]["rows"]["certified"] = json!(7), "invalid_partial");
    rejected(&|body| body["partials"][0]["sums"] = json!({}), "invalid_partial");
    rejected(&|body| body["partials"] = json!([]), "no_rows");
    rejected(&|body| body["partials"][1] = body["partials"][0].clone(), "repeated_partial");
    rejected(&|body| body["expected_rows"] = json!(201), "missing_rows");
    rejected(&|body| body["expected_rows"] = json!(100), "too_many_rows");
    rejected(&|body| body["recipe"]["engine_version"] = json!("0.0.1"), "mixed_releases");
    post(&|body| body["extra"] = json!(1)).problem(422, "unknown_field");
    post(&|body| body["metadata"] = json!({"m": "x".repeat(20_000)})).problem(422, "invalid_value");
    post(&|body| body["name"] = json!("n".repeat(300))).problem(422, "invalid_value");
    // A repeated request with the same key gets the first response.
    let keyed = || {
        let headers = [("content-type", "application/json"), ("idempotency-key", "once")];
        client.send("POST", "/v1/partials", &headers, Some(good.to_string().as_bytes())).expect(202)
    };
    let (first, again) = (keyed(), keyed());
    assert_eq!(first["id"], again["id"]);
    client.finish(first["id"].as_str().unwrap());
}
