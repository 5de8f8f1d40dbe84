//! Views: transpositions move down and slices up, until they meet others and vanish.

use super::super::function::Function;
use super::super::graph::{Affine, Graph, Id, Node, Operation, Value, View, fold_view};
use super::uses::{Uses, apply, tidy};

/// The most rounds; each moves every view by one node.
const MAX_ROUNDS: usize = 256;
/// The most nodes with which slices are copied to more than one reader.
const MAX_NODES: usize = 1 << 15;

/// Moves views until nothing changes.
pub(super) fn run(graph: &mut Graph) {
    rounds(graph, true);
}

/// Joins views with views, without moving them past other nodes.
pub(super) fn resolve(graph: &mut Graph) {
    rounds(graph, false);
}

fn rounds(graph: &mut Graph, moves: bool) {
    for _ in 0..MAX_ROUNDS {
        let uses = Uses::of(graph);
        let alias = (0..graph.values.len()).collect();
        let mut round = Round { graph, uses, alias, added: Vec::new(), has_changed: false, moves };
        (0..round.graph.nodes.len()).for_each(|at| round.visit(at));
        let Round { alias, added, has_changed, .. } = round;
        graph.nodes.extend(added);
        apply(graph, &alias);
        tidy(graph);
        if !has_changed || graph.nodes.len() > MAX_NODES {
            return;
        }
    }
}

struct Round<'g> {
    graph: &'g mut Graph,
    uses: Uses,
    /// The value that stands for each value.
    alias: Vec<Id>,
    added: Vec<Node>,
    has_changed: bool,
    moves: bool,
}

impl Round<'_> {
    fn resolved(&self, mut id: Id) -> Id {
        while let Some(&next) = self.alias.get(id)
            && next != id
        {
            id = next;
        }
        id
    }

    /// The view that writes a value, and what it reads.
    fn view_of(&self, id: Id) -> Option<(View, Id)> {
        let (_, node) = self.uses.producer(self.graph, id)?;
        match &node.operation {
            Operation::View(view) => Some((view.clone(), self.resolved(node.inputs[0]))),
            _ => None,
        }
    }

    /// The order of a transposition that writes a value, and what it reads.
    fn permuted(&self, id: Id) -> Option<(Vec<usize>, Id)> {
        match self.view_of(id)? {
            (View::Permute(order), input) => Some((order, input)),
            _ => None,
        }
    }

    fn visit(&mut self, at: usize) {
        let inputs: Vec<Id> =
            self.graph.nodes[at].inputs.iter().map(|&id| self.resolved(id)).collect();
        self.graph.nodes[at].inputs.clone_from(&inputs);
        let changed = match self.graph.nodes[at].operation.clone() {
            Operation::View(view) => self.view(at, &view, inputs[0]),
            _ if !self.moves => None,
            Operation::Elementwise(function) => self
                .sink_elementwise(at, &inputs)
                .or_else(|| self.hoist_slices(at, function, &inputs)),
            Operation::Affine(affine) => self.sink_affine(at, affine, inputs[0]),
            Operation::Softmax { axis } => {
                let (order, input) = match self.permuted(inputs[0]) {
                    Some(found) => found,
                    None => return,
                };
                let operation = Operation::Softmax { axis: order[axis] };
                self.sink(at, operation, vec![input], order)
            }
            Operation::Concat { axis } => self.sink_concat(at, axis, &inputs),
            Operation::Reduce { kind, axes, keeps: true } => {
                let Some((order, input)) = self.permuted(inputs[0]) else { return };
                let mut axes: Vec<usize> = axes.iter().map(|&axis| order[axis]).collect();
                axes.sort_unstable();
                self.sink(at, Operation::Reduce { kind, axes, keeps: true }, vec![input], order)
            }
            _ => None,
        };
        self.has_changed |= changed.is_some();
    }

    fn add_value(&mut self, like: Id, shape: &[usize]) -> Id {
        let value = &self.graph.values[like];
        let (name, element) = (value.name.clone(), value.element);
        let id = self.graph.add(Value { name, shape: shape.to_vec(), element, constant: None });
        self.alias.push(id);
        id
    }

    /// A view of a value, which is computed where that is constant.
    fn add_view(&mut self, layer_of: usize, view: View, input: Id, shape: &[usize]) -> Id {
        if self.graph.values[input].shape == shape
            && view != View::Reshape
            && !matches!(view, View::Permute(_))
        {
            return input;
        }
        let output = self.add_value(input, shape);
        let value = &self.graph.values[input];
        if let Some(data) = &value.constant {
            let data = fold_view(data, &value.shape, &view, shape);
            self.graph.values[output].constant = Some(data);
            return output;
        }
        let layer = self.graph.nodes[layer_of].layer.clone();
        let operation = Operation::View(view);
        self.added.push(Node { layer, operation, inputs: vec![input], outputs: vec![output] });
        output
    }

    /// Node `at` becomes a transposition of what `operation` computes before it.
    fn sink(
        &mut self,
        at: usize,
        operation: Operation,
        inputs: Vec<Id>,
        order: Vec<usize>,
    ) -> Option<()> {
        let output = self.graph.nodes[at].outputs[0];
        let shape = unpermuted(&self.graph.values[output].shape, &order);
        let inner = self.add_value(output, &shape);
        let layer = self.graph.nodes[at].layer.clone();
        self.added.push(Node { layer, operation, inputs, outputs: vec![inner] });
        let node = &mut self.graph.nodes[at];
        node.operation = Operation::View(View::Permute(order));
        node.inputs = vec![inner];
        Some(())
    }

    fn sink_affine(&mut self, at: usize, affine: Affine, input: Id) -> Option<()> {
        let (order, input) = self.permuted(input)?;
        let axis = order[affine.axis];
        self.sink(at, Operation::Affine(Affine { axis, ..affine }), vec![input], order)
    }

    /// A function of values that are all transposed in the same way, or constant.
    fn sink_elementwise(&mut self, at: usize, inputs: &[Id]) -> Option<()> {
        let orders = inputs.iter().filter(|&&id| self.graph.values[id].constant.is_none());
        let mut orders = orders.map(|&id| self.permuted(id));
        let (order, _) = orders.next()??;
        if orders.any(|other| other.is_none_or(|(other, _)| other != order)) {
            return None;
        }
        let output = self.graph.nodes[at].outputs[0];
        if self.graph.values[output].shape.len() != order.len() {
            return None;
        }
        let mut sunk = Vec::with_capacity(inputs.len());
        for &id in inputs {
            if let Some((_, input)) = self.permuted(id) {
                sunk.push(input);
                continue;
            }
            // A constant, with as many dimensions as the others and these in their order.
            let missing = order.len() - self.graph.values[id].shape.len();
            let own = self.graph.values[id].shape.iter().copied();
            let shape: Vec<usize> = std::iter::repeat_n(1, missing).chain(own).collect();
            let id = self.add_view(at, View::Reshape, id, &shape);
            let turned = unpermuted(&shape, &order);
            sunk.push(self.add_view(at, View::Permute(inverse(&order)), id, &turned));
        }
        let operation = self.graph.nodes[at].operation.clone();
        self.sink(at, operation, sunk, order)
    }

    fn sink_concat(&mut self, at: usize, axis: usize, inputs: &[Id]) -> Option<()> {
        let parts: Option<Vec<(Vec<usize>, Id)>> =
            inputs.iter().map(|&id| self.permuted(id)).collect();
        if let Some(parts) = parts {
            let order = parts.first()?.0.clone();
            if parts.iter().all(|(other, _)| *other == order) {
                let inputs = parts.into_iter().map(|(_, id)| id).collect();
                return self.sink(at, Operation::Concat { axis: order[axis] }, inputs, order);
            }
            return None;
        }
        self.join_slices(at, axis, inputs)
    }

    /// Neighbouring slices of one value become one part.
    fn join_slices(&mut self, at: usize, axis: usize, inputs: &[Id]) -> Option<()> {
        for (place, pair) in inputs.windows(2).enumerate() {
            let [
                Some((View::Slice { starts, steps }, a)),
                Some((View::Slice { starts: next, steps: others }, b)),
            ] = [self.view_of(pair[0]), self.view_of(pair[1])]
            else {
                continue;
            };
            let length = self.graph.values[pair[0]].shape[axis];
            let is_next = (0..starts.len()).all(|at| match at == axis {
                true => next[at] == starts[at] + length,
                false => next[at] == starts[at],
            });
            if a != b || !is_next || steps.iter().chain(&others).any(|&step| step != 1) {
                continue;
            }
            let mut shape = self.graph.values[pair[0]].shape.clone();
            shape[axis] += self.graph.values[pair[1]].shape[axis];
            let joined = self.add_view(at, View::Slice { starts, steps }, a, &shape);
            let mut parts = inputs.to_vec();
            parts.splice(place..place + 2, [joined]);
            if let [only] = parts[..] {
                self.alias[self.graph.nodes[at].outputs[0]] = only;
            } else {
                self.graph.nodes[at].inputs = parts;
            }
            return Some(());
        }
        None
    }

    /// A function that only slices read: the slices are taken before it.
    fn hoist_slices(&mut self, at: usize, function: Function, inputs: &[Id]) -> Option<()> {
        let output = self.graph.nodes[at].outputs[0];
        let readers = self.uses.readers[output].clone();
        if readers.is_empty() || self.uses.is_output[output] || readers.len() > 8 {
            return None;
        }
        let slice = |&reader: &usize| match &self.graph.nodes[reader].operation {
            Operation::View(View::Slice { starts, steps }) => {
                Some((reader, starts.clone(), steps.clone()))
            }
            _ => None,
        };
        let slices = readers.iter().map(slice).collect::<Option<Vec<_>>>();
        let layer = self.graph.nodes[at].layer.clone();
        for (reader, starts, steps) in slices? {
            let to = self.graph.values[self.graph.nodes[reader].outputs[0]].shape.clone();
            let sliced: Vec<Id> = inputs
                .iter()
                .map(|&input| {
                    let from = self.graph.values[input].shape.clone();
                    let missing = to.len() - from.len();
                    let is_one = |at: usize| from[at] == 1;
                    let pick = |list: &[usize], one: usize| -> Vec<usize> {
                        (0..from.len())
                            .map(|at| if is_one(at) { one } else { list[missing + at] })
                            .collect()
                    };
                    let (starts, steps, shape) = (pick(&starts, 0), pick(&steps, 1), pick(&to, 1));
                    self.add_view(reader, View::Slice { starts, steps }, input, &shape)
                })
                .collect();
            let node = &mut self.graph.nodes[reader];
            node.operation = Operation::Elementwise(function);
            node.layer.absorb(&layer);
            node.inputs = sliced;
        }
        Some(())
    }

    fn view(&mut self, at: usize, view: &View, input: Id) -> Option<()> {
        let output = self.graph.nodes[at].outputs[0];
        let is_whole = match view {
            View::Permute(order) => order.iter().enumerate().all(|(at, &of)| at == of),
            _ => self.graph.values[output].shape == self.graph.values[input].shape,
        };
        if is_whole && !self.uses.is_output[output] {
            self.alias[output] = input;
            return Some(());
        }
        if let Some(data) = &self.graph.values[input].constant {
            let shape = self.graph.values[output].shape.clone();
            let data = fold_view(data, &self.graph.values[input].shape, view, &shape);
            // A constant output is still copied by a node.
            if !self.uses.is_output[output] {
                let element = self.graph.values[input].element;
                let name = self.graph.values[output].name.clone();
                let id = self.graph.add(Value { name, shape, element, constant: Some(data) });
                self.alias.push(id);
                self.alias[output] = id;
                return Some(());
            }
            return None;
        }
        if let View::Slice { starts, steps } = view
            && let Some(()) = self.slice_of_concat(at, starts, steps, input)
        {
            return Some(());
        }
        let (inner, source) = self.view_of(input)?;
        let joined = match (view, inner) {
            (View::Reshape, View::Reshape) => (View::Reshape, source),
            (View::Permute(order), View::Permute(inner)) => {
                (View::Permute(order.iter().map(|&at| inner[at]).collect()), source)
            }
            (View::Slice { starts, steps }, View::Slice { starts: inner, steps: strides }) => {
                let starts = starts.iter().zip(&inner).zip(&strides);
                let starts =
                    starts.map(|((start, inner), stride)| inner + start * stride).collect();
                let steps =
                    steps.iter().zip(&strides).map(|(step, stride)| step * stride).collect();
                (View::Slice { starts, steps }, source)
            }
            (View::Slice { starts, steps }, View::Permute(order)) if self.moves => {
                let back = inverse(&order);
                let starts = back.iter().map(|&at| starts[at]).collect();
                let steps = back.iter().map(|&at| steps[at]).collect();
                let shape = unpermuted(&self.graph.values[output].shape, &order);
                let slice = self.add_view(at, View::Slice { starts, steps }, source, &shape);
                (View::Permute(order), slice)
            }
            _ => return None,
        };
        let node = &mut self.graph.nodes[at];
        node.operation = Operation::View(joined.0);
        node.inputs = vec![joined.1];
        Some(())
    }

    /// A slice within one part of a concatenation is a slice of the part.
    fn slice_of_concat(
        &mut self,
        at: usize,
        starts: &[usize],
        steps: &[usize],
        input: Id,
    ) -> Option<()> {
        let (_, node) = self.uses.producer(self.graph, input)?;
        let Operation::Concat { axis } = node.operation else { return None };
        let parts = node.inputs.clone();
        let output = self.graph.nodes[at].outputs[0];
        let shape = self.graph.values[output].shape.clone();
        let last = starts[axis] + (shape[axis].checked_sub(1)?) * steps[axis];
        let mut begin = 0;
        for part in parts {
            let part = self.resolved(part);
            let length = self.graph.values[part].shape[axis];
            if begin <= starts[axis] && last < begin + length {
                let mut starts = starts.to_vec();
                starts[axis] -= begin;
                let node = &mut self.graph.nodes[at];
                node.operation = Operation::View(View::Slice { starts, steps: steps.to_vec() });
                node.inputs = vec![part];
                return Some(());
            }
            begin += length;
        }
        None
    }
}

/// The order that undoes one.
pub(in super::super) fn inverse(order: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, &of)| inverse[of] = at);
    inverse
}

/// The shape of which a shape is the transposition.
fn unpermuted(shape: &[usize], order: &[usize]) -> Vec<usize> {
    inverse(order).iter().map(|&at| shape[at]).collect()
}
