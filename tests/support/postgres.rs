//! A throwaway PostgreSQL cluster in a temporary directory. It is stopped and removed when the process of the tests ends, in
//! whatever way: a watcher reads from a pipe of this process, and the pipe closes.
#![allow(dead_code)]

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use sqlx::{Connection, Executor, PgConnection};

/// A running cluster.
pub struct Cluster {
    directory: PathBuf,
    /// Its standard input is the pipe.
    watcher: Option<Child>,
}

/// Whether the tests on PostgreSQL are left out.
pub fn is_left_out() -> bool {
    let left_out = std::env::var_os("GUARANTOR_NO_POSTGRES_TESTS").is_some();
    if left_out {
        eprintln!("left out, because GUARANTOR_NO_POSTGRES_TESTS is set");
    }
    left_out
}

/// The cluster that the tests of this process share.
pub fn shared() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(Cluster::start)
}

/// The folder with the programs of PostgreSQL: the newest of Debian's, or one in the path.
fn programs() -> PathBuf {
    let has_programs =
        |folder: &PathBuf| folder.join("initdb").is_file() && folder.join("pg_basebackup").is_file();
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut found: Vec<PathBuf> =
        debian.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).filter(has_programs).collect();
    found.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let newest = found.pop().or_else(|| std::env::split_paths(&path).find(has_programs));
    newest.expect(
        "the tests need PostgreSQL: install Debian's package postgresql (tests/setup.sh does that for root), or set \
         GUARANTOR_NO_POSTGRES_TESTS to leave them out",
    )
}

fn is_root() -> bool {
    rustix_uid() == 0
}

fn rustix_uid() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid()
}

/// A program of PostgreSQL, which does not run as root.
pub fn program(name: &str) -> Command {
    let path = programs().join(name);
    if !is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--"]).arg(path);
    command
}

fn run(command: &mut Command) {
    let output = command.current_dir("/").stdin(Stdio::null()).output().unwrap();
    let text =
        || String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?}: {}", text());
}

/// A new temporary directory that the user of the server owns.
fn new_directory() -> PathBuf {
    let directory = tempfile::Builder::new().prefix("guarantor-pg-").tempdir().unwrap().keep();
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    if is_root() {
        run(Command::new("chown").arg("postgres").arg(&directory));
    }
    directory
}

impl Cluster {
    /// Creates and starts a cluster.
    pub fn start() -> Cluster {
        let directory = new_directory();
        run(program("initdb")
            .args(["--no-sync", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(directory.join("data")));
        let mut settings =
            std::fs::OpenOptions::new().append(true).open(directory.join("data/postgresql.conf")).unwrap();
        writeln!(
            settings,
            "listen_addresses = ''\nunix_socket_directories = '{}'\nfsync = off\n\
             full_page_writes = off\nmax_connections = 300\nshared_buffers = 32MB\nlog_min_messages = fatal\n\
             deadlock_timeout = 200ms\nwal_level = replica\nmax_wal_senders = 4\nhot_standby = on",
            directory.display()
        )
        .unwrap();
        let mut cluster = Cluster { directory, watcher: None };
        cluster.watch();
        cluster.start_again();
        cluster
    }

    /// A standby of this cluster, which follows it until it is promoted.
    pub fn standby(&self) -> Cluster {
        let directory = new_directory();
        run(program("pg_basebackup")
            .args(["--write-recovery-conf", "--no-sync", "--checkpoint=fast", "--username=postgres", "-h"])
            .arg(&self.directory)
            .arg("-D")
            .arg(directory.join("data")));
        let mut settings = std::fs::OpenOptions::new()
            .append(true)
            .open(directory.join("data/postgresql.auto.conf"))
            .unwrap();
        writeln!(settings, "unix_socket_directories = '{}'", directory.display()).unwrap();
        let mut cluster = Cluster { directory, watcher: None };
        cluster.watch();
        cluster.start_again();
        cluster
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        self.control(&["promote"]);
    }

    fn watch(&mut self) {
        let script = "cat > /dev/null; \"$@\" stop -m immediate > /dev/null 2>&1; rm -rf \"$DIRECTORY\"";
        let control = program("pg_ctl");
        let mut watcher = Command::new("sh");
        watcher.args(["-c", script, "watcher"]).arg(control.get_program()).args(control.get_args());
        watcher.arg("-D").arg(self.directory.join("data")).env("DIRECTORY", &self.directory);
        // In a group of its own, so that Ctrl-C does not end it before it has done its work.
        std::os::unix::process::CommandExt::process_group(&mut watcher, 0);
        let watcher =
            watcher.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        self.watcher = Some(watcher.spawn().unwrap());
    }

    fn control(&self, arguments: &[&str]) {
        let mut command = program("pg_ctl");
        command.arg("-D").arg(self.directory.join("data")).args(["-w", "-t", "60"]);
        let log = format!("{}", self.directory.join("log").display());
        // The server inherits its output, so it must not be a pipe that somebody waits for.
        let done = command
            .args(["-l", &log])
            .args(arguments)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        let log = std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        assert!(done.success(), "pg_ctl {arguments:?}: {log}");
    }

    /// Starts the server after it was stopped.
    pub fn start_again(&self) {
        self.control(&["start"]);
    }

    /// Stops the server: `fast` ends its sessions, `immediate` is like a crash.
    pub fn stop(&self, mode: &str) {
        self.control(&["stop", "-m", mode]);
    }

    /// The folder with the socket.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@localhost/{database}?host={}", self.directory.display())
    }

    /// Creates a database and returns its URL.
    pub async fn database(&self) -> String {
        let name = format!("t{}", uuid::Uuid::now_v7().simple());
        let mut connection = PgConnection::connect(&self.url("postgres")).await.unwrap();
        let sql = format!("CREATE DATABASE {name} TEMPLATE template0");
        connection.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
        connection.close().await.unwrap();
        self.url(&name)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let Some(mut watcher) = self.watcher.take() else { return };
        drop(watcher.stdin.take());
        let _ = watcher.wait();
    }
}
