//! `Content-Digest` (RFC 9530): the sender's digest of the bytes as they are sent, including their content
//! encoding. A body with another digest fails at its end, so nothing is stored.

use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{StreamExt, stream};
use sha2::{Digest, Sha256, Sha512};

use super::body::Chunks;
use crate::http::codes::Code;
use crate::http::problem::Problem;
use crate::store::BodyError;

const HEADER: &str = "content-digest";

/// The digests that a body must have.
#[derive(Default)]
pub struct Expected {
    sha256: Option<(Sha256, Vec<u8>)>,
    sha512: Option<(Sha512, Vec<u8>)>,
}

impl Expected {
    /// The digests in the headers. Unknown algorithms are skipped, as the RFC requires, unless all of
    /// them are unknown: skipping the only check that the client asked for would mislead it.
    ///
    /// # Errors
    /// If the header cannot be read or names unknown algorithms only.
    pub fn of(headers: &HeaderMap) -> Result<Expected, Problem> {
        let reject = |message: String| Problem::field(Code::InvalidHeader, HEADER, message);
        let mut expected = Expected::default();
        let mut others = Vec::new();
        for value in headers.get_all(HEADER) {
            let value = value.to_str().map_err(|_| reject("is not visible ASCII".into()))?;
            for member in value.split(',') {
                let (name, digest) = parse(member).map_err(&reject)?;
                match (name.as_str(), digest.len()) {
                    ("sha-256", 32) => expected.sha256 = Some((Sha256::new(), digest)),
                    ("sha-512", 64) => expected.sha512 = Some((Sha512::new(), digest)),
                    ("sha-256" | "sha-512", n) => {
                        return Err(reject(format!(
                            "has a {name} digest of {n} bytes, which is the wrong length"
                        )));
                    }
                    _ => others.push(name),
                }
            }
        }
        match others.first().filter(|_| expected.is_empty()) {
            Some(name) => {
                Err(reject(format!("has the unsupported algorithm {name}; use sha-256 or sha-512")))
            }
            None => Ok(expected),
        }
    }

    fn is_empty(&self) -> bool {
        self.sha256.is_none() && self.sha512.is_none()
    }

    fn update(&mut self, bytes: &[u8]) {
        if let Some((hash, _)) = &mut self.sha256 {
            hash.update(bytes);
        }
        if let Some((hash, _)) = &mut self.sha512 {
            hash.update(bytes);
        }
    }

    fn check(self) -> Result<(), BodyError> {
        let sha256 = self.sha256.map(|(hash, wanted)| ("sha-256", hash.finalize().to_vec(), wanted));
        let sha512 = self.sha512.map(|(hash, wanted)| ("sha-512", hash.finalize().to_vec(), wanted));
        match [sha256, sha512].into_iter().flatten().find(|(_, found, wanted)| found != wanted) {
            Some((name, found, _)) => Err(BodyError::Digest(format!(
                "The body that arrived has {name}=:{}:, which differs from Content-Digest; send it again.",
                STANDARD.encode(found)
            ))),
            None => Ok(()),
        }
    }
}

/// One member of the header: `name=:base64:`.
fn parse(member: &str) -> Result<(String, Vec<u8>), String> {
    let wrong = || format!("{:?} is not of the form sha-256=:BASE64:", member.trim());
    let (name, value) = member.trim().split_once('=').ok_or_else(wrong)?;
    let value = value.split(';').next().unwrap_or("").trim();
    let inner = value.strip_prefix(':').and_then(|v| v.strip_suffix(':')).ok_or_else(wrong)?;
    let named = !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.*".contains(&b));
    let digest = STANDARD.decode(inner).ok().filter(|_| named).ok_or_else(wrong)?;
    Ok((name.to_owned(), digest))
}

/// `body`, which fails at its end if it does not have the digests.
pub fn verified(body: Chunks, expected: Expected) -> Chunks {
    if expected.is_empty() {
        return body;
    }
    let checked = stream::unfold((body, Some(expected)), |(mut body, mut expected)| async move {
        match body.next().await {
            Some(Ok(bytes)) => {
                if let Some(expected) = &mut expected {
                    expected.update(&bytes);
                }
                Some((Ok(bytes), (body, expected)))
            }
            Some(Err(error)) => Some((Err(error), (body, None))),
            None => expected.take()?.check().err().map(|error| (Err(error), (body, None))),
        }
    });
    checked.fuse().boxed()
}
