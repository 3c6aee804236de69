//! The real server under the conditions that operators meet: kill -9, load, full and read-only disks, damaged files,
//! backups, older data, and the question why a job was slow, failed or kept. docs/trust.md says what each
//! test shows.

#[path = "../support/mod.rs"]
mod support;

mod backup;
#[path = "../common/mod.rs"]
mod common;
mod corruption;
mod crash;
mod disk;
mod footprint;
mod load;
mod observability;
mod recovery;
mod upgrade;
mod webhooks;
