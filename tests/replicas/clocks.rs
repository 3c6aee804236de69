//! Servers whose clocks differ by minutes. Leases, idempotency and ages follow the database's clock, so nothing happens.

use crate::common::{Server, eventually};
use crate::postgres;
use crate::site::{LEASE, Site};

/// Debian's package faketime changes the time that a process sees.
const LIBRARIES: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
];

fn shifted(site: &Site, offset: &str) -> Server {
    let library = LIBRARIES.iter().find(|path| std::path::Path::new(path).exists());
    let library = library.expect("the test needs Debian's package faketime; tests/setup.sh installs it");
    // Timers count by the monotonic clock, which never differs in speed.
    site.server(&[("LD_PRELOAD", library), ("FAKETIME", offset), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")])
}

#[test]
fn clocks_of_servers_may_differ() {
    if postgres::is_left_out() {
        return;
    }
    let site = Site::new();
    let (late, early) = (shifted(&site, "-10m"), shifted(&site, "+10m"));
    let servers = [&late, &early];
    let job = early.client().submit_endless(&early.client().dataset(300));
    // A lease that one gives would have expired long ago by the clock of the other. None of them takes the job away.
    std::thread::sleep(std::time::Duration::from_secs(2 * LEASE));
    for server in servers {
        let found = server.client().get(&format!("/v1/jobs/{job}")).expect(200);
        assert_eq!((&found["status"], &found["attempt"]), (&"running".into(), &1.into()), "{found}");
    }
    // Every time that is stored is the database's.
    let apart = "SELECT (MAX(ABS(created_at - EXTRACT(EPOCH FROM now()) * 1000000)) < 120 * 1000000)::text \
         FROM (SELECT created_at FROM jobs UNION ALL SELECT created_at FROM datasets UNION ALL \
         SELECT created_at FROM job_events UNION ALL SELECT lease_until FROM jobs WHERE lease_until IS NOT NULL) t";
    assert_eq!(site.query(apart).as_deref(), Some("true"));
    // A key that one server holds is not free for the other.
    let spec = serde_json::json!({"dataset_id": "none"}).to_string();
    let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
    for server in servers {
        assert_eq!(server.client().send("POST", "/v1/jobs", &headers, Some(spec.as_bytes())).status, 422);
    }
    // A cancellation that one accepts stops the job on the other.
    late.client().post(&format!("/v1/jobs/{job}/cancel"), &serde_json::Value::Null);
    eventually(
        || late.client().get(&format!("/v1/jobs/{job}")).expect(200)["status"].clone(),
        &"cancelled".into(),
    );
}
