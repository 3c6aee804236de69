//! The document that is handed out: the engine's certificate and, outside of its digest, what only the
//! service knows. The signature covers all of it.

use serde::{Deserialize, Serialize};

use super::{Certificate, Signature};
use crate::spec::Family;

/// A certificate with its circumstances. `issued` and `ledger` are absent if the command line certified
/// without a service, and `signature` is absent if nobody signed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = IssuedCertificate))]
pub struct Document {
    #[serde(flatten)]
    pub certificate: Certificate,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Issued))]
    pub issued: Option<Issued>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<LedgerPlace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
}

/// The job that issued the certificate. It is not part of the digest, so equal inputs give equal digests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Issued {
    #[cfg_attr(feature = "schema", schema(format = "uuid"))]
    pub job_id: String,
    #[cfg_attr(feature = "schema", schema(format = "uuid"))]
    pub dataset_id: String,
    /// The learned policy (kind `learn`).
    #[cfg_attr(feature = "schema", schema(format = "uuid", required))]
    pub policy_id: Option<String>,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub created_at: String,
    #[cfg_attr(feature = "schema", schema(format = "date-time", required))]
    pub started_at: Option<String>,
    #[cfg_attr(feature = "schema", schema(format = "date-time", required))]
    pub finished_at: Option<String>,
}

/// Where the certificate stands among all that were drawn from the dataset's rows. It is a part of
/// the service's state at that moment, like ids and times, and so not under the digest. Members that it
/// does not know are the signature's to refuse: the ledger's own list adds some to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LedgerPlace {
    /// Counts the certificates from these rows, whatever version of the dataset they saw.
    pub look: u64,
    /// δ of this certificate.
    pub delta: f64,
    /// What it added to `spent`: δ, or nothing where it rests on an earlier look's event.
    pub cost: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<SharedLook>,
    pub spent_before: f64,
    pub spent: f64,
    /// The probability, at least, that all certificates up to this one hold together: 1 − `spent`.
    pub family_wise_confidence: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<FamilyPlace>,
    pub statement: String,
}

/// The earlier look that a free one rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SharedLook {
    pub look: u64,
    pub why: SharedWhy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SharedWhy {
    /// The very same certificate, computed again.
    Repeat,
    /// The same bound, which holds at every number of rows at once.
    Anytime,
    /// The same question to the same rows, whose bound one of the two jobs showed while it ran.
    Asked,
}

/// The place in a family that was announced beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FamilyPlace {
    pub delta: f64,
    pub looks: u64,
    /// How many of its looks were taken, this one included if it cost anything.
    pub taken: u64,
}

impl LedgerPlace {
    /// The place of look number `look` after looks that cost `spent_before` in all.
    pub fn new(
        look: u64,
        delta: f64,
        shares: Option<SharedLook>,
        spent_before: f64,
        family: Option<(Family, u64)>,
    ) -> Self {
        let cost = if shares.is_some() { 0.0 } else { delta };
        let spent = spent_before + cost;
        let family = family.map(|(Family { delta, looks }, before)| FamilyPlace {
            delta,
            looks,
            taken: before + u64::from(shares.is_none()),
        });
        let mut place = LedgerPlace {
            look,
            delta,
            cost,
            shares,
            spent_before,
            spent,
            family_wise_confidence: family_wise_confidence(spent),
            family,
            statement: String::new(),
        };
        place.statement = super::statement::ledger(&place);
        place
    }
}

/// By the union bound; nothing is left when the parts exceed 1.
pub fn family_wise_confidence(spent: f64) -> f64 {
    (1.0 - spent).clamp(0.0, 1.0)
}
