//! Functions of elements in a row become programs, each of which is one launch.

use super::super::graph::{Data, Element, Graph, Id, Layer, Node, Operation, broadcast};
use super::super::program::{Instruction, Instructions, Operand};
use super::uses::{Uses, tidy};

/// Joins functions into programs.
pub(super) fn run(graph: &mut Graph) {
    let uses = Uses::of(graph);
    let mut groups = Groups::of(graph);
    for at in 0..graph.nodes.len() {
        if groups.group_of[at].is_none() {
            continue;
        }
        for input in graph.nodes[at].inputs.clone() {
            if let Some((producer, _)) = uses.producer(graph, input) {
                groups.join(graph, &uses, producer, at);
            }
        }
    }
    let lists: Vec<Vec<usize>> =
        groups.members.iter().filter(|members| !members.is_empty()).cloned().collect();
    for members in lists {
        if let Some((node, _)) = program(graph, &uses, &members) {
            for &at in &members {
                graph.nodes[at].inputs.clear();
                graph.nodes[at].outputs.clear();
            }
            // Where the last of them stood.
            if let Some(&last) = members.last() {
                graph.nodes[last] = node;
            }
        }
    }
    tidy(graph);
}

struct Groups {
    /// The group of each node that is a function of elements.
    group_of: Vec<Option<usize>>,
    /// Nodes by group, ascending.
    members: Vec<Vec<usize>>,
}

impl Groups {
    fn of(graph: &Graph) -> Self {
        let mut groups = Self { group_of: Vec::new(), members: Vec::new() };
        for (at, node) in graph.nodes.iter().enumerate() {
            let is_function = matches!(node.operation, Operation::Elementwise(_));
            groups.group_of.push(is_function.then_some(groups.members.len()));
            if is_function {
                groups.members.push(vec![at]);
            }
        }
        groups
    }

    /// Joins the group of a node and that of one that reads it, where one launch can compute both.
    fn join(&mut self, graph: &Graph, uses: &Uses, producer: usize, reader: usize) {
        let (Some(a), Some(b)) = (self.group_of[producer], self.group_of[reader]) else { return };
        let is_kept = |at: usize| graph.nodes[at].layer.is_kept();
        if a == b || is_kept(producer) != is_kept(reader) || !self.may_join(graph, uses, a, b) {
            return;
        }
        let mut members = self.members[a].clone();
        members.extend(&self.members[b]);
        members.sort_unstable();
        if program(graph, uses, &members).is_none_or(|(_, fits)| !fits) {
            return;
        }
        members.iter().for_each(|&at| self.group_of[at] = Some(b));
        self.members[a].clear();
        self.members[b] = members;
    }

    /// Whether nothing outside of both groups lies between them, and shapes fit.
    fn may_join(&self, graph: &Graph, uses: &Uses, a: usize, b: usize) -> bool {
        let is_inside = |at: usize| self.group_of[at] == Some(a) || self.group_of[at] == Some(b);
        let domain = |group: usize| {
            let shapes: Vec<&[usize]> = self.members[group]
                .iter()
                .map(|&at| graph.shape(graph.nodes[at].outputs[0]))
                .collect();
            broadcast(&shapes)
        };
        let (Some(of_a), Some(of_b)) = (domain(a), domain(b)) else { return false };
        if of_a != of_b {
            // A smaller result is computed at every place of the larger ones: only where nothing else reads it.
            let is_read_inside = |&at: &usize| {
                let output = graph.nodes[at].outputs[0];
                !uses.is_output[output]
                    && uses.readers[output].iter().all(|&reader| is_inside(reader))
            };
            let is_smaller = broadcast(&[&of_a, &of_b]).as_deref() == Some(&of_b[..]);
            if !is_smaller || of_a.len() > of_b.len() || !self.members[a].iter().all(is_read_inside)
            {
                return false;
            }
        }
        let mut seen = vec![false; graph.nodes.len()];
        let outputs = self.members[a].iter().map(|&at| graph.nodes[at].outputs[0]);
        let mut open: Vec<usize> = outputs
            .flat_map(|id| uses.readers[id].iter().copied())
            .filter(|&at| !is_inside(at))
            .collect();
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            if is_inside(at) {
                return false;
            }
            // Groups that were joined are left and entered at all of their nodes.
            if let Some(group) = self.group_of[at] {
                open.extend(self.members[group].iter().copied().filter(|other| *other != at));
            }
            open.extend(
                graph.nodes[at].outputs.iter().flat_map(|&id| uses.readers[id].iter().copied()),
            );
        }
        true
    }
}

/// The node of a group, and whether one launch can compute it.
fn program(graph: &Graph, uses: &Uses, members: &[usize]) -> Option<(Node, bool)> {
    let mut inputs: Vec<Id> = Vec::new();
    let mut outputs: Vec<Id> = Vec::new();
    let mut instructions = Instructions::default();
    let mut written: Vec<(Id, usize)> = Vec::new();
    for &at in members {
        let node = &graph.nodes[at];
        let Operation::Elementwise(function) = node.operation else { return None };
        let mut operand = |id: Id| {
            if let Some((_, place)) = written.iter().find(|(of, _)| *of == id) {
                return Operand::Result(*place);
            }
            let value = &graph.values[id];
            if let Some(scalar) = value.scalar() {
                return Operand::Scalar(scalar);
            }
            if let (1, Some(Data::Integers(values))) = (value.len(), &value.constant)
                && let Ok(integer) = i32::try_from(values[0])
            {
                return Operand::Integer(integer);
            }
            let place = inputs.iter().position(|of| *of == id).unwrap_or_else(|| {
                inputs.push(id);
                inputs.len() - 1
            });
            Operand::Input(place)
        };
        let operands: Vec<Operand> = node.inputs.iter().map(|&id| operand(id)).collect();
        let output = node.outputs[0];
        written.push((output, instructions.list.len()));
        instructions.list.push(Instruction { function, operands });
        let is_read_outside = |reader: &usize| !members.contains(reader);
        if uses.is_output[output] || uses.readers[output].iter().any(is_read_outside) {
            outputs.push(output);
            instructions.outputs.push(Operand::Result(instructions.list.len() - 1));
        }
    }
    let is_integer: Vec<bool> =
        inputs.iter().map(|&id| graph.values[id].element != Element::Float).collect();
    let fits = instructions.build(&is_integer).is_ok();
    let layers: Vec<&Layer> = members.iter().map(|&at| &graph.nodes[at].layer).collect();
    let layer = Layer::joined(&layers);
    Some((Node { layer, operation: Operation::Program(instructions), inputs, outputs }, fits))
}
