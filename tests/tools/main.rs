//! The service driven by other programs, curl, a browser, schemathesis and Vowpal Wabbit, and run by them: the image, Kubernetes and secrets.

#[path = "../common/mod.rs"]
mod common;

mod browser;
mod curl;
mod image;
mod kubernetes;
mod python;
mod schemathesis;
mod secrets;
mod vowpal_wabbit;
