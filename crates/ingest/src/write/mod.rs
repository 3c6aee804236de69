//! The other way: rows → bytes of a format, a file each, for logs that are simulated.
//!
//! What is written reads back as the same rows: features are single-precision numbers to the bit,
//! all others double-precision ones. Not so OBD, which has positions where a row has nothing. A row at a time, so that memory holds a batch at most.

mod arrow;
mod csv;
mod dsjson;
pub mod file;
mod ndjson;
mod numbers;
mod obd;
mod parquet;
mod sink;

use std::io::{self, Write};

use guarantor_engine::log::OutcomeKind;

pub use sink::Sink;

/// What is common to all rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// p; 0 for rows without features.
    pub dim: usize,
    /// K.
    pub n_actions: usize,
    pub outcome: OutcomeKind,
    /// Whether rows name their context; those of repeated interactions must.
    pub context_ids: bool,
}

impl Layout {
    pub fn outcome_name(&self) -> &'static str {
        match self.outcome {
            OutcomeKind::Cost => "cost",
            OutcomeKind::Reward => "reward",
        }
    }
}

/// A row: one decision of the policy that logged.
#[derive(Debug, Clone, Copy)]
pub struct Decision<'a> {
    /// p numbers.
    pub x: &'a [f32],
    pub action: u32,
    /// π0(·|x): K numbers. The logged action's propensity is the one of these.
    pub propensities: &'a [f64],
    /// A cost or a reward, as the layout says.
    pub outcome: f64,
    /// Written where the layout has context ids.
    pub context: u64,
}

/// The formats; each has a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Ndjson,
    Csv,
    Parquet,
    /// Arrow's stream of record batches.
    Arrow,
    /// Vowpal Wabbit's decision-service JSON.
    Dsjson,
    /// The Open Bandit Dataset's CSV.
    Obd,
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, format)| *format);
        let names = Self::NAMES.map(|(name, _)| name).join(", ");
        found.ok_or_else(|| format!("unknown format; expected one of {names}"))
    }
}

impl Format {
    /// All formats by the name that the command line knows them by.
    pub const NAMES: [(&'static str, Format); 6] = [
        ("ndjson", Format::Ndjson),
        ("csv", Format::Csv),
        ("parquet", Format::Parquet),
        ("arrow", Format::Arrow),
        ("dsjson", Format::Dsjson),
        ("obd", Format::Obd),
    ];

    /// By the ending of a file's name, without the one that says how it is compressed.
    pub fn by_name(name: &str) -> Option<Self> {
        let ending = Sink::<io::Empty>::split(name).0.rsplit_once('.')?.1;
        Some(match ending {
            "ndjson" | "jsonl" => Format::Ndjson,
            "csv" => Format::Csv,
            "parquet" => Format::Parquet,
            "arrow" | "arrows" => Format::Arrow,
            "dsjson" => Format::Dsjson,
            _ => return None,
        })
    }

    /// As uploads name it. DSJSON and OBD are named by `format=` beside it.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Ndjson | Format::Dsjson => "application/x-ndjson",
            Format::Csv | Format::Obd => "text/csv",
            Format::Parquet => "application/vnd.apache.parquet",
            Format::Arrow => "application/vnd.apache.arrow.stream",
        }
    }

    /// Why a log like this cannot be written so that it reads back as itself, if it cannot.
    pub fn refuse(self, layout: &Layout) -> Result<(), String> {
        let other = "ndjson, csv, parquet and arrow can";
        match self {
            Format::Dsjson | Format::Obd if layout.context_ids => {
                Err(format!("this format cannot say which rows are interactions with one context; {other}"))
            }
            Format::Obd if layout.dim > 0 => Err(format!(
                "the Open Bandit Dataset has users' categories and no numbers as features; write the log \
                 without its features, or in another format: dsjson, {other}"
            )),
            _ => Ok(()),
        }
    }
}

enum Writer<W> {
    Ndjson(ndjson::Ndjson<W>),
    Csv(csv::Csv<W>),
    Parquet(parquet::Parquet<W>),
    Arrow(arrow::Arrow<W>),
    Dsjson(dsjson::Dsjson<W>),
    Obd(obd::Obd<W>),
}

/// Writes rows to `W` in a format.
pub struct LogWriter<W>(Writer<W>);

impl<W: Write> LogWriter<W> {
    pub fn new(format: Format, layout: Layout, to: W) -> io::Result<Self> {
        format.refuse(&layout).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        Ok(LogWriter(match format {
            Format::Ndjson => Writer::Ndjson(ndjson::Ndjson::new(layout, to)),
            Format::Csv => Writer::Csv(csv::Csv::new(layout, to)?),
            Format::Parquet => Writer::Parquet(parquet::Parquet::new(layout, to)?),
            Format::Arrow => Writer::Arrow(arrow::Arrow::new(layout, to)?),
            Format::Dsjson => Writer::Dsjson(dsjson::Dsjson::new(layout, to)),
            Format::Obd => Writer::Obd(obd::Obd::new(layout, to)?),
        }))
    }

    pub fn write(&mut self, row: &Decision) -> io::Result<()> {
        match &mut self.0 {
            Writer::Ndjson(writer) => writer.write(row),
            Writer::Csv(writer) => writer.write(row),
            Writer::Parquet(writer) => writer.write(row),
            Writer::Arrow(writer) => writer.write(row),
            Writer::Dsjson(writer) => writer.write(row),
            Writer::Obd(writer) => writer.write(row),
        }
    }

    /// Writes what a format has at its end. Without it the bytes are not whole.
    pub fn finish(self) -> io::Result<W> {
        match self.0 {
            Writer::Ndjson(writer) => Ok(writer.finish()),
            Writer::Csv(writer) => Ok(writer.finish()),
            Writer::Parquet(writer) => writer.finish(),
            Writer::Arrow(writer) => writer.finish(),
            Writer::Dsjson(writer) => Ok(writer.finish()),
            Writer::Obd(writer) => Ok(writer.finish()),
        }
    }
}
