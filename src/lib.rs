//! **Guarantor** certifies policy improvements from logged decisions before they are rolled out.
//!
//! This package is the service and its command line. The mathematics is in `guarantor-engine`, the log
//! formats are in `guarantor-ingest`, and the paper's experiments are in `guarantor-lab`, which nothing
//! here depends on. Data flows one way: `http → ingest → store → queue → engine → store → http`.
//!
//! | module | contents | what it may use |
//! |---|---|---|
//! | `store` | metadata and jobs in SQL, blobs in an object store, uploads | engine, ingest, its own SQL; no HTTP |
//! | `queue` | claim, lease, heartbeat, run, fence, finish | store, engine |
//! | `notify` | delivers events to webhooks: allow-list, signatures, retries | store; no SQL, nothing of `http` |
//! | `http` | router, one file per resource, errors, auth, events, OpenAPI | store, queue, notify, ingest and engine types; no SQL, no mathematics |
//! | `main.rs`, `cli` | the command line | everything |
//!
//! `docs/architecture.md` follows one request through all of them.

// The queries in store/sql/ are compiled once for each database.
#![allow(clippy::duplicate_mod)]

pub mod config;
pub mod http;
pub mod notify;
pub mod queue;
pub mod store;
