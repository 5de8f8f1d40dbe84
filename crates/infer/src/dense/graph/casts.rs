//! Constants of nodes, and casts.

use super::attributes::{Place, Reason};
use super::importer::Importer;
use super::{Data, Element, Id, Operation, Value};
use crate::dense::function::Function;
use crate::onnx::AttributeValue;

type Imported = Result<Vec<Id>, Reason>;

/// The value of a node `Constant`.
pub(super) fn constant(place: &Place<'_, '_>) -> Result<Value, Reason> {
    let name = place.node.outputs.first().copied().unwrap_or_default();
    let value = |shape: Vec<usize>, element, data| Value {
        name: name.to_owned(),
        shape,
        element,
        constant: Some(data),
    };
    let floats = |shape, values: &[f32]| value(shape, Element::Float, Data::Floats(values.into()));
    let integers =
        |shape, values: &[i64]| value(shape, Element::Integer, Data::Integers(values.into()));
    match place.node.attributes.first().map(|attribute| (attribute.name, &attribute.value)) {
        Some(("value", AttributeValue::Tensor(tensor))) => super::constants::constant(tensor, name),
        Some(("value_float", AttributeValue::Float(number))) => Ok(floats(vec![], &[*number])),
        Some(("value_floats", AttributeValue::Floats(list))) => Ok(floats(vec![list.len()], list)),
        Some(("value_int", AttributeValue::Int(number))) => Ok(integers(vec![], &[*number])),
        Some(("value_ints", AttributeValue::Ints(list))) => Ok(integers(vec![list.len()], list)),
        _ => Err("a constant that is no tensor, float or integer".into()),
    }
}

pub(super) fn cast<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let to = match place.int("to")?.ok_or("no attribute to")? {
        1 | 10 | 11 => Element::Float,
        6 | 7 => Element::Integer,
        9 => Element::Boolean,
        other => return Err(format!("a cast to type {other}")),
    };
    let value = &importer.graph.values[input];
    match (value.element, to) {
        (from, to) if from == to => Ok(vec![input]),
        (_, to) if value.constant.is_some() => {
            let data = match (&value.constant, to) {
                (Some(Data::Floats(values)), Element::Integer) => {
                    Data::Integers(values.iter().map(|&value| value as i64).collect())
                }
                (Some(Data::Floats(values)), _) => {
                    Data::Integers(values.iter().map(|&value| i64::from(value != 0.0)).collect())
                }
                (Some(Data::Integers(values)), Element::Boolean) => {
                    Data::Integers(values.iter().map(|&value| i64::from(value != 0)).collect())
                }
                (Some(Data::Integers(values)), Element::Integer) => Data::Integers(values.clone()),
                (Some(data), _) => Data::Floats(data.to_floats()),
                (None, _) => return Ok(vec![input]),
            };
            let data = if to == Element::Float { Data::Floats(data.to_floats()) } else { data };
            let (name, shape) = (value.name.clone(), value.shape.clone());
            Ok(vec![importer.graph.add(Value { name, shape, element: to, constant: Some(data) })])
        }
        (Element::Boolean, Element::Float) => {
            let (one, zero) = (importer.scalar(1.0), importer.scalar(0.0));
            importer.function(place, Function::Where, &[input, one, zero]).map(|id| vec![id])
        }
        (Element::Float, Element::Boolean) => {
            let zero = importer.scalar(0.0);
            let is_zero = importer.function(place, Function::Equal, &[input, zero])?;
            importer.function(place, Function::Not, &[is_zero]).map(|id| vec![id])
        }
        (Element::Boolean, Element::Integer) => {
            let [one, zero] = [1, 0].map(|value| importer.integers(&[], vec![value]));
            importer.function(place, Function::Where, &[input, one, zero]).map(|id| vec![id])
        }
        (Element::Integer, Element::Boolean) => {
            let zero = importer.integers(&[], vec![0]);
            let is_zero = importer.function(place, Function::Equal, &[input, zero])?;
            importer.function(place, Function::Not, &[is_zero]).map(|id| vec![id])
        }
        (from, to) => {
            let function =
                if from == Element::Integer { Function::ToFloat } else { Function::ToInteger };
            let (operation, shape) = (Operation::Elementwise(function), value.shape.clone());
            importer.operation(place, operation, &[input], &shape, to).map(|id| vec![id])
        }
    }
}
