//! Constants of the file.

use half::f16;

use super::attributes::Reason;
use super::importer::checked;
use super::{Data, Element, Value};
use crate::onnx::{DataType, Tensor};

/// A constant of the file.
pub(super) fn constant(tensor: &Tensor<'_>, name: &str) -> Result<Value, Reason> {
    let shape = tensor.dims.iter().map(|&dim| usize::try_from(dim).ok());
    let shape: Vec<usize> = shape.collect::<Option<_>>().ok_or("a negative dimension")?;
    checked(&shape)?;
    let num = shape.iter().product::<usize>();
    if tensor.is_in_other_file() {
        return Err("its values are in another file".into());
    }
    let element = match tensor.data_type {
        DataType::F32 | DataType::F16 | DataType::Other(11) => Element::Float,
        DataType::I64 | DataType::Other(6) => Element::Integer,
        DataType::Other(9) => Element::Boolean,
        DataType::Other(number) => return Err(format!("elements of type {number}")),
    };
    let data = match tensor.data_type {
        DataType::F32 => {
            let mut values = Vec::new();
            let kept = tensor.each_float(|value| values.push(value));
            kept.map_err(|error| error.message().to_owned())?;
            Data::Floats(values.into())
        }
        DataType::F16 if tensor.is_in_raw_data() => {
            let halves = tensor.raw_data.as_chunks().0.iter();
            Data::Floats(halves.map(|&bytes| f16::from_le_bytes(bytes).to_f32()).collect())
        }
        DataType::Other(11) if tensor.is_in_raw_data() => {
            let doubles = tensor.raw_data.as_chunks().0.iter();
            Data::Floats(doubles.map(|&bytes| f64::from_le_bytes(bytes) as f32).collect())
        }
        DataType::Other(9) if tensor.is_in_raw_data() => {
            Data::Integers(tensor.raw_data.iter().map(|&byte| i64::from(byte != 0)).collect())
        }
        DataType::I64 | DataType::Other(6) => {
            let mut values = Vec::new();
            let kept = tensor.each_integer(|value| values.push(value));
            kept.map_err(|error| error.message().to_owned())?;
            Data::Integers(values.into())
        }
        _ => return Err(format!("values in {}", tensor.elsewhere.unwrap_or("raw_data"))),
    };
    if data.len() != num {
        return Err(format!("{} values for the shape {shape:?}", data.len()));
    }
    Ok(Value { name: name.to_owned(), shape, element, constant: Some(data) })
}
