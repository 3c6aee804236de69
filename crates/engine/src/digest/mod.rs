//! Digests: SHA-256 of the canonical form of a value. Equal content has equal digests.

mod finite;

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::{EngineError, Result};

/// The digest of a value's canonical JSON (RFC 8785), written as `sha256:` and 64 hexadecimal digits.
///
/// # Errors
/// If the value has no canonical form: a number that is not finite, or a map whose keys are not strings.
pub fn digest_of<T: Serialize>(value: &T) -> Result<String> {
    let no_digest = |error: &dyn std::fmt::Display| {
        EngineError::Numerical(format!("the value has no canonical JSON form: {error}"))
    };
    finite::check(value).map_err(|error| no_digest(&error))?;
    let bytes = serde_json_canonicalizer::to_vec(value).map_err(|error| no_digest(&error))?;
    Ok(format!("sha256:{}", hex::encode(Sha256::digest(&bytes))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_content_has_equal_digests_and_nan_has_none() {
        let empty_object = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(digest_of(&serde_json::json!({})).unwrap(), empty_object);
        let (one, other) = (serde_json::json!({"a": 1, "b": 2.0}), serde_json::json!({"b": 2, "a": 1.0}));
        assert_eq!(digest_of(&one).unwrap(), digest_of(&other).unwrap());
        for nan in [f64::NAN, f64::INFINITY] {
            assert!(digest_of(&vec![nan]).is_err() && digest_of(&(1, Some(nan))).is_err());
            assert!(digest_of(&std::collections::BTreeMap::from([("a", nan)])).is_err());
        }
    }
}
