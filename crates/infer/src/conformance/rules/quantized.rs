//! Operators of 8-bit integers.

use super::{Place, Rule, Verdict, float_node, integers_node, refused};
use crate::onnx::replace::{self, Value};
use crate::onnx::write;

const FLOAT: i64 = 1;
const UINT8: i64 = 2;
const INT8: i64 = 3;

pub(in super::super) const CONV_INTEGER: Rule = Rule {
    text: "as Conv; with a zero point the pads become a Pad by it, since rten pads with 0; refused: auto_pad SAME \
           with a zero point",
    apply: |place| {
        let with_window = (super::CONV.apply)(place)?;
        let zero = place.input(2);
        let is_zero = zero.is_none() || place.is_constant_false(2);
        let Some(zero) = zero.filter(|_| !is_zero) else { return Ok(with_window) };
        if place.text("auto_pad", "NOTSET").starts_with("SAME") {
            return refused("auto_pad and a zero point, where rten pads with 0");
        }
        let Some(pads) = place.integers("pads").filter(|pads| pads.iter().any(|&pad| pad != 0))
        else {
            return Ok(with_window);
        };
        let node = match with_window {
            Verdict::Replaced(mut nodes) => nodes.pop().unwrap_or_default(),
            Verdict::Computed => place.node.bytes.to_vec(),
            other => return Ok(other),
        };
        let (Some(input), (before, after)) = (place.input(0), pads.split_at(pads.len() / 2)) else {
            return refused("without an input");
        };
        let all: Vec<i64> = [&[0, 0][..], before, &[0, 0], after].concat();
        let (sizes, padded) = (place.inner("pads"), place.inner("padded"));
        let (none, value) = (place.inner("none"), place.inner("value"));
        let node = replace::with_attributes(&node, &["pads"], &[])?;
        let node = write::renamed_node(&node, |at, _| (at == 0).then(|| padded.clone()), |_| None)?;
        Ok(Verdict::Replaced(vec![
            integers_node(&sizes, &all),
            integers_node(&none, &[]),
            // The zero point may be a list of one.
            place.replacement("Reshape", &[zero, &none], &value, &[]),
            place.replacement("Pad", &[input, &sizes, &value], &padded, &[]),
            node,
        ]))
    },
};

pub(in super::super) const MAT_MUL_INTEGER: Rule = Rule {
    text: "refused: zero points that are lists or of unknown shape",
    apply: |place| {
        for at in [2, 3] {
            if place.input(at).is_some() && place.rank(at) != Some(0) {
                let reason = format!("input {at}, a zero point, is not known to be one number");
                return Ok(Verdict::OfShape(reason));
            }
        }
        Ok(Verdict::Computed)
    },
};

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
