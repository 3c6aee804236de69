//! Arrays of numpy as Arrow columns. They share the arrays' memory, through Python's buffer protocol.
//!
//! An Arrow buffer over foreign memory is made from a raw pointer, so this file may use `unsafe`.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, FixedSizeListArray, PrimitiveArray, StringArray};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::Field;
use pyo3::buffer::{ElementType, PyUntypedBuffer};
use pyo3::prelude::*;

use crate::errors::{Failure, misuse};

/// One column: its name, what it is (`number`, `time`, `bool` or `text`) and its values. Numbers are arrays of one or two
/// dimensions, which must be contiguous in memory, in the order of C; times are microseconds since 1970.
#[derive(FromPyObject)]
pub struct Column<'py> {
    name: String,
    what: String,
    values: Bound<'py, PyAny>,
}

impl Column<'_> {
    /// The field and the Arrow array.
    pub fn array(&self) -> PyResult<(Field, ArrayRef)> {
        let array: ArrayRef = match self.what.as_str() {
            "number" => self.numbers()?,
            "time" => {
                let buffer = Arc::new(PyUntypedBuffer::get(&self.values)?);
                let times = shared::<TimestampMicrosecondType>(&buffer).map_err(|why| self.wrong(why))?;
                Arc::new(PrimitiveArray::<TimestampMicrosecondType>::new(times, None).with_timezone("UTC"))
            }
            "bool" => Arc::new(BooleanArray::from(self.values.extract::<Vec<bool>>()?)),
            "text" => Arc::new(StringArray::from(self.values.extract::<Vec<Option<String>>>()?)),
            _ => return Err(misuse("a column is a number, time, bool or text")),
        };
        Ok((Field::new(&self.name, array.data_type().clone(), true), array))
    }

    fn numbers(&self) -> PyResult<ArrayRef> {
        let buffer = Arc::new(PyUntypedBuffer::get(&self.values)?);
        let numbers = flat(&buffer).map_err(|why| self.wrong(why))?;
        match buffer.shape() {
            [_] => Ok(numbers),
            [rows, width] => {
                let item = Arc::new(Field::new("item", numbers.data_type().clone(), false));
                let width = i32::try_from(*width).map_err(|_| misuse("too many numbers in a row"))?;
                let list = FixedSizeListArray::try_new_with_length(item, width, numbers, None, *rows);
                Ok(Arc::new(list.map_err(|error| misuse(&error.to_string()))?))
            }
            _ => Err(self.wrong("must have one or two dimensions".into())),
        }
    }

    fn wrong(&self, why: String) -> PyErr {
        Failure::argument(&self.name, why).raise(self.values.py())
    }
}

/// All numbers of a buffer, in the order of C.
fn flat(buffer: &Arc<PyUntypedBuffer>) -> Result<ArrayRef, String> {
    fn of<T: ArrowPrimitiveType>(buffer: &Arc<PyUntypedBuffer>) -> Result<ArrayRef, String> {
        Ok(Arc::new(PrimitiveArray::<T>::new(shared::<T>(buffer)?, None)))
    }
    use ElementType::{Float, SignedInteger, UnsignedInteger};
    match element_of(buffer) {
        Float { bytes: 4 } => of::<Float32Type>(buffer),
        Float { bytes: 8 } => of::<Float64Type>(buffer),
        SignedInteger { bytes: 1 } => of::<Int8Type>(buffer),
        SignedInteger { bytes: 2 } => of::<Int16Type>(buffer),
        SignedInteger { bytes: 4 } => of::<Int32Type>(buffer),
        SignedInteger { bytes: 8 } => of::<Int64Type>(buffer),
        UnsignedInteger { bytes: 1 } => of::<UInt8Type>(buffer),
        UnsignedInteger { bytes: 2 } => of::<UInt16Type>(buffer),
        UnsignedInteger { bytes: 4 } => of::<UInt32Type>(buffer),
        UnsignedInteger { bytes: 8 } => of::<UInt64Type>(buffer),
        _ => Err("must be an array of integers or floats in the byte order of the machine".into()),
    }
}

/// What a buffer consists of, if its bytes are in the order of the machine.
fn element_of(buffer: &PyUntypedBuffer) -> ElementType {
    let foreign: &[u8] = if cfg!(target_endian = "little") { b">!" } else { b"<" };
    match buffer.format().to_bytes().first() {
        Some(order) if foreign.contains(order) => ElementType::Unknown,
        _ => ElementType::from_format(buffer.format()),
    }
}

/// The numbers of a buffer, whose memory they share. The caller has checked what they are.
fn shared<T: ArrowPrimitiveType>(buffer: &Arc<PyUntypedBuffer>) -> Result<ScalarBuffer<T::Native>, String> {
    if buffer.item_size() != size_of::<T::Native>() || !buffer.is_c_contiguous() {
        return Err("must be contiguous in memory, in the order of C".into());
    }
    let (count, bytes) = (buffer.item_count(), buffer.len_bytes());
    let Some(start) = NonNull::new(buffer.buf_ptr().cast::<u8>()).filter(|_| count > 0) else {
        return Ok(ScalarBuffer::from(Vec::<T::Native>::new()));
    };
    if !start.as_ptr().cast::<T::Native>().is_aligned() {
        return Err("must be aligned in memory; copy the array".into());
    }
    // SAFETY: `start` is the memory of a contiguous buffer of `bytes` bytes, which the view in `Owner` keeps where it is:
    // an exporter must not move or free memory while a view exists. Python code could write to it meanwhile, as to every
    // array that a library reads without the interpreter lock; the documentation says not to.
    let memory = unsafe { Buffer::from_custom_allocation(start, bytes, Arc::new(Owner(buffer.clone()))) };
    Ok(ScalarBuffer::new(memory, 0, count))
}

/// Keeps the memory of a Python object in place.
struct Owner(#[expect(dead_code, reason = "held for its Drop")] Arc<PyUntypedBuffer>);

// A panic cannot leave the memory of another library half-changed: nothing here writes to it.
impl std::panic::RefUnwindSafe for Owner {}
