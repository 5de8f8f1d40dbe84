//! Errors of the library as exceptions.

use det_post::{Error, ErrorKind};
use pyo3::PyErr;
use pyo3::exceptions::{PyMemoryError, PyOSError, PyRuntimeError, PyValueError};

/// The exception of an error, with its words.
pub fn raised(error: &Error) -> PyErr {
    let message = error.to_string();
    match error.kind() {
        ErrorKind::Io => PyOSError::new_err(message),
        ErrorKind::Memory => PyMemoryError::new_err(message),
        ErrorKind::Device | ErrorKind::DeviceLost | ErrorKind::Inference | ErrorKind::Model => {
            PyRuntimeError::new_err(message)
        }
        _ => PyValueError::new_err(message),
    }
}
