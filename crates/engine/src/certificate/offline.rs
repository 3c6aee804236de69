//! What can be checked about a document without the service that issued it.

use serde_json::Value;

use super::{Certificate, Check, PublicKey, SignatureState, check_signature, extra_field};

/// The members of a document that only its signature covers.
const ONLY_SIGNED: [&str; 3] = ["issued", "ledger", "signature"];

/// The members of this document that only its signature covers: without a key, nothing vouches for what the log does
/// not determine.
pub fn only_signed(document: &Value) -> Vec<&'static str> {
    ONLY_SIGNED.into_iter().filter(|name| document.get(name).is_some()).collect()
}

/// Checks the signature of a document.
pub fn signature_check(document: &Value, keys: &[PublicKey]) -> Check {
    let (ok, detail) = match check_signature(document, keys) {
        SignatureState::Valid { key_id } => (true, format!("the whole document is signed by key {key_id}")),
        SignatureState::Unsigned => (false, "the document is unsigned".into()),
        SignatureState::Invalid(why) => (false, why),
    };
    Check::new("signature", ok, detail)
}

/// The certificate of a document. The document must have no other member, because no check would cover it.
///
/// # Errors
/// The document is not a certificate, or has another member. The message says which.
pub fn certificate_of(mut document: Value) -> Result<Certificate, String> {
    if let Value::Object(fields) = &mut document {
        fields.retain(|name, _| !ONLY_SIGNED.contains(&name.as_str()));
    }
    let certificate: Certificate = serde_json::from_value(document.clone()).map_err(|e| e.to_string())?;
    let known = serde_json::to_value(&certificate).map_err(|error| error.to_string())?;
    match extra_field(&document, &known) {
        Some(field) => Err(format!("unknown member {field}")),
        None => Ok(certificate),
    }
}

impl PublicKey {
    /// The key in a text, or the keys in a response of `GET /v1/certificates/key`; None if one of them is not usable.
    pub fn all_from_text(text: &str) -> Option<Vec<Self>> {
        match serde_json::from_str::<Value>(text) {
            Ok(answer @ Value::Object(_)) => {
                let earlier = answer["earlier"].as_array().into_iter().flatten();
                let texts = std::iter::once(&answer).chain(earlier).map(|key| key["public_key"].as_str());
                texts.map(|text| PublicKey::from_text(text?)).collect()
            }
            _ => PublicKey::from_text(text).map(|key| vec![key]),
        }
    }
}
