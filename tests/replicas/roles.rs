//! Servers that answer requests and servers that run jobs.

use serde_json::json;

use crate::common::id_of;
use crate::postgres;
use crate::site::Site;

#[test]
fn long_polls_and_streams_follow_jobs_of_other_servers() {
    if postgres::is_left_out() {
        return;
    }
    let site = Site::new();
    let api = [site.server(&[("GUARANTOR_ROLE", "api")]), site.server(&[("GUARANTOR_ROLE", "api")])];
    let (one, two) = (api[0].client(), api[1].client());
    let dataset = one.dataset(300);
    let waiting = one.submit(json!({"dataset_id": dataset, "bound": "cbb"}));
    // Nobody runs it.
    assert_eq!(two.get(&format!("/v1/jobs/{waiting}?wait=1")).expect(200)["status"], "queued");
    std::thread::scope(|scope| {
        // They wait before there is a worker, on both servers.
        let polls = [&one, &two].map(|client| {
            let path = format!("/v1/jobs/{waiting}?wait=60");
            scope.spawn(move || client.get(&path).expect(200))
        });
        let streams = [&one, &two].map(|client| {
            let waiting = waiting.clone();
            scope.spawn(move || client.follow(&waiting, &[], |_| false))
        });
        let worker = site.server(&[("GUARANTOR_ROLE", "worker")]);
        for poll in polls {
            assert_eq!(poll.join().unwrap()["status"], "succeeded");
        }
        for stream in streams {
            let kinds: Vec<String> = stream.join().unwrap().into_iter().map(|event| event.kind).collect();
            assert_eq!(kinds.first().map(String::as_str), Some("queued"));
            assert_eq!(kinds.last().map(String::as_str), Some("succeeded"), "{kinds:?}");
        }
        // A worker is asked for its health only.
        let client = worker.client();
        client.get("/readyz").expect(200);
        assert!(client.get("/metrics").text.contains("guarantor_jobs_total"));
        client.get("/v1/jobs").problem(404, "no_such_route");
        client.get("/").problem(404, "no_such_route");
        // A cancellation on one server, of a job on another, which a third one follows.
        let job = one.submit_endless(&dataset);
        std::thread::scope(|scope| {
            let follow = scope.spawn(|| two.follow(&job, &[], |event| event.kind == "cancelled"));
            one.post(&format!("/v1/jobs/{job}/cancel"), &serde_json::Value::Null);
            assert_eq!(follow.join().unwrap().last().unwrap().kind, "cancelled");
        });
        let certificate = two.get(&format!("/v1/jobs/{waiting}/certificate")).expect(200);
        assert_eq!(id_of(&json!({"id": certificate["issued"]["job_id"]})), waiting);
    });
}
