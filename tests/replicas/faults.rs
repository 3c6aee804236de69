//! The bucket answers 500 and 503, or slowly, or not at all.

use serde_json::json;

use crate::bucket::Mood;
use crate::common::{eventually, id_of, log_of};
use crate::crash::check_rows;
use crate::postgres;
use crate::site::Site;

#[test]
fn failures_of_the_bucket_are_repeated() {
    if postgres::is_left_out() {
        return;
    }
    let site = Site::new();
    let server = site.server(&[]);
    let client = server.client();
    for (seed, mood) in [Mood::Sometimes(500), Mood::Sometimes(503), Mood::Slow(150)].into_iter().enumerate()
    {
        let before = site.bucket.failed();
        site.bucket.set(mood);
        let rows = log_of(seed as u64 + 10, 200);
        let dataset = id_of(&client.upload("?outcome=reward&logging=fixed", &rows).expect(201));
        let job = client.submit(json!({"dataset_id": dataset, "bound": "cbb"}));
        let done = client.finish(&job);
        assert_eq!(done["status"], "succeeded", "{mood:?}: {done}");
        assert_eq!(done["attempt"], 1, "{mood:?}: {done}");
        client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
        assert!(site.bucket.failed() > before || matches!(mood, Mood::Slow(_)), "{mood:?}: nothing failed");
    }
    site.bucket.set(Mood::Well);
    check_rows(&site);
}

#[test]
fn a_server_is_not_ready_while_the_bucket_is_gone() {
    if postgres::is_left_out() {
        return;
    }
    let site = Site::new();
    let server = site.server(&[]);
    let client = server.client();
    client.get("/readyz").expect(200);
    site.bucket.set(Mood::Always(503));
    client.get("/readyz").problem(503, "unavailable");
    client.get("/livez").expect(200);
    // What needs no file is served.
    client.get("/v1/jobs").expect(200);
    site.bucket.set(Mood::Well);
    eventually(|| client.get("/readyz").status, &200);
}
