//! The last stage of the Dockerfile, built and run by `tests/image.sh`.

use crate::common;

use std::path::Path;
use std::process::Command;

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
    for tool in ["buildah", "debootstrap"] {
        let found = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
        assert!(found, "{tool} is not installed: run tests/setup.sh");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/image.sh");
    let output = Command::new("bash").arg(script).arg(common::BINARY).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("the image works"), "{out}\n{err}");
}
