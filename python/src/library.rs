//! The libraries that arrays come from: numpy, torch, cupy and others that speak DLPack.

use std::ops::Range;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PySlice};

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
/// `TypeError` for a library other than torch and cupy; errors of the library.
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
            let empty = || py.import("cupy")?.call_method("empty", (shape,), Some(&options));
            on_the_gpu_of(like, empty)
        }
        other => Err(no_library(other)),
    }
}

/// A copy of an array with elements of another type, by its library, in the order of the library's
/// current stream.
///
/// # Errors
/// `TypeError` for a library other than torch and cupy; errors of the library.
pub fn cast<'py>(array: &Bound<'py, PyAny>, dtype: &str) -> PyResult<Bound<'py, PyAny>> {
    match library_of(array)?.as_str() {
        "torch" => {
            let dtype = array.py().import("torch")?.getattr(dtype)?;
            array.call_method1("to", (dtype,))
        }
        "cupy" => on_the_gpu_of(array, || array.call_method1("astype", (dtype,))),
        other => Err(no_library(other)),
    }
}

/// Copies columns of `from` to columns of `to`, or 0 where `from` is absent, by their library, in
/// the order of the library's current stream. Both have two dimensions.
///
/// # Errors
/// Errors of the library.
pub fn copy_columns(
    to: (&Bound<'_, PyAny>, Range<isize>),
    from: Option<(&Bound<'_, PyAny>, Range<isize>)>,
) -> PyResult<()> {
    let (to, columns) = to;
    let py = to.py();
    let at = |of: Range<isize>| (PySlice::full(py), PySlice::new(py, of.start, of.end, 1));
    let copy = || match from {
        Some((from, of)) => to.set_item(at(columns), from.get_item(at(of))?),
        None => to.set_item(at(columns), 0),
    };
    if library_of(to)? == "cupy" { on_the_gpu_of(to, copy) } else { copy() }
}

/// Row `index` of an array as an array of one row, in its memory; a copy where the row does not
/// begin at a multiple of 16 bytes on a GPU.
///
/// # Errors
/// Errors of the library.
pub fn part<'py>(array: &Bound<'py, PyAny>, index: usize) -> PyResult<Bound<'py, PyAny>> {
    let start = index as isize;
    let row = array.get_item(PySlice::new(array.py(), start, start + 1, 1))?;
    let (address, copy): (usize, _) = match library_of(array)?.as_str() {
        "torch" if row.getattr("is_cuda")?.extract()? => {
            (row.call_method0("data_ptr")?.extract()?, "clone")
        }
        "cupy" => (row.getattr("data")?.getattr("ptr")?.extract()?, "copy"),
        _ => return Ok(row),
    };
    if address.is_multiple_of(16) { Ok(row) } else { row.call_method0(copy) }
}

/// Arrays of one library on a GPU behind each other along the first axis.
///
/// # Errors
/// Errors of the library.
pub fn concatenated<'py>(arrays: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
    let py = arrays[0].py();
    let all = PyList::new(py, arrays)?;
    match library_of(&arrays[0])?.as_str() {
        "torch" => py.import("torch")?.call_method1("cat", (all,)),
        _ => on_the_gpu_of(&arrays[0], || py.import("cupy")?.call_method1("concatenate", (all,))),
    }
}

/// Works with a cupy array on its GPU.
fn on_the_gpu_of<T>(array: &Bound<'_, PyAny>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let gpu = array.getattr("device")?;
    gpu.call_method0("__enter__")?;
    let made = work();
    let none = array.py().None();
    gpu.call_method1("__exit__", (&none, &none, &none))?;
    made
}

fn no_library(found: &str) -> PyErr {
    let message = format!("results on a GPU are arrays of torch or cupy, not of {found}");
    PyTypeError::new_err(message)
}
