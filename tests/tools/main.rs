//! The service driven by other programs: curl and schemathesis.

#[path = "../common/mod.rs"]
mod common;

mod curl;
mod schemathesis;
