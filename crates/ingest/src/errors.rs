//! Why a log was rejected.

use guarantor_engine::error::RowError;

use crate::sink::SinkFailed;

/// The maximum number of rejected rows that are listed.
const LISTED: usize = 20;
/// The maximum length of a text that may quote the input.
const MAX_BYTES: usize = 400;

/// The beginning of a text that goes into a response: a name or a value in it may be megabytes long.
pub fn shortened(mut text: String) -> String {
    if text.len() > MAX_BYTES {
        text.truncate(text.floor_char_boundary(MAX_BYTES));
        text.push('…');
    }
    text
}

/// The first rejected rows, one error each, in the order of the file, and their total number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowErrors {
    /// The errors of the first rejected rows.
    pub first: Vec<RowError>,
    /// The number of rejected rows.
    pub total: u64,
}

impl RowErrors {
    /// Adds the error of one row.
    pub fn add(&mut self, error: RowError) {
        self.total += 1;
        let error =
            RowError { row: error.row, field: shortened(error.field), message: shortened(error.message) };
        // Some checks look at whole batches, so errors arrive almost but not quite in order.
        let at = self.first.partition_point(|other| other.row <= error.row);
        if at < LISTED {
            self.first.insert(at, error);
            self.first.truncate(LISTED);
        }
    }

    /// Whether no row was rejected.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }
}

impl IngestError {
    /// Whether the body itself is at fault, so that sending it again would fail in the same way.
    pub fn is_of_the_body(&self) -> bool {
        use IngestError::{Expands, MultipliedRows, Option, RepeatedRows, Rows, TooLarge, Unreadable};
        matches!(
            self,
            Rows(_)
                | Option { .. }
                | Unreadable(_)
                | TooLarge(_)
                | Expands(_)
                | RepeatedRows { .. }
                | MultipliedRows { .. }
        )
    }
}

/// Why a log was not read.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// Rows are not valid.
    #[error("{} rows are not valid; the first: {}", .0.total, .0.first.first().map_or_else(String::new, ToString::to_string))]
    Rows(RowErrors),
    /// An option is not valid, alone or for these rows.
    #[error("{field}: {message}")]
    Option {
        /// The name of the option.
        field: &'static str,
        /// What is wrong and what to do.
        message: String,
    },
    /// Consecutive rows repeat earlier ones, too many for coincidence.
    #[error(
        "{run} rows, from row {row} of the file on, repeat the rows from row {first} of the dataset on, with the same \
         actions and outcomes, which is not a coincidence; send every decision once; if they are new decisions, log \
         event_id, which must then be different in every row"
    )]
    RepeatedRows {
        /// The number of the first repeated row in the file.
        row: u64,
        /// The number of repeated rows; a few more at the ends may be repeated too.
        run: u64,
        /// Where the earlier rows start in the dataset, counted from 1.
        first: u64,
    },
    /// Every row occurs several times.
    #[error(
        "every row occurs {times} times or a multiple of it, in whatever order, which is not a coincidence; send every \
         decision once; if they are new decisions, log event_id, which must then be different in every row"
    )]
    MultipliedRows {
        /// The common divisor of how often rows occur.
        times: u32,
    },
    /// The file as a whole is not valid in its format.
    #[error("{0}")]
    Unreadable(String),
    /// The log exceeds a limit.
    #[error("{0}")]
    TooLarge(String),
    /// The log is too large after decompression.
    #[error("{0}")]
    Expands(String),
    /// A temporary file could not be read or written.
    #[error("temporary file: {0}")]
    Io(#[from] std::io::Error),
    /// The sink could not keep the rows; ask the sink for the cause.
    #[error("the rows could not be stored")]
    Sink,
}

impl From<SinkFailed> for IngestError {
    fn from(_: SinkFailed) -> Self {
        IngestError::Sink
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_quotations_are_shortened() {
        let mut errors = RowErrors::default();
        // 'é' has two bytes, so one of the two texts is cut in the middle of a character.
        for field in ["é".repeat(1_000_000), format!("x{}", "é".repeat(1_000_000))] {
            errors.add(RowError { row: 1, message: field.clone(), field });
        }
        for error in &errors.first {
            assert!(error.field.ends_with("é…") && error.field.len() <= MAX_BYTES + 3);
            assert!(error.message.ends_with("é…") && error.message.len() <= MAX_BYTES + 3);
        }
        assert_eq!(shortened("short".into()), "short");
    }
}
