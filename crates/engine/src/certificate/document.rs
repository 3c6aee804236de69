//! The document that callers receive: the engine's certificate and, outside of its digest, what only the
//! service knows. The signature covers all of it.

use serde::{Deserialize, Serialize};

use super::{Certificate, Signature};

/// A certificate with the job that issued it, its ledger entry and its signature. `issued` and `ledger` are
/// absent if the command line certified without a service, `signature` if there was no signing key.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = IssuedCertificate))]
pub struct Document {
    /// The certificate as the engine computed it.
    #[serde(flatten)]
    pub certificate: Certificate,
    /// The job that issued the certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Issued))]
    pub issued: Option<Issued>,
    /// The ledger entry of the look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<LedgerPlace>,
    /// The signature of the whole document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
}

/// The job that issued a certificate. It is not part of the digest: the same inputs give the same digest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Issued {
    /// The id of the job.
    #[cfg_attr(feature = "schema", schema(format = "uuid"))]
    pub job_id: String,
    /// The id of the dataset.
    #[cfg_attr(feature = "schema", schema(format = "uuid"))]
    pub dataset_id: String,
    /// The id of the learned policy (kind `learn`).
    #[cfg_attr(feature = "schema", schema(format = "uuid", required))]
    pub policy_id: Option<String>,
    /// When the job was created.
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub created_at: String,
    /// When the job was started.
    #[cfg_attr(feature = "schema", schema(format = "date-time", required))]
    pub started_at: Option<String>,
    /// When the job ended.
    #[cfg_attr(feature = "schema", schema(format = "date-time", required))]
    pub finished_at: Option<String>,
    /// Who submitted the job: the name and the id of the API key, or `anonymous`. Absent if an earlier
    /// release issued the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted_by: Option<String>,
}

/// The ledger entry of a look: its number, its cost, and the total so far. Like ids and times it depends on
/// the state of the service, so it is not part of the certificate's digest. Unknown members are accepted
/// here, because the ledger's list adds some; the signature covers them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LedgerPlace {
    /// The number of the look, counted from 1 over all versions of the dataset.
    pub look: u64,
    /// The δ of this look.
    pub delta: f64,
    /// What the look added to `spent`: δ, or 0 if it rests on the event of an earlier look.
    pub cost: f64,
    /// The earlier look that a free look rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<SharedLook>,
    /// The sum of the costs of all earlier looks.
    pub spent_before: f64,
    /// The sum of the costs of all looks up to and including this one.
    pub spent: f64,
    /// The probability, at least, that all looks up to this one hold together: 1 − `spent`.
    pub family_wise_confidence: f64,
    /// The family of the look, if it belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<FamilyPlace>,
    /// The entry as a sentence.
    pub statement: String,
}

/// The earlier look that a free look rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SharedLook {
    /// The number of the earlier look.
    pub look: u64,
    /// Why the two share an event.
    pub why: SharedWhy,
}

/// Why a look is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SharedWhy {
    /// Both looks issued the same certificate.
    Repeat,
    /// Both looks rest on the same event, which holds at every number of rows at once.
    Anytime,
    /// Both looks ask the same question about the same rows, and one of the two jobs showed its bound without
    /// a certificate.
    Asked,
}

/// The family of a look, and how many of its looks are taken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FamilyPlace {
    /// The δ of all looks of the family together.
    pub delta: f64,
    /// How many looks the family has.
    pub looks: u64,
    /// How many of them are taken, including this one if it was not free.
    pub taken: u64,
}

impl LedgerPlace {
    /// Sets `statement` to the entry as a sentence.
    pub(crate) fn worded(mut self) -> Self {
        self.statement = super::statement::ledger(&self);
        self
    }
}
