//! The last stage of the Dockerfile, built and run by `tests/image.sh`.

use crate::common;

use std::path::Path;
use std::process::Command;

/// The exit code of the script if this machine has nothing to make the base image from.
const NOT_HERE: i32 = 77;

#[test]
fn the_image_runs_the_demo_and_the_server() {
    let root =
        std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !root {
        eprintln!(
            "\n*** SKIPPED: only root can build the image with buildah; the image was NOT built. ***\n"
        );
        return;
    }
    // Root in a container may lack the right to mount, without which nothing can be built.
    let mounts = Command::new("unshare").args(["--mount", "true"]).output();
    if !mounts.as_ref().is_ok_and(|output| output.status.success()) {
        let why =
            mounts.map_or_else(|e| e.to_string(), |o| String::from_utf8_lossy(&o.stderr).trim().to_owned());
        eprintln!("\n*** SKIPPED: nothing can be mounted here ({why}); the image was NOT built. ***\n");
        return;
    }
    for tool in ["buildah", "debootstrap"] {
        let found = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
        assert!(found, "{tool} is not installed: run tests/setup.sh");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/image.sh");
    let output = Command::new("bash").arg(script).arg(common::BINARY).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(NOT_HERE) {
        eprintln!("\n*** SKIPPED: {}; the image was NOT built. ***\n", err.trim());
        return;
    }
    assert!(output.status.success() && out.contains("the image works"), "{out}\n{err}");
}
