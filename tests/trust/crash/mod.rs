//! The real binary with several clients, killed with SIGKILL at random moments.
//!
//! Each client repeats a request that was not answered, with the same idempotency key, until it is. So at
//! the end exactly what was acknowledged must be stored: nothing lost, duplicated or half-stored. After every
//! kill and before the next start, `inspect` reads the whole data directory and compares it with what each
//! client was told. After every start, no file may be left that no row names.
//!
//! A webhook is told about every job that ends. Its receiver answers some requests with an error and some not at all. At
//! the end it must have got the event of every job, each under one id.
//!
//! `GUARANTOR_CRASHES` sets the number of kills (default 50), `GUARANTOR_CRASH_SEED` the seed (default 1).
//! `make crash` is the long run. Its figures are in docs/trust.md.

use crate::common;
mod inspect;
mod workload;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::Server;
use common::receiver::{Receiver, Reply};
use inspect::Inspector;
use workload::{Random, Secrets, Worker};

const CLIENTS: u64 = 4;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn kills_neither_lose_duplicate_nor_half_store_anything() {
    let kills = number("GUARANTOR_CRASHES", 50);
    let seed = number("GUARANTOR_CRASH_SEED", 1);
    println!("seed {seed}, {kills} kills");
    // max_attempts is for jobs that kill their process. Here the process is killed all the time.
    let receiver = Receiver::answering(|number, _| match number % 7 {
        3 => Reply::Status(503, ""),
        5 => Reply::Close,
        _ => Reply::Status(204, ""),
    });
    let allow = receiver.url();
    let settings = [
        ("GUARANTOR_MAX_ATTEMPTS", "100000"),
        ("GUARANTOR_WORKERS", "2"),
        ("GUARANTOR_WEBHOOK_ALLOW", allow.as_str()),
    ];
    let mut server = Server::start_with(&settings);
    let key = |role| server.create_key_with_role("default", role);
    let secrets = Secrets { admin: key("admin"), read: key("read") };
    // From its start the next process knows that there are keys.
    server.kill();
    server.restart();
    let client = server.client().with_key(&secrets.admin);
    client.post("/v1/webhooks", &serde_json::json!({"url": receiver.url()})).expect(201);
    let mut inspector = Inspector::new(server.data.path());
    let mut workers: Vec<Worker> = (0..CLIENTS).map(|i| Worker::new(seed, i, secrets.clone())).collect();
    let mut random = Random::new(seed);
    let (began, mut interrupted) = (Instant::now(), 0);
    for kill in 1..=kills {
        let wait = Duration::from_millis(20 + random.below(330));
        run_until_killed(&mut server, &mut workers, wait);
        let mut orphans = inspector.inspect(&workers, kill);
        // Sometimes it is killed before it listens, in the middle of recovery and sweep.
        while random.below(4) == 0 {
            server.restart_and_kill(Duration::from_millis(random.below(60)));
            interrupted += 1;
            orphans = inspector.inspect(&workers, kill);
        }
        server.restart();
        for file in &orphans {
            assert!(!file.exists(), "after kill {kill}: the sweep left {}", file.display());
        }
    }
    let client = server.client().with_key(&secrets.admin);
    for worker in &mut workers {
        worker.settle(&client);
    }
    inspector.finish(&client, &workers, kills);
    let (events, repeated) = inspector.check_events(&client, &receiver);
    let done: Vec<String> =
        workload::totals(&workers).iter().map(|(what, n)| format!("{n} {what}")).collect();
    println!(
        "{kills} kills and {interrupted} during a start in {:.0} s: answered {}; unanswered and repeated {}; \
         files swept {}; jobs started again {}; events {events}, of which {repeated} were sent more than once",
        began.elapsed().as_secs_f64(),
        done.join(", "),
        workers.iter().map(|worker| worker.repeated).sum::<u64>(),
        inspector.swept,
        inspector.restarted,
    );
    // A run in which no kill interrupted anything would show nothing.
    assert!(workers.iter().map(|worker| worker.repeated).sum::<u64>() > kills / 4);
    assert!(inspector.restarted > 0);
}

/// Lets the clients work for `wait`, then kills the server and waits until each client has noticed.
fn run_until_killed(server: &mut Server, workers: &mut [Worker], wait: Duration) {
    let dead = AtomicBool::new(false);
    let base = server.base.clone();
    std::thread::scope(|scope| {
        for worker in workers.iter_mut() {
            let (dead, base) = (&dead, &base);
            scope.spawn(move || worker.work(base, dead));
        }
        // The random moment of the kill; nothing is waited for here.
        std::thread::sleep(wait);
        server.kill();
        dead.store(true, Ordering::SeqCst);
    });
}
