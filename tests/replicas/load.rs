//! Many clients on three servers: no server error, nothing lost, and how much faster polling is than on one server.
//!
//! `GUARANTOR_REPLICA_SECONDS` sets the time of the load (default: 0, which only checks that everything works); `make soak`
//! has ten minutes. No test asserts a time, so the figures are printed.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::common::{Client, Server};
use crate::crash::{check_rows, number};
use crate::postgres;
use crate::quota::Quota;
use crate::site::Site;
use crate::workload::{Fleet, Worker, check};

const CLIENTS: usize = 200;
/// The clients that upload, submit, cancel and delete. The others read.
const WORKERS: u64 = 4;
/// How much of a core each server gets where three are compared with one: little, so that the clients can keep up.
const PERCENT: u64 = 5;

/// Clients that read these paths again and again until `stop`, at least once each. Returns how many answers they got.
fn reading(servers: &[Server], paths: &[String], clients: usize, stop: &AtomicBool) -> u64 {
    let answered = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for i in 0..clients {
            let (base, path, answered) =
                (&servers[i % servers.len()].base, &paths[i / servers.len() % paths.len()], &answered);
            scope.spawn(move || {
                let client = Client::new(base, None);
                loop {
                    let answer = client.get(path);
                    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
                    answered.fetch_add(1, Ordering::Relaxed);
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                }
            });
        }
    });
    answered.into_inner()
}

/// The same for some time.
fn reads_in(seconds: u64, servers: &[Server], paths: &[String], clients: usize) -> u64 {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers = scope.spawn(|| reading(servers, paths, clients, &stop));
        std::thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Ordering::SeqCst);
        readers.join().unwrap()
    })
}

#[test]
fn many_clients_get_no_server_error() {
    if postgres::is_left_out() {
        return;
    }
    let seconds = number("GUARANTOR_REPLICA_SECONDS", 0);
    let site = Site::new();
    let servers: Vec<Server> = (0..3).map(|_| site.server(&[])).collect();
    let fleet = Fleet(RwLock::new(servers.iter().map(|server| server.base.clone()).collect()));
    let mut workers: Vec<Worker> = (0..WORKERS).map(|number| Worker::new(3, number)).collect();
    // What is read belongs to one that does nothing else, so that nobody deletes it.
    let mut owner = Worker::new(3, WORKERS);
    let (dataset, job) = owner.first_job(&fleet);
    servers[0].client().finish(&job);
    let paths = [
        format!("/v1/jobs/{job}"),
        format!("/v1/jobs/{job}/certificate"),
        format!("/v1/datasets/{dataset}"),
        "/v1/jobs?limit=20".into(),
        "/readyz".into(),
    ];
    let stop = AtomicBool::new(false);
    let readers = if seconds == 0 { 15 } else { CLIENTS - WORKERS as usize };
    let read = std::thread::scope(|scope| {
        for worker in &mut workers {
            let (fleet, stop) = (&fleet, &stop);
            scope.spawn(move || worker.work(fleet, stop));
        }
        let read = reads_in(seconds, &servers, &paths, readers);
        stop.store(true, Ordering::SeqCst);
        read
    });
    workers.push(owner);
    assert_eq!(workers.iter().map(|worker| worker.failed).sum::<u64>(), 0, "server errors");
    let clients: Vec<Client> = servers.iter().map(Server::client).collect();
    let statuses = check(&clients, &workers);
    check_rows(&site);
    let written: u64 = workers.iter().map(|worker| worker.answered).sum();
    println!(
        "{} clients on three servers for {seconds} s: {read} reads, {written} other requests, jobs {statuses}; no server error",
        readers + WORKERS as usize
    );
}

#[test]
fn three_servers_answer_more_polls_than_one() {
    if postgres::is_left_out() {
        return;
    }
    let seconds = number("GUARANTOR_REPLICA_SECONDS", 0) / 10;
    let site = Site::new();
    let mut servers = vec![site.server(&[])];
    let client = servers[0].client();
    let job = client.submit(json!({"dataset_id": client.dataset(200), "bound": "cbb"}));
    client.finish(&job);
    servers.extend((0..2).map(|_| site.server(&[("GUARANTOR_ROLE", "api")])));
    let (paths, clients) = ([format!("/v1/jobs/{job}")], if seconds == 0 { 6 } else { CLIENTS });
    let rate =
        |servers: &[Server]| reads_in(seconds, servers, &paths, clients) as f64 / seconds.max(1) as f64;
    let free = [rate(&servers[..1]), rate(&servers)];
    let quotas: Option<Vec<Quota>> = servers.iter().map(|server| Quota::of(server.id(), PERCENT)).collect();
    let limited = quotas.as_ref().map(|_| [rate(&servers[..1]), rate(&servers)]);
    if seconds > 0 {
        let cores = std::thread::available_parallelism().map_or(0, |n| n.get());
        print_rates(&format!("on {cores} cores, which clients and PostgreSQL share"), free);
        match limited {
            Some(rates) => print_rates(&format!("each server on {PERCENT} % of a core"), rates),
            None => println!("shares of cores need root and control groups"),
        }
    }
    // Control groups are removed once they are empty.
    drop(servers);
}

fn print_rates(how: &str, [one, three]: [f64; 2]) {
    println!(
        "{CLIENTS} clients, {how}: one server answers {one:.0} polls a second, three {three:.0} ({:.2} times)",
        three / one
    );
}
