//! Convolutions of the same input become one with the outputs of all, of which slices are read.

use std::collections::HashMap;

use super::super::graph::{Graph, Id, Layer, Node, Operation, View};
use super::uses::{Uses, tidy};

/// The most output channels of a convolution that others join.
const MAX_CHANNELS: usize = 512;
/// Slices begin at a multiple of so many channels: 16 bytes of f16.
const ALIGNMENT: usize = 8;

/// Merges convolutions.
pub(super) fn run(graph: &mut Graph) {
    let uses = Uses::of(graph);
    let mut groups: HashMap<Id, Vec<usize>> = HashMap::new();
    for (at, node) in graph.nodes.iter().enumerate() {
        if let Operation::Convolution(_) = node.operation
            && membership(graph, &uses, node).is_some()
        {
            groups.entry(node.inputs[0]).or_default().push(at);
        }
    }
    let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
    groups.sort_unstable();
    for members in groups {
        let mut rest = members;
        while let [first, ..] = rest[..] {
            let is_like = |&at: &usize| is_alike(graph, first, at);
            let (alike, others) = rest.iter().partition::<Vec<usize>, _>(|at| is_like(at));
            // One of them may be the last part of a concatenation: it comes first.
            let is_last =
                |&at: &usize| membership(graph, &uses, &graph.nodes[at]) == Some(Membership::Last);
            let (last, free) = alike.iter().partition::<Vec<usize>, _>(|at| is_last(at));
            let members = last.into_iter().take(1).chain(free).collect::<Vec<_>>();
            let _ = merge(graph, &members);
            rest = others;
        }
    }
    tidy(graph);
}

/// How the output of a convolution may be a slice of a larger one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Membership {
    /// Convolutions and poolings read it.
    Free,
    /// It is the last part of a concatenation: the larger one reaches beyond its end.
    Last,
}

fn membership(graph: &Graph, uses: &Uses, node: &Node) -> Option<Membership> {
    let output = node.outputs[0];
    let Operation::Convolution(conv) = &node.operation else { return None };
    let is_plain = conv.groups == 1
        && conv.epilogue.residual.is_none()
        && graph.shape(output)[1].is_multiple_of(ALIGNMENT)
        && !uses.is_output[output];
    let reads_maps = |&reader: &usize| {
        matches!(graph.nodes[reader].operation, Operation::Convolution(_) | Operation::Pool(_))
    };
    let readers = &uses.readers[output];
    if !is_plain {
        return None;
    }
    if readers.iter().all(reads_maps) {
        return Some(Membership::Free);
    }
    let &[reader] = &readers[..] else { return None };
    let concat = &graph.nodes[reader];
    let is_last = matches!(concat.operation, Operation::Concat { axis: 1 })
        && concat.inputs.last() == Some(&output)
        && !uses.is_output[concat.outputs[0]]
        && uses.readers[concat.outputs[0]].iter().all(reads_maps);
    is_last.then_some(Membership::Last)
}

fn is_alike(graph: &Graph, a: usize, b: usize) -> bool {
    let (a, b) = (&graph.nodes[a], &graph.nodes[b]);
    a.layer.is_kept() == b.layer.is_kept()
        && a.operation == b.operation
        && graph.shape(a.inputs[1])[1..] == graph.shape(b.inputs[1])[1..]
}

fn merge(graph: &mut Graph, members: &[usize]) -> Option<()> {
    let shape = graph.shape(graph.nodes[*members.first()?].outputs[0]).to_vec();
    let channels: Vec<usize> =
        members.iter().map(|&at| graph.shape(graph.nodes[at].outputs[0])[1]).collect();
    let total: usize = channels.iter().sum();
    if members.len() < 2 || total > MAX_CHANNELS {
        return None;
    }
    let joined = |graph: &Graph, input: usize| -> Option<Vec<f32>> {
        let parts = members.iter().map(|&at| graph.values[graph.nodes[at].inputs[input]].floats());
        Some(parts.collect::<Option<Vec<_>>>()?.concat())
    };
    let (weights, biases) = (joined(graph, 1)?, joined(graph, 2)?);
    let first = graph.nodes[members[0]].clone();
    let mut weight_shape = graph.shape(first.inputs[1]).to_vec();
    weight_shape[0] = total;
    let weight = graph.add_constant("", &weight_shape, weights);
    let bias = graph.add_constant("", &[total], biases);
    let whole = graph.add_floats(
        &graph.values[first.outputs[0]].name.clone(),
        &[shape[0], total, shape[2], shape[3]],
    );
    let mut start = 0;
    for (&at, of) in members.iter().zip(channels) {
        let node = &mut graph.nodes[at];
        node.operation =
            Operation::View(View::Slice { starts: vec![0, start, 0, 0], steps: vec![1; 4] });
        node.inputs = vec![whole];
        start += of;
    }
    let layers: Vec<&Layer> = members.iter().map(|&at| &graph.nodes[at].layer).collect();
    let layer = Layer::joined(&layers);
    let inputs = vec![first.inputs[0], weight, bias];
    graph.nodes.push(Node { layer, operation: first.operation, inputs, outputs: vec![whole] });
    Some(())
}
