//! Many clients on three servers, compared with one: no server error, and how much faster polling is.
//!
//! `GUARANTOR_REPLICA_SECONDS` sets the time of each measurement (default: 0, which only checks that polling works);
//! `make soak` has ten minutes. No test asserts a time, so the figures are printed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::common::{Client, Server};
use crate::crash::number;
use crate::postgres;
use crate::site::Site;

const CLIENTS: usize = 200;

/// How many polls of a job are answered in this time, by all of these servers together.
fn polls(servers: &[Server], job: &str, seconds: u64) -> u64 {
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let clients = if seconds == 0 { 6 } else { CLIENTS };
    std::thread::scope(|scope| {
        for i in 0..clients {
            let (base, stop, answered) = (&servers[i % servers.len()].base, &stop, &answered);
            scope.spawn(move || {
                let client = Client::new(base, None);
                loop {
                    let answer = client.get(&format!("/v1/jobs/{job}"));
                    assert_eq!(answer.status, 200, "{}", answer.text);
                    answered.fetch_add(1, Ordering::Relaxed);
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
    });
    answered.into_inner()
}

#[test]
fn many_clients_get_no_server_error() {
    if postgres::is_left_out() {
        return;
    }
    let seconds = number("GUARANTOR_REPLICA_SECONDS", 0);
    let site = Site::new();
    let mut servers = vec![site.server(&[("GUARANTOR_ROLE", "all")])];
    let client = servers[0].client();
    let job = client.submit(json!({"dataset_id": client.dataset(200), "bound": "cbb"}));
    client.finish(&job);
    let one = polls(&servers, &job, seconds / 10);
    servers.extend((0..2).map(|_| site.server(&[("GUARANTOR_ROLE", "api")])));
    let three = polls(&servers, &job, seconds);
    if seconds > 0 {
        let (one, three) = (one as f64 / (seconds / 10).max(1) as f64, three as f64 / seconds as f64);
        println!(
            "{CLIENTS} clients: one server answers {one:.0} polls a second, three answer {three:.0} ({:.2} times) on {} cores, \
             which the clients share",
            three / one,
            std::thread::available_parallelism().map_or(0, |n| n.get()),
        );
    }
}
