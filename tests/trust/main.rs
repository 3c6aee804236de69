//! The real server against what operators meet: full and read-only disks, damaged files, backups, older
//! data, and the question why a job was slow, failed or kept. docs/trust.md says what each shows.

#[path = "../support/mod.rs"]
mod support;

mod backup;
#[path = "../common/mod.rs"]
mod common;
mod corruption;
mod crash;
mod disk;
mod load;
mod observability;
mod recovery;
mod upgrade;
