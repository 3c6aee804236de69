//! Signatures of deliveries, as Standard Webhooks defines them: HMAC-SHA256 over the event's id, the time of the attempt
//! and the body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::store::WebhookSecret;

/// The value of `webhook-signature`: one signature for each secret, separated by spaces.
pub fn signature<'a>(
    secrets: impl Iterator<Item = &'a WebhookSecret>,
    event_id: &str,
    unix_seconds: i64,
    body: &[u8],
) -> String {
    let signed = secrets.filter_map(|secret| {
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret.key()).ok()?;
        mac.update(format!("{event_id}.{unix_seconds}.").as_bytes());
        mac.update(body);
        Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
    });
    signed.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with Python's `hmac`, from the definition.
    #[test]
    fn signatures_are_those_of_an_independent_program() {
        let secret: WebhookSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".parse().unwrap();
        let other = WebhookSecret::of(&[9; 24]);
        let body = br#"{"specversion":"1.0"}"#;
        let one = signature([&secret].into_iter(), "evt", 1_700_000_000, body);
        assert_eq!(one, EXPECTED);
        let both = signature([&secret, &other].into_iter(), "evt", 1_700_000_000, body);
        let (first, second) = both.split_once(' ').unwrap();
        assert_eq!(first, EXPECTED);
        assert!(second.starts_with("v1,") && second != first);
        assert_ne!(signature([&secret].into_iter(), "evt", 1_700_000_001, body), one);
        assert_ne!(signature([&secret].into_iter(), "evt2", 1_700_000_000, body), one);
    }

    const EXPECTED: &str = "v1,OrTAiOMQ1ehzQWlHVY3j0jmNHXEEx2c/YYmCRG/s5uY=";
}
