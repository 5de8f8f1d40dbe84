//! Columns of results that were computed on the CPU.

use det_post_ops::device::cuda::{Plain, Stream};
use dlpark::DlpackElement;
use pyo3::prelude::*;

use crate::array::{GpuInput, GpuScope, Output};
use crate::error::raised;
use crate::library::empty_like;

type Array<'py> = Bound<'py, PyAny>;

/// The values of a column.
pub enum Column {
    /// Floats.
    F32(Vec<f32>),
    /// Integers.
    I64(Vec<i64>),
    /// Bytes.
    U8(Vec<u8>),
}

impl Column {
    /// An array in host memory with these values.
    ///
    /// # Errors
    /// As [`Output::of`].
    pub fn on_host<'py>(self, shape: &[usize], like: &Array<'py>) -> PyResult<Array<'py>> {
        match self {
            Self::F32(values) => Output::of(values, shape, like),
            Self::I64(values) => Output::of(values, shape, like),
            Self::U8(values) => Output::of(values, shape, like),
        }
    }

    /// A copy on the GPU of a stream and of `like`, complete when this returns.
    ///
    /// # Errors
    /// As [`empty_like`]; those of the copy.
    pub fn on_gpu<'py>(
        self,
        shape: &[usize],
        (like, stream): (&Array<'py>, &Stream),
    ) -> PyResult<Array<'py>> {
        match self {
            Self::F32(values) => {
                let array = empty_like(like, shape, "float32")?;
                write::<f32, f32>(&array, &values, stream)?;
                Ok(array)
            }
            Self::I64(values) => {
                let array = empty_like(like, shape, "int64")?;
                let bits: Vec<u64> = values.into_iter().map(i64::cast_unsigned).collect();
                write::<i64, u64>(&array, &bits, stream)?;
                Ok(array)
            }
            Self::U8(values) => {
                let array = empty_like(like, shape, "uint8")?;
                write::<u8, u8>(&array, &values, stream)?;
                Ok(array)
            }
        }
    }
}

/// Writes values to an array of elements `T` with the bits of `B`.
fn write<T: DlpackElement, B: Plain>(
    array: &Array<'_>,
    values: &[B],
    stream: &Stream,
) -> PyResult<()> {
    let mut out = GpuInput::new("result", array, stream)?;
    GpuScope::run(stream, |scope| {
        out.buffer::<T, B>(scope)?.write(values).map_err(|error| raised(&error))
    })
}
