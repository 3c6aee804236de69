//! The store and the queue on it.

#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../support/mod.rs"]
mod support;

mod big_logs;
mod conformance;
mod engine_runner;
mod faults;
mod files;
mod notify;
mod queue;
mod sealed_logs;
