//! The service driven by other programs, curl, schemathesis and Vowpal Wabbit, and run by them: the image, Kubernetes and secrets.

#[path = "../common/mod.rs"]
mod common;

mod curl;
mod image;
mod kubernetes;
mod python;
mod schemathesis;
mod secrets;
mod vowpal_wabbit;
