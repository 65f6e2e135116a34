//! Arrow's C stream in capsules, which is how rows pass between libraries without a copy.

use std::ffi::CStr;

use arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use crate::client::Reader;
use crate::failure::Failure;
use crate::python::raised;

/// The name of capsules that hold streams, as Arrow's interface has it.
const STREAM: &CStr = c"arrow_array_stream";
/// The method that gives them.
const METHOD: &str = "__arrow_c_stream__";

/// The rows of an object of pandas, polars, pyarrow or another library of Arrow's.
#[allow(
    unsafe_code,
    reason = "a capsule holds a pointer, whose type is a name"
)]
pub fn reader_of(object: &Bound<'_, PyAny>) -> PyResult<Reader> {
    if !object.hasattr(METHOD)? {
        let kind = object.get_type().name()?.to_string();
        return Err(PyTypeError::new_err(format!(
            "{kind} gives no rows: an object with {METHOD} is needed, as those of pyarrow, polars and pandas 2.2"
        )));
    }
    let capsule = object.call_method0(METHOD)?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(STREAM))?;
    // SAFETY: a capsule of this name, which was just checked, holds a stream of Arrow's C interface (its
    // producer says so by the name). The stream is moved out, and what is left is released already, so that
    // the capsule's own release does nothing.
    let reader = unsafe { ArrowArrayStreamReader::from_raw(stream.cast().as_ptr()) };
    let reader = reader.map_err(|error| raised(Failure::Arrow(error)))?;
    Ok(Box::new(reader))
}

/// A capsule with the rows of `reader`, of which nobody has read any.
pub fn capsule_of<'py>(py: Python<'py>, reader: Reader) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}
