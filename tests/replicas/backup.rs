//! A dump of the database and a copy of the bucket are a backup.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use crate::bucket::Bucket;
use crate::common::files;
use crate::postgres::{self, program};
use crate::site::Site;

#[test]
fn a_dump_and_a_copy_of_the_bucket_are_restored() {
    if postgres::is_left_out() {
        return;
    }
    let site = Site::new();
    let server = site.server(&[]);
    let client = server.client();
    let dataset = client.dataset(200);
    let job = client.submit(json!({"dataset_id": dataset, "bound": "cbb"}));
    let done = client.finish(&job);
    let certificate = client.get(&format!("/v1/jobs/{job}/certificate")).expect(200);
    // The database first: files that it does not name are harmless, files that are missing are not.
    let dump = program("pg_dump").arg(&site.database).current_dir("/").output().unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let copy = tempfile::tempdir().unwrap();
    let from = site.bucket.files().to_str().unwrap();
    for (file, _) in files(site.bucket.files()) {
        let to = copy.path().join(file.strip_prefix(from).unwrap().trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(&file, to).unwrap();
    }
    drop(server);
    let database = site.runtime.block_on(postgres::shared().database());
    let mut psql = program("psql");
    psql.args(["--quiet", "--set", "ON_ERROR_STOP=1"]).arg(&database).current_dir("/");
    let mut restore = psql.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    restore.stdin.take().unwrap().write_all(&dump.stdout).unwrap();
    assert!(restore.wait().unwrap().success());
    let mut restored = Site::at(database, Bucket::on(copy));
    restored.key_file = site.key_file.clone();
    let server = restored.server(&[]);
    let client = server.client();
    assert_eq!(client.get(&format!("/v1/jobs/{job}")).expect(200)["result"], done["result"]);
    assert_eq!(client.get(&format!("/v1/jobs/{job}/certificate")).expect(200), certificate);
    let verified = client.post("/v1/certificates/verify", &certificate).expect(200);
    assert_eq!(verified["valid"], true, "{verified}");
    let again = client.submit(json!({"dataset_id": dataset, "bound": "cbb"}));
    assert_eq!(client.finish(&again)["status"], "succeeded");
}
