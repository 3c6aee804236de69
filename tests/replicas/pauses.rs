//! A server that is paused for longer than its lease, and comes back.

use std::time::Duration;

use crate::common::{Server, eventually};
use crate::postgres;
use crate::site::{LEASE, Site};

#[test]
fn a_paused_server_writes_nothing_when_it_comes_back() {
    if postgres::is_left_out() {
        return;
    }
    let site = Site::new();
    let log = site.directory.path().join("log");
    std::fs::write(&log, "").unwrap();
    let settings = site.settings(&[]);
    let settings: Vec<(&str, &str)> = settings.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let paused = Server::start_logging(&settings, &log);
    let dataset = paused.client().dataset(300);
    let job = paused.client().submit_endless(&dataset);
    let other = site.server(&[]);
    let client = other.client();
    let token = || site.query(&format!("SELECT lease_token FROM jobs WHERE id = '{job}'"));
    let first = token();
    paused.signal("STOP");
    // After the lease the other server starts the job again.
    eventually(|| client.get(&format!("/v1/jobs/{job}")).expect(200)["attempt"].clone(), &2.into());
    let second = token();
    assert!(second.is_some() && second != first);
    paused.signal("CONT");
    eventually(|| std::fs::read_to_string(&log).unwrap().contains("lease lost"), &true);
    // The other one still has it, and reports.
    std::thread::sleep(Duration::from_secs(LEASE));
    assert_eq!(token(), second);
    let running = client.get(&format!("/v1/jobs/{job}")).expect(200);
    assert_eq!((&running["status"], &running["attempt"]), (&"running".into(), &2.into()));
    // Any server accepts the cancellation, and the one that runs the job hears of it.
    paused.client().post(&format!("/v1/jobs/{job}/cancel"), &serde_json::Value::Null);
    assert_eq!(client.finish(&job)["status"], "cancelled");
    let kinds: Vec<String> =
        client.follow(&job, &[], |_| false).into_iter().map(|event| event.kind).collect();
    let count = |kind: &str| kinds.iter().filter(|found| *found == kind).count();
    assert_eq!((count("started"), count("requeued"), count("cancelled")), (2, 1, 1), "{kinds:?}");
}
