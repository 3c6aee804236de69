//! Python packages from PyPI, each set in a virtual environment under target/, installed on first use.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Tests of one binary that need the same packages wait for each other.
static INSTALLING: Mutex<()> = Mutex::new(());

/// The Python of an environment with these packages, of which `probe` is a statement that works. `None` if they cannot
/// be installed.
pub fn environment(name: &str, packages: &[&str], probe: &str) -> Option<PathBuf> {
    let _one = INSTALLING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join(name);
    let python = venv.join("bin/python");
    let works =
        || Command::new(&python).args(["-c", probe]).output().is_ok_and(|output| output.status.success());
    if works() {
        return Some(python);
    }
    let run = |program: &Path, args: &[&str]| {
        Command::new(program).args(args).status().is_ok_and(|status| status.success())
    };
    let made = run(Path::new("python3"), &["-m", "venv", venv.to_str()?]);
    let install = [&["install", "--quiet"], packages].concat();
    (made && run(&venv.join("bin/pip"), &install) && works()).then_some(python)
}
