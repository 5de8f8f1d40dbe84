//! What readers of nodes add to a graph.

use std::collections::HashMap;

use super::attributes::{Place, Reason};
use super::{
    Data, Element, Graph, Id, Node, Operation, Value, View, broadcast, fold, num_elements,
};
use crate::dense::function::Function;

/// The most elements of a value.
const MAX_ELEMENTS: usize = 1 << 30;
/// The most elements that are computed of constants, all together.
const MAX_COMPUTED: usize = 1 << 26;
/// The most dimensions of a value.
const MAX_RANK: usize = 8;

/// What is known while a file is read.
pub(super) struct Importer<'a> {
    pub(super) graph: Graph,
    pub(super) ids: HashMap<&'a str, Id>,
    /// Elements that were computed of constants.
    pub(super) num_computed: usize,
}

impl<'a> Importer<'a> {
    /// Adds an operation with one output of floats.
    pub(super) fn floats(
        &mut self,
        place: &Place<'_, 'a>,
        operation: Operation,
        inputs: &[Id],
        shape: &[usize],
    ) -> std::result::Result<Id, Reason> {
        self.operation(place, operation, inputs, shape, Element::Float)
    }

    /// Adds an operation with one output, or computes it where it is one of constants.
    pub(super) fn operation(
        &mut self,
        place: &Place<'_, 'a>,
        operation: Operation,
        inputs: &[Id],
        shape: &[usize],
        element: Element,
    ) -> std::result::Result<Id, Reason> {
        checked(shape)?;
        let name = place.node.outputs.first().copied().unwrap_or_default();
        let mut value =
            Value { name: name.to_owned(), shape: shape.to_vec(), element, constant: None };
        if inputs.iter().all(|&id| self.graph.values[id].constant.is_some())
            && let Some(data) = self.fold(&operation, inputs, shape)?
        {
            value.constant = Some(data);
            return Ok(self.graph.add(value));
        }
        let is_float = |id: &Id| self.graph.values[*id].element != Element::Integer;
        // The others are of floats.
        let takes_integers = match operation {
            Operation::Concat { .. } => !inputs.iter().any(is_float),
            Operation::View(_) | Operation::Gather { .. } | Operation::Elementwise(_) => true,
            _ => false,
        };
        if !takes_integers && let Some(&id) = inputs.iter().find(|id| !is_float(id)) {
            let name = &self.graph.values[id].name;
            return Err(format!("integers of {name} depend on the inputs of the network"));
        }
        let output = self.graph.add(value);
        let (layer, inputs) = (place.layer.clone(), inputs.to_vec());
        self.graph.nodes.push(Node { layer, operation, inputs, outputs: vec![output] });
        Ok(output)
    }

    fn fold(
        &mut self,
        operation: &Operation,
        inputs: &[Id],
        shape: &[usize],
    ) -> std::result::Result<Option<Data>, Reason> {
        let values: Vec<&Value> = inputs.iter().map(|&id| &self.graph.values[id]).collect();
        if !matches!(operation, Operation::View(View::Reshape)) {
            self.num_computed = self.num_computed.saturating_add(shape.iter().product());
        }
        if self.num_computed > MAX_COMPUTED {
            return Err(format!("constants of more than {MAX_COMPUTED} elements are computed"));
        }
        Ok(match operation {
            Operation::View(view) => values.first().and_then(|value| {
                let data = value.constant.as_ref()?;
                Some(fold::view(data, &value.shape, view, shape))
            }),
            Operation::Concat { axis } => fold::concat(&values, *axis, shape),
            Operation::Elementwise(function) => {
                let data = fold::elementwise(*function, &values, shape);
                Some(data.ok_or("a function of integers that is not defined for them")?)
            }
            _ => None,
        })
    }

    /// Adds a function of values, which are broadcast.
    pub(super) fn function(
        &mut self,
        place: &Place<'_, 'a>,
        function: Function,
        inputs: &[Id],
    ) -> std::result::Result<Id, Reason> {
        let shapes: Vec<&[usize]> = inputs.iter().map(|&id| self.graph.shape(id)).collect();
        let shape = broadcast(&shapes)
            .ok_or_else(|| format!("shapes {shapes:?} cannot be broadcast to one"))?;
        let of = inputs.iter().skip(usize::from(function == Function::Where)).copied();
        let is_integer = |id: Id| self.graph.values[id].element == Element::Integer;
        let element = match function.is_condition() {
            true => Element::Boolean,
            false if of.clone().all(is_integer) => Element::Integer,
            false => Element::Float,
        };
        let is_mixed = element == Element::Float && of.clone().any(is_integer);
        let is_other = element == Element::Integer && !function.is_of_integers();
        let is_constant = |&id: &Id| self.graph.values[id].constant.is_some();
        if (is_mixed || is_other) && !inputs.iter().all(is_constant) {
            return Err(format!(
                "{function:?} of integers that depend on the inputs of the network"
            ));
        }
        self.operation(place, Operation::Elementwise(function), inputs, &shape, element)
    }

    /// Adds a view.
    pub(super) fn view(
        &mut self,
        place: &Place<'_, 'a>,
        view: View,
        input: Id,
        shape: &[usize],
    ) -> std::result::Result<Id, Reason> {
        let element = self.graph.values[input].element;
        self.operation(place, Operation::View(view), &[input], shape, element)
    }

    /// Adds the elements of a value in another shape.
    pub(super) fn reshape(
        &mut self,
        place: &Place<'_, 'a>,
        input: Id,
        shape: &[usize],
    ) -> std::result::Result<Id, Reason> {
        if self.graph.shape(input) == shape {
            return Ok(input);
        }
        self.view(place, View::Reshape, input, shape)
    }

    /// Adds a value with other dimensions in front.
    pub(super) fn permute(
        &mut self,
        place: &Place<'_, 'a>,
        input: Id,
        order: Vec<usize>,
    ) -> std::result::Result<Id, Reason> {
        let shape: Vec<usize> = order.iter().map(|&at| self.graph.shape(input)[at]).collect();
        self.view(place, View::Permute(order), input, &shape)
    }

    /// Adds a constant of integers.
    pub(super) fn integers(&mut self, shape: &[usize], values: Vec<i64>) -> Id {
        self.graph.add(Value {
            name: String::new(),
            shape: shape.to_vec(),
            element: Element::Integer,
            constant: Some(Data::Integers(values.into())),
        })
    }

    /// Adds a constant of one float.
    pub(super) fn scalar(&mut self, value: f32) -> Id {
        self.graph.add_constant("", &[], vec![value])
    }
}

pub(super) fn checked(shape: &[usize]) -> std::result::Result<(), Reason> {
    if shape.len() > MAX_RANK {
        return Err(format!("{} dimensions exceed the limit of {MAX_RANK}", shape.len()));
    }
    match num_elements(shape, MAX_ELEMENTS) {
        Some(_) => Ok(()),
        None => Err(format!("shape {shape:?} exceeds the limit of {MAX_ELEMENTS} elements")),
    }
}
