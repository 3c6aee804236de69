//! The certificate as a document: its fields, its wording, its signature, and the checks that need only
//! the document. The numbers come from `certify`.

mod breakdown;
mod check;
mod content;
mod document;
mod evidence;
mod guardrail;
mod merged;
mod offline;
mod reason;
mod signature;
mod statement;
mod strict;
mod types;
mod units;

pub use breakdown::{Breakdown, BreakdownStep};
pub use check::{Check, CheckCode, Verification, check_digest, check_method, differing_fields, fields};
pub use document::*;
pub use evidence::{
    AutoEvidence, Evidence, GuardrailEvidence, LearnedEvidence, PriorEvidence, SplitEvidence,
};
pub use guardrail::{GuardrailResult, GuardrailUnits, LossNumbers, guardrails_hold};
pub use merged::{MergedRecord, PartialEntry, PartialsRecord};
pub use offline::{certificate_of, only_signed, signature_check};
pub use reason::{Reason, ReasonCode};
pub use signature::{PublicKey, Signature, SignatureState, SigningKey, check_signature, signed_bytes};
pub use statement::{assumptions, attestations, exceeds, reasons, statement, what_holds};
pub use strict::{StrictJson, extra_field};
pub use types::*;
pub use units::{CandidateUnits, UserUnits};
