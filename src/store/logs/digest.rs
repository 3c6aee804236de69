//! The digest of a log: SHA-256 over its rows in order, then over what is common to all of them.
//! Numbers are little-endian, texts have their length before them.

use sha2::{Digest, Sha256};

use super::{LogLayout, LogRows};
use crate::engine::log::{Outcome, OutcomeKind};

#[derive(Clone)]
pub struct LogDigest {
    hash: Sha256,
    rows: u64,
    /// The bytes of one row, kept to spare the allocation.
    row: Vec<u8>,
}

impl Default for LogDigest {
    fn default() -> Self {
        LogDigest { hash: Sha256::new_with_prefix(b"guarantor.log/1\n"), rows: 0, row: Vec::new() }
    }
}

impl LogDigest {
    pub fn update(&mut self, layout: &LogLayout, rows: &LogRows) {
        let k = layout.full.unwrap_or(0);
        for i in 0..rows.len() {
            self.row.clear();
            self.row.extend_from_slice(&rows.actions[i].to_le_bytes());
            self.row.extend_from_slice(&rows.costs[i].to_le_bytes());
            self.row.extend_from_slice(&rows.propensities[i].to_le_bytes());
            for value in &rows.x[i * layout.dim..(i + 1) * layout.dim] {
                // `+ 0.0` makes −0 and 0, which are one number, one row.
                self.row.extend_from_slice(&(value + 0.0).to_le_bytes());
            }
            for value in &rows.full[i * k..(i + 1) * k] {
                self.row.extend_from_slice(&value.to_le_bytes());
            }
            for column in &rows.candidates {
                self.row.extend_from_slice(&column[i].to_le_bytes());
            }
            for (present, ids) in
                [(layout.context_ids, &rows.context_ids), (layout.event_ids, &rows.event_ids)]
            {
                if present {
                    text(&mut self.row, &ids[i]);
                }
            }
            self.hash.update(&self.row);
        }
        self.rows += rows.len() as u64;
    }

    pub fn finish(mut self, layout: &LogLayout, n_actions: usize, outcome: &Outcome) -> String {
        let mut end = Vec::new();
        for number in [self.rows, n_actions as u64, layout.dim as u64, layout.full.unwrap_or(0) as u64] {
            end.extend(number.to_le_bytes());
        }
        end.push(u8::from(layout.context_ids));
        end.push(u8::from(layout.event_ids));
        end.push(u8::from(outcome.kind == OutcomeKind::Reward));
        end.extend(outcome.min.to_le_bytes());
        end.extend(outcome.max.to_le_bytes());
        for name in &layout.candidates {
            text(&mut end, name);
        }
        self.hash.update(&end);
        let hex: String = self.hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
        format!("sha256:{hex}")
    }
}

fn text(to: &mut Vec<u8>, text: &str) {
    to.extend((text.len() as u64).to_le_bytes());
    to.extend(text.as_bytes());
}
