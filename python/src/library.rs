//! The libraries that arrays come from: numpy, torch, cupy and others that speak DLPack.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// The function `from_dlpack` of the library that an array comes from.
///
/// # Errors
/// Returns the errors of importing the library.
pub fn from_dlpack_of<'py>(like: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
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
    match library_of(like)?.as_str() {
        "numpy" => import(&NUMPY, "numpy"),
        "torch" => import(&TORCH, "torch"),
        "cupy" => import(&CUPY, "cupy"),
        _ => match like.call_method0(pyo3::intern!(py, "__array_namespace__")) {
            Ok(namespace) => namespace.getattr("from_dlpack"),
            Err(_) => import(&NUMPY, "numpy"),
        },
    }
}

/// The library that an array comes from: of its type or, as for a tensor of torchvision, of the
/// type that it derives from. The package of its type when that is none of the known ones.
fn library_of(array: &Bound<'_, PyAny>) -> PyResult<String> {
    let package = |of: &Bound<'_, PyAny>| -> PyResult<String> {
        let module: String = of.getattr(pyo3::intern!(of.py(), "__module__"))?.extract()?;
        Ok(module.split('.').next().unwrap_or_default().to_owned())
    };
    for base in array.get_type().mro() {
        let package = package(&base)?;
        if ["numpy", "torch", "cupy"].contains(&package.as_str()) {
            return Ok(package);
        }
    }
    package(array.get_type().as_any())
}

/// A new array on the GPU of `like`, by its library: its memory is that of the library's
/// allocator, in the order of the library's current stream.
///
/// # Errors
/// `TypeError` for a library other than torch and cupy; those of the library.
pub fn empty_like<'py>(
    like: &Bound<'py, PyAny>,
    shape: &[usize],
    dtype: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let py = like.py();
    let options = PyDict::new(py);
    match library_of(like)?.as_str() {
        "torch" => {
            options.set_item("dtype", py.import("torch")?.getattr(dtype)?)?;
            like.call_method("new_empty", (shape,), Some(&options))
        }
        "cupy" => {
            options.set_item("dtype", dtype)?;
            let gpu = like.getattr("device")?;
            gpu.call_method0("__enter__")?;
            let made = py.import("cupy")?.call_method("empty", (shape,), Some(&options));
            gpu.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
            made
        }
        other => {
            let message = format!("results on a GPU are arrays of torch or cupy, not of {other}");
            Err(PyTypeError::new_err(message))
        }
    }
}
