//! What becomes of operators that rten computes in some cases, or otherwise than ONNX defines.

mod convolution;
mod fusions;
mod nearest;
mod quantized;
mod resize;
mod values;

use super::element::letter;
use super::place::Place;
use super::scope::Constant;
use super::shapes::Shape;
use crate::onnx::replace::{self, Value};
use crate::onnx::{AttributeValue, write};
use det_post_types::Result;

pub(super) use convolution::{CONV, CONV_TRANSPOSE, POOL};
pub(super) use fusions::{EXPAND, ONE_NUMBER};
pub(super) use quantized::{CONV_INTEGER, MAT_MUL_INTEGER, QUANTIZE};
pub(super) use resize::{RESIZE, UPSAMPLE};
pub(super) use values::{BIT_CAST, CAST, CAST_LIKE, FIRST_OF_EQUAL, POW, SIGN, SOFTPLUS};

/// A rule and its text in the documentation.
pub(super) struct Rule {
    /// What is rewritten and what is refused.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the table of docs/numerics.md"))]
    pub(super) text: &'static str,
    /// The rule.
    pub(super) apply: fn(&Place<'_, '_, '_>) -> Result<Verdict>,
}

/// What becomes of a node.
pub(super) enum Verdict {
    /// rten computes it.
    Computed,
    /// rten computes these nodes instead, exactly.
    Replaced(Vec<Vec<u8>>),
    /// rten does not compute it, for this reason.
    Refused(String),
    /// The shapes of tensors decide, and are not known: the reason of the refusal.
    OfShape(String),
}

fn refused(reason: impl Into<String>) -> Result<Verdict> {
    Ok(Verdict::Refused(reason.into()))
}

impl<'a> Place<'_, 'a, '_> {
    /// The name of an input that the node reads.
    fn input(&self, at: usize) -> Option<&'a str> {
        self.node.inputs.get(at).copied().filter(|name| !name.is_empty())
    }

    /// The name of an output that the node writes.
    fn output(&self, at: usize) -> Option<&'a str> {
        self.node.outputs.get(at).copied().filter(|name| !name.is_empty())
    }

    fn integer(&self, name: &str, otherwise: i64) -> i64 {
        match self.node.attribute(name) {
            Some(AttributeValue::Int(value)) => *value,
            _ => otherwise,
        }
    }

    fn integers(&self, name: &str) -> Option<&[i64]> {
        match self.node.attribute(name) {
            Some(AttributeValue::Ints(values)) => Some(values),
            _ => None,
        }
    }

    fn text(&self, name: &str, otherwise: &'static str) -> &str {
        match self.node.attribute(name) {
            Some(AttributeValue::Text(text)) => text,
            _ => otherwise,
        }
    }

    fn type_of(&self, at: usize) -> Option<char> {
        self.scope.type_of(self.input(at)?).map(letter)
    }

    fn constant(&self, at: usize) -> Option<Constant<'_, 'a>> {
        self.scope.constant(self.input(at)?)
    }

    /// The shape of an input; `None` where it is not known.
    fn shape(&self, at: usize) -> Option<Shape> {
        let name = self.input(at)?;
        if let Some(constant) = self.scope.constant(name) {
            return Some(constant.dims().iter().copied().map(Some).collect());
        }
        if let Some(shape) = self.scope.input_shape(name) {
            return Some(shape);
        }
        let checker = self.checker;
        if !checker.with_shapes || !self.scope.is_outermost(name) {
            return None;
        }
        checker.shapes.of(checker.bytes, checker.model, name).cloned()
    }

    /// The shape of the first output; `None` where it is not known.
    fn output_shape(&self) -> Option<Shape> {
        let (checker, name) = (self.checker, self.output(0)?);
        if !checker.with_shapes || !self.scope.is_outermost(name) {
            return None;
        }
        checker.shapes.of(checker.bytes, checker.model, name).cloned()
    }

    fn rank(&self, at: usize) -> Option<usize> {
        self.shape(at).map(|shape| shape.len())
    }

    /// The name of a tensor inside a replacement.
    fn inner(&self, what: &str) -> String {
        format!("{}/det_post/{what}", self.node.outputs.first().copied().unwrap_or_default())
    }

    /// A node of a replacement, named as the node is.
    fn replacement(
        &self,
        operator: &str,
        inputs: &[&str],
        output: &str,
        attributes: &[(&str, Value<'_>)],
    ) -> Vec<u8> {
        replace::node(self.node.name(), operator, inputs, &[output], attributes)
    }

    /// The node with other inputs and outputs, where these are given, and attributes.
    fn renamed(
        &self,
        input: Option<(usize, &str)>,
        output: Option<&str>,
        attributes: &[(&str, Value<'_>)],
    ) -> Result<Vec<u8>> {
        let node = replace::with_attributes(self.node.bytes, &[], attributes)?;
        let first = self.output(0);
        write::renamed_node(
            &node,
            |at, _| input.filter(|input| input.0 == at).map(|input| input.1.to_owned()),
            |name| output.filter(|_| Some(name) == first).map(str::to_owned),
        )
    }

    fn has_other_outputs(&self) -> bool {
        (1..self.node.outputs.len()).any(|at| self.output(at).is_some())
    }
}

/// A node that writes a constant of i64.
fn integers_node(name: &str, values: &[i64]) -> Vec<u8> {
    replace::node(name, "Constant", &[], &[name], &[("value_ints", Value::Ints(values))])
}

/// A node that writes one float.
fn float_node(name: &str, value: f32) -> Vec<u8> {
    replace::node(name, "Constant", &[], &[name], &[("value_float", Value::Float(value))])
}

pub(super) const ONE_OUTPUT: Rule = Rule {
    text: "one output; refused: more",
    apply: |place| {
        if place.has_other_outputs() {
            return refused("rten computes its first output only");
        }
        Ok(Verdict::Computed)
    },
};

pub(super) const ATTENTION: Rule = Rule {
    text: "refused: the output qk_matmul_output, nonpad_kv_seqlen",
    apply: |place| {
        if place.output(3).is_some() {
            return refused("rten does not compute the output qk_matmul_output");
        }
        if place.input(6).is_some() {
            return refused("rten does not compute it with nonpad_kv_seqlen");
        }
        Ok(Verdict::Computed)
    },
};

pub(super) const DROPOUT: Rule = Rule {
    text: "becomes Identity; refused: training, the mask",
    apply: |place| {
        let (Some(input), Some(output)) = (place.input(0), place.output(0)) else {
            return refused("without an input or an output");
        };
        if place.has_other_outputs() {
            return refused("rten does not compute the mask");
        }
        if place.input(2).is_some() && !place.is_constant_false(2) {
            return refused("training_mode is not the constant false");
        }
        if place.checker.set < 7 && place.integer("is_test", 0) == 0 {
            return refused("attribute is_test is 0: it is training");
        }
        Ok(Verdict::Replaced(vec![place.replacement("Identity", &[input], output, &[])]))
    },
};

impl Place<'_, '_, '_> {
    fn is_constant_false(&self, at: usize) -> bool {
        match self.constant(at) {
            Some(Constant::Tensor(tensor)) => tensor.is_all_zero(),
            _ => false,
        }
    }
}

pub(super) const GRID_SAMPLE: Rule = Rule {
    text: "bilinear with zeros around, inputs of 4 dimensions",
    apply: |place| match place.rank(0) {
        Some(4) => Ok(Verdict::Computed),
        Some(rank) => refused(format!("an input of {rank} dimensions; rten computes 4")),
        None => Ok(Verdict::OfShape("the number of dimensions is not known".into())),
    },
};

pub(super) const LSTM: Rule = Rule {
    text: "refused: sequence_lens",
    apply: |place| {
        if place.input(4).is_some() {
            return refused("rten does not read sequence_lens");
        }
        Ok(Verdict::Computed)
    },
};

pub(super) const GRU: Rule = Rule {
    text: "linear_before_reset 1; refused: sequence_lens",
    apply: |place| {
        if place.integer("linear_before_reset", 0) == 0 {
            return refused("attribute linear_before_reset is 0; rten computes 1");
        }
        (LSTM.apply)(place)
    },
};

pub(super) const SOFTMAX: Rule = Rule {
    text: "before set 13 the dimensions from `axis` on become one, as those sets define",
    apply: |place| {
        if place.checker.set >= 13 {
            return Ok(Verdict::Computed);
        }
        let (Some(input), Some(output)) = (place.input(0), place.output(0)) else {
            return refused("without an input or an output");
        };
        let axis = place.integer("axis", 1);
        let is_last = |rank: usize| axis == rank as i64 - 1;
        if axis == -1 || place.rank(0).is_some_and(is_last) {
            let node = place.renamed(None, None, &[("axis", Value::Int(axis))])?;
            let is_given = place.node.attribute("axis").is_some();
            return Ok(if is_given { Verdict::Computed } else { Verdict::Replaced(vec![node]) });
        }
        if !place.checker.with_shapes {
            return Ok(Verdict::OfShape("the number of dimensions is not known".into()));
        }
        let (flat, rows, shape) = (place.inner("flat"), place.inner("rows"), place.inner("shape"));
        Ok(Verdict::Replaced(vec![
            place.replacement("Flatten", &[input], &flat, &[("axis", Value::Int(axis))]),
            place.replacement(place.node.operator, &[&flat], &rows, &[("axis", Value::Int(-1))]),
            place.replacement("Shape", &[input], &shape, &[]),
            place.replacement("Reshape", &[&rows, &shape], output, &[]),
        ]))
    },
};

pub(super) const MAT_MUL: Rule = Rule {
    text: "with a vector on the right becomes a product with a matrix of one column",
    apply: |place| {
        let (Some(left), Some(right), Some(output)) =
            (place.input(0), place.input(1), place.output(0))
        else {
            return refused("without inputs or an output");
        };
        if place.rank(0).is_some_and(|rank| rank < 3) {
            return Ok(Verdict::Computed);
        }
        match place.rank(1) {
            None if place.scope.is_matrix(right, 0) => Ok(Verdict::Computed),
            None => Ok(Verdict::OfShape("the number of dimensions is not known".into())),
            Some(1) => {
                let (axes, last) = (place.inner("axes"), place.inner("last"));
                let (column, product) = (place.inner("column"), place.inner("product"));
                Ok(Verdict::Replaced(vec![
                    integers_node(&axes, &[1]),
                    integers_node(&last, &[-1]),
                    place.replacement("Unsqueeze", &[right, &axes], &column, &[]),
                    place.replacement("MatMul", &[left, &column], &product, &[]),
                    place.replacement("Squeeze", &[&product, &last], output, &[]),
                ]))
            }
            Some(_) => Ok(Verdict::Computed),
        }
    },
};

pub(super) const PAD: Rule = Rule {
    text: "refused: the input axes; modes other than constant before the last two dimensions",
    apply: |place| {
        if place.input(3).is_some() {
            return refused("rten does not read the input axes");
        }
        let mode = place.text("mode", "constant");
        let of_input = || place.constant(1)?.integers();
        let pads = place.integers("pads").map(<[i64]>::to_vec).or_else(of_input);
        let Some(pads) = pads.filter(|_| mode != "constant") else { return Ok(Verdict::Computed) };
        let rank = pads.len() / 2;
        let is_before = |at: usize| rank > 0 && at % rank + 2 < rank;
        if pads.iter().enumerate().any(|(at, &pad)| pad != 0 && is_before(at)) {
            return refused(format!(
                "mode {mode} with pads {pads:?}; rten pads the last two dimensions so"
            ));
        }
        Ok(Verdict::Computed)
    },
};

pub(super) const REDUCE_NOOP: Rule = Rule {
    text: "refused: noop_with_empty_axes 1 unless the axes are constants",
    apply: |place| {
        let has_axes = || place.constant(1).is_some_and(|axes| axes.dims() != [0]);
        if place.integer("noop_with_empty_axes", 0) != 0 && !has_axes() {
            return refused(
                "attribute noop_with_empty_axes is 1 and the axes are not constants: rten \
                 computes something else where there are none",
            );
        }
        Ok(Verdict::Computed)
    },
};

pub(super) const SEQUENCE_INSERT: Rule = Rule {
    text: "refused: a position that is not a constant from 0 on",
    apply: |place| {
        let position = || place.constant(2).and_then(|position| position.integers());
        if place.input(2).is_some() && !position().is_some_and(|at| at.iter().all(|at| *at >= 0)) {
            return refused("rten computes positions that are constants from 0 on");
        }
        Ok(Verdict::Computed)
    },
};

pub(super) const AXES: Rule = Rule {
    text: "refused: axes that are no list",
    apply: |place| {
        if place.rank(1) == Some(0) {
            return refused("input 1, the axes, is one number instead of a list");
        }
        Ok(Verdict::Computed)
    },
};
