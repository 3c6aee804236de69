//! The engine's code must use arithmetic that is the same on every CPU.

use std::path::{Path, PathBuf};

use super::modules::code_of;

/// Functions of the C library, as methods and by their path (`.map(f64::exp)`), and products whose kernel depends
/// on the CPU. √, `mul_add` and rounding to integers are exact, so they are allowed.
const FUNCTIONS: &str = "exp exp2 exp_m1 ln ln_1p log log2 log10 powf powi sin cos tan sin_cos asin acos atan atan2 \
    sinh cosh tanh asinh acosh atanh cbrt hypot gamma ln_gamma dot general_mat_mul general_mat_vec_mul";

/// The lines of `code` with something forbidden, as `line: what`.
fn faults(code: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, line) in code.lines().enumerate() {
        for name in FUNCTIONS.split_whitespace() {
            for (from, _) in line.match_indices(name) {
                let (before, after) = (&line[..from], &line[from + name.len()..]);
                let whole = !before.ends_with(is_part) && !after.starts_with(is_part);
                let method = before.ends_with('.') && after.starts_with('(');
                let path = ["f32::", "f64::", "F::", "Float::"].iter().any(|class| before.ends_with(class));
                if whole && (method || path || name.starts_with("general")) {
                    found.push(format!("{}: {name}", at + 1));
                }
            }
        }
        if line.contains("libm::") {
            found.push(format!("{}: libm", at + 1));
        }
    }
    found
}

/// Every source file below `directory`.
fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = std::fs::read_to_string(&path).unwrap();
            found.push((path, source));
        }
    }
    found
}

fn engine() -> Vec<(PathBuf, String)> {
    let all = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(all.len() > 50, "only {} files were found", all.len());
    all
}

#[test]
fn the_engine_calls_nothing_that_depends_on_the_cpu() {
    let mut all = Vec::new();
    for (path, source) in engine().iter().filter(|(path, _)| !path.ends_with("numerics/elementary.rs")) {
        all.extend(faults(&code_of(source)).into_iter().map(|fault| format!("{}:{fault}", path.display())));
    }
    assert!(all.is_empty(), "use numerics::elementary and numerics::matrix instead:\n{}", all.join("\n"));
}

#[test]
fn planted_calls_are_found() {
    for planted in [
        "let y = x.exp();",
        "let y = x\n    .ln_1p()",
        "xs.map(f64::ln)",
        "xs.map(f32::exp)",
        "F::cos(x)",
        "a.dot(&b)",
        "general_mat_mul(1.0, a, b, 0.0, c)",
        "libm::exp(x)",
        "x.powi(3)",
    ] {
        assert_eq!(faults(&code_of(planted)).len(), 1, "{planted}");
    }
    for allowed in
        ["exp(x)", "x.sqrt()", "f64::EPSILON", "// x.exp()", "f64::max", "#[cfg(test)]\nmod t { x.exp() }"]
    {
        assert_eq!(faults(&code_of(allowed)), [""; 0], "{allowed}");
    }
}

/// A kernel without a test of its two copies could round differently in each.
#[test]
fn every_kernel_has_a_test_of_its_copies() {
    let mut kernels = 0;
    for (path, source) in engine() {
        let (_, tests) = source.split_once("#[cfg(test)]").unwrap_or_default();
        let code = code_of(&source);
        for (_, body) in code.split("dispatch! {").skip(1).filter_map(|rest| rest.split_once(") = ")) {
            let body = body.split_whitespace().next().unwrap_or_default();
            assert!(tests.contains(&format!("{body}(")), "{}: no test calls {body}", path.display());
            kernels += 1;
        }
    }
    assert!(kernels >= 11, "only {kernels} kernels were found");
}
