//! A data frame as the bytes of an Arrow IPC stream, chunk by chunk, for uploads.

use std::mem;
use std::sync::{Mutex, PoisonError};

use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::capsule;
use crate::errors::{Failure, misuse};
use crate::table::plain;

/// The most rows of a chunk, so that a frame in one piece is not encoded as a whole.
const ROWS: usize = 65_536;

/// The bytes of a stream, which are made while they are read.
#[pyclass(frozen, module = "guarantor._native")]
pub struct IpcStream(Mutex<Encoder>);

/// The Arrow IPC stream of an object that has `__arrow_c_stream__`.
#[pyfunction]
pub fn ipc_stream(data: &Bound<'_, PyAny>) -> PyResult<IpcStream> {
    let reader = capsule::import(data)?;
    let writer = StreamWriter::try_new(Vec::new(), &reader.schema());
    let writer = Some(writer.map_err(|error| misuse(&plain(error)))?);
    Ok(IpcStream(Mutex::new(Encoder { reader, writer, rest: None })))
}

#[pymethods]
impl IpcStream {
    fn __iter__(stream: PyRef<'_, Self>) -> PyRef<'_, Self> {
        stream
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        // The producer may need the interpreter, and other threads run while rows are encoded.
        let chunk = py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).chunk());
        let chunk = chunk.map_err(|error| Failure::argument("data", plain(error)).raise(py))?;
        Ok(chunk.map(|bytes| PyBytes::new(py, &bytes)))
    }
}

struct Encoder {
    reader: RecordBatchStreamReader,
    /// None once the stream has ended.
    writer: Option<StreamWriter<Vec<u8>>>,
    /// The rows of the last batch that are not yet encoded.
    rest: Option<RecordBatch>,
}

impl Encoder {
    fn chunk(&mut self) -> Result<Option<Vec<u8>>, ArrowError> {
        let Some(writer) = &mut self.writer else { return Ok(None) };
        let batch = self.rest.take().map(Ok).or_else(|| self.reader.next()).transpose()?;
        let Some(batch) = batch else {
            writer.finish()?;
            let last = mem::take(writer.get_mut());
            self.writer = None;
            return Ok(Some(last));
        };
        let rows = batch.num_rows().min(ROWS);
        writer.write(&batch.slice(0, rows))?;
        self.rest = (rows < batch.num_rows()).then(|| batch.slice(rows, batch.num_rows() - rows));
        Ok(Some(mem::take(writer.get_mut())))
    }
}
