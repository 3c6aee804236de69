//! The native half of the Python package `guarantor`: the engine and the formats, in process.

use pyo3::prelude::*;

/// The module `guarantor._native`.
#[pymodule]
mod _native {
    use super::*;

    /// Adds the version.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", guarantor_engine::VERSION)
    }
}
