//! Floats of 32 and 16 bits, which operations read as float32.

use std::borrow::Cow;

use dlpark::DlpackElement;
use half::{bf16, f16};
use pyo3::prelude::*;

use super::{GpuInput, Input, Output};
use crate::library::cast;
use det_post_ops::device::cuda::Stream;

/// The type of the floats of an array.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FloatType {
    /// float32.
    F32,
    /// float16.
    F16,
    /// bfloat16.
    Bf16,
}

impl FloatType {
    /// The name in numpy and torch.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
        }
    }

    /// The type for which `is` holds; float32 if it does for neither of 16 bits.
    fn of(is_f16: bool, is_bf16: bool) -> Self {
        match (is_f16, is_bf16) {
            (true, _) => Self::F16,
            (_, true) => Self::Bf16,
            _ => Self::F32,
        }
    }
}

impl Input {
    /// All values, row by row, and their type.
    ///
    /// # Errors
    /// `TypeError` when the elements are no float32, float16 or bfloat16.
    pub fn floats(&self) -> PyResult<(FloatType, Cow<'_, [f32]>)> {
        let of = FloatType::of(self.is::<f16>(), self.is::<bf16>());
        let values = match of {
            FloatType::F32 => Cow::Borrowed(self.values::<f32>()?),
            FloatType::F16 => self.values::<f16>()?.iter().map(|value| value.to_f32()).collect(),
            FloatType::Bf16 => self.values::<bf16>()?.iter().map(|value| value.to_f32()).collect(),
        };
        Ok((of, values))
    }
}

impl Output {
    /// As [`Output::of`], with values rounded to nearest even.
    ///
    /// # Errors
    /// As [`Output::of`].
    pub fn of_floats<'py>(
        values: Vec<f32>,
        to: FloatType,
        shape: &[usize],
        like: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        fn rounded<T: DlpackElement>(values: Vec<f32>, round: fn(f32) -> T) -> Vec<T> {
            values.into_iter().map(round).collect()
        }
        match to {
            FloatType::F32 => Self::of(values, shape, like),
            FloatType::F16 => Self::of(rounded(values, f16::from_f32), shape, like),
            FloatType::Bf16 => Self::of(rounded(values, bf16::from_f32), shape, like),
        }
    }
}

/// Floats on a GPU as float32: floats of 16 bits are widened by their library.
pub struct GpuFloats {
    /// The array of float32.
    pub array: GpuInput,
    /// What the caller gave.
    pub of: FloatType,
}

impl GpuFloats {
    /// As [`GpuInput::new`].
    ///
    /// # Errors
    /// As [`GpuInput::new`]; errors of the library. Elements of another type are refused where they
    /// are read.
    pub fn new(name: &'static str, array: &Bound<'_, PyAny>, stream: &Stream) -> PyResult<Self> {
        let given = GpuInput::new(name, array, stream)?;
        let of = FloatType::of(given.is::<f16>(), given.is::<bf16>());
        if of == FloatType::F32 {
            return Ok(Self { array: given, of });
        }
        let wide = cast(array, FloatType::F32.name())?;
        Ok(Self { array: GpuInput::new(name, &wide, stream)?, of })
    }
}
