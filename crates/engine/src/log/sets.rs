//! Action sets (docs/math.md#sets): in some logs every row has its own list of available actions, and each action has
//! features. Features are stored sparse: a row takes memory for its non-zeros, whatever their dimension.
//!
//! Numbers that have one value per action, such as π0(·|x), are padded with zeros to the largest set of the log where
//! the engine computes with them, and are one after the other where they are stored.

use std::borrow::Cow;
use std::ops::Range;

use ndarray::Array2;
use serde::{Deserialize, Serialize};

/// The most dimensions of hashed features.
pub const MAX_HASH_DIMS: usize = 1 << 24;

/// How features were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "form", rename_all = "snake_case")]
pub enum FeatureSpace {
    /// There are none.
    #[default]
    None,
    /// Lists of numbers.
    List {
        /// The length of each list.
        dim: u32,
    },
    /// Named features, hashed into dimensions.
    Named {
        /// The number of dimensions.
        dim: u32,
    },
}

impl FeatureSpace {
    /// The number of dimensions.
    pub fn dim(self) -> usize {
        match self {
            FeatureSpace::None => 0,
            FeatureSpace::List { dim } | FeatureSpace::Named { dim } => dim as usize,
        }
    }
}

impl std::fmt::Display for FeatureSpace {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            FeatureSpace::None => write!(f, "no features"),
            FeatureSpace::List { dim } => write!(f, "lists of {dim} numbers"),
            FeatureSpace::Named { dim } => write!(f, "named features in {dim} dimensions"),
        }
    }
}

/// The features of a log whose rows have their own action sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ActionSets {
    /// The features of requests.
    pub x: FeatureSpace,
    /// The features of actions.
    pub actions: FeatureSpace,
}

/// Sparse vectors, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Sparse {
    /// Where each vector starts, and the end of the last.
    offsets: Vec<u64>,
    indices: Vec<u32>,
    values: Vec<f32>,
}

impl Default for Sparse {
    fn default() -> Self {
        Sparse { offsets: vec![0], indices: Vec::new(), values: Vec::new() }
    }
}

/// One sparse vector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SparseVector<'a> {
    /// The dimensions that are not 0, ascending and without repetition.
    pub indices: &'a [u32],
    /// The values in these dimensions.
    pub values: &'a [f32],
}

impl SparseVector<'_> {
    /// The dimensions that are not 0, with their values.
    pub fn iter(&self) -> impl Iterator<Item = (u32, f32)> + '_ {
        self.indices.iter().copied().zip(self.values.iter().copied())
    }
}

impl Sparse {
    /// The vectors that these parts describe: where each starts and the last ends, and their non-zeros.
    /// `None` if the parts do not fit together.
    pub fn from_parts(offsets: Vec<u64>, indices: Vec<u32>, values: Vec<f32>) -> Option<Self> {
        let whole = offsets.first() == Some(&0)
            && offsets.is_sorted()
            && offsets.last() == Some(&(indices.len() as u64))
            && indices.len() == values.len();
        whole.then_some(Sparse { offsets, indices, values })
    }

    /// The number of vectors.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no vectors.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of non-zeros of all vectors.
    pub fn non_zeros(&self) -> usize {
        self.indices.len()
    }

    /// Where each vector starts, and the end of the last.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The dimensions of all vectors' non-zeros.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// The values of all vectors' non-zeros.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Vector `i`.
    pub fn vector(&self, i: usize) -> SparseVector<'_> {
        let range = self.offsets[i] as usize..self.offsets[i + 1] as usize;
        SparseVector { indices: &self.indices[range.clone()], values: &self.values[range] }
    }

    /// Adds a vector. Its dimensions may come in any order and repeat: values of the same dimension are added up, and
    /// zeros are left out.
    pub fn push(&mut self, features: impl IntoIterator<Item = (u32, f32)>) {
        let start = self.indices.len();
        for (index, value) in features {
            self.indices.push(index);
            self.values.push(value);
        }
        if !self.indices[start..].is_sorted_by(|a, b| a < b) {
            let mut pairs: Vec<(u32, f32)> =
                self.indices.drain(start..).zip(self.values.drain(start..)).collect();
            // The sort is stable, so equal features add up in the order in which they were written.
            pairs.sort_by_key(|&(index, _)| index);
            for (index, value) in pairs {
                match self.indices.len() > start && self.indices.last() == Some(&index) {
                    true => *self.values.last_mut().expect("one value per index") += value,
                    false => {
                        self.indices.push(index);
                        self.values.push(value);
                    }
                }
            }
        }
        let mut kept = start;
        for i in start..self.indices.len() {
            if self.values[i] != 0.0 {
                (self.indices[kept], self.values[kept]) = (self.indices[i], self.values[i]);
                kept += 1;
            }
        }
        self.indices.truncate(kept);
        self.values.truncate(kept);
        self.offsets.push(kept as u64);
    }

    /// Adds vectors of another list.
    pub fn extend_from(&mut self, other: &Sparse, vectors: Range<usize>) {
        let (from, to) = (other.offsets[vectors.start], other.offsets[vectors.end]);
        let base = self.indices.len() as u64;
        self.offsets.extend(other.offsets[vectors.start + 1..=vectors.end].iter().map(|o| o - from + base));
        self.indices.extend_from_slice(&other.indices[from as usize..to as usize]);
        self.values.extend_from_slice(&other.values[from as usize..to as usize]);
    }

    /// Keeps the first `len` vectors.
    pub fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        let end = self.offsets.last().copied().unwrap_or(0) as usize;
        self.indices.truncate(end);
        self.values.truncate(end);
    }
}

/// The action sets of some rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Sets {
    /// Where the actions of each row start, and the end of the last row's.
    offsets: Vec<u64>,
    /// The features of each row's request.
    pub x: Sparse,
    /// The features of each action, row by row.
    pub actions: Sparse,
}

impl Default for Sets {
    fn default() -> Self {
        Sets { offsets: vec![0], x: Sparse::default(), actions: Sparse::default() }
    }
}

impl Sets {
    /// The sets that these parts describe. `None` if they do not fit together.
    pub fn from_parts(offsets: Vec<u64>, x: Sparse, actions: Sparse) -> Option<Self> {
        let whole = offsets.first() == Some(&0)
            && offsets.is_sorted()
            && offsets.len() == x.len() + 1
            && offsets.last() == Some(&(actions.len() as u64));
        whole.then_some(Sets { offsets, x, actions })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Where the actions of each row start, and the end of the last row's.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// Where the actions of row `i` are among the actions of all rows.
    pub fn actions_of(&self, i: usize) -> Range<usize> {
        self.offsets[i] as usize..self.offsets[i + 1] as usize
    }

    /// The number of actions of row `i`.
    pub fn size(&self, i: usize) -> usize {
        self.actions_of(i).len()
    }

    /// The number of actions of the largest set.
    pub fn largest(&self) -> usize {
        (0..self.rows()).map(|i| self.size(i)).max().unwrap_or(0)
    }

    /// Ends a row: its request was pushed to `x`, and its actions to `actions`.
    pub fn end_row(&mut self) {
        self.offsets.push(self.actions.len() as u64);
    }

    /// Adds rows of other sets.
    pub fn extend_from(&mut self, other: &Sets, rows: Range<usize>) {
        let (from, to) = (other.offsets[rows.start], other.offsets[rows.end]);
        let base = self.actions.len() as u64;
        self.offsets.extend(other.offsets[rows.start + 1..=rows.end].iter().map(|o| o - from + base));
        self.x.extend_from(&other.x, rows);
        self.actions.extend_from(&other.actions, from as usize..to as usize);
    }

    /// Keeps the first rows. Also drops a part of a row that did not end.
    pub fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.x.truncate(rows);
        self.actions.truncate(self.offsets.last().copied().unwrap_or(0) as usize);
    }

    /// The rows in another order.
    pub fn reordered(&self, order: &[u32]) -> Sets {
        let mut sorted = Sets::default();
        order.iter().for_each(|&row| sorted.extend_from(self, row as usize..row as usize + 1));
        sorted
    }

    /// All rows.
    pub fn view(&self) -> SetsView<'_> {
        SetsView { sets: self, first: 0, rows: self.rows(), width: self.largest() }
    }
}

/// A range of rows of some sets.
#[derive(Debug, Clone, Copy)]
pub struct SetsView<'a> {
    sets: &'a Sets,
    first: usize,
    rows: usize,
    width: usize,
}

impl<'a> SetsView<'a> {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of actions of row `i`.
    pub fn size(&self, i: usize) -> usize {
        self.sets.size(self.first + i)
    }

    /// K, the number of actions to which numbers are padded: that of the largest set, of these rows or of the log.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The features of the request of row `i`.
    pub fn x(&self, i: usize) -> SparseVector<'a> {
        self.sets.x.vector(self.first + i)
    }

    /// The features of action `a` of row `i`.
    pub fn action(&self, i: usize, a: usize) -> SparseVector<'a> {
        self.sets.actions.vector(self.sets.actions_of(self.first + i).start + a)
    }

    /// The rows as sets of their own.
    pub fn to_sets(&self, rows: impl Iterator<Item = usize>) -> Sets {
        let mut sets = Sets::default();
        rows.for_each(|i| sets.extend_from(self.sets, self.first + i..self.first + i + 1));
        sets
    }
}

/// The action sets of a chunk: its own, or a part of those of a log in memory.
#[derive(Debug, Clone)]
pub struct ChunkSets<'a> {
    sets: Cow<'a, Sets>,
    first: usize,
    rows: usize,
    width: usize,
}

impl<'a> ChunkSets<'a> {
    /// All rows of these sets, in a log whose largest set has `width` actions.
    pub fn owned(sets: Sets, width: usize) -> Self {
        let rows = sets.rows();
        ChunkSets { sets: Cow::Owned(sets), first: 0, rows, width }
    }

    /// Some rows of these sets, in a log whose largest set has `width` actions.
    pub fn part(sets: &'a Sets, rows: Range<usize>, width: usize) -> Self {
        ChunkSets { sets: Cow::Borrowed(sets), first: rows.start, rows: rows.len(), width }
    }

    /// The rows.
    pub fn view(&self) -> SetsView<'_> {
        SetsView { sets: &self.sets, first: self.first, rows: self.rows, width: self.width }
    }
}

/// Where the numbers of each row are in a column that has one number per action.
#[derive(Debug, Clone, Copy)]
pub enum Places<'a> {
    /// Every row has K of them.
    Fixed(usize),
    /// Every row has as many as its set has actions.
    Sets(&'a Sets),
}

impl<'a> Places<'a> {
    /// Those of rows with these sets, or else of rows with K actions.
    pub fn new(sets: Option<&'a Sets>, k: usize) -> Self {
        sets.map_or(Places::Fixed(k), Places::Sets)
    }

    /// The numbers of row `i`.
    pub fn of(&self, i: usize) -> Range<usize> {
        match self {
            Places::Fixed(k) => i * k..(i + 1) * k,
            Places::Sets(sets) => sets.actions_of(i),
        }
    }

    /// The numbers of the first `rows` rows.
    pub fn first(&self, rows: usize) -> usize {
        match self {
            Places::Fixed(k) => rows * k,
            Places::Sets(sets) => sets.offsets[rows] as usize,
        }
    }

    /// The number of actions of row `i`.
    pub fn size(&self, i: usize) -> usize {
        self.of(i).len()
    }
}

/// Numbers that are one after the other, for the rows of `sets`, as a matrix of rows × K that is padded with zeros.
pub fn padded(values: &[f64], sets: &Sets, rows: Range<usize>, k: usize) -> Array2<f64> {
    let mut out = Array2::zeros((rows.len(), k));
    for (row, mut to) in rows.zip(out.rows_mut()) {
        let from = &values[sets.actions_of(row)];
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    }
    out
}

/// The uniform distribution over the actions of each row, in the same form.
pub fn uniform_over(sets: SetsView) -> Array2<f64> {
    let mut out = Array2::zeros((sets.rows(), sets.width()));
    for (row, mut to) in out.rows_mut().into_iter().enumerate() {
        let size = sets.size(row);
        to.iter_mut().take(size).for_each(|p| *p = 1.0 / size as f64);
    }
    out
}

/// Contexts in which a policy decides.
#[derive(Debug, Clone, Copy)]
pub enum Contexts<'a> {
    /// A matrix with one row of features per context. All of them have the same actions.
    Fixed(ndarray::ArrayView2<'a, f32>),
    /// Contexts with action sets of their own.
    Sets(SetsView<'a>),
}

impl Contexts<'_> {
    /// The number of contexts.
    pub fn len(&self) -> usize {
        match self {
            Contexts::Fixed(x) => x.nrows(),
            Contexts::Sets(sets) => sets.rows(),
        }
    }

    /// Whether there are no contexts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> From<ndarray::ArrayView2<'a, f32>> for Contexts<'a> {
    fn from(x: ndarray::ArrayView2<'a, f32>) -> Self {
        Contexts::Fixed(x)
    }
}

impl<'a> From<SetsView<'a>> for Contexts<'a> {
    fn from(sets: SetsView<'a>) -> Self {
        Contexts::Sets(sets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets() -> Sets {
        let mut sets = Sets::default();
        for row in 0..4u32 {
            sets.x.push([(row, 1.0)]);
            (0..row + 2).for_each(|a| sets.actions.push([(a, row as f32 + 0.5), (9, 2.0)]));
            sets.end_row();
        }
        sets
    }

    #[test]
    fn features_are_sorted_added_up_and_zeros_left_out() {
        let mut sparse = Sparse::default();
        sparse.push([(5, 1.0), (2, 0.5), (5, 0.25), (7, 1.0), (7, -1.0), (1, 0.0)]);
        sparse.push([]);
        sparse.push([(3, 1.0), (4, 0.0), (9, 2.0)]);
        assert_eq!(sparse.vector(0), SparseVector { indices: &[2, 5], values: &[0.5, 1.25] });
        assert_eq!(sparse.vector(1).indices, &[0u32; 0]);
        assert_eq!(sparse.vector(2), SparseVector { indices: &[3, 9], values: &[1.0, 2.0] });
    }

    #[test]
    fn parts_of_sets_are_the_same_rows() {
        let sets = sets();
        assert_eq!((sets.rows(), sets.largest(), sets.size(2)), (4, 5, 4));
        let order = [3u32, 0, 2, 1];
        let sorted = sets.reordered(&order);
        let part = ChunkSets::part(&sorted, 1..3, 5);
        for (i, row) in [0usize, 2].into_iter().enumerate() {
            assert_eq!(part.view().size(i), sets.size(row));
            assert_eq!(part.view().x(i), sets.view().x(row));
            for a in 0..sets.size(row) {
                assert_eq!(part.view().action(i, a), sets.view().action(row, a));
            }
        }
        let mut cut = sets.clone();
        cut.x.push([(1, 1.0)]);
        cut.actions.push([(1, 1.0)]);
        cut.truncate(2);
        let again = sets.view().to_sets([0, 1].into_iter());
        assert_eq!(cut, again);
    }
}
