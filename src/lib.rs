//! **Guarantor** certifies policy improvements from logged decisions before they are rolled out.
//!
//! The house. Data flows one way, `http → ingest → store → queue → engine → store → http`, and each
//! room knows only what stands behind it (`tests/rooms.rs` reads the sources and fails otherwise):
//!
//! | room | what lives there | what it may know |
//! |---|---|---|
//! | [`engine`] | logs as arrays, policies, estimators, bounds, learning, certificates: synchronous, deterministic, no I/O | ndarray, rayon, rand |
//! | `ingest` | bytes → validated rows → columns → a stored log, a file per format | the engine's row types, the store that it fills |
//! | `store` | metadata and jobs in SQL, blobs in an object store | its own SQL; no HTTP |
//! | `queue` | claim, lease, heartbeat, run, fence, finish | store, engine |
//! | `http` | router, a file per resource, errors, auth, events, OpenAPI | store, queue; no SQL, no maths |
//! | `reproduce` | the paper's datasets, the conversion of examples into logs, its experiments | engine |
//! | `main.rs` | the command line | all |

pub mod config;
pub mod engine;
pub mod http;
pub mod ingest;
pub mod queue;
pub mod reproduce;
pub mod store;
