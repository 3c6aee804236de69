//! Keys from files that an orchestrator mounts: `signing_key_file` and `bootstrap_key_file`.

use crate::common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{BINARY, Client, Server};
use serde_json::{Value, json};
use tempfile::TempDir;

/// `guarantor keys new`, in an empty directory that must stay empty.
fn new_key(more: &[&str]) -> String {
    let empty = tempfile::tempdir().unwrap();
    let output = Command::new(BINARY).args(["keys", "new"]).args(more).current_dir(&empty).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
    String::from_utf8(output.stdout).unwrap()
}

/// A secret as Kubernetes mounts it: links to files in a folder that is replaced as a whole.
struct Mounted {
    folder: TempDir,
    name: &'static str,
}

impl Mounted {
    fn new(name: &'static str, text: &str) -> Mounted {
        let mounted = Mounted { folder: tempfile::tempdir().unwrap(), name };
        let at = |name: &str| mounted.folder.path().join(name);
        fs::create_dir(at("..2026")).unwrap();
        symlink("..2026", at("..data")).unwrap();
        symlink(format!("..data/{name}"), at(name)).unwrap();
        mounted.write(text);
        mounted.mode(0o440);
        mounted
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(self.name)
    }

    fn write(&self, text: &str) {
        fs::write(self.folder.path().join("..2026").join(self.name), text).unwrap();
    }

    fn mode(&self, mode: u32) {
        fs::set_permissions(self.path(), fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// What a server says that must not start with this setting.
fn refused(data: &Path, setting: &str, file: &Path) -> String {
    let mut command = Command::new(BINARY);
    command.arg("serve").env("GUARANTOR_LISTEN", "127.0.0.1:0").env("GUARANTOR_DATA_DIR", data);
    let output = command.env(setting, file).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    said
}

fn public_key(client: &Client) -> Value {
    client.get("/v1/certificates/key").expect(200)["public_key"].clone()
}

#[test]
fn a_signing_key_in_a_file_is_used_and_never_written() {
    const SETTING: &str = "GUARANTOR_SIGNING_KEY_FILE";
    let (text, next) = (new_key(&["--signing"]), new_key(&["--signing"]));
    assert_ne!(text, next);
    let parsed: Value = serde_json::from_str(&text).unwrap();
    let secret = parsed["secret_key"].as_str().unwrap();
    let key = Mounted::new("signing-key.json", &text);
    let data = tempfile::tempdir().unwrap();
    let file = key.path();
    let settings = [(SETTING, file.to_str().unwrap())];

    let mut server = Server::start_on(data.path(), &settings);
    let client = server.client();
    assert_eq!(public_key(&client), parsed["public_key"]);
    let dataset = client.dataset(400);
    let job = client.submit(json!({"dataset_id": dataset}));
    client.finish(&job);
    let certificate = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert!(!data.path().join("signing-key.json").exists());
    server.kill();

    // After a rotation, certificates of the earlier key are still valid.
    key.write(&next);
    server.restart();
    let client = server.client();
    assert_eq!(public_key(&client), serde_json::from_str::<Value>(&next).unwrap()["public_key"]);
    let verified = client.post("/v1/certificates/verify", &certificate).expect(200);
    assert_eq!(verified["valid"], true, "{verified}");
    server.kill();

    key.mode(0o444);
    let said = refused(data.path(), SETTING, &file);
    assert!(said.contains("accessible to every user") && said.contains("0440"), "{said}");
    key.mode(0o440);
    key.write(&text.replace('"', "'"));
    let said = refused(data.path(), SETTING, &file);
    assert!(said.contains("is damaged") && !said.contains(&secret[..12]), "{said}");
    let nowhere = key.folder.path().join("nothing");
    let said = refused(data.path(), SETTING, &nowhere);
    assert!(said.contains("does not exist") && said.contains("keys new --signing"), "{said}");
    assert!(!nowhere.exists() && !data.path().join("signing-key.json").exists());
}

fn listed(server: &Server) -> Vec<String> {
    server.keys(&["list"]).lines().skip(1).map(Into::into).collect()
}

#[test]
fn a_key_in_a_file_is_added_once_and_a_revoked_one_stays_revoked() {
    let (first, second) = (new_key(&[]), new_key(&[]));
    let key = Mounted::new("api-key", &first);
    let (log, file) = (tempfile::NamedTempFile::new().unwrap(), key.path());
    let settings = [
        ("GUARANTOR_BOOTSTRAP_KEY_FILE", file.to_str().unwrap()),
        ("GUARANTOR_BOOTSTRAP_WORKSPACE", "ranking"),
        ("GUARANTOR_LOG_FILTER", "trace"),
        // Without a key, the server would refuse this address.
        ("GUARANTOR_LISTEN", "0.0.0.0:0"),
    ];
    let mut server = Server::start_logging(&settings, log.path());
    let jobs = |server: &Server, key: &str| {
        let base = server.base.replace("0.0.0.0", "127.0.0.1");
        Client::new(&base, Some(key.trim())).get("/v1/jobs").status
    };
    assert_eq!((jobs(&server, &first), jobs(&server, &second)), (200, 401));
    let keys = listed(&server);
    assert!(keys.len() == 1 && keys[0].contains("ranking") && keys[0].contains("bootstrap"), "{keys:?}");
    let id = keys[0].split(' ').next().unwrap().to_owned();

    server.kill();
    server.restart();
    assert_eq!((jobs(&server, &first), listed(&server).len()), (200, 1));

    // Without the line feed at the end, as some tools write it.
    server.kill();
    key.write(second.trim());
    server.restart();
    assert_eq!((jobs(&server, &first), jobs(&server, &second)), (200, 200));
    assert_eq!(listed(&server).len(), 2);

    server.keys(&["revoke", &id]);
    server.kill();
    key.write(&first);
    server.restart();
    assert_eq!((jobs(&server, &first), jobs(&server, &second)), (401, 200));
    assert_eq!(listed(&server).len(), 2);

    let log = fs::read_to_string(log.path()).unwrap();
    assert!(log.contains("added the key in bootstrap_key_file") && log.contains("is revoked and stays so"));
    for secret in [&first, &second] {
        assert!(!log.contains(&secret[3..20]), "the key is in the log");
    }
}

#[test]
fn a_file_without_a_proper_key_is_refused_and_not_repeated() {
    const SETTING: &str = "GUARANTOR_BOOTSTRAP_KEY_FILE";
    let (data, good) = (tempfile::tempdir().unwrap(), new_key(&[]));
    let key = Mounted::new("api-key", &good);
    let two = format!("{good}{good}");
    for bad in ["", "hunter2hunter2", &good[3..], &good[..20], &good.to_uppercase(), &two] {
        key.write(bad);
        let said = refused(data.path(), SETTING, &key.path());
        assert!(said.contains("does not contain one API key"), "{said}");
        assert!(!said.contains("hunter2") && !said.contains(&good[3..20]), "{said}");
    }
    key.write(&good);
    key.mode(0o444);
    assert!(refused(data.path(), SETTING, &key.path()).contains("accessible to every user"));
    let nowhere = key.folder.path().join("nothing");
    assert!(refused(data.path(), SETTING, &nowhere).contains("does not exist"));
}
