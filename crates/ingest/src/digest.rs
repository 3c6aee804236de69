//! The digest of a log: SHA-256 of its rows in order, followed by what all rows have in common. Numbers
//! are little-endian; texts are preceded by their length.

use std::ops::Range;

use sha2::{Digest, Sha256};

use guarantor_engine::log::{FeatureSpace, NamedOutcome, Outcome, OutcomeKind, SparseVector};

use crate::batch::{LogLayout, LogRows};

/// Precedes what the first version of the digest did not have.
const EXTENDED: &[u8] = b"guarantor.log/2\n";
/// Precedes what only logs have whose rows have their own actions.
const WITH_SETS: &[u8] = b"guarantor.log/3\n";
/// Precedes what only logs have whose outcomes have names or are cut.
const WITH_OUTCOMES: &[u8] = b"guarantor.log/4\n";
/// How many rows are written before they are hashed.
const WRITTEN_AT_ONCE: usize = 64;

/// The digest of the rows so far.
#[derive(Clone)]
pub struct LogDigest {
    hash: Sha256,
    rows: u64,
    /// Bytes of rows that are not hashed yet.
    bytes: Vec<u8>,
}

impl Default for LogDigest {
    fn default() -> Self {
        LogDigest { hash: Sha256::new_with_prefix(b"guarantor.log/1\n"), rows: 0, bytes: Vec::new() }
    }
}

impl LogDigest {
    /// Adds rows.
    pub fn update(&mut self, layout: &LogLayout, rows: &LogRows) {
        for first in (0..rows.len()).step_by(WRITTEN_AT_ONCE) {
            let range = first..(first + WRITTEN_AT_ONCE).min(rows.len());
            write(layout, rows, range, &mut self.bytes);
            self.hash.update(&self.bytes);
            self.bytes.clear();
        }
        self.rows += rows.len() as u64;
    }

    /// Appends to `bytes` what [`add`](Self::add) takes for rows, so that many threads can prepare it.
    pub fn write(layout: &LogLayout, rows: &LogRows, bytes: &mut Vec<u8>) {
        write(layout, rows, 0..rows.len(), bytes);
    }

    /// Adds so many rows, which [`write`](Self::write) has written.
    pub fn add(&mut self, written: &[u8], rows: u64) {
        self.hash.update(written);
        self.rows += rows;
    }

    /// Adds what all rows have in common, and returns the digest as text. `named` are all outcomes if they have names.
    pub fn finish(
        mut self,
        layout: &LogLayout,
        n_actions: usize,
        outcome: &Outcome,
        named: &[NamedOutcome],
    ) -> String {
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
        if is_extended(layout) {
            end.extend(EXTENDED);
            end.push(u8::from(layout.timestamps));
            end.push(u8::from(layout.versions));
            end.extend((layout.candidate_full.unwrap_or(0) as u64).to_le_bytes());
            for name in &layout.candidate_propensities {
                text(&mut end, name);
            }
        }
        if let Some(spaces) = layout.sets {
            end.extend(WITH_SETS);
            end.push(u8::from(layout.full.is_some()));
            end.push(u8::from(layout.action_ids));
            space(&mut end, spaces.x);
            space(&mut end, spaces.actions);
        }
        outcomes(&mut end, layout, outcome, named);
        self.hash.update(&end);
        format!("sha256:{}", hex::encode(self.hash.finalize()))
    }
}

/// Appends the bytes of some rows. Numbers that all rows have are written in one loop without a call for each.
fn write(layout: &LogLayout, rows: &LogRows, range: Range<usize>, bytes: &mut Vec<u8>) {
    if is_fixed(layout) {
        return write_fixed(layout, rows, range, bytes);
    }
    for i in range {
        // Lists of other lengths must not have the same bytes, so the number of actions comes first.
        if layout.sets.is_some() {
            bytes.extend_from_slice(&(rows.sets.size(i) as u64).to_le_bytes());
        }
        bytes.extend_from_slice(&rows.actions[i].to_le_bytes());
        bytes.extend_from_slice(&rows.costs[i].to_le_bytes());
        bytes.extend_from_slice(&rows.propensities[i].to_le_bytes());
        // `+ 0.0` turns −0 into 0, which is the same number.
        numbers(bytes, &rows.x[i * layout.dim..(i + 1) * layout.dim], |x| (x + 0.0).to_le_bytes());
        numbers(bytes, rows.full_of(layout, i), f64::to_le_bytes);
        for column in &rows.candidates {
            bytes.extend_from_slice(&column[i].to_le_bytes());
        }
        for (present, ids) in [(layout.context_ids, &rows.context_ids), (layout.event_ids, &rows.event_ids)] {
            if present {
                text(bytes, &ids[i]);
            }
        }
        extensions(bytes, layout, rows, i);
    }
}

/// Whether all rows have the same number of bytes.
fn is_fixed(layout: &LogLayout) -> bool {
    !(layout.sets.is_some() || layout.context_ids || layout.event_ids || layout.versions)
}

/// The same for rows of one length.
fn write_fixed(layout: &LogLayout, rows: &LogRows, range: Range<usize>, bytes: &mut Vec<u8>) {
    let (p, k, lists) = (layout.dim, layout.full.unwrap_or(0), layout.candidate_full.unwrap_or(0));
    let doubles = 2 + k + rows.candidates.len() + lists * rows.candidate_full.len() + rows.outcomes.len();
    let width = 4 + 4 * p + 8 * (doubles + usize::from(layout.timestamps));
    let from = bytes.len();
    bytes.resize(from + width * range.len(), 0);
    for (i, mut row) in range.zip(bytes[from..].chunks_exact_mut(width)) {
        put(&mut row, &rows.actions[i..=i], u32::to_le_bytes);
        put(&mut row, &[rows.costs[i], rows.propensities[i]], f64::to_le_bytes);
        put(&mut row, &rows.x[i * p..(i + 1) * p], |x: f32| (x + 0.0).to_le_bytes());
        put(&mut row, &rows.full[i * k..(i + 1) * k], f64::to_le_bytes);
        rows.candidates.iter().for_each(|column| put(&mut row, &column[i..=i], f64::to_le_bytes));
        if layout.timestamps {
            put(&mut row, &rows.timestamps[i..=i], i64::to_le_bytes);
        }
        let all = rows.candidate_full.iter();
        all.for_each(|column| put(&mut row, &column[i * lists..(i + 1) * lists], f64::to_le_bytes));
        rows.outcomes.iter().for_each(|costs| put(&mut row, &costs[i..=i], f64::to_le_bytes));
    }
}

/// Writes numbers to the start of `to`, and leaves the rest of it there.
#[inline(always)]
fn put<T: Copy, const N: usize>(to: &mut &mut [u8], numbers: &[T], bytes: impl Fn(T) -> [u8; N]) {
    let (now, rest) = std::mem::take(to).split_at_mut(N * numbers.len());
    for (now, &number) in now.chunks_exact_mut(N).zip(numbers) {
        now.copy_from_slice(&bytes(number));
    }
    *to = rest;
}

/// Whether rows have fields that the first version of the digest did not know. A log without them keeps the digest
/// that it had then.
fn is_extended(layout: &LogLayout) -> bool {
    layout.timestamps || layout.versions || !layout.candidate_propensities.is_empty()
}

/// The outcomes, if they have names or are cut. The names of all but the primary one are those that the rows have.
fn outcomes(end: &mut Vec<u8>, layout: &LogLayout, primary: &Outcome, named: &[NamedOutcome]) {
    let is_cut = primary.cap.is_some() || primary.floor.is_some();
    if named.is_empty() && layout.outcomes.is_empty() && !is_cut {
        return;
    }
    end.extend(WITH_OUTCOMES);
    cuts(end, primary);
    for count in [named.len(), layout.outcomes.len()] {
        end.extend((count as u64).to_le_bytes());
    }
    named.iter().take(1).for_each(|primary| text(end, &primary.name));
    layout.outcomes.iter().for_each(|name| text(end, name));
    for NamedOutcome { outcome, .. } in named.iter().skip(1) {
        end.push(u8::from(outcome.kind == OutcomeKind::Reward));
        end.extend(outcome.min.to_le_bytes());
        end.extend(outcome.max.to_le_bytes());
        cuts(end, outcome);
    }
}

fn cuts(end: &mut Vec<u8>, outcome: &Outcome) {
    for cut in [outcome.cap, outcome.floor] {
        end.push(u8::from(cut.is_some()));
        end.extend(cut.unwrap_or(0.0).to_le_bytes());
    }
}

fn extensions(bytes: &mut Vec<u8>, layout: &LogLayout, rows: &LogRows, i: usize) {
    if layout.timestamps {
        bytes.extend_from_slice(&rows.timestamps[i].to_le_bytes());
    }
    if layout.versions {
        text(bytes, &rows.versions[i]);
    }
    let places = rows.places(layout, layout.candidate_full);
    for column in &rows.candidate_full {
        numbers(bytes, &column[places.of(i)], f64::to_le_bytes);
    }
    if layout.sets.is_some() {
        actions(bytes, layout, rows, i);
    }
    rows.outcomes.iter().for_each(|costs| bytes.extend_from_slice(&costs[i].to_le_bytes()));
}

/// The features of a row's request, and the id and the features of each action.
fn actions(bytes: &mut Vec<u8>, layout: &LogLayout, rows: &LogRows, i: usize) {
    let actions = rows.sets.actions_of(i);
    vector(bytes, rows.sets.x.vector(i));
    for a in actions {
        if layout.action_ids {
            text(bytes, &rows.action_ids[a]);
        }
        vector(bytes, rows.sets.actions.vector(a));
    }
}

fn vector(bytes: &mut Vec<u8>, vector: SparseVector) {
    bytes.extend((vector.indices.len() as u64).to_le_bytes());
    numbers(bytes, vector.indices, u32::to_le_bytes);
    numbers(bytes, vector.values, f32::to_le_bytes);
}

fn space(bytes: &mut Vec<u8>, space: FeatureSpace) {
    bytes.push(match space {
        FeatureSpace::None => 0,
        FeatureSpace::List { .. } => 1,
        FeatureSpace::Named { .. } => 2,
    });
    bytes.extend((space.dim() as u64).to_le_bytes());
}

fn numbers<T: Copy, const N: usize>(to: &mut Vec<u8>, numbers: &[T], bytes: impl Fn(T) -> [u8; N]) {
    let from = to.len();
    to.resize(from + N * numbers.len(), 0);
    for (to, &number) in to[from..].chunks_exact_mut(N).zip(numbers) {
        to.copy_from_slice(&bytes(number));
    }
}

fn text(to: &mut Vec<u8>, text: &str) {
    to.extend((text.len() as u64).to_le_bytes());
    to.extend(text.as_bytes());
}
