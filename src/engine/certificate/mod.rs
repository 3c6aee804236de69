//! The certificate: one document that stands alone. What it says is computed in `assemble`, put in
//! words in `statement`, and checked again from the log and the evidence in `verify`.

mod types;

use serde::Serialize;
use sha2::{Digest, Sha256};

pub use types::*;

/// SHA-256 over the canonical JSON (RFC 8785) of a value, as `sha256:` and hex.
pub fn digest_of<T: Serialize>(value: &T) -> String {
    // Canonicalisation fails only on non-finite numbers and non-string keys; parameters are checked
    // to be finite, and an unreadable digest can never equal a readable one.
    let bytes = serde_json_canonicalizer::to_vec(value).unwrap_or_default();
    let hash = Sha256::digest(&bytes);
    let hex: String = hash.iter().map(|b| format!("{b:02x}")).collect();
    format!("sha256:{hex}")
}
