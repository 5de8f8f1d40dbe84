//! Arrays on the CPU.

use std::fmt::Display;

use det_post_types::{TensorValues, TensorView};
use dlpark::DlpackElement;
use half::f16;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::{Imported, gpu_of_request, import, request};

/// An array on the CPU that a caller passes, borrowed for the call.
///
/// The caller must not write to it meanwhile from another thread, as with any function that
/// works without the interpreter's lock.
pub struct Input(Imported);

impl Input {
    /// Imports an array on the CPU.
    ///
    /// # Errors
    /// `TypeError` for an object without `__dlpack__`, `ValueError` for an array on another
    /// device or one that is not contiguous.
    pub fn new(name: &'static str, array: &Bound<'_, PyAny>) -> PyResult<Self> {
        let request = request(name, array)?;
        if let Some(gpu) = gpu_of_request(name, &request)? {
            let message = format!("{name} is on cuda:{gpu}; an array on the CPU is required here");
            return Err(PyValueError::new_err(message));
        }
        Imported::new(name, import(request, array, None)?).map(Self)
    }

    /// The sizes of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// Whether the elements are of this type.
    pub fn is<T: DlpackElement>(&self) -> bool {
        self.0.dtype.is::<T>()
    }

    /// All values, row by row.
    ///
    /// # Errors
    /// `TypeError` when the elements are of another type.
    pub fn values<T: DlpackElement>(&self) -> PyResult<&[T]> {
        self.0.host_values()
    }

    /// The memory of all values, row by row.
    ///
    /// # Errors
    /// `ValueError` for elements that are not whole bytes.
    pub fn bytes(&self) -> PyResult<&[u8]> {
        self.0.host_bytes()
    }

    /// The array as the output of a network.
    ///
    /// # Errors
    /// `TypeError` for elements that no network gives.
    pub fn tensor(&self) -> PyResult<TensorView<'_>> {
        let values = match () {
            () if self.is::<f16>() => TensorValues::F16(self.values()?),
            () if self.is::<i8>() => TensorValues::I8(self.values()?),
            () if self.is::<i32>() => TensorValues::I32(self.values()?),
            () if self.is::<i64>() => TensorValues::I64(self.values()?),
            () if self.is::<f64>() => TensorValues::F64(self.values()?),
            () => TensorValues::F32(self.values()?),
        };
        TensorView::new(self.shape(), values).map_err(|error| self.refuse(&error))
    }

    /// The rows of an array `[N, K]`.
    ///
    /// # Errors
    /// `TypeError` for another type, `ValueError` for another shape.
    pub fn rows<T: DlpackElement, const K: usize>(&self) -> PyResult<&[[T; K]]> {
        match *self.shape() {
            [_, columns] if columns == K => Ok(self.values()?.as_chunks().0),
            _ => Err(self.refuse(&format!("[N, {K}] is required"))),
        }
    }

    /// The values of an array `[N]` of a known length.
    ///
    /// # Errors
    /// `TypeError` for another type, `ValueError` for another shape.
    pub fn vector<T: DlpackElement>(&self, len: usize) -> PyResult<&[T]> {
        match *self.shape() {
            [found] if found == len => self.values(),
            _ => Err(self.refuse(&format!("[{len}] is required, one per box"))),
        }
    }

    /// The error of an array that does not fit.
    pub fn refuse(&self, reason: &dyn Display) -> PyErr {
        self.0.refuse(reason)
    }
}
