//! One signing key for all servers, and its replacement one server at a time.

use std::process::Command;

use serde_json::json;

use crate::common::{BINARY, Server};
use crate::postgres;
use crate::site::{Site, new_key};

fn certificate(server: &Server, seed: u64) -> serde_json::Value {
    let client = server.client();
    let dataset = client.dataset_of(seed, 200);
    let job = client.submit(json!({"dataset_id": dataset, "bound": "cbb"}));
    assert_eq!(client.finish(&job)["status"], "succeeded");
    client.get(&format!("/v1/jobs/{job}/certificate")).expect(200)
}

#[test]
fn the_key_is_replaced_without_downtime() {
    if postgres::is_left_out() {
        return;
    }
    let site = Site::new();
    let old = site.server(&[]);
    let before = certificate(&old, 1);
    let file = site.directory.path().join("next.json");
    new_key(&file);
    let file = file.to_str().unwrap();
    let next = [("GUARANTOR_SIGNING_KEY_FILE", file)];
    // Another key, or none, is a mistake.
    let refused = site.refused(&next);
    assert!(refused.contains("signing key") && refused.contains("keys announce"), "{refused}");
    let refused = site.refused(&[("GUARANTOR_SIGNING_KEY_FILE", "")]);
    assert!(refused.contains("has no signing key"), "{refused}");
    // Until it is announced.
    let announced = Command::new(BINARY)
        .args(["keys", "announce", file])
        .env("GUARANTOR_DATABASE", &site.database)
        .output()
        .unwrap();
    assert!(announced.status.success(), "{}", String::from_utf8_lossy(&announced.stderr));
    // The old one runs on, and may even start again during the rollout, while the new one signs.
    let text = std::fs::read_to_string(file).unwrap();
    let new = site.server(&[("GUARANTOR_SIGNING_KEY", &text), ("GUARANTOR_SIGNING_KEY_FILE", "")]);
    let old_again = site.server(&[]);
    drop(old_again);
    drop(old);
    let after = certificate(&new, 2);
    assert_ne!(before["signature"]["key_id"], after["signature"]["key_id"]);
    let old = site.server(&[]);
    for (server, document) in [(&old, &after), (&new, &before), (&new, &after)] {
        let verified = server.client().post("/v1/certificates/verify", document).expect(200);
        assert_eq!(
            (&verified["valid"], &verified["signature"]),
            (&true.into(), &"valid".into()),
            "{verified}"
        );
    }
    drop(old);
    // After a day only the new one starts.
    site.execute("UPDATE signing_keys SET first_used = first_used - 86400000000");
    let refused = site.refused(&[]);
    assert!(refused.contains("another one as the current key"), "{refused}");
    drop(site.server(&next));
}
