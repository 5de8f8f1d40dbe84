//! Results on the CPU.

use std::sync::Arc;

use dlpark::ffi::{DLDevice, DLManagedTensor, DLManagedTensorVersioned};
use dlpark::python::{DlpackExporter, ExportRequest, export_dlpack};
use dlpark::{DlpackElement, DlpackFlags, Managed, ManagedTensorBase};
use pyo3::prelude::*;

use super::memory::{Owner, exported};
use crate::library::from_dlpack_of;

/// A result: the memory of a vector, which any library takes over by `from_dlpack`.
#[pyclass(frozen, module = "det_post._ops", name = "_Output")]
pub struct Output {
    owner: Arc<dyn Owner>,
    shape: Vec<i64>,
}

impl Output {
    /// An array of the kind of `like` with these values, row by row: of numpy, torch or cupy, of
    /// the array API's namespace that `like` names, else of numpy.
    ///
    /// # Errors
    /// Returns the errors of the library's `from_dlpack`.
    pub fn of<'py, T: DlpackElement + Send + Sync>(
        values: Vec<T>,
        shape: &[usize],
        like: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::by(values, shape, &from_dlpack_of(like)?)
    }

    /// An array of the library of a function `from_dlpack` ([`from_dlpack_of`]).
    ///
    /// # Errors
    /// Returns the errors of that function.
    pub fn by<'py, T: DlpackElement + Send + Sync>(
        values: Vec<T>,
        shape: &[usize],
        from_dlpack: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        debug_assert_eq!(values.len(), shape.iter().product::<usize>());
        // Vectors have fewer than `isize::MAX` values.
        let shape = shape.iter().map(|&side| side as i64).collect();
        let output = Bound::new(from_dlpack.py(), Self { owner: Arc::new(values), shape })?;
        from_dlpack.call1((output,))
    }

    fn export<M: ManagedTensorBase>(&self) -> PyResult<Managed<M>> {
        exported(&self.owner, &self.shape)
    }
}

impl DlpackExporter for Output {
    fn device(&self) -> DLDevice {
        DLDevice::CPU
    }

    fn flags(&self) -> DlpackFlags {
        DlpackFlags::empty()
    }

    fn prepare_export(&self, _: Python<'_>, _: &ExportRequest<'_>) -> PyResult<()> {
        Ok(())
    }

    fn export_legacy(&self, _: Python<'_>) -> PyResult<Managed<DLManagedTensor>> {
        self.export()
    }

    fn export_versioned(&self, _: Python<'_>) -> PyResult<Managed<DLManagedTensorVersioned>> {
        self.export()
    }
}

#[pymethods]
impl Output {
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(u32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        export_dlpack(self, py, ExportRequest::parse(stream, max_version, dl_device, copy)?)
    }

    fn __dlpack_device__(&self) -> (u32, i32) {
        (DLDevice::CPU.device_type.0, DLDevice::CPU.device_id)
    }
}
