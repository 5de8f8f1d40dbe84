//! Tensors on their way to the device, and as bits.

use det_post_ops::device::cuda::{DeviceTensor, Stream};
use det_post_types::{ElementType, Tensor};
use half::f16;

pub fn upload(stream: &Stream, tensor: &Tensor) -> DeviceTensor {
    let mut uploaded = DeviceTensor::zeros(stream, tensor.element(), tensor.shape()).unwrap();
    uploaded.write(&tensor.view()).unwrap();
    uploaded
}

/// The values of a tensor in an element type.
pub fn tensor(element: ElementType, shape: &[usize], values: &[f32]) -> Tensor {
    let shape = shape.to_vec();
    match element {
        ElementType::F16 => {
            let values = values.iter().map(|&value| f16::from_f32(value)).collect();
            Tensor::F16 { shape, values }
        }
        _ => Tensor::F32 { shape, values: values.to_vec() },
    }
}

pub fn bits(tensor: &Tensor) -> Vec<u32> {
    match tensor {
        Tensor::F32 { values, .. } => values.iter().map(|v| v.to_bits()).collect(),
        Tensor::F16 { values, .. } => values.iter().map(|v| u32::from(v.to_bits())).collect(),
    }
}
