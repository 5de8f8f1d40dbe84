//! Tensors in device memory.

use half::f16;

use super::{DeviceBuffer, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{ElementType, Tensor};

/// A tensor of floats in device memory: dense, row-major.
#[derive(Debug)]
pub struct DeviceTensor {
    shape: Vec<usize>,
    values: DeviceValues,
}

/// The values of a [`DeviceTensor`].
#[derive(Debug)]
pub enum DeviceValues {
    /// 32-bit floats.
    F32(DeviceBuffer<f32>),
    /// 16-bit floats.
    F16(DeviceBuffer<f16>),
}

impl DeviceTensor {
    /// A tensor of zeros.
    ///
    /// # Errors
    /// `Argument` for an element type that is not a float or a shape whose
    /// product overflows; `Device` when there is not enough memory.
    pub fn zeros(stream: &Stream, element: ElementType, shape: &[usize]) -> Result<Self> {
        let num = shape.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim));
        let values = match (element, num) {
            (ElementType::F32, Some(num)) => DeviceValues::F32(DeviceBuffer::zeros(stream, num)?),
            (ElementType::F16, Some(num)) => DeviceValues::F16(DeviceBuffer::zeros(stream, num)?),
            _ => {
                let message = format!("no device tensor of {element} {shape:?}");
                return Err(Error::new(ErrorKind::Argument, "device", message));
            }
        };
        Ok(Self { shape: shape.to_vec(), values })
    }

    /// Lengths of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The values.
    pub fn values(&self) -> &DeviceValues {
        &self.values
    }

    /// The values, to be written by a kernel.
    pub fn values_mut(&mut self) -> &mut DeviceValues {
        &mut self.values
    }

    /// Waits and copies the tensor to the host: for tests and for engines that
    /// run on the CPU.
    ///
    /// # Errors
    /// `Device` when earlier work or the copy fails.
    pub fn read(&self) -> Result<Tensor> {
        let shape = self.shape.clone();
        Ok(match &self.values {
            DeviceValues::F32(values) => Tensor::F32 { shape, values: values.read()? },
            DeviceValues::F16(values) => Tensor::F16 { shape, values: values.read()? },
        })
    }
}
