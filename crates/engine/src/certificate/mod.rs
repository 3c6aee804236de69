//! The certificate: one document that stands alone. Its numbers come from `certify`; here they are put
//! together, put in words, signed, and checked again.

mod document;
mod signature;
mod statement;
mod strict;
mod types;
mod verify;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::certify::{Ledger, Verdict, auto_policies, is_automatic};
use super::cost_model::CostModel;
use super::error::{EngineError, Result, finite};
use super::job::Inputs;
use super::policy::PolicyParams;
use super::spec::{JobKind, JobSpec};

pub use document::*;
pub use signature::{PublicKey, Signature, SignatureState, SigningKey, check_signature, signed_bytes};
pub use strict::{StrictJson, extra_field};
pub use types::*;
pub use verify::{Words, check_digest, differing_fields, verify};

/// SHA-256 over the canonical JSON (RFC 8785) of a value, as `sha256:` and hex.
pub fn digest_of<T: Serialize>(value: &T) -> String {
    // Canonicalisation fails only on non-finite numbers and non-string keys; parameters are checked
    // to be finite, and an empty string's digest can never equal that of a document.
    let bytes = serde_json_canonicalizer::to_vec(value).unwrap_or_default();
    format!("sha256:{}", hex(&Sha256::digest(&bytes)))
}

/// Two digits a byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

impl Certificate {
    /// The digest of everything but itself.
    pub fn content_digest(&self) -> String {
        digest_of(&Certificate { digest: String::new(), ..self.clone() })
    }
}

/// Deploy only where the guaranteed improvement, slack already taken off, exceeds what was asked for.
/// NaN compares false, and so keeps.
pub(super) fn decide(spec: &JobSpec, verdict: &Verdict) -> Decision {
    let sound = verdict.improvement.is_finite() && verdict.risk.is_finite();
    // R(π0) − R(π) is at most 1; a larger guarantee is a broken one.
    if sound && verdict.improvement > spec.min_improvement && verdict.improvement <= 1.0 {
        Decision::Deploy
    } else {
        Decision::Keep
    }
}

/// Shares must add up to δ but for rounding.
fn check_shares(spec: &JobSpec, shares: &[DeltaShare]) -> Result<()> {
    let total: f64 = shares.iter().map(|s| s.share).sum();
    if shares.iter().all(|s| s.share > 0.0) && (total - spec.delta).abs() <= 1e-12 {
        return Ok(());
    }
    Err(EngineError::Numerical(format!("the parts of δ sum to {total}, not {}", spec.delta)))
}

/// The policy that the used bounds speak of.
pub fn certified_policy<'a>(
    spec: &JobSpec,
    evidence: &'a Evidence,
    records: &[BoundRecord],
) -> Result<Option<&'a PolicyParams>> {
    if spec.kind == JobKind::Evaluate {
        return Ok(None);
    }
    if !is_automatic(spec) || evidence.policy.is_some() {
        return Ok(evidence.policy.as_ref());
    }
    let (direct, refined) = auto_policies(evidence)?;
    let refined_used = records.iter().any(|r| r.used && r.event.ends_with(":refined"));
    Ok(Some(if refined_used { refined } else { direct }))
}

pub(super) fn assemble(
    spec: &JobSpec,
    inputs: &Inputs,
    evidence: &Evidence,
    learning: Option<LearningRecord>,
    ledger: Ledger,
    candidates: Vec<CandidateResult>,
    verdict: Verdict,
) -> Result<Certificate> {
    finite("the guaranteed risk", verdict.risk)?;
    finite("the guaranteed improvement", verdict.improvement)?;
    check_shares(spec, &ledger.shares)?;
    let shape = inputs.log.shape();
    let policy = certified_policy(spec, evidence, &ledger.records)?;
    let cost_model_digest = match &evidence.direct {
        Some(DirectEvidence { calibration: Some(calibration), .. }) => {
            let scores = auto_policies(evidence)?.0;
            Some(CostModel { scores, calibration: *calibration }.digest())
        }
        _ => None,
    };
    let mut certificate = Certificate {
        format: FORMAT.into(),
        statement: String::new(),
        decision: decide(spec, &verdict),
        reasons: statement::reasons(spec, &verdict),
        guaranteed_risk: verdict.risk,
        guaranteed_improvement: verdict.improvement,
        min_improvement: spec.min_improvement,
        confidence: 1.0 - spec.delta,
        numerical_slack: verdict.slack,
        user_units: UserUnits {
            outcome: shape.outcome,
            guaranteed_outcome: shape.outcome.risk_to_user(verdict.risk),
            guaranteed_improvement: shape.outcome.improvement_to_user(verdict.improvement),
            baseline_outcome: shape.outcome.risk_to_user(ledger.baseline.estimate),
        },
        baseline_risk: ledger.baseline,
        candidates,
        bounds: ledger.records,
        delta_accounting: ledger.shares,
        dataset: DatasetRecord {
            version: inputs.dataset_version,
            digest: inputs.dataset_digest.into(),
            rows: shape.rows,
            contexts: shape.contexts,
            n_actions: shape.n_actions,
            dim: shape.dim,
        },
        policy: policy.map(|p| PolicyRecord {
            kind: p.kind(),
            digest: p.digest(),
            n_actions: p.n_actions(),
            dim: p.dim(),
        }),
        prior_digest: evidence.prior.as_ref().map(digest_of),
        cost_model_digest,
        learning,
        assumptions: statement::assumptions(spec),
        attestations: statement::attestations(spec),
        engine_version: super::VERSION.into(),
        seed: spec.seed,
        spec: spec.clone(),
        digest: String::new(),
    };
    certificate.statement = statement::statement(&certificate);
    certificate.digest = certificate.content_digest();
    Ok(certificate)
}
