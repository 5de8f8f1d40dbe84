//! Functions of elements.

use super::attributes::{Place, Reason};
use super::importer::Importer;
use super::{Data, Element, Id, Value};
use crate::dense::function::Function;

type Imported = Result<Vec<Id>, Reason>;

pub(super) fn import<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let function = match place.node.operator {
        "Abs" => Function::Abs,
        "Neg" => Function::Neg,
        "Sqrt" => Function::Sqrt,
        "Reciprocal" => Function::Reciprocal,
        "Exp" => Function::Exp,
        "Log" => Function::Log,
        "Erf" => Function::Erf,
        "Sin" => Function::Sin,
        "Cos" => Function::Cos,
        "Sign" => Function::Sign,
        "Floor" => Function::Floor,
        "Ceil" => Function::Ceil,
        "Round" => Function::Round,
        "Not" => Function::Not,
        "Relu" => Function::Relu,
        "LeakyRelu" => Function::LeakyRelu(place.float("alpha", 0.01)?),
        "Elu" => Function::Elu(place.float("alpha", 1.0)?),
        "Softplus" => Function::Softplus,
        "Sigmoid" => Function::Sigmoid,
        "HardSigmoid" => {
            Function::HardSigmoid(place.float("alpha", 0.2)?, place.float("beta", 0.5)?)
        }
        "Tanh" => Function::Tanh,
        "HardSwish" => Function::HardSwish,
        "Mish" => Function::Mish,
        "Gelu" => match place.text("approximate")? {
            None | Some("none") => Function::Gelu,
            Some("tanh") => Function::GeluTanh,
            Some(other) => return Err(format!("attribute approximate is {other}")),
        },
        "Clip" => return clip(importer, place),
        "Add" => Function::Add,
        "Sub" => Function::Sub,
        "Mul" => Function::Mul,
        "Div" => Function::Div,
        "Pow" => return power(importer, place),
        "Min" | "Max" | "Sum" | "Mean" => return many(importer, place),
        "Equal" => Function::Equal,
        "Greater" => Function::Greater,
        "Less" => Function::Less,
        "GreaterOrEqual" => Function::GreaterOrEqual,
        "LessOrEqual" => Function::LessOrEqual,
        "And" => Function::And,
        "Or" => Function::Or,
        "Xor" => Function::Xor,
        "Where" => Function::Where,
        "Mod" => return remainder(importer, place),
        "PRelu" => return prelu(importer, place),
        _ => return Err("the operator is not covered".into()),
    };
    if place.int("axis")?.is_some() || place.int("broadcast")?.is_some() {
        return Err("attribute axis or broadcast of an operator set before 7".into());
    }
    let inputs = (0..function.arity()).map(|at| place.input(at)).collect::<Result<Vec<_>, _>>()?;
    if place.inputs.len() > inputs.len() {
        return Err(format!("{} inputs", place.inputs.len()));
    }
    importer.function(place, function, &inputs).map(|id| vec![id])
}

/// The remainder with the sign of the divisor, which ONNX has for integers.
fn remainder<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    if place.flag("fmod", false)? {
        return Err("attribute fmod is 1".into());
    }
    importer.function(place, Function::Mod, &[place.input(0)?, place.input(1)?]).map(|id| vec![id])
}

fn clip<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    if importer.graph.values[input].element != Element::Float {
        return clip_integers(importer, place);
    }
    let limit = |name: &str, at: usize, default: f32| -> Result<f32, Reason> {
        if place.set < 11 {
            return place.float(name, default);
        }
        let given = place.floats(&importer.graph, at)?;
        Ok(given.and_then(|list| list.first().copied()).unwrap_or(default))
    };
    let (low, high) = (limit("min", 1, f32::NEG_INFINITY)?, limit("max", 2, f32::INFINITY)?);
    let function = match (low, high) {
        (0.0, f32::INFINITY) => Function::Relu,
        _ => Function::Clip(low, high),
    };
    importer.function(place, function, &[input]).map(|id| vec![id])
}

fn clip_integers<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let mut current = place.input(0)?;
    for (at, function) in [(1, Function::Max), (2, Function::Min)] {
        if let Some(limit) = place.optional(at) {
            current = importer.function(place, function, &[current, limit])?;
        }
    }
    Ok(vec![current])
}

fn power<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let (base, mut exponent) = (place.input(0)?, place.input(1)?);
    let value = &importer.graph.values[exponent];
    let is_float = importer.graph.values[base].element == Element::Float;
    if let (true, Some(Data::Integers(_)), Some(data)) =
        (is_float, &value.constant, &value.constant)
    {
        let (name, shape) = (value.name.clone(), value.shape.clone());
        let constant = Some(Data::Floats(data.to_floats()));
        let element = Element::Float;
        exponent = importer.graph.add(Value { name, shape, element, constant });
    }
    let value = &importer.graph.values[exponent];
    if is_float
        && value.scalar() == Some(2.0)
        && value.shape.len() <= importer.graph.shape(base).len()
    {
        return importer.function(place, Function::Mul, &[base, base]).map(|id| vec![id]);
    }
    if is_float
        && value.scalar() == Some(0.5)
        && value.shape.len() <= importer.graph.shape(base).len()
    {
        return importer.function(place, Function::Sqrt, &[base]).map(|id| vec![id]);
    }
    importer.function(place, Function::Pow, &[base, exponent]).map(|id| vec![id])
}

fn many<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let function = match place.node.operator {
        "Min" => Function::Min,
        "Max" => Function::Max,
        _ => Function::Add,
    };
    let mut current = place.input(0)?;
    for at in 1..place.inputs.len() {
        current = importer.function(place, function, &[current, place.input(at)?])?;
    }
    if place.node.operator == "Mean" && place.inputs.len() > 1 {
        let num = importer.scalar(place.inputs.len() as f32);
        current = importer.function(place, Function::Div, &[current, num])?;
    }
    Ok(vec![current])
}

/// `x < 0 ? slope * x : x`.
fn prelu<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let (input, slope) = (place.input(0)?, place.input(1)?);
    if let Some(slope) = importer.graph.values[slope].scalar() {
        return importer.function(place, Function::LeakyRelu(slope), &[input]).map(|id| vec![id]);
    }
    let zero = importer.scalar(0.0);
    let is_negative = importer.function(place, Function::Less, &[input, zero])?;
    let scaled = importer.function(place, Function::Mul, &[slope, input])?;
    if importer.graph.shape(scaled) != importer.graph.shape(input) {
        return Err("a slope of more dimensions than the input".into());
    }
    importer.function(place, Function::Where, &[is_negative, scaled, input]).map(|id| vec![id])
}
