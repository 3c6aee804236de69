//! Standing gates: which jobs they ask about, what they require, and the tokens that ask them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Age, KeyHash, RequiredGuardrails};
use crate::store::ids::{DatasetId, GateId, GateTokenId, Timestamp, Workspace, stored_as_text};

/// The name of a standing gate, unique in its workspace. It is part of a URL that people type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct GateName(String);

/// A text that is not the name of a gate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not a gate name: use 1 to 64 characters from a-z, 0-9, - and _, the first a letter or digit")]
pub struct BadGateName;

impl GateName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for GateName {
    type Err = BadGateName;

    fn from_str(text: &str) -> Result<Self, BadGateName> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let allowed = |b: u8| plain(b) || b == b'-' || b == b'_';
        let first = text.bytes().next().is_some_and(plain);
        if first && text.len() <= 64 && text.bytes().all(allowed) {
            Ok(GateName(text.into()))
        } else {
            Err(BadGateName)
        }
    }
}

stored_as_text!(GateName);

impl fmt::Display for GateName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a standing gate is closed to unless it was told to allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Allowance {
    /// Certificates with a failed check that the submitter accepted.
    AcceptedChecks,
    /// Certificates whose baseline the submitter stated.
    KnownBaseline,
    /// Certificates whose baseline is an estimate.
    PointEstimateBaseline,
    /// Certificates of logs that are of one fixed policy because the uploader says so.
    FixedLogging,
    /// Certificates that were merged from partial ones.
    MergedCertificates,
}

impl Allowance {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Allowance::AcceptedChecks => "accepted_checks",
            Allowance::KnownBaseline => "known_baseline",
            Allowance::PointEstimateBaseline => "point_estimate_baseline",
            Allowance::FixedLogging => "fixed_logging",
            Allowance::MergedCertificates => "merged_certificates",
        }
    }
}

/// A kind of baseline that can be required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequiredBaseline {
    /// Bounded from the log, as part of the guarantee.
    Certified,
}

/// A version of the dataset that can be required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequiredVersion {
    /// The newest one: the dataset has not changed since the job was submitted.
    Newest,
}

/// What a certificate must satisfy to open a gate, besides the decision `deploy`. What is absent is not
/// required.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GateRequirements {
    /// The candidate that the gate is about, as certificates name it: `logged:NAME`, `policy:ID` or `learned`.
    /// `NAME` or `ID` alone are accepted too. Without it the gate is about the candidate that the certificate's
    /// own results are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 300)]
    #[param(max_length = 300)]
    pub candidate: Option<String>,
    /// The digest of the policy's parameters, `sha256:` and 64 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_digest: Option<String>,
    /// The guaranteed improvement must exceed this, in units of risk as on the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    #[param(minimum = 0, maximum = 1)]
    pub min_improvement: Option<f64>,
    /// The certificate's confidence must be at least this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    #[param(minimum = 0, maximum = 1)]
    pub min_confidence: Option<f64>,
    /// The family-wise confidence of the certificate's ledger entry must be at least this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    #[param(minimum = 0, maximum = 1)]
    pub min_family_confidence: Option<f64>,
    /// The kind of baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    pub baseline: Option<RequiredBaseline>,
    /// The greatest age of the certificate: `90s`, `30m`, `12h` or `7d`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^[0-9]+[smhd]$")]
    #[param(value_type = Option<String>, pattern = "^[0-9]+[smhd]$")]
    pub max_age: Option<Age>,
    /// With `true`, the certificate may have been merged from partials, which the service did not recompute. Otherwise it
    /// must have been computed from the rows. For standing gates, `allow` with `merged_certificates` says the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_merged: Option<bool>,
    /// The outcome that the certificate's improvement must be about. A standing gate without it asks about the
    /// dataset's primary outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 300)]
    #[param(max_length = 300)]
    pub objective: Option<String>,
    /// Guardrails that the certificate must have: its guaranteed loss in each of these outcomes must be at most
    /// `max_loss`. In a query: `NAME=MAX_LOSS,NAME=MAX_LOSS`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<super::RequiredGuardrail>>)]
    #[param(value_type = Option<String>)]
    pub guardrails: Option<RequiredGuardrails>,
    /// `newest`: the certificate must be of the newest version of the dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    pub version: Option<RequiredVersion>,
}

impl GateRequirements {
    /// The first requirement that no certificate could be tested against, with what is wrong about it.
    pub fn fault(&self) -> Option<(&'static str, String)> {
        let numbers = [
            ("min_improvement", self.min_improvement),
            ("min_confidence", self.min_confidence),
            ("min_family_confidence", self.min_family_confidence),
        ];
        for (name, number) in numbers {
            if let Some(number) = number.filter(|number| !(0.0..=1.0).contains(number)) {
                return Some((name, format!("{number} is not in [0, 1]")));
            }
        }
        if self.candidate.as_ref().is_some_and(|name| name.is_empty() || name.len() > 300) {
            return Some(("candidate", "must have 1 to 300 bytes".into()));
        }
        if self.objective.as_ref().is_some_and(|name| name.is_empty() || name.len() > 300) {
            return Some(("objective", "must have 1 to 300 bytes".into()));
        }
        if let Some(fault) = self.guardrails.as_ref().and_then(RequiredGuardrails::fault) {
            return Some(("guardrails", fault));
        }
        if self.policy_digest.as_ref().is_some_and(|digest| !is_digest(digest)) {
            return Some(("policy_digest", "must be `sha256:` and 64 hex digits in lower case".into()));
        }
        None
    }
}

fn is_digest(text: &str) -> bool {
    let digits = text.strip_prefix("sha256:").unwrap_or_default();
    digits.len() == 64 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Which jobs a standing gate asks about, and what it requires of their certificates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateDefinition {
    /// Only jobs on this dataset.
    pub dataset_id: Option<DatasetId>,
    /// Only jobs whose metadata contains these members.
    pub selector: Map<String, Value>,
    /// The greatest δ of a certificate.
    pub delta: f64,
    /// What else is required.
    pub requirements: GateRequirements,
    /// What the gate is open to although it is closed to it by default.
    pub allow: BTreeSet<Allowance>,
}

impl GateDefinition {
    /// Whether the metadata of a job contains every member of the selector.
    pub fn selects(&self, metadata: &Value) -> bool {
        self.selector.iter().all(|(name, value)| metadata.get(name) == Some(value))
    }
}

/// A standing gate to be stored.
#[derive(Debug, Clone)]
pub struct NewGate {
    /// Its id.
    pub id: GateId,
    /// Its workspace.
    pub workspace: Workspace,
    /// Its name.
    pub name: GateName,
    /// What it asks.
    pub definition: GateDefinition,
    /// Who creates it.
    pub by: String,
}

/// A standing gate.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct StandingGate {
    /// Its id, to which its tokens belong: a later gate of the same name has another.
    pub id: GateId,
    /// Its workspace.
    pub workspace: Workspace,
    /// Its name.
    pub name: GateName,
    /// What it asks.
    #[sqlx(json)]
    pub definition: GateDefinition,
    /// When it was created.
    pub created_at: Timestamp,
    /// Who created it.
    pub created_by: String,
    /// When it was changed last, or created.
    pub changed_at: Timestamp,
    /// Who changed it last, or created it.
    pub changed_by: String,
    /// Grows with every change.
    #[sqlx(try_from = "i64")]
    pub revision: u64,
}

/// A token to be stored.
#[derive(Debug, Clone)]
pub struct NewGateToken {
    /// Its id.
    pub id: GateTokenId,
    /// A name for people.
    pub name: String,
    /// The hash of the secret.
    pub hash: KeyHash,
    /// Who creates it.
    pub by: String,
}

/// A token of a gate without its secret, which is not stored.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct GateToken {
    /// Its id, which is not secret.
    pub id: GateTokenId,
    /// The gate that it asks.
    pub gate_id: GateId,
    /// The name that its creator gave it.
    pub name: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// Who created it.
    pub created_by: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_plain() {
        for good in ["a", "recommender-2", "7_up", &"a".repeat(64)] {
            assert!(good.parse::<GateName>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "_a", "A", "a b", "a/b", "a.b", "é", &"a".repeat(65)] {
            assert!(bad.parse::<GateName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn requirements_are_checked() {
        let fault = |fields: Value| {
            serde_json::from_value::<GateRequirements>(fields).unwrap().fault().map(|(field, _)| field)
        };
        let digest = format!("sha256:{}", "0a".repeat(32));
        assert_eq!(fault(json!({"min_confidence": 1, "policy_digest": digest, "candidate": "b"})), None);
        assert_eq!(fault(json!({"min_improvement": -0.1})), Some("min_improvement"));
        assert_eq!(fault(json!({"min_confidence": 1.1})), Some("min_confidence"));
        assert_eq!(fault(json!({"min_family_confidence": 95})), Some("min_family_confidence"));
        assert_eq!(fault(json!({"candidate": ""})), Some("candidate"));
        for bad in ["", "00", &digest[7..], &digest.to_uppercase(), &format!("{digest}0")] {
            assert_eq!(fault(json!({"policy_digest": bad})), Some("policy_digest"), "{bad}");
        }
        let not_a_number =
            GateRequirements { min_improvement: Some(f64::NAN), ..GateRequirements::default() };
        assert_eq!(not_a_number.fault().unwrap().0, "min_improvement");
    }
}
