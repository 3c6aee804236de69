//! What a server refuses to start on, and what it does not reveal.

use std::process::Command;

use crate::bucket::SECRET;
use crate::common::BINARY;
use crate::postgres;
use crate::site::Site;

#[test]
fn servers_refuse_what_is_not_theirs_with_a_sentence() {
    if postgres::is_left_out() {
        return;
    }
    let site = Site::new();
    let server = site.server(&[]);
    // The bucket's prefix belongs to one database.
    let other = site.runtime.block_on(postgres::shared().database());
    let refused = site.refused(&[("GUARANTOR_DATABASE", &other)]);
    assert!(refused.contains("belongs to another database"), "{refused}");
    // Wrong credentials, and a database that does not answer. Neither secret is shown.
    let refused = site.refused(&[("AWS_SECRET_ACCESS_KEY", "wrong-secret")]);
    assert!(refused.contains("the blob store cannot be used"), "{refused}");
    assert!(!refused.contains("wrong-secret") && !refused.contains(SECRET), "{refused}");
    let away = "postgres://u:hunter2@127.0.0.1:1/d";
    let refused = site.refused(&[("GUARANTOR_DATABASE", away)]);
    assert!(refused.contains("the database cannot be reached") && !refused.contains("hunter2"), "{refused}");
    // A data directory is of one server, even if it holds only temporary files.
    let settings = site.settings(&[]);
    let settings: Vec<(&str, &str)> = settings.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let refused = crate::common::Server::refused_with(server.data.path(), &settings);
    assert!(refused.contains("another server is using the data directory"), "{refused}");
    // A schema of a later release that says that this one may work beside it is fine.
    site.execute("INSERT INTO schema_version (version, compatible_with) SELECT MAX(version) + 1, MAX(version) FROM schema_version");
    drop(site.server(&[]));
    server.client().get("/readyz").expect(200);
    site.execute("UPDATE schema_version SET compatible_with = version");
    let refused = site.refused(&[]);
    assert!(refused.contains("changed by a newer release"), "{refused}");
    // And one that runs already is not ready anymore.
    assert_eq!(server.client().get("/readyz").status, 503);
}

#[test]
fn backup_names_the_tools_for_databases_and_buckets() {
    let output = Command::new(BINARY)
        .args(["backup", "/nonexistent"])
        .env("GUARANTOR_DATABASE", "postgres://u:hunter2@h/d")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("pg_dump") && !text.contains("hunter2"), "{text}");
}
