//! Verification: the certificate is computed again from the log and the evidence, and compared.

use serde_json::Value;

use super::{Certificate, Check, Evidence, Verification};
use crate::engine::certify::certify;
use crate::engine::control::Control;
use crate::engine::error::{EngineError, Result};
use crate::engine::job::Inputs;

/// How far numbers of another machine may be off: rounding of other vector instructions, no more.
const TOLERANCE: f64 = 1e-9;

pub fn verify(
    certificate: &Certificate,
    evidence: &Evidence,
    inputs: &Inputs,
    control: &Control,
) -> Result<Verification> {
    let mut checks = Vec::new();
    let mut check =
        |name: &str, ok: bool, detail: String| checks.push(Check { name: name.into(), ok, detail });
    let digest = certificate.content_digest();
    let same = digest == certificate.digest;
    check(
        "digest",
        same,
        if same {
            "the document is as it was issued".into()
        } else {
            format!("the document's digest is {digest}, it says {}", certificate.digest)
        },
    );
    let same = certificate.dataset.digest == inputs.dataset_digest
        && certificate.dataset.version == inputs.dataset_version;
    check("dataset", same, format!("version {} {}", inputs.dataset_version, inputs.dataset_digest));
    if certificate.engine_version != crate::engine::VERSION {
        let detail =
            format!("issued by engine {}, this is {}", certificate.engine_version, crate::engine::VERSION);
        check("engine_version", false, detail);
    }
    match certify(&certificate.spec, inputs, evidence, certificate.learning.clone(), control) {
        Ok(again) => compare(certificate, &again, &mut check)?,
        Err(EngineError::Cancelled) => return Err(EngineError::Cancelled),
        Err(error) => check("recomputation", false, format!("the numbers cannot be computed again: {error}")),
    }
    let valid = checks.iter().all(|c| c.ok);
    Ok(Verification { valid, checks })
}

/// One check a field of the document.
fn compare(
    issued: &Certificate,
    again: &Certificate,
    check: &mut dyn FnMut(&str, bool, String),
) -> Result<()> {
    let json = |c: &Certificate| serde_json::to_value(c).map_err(|e| EngineError::Numerical(e.to_string()));
    let (issued, again) = (json(issued)?, json(again)?);
    let (Value::Object(issued), Value::Object(again)) = (issued, again) else {
        return Err(EngineError::Numerical("a certificate is not an object".into()));
    };
    for (name, want) in again.iter().filter(|(name, _)| *name != "digest") {
        let got = issued.get(name).unwrap_or(&Value::Null);
        match difference(name, got, want) {
            None => check(name, true, "computed again, the same".into()),
            Some(detail) => check(name, false, detail),
        }
    }
    for name in issued.keys().filter(|name| !again.contains_key(*name)) {
        check(name, false, "is not part of the recomputed certificate".into());
    }
    Ok(())
}

/// Where and how two values differ; numbers may by rounding.
fn difference(path: &str, got: &Value, want: &Value) -> Option<String> {
    match (got, want) {
        (Value::Number(g), Value::Number(w)) => {
            let (g, w) = (g.as_f64()?, w.as_f64()?);
            // Slacks are themselves rounding errors.
            let near = (g - w).abs() <= TOLERANCE * w.abs().max(1e-3) || path.ends_with("numerical_slack");
            (!near).then(|| format!("{path} is {g}, computed again it is {w}"))
        }
        (Value::Array(g), Value::Array(w)) if g.len() == w.len() => {
            (g.iter().zip(w).enumerate()).find_map(|(i, (g, w))| difference(&format!("{path}[{i}]"), g, w))
        }
        (Value::Object(g), Value::Object(w)) if g.len() == w.len() => w
            .iter()
            .find_map(|(key, w)| difference(&format!("{path}.{key}"), g.get(key).unwrap_or(&Value::Null), w)),
        (g, w) => (g != w).then(|| format!("{path} is {g}, computed again it is {w}")),
    }
}
