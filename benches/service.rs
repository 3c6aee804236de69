//! The speed of the service: time to ready, a small job from submission to certificate, and polling while
//! the compute threads are busy. Prints a table; docs/performance.md contains one.
//!
//!     cargo bench --bench service

#[path = "../tests/common/mod.rs"]
mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Server, log_of};
use serde_json::json;

fn main() {
    // `cargo test` only checks that benches compile and start.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    println!(
        "ready after start            {:>9.1} ms (median of 5)",
        median((0..5).map(|_| ready()).collect())
    );
    let server = Server::start();
    let jobs = (0..20).map(|_| small_job(&server)).collect();
    println!("job of 1000 rows             {:>9.1} ms (median of 20, submit to certificate)", median(jobs));
    let path = format!("/v1/jobs/{}", finished_job(&server));
    polling_while_computing(&server, &path);
    compare(&server, &path);
}

/// Measures the service and a bare axum handler in turn, several times, so that other load affects both.
fn compare(server: &Server, path: &str) {
    const ROUNDS: usize = 9;
    let bare = Bare::start(server, path);
    let mut rounds: Vec<(f64, f64)> = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push((throughput(&server.base, path), throughput(&bare.base, path)));
    }
    let mut shares: Vec<f64> = rounds.iter().map(|(service, bare)| service / bare).collect();
    shares.sort_by(f64::total_cmp);
    let typical = |side: fn(&(f64, f64)) -> f64| median(rounds.iter().map(side).collect());
    println!("polling throughput           {:>9.0} requests/s (median of {ROUNDS})", typical(|r| r.0));
    println!("bare axum handler            {:>9.0} requests/s (median of {ROUNDS})", typical(|r| r.1));
    println!(
        "share                        {:>9.2} (median of {ROUNDS}, {:.2} to {:.2})",
        shares[ROUNDS / 2],
        shares[0],
        shares[ROUNDS - 1]
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn ready() -> f64 {
    let started = Instant::now();
    let server = Server::start();
    assert_eq!(server.client().get("/readyz").status, 200);
    started.elapsed().as_secs_f64() * 1e3
}

fn small_job(server: &Server) -> f64 {
    let client = server.client();
    let dataset = client.dataset(1000);
    let started = Instant::now();
    let job = client.submit(json!({"dataset_id": dataset}));
    client.finish(&job);
    client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    started.elapsed().as_secs_f64() * 1e3
}

fn finished_job(server: &Server) -> String {
    let client = server.client();
    let job = client.submit(json!({"dataset_id": client.dataset(1000)}));
    client.finish(&job);
    job
}

/// A connection that is kept open, with as little client code as possible.
struct Connection {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
}

impl Connection {
    fn new(base: &str, path: &str) -> Connection {
        let stream = TcpStream::connect(base.strip_prefix("http://").unwrap()).unwrap();
        stream.set_nodelay(true).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes();
        Connection { stream: BufReader::new(stream), request }
    }

    fn ask(&mut self) {
        self.stream.get_mut().write_all(&self.request).unwrap();
        let (mut line, mut length, mut good) = (String::new(), 0, false);
        loop {
            line.clear();
            self.stream.read_line(&mut line).unwrap();
            good |= line.starts_with("HTTP/1.1 200");
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        assert!(good);
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
    }
}

/// 500 requests per second, each timed from when it was due, so that queueing counts.
fn polling_while_computing(server: &Server, path: &str) {
    const RATE: usize = 500;
    const CONNECTIONS: usize = 10;
    const SECONDS: usize = 10;
    let client = server.client();
    let dataset = client.upload("?outcome=reward&logging=fixed", &log_of(2, 50_000)).expect(201);
    let running = client.submit_endless(dataset["id"].as_str().unwrap());
    let start = Instant::now() + Duration::from_millis(100);
    let poll = |lane: usize| {
        let mut connection = Connection::new(&server.base, path);
        let mut times = Vec::new();
        for i in 0..RATE * SECONDS / CONNECTIONS {
            let due = start + Duration::from_secs_f64((i * CONNECTIONS + lane) as f64 / RATE as f64);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            connection.ask();
            times.push(due.elapsed().as_secs_f64() * 1e3);
        }
        times
    };
    let mut times: Vec<f64> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..CONNECTIONS).map(|lane| scope.spawn(move || poll(lane))).collect();
        lanes.into_iter().flat_map(|lane| lane.join().unwrap()).collect()
    });
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "polling at {RATE}/s, computing   p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    client.send("POST", &format!("/v1/jobs/{running}/cancel"), &[], None).expect(200);
    client.finish(&running);
}

/// Requests per second over a few connections, each sending the next request after the response.
fn throughput(base: &str, path: &str) -> f64 {
    let (stop, started) = (AtomicBool::new(false), Instant::now());
    let ask = || {
        let (mut connection, mut count) = (Connection::new(base, path), 0u64);
        while !stop.load(Ordering::Relaxed) {
            connection.ask();
            count += 1;
        }
        count
    };
    let total: u64 = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        std::thread::sleep(Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
        lanes.into_iter().map(|lane| lane.join().unwrap()).sum()
    });
    total as f64 / started.elapsed().as_secs_f64()
}

/// A handler that returns the same bytes and does nothing else.
struct Bare {
    base: String,
    _runtime: tokio::runtime::Runtime,
}

impl Bare {
    fn start(server: &Server, path: &str) -> Bare {
        let body = server.client().get(path).text;
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let handler = move || std::future::ready(([("content-type", "application/json")], body.clone()));
        let router = axum::Router::new().route(path, axum::routing::get(handler));
        runtime.spawn(async move { axum::serve(listener, router).await });
        Bare { base, _runtime: runtime }
    }
}
