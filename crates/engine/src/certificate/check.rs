//! Checks of a certificate that need only the document itself, and the types of their results.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Certificate, METHOD, release_of_method};
use crate::error::{EngineError, Result};

/// One check of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Check {
    /// The field of the certificate that was checked, or the name of the check.
    pub name: String,
    /// Whether the check passed.
    pub ok: bool,
    /// Why the check could not be made; absent if it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<CheckCode>,
    /// What was found, as a sentence.
    pub detail: String,
}

impl Check {
    /// A check that was made.
    pub fn new(name: impl Into<String>, ok: bool, detail: impl Into<String>) -> Self {
        Check { name: name.into(), ok, code: None, detail: detail.into() }
    }
}

/// The stable code of a check that could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CheckCode {
    /// The certificate's method is not the method of this release; `detail` names a release that has it.
    MethodNotSupported,
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Verification {
    /// Whether every check passed.
    pub valid: bool,
    /// The checks, in the order in which they were made.
    pub checks: Vec<Check>,
}

impl Verification {
    /// The result of these checks.
    pub fn of(checks: Vec<Check>) -> Self {
        Verification { valid: checks.iter().all(|check| check.ok), checks }
    }
}

/// Checks that the document has the digest that it states.
pub fn check_digest(certificate: &Certificate) -> Check {
    let stated = &certificate.digest;
    match certificate.content_digest() {
        Ok(digest) if digest == *stated => Check::new("digest", true, "the document is as it was issued"),
        Ok(digest) => {
            let detail =
                format!("the document states the digest {stated}, but its content has the digest {digest}");
            Check::new("digest", false, detail)
        }
        Err(error) => Check::new("digest", false, format!("the document has no digest: {error}")),
    }
}

/// The failed check of a certificate whose method this release cannot recompute; None if it can.
pub fn check_method(certificate: &Certificate) -> Option<Check> {
    let method = certificate.method;
    if method == METHOD {
        return None;
    }
    let who = match release_of_method(method) {
        Some(release) => format!("release {release} can recompute it"),
        None => "a newer release is needed".into(),
    };
    let detail = format!(
        "the certificate was computed by method {method}, but this release can recompute only method {METHOD}; {who}"
    );
    let code = Some(CheckCode::MethodNotSupported);
    Some(Check { name: "recomputation".into(), ok: false, code, detail })
}

/// The names of the fields in which two certificates differ, apart from the digest.
///
/// # Errors
/// If a certificate has no JSON form.
pub fn differing_fields(one: &Certificate, other: &Certificate) -> Result<Vec<String>> {
    let (one, other) = (fields(one)?, fields(other)?);
    let names = one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)));
    let differing = names.filter(|name| *name != "digest" && one.get(*name) != other.get(*name));
    Ok(differing.cloned().collect())
}

/// The certificate as a JSON object.
///
/// # Errors
/// If the certificate has no JSON form.
pub fn fields(certificate: &Certificate) -> Result<Map<String, Value>> {
    match serde_json::to_value(certificate) {
        Ok(Value::Object(fields)) => Ok(fields),
        other => Err(EngineError::Numerical(format!("a certificate is not a JSON object: {other:?}"))),
    }
}
