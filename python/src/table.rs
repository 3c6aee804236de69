//! A table in memory: arrays of numpy, a simulated log, or the columns of a data frame under the names that a log has.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, Float64Array, RecordBatch, RecordBatchIterator, RecordBatchReader,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::capsule;
use crate::errors::{Failure, misuse};
use crate::numpy::Column;

/// Rows in memory, which any library that speaks the Arrow PyCapsule protocol can read.
#[pyclass(frozen, module = "guarantor._native")]
pub struct Table {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
}

#[pymethods]
impl Table {
    /// The table of these arrays, which it shares.
    #[staticmethod]
    fn from_columns(columns: Vec<Column<'_>>) -> PyResult<Self> {
        let columns = columns.iter().map(Column::array).collect::<PyResult<Vec<_>>>()?;
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(schema.clone(), arrays);
        let batch = batch.map_err(|error| misuse(&error.to_string()))?;
        Ok(Table { schema, batches: vec![batch] })
    }

    /// The rows of a data frame, under other names.
    #[staticmethod]
    fn from_stream(
        data: &Bound<'_, PyAny>,
        rename: BTreeMap<String, String>,
        features: Vec<String>,
    ) -> PyResult<Self> {
        let (reader, shaping) = (capsule::import(data)?, Shaping { rename, features });
        let failed = |error: ArrowError| Failure::argument("data", plain(error)).raise(data.py());
        let schema = shaping.schema(&reader.schema()).map_err(failed)?;
        let batches = reader.map(|batch| shaping.apply(&batch?)).collect::<Result<_, _>>();
        Ok(Table { schema, batches: batches.map_err(failed)? })
    }

    /// The same rows with more columns, which share the memory of their arrays.
    fn with_columns(&self, columns: Vec<Column<'_>>) -> PyResult<Self> {
        let columns = columns.iter().map(Column::array).collect::<PyResult<Vec<_>>>()?;
        let wrong = |error: ArrowError| misuse(&plain(error));
        let own = self.schema.fields().iter().map(|field| field.as_ref().clone());
        let schema =
            Arc::new(Schema::new(own.chain(columns.iter().map(|(f, _)| f.clone())).collect::<Vec<_>>()));
        let rows = self.__len__();
        if columns.iter().any(|(_, array)| array.len() != rows) {
            return Err(misuse("a column has another number of rows than the table"));
        }
        let mut first = 0;
        let mut batches = Vec::with_capacity(self.batches.len());
        for batch in &self.batches {
            let added = columns.iter().map(|(_, array)| array.slice(first, batch.num_rows()));
            let arrays = batch.columns().iter().cloned().chain(added).collect();
            batches.push(RecordBatch::try_new(schema.clone(), arrays).map_err(wrong)?);
            first += batch.num_rows();
        }
        Ok(Table { schema, batches })
    }

    /// The Arrow PyCapsule protocol.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A producer may ignore a request that it cannot meet.
        drop(requested_schema);
        let batches: Vec<Result<RecordBatch, ArrowError>> = self.batches.iter().cloned().map(Ok).collect();
        capsule::export(py, Box::new(RecordBatchIterator::new(batches, self.schema.clone())))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::export_schema(py, &self.schema)
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }
}

/// How the columns of a data frame become those of a log.
#[derive(Debug, Clone, Default)]
pub struct Shaping {
    /// The field of a log that each of these columns is.
    pub rename: BTreeMap<String, String>,
    /// The columns that are, in this order, the numbers of `x`.
    pub features: Vec<String>,
}

impl Shaping {
    /// The schema of shaped batches.
    pub fn schema(&self, schema: &SchemaRef) -> Result<SchemaRef, ArrowError> {
        for name in self.rename.keys().chain(&self.features) {
            if schema.field_with_name(name).is_err() {
                return Err(ArrowError::SchemaError(format!("there is no column {name:?}")));
            }
        }
        let empty = RecordBatch::new_empty(schema.clone());
        Ok(self.apply(&empty)?.schema())
    }

    /// A batch with the columns of a log.
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        if self.rename.is_empty() && self.features.is_empty() {
            return Ok(batch.clone());
        }
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let name = field.name();
            if self.features.contains(name) && !self.rename.contains_key(name) {
                continue;
            }
            let name = self.rename.get(name).unwrap_or(name);
            fields.push(field.as_ref().clone().with_name(name));
            arrays.push(array.clone());
        }
        if !self.features.is_empty() {
            let x = self.features_of(batch)?;
            fields.push(Field::new("x", x.data_type().clone(), false));
            arrays.push(x);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
    }

    fn features_of(&self, batch: &RecordBatch) -> Result<ArrayRef, ArrowError> {
        let (n, p) = (batch.num_rows(), self.features.len());
        let mut x = vec![0.0; n * p];
        for (j, name) in self.features.iter().enumerate() {
            let column = batch.column_by_name(name);
            let column =
                column.ok_or_else(|| ArrowError::SchemaError(format!("there is no column {name:?}")))?;
            let numbers = numbers_of(column).ok_or_else(|| {
                ArrowError::SchemaError(format!(
                    "the feature {name:?} has the type {}; encode it as numbers",
                    column.data_type()
                ))
            })?;
            numbers.into_iter().enumerate().for_each(|(i, value)| x[i * p + j] = value);
        }
        let item = Arc::new(Field::new("item", DataType::Float64, false));
        let values = Arc::new(Float64Array::from(x));
        let list = FixedSizeListArray::try_new_with_length(item, p as i32, values, None, n)?;
        Ok(Arc::new(list))
    }
}

/// What is wrong with the columns, without the words that the library puts before it.
pub fn plain(error: ArrowError) -> String {
    match error {
        ArrowError::SchemaError(message) | ArrowError::InvalidArgumentError(message) => message,
        other => other.to_string(),
    }
}

/// A column as numbers. A missing value is NaN, which the checks of a log reject with the number of its row.
fn numbers_of(column: &ArrayRef) -> Option<Vec<f64>> {
    fn of<T: ArrowPrimitiveType>(column: &ArrayRef, widen: impl Fn(T::Native) -> f64) -> Vec<f64> {
        column.as_primitive::<T>().iter().map(|value| value.map_or(f64::NAN, &widen)).collect()
    }
    Some(match column.data_type() {
        DataType::Float64 => of::<Float64Type>(column, |v| v),
        DataType::Float32 => of::<Float32Type>(column, f64::from),
        DataType::Int8 => of::<Int8Type>(column, f64::from),
        DataType::Int16 => of::<Int16Type>(column, f64::from),
        DataType::Int32 => of::<Int32Type>(column, f64::from),
        DataType::Int64 => of::<Int64Type>(column, |v| v as f64),
        DataType::UInt8 => of::<UInt8Type>(column, f64::from),
        DataType::UInt16 => of::<UInt16Type>(column, f64::from),
        DataType::UInt32 => of::<UInt32Type>(column, f64::from),
        DataType::UInt64 => of::<UInt64Type>(column, |v| v as f64),
        DataType::Boolean => column
            .as_boolean()
            .iter()
            .map(|value| value.map_or(f64::NAN, |v| f64::from(u8::from(v))))
            .collect(),
        _ => return None,
    })
}
