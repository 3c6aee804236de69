//! A log in memory, in order of arrival. If repetitions are designed, each context is there once, with its rows
//! grouped, in order of first appearance. Otherwise every row is an entry of its own.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use ndarray::{ArcArray2, Array2, ArrayView2, CowArray, Ix2};

use super::columns::{agree, check_full};
use super::{
    ActionSets, Capabilities, Chunk, ChunkSets, Columns, Contexts, LastVersion, LogShape, LogSource, Logging,
    Outcome, Period, Repetitions, Sets, chunk_contexts, padded, uniform_over,
};
use crate::error::{EngineError, Result, RowError};

/// A log in memory.
pub struct MemoryLog {
    shape: LogShape,
    /// Shared if several logs have the same contexts.
    x: ArcArray2<f32>,
    ordinals: Vec<u64>,
    arrivals: Vec<u64>,
    offsets: Vec<u32>,
    actions: Vec<u32>,
    costs: Vec<f64>,
    outcomes: Vec<Vec<f64>>,
    propensities: Vec<f64>,
    weights: Vec<f64>,
    full: Full,
    candidates: Vec<Vec<f64>>,
    candidate_full: Vec<Option<Full>>,
    last_version: Option<Vec<bool>>,
    sets: Option<Sets>,
}

/// The most actions for which π0(·|x) of a uniform log is made up chunk by chunk. Control variates gain little
/// with more.
pub const MAX_UNIFORM: usize = 256;

/// π0(·|x), or π(·|x) of a candidate.
enum Full {
    Unknown,
    /// The same for all actions. It is not stored.
    Uniform,
    Known(Array2<f64>),
    /// One number per action of each row's own set.
    Sets(Vec<f64>),
}

/// Contexts that were each logged m times, by a policy that is known for all actions.
pub struct LoggedContexts {
    /// The features: contexts × p.
    pub x: ArcArray2<f32>,
    /// π0(·|x): contexts × K.
    pub full: Array2<f64>,
    /// m, the number of interactions per context.
    pub interactions: usize,
    /// The logged actions, m per context, in the order of the contexts.
    pub actions: Vec<u32>,
    /// Their costs, in [-1, 0].
    pub costs: Vec<f64>,
}

impl MemoryLog {
    /// The log of these columns.
    ///
    /// # Errors
    /// If a column is invalid, or rows of one context differ in their features or propensities.
    pub fn new(mut columns: Columns) -> Result<Self> {
        columns.check()?;
        columns.settle();
        // A log in order of arrival is not copied: the feature matrix is the caller's own memory.
        if let Some(order) = columns.arrival_order() {
            columns.reorder(&order);
        }
        let groups = columns.contexts.as_ref().map(|c| group(c));
        match groups {
            Some(groups) if groups.len() < columns.rows() => match columns.repetitions {
                Repetitions::Designed if columns.sets.is_some() => Err(EngineError::Log(
                    "repetitions are designed, but every row has its own actions".into(),
                )),
                Repetitions::Designed => Self::grouped(columns, &groups),
                Repetitions::Decisions => {
                    let mut ordinals = vec![0; columns.rows()];
                    for (ordinal, rows) in (0u64..).zip(&groups) {
                        rows.iter().for_each(|&row| ordinals[row as usize] = ordinal);
                    }
                    let mut log = MemoryLog { ordinals, ..Self::ungrouped(columns) };
                    log.shape.capabilities.repeated_contexts = true;
                    Ok(log)
                }
            },
            _ => Ok(Self::ungrouped(columns)),
        }
    }

    fn ungrouped(columns: Columns) -> Self {
        let n = columns.rows();
        let (shape, last_version) = shape_of(&columns, n);
        let k = shape.n_actions;
        let varying = columns.sets.is_some();
        let known = |full: Vec<f64>| if varying { Full::Sets(full) } else { Full::Known(matrix(n, k, full)) };
        MemoryLog {
            x: matrix(n, columns.dim, columns.x).into_shared(),
            ordinals: (0..n as u64).collect(),
            arrivals: (0..n as u64).collect(),
            offsets: (0..=n as u32).collect(),
            actions: columns.actions,
            costs: columns.costs,
            outcomes: columns.other_costs,
            propensities: columns.propensities,
            weights: vec![1.0; n],
            full: match columns.full {
                Some(full) => known(full),
                None if shape.capabilities.full_propensities => Full::Uniform,
                None => Full::Unknown,
            },
            candidate_full: {
                let mut full = columns.candidate_full;
                full.resize(columns.candidates.len(), None);
                full.into_iter().map(|full| full.map(known)).collect()
            },
            candidates: columns.candidates.into_iter().map(|(_, c)| c).collect(),
            last_version,
            sets: columns.sets,
            shape,
        }
    }

    fn grouped(columns: Columns, groups: &[Vec<u32>]) -> Result<Self> {
        let (p, k) = (columns.dim, columns.n_actions);
        let (shape, last_version) = shape_of(&columns, groups.len());
        let order: Vec<usize> = groups.iter().flatten().map(|&i| i as usize).collect();
        let mut x = Vec::with_capacity(groups.len() * p);
        let mut full = columns.full.as_ref().map(|_| Vec::with_capacity(groups.len() * k));
        let (mut offsets, mut weights) = (vec![0u32], Vec::with_capacity(order.len()));
        for rows in groups {
            let first = rows[0] as usize;
            x.extend_from_slice(&columns.x[first * p..(first + 1) * p]);
            for &row in rows {
                same_context(&columns, first, row as usize)?;
                weights.push(1.0 / rows.len() as f64);
            }
            if let (Some(to), Some(from)) = (&mut full, &columns.full) {
                to.extend_from_slice(&from[first * k..(first + 1) * k]);
            }
            offsets.push(weights.len() as u32);
        }
        let pick = |values: &[f64]| order.iter().map(|&i| values[i]).collect::<Vec<f64>>();
        Ok(MemoryLog {
            x: matrix(groups.len(), p, x).into_shared(),
            ordinals: (0..groups.len() as u64).collect(),
            arrivals: order.iter().map(|&i| i as u64).collect(),
            offsets,
            actions: order.iter().map(|&i| columns.actions[i]).collect(),
            costs: pick(&columns.costs),
            outcomes: columns.other_costs.iter().map(|costs| pick(costs)).collect(),
            propensities: pick(&columns.propensities),
            weights,
            full: match full {
                Some(full) => Full::Known(matrix(groups.len(), k, full)),
                None if shape.capabilities.full_propensities => Full::Uniform,
                None => Full::Unknown,
            },
            candidates: columns.candidates.iter().map(|(_, c)| pick(c)).collect(),
            candidate_full: (0..columns.candidates.len())
                .map(|candidate| {
                    let full = columns.candidate_full.get(candidate)?.as_ref()?;
                    let rows = order.iter().flat_map(|&i| full[i * k..(i + 1) * k].iter().copied());
                    Some(Full::Known(matrix(order.len(), k, rows.collect())))
                })
                .collect(),
            last_version: last_version.map(|last| order.iter().map(|&i| last[i]).collect()),
            sets: None,
            shape,
        })
    }

    /// The log of contexts that one fixed policy logged equally often. Their features are not copied.
    ///
    /// # Errors
    /// If the arrays do not fit together, or a number is out of its range.
    pub fn of_contexts(contexts: LoggedContexts) -> Result<Self> {
        let LoggedContexts { x, full, interactions: m, actions, costs } = contexts;
        let (n, k) = full.dim();
        let rows = n.checked_mul(m).filter(|&rows| (1..u32::MAX as usize).contains(&rows));
        let fits = rows == Some(actions.len()) && rows == Some(costs.len()) && x.nrows() == n;
        if !fits || !x.is_standard_layout() || k < 2 || actions.iter().any(|&a| a as usize >= k) {
            let (rows, costs) = (actions.len(), costs.len());
            let message = format!(
                "{rows} actions and {costs} costs do not fit {n} contexts × {m} interactions with K = {k}"
            );
            return Err(EngineError::Log(message));
        }
        let taken = actions.iter().enumerate().map(|(row, &a)| full[(row / m, a as usize)]).collect();
        let shape = LogShape {
            rows: (n * m) as u64,
            contexts: n as u64,
            n_actions: k,
            dim: x.ncols(),
            outcome: Outcome::default(),
            logging: Logging::Fixed,
            capabilities: Capabilities {
                features: x.ncols() > 0,
                full_propensities: true,
                multiple_interactions: m > 1,
                ..Capabilities::default()
            },
        };
        let log = MemoryLog {
            x,
            ordinals: (0..n as u64).collect(),
            arrivals: (0..(n * m) as u64).collect(),
            offsets: (0..=n as u32).map(|c| c * m as u32).collect(),
            actions,
            costs,
            outcomes: Vec::new(),
            propensities: taken,
            weights: vec![1.0 / m as f64; n * m],
            full: Full::Known(full),
            candidates: Vec::new(),
            candidate_full: Vec::new(),
            last_version: None,
            sets: None,
            shape,
        };
        (0..log.chunks()).try_for_each(|index| log.chunk(index)?.check(&log.shape))?;
        Ok(log)
    }

    /// Fills π0(·|x) with what `logging_policy` gives for a matrix of contexts, checks it against the logged
    /// propensities, and puts it in their place: the log may have rounded them.
    ///
    /// # Errors
    /// If `logging_policy` fails, or a row's logged propensity differs from the one that it gives.
    pub fn with_full_propensities(
        mut self,
        logging_policy: impl Fn(Contexts) -> Result<Array2<f64>>,
    ) -> Result<Self> {
        let k = self.shape.n_actions;
        let mut full = Vec::new();
        for index in 0..self.chunks() {
            let (from, to) = self.bounds(index);
            let pi = match &self.sets {
                Some(sets) => logging_policy(ChunkSets::part(sets, from..to, k).view().into())?,
                None => logging_policy(self.x.slice(ndarray::s![from..to, ..]).into())?,
            };
            for (c, pi) in (from..to).zip(pi.rows()) {
                let pi = pi.to_slice().expect("row-major");
                for row in self.offsets[c] as usize..self.offsets[c + 1] as usize {
                    let action = self.actions[row] as usize;
                    check_full(row + 1, pi, action, self.propensities[row])?;
                    self.propensities[row] = pi[action];
                }
                full.extend_from_slice(&pi[..self.sets.as_ref().map_or(k, |sets| sets.size(c))]);
            }
        }
        self.full = match &self.sets {
            Some(_) => Full::Sets(full),
            None => Full::Known(matrix(self.ordinals.len(), k, full)),
        };
        self.shape.capabilities.full_propensities = true;
        Ok(self)
    }

    /// The same log, logged in another way.
    pub fn with_logging(mut self, logging: Logging) -> Self {
        self.shape.logging = logging;
        self
    }

    /// The features: contexts × p.
    pub fn x(&self) -> ArrayView2<'_, f32> {
        self.x.view()
    }

    /// The distributions of some rows.
    fn all_of<'a>(&'a self, full: &'a Full, rows: Range<usize>) -> Option<CowArray<'a, f64, Ix2>> {
        let k = self.shape.n_actions;
        Some(CowArray::from(match (full, &self.sets) {
            (Full::Unknown, _) => return None,
            (Full::Known(full), _) => return Some(CowArray::from(full.slice(ndarray::s![rows, ..]))),
            (Full::Uniform, None) => uniform(rows.len(), k),
            (Full::Uniform, Some(sets)) => uniform_over(ChunkSets::part(sets, rows, k).view()),
            (Full::Sets(full), Some(sets)) => padded(full, sets, rows, k),
            (Full::Sets(_), None) => return None,
        }))
    }

    fn bounds(&self, index: usize) -> (usize, usize) {
        let size = chunk_contexts(self.shape.dim);
        (index * size, ((index + 1) * size).min(self.ordinals.len()))
    }
}

impl LogSource for MemoryLog {
    fn shape(&self) -> &LogShape {
        &self.shape
    }

    fn chunks(&self) -> usize {
        self.ordinals.len().div_ceil(chunk_contexts(self.shape.dim))
    }

    fn chunk(&self, index: usize) -> Result<Chunk<'_>> {
        let (from, to) = self.bounds(index);
        let rows = self.offsets[from] as usize..self.offsets[to] as usize;
        let offsets = self.offsets[from..=to].iter().map(|&o| o - self.offsets[from]);
        Ok(Chunk {
            x: CowArray::from(self.x.slice(ndarray::s![from..to, ..])),
            ordinals: Cow::Borrowed(&self.ordinals[from..to]),
            arrivals: Cow::Borrowed(&self.arrivals[rows.clone()]),
            offsets: offsets.collect(),
            actions: Cow::Borrowed(&self.actions[rows.clone()]),
            costs: Cow::Borrowed(&self.costs[rows.clone()]),
            outcomes: self.outcomes.iter().map(|c| Cow::Borrowed(&c[rows.clone()])).collect(),
            propensities: Cow::Borrowed(&self.propensities[rows.clone()]),
            weights: Cow::Borrowed(&self.weights[rows.clone()]),
            full: self.all_of(&self.full, from..to),
            candidates: (self.candidates.iter()).map(|c| Cow::Borrowed(&c[rows.clone()])).collect(),
            candidate_full: (self.candidate_full.iter())
                .map(|full| self.all_of(full.as_ref()?, rows.clone()))
                .collect(),
            last_version: self.last_version.as_ref().map(|last| Cow::Borrowed(&last[rows.clone()])),
            sets: self.sets.as_ref().map(|sets| ChunkSets::part(sets, rows, self.shape.n_actions)),
        })
    }
}

/// The shape of a log in order of arrival, and whether each row is of its last policy version.
fn shape_of(columns: &Columns, contexts: usize) -> (LogShape, Option<Vec<bool>>) {
    let last = columns.versions.as_ref().and_then(|versions| Some((versions, *versions.last()?)));
    let last_version = last.map(|(versions, last)| LastVersion {
        name: columns.version_names[last as usize].clone(),
        first_row: versions.iter().position(|&v| v == last).unwrap_or(0) as u64,
        rows: versions.iter().filter(|&&v| v == last).count() as u64,
        versions: columns.version_names.len() as u64,
    });
    let carries_all = |i: usize| columns.candidate_full.get(i).is_some_and(Option::is_some);
    let names = columns.candidates.iter().map(|(name, _)| name);
    let shape = LogShape {
        rows: columns.rows() as u64,
        contexts: contexts as u64,
        n_actions: columns.n_actions,
        dim: columns.dim,
        outcome: columns.outcome,
        logging: columns.logging,
        capabilities: Capabilities {
            features: columns.dim > 0
                || columns.sets.is_some() && columns.set_features != ActionSets::default(),
            full_propensities: columns.full.is_some()
                || (columns.uniform && columns.n_actions <= MAX_UNIFORM),
            multiple_interactions: contexts < columns.rows(),
            repeated_contexts: false,
            candidates: names.clone().cloned().collect(),
            candidate_propensities: (names.enumerate().filter(|(i, _)| carries_all(*i)))
                .map(|(_, name)| name.clone())
                .collect(),
            actions_declared: columns.actions_declared,
            propensities_logged: columns.propensities_logged,
            exact_propensities: columns.exact_propensities,
            precision: columns.precision,
            candidate_precision: columns.candidate_precision.clone(),
            uniform: columns.uniform,
            action_sets: columns.sets.as_ref().map(|_| columns.set_features),
            outcomes: columns.named_outcomes.clone(),
            timestamps: columns.timestamps.is_some(),
            period: period_of(columns),
            last_version,
        },
    };
    (shape, last.map(|(versions, last)| versions.iter().map(|&v| v == last).collect()))
}

/// The times of the first and the last row.
fn period_of(columns: &Columns) -> Option<Period> {
    let times = columns.timestamps.as_ref()?;
    Some(Period { first: *times.iter().min()?, last: *times.iter().max()? })
}

/// The uniform distribution over K actions, for each of some contexts.
pub fn uniform(contexts: usize, k: usize) -> Array2<f64> {
    Array2::from_elem((contexts, k), 1.0 / k as f64)
}

fn matrix<T>(rows: usize, columns: usize, values: Vec<T>) -> Array2<T> {
    Array2::from_shape_vec((rows, columns), values).expect("the lengths were checked")
}

/// The rows of each context, contexts by first appearance.
fn group(contexts: &[u64]) -> Vec<Vec<u32>> {
    let mut place: HashMap<u64, usize> = HashMap::new();
    let mut groups: Vec<Vec<u32>> = Vec::new();
    for (row, id) in contexts.iter().enumerate() {
        let at = *place.entry(*id).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[at].push(row as u32);
    }
    groups
}

/// Rows of one context must have the same features, and so the same π0(·|x).
fn same_context(columns: &Columns, first: usize, row: usize) -> Result<(), RowError> {
    let (p, k) = (columns.dim, columns.n_actions);
    let fault = |field: &str| RowError {
        row: row as u64 + 1,
        field: field.into(),
        message: format!("differs from row {} of the same context_id", first + 1),
    };
    if columns.x[first * p..(first + 1) * p] != columns.x[row * p..(row + 1) * p] {
        return Err(fault("x"));
    }
    if let Some(full) = &columns.full
        && !agree(&full[first * k..(first + 1) * k], &full[row * k..(row + 1) * k])
    {
        return Err(fault("propensities"));
    }
    Ok(())
}
