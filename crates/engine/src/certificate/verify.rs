//! Verification: the certificate is computed again from the log and the evidence, and compared.

use serde_json::{Map, Value};

use super::{Certificate, Check, Evidence, Verification};
use crate::certify::certify;
use crate::control::Control;
use crate::error::{EngineError, Result};
use crate::inputs::Inputs;

/// How far numbers of another machine may be off: rounding of other vector instructions, no more.
const TOLERANCE: f64 = 1e-9;

/// What vouches for a document's words. Its numbers are always computed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    /// Nothing but the recomputation: each must be what this engine says.
    Compared,
    /// A signature, or the digest that the ledger keeps: what another release worded otherwise stands.
    Vouched,
}

pub fn verify(
    certificate: &Certificate,
    words: Words,
    evidence: &Evidence,
    inputs: &Inputs,
    control: &Control,
) -> Result<Verification> {
    let mut checks = Vec::new();
    let mut check =
        |name: &str, ok: bool, detail: String| checks.push(Check { name: name.into(), ok, detail });
    let Check { name, ok, detail } = check_digest(certificate);
    check(&name, ok, detail);
    let same = certificate.dataset.digest == inputs.dataset_digest
        && certificate.dataset.version == inputs.dataset_version;
    check("dataset", same, format!("version {} {}", inputs.dataset_version, inputs.dataset_digest));
    let other_engine = certificate.engine_version != crate::VERSION;
    match certify(&certificate.spec, inputs, evidence, certificate.learning.clone(), control) {
        Ok(again) => {
            let again = Certificate { engine_version: certificate.engine_version.clone(), ..again };
            compare(certificate, &again, other_engine && words == Words::Vouched, &mut check)?;
        }
        Err(EngineError::Cancelled) => return Err(EngineError::Cancelled),
        Err(error) => check("recomputation", false, format!("the numbers cannot be computed again: {error}")),
    }
    if other_engine {
        let versions = (&certificate.engine_version, crate::VERSION);
        let found = checks.iter_mut().find(|check| check.name == "engine_version");
        if let Some(note) = found {
            note.detail = format!("issued by engine {}, computed again by {}", versions.0, versions.1);
        }
    }
    let valid = checks.iter().all(|c| c.ok);
    Ok(Verification { valid, checks })
}

/// Checks that the document has the digest that it states.
pub fn check_digest(certificate: &Certificate) -> Check {
    let stated = &certificate.digest;
    let (ok, detail) = match certificate.content_digest() {
        Ok(digest) if digest == *stated => (true, "the document is as it was issued".into()),
        Ok(digest) => (false, format!("the document's digest is {digest}, but it states {stated}")),
        Err(error) => (false, format!("the document has no digest: {error}")),
    };
    Check { name: "digest".into(), ok, detail }
}

/// The fields that two certificates do not have in common, the digest aside.
pub fn differing_fields(one: &Certificate, other: &Certificate) -> Result<Vec<String>> {
    let (one, other) = (fields(one)?, fields(other)?);
    let names = one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)));
    let differing = names.filter(|name| *name != "digest" && one.get(*name) != other.get(*name));
    Ok(differing.cloned().collect())
}

fn fields(certificate: &Certificate) -> Result<Map<String, Value>> {
    match serde_json::to_value(certificate) {
        Ok(Value::Object(fields)) => Ok(fields),
        other => Err(EngineError::Numerical(format!("a certificate is not an object: {other:?}"))),
    }
}

/// What is said in words, beside the numbers that say the same.
fn is_words(path: &str) -> bool {
    let top = path.split(['.', '[']).next().unwrap_or(path);
    matches!(top, "statement" | "assumptions" | "attestations")
        || (top == "reasons" && path.ends_with(".message"))
        || (top == "delta_accounting" && path.ends_with(".what"))
}

/// One check a field of the document.
fn compare(
    issued: &Certificate,
    again: &Certificate,
    words_stand: bool,
    check: &mut dyn FnMut(&str, bool, String),
) -> Result<()> {
    let (issued, again) = (fields(issued)?, fields(again)?);
    for (name, want) in again.iter().filter(|(name, _)| *name != "digest") {
        let got = issued.get(name).unwrap_or(&Value::Null);
        match difference(name, got, want, words_stand) {
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
fn difference(path: &str, got: &Value, want: &Value, words_stand: bool) -> Option<String> {
    match (got, want) {
        _ if words_stand && is_words(path) => None,
        (Value::Number(g), Value::Number(w)) => {
            let (g, w) = (g.as_f64()?, w.as_f64()?);
            // Slacks are themselves rounding errors.
            let near = (g - w).abs() <= TOLERANCE * w.abs().max(1e-3) || path.ends_with("numerical_slack");
            (!near).then(|| format!("{path} is {g}, computed again it is {w}"))
        }
        (Value::Array(g), Value::Array(w)) if g.len() == w.len() => (g.iter().zip(w).enumerate())
            .find_map(|(i, (g, w))| difference(&format!("{path}[{i}]"), g, w, words_stand)),
        (Value::Object(g), Value::Object(w)) if g.len() == w.len() => w.iter().find_map(|(key, w)| {
            difference(&format!("{path}.{key}"), g.get(key).unwrap_or(&Value::Null), w, words_stand)
        }),
        (g, w) => (g != w).then(|| format!("{path} is {g}, computed again it is {w}")),
    }
}
