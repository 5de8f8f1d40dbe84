//! Arrays of other libraries, by DLPack: inputs that are borrowed for a call, and outputs that
//! take the memory of a vector along.
//!
//! Nothing is copied or converted. What an operation cannot read is refused with the array's
//! name, what it is and how to convert it.

#![expect(unsafe_code, reason = "DLPack is pointers; each block argues for its own")]

use std::fmt::Display;
use std::sync::Arc;

use dlpark::ffi::{DLDataType, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned};
use dlpark::metadata::Dynamic;
use dlpark::python::{DlpackExporter, ExportRequest, ImportedDlpack, export_dlpack, from_dlpack};
use dlpark::{DlpackElement, DlpackFlags, Managed, ManagedTensorBase};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// An array that a caller passes, borrowed for the call.
///
/// The caller must not write to it meanwhile from another thread, as with any function that
/// works without the interpreter's lock.
pub struct Input {
    name: &'static str,
    tensor: ImportedDlpack,
    shape: Vec<usize>,
    dtype: DLDataType,
}

impl Input {
    /// Imports an array on the CPU.
    ///
    /// # Errors
    /// `TypeError` for an object without `__dlpack__`, `ValueError` for an array on another
    /// device or one that is not contiguous.
    pub fn new(name: &'static str, array: &Bound<'_, PyAny>) -> PyResult<Self> {
        if !array.hasattr(pyo3::intern!(array.py(), "__dlpack__"))? {
            let found = array.get_type().name()?;
            let message =
                format!("{name} is a {found}; an array with __dlpack__ is needed, such as numpy's");
            return Err(PyTypeError::new_err(message));
        }
        let tensor = from_dlpack(array.as_borrowed(), None, None)?;
        let invalid =
            |error: dlpark::tensor::Error| PyValueError::new_err(format!("{name}: {error}"));
        let view = tensor.validate().map_err(invalid)?;
        let (device, dtype) = (view.device(), view.dtype());
        // Sizes were checked not to be negative.
        let shape = view.shape().iter().map(|&side| side as usize).collect::<Vec<_>>();
        let is_compact = view.is_compact().map_err(invalid)?;
        let input = Self { name, tensor, shape, dtype };
        if device.device_type != DLDeviceType::CPU {
            return Err(PyValueError::new_err(format!("{input}: it is not on the CPU")));
        }
        if !is_compact && !input.shape.contains(&0) {
            return Err(PyValueError::new_err(format!(
                "{input} is not contiguous: numpy.ascontiguousarray(…) or .contiguous() makes it so"
            )));
        }
        Ok(input)
    }

    /// The sizes of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Whether the elements are of this type.
    pub fn is<T: DlpackElement>(&self) -> bool {
        self.dtype.is::<T>()
    }

    /// All values, row by row.
    ///
    /// # Errors
    /// `TypeError` when the elements are of another type.
    pub fn values<T: DlpackElement>(&self) -> PyResult<&[T]> {
        if !self.is::<T>() {
            let expected = dtype_name(DLDataType::of::<T>());
            return Err(PyTypeError::new_err(format!(
                "{self}: {expected} is needed, which .astype(\"{expected}\") or \
                 .to(torch.{expected}) makes"
            )));
        }
        if self.shape.contains(&0) {
            return Ok(&[]);
        }
        let view = self.tensor.validate().map_err(|error| self.refuse(&error))?;
        // SAFETY: the producer vouches for the memory that the descriptor names, on the CPU,
        // until the tensor is dropped, which `self` holds. Type, alignment and layout are
        // checked by `cpu_slice`. The caller does not write to it during the call.
        unsafe { view.cpu_slice::<T>() }.map_err(|error| self.refuse(&error))
    }

    /// The memory of all values, row by row.
    ///
    /// # Errors
    /// `ValueError` for elements that are not whole bytes.
    pub fn bytes(&self) -> PyResult<&[u8]> {
        if self.shape.contains(&0) {
            return Ok(&[]);
        }
        let view = self.tensor.validate().map_err(|error| self.refuse(&error))?;
        // SAFETY: as in `values`, for elements of any type.
        unsafe { view.cpu_bytes() }.map_err(|error| self.refuse(&error))
    }

    /// The rows of an array `[N, K]`.
    ///
    /// # Errors
    /// `TypeError` for another type, `ValueError` for another shape.
    pub fn rows<T: DlpackElement, const K: usize>(&self) -> PyResult<&[[T; K]]> {
        match *self.shape() {
            [_, columns] if columns == K => Ok(self.values()?.as_chunks().0),
            _ => Err(self.refuse(&format!("[N, {K}] is needed"))),
        }
    }

    /// The values of an array `[N]` of a known length.
    ///
    /// # Errors
    /// `TypeError` for another type, `ValueError` for another shape.
    pub fn vector<T: DlpackElement>(&self, len: usize) -> PyResult<&[T]> {
        match *self.shape() {
            [found] if found == len => self.values(),
            _ => Err(self.refuse(&format!("[{len}] is needed, one per box"))),
        }
    }

    /// The error of an array that does not fit.
    pub fn refuse(&self, reason: &dyn Display) -> PyErr {
        PyValueError::new_err(format!("{self}: {reason}"))
    }
}

impl Display for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is {} {:?}", self.name, dtype_name(self.dtype), self.shape)
    }
}

/// The name of an element type in numpy and torch.
fn dtype_name(dtype: DLDataType) -> String {
    use dlpark::ffi::DLDataTypeCode as Code;
    let kind = match dtype.code {
        Code::INT => "int",
        Code::UINT => "uint",
        Code::FLOAT => "float",
        Code::BFLOAT => "bfloat",
        Code::COMPLEX => "complex",
        Code::BOOL => return "bool".into(),
        code => return format!("type {code:?} of {} bits", dtype.bits),
    };
    format!("{kind}{}", dtype.bits)
}

/// A result: the memory of a vector, which any library takes over by `from_dlpack`.
#[pyclass(frozen, module = "det_post._ops", name = "_Output")]
pub struct Output {
    owner: Arc<dyn Owner>,
    shape: Vec<i64>,
}

/// Elements that an output keeps alive.
trait Owner: Send + Sync {
    fn data(&self) -> *mut std::ffi::c_void;
    fn dtype(&self) -> DLDataType;
}

impl<T: DlpackElement + Send + Sync> Owner for Vec<T> {
    fn data(&self) -> *mut std::ffi::c_void {
        self.as_ptr().cast_mut().cast()
    }

    fn dtype(&self) -> DLDataType {
        DLDataType::of::<T>()
    }
}

impl Output {
    /// An array of the kind of `like` with these values, row by row: of numpy, torch or cupy, of
    /// the array API's namespace that `like` names, else of numpy.
    ///
    /// # Errors
    /// Those of the library's `from_dlpack`.
    pub fn of<'py, T: DlpackElement + Send + Sync>(
        values: Vec<T>,
        shape: &[usize],
        like: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        debug_assert_eq!(values.len(), shape.iter().product::<usize>());
        // Vectors have fewer than `isize::MAX` values.
        let shape = shape.iter().map(|&side| side as i64).collect();
        let output = Bound::new(like.py(), Self { owner: Arc::new(values), shape })?;
        from_dlpack_of(like)?.call1((output,))
    }

    fn export<M: ManagedTensorBase>(&self) -> PyResult<Managed<M>> {
        let owner = Box::new(Arc::clone(&self.owner));
        let tensor = Dynamic::compact(&self.shape[..]).initialize_as::<M>(owner);
        let mut tensor = tensor.map_err(|error| PyValueError::new_err(error.to_string()))?;
        tensor.set_data(self.owner.data()).set_dtype(self.owner.dtype()).set_device(DLDevice::CPU);
        // SAFETY: the tensor holds the vector whose memory it names, of as many elements as the
        // compact shape has and of this type. Nothing in Rust reads or writes the vector any
        // more, so that the consumer may write to it.
        Ok(unsafe { tensor.finish() })
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

/// The function `from_dlpack` of the library that an array comes from.
fn from_dlpack_of<'py>(like: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static NUMPY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static TORCH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static CUPY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = like.py();
    let import = |cell: &'static PyOnceLock<Py<PyAny>>, name| {
        let function = cell.get_or_try_init(py, || {
            PyResult::Ok(py.import(name)?.getattr("from_dlpack")?.unbind())
        })?;
        Ok(function.bind(py).clone())
    };
    let module = like.get_type().module()?;
    let library = module.to_str()?.split('.').next().unwrap_or_default();
    match library {
        "numpy" => import(&NUMPY, "numpy"),
        "torch" => import(&TORCH, "torch"),
        "cupy" => import(&CUPY, "cupy"),
        _ => match like.call_method0(pyo3::intern!(py, "__array_namespace__")) {
            Ok(namespace) => namespace.getattr("from_dlpack"),
            Err(_) => import(&NUMPY, "numpy"),
        },
    }
}
