//! Why a log cannot be used, for `guarantor inspect`.

use guarantor::store::UploadError;
use guarantor_engine::error::RowError;
use guarantor_ingest::{IngestError, RowErrors};
use serde_json::json;

use super::report::{ReportPage, Tone, amount};

/// Shows the rows of a file that are not valid.
pub fn show_errors(page: &mut ReportPage, file: &str, rows: &RowErrors) {
    let what = if rows.total == 1 {
        "1 row is".to_owned()
    } else {
        format!("{} rows are", amount(rows.total as f64))
    };
    page.title(&format!("{file}  {what} not valid"));
    let runs = runs(&rows.first);
    let number = runs.iter().map(|(rows, _)| rows.chars().count()).max().unwrap_or(1).max(3);
    let field = rows.first.iter().map(|e| e.field.chars().count()).max().unwrap_or(1).clamp(5, 24);
    page.toned(Tone::Quiet, &format!("  {:>number$}  {:<field$}  what is wrong", "row", "field"));
    for (rows, error) in &runs {
        let start = format!("  {rows:>number$}  {:<field$}  ", error.field);
        page.hanging(&start, &error.message);
    }
    if rows.total > rows.first.len() as u64 {
        let more = amount((rows.total - rows.first.len() as u64) as f64);
        page.line(&format!("  {:>number$}  and {more} more", "…"));
    }
    if rows.first.iter().any(|error| error.message.contains("outcome=")) {
        page.line("  Options of an upload are flags here: outcome=reward is --outcome reward.");
    }
}

/// Errors with the numbers of their rows. The same error of consecutive rows is shown once.
fn runs(errors: &[RowError]) -> Vec<(String, &RowError)> {
    let same =
        |a: &RowError, b: &RowError| b.row == a.row + 1 && (&a.field, &a.message) == (&b.field, &b.message);
    let numbers = |run: &[RowError]| match run {
        [only] => only.row.to_string(),
        [first, .., last] => format!("{}–{}", first.row, last.row),
        [] => String::new(),
    };
    errors.chunk_by(same).filter_map(|run| Some((numbers(run), run.first()?))).collect()
}

/// Why a log cannot be used, for programs.
pub fn rejection_as_json(file: &str, error: &UploadError) -> serde_json::Value {
    match error {
        UploadError::Log(IngestError::Rows(rows)) => {
            let errors: Vec<_> = (rows.first.iter())
                .map(|e| json!({ "row": e.row, "field": e.field, "message": e.message }))
                .collect();
            json!({ "valid": false, "file": file, "invalid_rows": rows.total, "errors": errors })
        }
        other => json!({ "valid": false, "file": file, "errors": [{ "message": other.to_string() }] }),
    }
}
