//! Verification: a certificate is recomputed from the log and the evidence, and compared field by field
//! (docs/math.md#verification).

use serde_json::Value;

use crate::certificate::{Certificate, Check, Evidence, Verification, check_digest, check_method, fields};
use crate::certify::{certify_auto, certify_candidates, certify_learned};
use crate::control::Control;
use crate::error::{EngineError, Result};
use crate::inputs::Inputs;
use crate::partial::Merged;

/// What vouches for a document's wording. Its numbers are recomputed in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wording {
    /// Nothing: every sentence must be the one that this release writes.
    Compared,
    /// A signature, or the digest in the ledger: sentences that another release worded differently are
    /// accepted.
    Vouched,
}

/// Recomputes a certificate from the log and the evidence and compares every field.
///
/// A certificate of another method is not recomputed: its verification has a failed check with the code
/// `method_not_supported`.
///
/// # Errors
/// If the caller cancels. A certificate that cannot be recomputed has a failed check instead.
pub fn verify(
    certificate: &Certificate,
    wording: Wording,
    evidence: &Evidence,
    inputs: &Inputs,
    control: &Control,
) -> Result<Verification> {
    let mut checks = vec![check_digest(certificate)];
    let same = certificate.dataset.digest == inputs.dataset_digest
        && certificate.dataset.version == inputs.dataset_version;
    let detail = format!("version {} {}", inputs.dataset_version, inputs.dataset_digest);
    checks.push(Check::new("dataset", same, detail));
    if let Some(unsupported) = check_method(certificate) {
        checks.push(unsupported);
        return Ok(Verification::of(checks));
    }
    let other_release = certificate.engine_version != crate::VERSION;
    match recompute(certificate, evidence, inputs, control) {
        Ok(mut again) => {
            again.engine_version.clone_from(&certificate.engine_version);
            if other_release && wording == Wording::Vouched {
                adopt_wording(&mut again, certificate);
            }
            compare(certificate, &again, &mut checks)?;
        }
        Err(EngineError::Cancelled) => return Err(EngineError::Cancelled),
        Err(error) => {
            let detail = format!("the certificate cannot be recomputed: {error}");
            checks.push(Check::new("recomputation", false, detail));
        }
    }
    if other_release && let Some(note) = checks.iter_mut().find(|check| check.name == "engine_version") {
        let issued = &certificate.engine_version;
        note.detail = format!("issued by engine {issued}, recomputed by {}", crate::VERSION);
    }
    Ok(Verification::of(checks))
}

/// Recomputes a certificate of partials from their sums, and compares every field. The sums themselves cannot be
/// recomputed without the rows.
///
/// # Errors
/// If a certificate has no JSON form.
pub fn verify_merged(certificate: &Certificate, wording: Wording, merged: &Merged) -> Result<Verification> {
    let mut checks = vec![check_digest(certificate)];
    match merged.certificate() {
        Ok(mut again) => {
            let other_release = certificate.engine_version != crate::VERSION;
            again.engine_version.clone_from(&certificate.engine_version);
            again.dataset.version = certificate.dataset.version;
            if other_release && wording == Wording::Vouched {
                adopt_wording(&mut again, certificate);
            }
            compare(certificate, &again, &mut checks)?;
            let detail = "recomputed from the merged sums; the sums of the partials cannot be recomputed without the rows";
            checks.push(Check::new("partials", true, detail));
        }
        Err(error) => {
            let detail = format!("the certificate cannot be recomputed: {error}");
            checks.push(Check::new("recomputation", false, detail));
        }
    }
    Ok(Verification::of(checks))
}

/// The verification of a certificate whose method this release cannot recompute; None if it can. With it,
/// callers can avoid reading the log.
pub fn verify_unsupported(certificate: &Certificate) -> Option<Verification> {
    let unsupported = check_method(certificate)?;
    Some(Verification::of(vec![check_digest(certificate), unsupported]))
}

fn recompute(
    certificate: &Certificate,
    evidence: &Evidence,
    inputs: &Inputs,
    control: &Control,
) -> Result<Certificate> {
    let (spec, learning) = (&certificate.spec, certificate.learning.clone());
    match evidence {
        Evidence::Candidates => certify_candidates(spec, inputs, control),
        Evidence::Learned(learned) => certify_learned(spec, inputs, learned, learning, control),
        Evidence::Auto(auto) => certify_auto(spec, inputs, auto, learning, control),
    }
}

/// Replaces the sentences of `again` by those of `issued`. Their content is also present as numbers and
/// codes, which are compared.
fn adopt_wording(again: &mut Certificate, issued: &Certificate) {
    again.statement.clone_from(&issued.statement);
    again.assumptions.clone_from(&issued.assumptions);
    again.attestations.clone_from(&issued.attestations);
    for (again, issued) in again.reasons.iter_mut().zip(&issued.reasons) {
        again.message.clone_from(&issued.message);
    }
    for (again, issued) in again.candidates.iter_mut().zip(&issued.candidates) {
        for (again, issued) in again.reasons.iter_mut().zip(&issued.reasons) {
            again.message.clone_from(&issued.message);
        }
    }
    if let (Some(again), Some(issued)) = (&mut again.breakdown, &issued.breakdown) {
        for (again, issued) in again.steps.iter_mut().zip(&issued.steps) {
            again.what.clone_from(&issued.what);
        }
    }
    if let (Some(again), Some(issued)) = (&mut again.plan, &issued.plan) {
        again.message.clone_from(&issued.message);
    }
    for (again, issued) in again.checks.iter_mut().zip(&issued.checks) {
        again.message.clone_from(&issued.message);
    }
    if let (Some(again), Some(issued)) = (&mut again.exploration, &issued.exploration) {
        again.note.clone_from(&issued.note);
    }
    for (again, issued) in again.delta_accounting.iter_mut().zip(&issued.delta_accounting) {
        again.what.clone_from(&issued.what);
    }
}

/// Adds one check per field of the document.
fn compare(issued: &Certificate, again: &Certificate, checks: &mut Vec<Check>) -> Result<()> {
    let (issued, again) = (fields(issued)?, fields(again)?);
    for (name, want) in again.iter().filter(|(name, _)| *name != "digest") {
        let got = issued.get(name).unwrap_or(&Value::Null);
        checks.push(match difference(name, got, want) {
            None => Check::new(name, true, "recomputed with the same result"),
            Some(detail) => Check::new(name, false, detail),
        });
    }
    for name in issued.keys().filter(|name| !again.contains_key(*name)) {
        checks.push(Check::new(name, false, "is not part of the recomputed certificate"));
    }
    Ok(())
}

/// Describes where and how two values differ. Numbers must be equal to the last bit: the engine's arithmetic is
/// the same on every CPU.
fn difference(path: &str, got: &Value, want: &Value) -> Option<String> {
    match (got, want) {
        (Value::Number(g), Value::Number(w)) => {
            let (g, w) = (g.as_f64()?, w.as_f64()?);
            (g != w).then(|| format!("{path} is {g}, but the recomputed value is {w}"))
        }
        (Value::Array(g), Value::Array(w)) if g.len() == w.len() => {
            (g.iter().zip(w).enumerate()).find_map(|(i, (g, w))| difference(&format!("{path}[{i}]"), g, w))
        }
        (Value::Object(g), Value::Object(w)) if g.len() == w.len() => w
            .iter()
            .find_map(|(key, w)| difference(&format!("{path}.{key}"), g.get(key).unwrap_or(&Value::Null), w)),
        (g, w) => (g != w).then(|| format!("{path} is {g}, but the recomputed value is {w}")),
    }
}
