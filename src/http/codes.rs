//! The table of error codes. Codes are stable: clients branch on them.
//!
//! How the status is chosen: 400 if the request cannot be read at all, 422 if it was read and asks for
//! something impossible, 409 if it may succeed later, 424 if it never will because its job failed or
//! was canceled.

use axum::http::StatusCode;
use utoipa::openapi::schema::{ObjectBuilder, Schema};
use utoipa::openapi::{RefOr, Type};

use guarantor_engine::error::SpecCode;

macro_rules! codes {
    ($($name:ident $status:literal $code:literal $title:literal;)*) => {
        /// The code of a problem.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code { $(#[doc = $title] $name),* }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$name),*];

            /// The code as clients see it.
            pub fn name(self) -> &'static str {
                match self { $(Code::$name => $code),* }
            }

            /// What the code means, in a phrase.
            pub fn title(self) -> &'static str {
                match self { $(Code::$name => $title),* }
            }

            fn number(self) -> u16 {
                match self { $(Code::$name => $status),* }
            }
        }
    };
}

codes! {
    MalformedJson 400 "malformed_json" "The body is not valid JSON";
    MalformedBody 400 "malformed_body" "The body cannot be read";
    InvalidQuery 400 "invalid_query" "A query parameter is unknown or invalid";
    InvalidCursor 400 "invalid_cursor" "The cursor is invalid";
    InvalidHeader 400 "invalid_header" "A header is invalid";
    DigestMismatch 400 "digest_mismatch" "The body does not match its digest";
    Unauthorized 401 "unauthorized" "A valid API key is required";
    DecisionKeep 403 "decision_keep" "The decision is to keep the deployed policy";
    RoleNotSufficient 403 "role_not_sufficient" "The role of the API key does not allow this";
    CrossOrigin 403 "cross_origin" "The request is from a web page of another site";
    CertificateOutdated 403 "certificate_outdated" "The certificate was issued by an earlier method, without checks of the log";
    RequirementFailed 403 "requirement_failed" "The certificate does not meet a requirement of the gate";
    SignatureInvalid 403 "signature_invalid" "The certificate has no valid signature";
    DatasetGone 403 "dataset_gone" "The dataset of the certificate was deleted";
    PolicyGone 403 "policy_gone" "The policy of the certificate was deleted";
    WebhooksOff 403 "webhooks_off" "This server allows no webhooks";
    SourcesOff 403 "sources_off" "This server reads no logs by reference";
    NotFound 404 "not_found" "The resource does not exist";
    NoSuchRoute 404 "no_such_route" "The path does not exist";
    MethodNotAllowed 405 "method_not_allowed" "The method is not allowed for this path";
    RequestTimeout 408 "request_timeout" "The request took too long";
    IdempotencyInProgress 409 "idempotency_in_progress" "The first request with this key is still in progress";
    InUse 409 "in_use" "The resource is in use";
    NameTaken 409 "name_taken" "The name is taken";
    LimitReached 409 "limit_reached" "There are too many of these resources";
    WebhookDisabled 409 "webhook_disabled" "The webhook is disabled";
    NoMatchingJob 409 "no_matching_job" "No job that the gate selects has ended";
    JobUnfinished 409 "job_unfinished" "The job has not finished";
    JobFinished 409 "job_finished" "The job has already finished";
    ImportFinished 409 "import_finished" "The import has already finished";
    BodyTooLarge 413 "body_too_large" "The body is too large";
    UnsupportedMediaType 415 "unsupported_media_type" "The content type is not supported";
    UnsupportedEncoding 415 "unsupported_encoding" "The content encoding is not supported";
    WrongHost 421 "wrong_host" "The server does not answer under this name";
    UnknownField 422 "unknown_field" "Unknown field";
    InvalidValue 422 "invalid_value" "Invalid value";
    AddressNotAllowed 422 "address_not_allowed" "The operator does not allow this address";
    InvalidRows 422 "invalid_rows" "The log has invalid rows; nothing was stored";
    RepeatedRows 422 "repeated_rows" "Rows repeat earlier ones; nothing was stored";
    InvalidFile 422 "invalid_file" "The file does not match its content type; nothing was stored";
    InvalidPolicy 422 "invalid_policy" "The policy's parameters are invalid";
    InvalidContexts 422 "invalid_contexts" "The contexts do not fit the policy";
    TooLarge 422 "too_large" "Too many actions, features or contexts";
    JobTooLarge 422 "job_too_large" "The job would take more memory than is allowed";
    UnknownDataset 422 "unknown_dataset" "The dataset does not exist";
    UnknownPolicy 422 "unknown_policy" "The policy does not exist";
    UnknownJob 422 "unknown_job" "The job does not exist";
    UnknownCandidate 422 "unknown_candidate" "The dataset has no such candidate";
    CandidatesRequired 422 "candidates_required" "An evaluation needs candidates";
    AttestationRequired 422 "attestation_required" "An attestation is required";
    NotForThisKind 422 "not_for_this_kind" "The field cannot be combined with the rest of the spec";
    PolicyRequired 422 "policy_required" "The spec must name a policy";
    PolicyLearnedHere 422 "policy_learned_here" "The policy was learned from these rows";
    PolicyShapeMismatch 422 "policy_shape_mismatch" "The policy does not fit the dataset";
    PriorNeedsLoggingPolicy 422 "prior_needs_logging_policy" "The dataset has no logging policy to use as prior";
    LearningNeedsFeatures 422 "learning_needs_features" "The dataset has no features to learn from";
    BoundNeedsFullPropensities 422 "bound_needs_full_propensities" "The bound needs the propensities of all actions";
    BoundNeedsSingleInteractions 422 "bound_needs_single_interactions" "The bound needs one interaction per context";
    BoundNeedsFixedLogging 422 "bound_needs_fixed_logging" "The bound needs a log of one fixed policy";
    BoundNeedsFixedActions 422 "bound_needs_fixed_actions" "The bound needs one fixed set of actions";
    ActionsNotStated 422 "actions_not_stated" "The number of actions was not stated";
    LooksNeedAnytimeBound 422 "looks_need_anytime_bound" "Pooled looks need a bound that holds at every number of rows";
    NoFreshRows 422 "no_fresh_rows" "Every row was seen by looks at another dataset";
    BoundCannotLearnHere 422 "bound_cannot_learn_here" "The bound cannot learn with this prior";
    FamilyDeltaConflict 422 "family_delta_conflict" "`delta` and `family` are mutually exclusive";
    UnknownOutcome 422 "unknown_outcome" "The dataset has no such outcome";
    OutcomesNotNamed 422 "outcomes_not_named" "The dataset's outcome has no name";
    GuardrailIsObjective 422 "guardrail_is_objective" "The objective cannot be a guardrail too";
    GuardrailRepeated 422 "guardrail_repeated" "An outcome has two guardrails";
    TooManyGuardrails 422 "too_many_guardrails" "There are too many guardrails";
    FamilyExhausted 422 "family_exhausted" "All looks of the family are taken";
    PartialsRejected 422 "partials_rejected" "The partials cannot be merged";
    IdempotencyMismatch 422 "idempotency_mismatch" "The key was used with another request";
    JobFailed 424 "job_failed" "The job failed";
    JobCancelled 424 "job_cancelled" "The job was canceled";
    TooManyUploads 429 "too_many_uploads" "Too many concurrent uploads";
    TooManyStreams 429 "too_many_streams" "Too many open event streams";
    TooManyRequests 429 "too_many_requests" "Too many requests in progress";
    TooManyVerifications 429 "too_many_verifications" "Too many concurrent verifications";
    QueueFull 429 "queue_full" "The queue is full";
    Internal 500 "internal" "Internal error";
    Damaged 500 "damaged" "Stored data is damaged";
    Unavailable 503 "unavailable" "The service is temporarily unavailable";
    InsufficientStorage 507 "insufficient_storage" "No storage space left";
}

impl utoipa::PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        let names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).into()
    }
}

impl utoipa::ToSchema for Code {}

impl Code {
    /// The HTTP status of the code.
    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.number()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<SpecCode> for Code {
    fn from(code: SpecCode) -> Code {
        match code {
            SpecCode::InvalidValue => Code::InvalidValue,
            SpecCode::InvalidPolicy => Code::InvalidPolicy,
            SpecCode::BoundNeedsFullPropensities => Code::BoundNeedsFullPropensities,
            SpecCode::BoundNeedsSingleInteractions => Code::BoundNeedsSingleInteractions,
            SpecCode::BoundNeedsFixedLogging => Code::BoundNeedsFixedLogging,
            SpecCode::BoundNeedsFixedActions => Code::BoundNeedsFixedActions,
            SpecCode::ActionsNotStated => Code::ActionsNotStated,
            SpecCode::LooksNeedAnytimeBound => Code::LooksNeedAnytimeBound,
            SpecCode::BoundCannotLearnHere => Code::BoundCannotLearnHere,
            SpecCode::LearningNeedsFeatures => Code::LearningNeedsFeatures,
            SpecCode::PriorNeedsLoggingPolicy => Code::PriorNeedsLoggingPolicy,
            SpecCode::PolicyRequired => Code::PolicyRequired,
            SpecCode::UnknownPolicy => Code::UnknownPolicy,
            SpecCode::PolicyLearnedHere => Code::PolicyLearnedHere,
            SpecCode::PolicyShapeMismatch => Code::PolicyShapeMismatch,
            SpecCode::UnknownCandidate => Code::UnknownCandidate,
            SpecCode::CandidatesRequired => Code::CandidatesRequired,
            SpecCode::AttestationRequired => Code::AttestationRequired,
            SpecCode::NotForThisKind => Code::NotForThisKind,
            SpecCode::NoFreshRows => Code::NoFreshRows,
            SpecCode::FamilyDeltaConflict => Code::FamilyDeltaConflict,
            SpecCode::UnknownOutcome => Code::UnknownOutcome,
            SpecCode::OutcomesNotNamed => Code::OutcomesNotNamed,
            SpecCode::GuardrailIsObjective => Code::GuardrailIsObjective,
            SpecCode::GuardrailRepeated => Code::GuardrailRepeated,
            SpecCode::TooManyGuardrails => Code::TooManyGuardrails,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_snake_case() {
        let mut names: Vec<&str> = Code::ALL.iter().map(|c| c.name()).collect();
        assert!(names.iter().all(|n| n.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
    }
}
