//! What the statistical tests stand on: small worlds with a known true risk, and the count of
//! violated claims with its test.

pub mod certify;
pub mod harness;
pub mod jobs;
pub mod world;
