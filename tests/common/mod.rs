//! The real binary on a free port, and a client for it.

#![allow(dead_code, unused_imports)] // no test binary uses all of it

mod client;
pub mod receiver;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

pub use client::{Answer, Client, Event};

pub const BINARY: &str = env!("CARGO_BIN_EXE_guarantor");

/// A server process with its own data directory. Dropping it kills the process.
pub struct Server {
    child: Child,
    pub base: String,
    /// The base URL of the listener for health checks, if the settings have one.
    pub health: Option<String>,
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

    /// On an existing directory that outlives the server.
    pub fn start_on(directory: &std::path::Path, environment: &[(&str, &str)]) -> Server {
        Server::with_data(DataDir::Given(directory.to_owned()), environment)
    }

    fn with_data(data: DataDir, environment: &[(&str, &str)]) -> Server {
        let environment: Vec<_> = environment.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let (child, base, health) = spawn(data.path(), &environment, None);
        Server { child, base, health, data, environment, log: None }
    }

    /// With its log appended to a file.
    pub fn start_logging(environment: &[(&str, &str)], log: &std::path::Path) -> Server {
        let environment: Vec<_> = environment.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let data = DataDir::Own(tempfile::tempdir().unwrap());
        let (child, base, health) = spawn(data.path(), &environment, Some(log));
        Server { child, base, health, data, environment, log: Some(log.to_owned()) }
    }

    /// As another user, if one is given. None if that user cannot run the binary.
    pub fn start_as(user: Option<u32>, directory: &std::path::Path) -> Option<Server> {
        use std::os::unix::process::CommandExt;
        let mut command = serve(directory, &[]);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let child = command.current_dir("/").spawn().ok()?;
        let (child, base, health) = listening(child);
        let data = DataDir::Given(directory.to_owned());
        Some(Server { child, base, health, data, environment: vec![], log: None })
    }

    /// The error output of a server that must not start on this directory.
    pub fn refused_on(directory: &std::path::Path) -> String {
        Server::refused_with(directory, &[])
    }

    /// The same with these settings.
    pub fn refused_with(directory: &std::path::Path, environment: &[(&str, &str)]) -> String {
        let environment: Vec<_> = environment.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let mut child = serve(directory, &environment).stderr(Stdio::piped()).spawn().unwrap();
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
        (self.child, self.base, self.health) =
            spawn(self.data.path(), &self.environment, self.log.as_deref());
    }

    /// Another process on the same data, killed before it may even listen.
    pub fn restart_and_kill(&mut self, after: std::time::Duration) {
        self.child = serve(self.data.path(), &self.environment).spawn().unwrap();
        std::thread::sleep(after);
        self.kill();
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process like a crash: no signal handler runs.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal to the process, such as `STOP`.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// Terminates the process like an orchestrator. Returns whether it exited successfully.
    pub fn terminate(&mut self) -> bool {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.child.wait().unwrap().success()
    }

    pub fn client(&self) -> Client {
        Client::new(&self.base, None)
    }

    /// A key of `workspace` that may do everything, created with the command line while the server runs.
    pub fn create_key(&self, workspace: &str) -> String {
        self.create_key_with_role(workspace, "admin")
    }

    pub fn create_key_with_role(&self, workspace: &str, role: &str) -> String {
        let output = self.keys(&["create", "--workspace", workspace, "--name", "test", "--role", role]);
        output.trim().to_owned()
    }

    pub fn keys(&self, args: &[&str]) -> String {
        let data = self.data.path().to_str().unwrap();
        let output = Command::new(BINARY).arg("keys").args(args).args(["--data-dir", data]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The data directory of a server: its own, deleted with it, or one that stays.
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
) -> (Child, String, Option<String>) {
    let mut command = serve(data, environment);
    if let Some(log) = log {
        command.stderr(std::fs::OpenOptions::new().append(true).open(log).unwrap());
    }
    listening(command.spawn().unwrap())
}

fn serve(data: &std::path::Path, environment: &[(String, String)]) -> Command {
    let mut command = Command::new(BINARY);
    // The variables of the tests would be unknown settings.
    for own in [
        "CRASHES",
        "CRASH_SEED",
        "LOAD_SECONDS",
        "SOAK_JOBS",
        "NO_DISK_TESTS",
        "NO_POSTGRES_TESTS",
        "REPLICA_KILLS",
        "REPLICA_SECONDS",
    ] {
        command.env_remove(format!("GUARANTOR_{own}"));
    }
    command.arg("serve").env("GUARANTOR_LISTEN", "127.0.0.1:0").env("GUARANTOR_DATA_DIR", data);
    command.env("GUARANTOR_LOG_FILTER", "warn").envs(environment.iter().cloned());
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

/// Waits until the server listens, and returns its base URL and that of its health checks.
fn listening(mut child: Child) -> (Child, String, Option<String>) {
    let mut line = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut line).unwrap();
    let base =
        line.trim().strip_prefix("Guarantor listens on ").expect("the server did not start").to_owned();
    // It is written together with the first line, or not at all.
    let rest = String::from_utf8(lines.buffer().to_vec()).unwrap();
    let health = rest.trim().strip_prefix("Health checks are on ").map(str::to_owned);
    (child, base, health)
}

#[track_caller]
pub fn id_of(resource: &Value) -> String {
    resource["id"].as_str().unwrap_or_else(|| panic!("no id: {resource}")).to_owned()
}

/// A log of a policy that chooses uniformly among three actions; which one is best depends on the sign of
/// the first feature. Rewards are deterministic, so that small logs suffice to certify.
pub fn log(rows: usize) -> String {
    log_of(1, rows)
}

/// The same with other rows for every seed. A server recognizes rows that it has seen before.
pub fn log_of(seed: u64, rows: usize) -> String {
    let mut state = seed;
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

/// Two valid rows, enough for everything that computes nothing.
pub fn two_rows() -> &'static str {
    "{\"x\":[0.1,0.7],\"action\":1,\"propensity\":0.3,\"cost\":-1}\n\
     {\"x\":[0.9,0.2],\"action\":0,\"propensity\":0.7,\"cost\":0}\n"
}

/// The files below a directory with their sizes, in order.
pub fn files(directory: &std::path::Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let entry = entry.unwrap();
        // A file that vanished since it was listed was temporary.
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

/// Waits until `find` returns `expected`, up to a minute on slow machines.
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

/// The same inputs every time, unless PROPTEST_CASES is set: then that many, different each time.
pub fn generated(cases: u32) -> proptest::test_runner::Config {
    use proptest::test_runner::{Config, RngSeed};
    let usual = Config { failure_persistence: None, max_shrink_iters: 500, ..Config::default() };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => usual,
        None => Config { cases, rng_seed: RngSeed::Fixed(2023), ..usual },
    }
}
