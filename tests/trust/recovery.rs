//! A job whose server was killed is started again and gives the same numbers.

use crate::common;

use common::Server;
use serde_json::{Value, json};

fn spec(dataset: &str) -> Value {
    // Enough epochs that the kill comes in the middle. The number of epochs does not depend on the clock.
    json!({"dataset_id": dataset, "bound": "cbb", "optimizer": {"preset": "paper", "epochs": 3000}})
}

#[test]
fn kill_9_during_a_job_changes_nothing_but_the_attempt() {
    let mut server = Server::start();
    let client = server.client();
    let dataset = client.dataset(2000);
    let undisturbed = client.submit(spec(&dataset));
    let undisturbed = client.finish(&undisturbed);
    assert_eq!((&undisturbed["status"], &undisturbed["attempt"]), (&json!("succeeded"), &json!(1)));

    let job = client.submit(spec(&dataset));
    let seen = client.follow(&job, &[], |event| event.kind == "progress");
    assert_eq!(seen[seen.len() - 1].kind, "progress", "the job ended before it could be killed: {seen:?}");
    server.kill();
    server.restart();
    let client = server.client();
    let done = client.finish(&job);
    assert_eq!((&done["status"], &done["attempt"]), (&json!("succeeded"), &json!(2)), "{done}");
    for number in ["decision", "guaranteed_risk", "guaranteed_improvement", "baseline_risk"] {
        assert_eq!(done["result"][number], undisturbed["result"][number], "{number}");
    }
    let digest = |job: &Value| {
        client.get(job["result"]["certificate_url"].as_str().unwrap()).expect(200)["digest"].clone()
    };
    assert_eq!(digest(&done), digest(&undisturbed));
    let last = seen[seen.len() - 1].id.to_string();
    let rest = client.follow(&job, &[("last-event-id", &last)], |_| false);
    assert_eq!(rest[rest.len() - 1].kind, "succeeded");
}
