//! Signatures: Ed25519 (RFC 8032) over the canonical JSON (RFC 8785) of the whole document, including
//! ids, times and the ledger entry. Only `signature.value` itself is left out, so no field can be changed,
//! added or removed, not even the name of the key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ed25519_dalek::Signer as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Document;
use crate::error::{EngineError, Result};

/// The name of the signature algorithm.
pub const ALGORITHM: &str = "ed25519";

/// The DER header of an Ed25519 public key (RFC 8410), which precedes its 32 bytes in a PEM file.
const DER_HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Canonical JSON cannot distinguish integers beyond this, because its numbers are doubles.
const EXACT: u64 = 1 << 53;

/// The signature of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// The signature algorithm, `ed25519`.
    pub algorithm: String,
    /// The name of the key; `GET /v1/certificates/key` serves the key.
    pub key_id: String,
    /// The signature: 64 bytes in base64.
    pub value: String,
}

/// The secret half of a key pair. Its `Debug` output names only the public half, so the secret cannot be
/// logged.
pub struct SigningKey(ed25519_dalek::SigningKey);

/// The public half of a key pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(ed25519_dalek::VerifyingKey);

/// The result of checking a document's signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureState {
    /// The document was signed by this trusted key.
    Valid {
        /// The name of the key.
        key_id: String,
    },
    /// The document has no signature.
    Unsigned,
    /// The signature is not valid, for this reason.
    Invalid(String),
}

impl SigningKey {
    /// A key from 32 secret random bytes.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        SigningKey(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// The 32 secret bytes.
    pub fn seed(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs the document and replaces any signature that it has.
    ///
    /// # Errors
    /// If the document has no canonical form: a number that is not finite, or an integer beyond 2^53.
    pub fn sign(&self, document: &mut Document) -> Result<()> {
        let (algorithm, key_id) = (ALGORITHM.to_owned(), self.public().key_id());
        document.signature = Some(Signature { algorithm, key_id, value: String::new() });
        let value = serde_json::to_value(&*document).map_err(unsignable)?;
        let bytes = signed_bytes(&value).map_err(EngineError::Numerical)?;
        if let Some(signature) = &mut document.signature {
            signature.value = BASE64.encode(self.0.sign(&bytes).to_bytes());
        }
        Ok(())
    }
}

fn unsignable(error: serde_json::Error) -> EngineError {
    EngineError::Numerical(format!("the certificate cannot be signed: {error}"))
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "SigningKey({})", self.public().key_id())
    }
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "PublicKey({})", self.base64())
    }
}

impl PublicKey {
    /// A key from its 32 bytes; None if they are not a usable key.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 32] = bytes.try_into().ok()?;
        let key = ed25519_dalek::VerifyingKey::from_bytes(bytes).ok()?;
        // Anyone can sign under a weak key.
        (!key.is_weak()).then_some(PublicKey(key))
    }

    /// A key from the base64 of its 32 bytes or of its DER form, with or without the lines that frame it in a
    /// PEM file.
    pub fn from_text(text: &str) -> Option<Self> {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
        let bytes = BASE64.decode(lines.collect::<String>()).ok()?;
        PublicKey::from_bytes(bytes.strip_prefix(&DER_HEAD).unwrap_or(&bytes))
    }

    /// The 32 bytes in base64.
    pub fn base64(&self) -> String {
        BASE64.encode(self.0.as_bytes())
    }

    /// The key in PEM form, as other tools read it.
    pub fn pem(&self) -> String {
        let der = [&DER_HEAD[..], self.0.as_bytes()].concat();
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", BASE64.encode(der))
    }

    /// The name of the key: the first 64 bits of its SHA-256. Security does not depend on it.
    pub fn key_id(&self) -> String {
        hex::encode(&Sha256::digest(self.0.as_bytes())[..8])
    }

    fn check(&self, bytes: &[u8], value: &str) -> bool {
        let Ok(raw) = BASE64.decode(value) else { return false };
        let Ok(signature) = ed25519_dalek::Signature::from_slice(&raw) else { return false };
        self.0.verify_strict(bytes, &signature).is_ok()
    }
}

/// The bytes that are signed: the canonical form of the document without `signature.value`.
///
/// # Errors
/// If the document has no canonical form.
pub fn signed_bytes(document: &Value) -> Result<Vec<u8>, String> {
    let mut document = document.clone();
    if let Some(Value::Object(signature)) = document.get_mut("signature") {
        signature.remove("value");
    }
    exact(&document)?;
    serde_json_canonicalizer::to_vec(&document).map_err(|error| error.to_string())
}

fn exact(value: &Value) -> Result<(), String> {
    match value {
        Value::Number(number) => {
            let size = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
            match size.filter(|&size| size > EXACT) {
                Some(_) => Err(format!("the integer {number} is too large for canonical JSON")),
                None => Ok(()),
            }
        }
        Value::Array(items) => items.iter().try_for_each(exact),
        Value::Object(fields) => fields.values().try_for_each(exact),
        _ => Ok(()),
    }
}

/// Checks the signature of a document, as it was received, with the trusted keys.
pub fn check_signature(document: &Value, trusted: &[PublicKey]) -> SignatureState {
    let invalid = |why: &str| SignatureState::Invalid(why.into());
    let Some(sent) = document.get("signature").filter(|sent| !sent.is_null()) else {
        return SignatureState::Unsigned;
    };
    let Ok(signature) = serde_json::from_value::<Signature>(sent.clone()) else {
        return invalid("`signature` must have exactly the members algorithm, key_id and value");
    };
    if signature.algorithm != ALGORITHM {
        return invalid("the algorithm is not ed25519");
    }
    let bytes = match signed_bytes(document) {
        Ok(bytes) => bytes,
        Err(why) => return SignatureState::Invalid(why),
    };
    let Some(key) = trusted.iter().find(|key| key.key_id() == signature.key_id) else {
        return SignatureState::Invalid(format!("the key {:?} is not trusted", signature.key_id));
    };
    match key.check(&bytes, &signature.value) {
        true => SignatureState::Valid { key_id: signature.key_id },
        false => invalid("the signature does not match this document and key"),
    }
}
