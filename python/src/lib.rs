//! The native half of the Python package `guarantor`: the engine and the formats, in process.
//!
//! Arguments and results cross the boundary as JSON, tables as Arrow streams, and arrays as buffers. Everything that takes
//! time runs in `attend`, without the interpreter lock. `guarantor/_local.py` and its neighbors are what users see.

mod attend;
mod capsule;
mod certificate;
mod errors;
mod ipc;
mod log;
mod numpy;
mod options;
mod partial;
mod policy;
mod simulate;
mod table;

use pyo3::prelude::*;

/// The module `guarantor._native`.
#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use super::certificate::{examine, plan};
    #[pymodule_export]
    use super::ipc::{IpcStream, ipc_stream};
    #[pymodule_export]
    use super::log::Log;
    #[pymodule_export]
    use super::partial::{columns_read, freeze, merge, partial, partial_file};
    #[pymodule_export]
    use super::policy::Policy;
    #[pymodule_export]
    use super::simulate::simulate;
    #[pymodule_export]
    use super::table::Table;

    /// Adds the version.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", guarantor_engine::VERSION)
    }

    /// Panics where work is done, for the test that a panic becomes an exception.
    #[pyfunction]
    fn panic_for_test(py: Python<'_>) -> PyResult<()> {
        crate::attend::attend(py, crate::attend::Wishes::default(), |_| panic!("on purpose"))
    }
}
