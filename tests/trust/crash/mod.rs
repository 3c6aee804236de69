//! The real binary under a workload from several clients, killed with SIGKILL at random moments.
//!
//! Each client repeats a request that was not answered, with the same idempotency key, until it is.
//! So at the end what is stored must be exactly what was answered: nothing lost, nothing twice,
//! nothing half. After every kill, before the next start, `inspect` reads the whole data directory
//! and compares it with what each client was told; after every start nothing may be left of the
//! files that no row named.
//!
//! `GUARANTOR_CRASHES` sets the number of kills, `GUARANTOR_CRASH_SEED` the seed.

use crate::common;
mod inspect;
mod workload;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::Server;
use inspect::Inspector;
use workload::{Random, Worker};

const CLIENTS: u64 = 4;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn nothing_is_lost_doubled_or_halved_by_kills() {
    let kills = number("GUARANTOR_CRASHES", 50);
    let seed = number("GUARANTOR_CRASH_SEED", 1);
    println!("seed {seed}, {kills} kills");
    // Attempts are bounded for jobs that kill their process; here it is killed all the time.
    let settings = [("GUARANTOR_MAX_ATTEMPTS", "100000"), ("GUARANTOR_WORKERS", "2")];
    let mut server = Server::start_with(&settings);
    let mut inspector = Inspector::new(server.data.path());
    let mut workers: Vec<Worker> = (0..CLIENTS).map(|i| Worker::new(seed, i)).collect();
    let mut random = Random::new(seed);
    let (began, mut interrupted) = (Instant::now(), 0);
    for kill in 1..=kills {
        let wait = Duration::from_millis(20 + random.below(330));
        run_until_killed(&mut server, &mut workers, wait);
        let mut orphans = inspector.inspect(&workers, kill);
        // Sometimes it does not get as far as listening: recovery and sweep are hit in their middle.
        while random.below(4) == 0 {
            server.restart_and_kill(Duration::from_millis(random.below(60)));
            interrupted += 1;
            orphans = inspector.inspect(&workers, kill);
        }
        server.restart();
        for file in &orphans {
            assert!(!file.exists(), "after kill {kill} the sweep left {}", file.display());
        }
    }
    let client = server.client();
    for worker in &mut workers {
        worker.settle(&client);
    }
    inspector.finish(&client, &workers, kills);
    let done: Vec<String> =
        workload::totals(&workers).iter().map(|(what, n)| format!("{n} {what}")).collect();
    println!(
        "{kills} kills and {interrupted} during a start in {:.0} s: answered {}; unanswered and repeated {}; \
         files swept {}; jobs started again {}",
        began.elapsed().as_secs_f64(),
        done.join(", "),
        workers.iter().map(|worker| worker.repeated).sum::<u64>(),
        inspector.swept,
        inspector.restarted,
    );
    // A run in which no kill hit anything would show nothing.
    assert!(workers.iter().map(|worker| worker.repeated).sum::<u64>() > kills / 4);
    assert!(inspector.restarted > 0);
}

/// Lets the clients work for `wait`, then kills the server and has each client notice.
fn run_until_killed(server: &mut Server, workers: &mut [Worker], wait: Duration) {
    let dead = AtomicBool::new(false);
    let base = server.base.clone();
    std::thread::scope(|scope| {
        for worker in workers.iter_mut() {
            let (dead, base) = (&dead, &base);
            scope.spawn(move || worker.work(base, dead));
        }
        // The moment is the random part of the test, not something that it waits for.
        std::thread::sleep(wait);
        server.kill();
        dead.store(true, Ordering::SeqCst);
    });
}
