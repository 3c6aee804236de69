//! The one table of error codes. Codes are stable: clients branch on them.
//!
//! Which status: 400 where the request cannot be read at all, 422 where it was read and says
//! something that cannot be done, 409 where it would work at another time, 424 where it never will
//! because the job that it rests on ended badly.

use axum::http::StatusCode;
use utoipa::openapi::schema::{ObjectBuilder, Schema};
use utoipa::openapi::{RefOr, Type};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $status:literal $code:literal $title:literal;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code { $($(#[$doc])* $name),* }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$name),*];

            pub fn name(self) -> &'static str {
                match self { $(Code::$name => $code),* }
            }

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
    MalformedJson 400 "malformed_json" "The body is not JSON";
    MalformedBody 400 "malformed_body" "The body cannot be read";
    InvalidQuery 400 "invalid_query" "A query parameter is unknown or cannot be read";
    InvalidCursor 400 "invalid_cursor" "The cursor is not one that this list gave out";
    InvalidHeader 400 "invalid_header" "A header cannot be read";
    DigestMismatch 400 "digest_mismatch" "The body is not the one that its digest was taken of";
    Unauthorized 401 "unauthorized" "A valid API key is needed";
    DecisionKeep 403 "decision_keep" "The decision is to keep the deployed policy";
    NotFound 404 "not_found" "There is no such resource";
    NoSuchRoute 404 "no_such_route" "There is nothing at this path";
    MethodNotAllowed 405 "method_not_allowed" "The path does not take this method";
    RequestTimeout 408 "request_timeout" "The request took too long";
    IdempotencyInProgress 409 "idempotency_in_progress" "The first request with this key is still being answered";
    InUse 409 "in_use" "Something still needs this resource";
    JobUnfinished 409 "job_unfinished" "The job has not finished";
    JobFinished 409 "job_finished" "The job has finished already";
    BodyTooLarge 413 "body_too_large" "The body is larger than this server accepts";
    UnsupportedMediaType 415 "unsupported_media_type" "The content type is not one that this path reads";
    UnsupportedEncoding 415 "unsupported_encoding" "The content encoding is not one that this path reads";
    UnknownField 422 "unknown_field" "A field is not known";
    InvalidValue 422 "invalid_value" "A value cannot be used";
    InvalidRows 422 "invalid_rows" "Rows of the log were refused; nothing is stored";
    InvalidFile 422 "invalid_file" "The file is not what its content type says; nothing is stored";
    InvalidPolicy 422 "invalid_policy" "The policy's parameters cannot be used";
    InvalidContexts 422 "invalid_contexts" "The contexts do not fit the policy";
    TooLarge 422 "too_large" "More actions, features or contexts than this server accepts";
    UnknownDataset 422 "unknown_dataset" "There is no such dataset";
    UnknownPolicy 422 "unknown_policy" "There is no such policy";
    UnknownJob 422 "unknown_job" "There is no such job";
    UnknownCandidate 422 "unknown_candidate" "The dataset has no such candidate";
    CandidatesRequired 422 "candidates_required" "An evaluation needs candidates";
    AttestationRequired 422 "attestation_required" "The caller's word is needed";
    NotForThisKind 422 "not_for_this_kind" "The field does not go with the rest of the specification";
    PolicyRequired 422 "policy_required" "The specification must name a policy";
    PolicyLearnedHere 422 "policy_learned_here" "The policy was learned from these rows";
    PolicyShapeMismatch 422 "policy_shape_mismatch" "The policy does not fit the dataset";
    PriorNeedsLoggingPolicy 422 "prior_needs_logging_policy" "The dataset has no logging policy to start from";
    LearningNeedsFeatures 422 "learning_needs_features" "The dataset has no features to learn from";
    BoundNeedsFullPropensities 422 "bound_needs_full_propensities" "The bound needs all actions' propensities";
    BoundNeedsSingleInteractions 422 "bound_needs_single_interactions" "The bound needs one interaction a context";
    BoundCannotLearnHere 422 "bound_cannot_learn_here" "The bound cannot learn here";
    FamilyDeltaConflict 422 "family_delta_conflict" "A job has a delta or a family, not both";
    FamilyExhausted 422 "family_exhausted" "All looks of the family are taken";
    IdempotencyMismatch 422 "idempotency_mismatch" "The key was used with another request";
    JobFailed 424 "job_failed" "The job failed";
    JobCancelled 424 "job_cancelled" "The job was cancelled";
    TooManyUploads 429 "too_many_uploads" "As many uploads as this server reads at a time are under way";
    TooManyVerifications 429 "too_many_verifications" "As many certificates as this server computes again at a time are being verified";
    QueueFull 429 "queue_full" "The queue is full";
    Internal 500 "internal" "Something went wrong on our side";
    Damaged 500 "damaged" "Stored data is damaged";
    Unavailable 503 "unavailable" "The service cannot answer at the moment";
    InsufficientStorage 507 "insufficient_storage" "There is no room left to store this";
}

impl utoipa::PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        let names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).into()
    }
}

impl utoipa::ToSchema for Code {}

impl Code {
    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.number()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The code that an engine's refusal is shown with. A code that this table does not have is
    /// still the caller's to mend, so it is shown as a wrong value rather than as our failure.
    pub fn of_engine(code: &str) -> Code {
        let found = Code::ALL.iter().find(|c| c.name() == code && c.status() == 422);
        found.copied().unwrap_or(Code::InvalidValue)
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

    /// The engine documents its codes at the head of `spec.rs`; each must stand in the table.
    #[test]
    fn every_engine_code_is_in_the_table() {
        let source = include_str!("../../crates/engine/src/spec.rs");
        let head: String = source.lines().take_while(|line| line.starts_with("//!")).collect();
        let listed = head.split_once("Codes of refusals").expect("the list of codes").1;
        let codes: Vec<&str> = listed.split('`').skip(1).step_by(2).collect();
        assert!(codes.len() >= 10, "{codes:?}");
        for code in codes.into_iter().chain(["invalid_policy"]) {
            assert_eq!(Code::of_engine(code).name(), code);
        }
        assert_eq!(Code::of_engine("internal"), Code::InvalidValue);
    }
}
