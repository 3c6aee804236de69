//! Uploads through the real server: NDJSON, compared with DuckDB converting the same file to Parquet in the same
//! run, and Parquet. Also an evaluation of 20 million rows. Prints tables, which docs/performance.md has. Without
//! DuckDB (`benches/duckdb.sh` downloads it) only our own figures are printed.
//!
//!     benches/duckdb.sh && cargo bench --bench ingest
//!     cargo bench --bench ingest -- big
//!
//! The environment variables MEGABYTES and ROWS set smaller sizes.

#[path = "../tests/common/mod.rs"]
mod common;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Array, ArrayRef, FixedSizeListArray, Float32Array, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field};
use common::{Server, id_of};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

const P: usize = 20;
const K: usize = 10;
const DUCKDB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/duckdb/bin/python");

fn main() {
    let args: Vec<String> = std::env::args().collect();
    // Under `cargo test`, benches only have to compile and start.
    if args.iter().any(|arg| arg == "--test") {
        return;
    }
    let directory = tempfile::tempdir_in(concat!(env!("CARGO_MANIFEST_DIR"), "/target")).unwrap();
    if args.iter().any(|arg| arg == "big") {
        return big(directory.path());
    }
    let megabytes = number("MEGABYTES", 1000);
    let ndjson = write_ndjson(&directory.path().join("log.ndjson"), megabytes << 20);
    let parquet = write_parquet(&directory.path().join("log.parquet"), ndjson.rows, P, Some(K), "");
    for round in 1..=number("ROUNDS", 3) {
        println!("round {round}");
        ndjson_round(&ndjson, directory.path());
        parquet_round(&parquet);
    }
}

fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

struct Log {
    path: PathBuf,
    rows: usize,
    bytes: usize,
}

fn ndjson_round(log: &Log, directory: &Path) {
    let ours = uploaded(log, "application/x-ndjson", log.bytes);
    let Some(theirs) = duckdb(log, directory) else { return };
    let theirs = log.bytes as f64 / 1e6 / theirs;
    println!("  DuckDB, NDJSON into Parquet    {theirs:>8.0} MB/s");
    println!("  ours / DuckDB                  {:>8.2}", ours / theirs);
}

fn parquet_round(log: &Log) {
    uploaded(log, "application/vnd.apache.parquet", log.bytes);
}

/// Uploads to a new server. Prints MB/s and peak memory, and returns MB/s.
fn uploaded(log: &Log, content_type: &str, bytes: usize) -> f64 {
    let server = Server::start();
    let started = Instant::now();
    let dataset = upload(&server, log, content_type);
    let speed = bytes as f64 / 1e6 / started.elapsed().as_secs_f64();
    assert_eq!(dataset["rows"], log.rows);
    println!("  {content_type:<30} {speed:>8.0} MB/s, peak {:.0} MB resident", peak(&server));
    speed
}

fn upload(server: &Server, log: &Log, content_type: &str) -> Value {
    let url = format!("{}/v1/datasets?outcome=reward", server.base);
    let file = File::open(&log.path).unwrap();
    let answer = ureq::post(url).header("content-type", content_type).send(file);
    answer.unwrap().body_mut().read_json().unwrap()
}

/// VmHWM of the server, in MB.
fn peak(server: &Server) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0 / 1e6
}

/// Seconds that DuckDB takes, without its start; None if it is not installed.
fn duckdb(log: &Log, directory: &Path) -> Option<f64> {
    if !Path::new(DUCKDB).exists() {
        return None;
    }
    let script = "import duckdb, sys, time\n\
                  db = duckdb.connect()\n\
                  began = time.perf_counter()\n\
                  db.execute(f\"COPY (SELECT * FROM read_json('{sys.argv[1]}')) TO '{sys.argv[2]}' (FORMAT parquet)\")\n\
                  print(time.perf_counter() - began)\n";
    let to = directory.join("duckdb.parquet");
    let output = Command::new(DUCKDB).args(["-c", script]).arg(&log.path).arg(&to).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // A progress bar may precede it.
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(printed.split_whitespace().last().unwrap().parse().unwrap())
}

/// Rows of a log, from a linear congruential generator, which is random enough here.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn x(&mut self) -> f32 {
        (self.unit() * 2.0 - 1.0) as f32
    }

    /// Propensities, and an action drawn from them.
    fn choice<const N: usize>(&mut self) -> ([f64; N], usize) {
        let weights: [f64; N] = std::array::from_fn(|_| 0.2 + self.unit());
        let total: f64 = weights.iter().sum();
        let pi = weights.map(|w| w / total);
        let (mut left, mut action) = (self.unit(), 0);
        while action + 1 < N && left > pi[action] {
            left -= pi[action];
            action += 1;
        }
        (pi, action)
    }
}

fn write_ndjson(path: &Path, least: usize) -> Log {
    let (mut out, mut random) = (BufWriter::new(File::create(path).unwrap()), Random(1));
    let (mut rows, mut bytes, mut line) = (0, 0, Vec::new());
    while bytes < least {
        line.clear();
        let x: [f32; P] = std::array::from_fn(|_| random.x());
        let (pi, action) = random.choice::<K>();
        let reward = u8::from(random.unit() < 0.3);
        let row = json!({ "x": x, "action": action, "propensities": pi, "reward": reward });
        writeln!(line, "{row}").unwrap();
        out.write_all(&line).unwrap();
        bytes += line.len();
        rows += 1;
    }
    out.flush().unwrap();
    Log { path: path.into(), rows, bytes }
}

fn list(values: ArrayRef, size: usize) -> ArrayRef {
    let field = Arc::new(Field::new("item", values.data_type().clone(), false));
    Arc::new(FixedSizeListArray::new(field, size as i32, values, None))
}

/// `bytes` is the size of the decoded columns.
fn write_parquet(path: &Path, rows: usize, p: usize, full: Option<usize>, candidate: &str) -> Log {
    let (mut random, mut writer, mut bytes, mut left) = (Random(2), None, 0, rows);
    while left > 0 {
        let n = left.min(1 << 16);
        let x: Vec<f32> = (0..n * p).map(|_| random.x()).collect();
        let choices: Vec<([f64; K], usize)> = (0..n).map(|_| random.choice::<K>()).collect();
        let logged = choices.iter().map(|(pi, action)| pi[*action]);
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            ("x", list(Arc::new(Float32Array::from(x)), p)),
            ("action", Arc::new(Int64Array::from_iter_values(choices.iter().map(|c| c.1 as i64)))),
            ("reward", Arc::new(Float64Array::from_iter_values((0..n).map(|_| random.unit().round())))),
        ];
        columns.push(match full {
            Some(k) => {
                let all = choices.iter().flat_map(|(pi, _)| *pi);
                ("propensities", list(Arc::new(Float64Array::from_iter_values(all)), k))
            }
            None => ("propensity", Arc::new(Float64Array::from_iter_values(logged.clone()))),
        });
        if !candidate.is_empty() {
            let values = logged.map(|pi| (1.2 * pi).min(1.0));
            columns.push((candidate, Arc::new(Float64Array::from_iter_values(values))));
        }
        bytes += columns.iter().map(|(_, array)| decoded(array, n, p)).sum::<usize>();
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let writer = writer.get_or_insert_with(|| {
            ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap()
        });
        writer.write(&batch).unwrap();
        left -= n;
    }
    writer.unwrap().close().unwrap();
    Log { path: path.into(), rows, bytes }
}

fn decoded(array: &ArrayRef, rows: usize, p: usize) -> usize {
    match array.data_type() {
        DataType::FixedSizeList(item, _) if item.data_type() == &DataType::Float32 => 4 * rows * p,
        DataType::FixedSizeList(_, size) => 8 * rows * *size as usize,
        _ => 8 * array.len(),
    }
}

/// 20 million rows: upload, evaluation of a logged candidate, and the peak memory of both.
fn big(directory: &Path) {
    let log =
        write_parquet(&directory.join("big.parquet"), number("ROWS", 20_000_000), 8, None, "candidate.new");
    println!("{} rows, p = 8, K = {K}: {:.0} MB decoded", log.rows, log.bytes as f64 / 1e6);
    let server = Server::start();
    let started = Instant::now();
    let dataset = upload(&server, &log, "application/vnd.apache.parquet");
    println!(
        "  upload      {:>6.1} s, peak {:.0} MB resident",
        started.elapsed().as_secs_f64(),
        peak(&server)
    );
    let client = server.client();
    let started = Instant::now();
    let job = client.submit(json!({
        "dataset_id": id_of(&dataset), "kind": "evaluate", "independent_of_log": true,
        "candidates": [{ "kind": "logged", "name": "new" }],
    }));
    while !matches!(
        client.get(&format!("/v1/jobs/{job}")).json["status"].as_str(),
        Some("succeeded" | "failed")
    ) {
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    let certificate = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    println!(
        "  evaluation  {:>6.1} s, peak {:.0} MB resident",
        started.elapsed().as_secs_f64(),
        peak(&server)
    );
    println!("  {}", certificate["statement"].as_str().unwrap());
}
