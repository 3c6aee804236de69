//! The data directory belongs to one server and to one user.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::common::{BINARY, Server, files, folders};

/// Everything that another user could enter or read.
fn open_to_others(root: &Path) -> Vec<(PathBuf, u32)> {
    let files = files(root).into_iter().map(|(file, _)| PathBuf::from(file));
    let all = files.chain(folders(root)).chain([root.to_owned()]);
    let mode = |path: PathBuf| {
        // A file that vanished since it was listed was temporary.
        let mode = std::fs::metadata(&path).map_or(0, |found| found.permissions().mode() & 0o777);
        (path, mode)
    };
    all.map(mode).filter(|(_, mode)| mode & 0o077 != 0).collect()
}

fn open_everything(root: &Path) {
    for (file, _) in files(root) {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    for folder in folders(root).into_iter().chain([root.to_owned()]) {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn only_the_owner_can_read_the_data() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let mut server = Server::start_on(&data, &[]);
    let client = server.client();
    let dataset = client.dataset(200);
    let done = client.finish(&client.submit(json!({ "dataset_id": dataset })));
    assert_eq!(done["status"], "succeeded", "{done}");
    assert!(files(&data).iter().any(|(file, _)| file.ends_with("-wal")));
    assert_eq!(open_to_others(&data), []);

    // So is a backup, whatever the modes of the originals.
    server.kill();
    open_everything(&data);
    std::fs::set_permissions(data.join("signing-key.json"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let copy = place.path().join("copy");
    let backup = Command::new(BINARY).arg("backup").arg(&copy).arg("--data-dir").arg(&data).output().unwrap();
    assert!(backup.status.success(), "{}", String::from_utf8_lossy(&backup.stderr));
    assert!(files(&copy).len() > 3);
    assert_eq!(open_to_others(&copy), []);

    // The data of an earlier release is fixed at the start.
    assert!(open_to_others(&data).len() > 5);
    server.restart();
    assert_eq!(open_to_others(&data), []);
}

/// The mode of a directory that has other things in it is not ours to change.
#[test]
fn a_shared_directory_is_left_as_it_is_with_a_warning() {
    let place = tempfile::tempdir().unwrap();
    let (data, log) = (place.path().join("data"), tempfile::NamedTempFile::new().unwrap());
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("notes.txt"), "mine").unwrap();
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(&data, 0o755);
    open(&data.join("notes.txt"), 0o644);
    let environment = [("GUARANTOR_DATA_DIR", data.to_str().unwrap())];
    let _server = Server::start_logging(&environment, log.path());
    let left: Vec<PathBuf> = open_to_others(&data).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, [data.join("notes.txt"), data.clone()]);
    let log = std::fs::read_to_string(log.path()).unwrap();
    assert!(log.contains("accessible to other users"), "{log}");
}

#[test]
fn a_second_server_is_refused_even_if_the_lock_was_deleted() {
    let server = Server::start();
    let data = server.data.path();
    assert!(Server::refused_on(data).contains("another server"));
    std::fs::remove_file(data.join("lock")).unwrap();
    assert!(Server::refused_on(data).contains("another server"));
    // It did not leave a lock behind that a third one could take.
    assert!(Server::refused_on(data).contains("another server"));
    assert_eq!(server.client().get("/readyz").status, 200);
}
