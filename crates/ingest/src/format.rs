//! The registry of log formats. Whatever differs between formats is in one entry of [`Format::entry`]:
//! names, file extensions, content types, the reader and the writer.
//!
//! The command line, the HTTP service and the simulators know formats only through this module. To add
//! one, write its reader, and add a variant and an entry here (CONTRIBUTING.md, "Add a format").

use std::io::{self, Write};

use guarantor_engine::log::{ActionSets, FeatureSpace, MAX_HASH_DIMS, Outcome, OutcomeKind};
use serde::{Deserialize, Serialize};

use crate::decompress::Decoded;
use crate::encoding::Encoding;
use crate::errors::IngestError;
use crate::hashing::Hashing;
use crate::outcome_options::{OutcomeRange, RangeFault};
use crate::row::{FormatError, Notes, ReadContext, Visit};
use crate::write::{self, RowEncoder, WriteLayout};
use crate::{IngestLimits, arrow_stream, csv, dsjson, ndjson, obd, parquet};

/// A log's format. `dsjson` and `obd` must be named in an upload, because other formats have the same
/// content types; the content type implies each of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FormatName))]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// One JSON object per line.
    Ndjson,
    /// Comma-separated values with a header.
    Csv,
    /// Apache Parquet.
    Parquet,
    /// An Arrow IPC stream.
    ArrowStream,
    /// Vowpal Wabbit's decision-service JSON.
    Dsjson,
    /// The Open Bandit Dataset's CSV.
    Obd,
}

type Read = fn(&mut Decoded, &ReadContext, &mut Visit) -> Result<Notes, FormatError>;
type Start = fn(&WriteLayout, &mut dyn Write) -> io::Result<Box<dyn RowEncoder>>;

/// The registry entry of a format.
struct Entry {
    /// The name in options. It is also the variant's name in JSON.
    name: &'static str,
    /// Other names that the command line accepts.
    aliases: &'static [&'static str],
    /// The display name.
    title: &'static str,
    /// The extensions of file names, without their dots.
    extensions: &'static [&'static str],
    /// The content types of uploads, the usual one first.
    content_types: &'static [&'static str],
    /// Whether the first of the content types implies the format.
    implied: bool,
    /// If features have names and are hashed: the dimensions that the format adds to the hashed ones.
    hashed: Option<usize>,
    /// Whether rows can have their own actions, and named features.
    named: bool,
    /// The default kind of outcome.
    outcome: OutcomeKind,
    /// Whether rows can have several outcomes with names.
    named_outcomes: bool,
    /// Translates the name of a row's field to the name that it has in the file.
    field_name: fn(&str) -> &str,
    read: Read,
    /// Fails if a log with this layout cannot be written and read back unchanged.
    can_write: fn(&WriteLayout) -> Result<(), String>,
    /// Starts a file.
    write: Start,
}

/// Defaults for the entries below.
const NDJSON: Entry = Entry {
    name: "ndjson",
    aliases: &[],
    title: "NDJSON",
    extensions: &["ndjson", "jsonl"],
    content_types: &["application/x-ndjson", "application/json"],
    implied: true,
    hashed: None,
    named: true,
    outcome: OutcomeKind::Cost,
    named_outcomes: true,
    field_name: |field| field,
    read: ndjson::read,
    can_write: |_| Ok(()),
    write: write::ndjson::start,
};

impl Format {
    /// All formats, in the order in which they are documented.
    pub const ALL: [Format; 6] =
        [Format::Ndjson, Format::Csv, Format::Parquet, Format::ArrowStream, Format::Dsjson, Format::Obd];

    fn entry(self) -> &'static Entry {
        match self {
            Format::Ndjson => &NDJSON,
            Format::Csv => &Entry {
                name: "csv",
                title: "CSV",
                extensions: &["csv"],
                content_types: &["text/csv"],
                named: false,
                read: csv::read,
                write: write::csv::start,
                can_write: write::csv::can_write,
                ..NDJSON
            },
            Format::Parquet => &Entry {
                name: "parquet",
                title: "Parquet",
                extensions: &["parquet"],
                content_types: &["application/vnd.apache.parquet"],
                read: parquet::read,
                write: write::parquet::start,
                ..NDJSON
            },
            Format::ArrowStream => &Entry {
                name: "arrow_stream",
                aliases: &["arrow"],
                title: "Arrow stream",
                extensions: &["arrow", "arrows"],
                content_types: &["application/vnd.apache.arrow.stream"],
                read: arrow_stream::read,
                write: write::arrow::start,
                ..NDJSON
            },
            Format::Dsjson => &Entry {
                name: "dsjson",
                title: "DSJSON",
                extensions: &["dsjson"],
                implied: false,
                hashed: Some(0),
                named_outcomes: false,
                field_name: dsjson::field_name,
                read: dsjson::read,
                can_write: write::dsjson::can_write,
                write: write::dsjson::start,
                ..NDJSON
            },
            Format::Obd => &Entry {
                name: "obd",
                title: "Open Bandit Dataset",
                extensions: &[],
                content_types: &["text/csv"],
                implied: false,
                hashed: Some(obd::POSITIONS),
                named: false,
                outcome: OutcomeKind::Reward,
                named_outcomes: false,
                field_name: obd::field_name,
                read: obd::read,
                can_write: write::obd::can_write,
                write: write::obd::start,
                ..NDJSON
            },
        }
    }

    /// The name in options, such as `format=dsjson`.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Other names that the command line accepts.
    pub fn aliases(self) -> &'static [&'static str] {
        self.entry().aliases
    }

    /// The display name, such as "Arrow stream".
    pub fn title(self) -> &'static str {
        self.entry().title
    }

    /// The content type to send a file of this format with.
    pub fn content_type(self) -> &'static str {
        self.entry().content_types[0]
    }

    /// Whether the content type of an upload implies the format. If not, the upload must name it.
    pub fn is_implied(self) -> bool {
        self.entry().implied
    }

    /// The content types with which an upload may name this format.
    pub fn content_types(self) -> &'static [&'static str] {
        self.entry().content_types
    }

    /// The format that a content type implies, without parameters and in lower case.
    pub fn of_content_type(content_type: &str) -> Option<Format> {
        Self::ALL.into_iter().find(|f| f.is_implied() && f.content_type() == content_type)
    }

    /// The format that the extension of a file name implies, without the extension of its compression.
    pub fn of_file_name(name: &str) -> Option<Format> {
        let extension = name.rsplit_once('.')?.1;
        Self::ALL.into_iter().find(|f| f.entry().extensions.contains(&extension))
    }

    /// Whether features have names in this format and are hashed into a fixed number of dimensions.
    pub fn hashes_features(self) -> bool {
        self.entry().hashed.is_some()
    }

    /// Whether rows of this format can have several outcomes with names.
    pub fn has_named_outcomes(self) -> bool {
        self.entry().named_outcomes
    }

    /// The outcome of the rows. Any part that the caller leaves out has the format's default.
    ///
    /// # Errors
    /// The range is empty or not finite, or nothing can be cut where it is to be cut.
    pub fn outcome(self, kind: Option<OutcomeKind>, range: OutcomeRange) -> Result<Outcome, RangeFault> {
        let default = match kind.unwrap_or(self.entry().outcome) {
            OutcomeKind::Cost => Outcome::default(),
            OutcomeKind::Reward => Outcome::reward(),
        };
        range.outcome(default.kind, (default.min, default.max))
    }

    /// Checks that a log with this layout can be written and read back unchanged.
    ///
    /// # Errors
    /// Why it cannot be, and what to use instead.
    pub fn can_write(self, layout: &WriteLayout) -> Result<(), String> {
        (self.entry().can_write)(layout)
    }

    pub(crate) fn start_writing(
        self,
        layout: &WriteLayout,
        to: &mut dyn Write,
    ) -> io::Result<Box<dyn RowEncoder>> {
        self.can_write(layout).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        (self.entry().write)(layout, to)
    }

    pub(crate) fn read(
        self,
        source: &mut Decoded,
        context: &ReadContext,
        visit: &mut Visit,
    ) -> Result<Notes, FormatError> {
        (self.entry().read)(source, context, visit)
    }

    /// Gives the fields in the errors of rows the names that they have in the file.
    pub(crate) fn name_fields(self, error: IngestError) -> IngestError {
        let name = self.entry().field_name;
        match error {
            IngestError::Rows(mut rows) => {
                rows.first.iter_mut().for_each(|row| row.field = name(&row.field).to_owned());
                IngestError::Rows(rows)
            }
            other => other,
        }
    }
}

/// By name or alias.
impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|f| f.name() == name || f.aliases().contains(&name));
        let names = || Self::ALL.map(Format::name).join(", ");
        found.ok_or_else(|| format!("unknown format {name:?}; the formats are {}", names()))
    }
}

/// How the bytes of a log are read or written: the format, the compression and the number of hashed
/// dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFormat {
    /// The file format.
    pub format: Format,
    /// The compression.
    pub encoding: Encoding,
    /// The number of dimensions into which named features are hashed, if the caller sets it. Formats without named
    /// features ignore it.
    pub hash_dims: Option<usize>,
}

impl From<Format> for FileFormat {
    /// Not compressed, with the default number of dimensions.
    fn from(format: Format) -> Self {
        FileFormat { format, encoding: Encoding::Identity, hash_dims: None }
    }
}

impl FileFormat {
    /// The format and the compression of a file, as its name implies; `named` overrides the format.
    ///
    /// # Errors
    /// Neither determines a format. The message lists the extensions that do.
    pub fn of_file(path: &std::path::Path, named: Option<Format>) -> Result<FileFormat, String> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (encoding, stem) = Encoding::of_file_name(&name);
        let format = named.or_else(|| Format::of_file_name(stem)).ok_or_else(|| {
            let extensions = Format::ALL.iter().flat_map(|f| f.entry().extensions);
            let extensions: Vec<String> = extensions.map(|extension| format!(".{extension}")).collect();
            format!(
                "{}: the file name does not imply a format; add --format, or use one of the extensions {}, \
                 with or without .gz or .zst after it",
                path.display(),
                extensions.join(", ")
            )
        })?;
        Ok(FileFormat { encoding, ..format.into() })
    }

    /// The same format with another compression.
    pub fn with_encoding(self, encoding: Encoding) -> Self {
        FileFormat { encoding, ..self }
    }

    /// The same with another number of dimensions for hashed features, or `None` if the format has no
    /// named features.
    pub fn with_hash_dims(self, hash_dims: usize) -> Option<Self> {
        let entry = self.format.entry();
        (entry.named || entry.hashed.is_some()).then_some(FileFormat { hash_dims: Some(hash_dims), ..self })
    }

    /// The same with the number of hashed dimensions that gives rows of `dim` features.
    pub fn for_dim(self, dim: usize) -> Self {
        match self.format.entry().hashed {
            Some(added) => FileFormat { hash_dims: Some(dim.saturating_sub(added)), ..self },
            None => self,
        }
    }

    /// The same with the number of hashed dimensions that gives rows with these features.
    pub fn for_sets(self, features: ActionSets) -> Self {
        let named = |space| matches!(space, FeatureSpace::Named { .. }).then(|| space.dim());
        let bare = (features == ActionSets::default()).then_some(0);
        FileFormat { hash_dims: named(features.actions).or(named(features.x)).or(bare), ..self }
    }

    /// The number of hashed dimensions of a log in which all rows have the same actions.
    pub fn dims(self) -> usize {
        self.hash_dims.unwrap_or(Hashing::DEFAULT_DIMS)
    }

    /// Checks what does not depend on the rows.
    pub(crate) fn check(&self, limits: &IngestLimits) -> Result<(), IngestError> {
        let entry = self.format.entry();
        let (dims, most) = match (entry.hashed, self.hash_dims) {
            // If rows have their own actions, features are stored sparse. The reader knows it with the first row.
            _ if entry.named => (self.hash_dims.unwrap_or(0), MAX_HASH_DIMS),
            (Some(added), _) => (self.dims().saturating_add(added), limits.dim),
            (None, _) => return Ok(()),
        };
        if dims <= most {
            return Ok(());
        }
        let message = format!("makes {dims} features; the maximum is {most}");
        Err(IngestError::Option { field: "hash_dims", message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::path::Path;

    #[test]
    fn entries_agree_with_each_other() {
        let (mut names, mut extensions, mut types) = (HashSet::new(), HashSet::new(), HashSet::new());
        for format in Format::ALL {
            let entry = format.entry();
            assert_eq!(serde_json::to_value(format).unwrap(), entry.name);
            for &name in entry.aliases.iter().chain([&entry.name]) {
                assert!(names.insert(name), "{name} names two formats");
                assert_eq!(name.parse(), Ok(format));
            }
            assert!(entry.extensions.iter().all(|extension| extensions.insert(*extension)));
            assert!(!entry.implied || types.insert(format.content_type()));
        }
        assert!(
            "vw".parse::<Format>().unwrap_err().contains("ndjson, csv, parquet, arrow_stream, dsjson, obd")
        );
    }

    #[test]
    fn a_file_name_implies_format_and_compression() {
        let of = |name: &str, named| FileFormat::of_file(Path::new(name), named);
        let known = |name: &str| of(name, None).map(|file| (file.format, file.encoding)).unwrap();
        assert_eq!(known("a/log.jsonl"), (Format::Ndjson, Encoding::Identity));
        assert_eq!(known("log.dsjson.gz"), (Format::Dsjson, Encoding::Gzip));
        assert_eq!(known("log.v2.arrows.zst"), (Format::ArrowStream, Encoding::Zstd));
        let named = of("clicks.csv.gz", Some(Format::Obd)).unwrap();
        assert_eq!((named.format, named.encoding), (Format::Obd, Encoding::Gzip));
        for name in ["log", "log.txt", "log.gz", "csv", "dir.csv/log"] {
            assert!(of(name, None).unwrap_err().contains(".arrows, .dsjson"), "{name}");
        }
    }

    #[test]
    fn hashed_dimensions_belong_to_formats_with_named_features() {
        let file = |format: Format| FileFormat::from(format);
        assert_eq!(file(Format::Csv).with_hash_dims(4), None);
        assert_eq!(file(Format::Obd).with_hash_dims(4).map(|f| f.dims()), Some(4));
        assert_eq!(file(Format::Obd).for_dim(7).dims(), 4);
        assert_eq!(file(Format::Dsjson).for_dim(7).dims(), 7);
        assert_eq!(file(Format::Parquet).for_dim(7), file(Format::Parquet));
        let limits = IngestLimits { dim: 258, ..IngestLimits::default() };
        assert!(file(Format::Dsjson).check(&limits).is_ok());
        assert!(file(Format::Obd).check(&limits).is_err());
    }
}
