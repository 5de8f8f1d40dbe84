//! Operators of single values and their types.

use super::super::element::{letter, shown};
use super::{Place, Rule, Verdict, float_node, integers_node, refused};
use crate::onnx::replace::{self, Value};
use det_post_types::Result;

pub(in super::super) const BIT_CAST: Rule = Rule {
    text: "between float and int32",
    apply: |place| {
        let from = place.input(0).and_then(|name| place.scope.type_of(name));
        let to = place.integer("to", 0);
        if !from.is_some_and(|from| [1, 6].contains(&from)) || ![1, 6].contains(&to) {
            return refused("rten has no types of 8, 16 and 64 bits; it computes float and int32");
        }
        Ok(Verdict::Computed)
    },
};

pub(in super::super) const CAST: Rule = Rule {
    text: "to bool becomes `not equal to zero`, since rten keeps the number",
    apply: |place| {
        if letter(place.integer("to", 0)) == '-' {
            let to = shown(place.integer("to", 0));
            return refused(format!("attribute to is {to}, a type that rten does not have"));
        }
        if place.integer("to", 0) != 9 { Ok(Verdict::Computed) } else { is_not_zero(place) }
    },
};

pub(in super::super) const CAST_LIKE: Rule = Rule {
    text: "as Cast; refused: a second input of unknown type",
    apply: |place| match place.type_of(1) {
        Some('b') => is_not_zero(place),
        Some(_) => Ok(Verdict::Computed),
        None => refused("the type that its second input has is not known"),
    },
};

pub(in super::super) const POW: Rule = Rule {
    text: "an integer exponent of a float becomes a float; refused: a float exponent of an integer",
    apply: |place| match (place.type_of(0), place.type_of(1)) {
        (Some('f'), Some('i')) => {
            let (Some(base), Some(exponent)) = (place.input(0), place.input(1)) else {
                return refused("without inputs");
            };
            let like = place.inner("exponent");
            Ok(Verdict::Replaced(vec![
                place.replacement("CastLike", &[exponent, base], &like, &[]),
                place.renamed(Some((1, like.as_str())), None, &[])?,
            ]))
        }
        (Some('i'), Some('f')) => refused("the exponent of an integer is a float"),
        (Some(_), Some(_)) => super::fusions::with_dimensions(place),
        _ => refused("the types of its inputs are not known"),
    },
};

pub(in super::super) const SIGN: Rule = Rule {
    text: "of zero becomes zero, since rten gives 1",
    apply: |place| {
        let (Some(input), Some(output)) = (place.input(0), place.output(0)) else {
            return refused("without an input or an output");
        };
        if place.type_of(0) == Some('i') {
            return Ok(Verdict::Computed);
        }
        let (zero, like, equal) = (place.inner("zero"), place.inner("like"), place.inner("equal"));
        let sign = place.inner("sign");
        Ok(Verdict::Replaced(vec![
            float_node(&zero, 0.0),
            place.replacement("CastLike", &[&zero, input], &like, &[]),
            place.replacement("Equal", &[input, &like], &equal, &[]),
            place.renamed(None, Some(&sign), &[])?,
            place.replacement("Where", &[&equal, &like, &sign], output, &[]),
        ]))
    },
};

pub(in super::super) const SOFTPLUS: Rule = Rule {
    text: "becomes Relu(x) + Softplus(-Abs(x)), since rten gives infinity from 89 on",
    apply: |place| {
        let (Some(input), Some(output)) = (place.input(0), place.output(0)) else {
            return refused("without an input or an output");
        };
        let [size, negative, rest, positive] =
            ["size", "negative", "rest", "positive"].map(|what| place.inner(what));
        Ok(Verdict::Replaced(vec![
            place.replacement("Abs", &[input], &size, &[]),
            place.replacement("Neg", &[&size], &negative, &[]),
            place.replacement("Softplus", &[&negative], &rest, &[]),
            place.replacement("Relu", &[input], &positive, &[]),
            place.replacement("Add", &[&positive, &rest], output, &[]),
        ]))
    },
};

pub(in super::super) const FIRST_OF_EQUAL: Rule = Rule {
    text: "becomes TopK, since rten takes the last of equal values; refused: select_last_index",
    apply: |place| {
        if place.integer("select_last_index", 0) != 0 {
            return refused("attribute select_last_index is 1; rten computes 0");
        }
        let (Some(input), Some(output)) = (place.input(0), place.output(0)) else {
            return refused("without an input or an output");
        };
        let axis = place.integer("axis", 0);
        let is_largest = i64::from(place.node.operator == "ArgMax");
        let (one, best, index) = (place.inner("one"), place.inner("best"), place.inner("index"));
        let keeps = place.integer("keepdims", 1) != 0;
        let found: &str = if keeps { output } else { &index };
        let attributes = [("axis", Value::Int(axis)), ("largest", Value::Int(is_largest))];
        let mut nodes = vec![
            integers_node(&one, &[1]),
            replace::node(place.node.name(), "TopK", &[input, &one], &[&best, found], &attributes),
        ];
        if !keeps {
            let axes = place.inner("axes");
            nodes.push(integers_node(&axes, &[axis]));
            nodes.push(place.replacement("Squeeze", &[&index, &axes], output, &[]));
        }
        Ok(Verdict::Replaced(nodes))
    },
};

fn is_not_zero(place: &Place<'_, '_, '_>) -> Result<Verdict> {
    let (Some(input), Some(output)) = (place.input(0), place.output(0)) else {
        return refused("without an input or an output");
    };
    let of = place.type_of(0);
    if of == Some('b') {
        return Ok(Verdict::Computed);
    }
    let (zero, like, equal) = (place.inner("zero"), place.inner("like"), place.inner("equal"));
    let wide = place.inner("wide");
    let mut nodes = vec![float_node(&zero, 0.0)];
    let compared: &str = if of == Some('u') {
        // rten compares no 8-bit integers.
        nodes.push(place.replacement("Cast", &[input], &wide, &[("to", Value::Int(6))]));
        &wide
    } else {
        input
    };
    nodes.push(place.replacement("CastLike", &[&zero, compared], &like, &[]));
    nodes.push(place.replacement("Equal", &[compared, &like], &equal, &[]));
    nodes.push(place.replacement("Not", &[&equal], output, &[]));
    Ok(Verdict::Replaced(nodes))
}
