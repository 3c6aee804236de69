//! Why an upload was refused.

use guarantor_engine::error::RowError;

use crate::sink::SinkFailed;

/// How many refused rows are named.
const NAMED: usize = 20;
/// Of a text that may quote what was sent.
const MOST_BYTES: usize = 400;

/// The beginning of a text, on its way into an answer: a name or a value in it may be megabytes long.
pub fn shortened(mut text: String) -> String {
    if text.len() > MOST_BYTES {
        text.truncate(text.floor_char_boundary(MOST_BYTES));
        text.push('…');
    }
    text
}

/// The first refused rows, one error each, in the order of the file, and how many there are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowErrors {
    pub first: Vec<RowError>,
    pub total: u64,
}

impl RowErrors {
    pub fn add(&mut self, error: RowError) {
        self.total += 1;
        let error =
            RowError { row: error.row, field: shortened(error.field), message: shortened(error.message) };
        // Some checks look at whole batches, so errors come almost but not quite in order.
        let at = self.first.partition_point(|other| other.row <= error.row);
        if at < NAMED {
            self.first.insert(at, error);
            self.first.truncate(NAMED);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.total == 0
    }
}

impl IngestError {
    /// Whether the same body would be refused again, whenever it comes.
    pub fn is_of_the_body(&self) -> bool {
        use IngestError::{Expands, Option, Rows, TooLarge, Unreadable};
        matches!(self, Rows(_) | Option { .. } | Unreadable(_) | TooLarge(_) | Expands(_))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    #[error("{} rows are not valid; the first: {}", .0.total, .0.first.first().map_or_else(String::new, ToString::to_string))]
    Rows(RowErrors),
    /// An option of the upload that cannot be, whatever the rows.
    #[error("{field}: {message}")]
    Option { field: &'static str, message: String },
    /// The bytes are not of the format that was named.
    #[error("{0}")]
    Unreadable(String),
    #[error("{0}")]
    TooLarge(String),
    /// More comes out of the body than may.
    #[error("{0}")]
    Expands(String),
    /// A temporary file could not be read or written.
    #[error("temporary file: {0}")]
    Io(#[from] std::io::Error),
    /// The sink could not keep the rows, and knows why.
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
    fn what_was_sent_is_quoted_in_part() {
        let mut errors = RowErrors::default();
        // 'é' has two bytes, so that one of the two is cut in its middle.
        for field in ["é".repeat(1_000_000), format!("x{}", "é".repeat(1_000_000))] {
            errors.add(RowError { row: 1, message: field.clone(), field });
        }
        for error in &errors.first {
            assert!(error.field.ends_with("é…") && error.field.len() <= MOST_BYTES + 3);
            assert!(error.message.ends_with("é…") && error.message.len() <= MOST_BYTES + 3);
        }
        assert_eq!(shortened("short".into()), "short");
    }
}
