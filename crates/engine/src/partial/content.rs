//! The content of rows as a number, by which sets of rows are compared.

use xxhash_rust::xxh3::xxh3_128;

use crate::log::Columns;
use crate::row_hash::{HASHED, Hashes, Words, halves, hash_each};

/// The sum modulo 2^128 of a hash of each row. It does not depend on the order of the rows.
pub(super) fn content_of(columns: &Columns) -> u128 {
    let short =
        columns.dim == 0 && columns.full.is_none() && columns.candidate_full.iter().all(Option::is_none);
    match (columns.candidates.as_slice(), &columns.timestamps) {
        ([(_, played)], times) if short => of_logged(columns, played, times.as_deref()),
        _ => of_any(columns),
    }
}

/// Of rows that have nothing but numbers of the logged action.
fn of_logged(columns: &Columns, played: &[f64], times: Option<&[i64]>) -> u128 {
    let (mut sum, mut hashes) = (0u128, Hashes::default());
    let mut words = [[0; HASHED]; 9];
    let used = if times.is_some() { 9 } else { 7 };
    for from in (0..columns.rows()).step_by(HASHED) {
        let rows = from..(from + HASHED).min(columns.rows());
        let n = rows.len();
        let [action, cost_low, cost_high, p_low, p_high, q_low, q_high, time_low, time_high] = &mut words;
        action[..n].copy_from_slice(&columns.actions[rows.clone()]);
        // `+ 0.0` turns −0 into 0, which is the same number.
        let bits = |value: &f64| (value + 0.0).to_bits();
        split(&columns.costs[rows.clone()], bits, cost_low, cost_high);
        split(&columns.propensities[rows.clone()], bits, p_low, p_high);
        split(&played[rows.clone()], bits, q_low, q_high);
        if let Some(times) = times {
            split(&times[rows], |&time| time as u64, time_low, time_high);
        }
        hash_each(&words[..used], n, &mut hashes);
        sum = (0..n).fold(sum, |sum, i| sum.wrapping_add(hashes.of(i)));
    }
    sum
}

/// The lower and the upper halves of numbers of eight bytes.
fn split<T>(values: &[T], bits: impl Fn(&T) -> u64, low: &mut Words, high: &mut Words) {
    for (value, (low, high)) in values.iter().zip(low.iter_mut().zip(high)) {
        [*low, *high] = halves(bits(value));
    }
}

pub(super) fn of_any(columns: &Columns) -> u128 {
    let (n, k) = (columns.rows(), columns.n_actions);
    let (mut content, mut bytes) = (0u128, Vec::new());
    let number = |value: f64| (value + 0.0).to_le_bytes();
    for i in 0..n {
        bytes.clear();
        bytes.extend(columns.actions[i].to_le_bytes());
        bytes.extend(number(columns.costs[i]));
        bytes.extend(number(columns.propensities[i]));
        let x = &columns.x[i * columns.dim..(i + 1) * columns.dim];
        x.iter().for_each(|x| bytes.extend((x + 0.0).to_le_bytes()));
        let lists = columns.full.iter().chain(columns.candidate_full.iter().flatten());
        lists.for_each(|list| list[i * k..(i + 1) * k].iter().for_each(|&p| bytes.extend(number(p))));
        columns.candidates.iter().for_each(|(_, played)| bytes.extend(number(played[i])));
        columns.timestamps.iter().for_each(|times| bytes.extend(times[i].to_le_bytes()));
        content = content.wrapping_add(xxh3_128(&bytes));
    }
    content
}
