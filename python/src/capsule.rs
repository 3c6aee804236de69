//! The Arrow PyCapsule protocol: streams of record batches from and to any library that speaks it, without copies.
//!
//! The C data interface is made of raw pointers whose contents only their producer can vouch for, so this file may use
//! `unsafe`.
#![allow(unsafe_code)]

use std::ffi::CStr;

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_schema::{Schema, ffi::FFI_ArrowSchema};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::{Failure, misuse};

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";

/// The stream of an object that has `__arrow_c_stream__`.
pub fn import(data: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let capsule = data.call_method0("__arrow_c_stream__")?;
    let capsule = capsule
        .cast::<PyCapsule>()
        .map_err(|_| PyTypeError::new_err("__arrow_c_stream__ did not return a PyCapsule"))?;
    let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: the capsule has the name that the protocol reserves for a pointer to an initialized ArrowArrayStream, and
    // it is alive for the whole call. The stream is moved out, so that the capsule releases nothing.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
    if stream.release().is_none() {
        return Err(misuse("the Arrow stream was already consumed; make a new one"));
    }
    let reader = RecordBatchStreamReader::try_new(stream);
    reader.map_err(|error| Failure::argument("data", error).raise(data.py()))
}

/// A capsule with a stream of batches.
pub fn export<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    // The capsule drops the stream if nobody has moved it out.
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// A capsule with a schema.
pub fn export_schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|error| misuse(&error.to_string()))?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}
