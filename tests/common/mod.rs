//! The real binary on a free port, and a client that keeps everything it was answered.

#![allow(dead_code)] // each test file uses its own part of this

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use ureq::Agent;

pub const BINARY: &str = env!("CARGO_BIN_EXE_guarantor");

/// A server process with a data directory of its own. Dropping it kills it.
pub struct Server {
    child: Child,
    pub base: String,
    pub data: DataDir,
    log: Option<std::path::PathBuf>,
    environment: Vec<(String, String)>,
}

impl Server {
    pub fn start() -> Server {
        Server::start_with(&[])
    }

    pub fn start_with(environment: &[(&str, &str)]) -> Server {
        Server::with_data(DataDir::Own(tempfile::tempdir().unwrap()), environment)
    }

    /// On a directory that is there already and stays when the server goes.
    pub fn start_on(directory: &std::path::Path, environment: &[(&str, &str)]) -> Server {
        Server::with_data(DataDir::Given(directory.to_owned()), environment)
    }

    fn with_data(data: DataDir, environment: &[(&str, &str)]) -> Server {
        let environment: Vec<_> = environment.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let (child, base) = spawn(data.path(), &environment, None);
        Server { child, base, data, environment, log: None }
    }

    /// With what it logs appended to a file.
    pub fn start_logging(environment: &[(&str, &str)], log: &std::path::Path) -> Server {
        let environment: Vec<_> = environment.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let data = DataDir::Own(tempfile::tempdir().unwrap());
        let (child, base) = spawn(data.path(), &environment, Some(log));
        Server { child, base, data, environment, log: Some(log.to_owned()) }
    }

    /// As another user, where one is given. None where that user cannot run the binary.
    pub fn start_as(user: Option<u32>, directory: &std::path::Path) -> Option<Server> {
        use std::os::unix::process::CommandExt;
        let mut command = serve(directory, &[]);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let child = command.current_dir("/").spawn().ok()?;
        let (child, base) = listening(child);
        let data = DataDir::Given(directory.to_owned());
        Some(Server { child, base, data, environment: vec![], log: None })
    }

    /// What a server says that must not start on this directory.
    pub fn refused_on(directory: &std::path::Path) -> String {
        let mut child = serve(directory, &[]).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if !line.is_empty() {
            child.kill().unwrap();
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "it should not have started: {line}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Another process on the same data.
    pub fn restart(&mut self) {
        (self.child, self.base) = spawn(self.data.path(), &self.environment, self.log.as_deref());
    }

    /// Another process on the same data, killed before anybody has waited for it to listen.
    pub fn restart_and_kill(&mut self, after: std::time::Duration) {
        self.child = serve(self.data.path(), &self.environment).spawn().unwrap();
        std::thread::sleep(after);
        self.kill();
    }

    /// Of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// As a crash: no signal handler runs.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// As an orchestrator does. Returns whether the process ended well.
    pub fn terminate(&mut self) -> bool {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.child.wait().unwrap().success()
    }

    pub fn client(&self) -> Client {
        Client::new(&self.base, None)
    }

    /// A key of `workspace`, made by the command line while the server runs.
    pub fn create_key(&self, workspace: &str) -> String {
        let output = self.keys(&["create", "--workspace", workspace, "--name", "test"]);
        output.trim().to_owned()
    }

    pub fn keys(&self, args: &[&str]) -> String {
        let data = self.data.path().to_str().unwrap();
        let output = Command::new(BINARY).arg("keys").args(args).args(["--data-dir", data]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Where a server keeps its data: a directory that goes with it, or one that stays.
pub enum DataDir {
    Own(tempfile::TempDir),
    Given(std::path::PathBuf),
}

impl DataDir {
    pub fn path(&self) -> &std::path::Path {
        match self {
            DataDir::Own(directory) => directory.path(),
            DataDir::Given(directory) => directory,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(
    data: &std::path::Path,
    environment: &[(String, String)],
    log: Option<&std::path::Path>,
) -> (Child, String) {
    let mut command = serve(data, environment);
    if let Some(log) = log {
        command.stderr(std::fs::OpenOptions::new().append(true).open(log).unwrap());
    }
    listening(command.spawn().unwrap())
}

fn serve(data: &std::path::Path, environment: &[(String, String)]) -> Command {
    let mut command = Command::new(BINARY);
    // The tests' own variables would be unknown settings.
    for own in ["CRASHES", "CRASH_SEED", "LOAD_SECONDS", "SOAK_JOBS", "NO_DISK_TESTS"] {
        command.env_remove(format!("GUARANTOR_{own}"));
    }
    command.arg("serve").env("GUARANTOR_LISTEN", "127.0.0.1:0").env("GUARANTOR_DATA_DIR", data);
    command.env("GUARANTOR_LOG_FILTER", "warn").envs(environment.iter().cloned());
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

/// The server once it listens, and where.
fn listening(mut child: Child) -> (Child, String) {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let base =
        line.trim().strip_prefix("Guarantor listens on ").expect("the server did not start").to_owned();
    (child, base)
}

pub struct Client {
    agent: Agent,
    pub base: String,
    key: Option<String>,
}

pub struct Answer {
    pub status: u16,
    pub headers: ureq::http::HeaderMap,
    pub text: String,
    pub json: Value,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The JSON, where the status is the expected one.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json
    }

    /// Asserts status, code and the form that every problem has.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.json["code"].as_str()), (status, Some(code)), "{}", self.text);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(self.json["status"], status);
        assert_eq!(self.json["type"], format!("urn:guarantor:problem:{code}"));
        for member in ["title", "detail", "instance"] {
            assert!(!self.json[member].as_str().unwrap_or("").is_empty(), "{member}: {}", self.text);
        }
        assert!(self.json["errors"].is_array(), "{}", self.text);
        assert!(self.header("x-request-id").is_some());
    }
}

impl Client {
    pub fn new(base: &str, key: Option<&str>) -> Client {
        let config = Agent::config_builder().http_status_as_error(false).allow_non_standard_methods(true);
        Client { agent: config.build().new_agent(), base: base.into(), key: key.map(Into::into) }
    }

    pub fn with_key(&self, key: &str) -> Client {
        Client::new(&self.base, Some(key))
    }

    /// Any request at all. `body` is sent as it is.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Answer {
        let answer = self.try_send(method, path, headers, body);
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// The same for a server that may die meanwhile.
    pub fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<Answer, ureq::Error> {
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = match body {
            Some(body) => self.agent.run(request.body(body).unwrap())?,
            None => self.agent.run(request.body(()).unwrap())?,
        };
        let text = response.body_mut().with_config().limit(1 << 30).read_to_string()?;
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Answer { status: response.status().as_u16(), headers: response.headers().clone(), text, json })
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], None)
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        let body = body.to_string();
        self.send("POST", path, &[("content-type", "application/json")], Some(body.as_bytes()))
    }

    pub fn upload(&self, query: &str, rows: &str) -> Answer {
        let kind = [("content-type", "application/x-ndjson")];
        self.send("POST", &format!("/v1/datasets{query}"), &kind, Some(rows.as_bytes()))
    }

    /// A dataset that learning can improve on.
    pub fn dataset(&self, rows: usize) -> String {
        let dataset = self.upload("?outcome=reward&name=test", &log(rows)).expect(201);
        id_of(&dataset)
    }

    pub fn submit(&self, spec: Value) -> String {
        id_of(&self.post("/v1/jobs", &spec).expect(202))
    }

    /// The job once it has ended.
    pub fn finish(&self, job: &str) -> Value {
        loop {
            let job = self.get(&format!("/v1/jobs/{job}?wait=1")).expect(200);
            if !matches!(job["status"].as_str(), Some("queued" | "running")) {
                return job;
            }
        }
    }

    /// A job that runs until someone stops it.
    pub fn submit_endless(&self, dataset: &str) -> String {
        let job = self.submit(json!({"dataset_id": dataset, "bound": "cbb", "optimizer":
            {"preset": "paper", "epochs": 100_000, "max_seconds": 3600.0}}));
        self.follow(&job, &[], |event| event.kind == "progress");
        job
    }

    /// Reads a job's events until `until` holds or the stream ends, and returns them.
    pub fn follow(&self, job: &str, headers: &[(&str, &str)], until: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut request = self.agent.get(format!("{}/v1/jobs/{job}/events", self.base));
        request = request.header("accept", "text/event-stream");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.call().unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut events = Vec::new();
        let mut reader = BufReader::new(response.into_body().into_reader());
        while let Some(event) = Event::read(&mut reader) {
            let last = until(&event);
            events.push(event);
            if last {
                break;
            }
        }
        events
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: u64,
    pub kind: String,
    pub data: Value,
}

impl Event {
    /// The next event, keep-alive comments skipped.
    fn read(reader: &mut BufReader<impl Read>) -> Option<Event> {
        let mut event = Event { id: 0, kind: String::new(), data: Value::Null };
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("id", id)) => event.id = id.parse().unwrap(),
                Some(("event", kind)) => event.kind = kind.into(),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                None if line.trim().is_empty() && event.id > 0 => return Some(event),
                _ => {}
            }
        }
    }
}

#[track_caller]
pub fn id_of(resource: &Value) -> String {
    resource["id"].as_str().unwrap_or_else(|| panic!("no id: {resource}")).to_owned()
}

/// A log of a policy that plays uniformly over three actions, one of which is best for each sign of
/// the first feature. Rewards are deterministic, so that small logs suffice to certify.
pub fn log(rows: usize) -> String {
    let mut state = 1u64;
    let mut random = || {
        // An LCG is random enough for a log that only has to be learnable.
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let mut out = String::new();
    for _ in 0..rows {
        let x: [f64; 2] = std::array::from_fn(|_| (random() * 2.0 - 1.0) as f32 as f64);
        let action = (random() * 3.0) as usize;
        let best = if x[0] > 0.0 { 1 } else { 2 };
        let row = json!({"x": x, "action": action, "propensities": [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0],
            "reward": u8::from(action == best)});
        out.push_str(&format!("{row}\n"));
    }
    out
}

/// Two valid rows, enough for everything that does not compute.
pub fn two_rows() -> &'static str {
    "{\"x\":[0.1,0.7],\"action\":1,\"propensity\":0.3,\"cost\":-1}\n\
     {\"x\":[0.9,0.2],\"action\":0,\"propensity\":0.7,\"cost\":0}\n"
}

/// The files below a directory with their sizes, in order.
pub fn files(directory: &std::path::Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let entry = entry.unwrap();
        // What is gone again since it was listed was no file to keep.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push((entry.path().to_str().unwrap().to_owned(), metadata.len()));
        }
    }
    found.sort();
    found
}

/// The folders below a directory, in order.
pub fn folders(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let mut found: Vec<_> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    let below: Vec<_> = found.iter().flat_map(|folder| folders(folder)).collect();
    found.extend(below);
    found.sort();
    found
}

/// Waits until what is found is what is bound to come; a minute is for slow machines.
#[track_caller]
pub fn eventually<T: PartialEq + std::fmt::Debug>(find: impl Fn() -> T, expected: &T) {
    for _ in 0..600 {
        if find() == *expected {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(find(), *expected);
}

/// The same inputs every time; where PROPTEST_CASES is set, so many and always other ones.
pub fn generated(cases: u32) -> proptest::test_runner::Config {
    use proptest::test_runner::{Config, RngSeed};
    let usual = Config { failure_persistence: None, max_shrink_iters: 500, ..Config::default() };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => usual,
        None => Config { cases, rng_seed: RngSeed::Fixed(2023), ..usual },
    }
}
