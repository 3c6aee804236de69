//! The dashboard in a real browser: Playwright, from PyPI, drives Debian's chromium against the server binary.

use crate::common;

use std::path::Path;
use std::process::Command;

use super::python::environment;

/// Exact versions: the browser of Debian is newer or older than both, and the tests need only what they share.
const PACKAGES: [&str; 2] = ["playwright==1.65.2", "axe-playwright-python==0.1.8"];
const CHROMIUM: &str = "/usr/bin/chromium";

#[test]
fn the_dashboard_works_in_a_browser() {
    let probe = "import playwright.sync_api, axe_playwright_python";
    let Some(python) = environment("browser", &PACKAGES, probe) else {
        eprintln!(
            "\n*** SKIPPED: playwright cannot be installed from PyPI; the dashboard was NOT tested. ***\n"
        );
        return;
    };
    assert!(Path::new(CHROMIUM).exists(), "there is no chromium; run tests/setup.sh");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("tests/browser");
    // To look at, and for the documents: tests/browser/pictures.py makes them small and puts them into docs/dashboard.
    let pictures = root.join("target/dashboard");
    std::fs::create_dir_all(&pictures).unwrap();
    let output = Command::new(python)
        .args(["-m", "unittest", "discover", "--verbose", "--start-directory"])
        .arg(folder)
        .env("GUARANTOR_TEST_BINARY", common::BINARY)
        .env("GUARANTOR_SCREENSHOTS", pictures)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stdout));
    assert!(!text.contains("Ran 0 tests"), "{text}");
}
