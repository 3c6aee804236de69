//! The manifests in docker/kubernetes: `tests/kubernetes.py` validates them with kubernetes-validate, from PyPI,
//! and a running server has every metric that the dashboard and the alerts name.

use crate::common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::python::environment;
use common::{Client, Server};
use serde_json::{Value, json};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Python with the validator, installed on first use.
fn install() -> Option<PathBuf> {
    environment("kubernetes-validate", &["kubernetes-validate==1.37.0"], "import kubernetes_validate")
}

#[test]
fn every_manifest_is_valid() {
    let Some(python) = install() else {
        eprintln!(
            "\n*** SKIPPED: kubernetes-validate cannot be installed from PyPI; the manifests were NOT checked. ***\n"
        );
        return;
    };
    let mut check = Command::new(python);
    check.arg("tests/kubernetes.py").arg(env!("CARGO_PKG_VERSION")).current_dir(repository());
    let output = check.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("resources are valid"), "{out}\n{err}");
}

/// The names of metrics in a text.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let names = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    names
        .filter(|name| name.len() > "guarantor_".len() && name.starts_with("guarantor_"))
        .map(Into::into)
        .collect()
}

/// The names of labels in `sum by (a, b)` of an expression.
fn grouped_by(expression: &str) -> Vec<String> {
    let lists = expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
    lists.flat_map(|list| list.split(", ").map(str::to_owned)).collect()
}

/// Everything that is counted happens once: a crash with a running job, a deploy, a keep and a failed job.
fn eventful() -> Server {
    let mut server = Server::start();
    let client = server.client();
    let dataset = client.dataset(2000);
    let endless = client.submit_endless(&dataset);
    server.kill();
    server.restart();
    let client = server.client();
    client.follow(&endless, &[], |event| event.kind == "started" && event.data["data"]["attempt"] == 2);
    client.post(&format!("/v1/jobs/{endless}/cancel"), &json!({})).expect(200);
    client.finish(&endless);
    let done = |client: &Client, spec: Value| client.finish(&client.submit(spec));
    // Counters of uploads start with the process.
    let dataset = client.dataset_of(2, 2001);
    assert_eq!(done(&client, json!({"dataset_id": dataset}))["result"]["decision"], "deploy");
    let kept = done(&client, json!({"dataset_id": dataset, "min_improvement": 0.99}));
    assert_eq!(kept["result"]["decision"], "keep");
    let dataset = client.dataset_of(3, 400);
    fs::remove_dir_all(server.data.path().join("blobs/datasets").join(&dataset)).unwrap();
    assert_eq!(done(&client, json!({"dataset_id": dataset}))["status"], "failed");
    server
}

#[test]
fn the_server_has_every_metric_of_the_dashboard_and_of_the_alerts() {
    let folder = repository().join("docker/kubernetes/monitoring");
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let server = eventful();
    // Jobs are counted in the order in which they ended, and the failed one was the last.
    let exported = || server.client().get("/metrics").text;
    common::eventually(|| exported().contains("\nguarantor_job_failures_total{"), &true);
    let exported = exported();
    let series = |name: &str| {
        let of_name = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        exported.lines().filter(of_name).collect::<Vec<_>>()
    };
    let named: BTreeSet<_> = metrics_in(&read("dashboard.json"))
        .union(&metrics_in(&read("prometheusrule.yaml")))
        .cloned()
        .collect();
    let missing: Vec<_> = named.iter().filter(|name| series(name).is_empty()).collect();
    assert!(named.len() > 15 && missing.is_empty(), "not exported: {missing:?}\n{exported}");

    let dashboard: Value = serde_json::from_str(&read("dashboard.json")).unwrap();
    let targets =
        dashboard["panels"].as_array().unwrap().iter().filter_map(|panel| panel["targets"].as_array());
    let mut labels = 0;
    for expression in targets.flatten().map(|target| target["expr"].as_str().unwrap()) {
        let name = metrics_in(expression).pop_first().unwrap();
        // Prometheus itself adds the instance.
        for label in grouped_by(expression).iter().filter(|label| *label != "instance") {
            let found = series(&name).iter().all(|line| line.contains(&format!("{label}=\"")));
            assert!(found, "{name} has no label {label}");
            labels += 1;
        }
    }
    assert!(labels > 8, "{labels}");
}
