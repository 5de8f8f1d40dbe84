//! Tensors in host memory: dense, row-major, shape and element type known.

use std::fmt;
use std::ops::Range;

use half::f16;

use crate::error::{Error, ErrorKind, Result};

/// Element types of the inputs and outputs of networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
    /// 64-bit float.
    F64,
    /// 8-bit signed integer: feature maps of a quantized network.
    I8,
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F64 => "f64",
            Self::I8 => "i8",
        })
    }
}

/// One dimension of a model's input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// This length.
    Fixed(usize),
    /// Known only at run time.
    Dynamic,
}

/// The declaration of an input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name in the model.
    pub name: String,
    /// Element type, if the model states it.
    pub element: Option<ElementType>,
    /// Dimensions, if the model states them.
    pub shape: Option<Vec<Dim>>,
}

impl fmt::Display for TensorSpec {
    /// `name f32 [1, 3, ?, ?]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(element) = self.element {
            write!(f, " {element}")?;
        }
        let Some(shape) = &self.shape else { return f.write_str(" [shape not given]") };
        let dims: Vec<String> = shape
            .iter()
            .map(|dim| match dim {
                Dim::Fixed(n) => n.to_string(),
                Dim::Dynamic => "?".into(),
            })
            .collect();
        write!(f, " [{}]", dims.join(", "))
    }
}

/// The values of a tensor, borrowed.
#[derive(Clone, Copy, Debug)]
pub enum TensorValues<'a> {
    /// 32-bit floats.
    F32(&'a [f32]),
    /// 16-bit floats.
    F16(&'a [f16]),
    /// 32-bit signed integers.
    I32(&'a [i32]),
    /// 64-bit signed integers.
    I64(&'a [i64]),
    /// 64-bit floats.
    F64(&'a [f64]),
    /// 8-bit signed integers.
    I8(&'a [i8]),
}

impl<'a> TensorValues<'a> {
    /// The values of a range; `None` when they are not all there.
    pub fn get(self, range: Range<usize>) -> Option<Self> {
        Some(match self {
            Self::F32(values) => Self::F32(values.get(range)?),
            Self::F16(values) => Self::F16(values.get(range)?),
            Self::I32(values) => Self::I32(values.get(range)?),
            Self::I64(values) => Self::I64(values.get(range)?),
            Self::F64(values) => Self::F64(values.get(range)?),
            Self::I8(values) => Self::I8(values.get(range)?),
        })
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F16(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::I8(values) => values.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Type of the values.
    pub fn element(&self) -> ElementType {
        match self {
            Self::F32(_) => ElementType::F32,
            Self::F16(_) => ElementType::F16,
            Self::I32(_) => ElementType::I32,
            Self::I64(_) => ElementType::I64,
            Self::F64(_) => ElementType::F64,
            Self::I8(_) => ElementType::I8,
        }
    }
}

/// A borrowed tensor; the number of values is the product of the shape.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    shape: &'a [usize],
    values: TensorValues<'a>,
}

impl<'a> TensorView<'a> {
    /// A view of values in row-major order.
    ///
    /// # Errors
    /// `Argument` when the number of values is not the product of the shape.
    pub fn new(shape: &'a [usize], values: TensorValues<'a>) -> Result<Self> {
        let num = shape.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim));
        if num != Some(values.len()) {
            return Err(Error::new(
                ErrorKind::Argument,
                "tensor",
                format!("shape {shape:?} has not the {} values given", values.len()),
            ));
        }
        Ok(Self { shape, values })
    }

    /// Lengths of the dimensions.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// The values in row-major order.
    pub fn values(&self) -> TensorValues<'a> {
        self.values
    }

    /// The lengths of exactly `N` dimensions.
    ///
    /// # Errors
    /// `Argument` when the tensor has another number of dimensions.
    pub fn dims<const N: usize>(&self) -> Result<[usize; N]> {
        self.shape.try_into().map_err(|_| {
            Error::new(
                ErrorKind::Argument,
                "tensor",
                format!("shape {:?} has not {N} dimensions", self.shape),
            )
        })
    }
}

impl Default for TensorView<'_> {
    /// No values.
    fn default() -> Self {
        Self { shape: &[0], values: TensorValues::F32(&[]) }
    }
}

/// A tensor of floats that owns its memory: the input of a network.
#[derive(Clone, Debug, PartialEq)]
pub enum Tensor {
    /// 32-bit floats.
    F32 {
        /// Lengths of the dimensions.
        shape: Vec<usize>,
        /// Values in row-major order.
        values: Vec<f32>,
    },
    /// 16-bit floats.
    F16 {
        /// Lengths of the dimensions.
        shape: Vec<usize>,
        /// Values in row-major order.
        values: Vec<f16>,
    },
}

/// Zeros, where there is memory for them.
fn zeros<T: Copy + Default>(num: usize) -> Result<Vec<T>> {
    // `vec!` takes pages that are zero already, but ends the process where there are none.
    if Vec::<T>::new().try_reserve_exact(num).is_err() {
        let message = format!("{num} values of {} bytes exceed the memory", size_of::<T>());
        return Err(Error::new(ErrorKind::Memory, "tensor", message));
    }
    Ok(vec![T::default(); num])
}

impl Tensor {
    /// A tensor of zeros.
    ///
    /// # Errors
    /// `Argument` for an element type that is not a float, or a shape whose
    /// product overflows; `Memory` where there is not enough.
    pub fn zeros(element: ElementType, shape: &[usize]) -> Result<Self> {
        let num = shape.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim));
        match (element, num) {
            (ElementType::F32, Some(num)) => {
                Ok(Self::F32 { shape: shape.to_vec(), values: zeros(num)? })
            }
            (ElementType::F16, Some(num)) => {
                Ok(Self::F16 { shape: shape.to_vec(), values: zeros(num)? })
            }
            _ => Err(Error::new(
                ErrorKind::Argument,
                "tensor",
                format!("no tensor of {element} {shape:?}: floats of a size that fits only"),
            )),
        }
    }

    /// Lengths of the dimensions.
    pub fn shape(&self) -> &[usize] {
        match self {
            Self::F32 { shape, .. } | Self::F16 { shape, .. } => shape,
        }
    }

    /// Type of the values.
    pub fn element(&self) -> ElementType {
        match self {
            Self::F32 { .. } => ElementType::F32,
            Self::F16 { .. } => ElementType::F16,
        }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.view().values().len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies values of the same type to those from `start` on.
    ///
    /// # Errors
    /// `Argument` for values of another type, or more than there are from `start` on.
    pub fn write_at(&mut self, start: usize, values: TensorValues<'_>) -> Result<()> {
        let (element, num) = (self.element(), self.len());
        let range = start..start.saturating_add(values.len());
        let written = match (self, values) {
            (Self::F32 { values: to, .. }, TensorValues::F32(from)) => {
                to.get_mut(range).map(|to| to.copy_from_slice(from))
            }
            (Self::F16 { values: to, .. }, TensorValues::F16(from)) => {
                to.get_mut(range).map(|to| to.copy_from_slice(from))
            }
            _ => None,
        };
        written.ok_or_else(|| {
            let (len, given) = (values.len(), values.element());
            let message =
                format!("{len} values of {given} at {start} do not fit {num} values of {element}");
            Error::new(ErrorKind::Argument, "tensor", message)
        })
    }

    /// A borrowed view of the whole.
    pub fn view(&self) -> TensorView<'_> {
        match self {
            Self::F32 { shape, values } => TensorView { shape, values: TensorValues::F32(values) },
            Self::F16 { shape, values } => TensorView { shape, values: TensorValues::F16(values) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_must_fit_the_values() {
        let values = [0.0; 6];
        for (shape, fits) in [
            (&[1, 2, 3][..], true),
            (&[6], true),
            (&[7], false),
            (&[usize::MAX, 2], false),
            (&[], false),
        ] {
            assert_eq!(TensorView::new(shape, TensorValues::F32(&values)).is_ok(), fits);
        }
    }

    #[test]
    fn specs_read_like_a_signature() {
        let spec = TensorSpec {
            name: "images".into(),
            element: Some(ElementType::F32),
            shape: Some(vec![Dim::Fixed(1), Dim::Fixed(3), Dim::Dynamic, Dim::Dynamic]),
        };
        assert_eq!(spec.to_string(), "images f32 [1, 3, ?, ?]");
    }

    #[test]
    fn zeros_are_floats_only() {
        assert!(Tensor::zeros(ElementType::I64, &[1]).is_err());
        let error = Tensor::zeros(ElementType::F32, &[1 << 20, 1 << 40]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory);
        assert!(error.message().starts_with("1152921504606846976 values of 4 bytes exceed"));
        assert_eq!(Tensor::zeros(ElementType::F16, &[2, 3]).unwrap().view().values().len(), 6);
    }
}
