//! Runs `tests/curl.sh`: every endpoint and every error code through curl.

use crate::common;

use std::process::Command;

#[test]
fn every_endpoint_through_curl() {
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/curl.sh");
    let output = Command::new("bash").arg(script).arg(common::BINARY).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
}
