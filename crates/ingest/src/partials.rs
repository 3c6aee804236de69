//! Partials of files: rows go through the same readers and checks as an upload, and batch by batch into the engine's
//! sums, so memory does not grow with the number of rows. Sketches of the rows find partitions that overlap.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Seek;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use guarantor_engine::control::Control;
use guarantor_engine::error::EngineError;
use guarantor_engine::log::{Capabilities, Repetitions};
use guarantor_engine::partial::{
    self, MergeCode, MergeError, Merged, Partial, PartialBuilder, Recipe, RecipeSubject,
};

use crate::IngestLimits;
use crate::batch::{LogLayout, LogRows};
use crate::check::Checker;
use crate::columns::{ColumnsBuilder, LogFacts};
use crate::digest::LogDigest;
use crate::encoding::Encoding;
use crate::errors::IngestError;
use crate::extra::is_known;
use crate::files::{FileError, read_batches, read_files};
use crate::fingerprint::{Fingerprint, fingerprints};
use crate::format::{FileFormat, Format};
use crate::partial_plain::PlainRows;
use crate::partial_rows::plain_rows;
use crate::row::{CANDIDATE_FULL_PREFIX, CANDIDATE_PREFIX};
use crate::rules::{LogOptions, Rules};
use crate::sink::{Sink, SinkFailed};
use crate::sketch::RowSketch;

/// The most sampled rows in the sketch of a partial.
const SAMPLED: usize = 1024;
/// A sampled row that more partials than this have is a common one, and says nothing about overlaps.
const COMMON: usize = 4;

/// Why a partial was not computed.
#[derive(Debug, thiserror::Error)]
pub enum PartialFault {
    /// A file was rejected.
    #[error(transparent)]
    File(#[from] FileError),
    /// The rows do not have what the recipe needs, or the caller canceled.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The recipe cannot be used, or a number is not finite.
    #[error(transparent)]
    Merge(#[from] MergeError),
}

/// A sink that sums up the rows of one partition. Pass it to [`crate::read`] or [`crate::read_files`] with the rules of
/// [`rules_of`], then call [`PartialSink::finish`].
pub struct PartialSink<'a> {
    builder: PartialBuilder,
    pub(crate) recipe: Arc<Recipe>,
    control: &'a Control<'a>,
    pub(crate) sketch: RowSketch,
    digest: Option<LogDigest>,
    failed: Option<EngineError>,
}

impl<'a> PartialSink<'a> {
    /// A sink for a partition of this name.
    ///
    /// # Errors
    /// If the recipe cannot be used, or the name is empty or too long.
    pub fn new(recipe: Arc<Recipe>, partition: &str, control: &'a Control<'a>) -> Result<Self, MergeError> {
        let builder = PartialBuilder::new(Arc::clone(&recipe), partition)?;
        let sketch = RowSketch::default();
        Ok(PartialSink { builder, recipe, control, sketch, digest: None, failed: None })
    }

    /// Adds rows that were checked.
    ///
    /// # Errors
    /// If the rows do not have what the recipe needs, or the caller cancels.
    pub fn add(&mut self, layout: &LogLayout, rows: LogRows) -> Result<(), EngineError> {
        self.mark(&rows, 0..rows.len(), &fingerprints(layout, &rows));
        self.sum(layout, rows)
    }

    /// Notes the fingerprints of some rows.
    pub(crate) fn mark(&mut self, rows: &LogRows, range: Range<usize>, marks: &[Fingerprint]) {
        let split = self.recipe.split;
        let times = rows.timestamps.get(range.clone()).unwrap_or(&[]);
        if split.certifies_all(times, range.len()) {
            return self.sketch.add_all(marks, &rows.propensities[range]);
        }
        for (i, mark) in range.zip(marks) {
            if split.certifies(rows.timestamps.get(i).copied()) {
                self.sketch.add(*mark, [].into_iter(), rows.propensities[i]);
            }
        }
    }

    /// Adds rows whose fingerprints were noted.
    pub(crate) fn sum(&mut self, layout: &LogLayout, rows: LogRows) -> Result<(), EngineError> {
        let mut columns = ColumnsBuilder::default();
        columns.append(layout, rows);
        let log = &self.recipe.log;
        let facts = LogFacts {
            n_actions: log.n_actions,
            outcome: log.outcome,
            options: options_of(&self.recipe),
            capabilities: &Capabilities::default(),
        };
        self.builder.add(columns.finish(&facts), self.control)
    }

    /// The partial, once all rows were read. `read` is what reading returned.
    ///
    /// # Errors
    /// Why the rows could not be read or summed.
    pub fn finish<T>(self, read: Result<T, FileError>) -> Result<Partial, PartialFault> {
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        match read {
            Ok(_) => {}
            // A partition may be empty.
            Err(FileError { error: IngestError::Unreadable(_), file: None }) if self.digest.is_none() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.builder.finish(Some(encode(&self.sketch.trimmed(SAMPLED))))?)
    }
}

impl Sink for PartialSink<'_> {
    fn write(&mut self, layout: &LogLayout, before: &LogDigest, rows: LogRows) -> Result<(), SinkFailed> {
        // The digest of rows in order is not needed: contents of partials do not depend on the order.
        self.digest.get_or_insert_with(|| before.clone());
        self.add(layout, rows).map_err(|error| {
            self.failed = Some(error);
            SinkFailed
        })
    }

    fn discard(&mut self) {}

    fn finish(&mut self) -> Result<Option<LogDigest>, SinkFailed> {
        Ok(self.digest.clone())
    }
}

fn options_of(recipe: &Recipe) -> LogOptions {
    LogOptions {
        logging: recipe.log.logging,
        repetitions: Repetitions::Decisions,
        exact_propensities: recipe.log.exact_propensities,
    }
}

/// What the rows of partitions are checked against.
///
/// # Errors
/// If the recipe has more actions than the limits allow.
pub fn rules_of(recipe: &Recipe, limits: IngestLimits) -> Result<Rules, IngestError> {
    let rules = Rules::new(Some(recipe.log.n_actions), recipe.log.outcome, None, limits)?;
    Ok(rules.with_options(options_of(recipe)))
}

/// The partial of a partition in files, which are read from their beginnings.
///
/// # Errors
/// Why a file was rejected, or the recipe cannot be used on its rows.
pub fn read_partial(
    files: Vec<(FileFormat, File)>,
    recipe: &Arc<Recipe>,
    partition: &str,
    limits: IngestLimits,
    control: &Control,
) -> Result<Partial, PartialFault> {
    let sink = || PartialSink::new(Arc::clone(recipe), partition, control);
    let rules = || {
        let rules = rules_of(recipe, limits.clone());
        rules.map_err(|error| PartialFault::File(FileError { file: None, error }))
    };
    if files.iter().all(|(format, file)| is_plain(*format, file)) {
        let mut plain = PlainRows::new(rules()?, sink()?);
        // Where anything is unusual, the reader of rows says what it is.
        if plain.read_files(&files)? {
            return plain.sink.finish(Ok(()));
        }
        for (_, file) in &files {
            (&*file).rewind().map_err(|error| FileError { file: None, error: error.into() })?;
        }
    }
    let (mut sink, rules) = (sink()?, rules()?);
    let read = read_files(files, Checker::new(rules), &mut sink);
    sink.finish(read)
}

/// Whether a file may be read column by column: Parquet from its beginning, where any byte can be read again.
fn is_plain(format: FileFormat, file: &File) -> bool {
    let FileFormat { format, encoding, hash_dims } = format;
    let whole = file.metadata().is_ok_and(|about| about.is_file())
        && (&*file).stream_position().is_ok_and(|at| at == 0);
    whole && format == Format::Parquet && encoding == Encoding::Identity && hash_dims.is_none()
}

/// The partial of a partition in batches of a data frame. `hash_dims` is the number of dimensions for named features.
///
/// # Errors
/// Why the batches were rejected, or the recipe cannot be used on their rows.
pub fn read_partial_batches(
    schema: &Schema,
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
    hash_dims: Option<usize>,
    recipe: &Arc<Recipe>,
    partition: &str,
    limits: IngestLimits,
    control: &Control,
) -> Result<Partial, PartialFault> {
    let mut sink = PartialSink::new(Arc::clone(recipe), partition, control)?;
    let rejected = |error| FileError { file: None, error };
    let rules = || rules_of(recipe, limits.clone()).map_err(rejected);
    let mut batches = batches.peekable();
    let first = batches.peek().and_then(|batch| batch.as_ref().ok()).filter(|_| hash_dims.is_none());
    let plain = rules()?;
    if first.is_some_and(|batch| plain_rows(batch, &plain).is_some()) {
        let mut plain = PlainRows::new(plain, sink);
        plain.read_batches(schema, batches)?;
        return plain.sink.finish(Ok(()));
    }
    let read = read_batches(schema, batches, hash_dims, Checker::new(rules()?), &mut sink);
    sink.finish(read.map_err(rejected))
}

/// Whether the partial of a recipe depends on a column of this name. Others need not be read.
pub fn reads_column(recipe: &Recipe, name: &str) -> bool {
    let candidate = name.strip_prefix(CANDIDATE_PREFIX).or_else(|| name.strip_prefix(CANDIDATE_FULL_PREFIX));
    match (candidate, &recipe.subject) {
        (Some(candidate), RecipeSubject::Logged { name }) => candidate == name,
        (Some(_), RecipeSubject::Policy { .. }) => false,
        (None, _) => is_known(name),
    }
}

/// Merges partials, and finds those that have rows in common with each other or with the learn log. Returns the sketch of
/// all certified rows too.
///
/// # Errors
/// Why the partials cannot be merged.
pub fn merge(
    recipe: &Recipe,
    partials: Vec<Partial>,
    expected_rows: Option<u64>,
) -> Result<(Merged, RowSketch), MergeError> {
    let mut sketches = Vec::with_capacity(partials.len());
    for partial in &partials {
        let name = &partial.partition;
        sketches.push((name.clone(), decode(partial.sketch.as_deref(), &format!("partition {name:?}"))?));
    }
    let counts: Vec<u64> = partials.iter().map(|partial| partial.rows.certified).collect();
    // Repeated partitions and mixed recipes have errors of their own, which say more.
    let merged = partial::merge(recipe, partials, expected_rows)?;
    let mut all = RowSketch::default();
    for ((name, sketch), certified) in sketches.iter().zip(counts) {
        if sketch.rows() != certified {
            let message = format!("partition {name:?}: the sketch is not that of its rows; compute it again");
            return Err(MergeError::new(MergeCode::InvalidPartial, message));
        }
        all.merge(sketch);
    }
    check_overlaps(&sketches)?;
    if let Some(times) = all.multiplied() {
        let message = format!("every row is there {times} times; pass every partition once");
        return Err(MergeError::new(MergeCode::OverlappingPartials, message));
    }
    if let Some(text) = &recipe.learned_from.sketch {
        let learned = decode(Some(text), "the recipe")?;
        if all.beyond_chance(&learned) {
            let message = "the certified rows have rows of the learn log, on which the recipe was frozen; leave them out";
            return Err(MergeError::new(MergeCode::OverlappingPartials, message));
        }
    }
    Ok((merged, all))
}

/// Finds two partials with more rows in common than chance explains. Only pairs that share a sampled row are compared.
fn check_overlaps(sketches: &[(String, RowSketch)]) -> Result<(), MergeError> {
    let mut owners: HashMap<u64, Vec<usize>> = HashMap::new();
    for (i, (_, sketch)) in sketches.iter().enumerate() {
        for hash in sketch.sampled() {
            let owners = owners.entry(hash).or_default();
            if owners.len() <= COMMON {
                owners.push(i);
            }
        }
    }
    let mut shared: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for owners in owners.into_values().filter(|owners| owners.len() <= COMMON) {
        for (at, &a) in owners.iter().enumerate() {
            owners[at + 1..].iter().for_each(|&b| *shared.entry((a, b)).or_default() += 1);
        }
    }
    for (a, b) in shared.into_keys() {
        let ((one, first), (other, second)) = (&sketches[a], &sketches[b]);
        if first.beyond_chance(second) {
            let message = format!(
                "partitions {one:?} and {other:?} have more rows in common than chance explains; every row must be in one \
                 partition"
            );
            return Err(MergeError::new(MergeCode::OverlappingPartials, message));
        }
    }
    Ok(())
}

/// A sketch as text.
pub fn encode(sketch: &RowSketch) -> String {
    hex::encode(sketch.to_bytes())
}

fn decode(text: Option<&str>, who: &str) -> Result<RowSketch, MergeError> {
    let sketch = text.and_then(|text| RowSketch::from_bytes(&hex::decode(text).ok()?));
    let message = format!("{who}: the sketch of the rows is missing or malformed; compute it again");
    sketch.ok_or_else(|| MergeError::new(MergeCode::InvalidPartial, message))
}
