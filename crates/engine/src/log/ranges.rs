//! Ranges of chunks that are worked on separately. They depend on the number of chunks only, so that sums have the same
//! order whatever the number of threads.

use std::ops::Range;

/// The most ranges of chunks that are summed separately, whatever the number of threads.
pub const BLOCKS: usize = 64;

/// Ranges of chunks that are summed separately.
pub fn blocks(chunks: usize) -> Vec<Range<usize>> {
    at_most(BLOCKS, chunks)
}

/// The same in at most `count` ranges, for sums that take much memory.
pub fn at_most(count: usize, chunks: usize) -> Vec<Range<usize>> {
    let size = chunks.div_ceil(count).max(1);
    (0..chunks.div_ceil(size)).map(|b| b * size..((b + 1) * size).min(chunks)).collect()
}
