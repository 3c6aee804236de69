//! Certificates and plans: what needs no log.

use guarantor_engine::certificate::{
    PublicKey, StrictJson, Verification, certificate_of, check_digest, only_signed, signature_check,
};
use guarantor_engine::certify::plan_before;
use guarantor_engine::plan::PlanRequest;
use guarantor_engine::verify::verify_unsupported;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::attend::{Wishes, attend};
use crate::errors::{Failure, Outcome, from_json, to_json};

/// The plan before any log exists.
#[pyfunction]
pub fn plan(py: Python<'_>, request: String) -> PyResult<String> {
    attend(py, Wishes::default(), move |_| {
        let request: PlanRequest = from_json("plan", &request)?;
        to_json(&plan_before(&request)?)
    })
}

/// Checks of a document that need no log. Returns JSON: the document's own certificate, the checks, which members were not
/// checked because no key was given, and whether this release can recompute the numbers.
#[pyfunction]
#[pyo3(signature = (document, public_key = None))]
pub fn examine(py: Python<'_>, document: String, public_key: Option<String>) -> PyResult<String> {
    attend(py, Wishes::default(), move |_| {
        let StrictJson(document) = from_json("certificate", &document)?;
        to_json(&examined(document, public_key.as_deref())?)
    })
}

fn examined(document: Value, public_key: Option<&str>) -> Outcome<Value> {
    let mut checks = Vec::new();
    let mut unchecked = Vec::new();
    match public_key {
        Some(text) => {
            let why = "expected a key in base64, the text of a PEM file, or the response of GET /v1/certificates/key";
            let keys = PublicKey::all_from_text(text).ok_or_else(|| Failure::argument("public_key", why))?;
            checks.push(signature_check(&document, &keys));
        }
        None => unchecked = only_signed(&document),
    }
    let vouched = checks.iter().any(|check| check.ok);
    let certificate = certificate_of(document).map_err(|why| Failure::argument("certificate", why))?;
    let unsupported = verify_unsupported(&certificate);
    checks.push(check_digest(&certificate));
    let verification = Verification::of(checks);
    Ok(json!({
        "certificate": certificate,
        "verification": verification,
        "unchecked": unchecked,
        "vouched": vouched,
        "unsupported": unsupported,
    }))
}
