//! Operators of 8-bit integers.

use std::collections::HashMap;

use super::{Constant, Place, Rule, Verdict, float_node, integers_node, refused};
use crate::onnx::replace::{self, Value};
use det_post_types::Result;

const FLOAT: i64 = 1;
const UINT8: i64 = 2;
const INT8: i64 = 3;
const INT32: i64 = 6;

/// Sums below are exact in f32.
const MAX_EXACT: i64 = 1 << 24;
/// The largest distance of a value from its zero point.
const MAX_VALUE: i64 = 255;

pub(in super::super) const CONV_INTEGER: Rule = Rule {
    text: "as MatMulInteger and Conv",
    apply: |place| {
        let node = match (super::CONV.apply)(place)? {
            Verdict::Replaced(mut nodes) => nodes.pop().unwrap_or_default(),
            Verdict::Computed => place.node.bytes.to_vec(),
            other => return Ok(other),
        };
        if !matches!(place.rank(3), Some(0)) && place.input(3).is_some() && !is_one(place, 3) {
            return refused("input 3, the zero point, is not known to be one number");
        }
        let Some(dims) = known(place.shape(1)) else {
            return Ok(Verdict::OfShape("the shape of its weights is not known".into()));
        };
        let num: i64 = dims.iter().skip(1).product();
        in_floats(place, "Conv", &node, num, &|at| at / num.max(1))
    },
};

pub(in super::super) const MAT_MUL_INTEGER: Rule = Rule {
    text: "becomes Cast, Sub, MatMul, Cast, since rten limits sums to 16 bits on some CPUs; refused: vectors, sums that \
           f32 may round",
    apply: |place| {
        let Some(dims) = known(place.shape(1)) else {
            return Ok(Verdict::OfShape("the shape of input 1 is not known".into()));
        };
        let [.., num, columns] = dims[..] else {
            return refused("input 1 is not a matrix");
        };
        if place.input(2).is_some() && place.rank(2) != Some(0) && !is_one(place, 2) {
            let reason = "input 2, a zero point, is not known to be one number";
            return Ok(Verdict::OfShape(reason.into()));
        }
        let node = replace::node(place.node.name(), "MatMul", &[], &[], &[]);
        in_floats(place, "MatMul", &node, num, &|at| at % columns.max(1))
    },
};

/// A shape without open dimensions.
fn known(shape: Option<super::Shape>) -> Option<Vec<i64>> {
    shape?.into_iter().collect()
}

fn is_one(place: &Place<'_, '_, '_>, at: usize) -> bool {
    place.shape(at).is_some_and(|shape| shape == [Some(1)])
}

/// The operator in f32, whose sums of `num` products are exact; `output_of`: the output that a weight is for.
fn in_floats(
    place: &Place<'_, '_, '_>,
    operator: &str,
    node: &[u8],
    num: i64,
    output_of: &dyn Fn(i64) -> i64,
) -> Result<Verdict> {
    let Some(output) = place.output(0) else { return refused("without an output") };
    let largest = match largest_sum(place, output_of) {
        Some(sum) => sum.saturating_mul(MAX_VALUE),
        None => num.saturating_mul(MAX_VALUE * MAX_VALUE),
    };
    if largest >= MAX_EXACT {
        return refused(format!(
            "sums of {num} products may be {largest}, beyond {MAX_EXACT}, up to which they are exact"
        ));
    }
    let mut nodes = Vec::new();
    let to = |number| [("to", Value::Int(number))];
    let mut inputs = Vec::new();
    for (at, zero_at) in [(0, 2), (1, 3)] {
        let Some(name) = place.input(at) else { return refused("without inputs") };
        let mut value = place.inner(&format!("float{at}"));
        nodes.push(place.replacement("Cast", &[name], &value, &to(FLOAT)));
        if let Some(zero) = place.input(zero_at) {
            let [wide, less] = ["zero", "less"].map(|what| place.inner(&format!("{what}{at}")));
            nodes.push(place.replacement("Cast", &[zero], &wide, &to(FLOAT)));
            nodes.push(place.replacement("Sub", &[&value, &wide], &less, &[]));
            value = less;
        }
        inputs.push(value);
    }
    let sums = place.inner("sums");
    nodes.push(replace::of_operator(node, operator, &[&inputs[0], &inputs[1]], &sums)?);
    nodes.push(place.replacement("Cast", &[&sums], output, &to(INT32)));
    Ok(Verdict::Replaced(nodes))
}

/// The largest sum of the sizes of the weights of an output; `None` where they are not constants
/// around zero.
fn largest_sum(place: &Place<'_, '_, '_>, output_of: &dyn Fn(i64) -> i64) -> Option<i64> {
    let Constant::Tensor(weights) = place.constant(1)? else { return None };
    let is_around_zero = place.input(3).is_none() || place.is_constant_false(3);
    if !is_around_zero || weights.is_in_other_file() {
        return None;
    }
    let mut sums = HashMap::<i64, i64>::new();
    let mut at = 0;
    let add = |value: i64| {
        *sums.entry(output_of(at)).or_default() += value.abs();
        at += 1;
    };
    weights.each_integer(add).ok()?;
    (at == weights.dims.iter().product::<i64>()).then(|| sums.into_values().max().unwrap_or(0))
}

pub(in super::super) const QUANTIZE: Rule = Rule {
    text: "becomes Div, Round, Add, Clip and Cast, since rten multiplies by the reciprocal of the scale; refused: \
           lists of scales for inputs of unknown shape",
    apply: |place| {
        let (Some(input), Some(scale), Some(output)) =
            (place.input(0), place.input(1), place.output(0))
        else {
            return refused("without inputs or an output");
        };
        for name in ["block_size", "output_dtype", "precision"] {
            if place.integer(name, 0) != 0 {
                return refused(format!("attribute {name} is set"));
            }
        }
        let zero = place.input(2);
        let to = zero.map_or(Some(UINT8), |zero| place.scope.type_of(zero));
        let (least, largest) = match to {
            Some(UINT8) => (0.0, 255.0),
            Some(INT8) => (-128.0, 127.0),
            _ => return refused("the type of its zero point is not known to be int8 or uint8"),
        };
        let dims = match aligned(place) {
            Ok(dims) => dims,
            Err(verdict) => return Ok(verdict),
        };
        let mut nodes = Vec::new();
        let shape = place.inner("shape");
        if let Some(dims) = &dims {
            nodes.push(integers_node(&shape, dims));
        }
        let mut align = |name: &str, what: &str| match dims {
            None => name.to_owned(),
            Some(_) => {
                let aligned = place.inner(what);
                nodes.push(place.replacement("Reshape", &[name, &shape], &aligned, &[]));
                aligned
            }
        };
        let scale = align(scale, "scale");
        let zero = zero.map(|zero| align(zero, "zero"));
        let [mut last, ratio, low, high, whole] =
            ["round", "ratio", "low", "high", "whole"].map(|what| place.inner(what));
        nodes.push(place.replacement("Div", &[input, &scale], &ratio, &[]));
        nodes.push(place.replacement("Round", &[&ratio], &last, &[]));
        if let Some(zero) = zero {
            let (wide, sum) = (place.inner("wide"), place.inner("sum"));
            nodes.push(place.replacement("Cast", &[&zero], &wide, &[("to", Value::Int(FLOAT))]));
            nodes.push(place.replacement("Add", &[&last, &wide], &sum, &[]));
            last = sum;
        }
        nodes.push(float_node(&low, least));
        nodes.push(float_node(&high, largest));
        nodes.push(place.replacement("Clip", &[&last, &low, &high], &whole, &[]));
        let to = [("to", Value::Int(to.unwrap_or(UINT8)))];
        nodes.push(place.replacement("Cast", &[&whole], output, &to));
        Ok(Verdict::Replaced(nodes))
    },
};

/// The shape that puts a list of scales along its axis; `None` for one scale.
fn aligned(place: &Place<'_, '_, '_>) -> std::result::Result<Option<Vec<i64>>, Verdict> {
    let unknown = || Verdict::OfShape("the shapes of its input and scale are not known".into());
    let scales = place.shape(1).ok_or_else(unknown)?;
    let one = |dim: &Option<i64>| *dim == Some(1);
    match scales.len() {
        0 => return Ok(None),
        1 if scales.iter().all(one) => return Ok(None),
        1 => {}
        num => {
            return Err(Verdict::Refused(format!(
                "scales of {num} dimensions; rten computes lists"
            )));
        }
    }
    let rank = place.rank(0).ok_or_else(unknown)? as i64;
    let axis = place.integer("axis", 1);
    let axis = if axis < 0 { axis + rank } else { axis };
    if !(0..rank).contains(&axis) {
        return Err(Verdict::Refused(format!("attribute axis is beyond {rank} dimensions")));
    }
    Ok(Some((0..rank).map(|at| if at == axis { -1 } else { 1 }).collect()))
}
