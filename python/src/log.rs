//! A log that was read, and jobs on it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatchReader;
use arrow_schema::ArrowError;
use guarantor_engine::certificate::{Certificate, Document};
use guarantor_engine::control::{Control, Progress};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::SpecRequest;
use guarantor_engine::verify::Wording;
use guarantor_ingest::{
    FileFormat, Format, LocalLog, LogDigest, LogLayout, LogRows, LogSummary, Memory, MemorySink, Sink,
    SinkFailed, read_batches, read_files,
};
use pyo3::prelude::*;
use serde_json::json;

use crate::attend::{Wishes, attend};
use crate::capsule;
use crate::errors::{Failure, Outcome, from_json, to_json};
use crate::options::LogKeywords;
use crate::policy::params_of;
use crate::table::{Shaping, plain};

/// Who accepts a failed check, as the certificate names them.
pub const CALLER: &str = "python";

/// A log in memory.
#[pyclass(frozen, module = "guarantor._native")]
pub struct Log {
    pub log: Arc<LocalLog>,
}

/// What is said about a log besides its rows, as the Python half passes it.
#[derive(FromPyObject)]
pub struct About {
    /// The options as JSON.
    options: String,
    /// The parameters of the logging policy as JSON.
    logging_policy: Option<String>,
    /// The certificate that the log is to be compared with, as JSON.
    certificate: Option<String>,
}

/// The same, read.
struct Known {
    options: LogKeywords,
    logging_policy: Option<PolicyParams>,
    certificate: Option<Certificate>,
}

impl About {
    fn read(&self) -> Outcome<Known> {
        Ok(Known {
            options: from_json("options", &self.options)?,
            logging_policy: self.logging_policy.as_deref().map(params_of).transpose()?,
            certificate: self
                .certificate
                .as_deref()
                .map(|text| from_json("certificate", text))
                .transpose()?,
        })
    }
}

impl Known {
    /// The log whose rows were read.
    fn log(self, sink: MemorySink, summary: LogSummary) -> Outcome<Log> {
        let version = self.certificate.map_or(1, |certificate| certificate.dataset.version);
        let log = LocalLog::new(sink, summary, self.logging_policy)?.with_version(version);
        Ok(Log { log: Arc::new(log) })
    }
}

/// The parameters of policies, by id.
pub type PolicyTexts = BTreeMap<String, String>;

/// The policies, read and checked.
pub fn policies_of(texts: &PolicyTexts) -> Outcome<BTreeMap<String, PolicyParams>> {
    texts.iter().map(|(id, text)| Ok((id.clone(), params_of(text)?))).collect()
}

#[pymethods]
impl Log {
    /// Reads files, which are one log.
    #[staticmethod]
    #[pyo3(signature = (paths, about, progress = None))]
    fn from_files(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        about: About,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        attend(py, Wishes { progress, threads: Some(1) }, move |control| read_paths(&paths, &about, control))
    }

    /// Reads a stream of Arrow batches.
    #[staticmethod]
    #[pyo3(signature = (data, about, rename, features, progress = None))]
    fn from_stream(
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        about: About,
        rename: BTreeMap<String, String>,
        features: Vec<String>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let reader = capsule::import(data)?;
        let shaping = Shaping { rename, features };
        attend(py, Wishes { progress, threads: Some(1) }, move |control| {
            read_stream(reader, &shaping, &about, control)
        })
    }

    /// What is known about the log, as `guarantor inspect --json` prints it.
    fn describe(&self, py: Python<'_>) -> PyResult<String> {
        let summary = self.log.summary();
        to_json(&json!({
            "valid": true,
            "rows": summary.rows,
            "contexts": summary.contexts,
            "n_actions": summary.n_actions,
            "dim": summary.dim,
            "outcome": summary.outcome,
            "outcomes": summary.capabilities.outcomes,
            "digest": summary.digest,
            "logging": summary.options.logging,
            "repetitions": summary.options.repetitions,
            "exact_propensities": summary.options.exact_propensities,
            "capabilities": summary.capabilities,
            "health": summary.health,
        }))
        .map_err(|failure| failure.raise(py))
    }

    /// Runs a job, and returns the certificate and the parameters of the learned policy.
    #[pyo3(signature = (spec, policies, max_memory, threads = None, progress = None))]
    fn certify(
        &self,
        py: Python<'_>,
        spec: String,
        policies: PolicyTexts,
        max_memory: u64,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(String, Option<String>)> {
        let (log, wishes) = (self.log.clone(), Wishes { threads, progress });
        let memory = Memory { max_bytes: max_memory, threads: wishes.threads() };
        attend(py, wishes, move |control| {
            let request: SpecRequest = from_json("spec", &spec)?;
            let policies = policies_of(&policies)?;
            let spec = log.resolve(&request, &policies, CALLER)?;
            log.check_fit(&spec, &policies, memory)?;
            let finished = log.run(&spec, &policies, control)?;
            let policy = finished.evidence.policy().map(to_json).transpose()?;
            let certificate = finished.certificate;
            let document = Document { certificate, issued: None, ledger: None, signature: None };
            Ok((to_json(&document)?, policy))
        })
    }

    /// Recomputes a certificate, and compares every field.
    #[pyo3(signature = (certificate, policies, vouched, threads = None, progress = None))]
    fn verify(
        &self,
        py: Python<'_>,
        certificate: String,
        policies: PolicyTexts,
        vouched: bool,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let log = self.log.clone();
        attend(py, Wishes { threads, progress }, move |control| {
            let certificate: Certificate = from_json("certificate", &certificate)?;
            let policies = policies_of(&policies)?;
            let inputs = log.inputs(&policies);
            let finished = guarantor_engine::run(&certificate.spec, &inputs, control)?;
            let wording = if vouched { Wording::Vouched } else { Wording::Compared };
            let checked =
                guarantor_engine::verify(&certificate, wording, &finished.evidence, &inputs, control)?;
            to_json(&checked)
        })
    }
}

fn read_paths(paths: &[PathBuf], about: &About, control: &Control) -> Outcome<Log> {
    control.report(Progress::phase("reading", 0.0));
    let known = about.read()?;
    let format = |path: &PathBuf| {
        let why =
            |message: String| Failure::argument("format", message.replace("add --format", "set format"));
        FileFormat::of_file(path, known.options.format).map_err(why)
    };
    let formats = paths.iter().map(format).collect::<Outcome<Vec<FileFormat>>>()?;
    let description = known.options.description(&formats, known.certificate.as_ref())?;
    let open = |path: &PathBuf| {
        File::open(path).map_err(|error| {
            let message = format!("{}: {error}", path.display());
            Failure::Python(io::Error::new(error.kind(), message).into())
        })
    };
    let files = paths.iter().map(open).collect::<Outcome<Vec<File>>>()?;
    let checker = description.checker(known.logging_policy.clone())?;
    let mut sink = Watching { sink: MemorySink::default(), control };
    let read = read_files(description.formats.into_iter().zip(files).collect(), checker, &mut sink);
    control.check()?;
    let summary = read?;
    known.log(sink.sink, summary)
}

fn read_stream(
    reader: impl RecordBatchReader,
    shaping: &Shaping,
    about: &About,
    control: &Control,
) -> Outcome<Log> {
    control.report(Progress::phase("reading", 0.0));
    let known = about.read()?;
    let format = FileFormat::from(Format::ArrowStream);
    let description = known.options.description(&[format], known.certificate.as_ref())?;
    let hash_dims = description.formats.first().and_then(|format| format.hash_dims);
    let shaped = shaping.schema(&reader.schema());
    let schema = shaped.map_err(|error| Failure::argument("data", plain(error)))?;
    let checker = description.checker(known.logging_policy.clone())?;
    let batches = reader.map(|batch| {
        control.check().map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        shaping.apply(&batch?)
    });
    let mut sink = MemorySink::default();
    let read = read_batches(&schema, batches, hash_dims, checker, &mut sink);
    control.check()?;
    let summary = read?;
    known.log(sink, summary)
}

/// A sink that takes no more rows once the caller has canceled.
struct Watching<'a> {
    sink: MemorySink,
    control: &'a Control<'a>,
}

impl Sink for Watching<'_> {
    fn write(&mut self, layout: &LogLayout, before: &LogDigest, rows: LogRows) -> Result<(), SinkFailed> {
        self.control.check().map_err(|_| SinkFailed)?;
        self.sink.write(layout, before, rows)
    }

    fn is_awaited(&self) -> bool {
        self.control.check().is_ok()
    }

    fn discard(&mut self) {
        self.sink.discard();
    }

    fn finish(&mut self) -> Result<Option<LogDigest>, SinkFailed> {
        self.sink.finish()
    }
}
