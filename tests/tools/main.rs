//! The service driven by other programs, curl and schemathesis, and run by them: the image, Kubernetes and secrets.

#[path = "../common/mod.rs"]
mod common;

mod curl;
mod image;
mod kubernetes;
mod schemathesis;
mod secrets;
