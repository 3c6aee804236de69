//! The rows of a log in the temporary file that `spool` writes. Numbers are little-endian. Rows without sets have one
//! length; a row with its own actions starts with its length.

use std::ops::Range;

use super::order::Place;
use super::set_columns::SetSize;
use guarantor_engine::log::{Columns, Sets, Sparse};

/// The layout of a row in the file.
#[derive(Clone, Copy)]
pub struct Record {
    /// The number of features.
    pub dim: usize,
    /// Whether the rows contain π0(·|x).
    pub full: bool,
    /// The number of logged candidates.
    pub candidates: usize,
    /// The number of candidates with π(·|x).
    pub candidate_full: usize,
    /// K.
    pub n_actions: usize,
    /// Whether the rows of a context are one entry.
    pub grouped: bool,
    /// Whether rows contain the number of their context.
    pub ordinals: bool,
    /// Whether rows contain their position in the order of arrival.
    pub arrivals: bool,
    /// Whether rows contain whether they are of the last policy version.
    pub versions: bool,
    /// Whether every row has its own actions.
    pub sets: bool,
    /// The number of outcomes besides the primary one.
    pub outcomes: usize,
}

/// The length of the length at the start of a row with its own actions.
const LENGTH: usize = size_of::<u32>();

impl Record {
    /// The length of a row without sets.
    pub fn fixed(&self) -> usize {
        self.bytes(SetSize { actions: self.n_actions, non_zeros: 0 })
    }

    /// The length of a row with a set of this size. Without sets, all rows have the length of K actions.
    pub fn bytes(&self, size: SetSize) -> usize {
        let lists = usize::from(self.full) + self.candidate_full;
        let integers = usize::from(self.ordinals) + usize::from(self.arrivals);
        let sets = match self.sets {
            true => LENGTH + 8 + 4 * size.actions + 8 * size.non_zeros,
            false => 0,
        };
        let doubles = lists * size.actions + self.candidates + self.outcomes;
        20 + 4 * (self.dim + integers) + 8 * doubles + usize::from(self.versions) + sets
    }

    /// Appends row `i` of `columns` to `out`.
    pub fn write(&self, columns: &Columns, i: usize, (place, last): (Place, bool), out: &mut Vec<u8>) {
        let start = out.len();
        if self.sets {
            out.extend([0; LENGTH]);
        }
        out.extend(columns.actions[i].to_le_bytes());
        out.extend(columns.costs[i].to_le_bytes());
        out.extend(columns.propensities[i].to_le_bytes());
        let x = &columns.x[i * self.dim..(i + 1) * self.dim];
        x.iter().for_each(|value| out.extend(value.to_le_bytes()));
        if let Some(sets) = &columns.sets {
            write_set(sets, i, out);
        }
        let of_row = columns.places().of(i);
        let full = columns.full.iter().chain(columns.candidate_full.iter().flatten());
        full.flat_map(|full| &full[of_row.clone()]).for_each(|value| out.extend(value.to_le_bytes()));
        columns.candidates.iter().for_each(|(_, values)| out.extend(values[i].to_le_bytes()));
        columns.other_costs.iter().for_each(|costs| out.extend(costs[i].to_le_bytes()));
        if self.ordinals {
            out.extend((place.ordinal as u32).to_le_bytes());
        }
        if self.arrivals {
            out.extend((place.arrival as u32).to_le_bytes());
        }
        if self.versions {
            out.push(u8::from(last));
        }
        if self.sets {
            let length = (out.len() - start) as u32;
            out[start..start + LENGTH].copy_from_slice(&length.to_le_bytes());
        }
    }

    /// The rows of a chunk. It ends early where a length is wrong.
    pub fn split<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let fixed = (!self.sets).then(|| self.fixed());
        let mut rest = bytes;
        std::iter::from_fn(move || {
            let length = match fixed {
                Some(length) => length,
                None => u32::from_le_bytes(*rest.first_chunk()?) as usize,
            };
            let (record, after) = rest.split_at_checked(length).filter(|_| length > 0)?;
            rest = after;
            Some(record)
        })
    }

    /// Empty columns for `n` rows; `has_full` says which candidates have π(·|x).
    pub fn columns(&self, n: usize, has_full: &[bool]) -> Rows {
        // The length of lists is not known in advance if rows have sets.
        let lists = if self.sets { 0 } else { n * self.n_actions };
        let columns = Columns {
            n_actions: self.n_actions,
            dim: self.dim,
            x: Vec::with_capacity(n * self.dim),
            actions: Vec::with_capacity(n),
            costs: Vec::with_capacity(n),
            propensities: Vec::with_capacity(n),
            full: self.full.then(|| Vec::with_capacity(lists)),
            candidates: vec![(String::new(), Vec::with_capacity(n)); self.candidates],
            other_costs: vec![Vec::with_capacity(n); self.outcomes],
            candidate_full: has_full.iter().map(|has| has.then(|| Vec::with_capacity(lists))).collect(),
            ..Columns::default()
        };
        Rows { columns, ordinals: Vec::new(), arrivals: Vec::new(), last: Vec::new() }
    }

    /// Reads a row, which was checked to be as it was written.
    pub fn read(&self, record: &[u8], to: &mut Rows, sets: &mut SetParts) {
        let mut fields = Fields(record);
        let columns = &mut to.columns;
        if self.sets {
            fields.integer();
        }
        columns.actions.push(fields.integer());
        columns.costs.push(fields.double());
        columns.propensities.push(fields.double());
        columns.x.extend(fields.list(self.dim).map(f32::from_le_bytes));
        let size = if self.sets { sets.read(&mut fields) } else { self.n_actions };
        for to in columns.full.iter_mut().chain(columns.candidate_full.iter_mut().flatten()) {
            to.extend(fields.list(size).map(f64::from_le_bytes));
        }
        columns.candidates.iter_mut().for_each(|(_, to)| to.push(fields.double()));
        columns.other_costs.iter_mut().for_each(|to| to.push(fields.double()));
        if self.ordinals {
            to.ordinals.push(fields.integer().into());
        }
        if self.arrivals {
            to.arrivals.push(fields.integer().into());
        }
        if self.versions {
            to.last.push(fields.take::<1>() == [1]);
        }
    }
}

fn write_set(sets: &Sets, i: usize, out: &mut Vec<u8>) {
    let (x, range) = (sets.x.vector(i), sets.actions_of(i));
    out.extend((range.len() as u32).to_le_bytes());
    out.extend((x.indices.len() as u32).to_le_bytes());
    let starts = &sets.actions.offsets()[range.start..=range.end];
    starts.windows(2).for_each(|w| out.extend(((w[1] - w[0]) as u32).to_le_bytes()));
    let non_zeros = starts[0] as usize..starts[range.len()] as usize;
    for (indices, values) in [
        (x.indices, x.values),
        (&sets.actions.indices()[non_zeros.clone()], &sets.actions.values()[non_zeros]),
    ] {
        indices.iter().for_each(|index| out.extend(index.to_le_bytes()));
        values.iter().for_each(|value| out.extend(value.to_le_bytes()));
    }
}

/// Reads the numbers of a row.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => [0xff; N],
        }
    }

    fn integer(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn double(&mut self) -> f64 {
        f64::from_le_bytes(self.take())
    }

    /// The next `count` numbers, or as many as there are.
    fn list<const N: usize>(&mut self, count: usize) -> impl Iterator<Item = [u8; N]> + use<'a, N> {
        let (list, rest) = self.0.split_at(count.saturating_mul(N).min(self.0.len()));
        self.0 = rest;
        list.as_chunks().0.iter().copied()
    }
}

/// The sets of the rows that were read so far.
pub struct SetParts {
    offsets: Vec<u64>,
    x: SparseParts,
    actions: SparseParts,
}

struct SparseParts {
    offsets: Vec<u64>,
    indices: Vec<u32>,
    values: Vec<f32>,
}

impl Default for SetParts {
    fn default() -> Self {
        let [x, actions] =
            [(); 2].map(|()| SparseParts { offsets: vec![0], indices: Vec::new(), values: Vec::new() });
        SetParts { offsets: vec![0], x, actions }
    }
}

impl SparseParts {
    fn read(&mut self, counts: impl Iterator<Item = u32>, fields: &mut Fields) {
        let mut end = self.indices.len() as u64;
        self.offsets.extend(counts.map(|count| {
            end += u64::from(count);
            end
        }));
        let count = end as usize - self.indices.len();
        self.indices.extend(fields.list(count).map(u32::from_le_bytes));
        self.values.extend(fields.list(count).map(f32::from_le_bytes));
    }

    fn finish(self) -> Option<Sparse> {
        Sparse::from_parts(self.offsets, self.indices, self.values)
    }
}

impl SetParts {
    /// Reads the set of a row, and returns how many actions it has.
    fn read(&mut self, fields: &mut Fields) -> usize {
        let (size, x) = (fields.integer() as usize, fields.integer());
        let counts = fields.list(size).map(u32::from_le_bytes);
        self.x.read([x].into_iter(), fields);
        self.actions.read(counts, fields);
        self.offsets.push(self.actions.offsets.len() as u64 - 1);
        size
    }

    /// The sets, or `None` if their parts do not fit together.
    pub fn finish(self) -> Option<Sets> {
        Sets::from_parts(self.offsets, self.x.finish()?, self.actions.finish()?)
    }
}

/// The rows of a chunk.
#[derive(Default)]
pub struct Rows {
    /// Their numbers.
    pub columns: Columns,
    /// The number of each row's context.
    pub ordinals: Vec<u64>,
    /// The position of each row in the order of arrival.
    pub arrivals: Vec<u64>,
    /// Whether each row is of the last policy version.
    pub last: Vec<bool>,
}

impl Rows {
    /// Appends some of other rows, which have no sets.
    pub fn extend(&mut self, from: &Rows, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let (to, of) = (&mut self.columns, &from.columns);
        let lists = |k: usize| range.start * k..range.end * k;
        if to.actions.is_empty() {
            (to.dim, to.n_actions) = (of.dim, of.n_actions);
            to.full = of.full.as_ref().map(|_| Vec::new());
            to.candidates = vec![(String::new(), Vec::new()); of.candidates.len()];
            to.candidate_full = of.candidate_full.iter().map(|f| f.as_ref().map(|_| Vec::new())).collect();
            to.other_costs = vec![Vec::new(); of.other_costs.len()];
        }
        to.x.extend_from_slice(&of.x[lists(of.dim)]);
        to.actions.extend_from_slice(&of.actions[range.clone()]);
        to.costs.extend_from_slice(&of.costs[range.clone()]);
        to.propensities.extend_from_slice(&of.propensities[range.clone()]);
        let all = to.full.iter_mut().zip(&of.full);
        let all = all.chain(to.candidate_full.iter_mut().flatten().zip(of.candidate_full.iter().flatten()));
        all.for_each(|(to, of)| to.extend_from_slice(&of[lists(from.columns.n_actions)]));
        let candidates = to.candidates.iter_mut().zip(&of.candidates).map(|((_, to), (_, of))| (to, of));
        let numbers = candidates.chain(to.other_costs.iter_mut().zip(&of.other_costs));
        numbers.for_each(|(to, of)| to.extend_from_slice(&of[range.clone()]));
        self.ordinals.extend(from.ordinals.iter().take(range.end).skip(range.start));
        self.arrivals.extend(from.arrivals.iter().take(range.end).skip(range.start));
        self.last.extend(from.last.iter().take(range.end).skip(range.start));
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        *self = Rows::default();
    }

    /// The rows in the order of their entries: of their contexts if these are entries, and of arrival.
    pub fn sorted(mut self, grouped: bool) -> Rows {
        let entry = |&row: &u32| {
            let row = row as usize;
            (if grouped { self.ordinals[row] } else { 0 }, self.arrivals[row])
        };
        let mut order: Vec<u32> = (0..self.arrivals.len() as u32).collect();
        if order.is_sorted_by_key(entry) {
            return self;
        }
        order.sort_by_key(entry);
        self.columns.reorder(&order);
        let pick = |values: &[u64]| order.iter().map(|&row| values[row as usize]).collect();
        (self.ordinals, self.arrivals) = (pick(&self.ordinals), pick(&self.arrivals));
        if !self.last.is_empty() {
            self.last = order.iter().map(|&row| self.last[row as usize]).collect();
        }
        self
    }
}
