//! Which rows a job learns from and which it certifies (docs/math.md#split).

use std::ops::Range;

use sha2::{Digest, Sha256};

use super::error::Result;
use super::inputs::Inputs;
use super::log::{Chunk, LogShape, LogSource, PartLog, Side, Span, Split};
use super::spec::JobSpec;

/// The rows that a job with this spec learns from and certifies.
pub fn span_of(spec: &JobSpec, inputs: &Inputs) -> Span {
    let shape = inputs.log.shape();
    let seen = spec.seen_rows.unwrap_or(0);
    let version = shape.capabilities.last_version.as_ref();
    let by_time = |first: u64| Span::Time {
        first_certified_row: first.max(version.map_or(0, |version| version.first_row)),
        policy_version: version.map(|version| version.name.clone()),
    };
    match spec.fraction() {
        None => by_time(seen),
        Some(fraction) if spec.is_fixed() && seen == 0 => {
            Span::Hash(Split { seed: seed_of(inputs.dataset_digest), fraction })
        }
        Some(_) if seen > 0 => by_time(seen),
        Some(fraction) => {
            let first = (shape.rows as f64 * fraction).ceil() as u64;
            by_time(first.clamp(1, shape.rows.saturating_sub(1).max(1)))
        }
    }
}

/// The seed of a split or of a random order: 52 bits from the log's digest, so that nobody can try seeds until one
/// suits.
pub fn seed_of(digest: &str) -> u64 {
    let hash = Sha256::digest(digest.as_bytes());
    u64::from_le_bytes(std::array::from_fn(|i| hash[i])) >> 12
}

/// The rows that a job certifies.
pub enum Certified<'a> {
    /// All of them.
    All(&'a dyn LogSource),
    /// A part.
    Part(Box<PartLog<'a>>),
}

impl<'a> Certified<'a> {
    /// The rows of `inputs` that are certified.
    ///
    /// # Errors
    /// If the log cannot be read, or no row is certified.
    pub fn new(span: &Span, inputs: &Inputs<'a>) -> Result<Self> {
        match span.is_everything() {
            true => Ok(Certified::All(inputs.log)),
            false => Ok(Certified::Part(Box::new(PartLog::new(inputs.log, span.clone(), Side::Certify)?))),
        }
    }

    fn source(&self) -> &dyn LogSource {
        match self {
            Certified::All(log) => *log,
            Certified::Part(part) => &**part,
        }
    }
}

impl LogSource for Certified<'_> {
    fn shape(&self) -> &LogShape {
        self.source().shape()
    }

    fn chunks(&self) -> usize {
        self.source().chunks()
    }

    fn chunk(&self, index: usize) -> Result<Chunk<'_>> {
        self.source().chunk(index)
    }

    fn lean_chunk(&self, index: usize) -> Result<Chunk<'_>> {
        self.source().lean_chunk(index)
    }

    fn arrivals_of(&self, index: usize) -> Option<Range<u64>> {
        self.source().arrivals_of(index)
    }

    fn in_memory(&self) -> bool {
        self.source().in_memory()
    }

    fn seeks(&self) -> bool {
        self.source().seeks()
    }

    fn features(&self, places: &[(u32, u32)], to: &mut [f32]) -> Result<()> {
        self.source().features(places, to)
    }

    fn keep(&self, log: &dyn LogSource) -> Result<Box<dyn LogSource>> {
        self.source().keep(log)
    }
}
