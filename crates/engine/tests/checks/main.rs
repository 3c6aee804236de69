//! The checks of a log on simulated logs: valid ones almost never fail, broken ones do, parts merge to the
//! same results, and no input makes them panic.
//!
//! Counts are printed (`cargo test --test checks -- --nocapture`).

mod extreme;
mod false_alarms;
mod merge;
mod power;
mod speed;
mod world;
