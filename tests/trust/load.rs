//! Many clients at once, and many jobs one after the other. There are no errors but the documented ones,
//! memory and open files do not grow, and every accepted job finishes.
//!
//! `GUARANTOR_LOAD_SECONDS` (default 12) and `GUARANTOR_SOAK_JOBS` (default 300) set the amount; `make soak` is
//! the long run. Its figures are in docs/trust.md.

use crate::common;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Answer, Client, Server, id_of, log};
use serde_json::{Value, json};

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// The resident memory of the process in kB, and the number of its open files.
fn resources(server: &Server) -> (u64, usize) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let memory = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    (memory, std::fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count())
}

/// How much the memory of an allocator varies by chance.
const SLACK_KB: u64 = 8 << 10;

/// Compares the second third of the run with the last. In the first, caches and pools of a fixed size fill up.
#[track_caller]
fn assert_flat(early: (u64, usize), late: (u64, usize), other_files: usize) {
    assert!(late.0 <= early.0 + SLACK_KB, "memory grew from {} kB to {} kB", early.0, late.0);
    assert!(late.1 <= early.1 + other_files, "open files grew from {} to {}", early.1, late.1);
}

/// The responses that clients got, and the jobs that were accepted.
#[derive(Default)]
struct Seen {
    statuses: Mutex<BTreeMap<(&'static str, u16), u64>>,
    accepted: Mutex<Vec<String>>,
    stop: AtomicBool,
}

impl Seen {
    /// Counts a response. The only server error that may occur is 503.
    fn note(&self, what: &'static str, answer: &Answer) {
        assert!(answer.status < 500 || answer.status == 503, "{what}: {} {}", answer.status, answer.text);
        *self.statuses.lock().unwrap().entry((what, answer.status)).or_default() += 1;
    }

    fn some_job(&self, turn: usize) -> Option<String> {
        let accepted = self.accepted.lock().unwrap();
        // One of the newest, because these still change.
        let recent = accepted.len().min(40);
        (recent > 0).then(|| accepted[accepted.len() - 1 - turn % recent].clone())
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

fn small_job(dataset: &str) -> Value {
    json!({"dataset_id": dataset, "bound": "cbb", "prior": {"kind": "zero"}, "optimizer": {"preset": "paper", "epochs": 3}})
}

fn upload_and_submit(client: &Client, seen: &Seen) {
    let rows = log(40);
    while !seen.stopped() {
        let uploaded = client.upload("?outcome=reward&logging=fixed", &rows);
        seen.note("upload", &uploaded);
        if uploaded.status != 201 {
            continue;
        }
        let submitted = client.post("/v1/jobs", &small_job(&id_of(&uploaded.json)));
        seen.note("submit", &submitted);
        if submitted.status == 202 {
            seen.accepted.lock().unwrap().push(id_of(&submitted.json));
        } else {
            assert_eq!(submitted.json["code"], "queue_full", "{}", submitted.text);
            assert!(submitted.header("retry-after").is_some());
        }
    }
}

fn poll(client: &Client, seen: &Seen, mut turn: usize) {
    while !seen.stopped() {
        turn += 1;
        match seen.some_job(turn) {
            Some(job) if turn.is_multiple_of(8) => {
                seen.note("wait", &client.get(&format!("/v1/jobs/{job}?wait=1")))
            }
            Some(job) => seen.note("poll", &client.get(&format!("/v1/jobs/{job}"))),
            None => std::thread::yield_now(),
        }
        if turn.is_multiple_of(16) {
            seen.note("list", &client.get("/v1/datasets?limit=5"));
        }
    }
}

fn stream(client: &Client, seen: &Seen, mut turn: usize) {
    while !seen.stopped() {
        turn += 7;
        let Some(job) = seen.some_job(turn) else {
            std::thread::yield_now();
            continue;
        };
        let events = client.follow(&job, &[], |_| seen.stopped());
        assert!(!events.is_empty(), "a stream without events");
        *seen.statuses.lock().unwrap().entry(("stream", 200)).or_default() += 1;
    }
}

#[test]
fn two_hundred_clients_on_a_full_queue() {
    let seconds = number("GUARANTOR_LOAD_SECONDS", 12);
    let settings = [
        ("GUARANTOR_MAX_QUEUED_JOBS", "40"),
        ("GUARANTOR_MAX_QUEUED_JOBS_PER_WORKSPACE", "40"),
        ("GUARANTOR_LOG_FILTER", "error"),
    ];
    let server = Server::start_with(&settings);
    let seen = Seen::default();
    let began = Instant::now();
    let (mut first, mut early, mut late) = ((0, 0), (0, 0), (0, 0));
    std::thread::scope(|scope| {
        for client in 0..200 {
            let (seen, server) = (&seen, &server);
            scope.spawn(move || match client % 5 {
                0 => upload_and_submit(&server.client(), seen),
                1 => stream(&server.client(), seen, client),
                _ => poll(&server.client(), seen, client),
            });
        }
        // The load runs meanwhile. The maximum of each third counts.
        for (third, most) in [None, Some(&mut early), Some(&mut late)].into_iter().enumerate() {
            let most = most.unwrap_or(&mut first);
            while began.elapsed() < Duration::from_secs(seconds).mul_f64((third + 1) as f64 / 3.0) {
                std::thread::sleep(Duration::from_millis(100));
                let (memory, files) = resources(&server);
                *most = (most.0.max(memory), most.1.max(files));
            }
        }
        seen.stop.store(true, Ordering::SeqCst);
    });
    let client = server.client();
    let accepted = seen.accepted.into_inner().unwrap();
    for job in &accepted {
        let done = client.finish(job);
        assert_eq!(done["status"], "succeeded", "{done}");
    }
    let statuses = seen.statuses.into_inner().unwrap();
    println!(
        "{seconds} s of 200 clients ({:.0} s with the rest of the queue): {} jobs accepted and finished; memory \
         {} kB in the second third, {} kB in the last; files {} and {}; answers {statuses:?}",
        began.elapsed().as_secs_f64(),
        accepted.len(),
        early.0,
        late.0,
        early.1,
        late.1,
    );
    assert!(
        statuses.keys().any(|(what, status)| (*what, *status) == ("submit", 429)),
        "the queue was never full"
    );
    assert!(statuses.contains_key(&("stream", 200)) && statuses.contains_key(&("poll", 200)));
    // Each client has a connection, which is a file; a few more are opened and closed.
    assert_flat(early, late, 16);
}

#[test]
fn many_jobs_do_not_grow_memory() {
    let jobs = number("GUARANTOR_SOAK_JOBS", 300);
    let server = Server::start_with(&[("GUARANTOR_LOG_FILTER", "error")]);
    let client = server.client();
    let dataset = client.dataset(60);
    let began = Instant::now();
    let (mut done, mut early, mut late) = (0, (0, 0), (0, 0));
    while done < jobs {
        let batch: Vec<String> =
            (0..50.min(jobs - done)).map(|_| client.submit(small_job(&dataset))).collect();
        for job in &batch {
            assert_eq!(client.finish(job)["status"], "succeeded");
        }
        done += batch.len() as u64;
        let (memory, files) = resources(&server);
        let third = if done * 3 > 2 * jobs { &mut late } else { &mut early };
        if done * 3 > jobs {
            *third = (third.0.max(memory), third.1.max(files));
        }
    }
    println!(
        "{jobs} jobs in {:.0} s; memory {} kB in the second third, {} kB in the last; files {} and {}",
        began.elapsed().as_secs_f64(),
        early.0,
        late.0,
        early.1,
        late.1
    );
    assert_flat(early, late, 4);
}
