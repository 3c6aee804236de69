//! What can go wrong, as exceptions of `guarantor._errors`.

use guarantor_engine::EngineError;
use guarantor_engine::error::{RowError, SpecError};
use guarantor_engine::footprint::TooLarge;
use guarantor_engine::partial::MergeError;
use guarantor_ingest::{FileError, IngestError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Value, json};

/// Why a call failed. It becomes the exception that `guarantor._errors.build` makes of it.
#[derive(Debug)]
pub enum Failure {
    /// The log cannot be used. `file` is its position among the files, if one is at fault.
    Log { file: Option<usize>, error: IngestError },
    /// The spec, a policy or another argument cannot be used.
    Spec(SpecError),
    /// The job does not fit into memory.
    TooLarge(TooLarge),
    /// The engine failed.
    Engine(EngineError),
    /// A recipe or partials cannot be used.
    Merge(MergeError),
    /// An argument is not valid. The field is empty if it is not known.
    Argument { field: String, message: String },
    /// The engine panicked, with this message.
    Panic(String),
    /// Python raised an exception.
    Python(PyErr),
}

/// The result of a call.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// An argument that is not valid.
    pub fn argument(field: &str, message: impl std::fmt::Display) -> Self {
        Failure::Argument { field: field.into(), message: message.to_string() }
    }

    fn as_json(&self) -> Value {
        let row = |error: &RowError| json!({"row": error.row, "field": error.field, "reason": error.message});
        match self {
            Failure::Log { file, error: error @ IngestError::Rows(rows) } => {
                let listed: Vec<Value> = rows.first.iter().map(row).collect();
                json!({"kind": "log", "message": error.to_string(), "file": file, "rows": listed, "total": rows.total})
            }
            Failure::Log { file: _, error: IngestError::Option { field, message } } => {
                json!({"kind": "spec", "code": "invalid_value", "field": field, "message": message})
            }
            Failure::Log { file, error } => {
                json!({"kind": "log", "message": error.to_string(), "file": file, "rows": [], "total": 0})
            }
            Failure::Spec(error) | Failure::Engine(EngineError::Spec(error)) => {
                json!({"kind": "spec", "code": error.code, "field": error.field, "message": error.message})
            }
            Failure::TooLarge(error) => {
                let needed = error.footprint.total();
                let message = format!("{error}; to run it anyway, set max_memory={needed}");
                json!({"kind": "spec", "code": "job_too_large", "field": "max_memory", "message": message})
            }
            Failure::Merge(error) => {
                json!({"kind": "spec", "code": error.code, "field": "", "message": error.message})
            }
            Failure::Engine(EngineError::Row(error)) => {
                json!({"kind": "log", "message": error.to_string(), "file": null, "rows": [row(error)], "total": 1})
            }
            Failure::Engine(error @ EngineError::Log(_)) => {
                json!({"kind": "log", "message": error.to_string(), "file": null, "rows": [], "total": 0})
            }
            Failure::Engine(error) => json!({"kind": "engine", "message": error.to_string()}),
            Failure::Argument { field, message } => {
                json!({"kind": "spec", "code": "invalid_value", "field": field, "message": message})
            }
            Failure::Panic(message) => {
                let message = format!("the engine failed, which is a bug; please report it: {message}");
                json!({"kind": "engine", "message": message})
            }
            Failure::Python(error) => json!({"kind": "engine", "message": error.to_string()}),
        }
    }

    /// The exception.
    pub fn raise(self, py: Python<'_>) -> PyErr {
        if let Failure::Python(error) = self {
            return error;
        }
        let build = || py.import("guarantor._errors")?.call_method1("build", (self.as_json().to_string(),));
        build().map_or_else(|error| error, PyErr::from_value)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Failure::Engine(error)
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        Failure::Spec(error)
    }
}

impl From<TooLarge> for Failure {
    fn from(error: TooLarge) -> Self {
        Failure::TooLarge(error)
    }
}

impl From<IngestError> for Failure {
    fn from(error: IngestError) -> Self {
        Failure::Log { file: None, error }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Failure::Log { file: error.file, error: error.error }
    }
}

/// JSON of a value that has one.
pub fn to_json(value: &impl serde::Serialize) -> Outcome<String> {
    serde_json::to_string(value).map_err(|error| Failure::Panic(error.to_string()))
}

/// Reads JSON that the Python half has written.
pub fn from_json<'a, T: serde::Deserialize<'a>>(what: &str, text: &'a str) -> Outcome<T> {
    serde_json::from_str(text).map_err(|error| Failure::argument(what, error))
}

/// An error of the Python half.
pub fn misuse(message: &str) -> PyErr {
    PyValueError::new_err(message.to_owned())
}
