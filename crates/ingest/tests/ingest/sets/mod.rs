//! Logs whose rows have their own actions.

mod columnar;
mod json;
mod life;
mod malformed;
mod speed;

use guarantor_engine::log::{ActionSets, Columns, FeatureSpace, Sets};
use guarantor_ingest::{Format, IngestError, LogOptions, LogSummary};
use serde_json::{Value, json};

use crate::support::Reading;

/// A reader of a log whose rows are decisions.
pub fn reading(format: Format) -> Reading {
    Reading { options: LogOptions::default(), ..Reading::from(format) }
}

pub fn read_json(rows: &[Value]) -> Result<(LogSummary, Columns), IngestError> {
    reading(Format::Ndjson).rows(rows)
}

/// MurmurHash3, x86, 32 bits, seed 0, from its definition.
pub fn murmur3(bytes: &[u8]) -> u32 {
    let mut h = 0u32;
    let word = |k: u32| k.wrapping_mul(0xcc9e2d51).rotate_left(15).wrapping_mul(0x1b873593);
    let whole = bytes.len() / 4 * 4;
    for chunk in bytes[..whole].chunks(4) {
        h = (h ^ word(u32::from_le_bytes(chunk.try_into().unwrap()))).rotate_left(13);
        h = h.wrapping_mul(5).wrapping_add(0xe6546b64);
    }
    let tail = bytes[whole..].iter().rev().fold(0u32, |k, &b| k << 8 | u32::from(b));
    if !bytes[whole..].is_empty() {
        h ^= word(tail);
    }
    h ^= bytes.len() as u32;
    h = (h ^ (h >> 16)).wrapping_mul(0x85ebca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2ae35);
    h ^ (h >> 16)
}

/// The features by the documented rule: the dimensions that are not 0, with their values.
pub fn hashed(dims: u64, features: &[(&str, f32)]) -> Vec<(u32, f32)> {
    let mut sums: std::collections::BTreeMap<u32, f32> = Default::default();
    for &(name, value) in features {
        let (at, sign) = match name.parse::<u64>() {
            Ok(number) => (number % dims, 1.0),
            Err(_) => {
                let h = murmur3(name.as_bytes()) as i32;
                (u64::from(h.unsigned_abs()) % dims, if h < 0 { -1.0 } else { 1.0 })
            }
        };
        *sums.entry(at as u32).or_default() += sign * value;
    }
    sums.into_iter().filter(|(_, value)| *value != 0.0).collect()
}

pub fn x_of(sets: &Sets, row: usize) -> Vec<(u32, f32)> {
    sets.x.vector(row).iter().collect()
}

pub fn action_of(sets: &Sets, row: usize, action: usize) -> Vec<(u32, f32)> {
    sets.actions.vector(sets.actions_of(row).start + action).iter().collect()
}

pub const DIMS: u64 = 1 << 24;
pub const NAMED: FeatureSpace = FeatureSpace::Named { dim: 1 << 24 };

pub fn spaces(x: FeatureSpace, actions: FeatureSpace) -> ActionSets {
    ActionSets { x, actions }
}

/// A log of articles with 2 to 5 of them per row, and everything that rows can have.
pub fn articles(n: usize) -> Vec<Value> {
    const TOPICS: [&str; 4] = ["sport", "culture", "food", "travel"];
    let row = |i: usize| {
        let k = 2 + i % 4;
        let article = |a: usize| json!({"id": format!("a{}", (i + a) % 7), "topic": TOPICS[(i * 3 + a) % 4], "fresh": (i + a) as f64 / 8.0});
        let weights: Vec<f64> = (0..k).map(|a| (1 + (a + i) % 3) as f64).collect();
        let total: f64 = weights.iter().sum();
        let p: Vec<f64> = weights.iter().map(|w| w / total).collect();
        let new: Vec<f64> = p.iter().rev().copied().collect();
        let action = (i * 7) % k;
        json!({
            "x": {"country": if i % 3 == 0 { "DE" } else { "FR" }, "age": i as f64 / 16.0},
            "actions": (0..k).map(article).collect::<Vec<_>>(),
            "action": action, "propensity": p[action], "propensities": p, "cost": -((i % 5) as f64) / 4.0,
            "event_id": format!("e{i}"), "timestamp": 1_700_000_000 + i,
            "candidates": {"old": 0.25, "new": new[action]}, "candidate_propensities": {"new": new},
        })
    };
    (0..n).map(row).collect()
}
