//! Tensors on their way to the device, and as bits.

use det_post::device::cuda::{DeviceTensor, DeviceValues, Stream};
use det_post::types::{ElementType, Tensor};
use half::f16;

pub fn upload(stream: &Stream, tensor: &Tensor) -> DeviceTensor {
    let mut uploaded = DeviceTensor::zeros(stream, tensor.element(), tensor.shape()).unwrap();
    match (tensor, uploaded.values_mut()) {
        (Tensor::F32 { values, .. }, DeviceValues::F32(to)) => to.write(values).unwrap(),
        (Tensor::F16 { values, .. }, DeviceValues::F16(to)) => to.write(values).unwrap(),
        _ => unreachable!("made of the same element"),
    }
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
