//! Arrays of other libraries, by DLPack: inputs that are borrowed for a call, on the CPU and on
//! GPUs, and outputs that take the memory of a vector along.
//!
//! Nothing is copied or converted. What an operation cannot read is refused with the array's
//! name, what it is and how to convert it.

mod floats;
mod gpu;
mod host;
mod memory;
mod output;

use std::fmt::Display;

use dlpark::DlpackElement;
use dlpark::ffi::{DLDataType, DLDevice, DLDeviceType};
use dlpark::python::{DlpackStream, ImportRequest, ImportedDlpack};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub use self::floats::{FloatType, GpuFloats};
pub use self::gpu::{GpuInput, GpuScope};
pub use self::host::Input;
pub use self::output::Output;
use crate::argument::dtype_name;

/// What an array is, and its memory until it is dropped.
struct Imported {
    name: &'static str,
    tensor: ImportedDlpack,
    shape: Vec<usize>,
    dtype: DLDataType,
}

/// The number of the GPU that an array is on; `None` for the CPU.
///
/// # Errors
/// `TypeError` for an object without `__dlpack__`; `ValueError` for another device.
pub fn gpu_of(name: &str, array: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
    gpu_of_request(name, &request(name, array)?)
}

fn request<'py>(name: &str, array: &Bound<'py, PyAny>) -> PyResult<ImportRequest<'py>> {
    if !array.hasattr(pyo3::intern!(array.py(), "__dlpack__"))? {
        let found = array.get_type().name()?;
        let message =
            format!("{name} is a {found}; an array with __dlpack__ is required, such as numpy's");
        return Err(PyTypeError::new_err(message));
    }
    ImportRequest::new(array.as_borrowed())
}

/// Completes an import. As the array API has it, a library whose `__dlpack__` does not know
/// `max_version`, such as torch before 2.5, is asked again without, for a capsule of the first form. `stream` is the
/// stream of later work, also as the number that libraries take.
fn import(
    request: ImportRequest<'_>,
    array: &Bound<'_, PyAny>,
    stream: Option<(&dyn DlpackStream, usize)>,
) -> PyResult<ImportedDlpack> {
    let py = array.py();
    let copy = stream.map(|_| false);
    let error = match request.import(stream.map(|(consumer, _)| consumer), copy) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => error,
        imported => return imported,
    };
    let options = PyDict::new(py);
    if let Some((_, number)) = stream {
        options.set_item(pyo3::intern!(py, "stream"), number)?;
    }
    let capsule = array.call_method(pyo3::intern!(py, "__dlpack__"), (), Some(&options));
    let capsule = capsule.map_err(|_| error)?;
    ImportRequest::new(capsule.as_borrowed())?.import(None, None)
}

fn gpu_of_request(name: &str, request: &ImportRequest<'_>) -> PyResult<Option<u32>> {
    let DLDevice { device_type, device_id } = request.device()?;
    match device_type {
        // Page-locked memory is host memory.
        DLDeviceType::CPU | DLDeviceType::CUDAHOST => Ok(None),
        DLDeviceType::CUDA => Ok(Some(device_id.unsigned_abs())),
        DLDeviceType(other) => {
            let message = format!("{name} is on a device of type {other} in DLPack's list");
            Err(PyValueError::new_err(message + "; it must be on the CPU or a CUDA GPU"))
        }
    }
}

impl Imported {
    fn new(name: &'static str, tensor: ImportedDlpack) -> PyResult<Self> {
        let invalid =
            |error: dlpark::tensor::Error| PyValueError::new_err(format!("{name}: {error}"));
        let view = tensor.validate().map_err(invalid)?;
        let dtype = view.dtype();
        // Sizes were checked not to be negative.
        let shape = view.shape().iter().map(|&side| side as usize).collect::<Vec<_>>();
        let has_gaps = view.strides().is_some_and(|strides| !are_compact(&shape, strides));
        let array = Self { name, tensor, shape, dtype };
        if has_gaps {
            return Err(PyValueError::new_err(format!(
                "{array} is not contiguous: numpy.ascontiguousarray(…) or .contiguous() makes it so"
            )));
        }
        Ok(array)
    }

    fn num_elements(&self) -> usize {
        self.shape.iter().product()
    }

    fn check_type<T: DlpackElement>(&self) -> PyResult<()> {
        if self.dtype.is::<T>() {
            return Ok(());
        }
        let expected = dtype_name(DLDataType::of::<T>());
        Err(PyTypeError::new_err(format!(
            "{self}: {expected} is required, which .astype(\"{expected}\") or \
             .to(torch.{expected}) makes"
        )))
    }

    fn refuse(&self, reason: &dyn Display) -> PyErr {
        PyValueError::new_err(format!("{self}: {reason}"))
    }
}

/// Whether elements stand row by row without gaps. The strides of sides of 1 are of no matter.
fn are_compact(shape: &[usize], strides: &[i64]) -> bool {
    let mut expected = 1;
    let sides = shape.iter().zip(strides).rev();
    shape.contains(&0)
        || sides.fold(true, |is_compact, (&side, &stride)| {
            let fits = side == 1 || usize::try_from(stride) == Ok(expected);
            expected *= side;
            is_compact && fits
        })
}

impl Display for Imported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is {} {:?}", self.name, dtype_name(self.dtype), self.shape)
    }
}
