//! Softmax, weights and their sum: the expectation of distribution focal loss.

use super::super::function::Function;
use super::super::graph::{Graph, Id, Operation, Reduction, View};
use super::uses::{Uses, tidy};

/// Finds `reduce_sum(softmax(x) * w)` and a 1x1 convolution of softmax to one channel.
pub(super) fn run(graph: &mut Graph) {
    let uses = Uses::of(graph);
    for at in 0..graph.nodes.len() {
        let _ = of_sum(graph, &uses, at).or_else(|| of_convolution(graph, &uses, at));
    }
    tidy(graph);
}

/// A softmax that writes a value, with its axis.
fn softmax_of(graph: &Graph, uses: &Uses, id: Id) -> Option<(usize, usize)> {
    let (at, node) = uses.producer(graph, id)?;
    match node.operation {
        Operation::Softmax { axis } => Some((at, axis)),
        _ => None,
    }
}

fn of_sum(graph: &mut Graph, uses: &Uses, at: usize) -> Option<()> {
    let node = &graph.nodes[at];
    let Operation::Reduce { kind: Reduction::Sum, axes, keeps } = &node.operation else {
        return None;
    };
    let (&[summed], keeps, product) = (&axes[..], *keeps, node.inputs[0]) else { return None };
    let (_, product) = uses.producer(graph, product)?;
    let (Operation::Elementwise(Function::Mul), &[a, b]) =
        (&product.operation, &product.inputs[..])
    else {
        return None;
    };
    let (softmax, axis, weights) =
        [(a, b), (b, a)].into_iter().find_map(|(softmax, weights)| {
            let (softmax, axis) = softmax_of(graph, uses, softmax)?;
            Some((softmax, axis, weights))
        })?;
    let (input, taken) = (graph.nodes[softmax].inputs[0], product.layer.clone());
    // Weights along the axis, the same everywhere else.
    let shape = graph.shape(input).to_vec();
    let value = &graph.values[weights];
    let floats = value.floats()?;
    let from_end = shape.len() - axis;
    let is_along = value.shape.len() >= from_end
        && value.shape.iter().enumerate().all(|(at, &length)| {
            length == 1 || (value.shape.len() - at == from_end && length == shape[axis])
        });
    if summed != axis || !is_along || floats.len() != shape[axis] {
        return None;
    }
    let weights = graph.add_constant("", &[shape[axis]], floats.to_vec());
    absorb(graph, at, softmax);
    graph.nodes[at].layer.absorb(&taken);
    replace(graph, at, input, axis, weights, keeps);
    Some(())
}

fn of_convolution(graph: &mut Graph, uses: &Uses, at: usize) -> Option<()> {
    let node = &graph.nodes[at];
    let Operation::Convolution(conv) = &node.operation else { return None };
    let (input, weight, bias) = (node.inputs[0], node.inputs[1], node.inputs[2]);
    let is_plain = conv.groups == 1
        && conv.stride == [1, 1]
        && conv.pads == [0; 4]
        && graph.shape(weight)[0] == 1
        && graph.shape(weight)[2..] == [1, 1]
        && graph.values[bias].floats()?.iter().all(|&value| value == 0.0);
    if !is_plain {
        return None;
    }
    let (_, producer) = uses.producer(graph, input)?;
    let (softmax, order) = match &producer.operation {
        Operation::View(View::Permute(order)) => (producer.inputs[0], order.clone()),
        _ => (input, (0..4).collect()),
    };
    let (softmax, axis) = softmax_of(graph, uses, softmax)?;
    let source = graph.nodes[softmax].inputs[0];
    if order[1] != axis {
        return None;
    }
    let weights = graph.values[weight].floats()?.to_vec();
    let weights = graph.add_constant("", &[weights.len()], weights);
    absorb(graph, at, softmax);
    // [N, 1, H, W] of the expectation, which has the other dimensions in their old order.
    let layer = graph.nodes[at].layer.clone();
    let shape = graph.shape(source).to_vec();
    let kept: Vec<usize> =
        shape.iter().enumerate().map(|(at, &of)| if at == axis { 1 } else { of }).collect();
    let expected = graph.add_floats("", &kept);
    let node = &mut graph.nodes[at];
    node.operation = Operation::View(View::Permute(order));
    node.inputs = vec![expected];
    let squeezed: Vec<usize> =
        (0..shape.len()).filter(|&at| at != axis).map(|at| shape[at]).collect();
    let inner = graph.add_floats("", &squeezed);
    let operation = Operation::Expectation { axis };
    let inputs = vec![source, weights];
    graph.nodes.push(super::super::graph::Node {
        layer: layer.clone(),
        operation,
        inputs,
        outputs: vec![inner],
    });
    let operation = Operation::View(View::Reshape);
    graph.nodes.push(super::super::graph::Node {
        layer,
        operation,
        inputs: vec![inner],
        outputs: vec![expected],
    });
    Some(())
}

/// A node takes over what another computes.
fn absorb(graph: &mut Graph, at: usize, other: usize) {
    let layer = graph.nodes[other].layer.clone();
    graph.nodes[at].layer.absorb(&layer);
}

fn replace(graph: &mut Graph, at: usize, input: Id, axis: usize, weights: Id, keeps: bool) {
    let operation = Operation::Expectation { axis };
    if !keeps {
        let node = &mut graph.nodes[at];
        (node.operation, node.inputs) = (operation, vec![input, weights]);
        return;
    }
    let mut shape = graph.shape(input).to_vec();
    shape.remove(axis);
    let inner = graph.add_floats("", &shape);
    let layer = graph.nodes[at].layer.clone();
    let inputs = vec![input, weights];
    graph.nodes.push(super::super::graph::Node { layer, operation, inputs, outputs: vec![inner] });
    let node = &mut graph.nodes[at];
    (node.operation, node.inputs) = (Operation::View(View::Reshape), vec![inner]);
}
