//! Given policies: candidates that do not depend on the rows that certify them. Jobs of kind `evaluate` run with
//! the bound `auto` on logs of worlds that are as hard as possible and whose truth is known. Every claim of a
//! certificate is counted at its own share of δ: the improvement, the risk, and both at once for all candidates.
//!
//! `reference` has the same bounds a second time. Broken forms of them must be detected by the same harness, and
//! the correct forms must pass in the same worlds.

mod adaptive;
mod agreement;
mod bets;
mod budget;
mod controls;
mod drift;
mod fixed;
mod jobs;
mod many;
mod nulls;
pub mod reference;
mod refit;
mod tight;

/// The δ at which every world is tried.
const DELTAS: [f64; 2] = [0.05, 0.2];

/// Logs of each world, number of rows and δ.
const LOGS: u64 = 1000;
