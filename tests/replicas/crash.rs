//! Three servers on one database and one bucket, any of which is killed with SIGKILL at random moments, and started again.
//! Clients repeat what is not answered, on any server. At the end exactly what was acknowledged must be there.
//!
//! `GUARANTOR_REPLICA_KILLS` sets the number of kills (default 20); `make soak` has 200.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Client, Server};
use crate::postgres;
use crate::site::Site;
use crate::workload::{Fleet, Random, Worker, check};

const SERVERS: usize = 3;
const CLIENTS: u64 = 3;

pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn kills_of_any_server_neither_lose_nor_double_anything() {
    if postgres::is_left_out() {
        return;
    }
    let kills = number("GUARANTOR_REPLICA_KILLS", 20);
    let site = Site::new();
    let mut servers: Vec<Server> = (0..SERVERS).map(|_| site.server(&[])).collect();
    let fleet = Fleet(RwLock::new(servers.iter().map(|server| server.base.clone()).collect()));
    let mut workers: Vec<Worker> = (0..CLIENTS).map(|number| Worker::new(1, number)).collect();
    let (stop, mut random, began) = (AtomicBool::new(false), Random(7), Instant::now());
    std::thread::scope(|scope| {
        for worker in &mut workers {
            let (fleet, stop) = (&fleet, &stop);
            scope.spawn(move || worker.work(fleet, stop));
        }
        for _ in 0..kills {
            // The random moment of the kill; nothing is waited for here.
            std::thread::sleep(Duration::from_millis(50 + random.below(400)));
            let victim = random.below(SERVERS as u64) as usize;
            servers[victim].kill();
            servers[victim].restart();
            fleet.0.write().unwrap()[victim] = servers[victim].base.clone();
        }
        stop.store(true, Ordering::SeqCst);
    });
    let clients: Vec<Client> = servers.iter().map(Server::client).collect();
    let statuses = check(&clients, &workers);
    let restarted = site.query("SELECT COUNT(*)::text FROM job_events WHERE kind = 'requeued'").unwrap();
    let (answered, repeated) =
        workers.iter().fold((0, 0), |(a, r), worker| (a + worker.answered, r + worker.repeated));
    println!(
        "{kills} kills in {:.0} s: {answered} requests answered, {repeated} of them after a repetition; jobs {statuses}; \
         {restarted} jobs started again",
        began.elapsed().as_secs_f64()
    );
    check_rows(&site);
    // A run in which no kill interrupted anything would show nothing.
    assert!(repeated > kills / 4, "{repeated}");
}

/// Looks are numbered without gaps, and every file that a row names is in the bucket.
pub fn check_rows(site: &Site) {
    let gaps = "SELECT COUNT(*)::text FROM (SELECT g.looks, COUNT(k.look) AS entries FROM ledgers g \
         LEFT JOIN ledger k ON k.ledger_id = g.id GROUP BY g.id, g.looks) l WHERE looks <> entries";
    assert_eq!(site.query(gaps).as_deref(), Some("0"));
    let doubled = "SELECT COUNT(*)::text FROM jobs j WHERE j.status = 'succeeded' AND \
         (SELECT COUNT(*) FROM ledger k WHERE k.job_id = j.id) <> 1";
    assert_eq!(site.query(doubled).as_deref(), Some("0"));
    let keys = site.query("SELECT string_agg(key, ' ') FROM blobs").unwrap_or_default();
    for key in keys.split_whitespace() {
        let file = site.bucket.files().join("data/p").join(key);
        assert!(file.is_file(), "{key} is named and missing");
    }
}
