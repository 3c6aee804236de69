//! Several servers on one PostgreSQL database and one bucket, with the real binary: crashes, restarts and failover of the
//! database, failures of the bucket, pauses, clocks that differ, roles, keys and backup.

#[path = "../common/mod.rs"]
mod common;
#[path = "../support/postgres.rs"]
mod postgres;

mod backup;
mod bucket;
mod claims;
mod clocks;
mod crash;
mod database;
mod faults;
mod keys;
mod load;
mod pauses;
mod quota;
mod refusals;
mod roles;
mod site;
mod sources;
mod workload;
