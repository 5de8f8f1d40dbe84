//! Factors and summands by channel: into the weights before or after them, in f64.

use std::sync::Arc;

use super::super::function::Function;
use super::super::graph::{Affine, Graph, Id, Node, Operation, Value};
use super::uses::{Uses, tidy};

/// Moves factors and summands by channel into weights.
pub(super) fn run(graph: &mut Graph) {
    let mut uses = Uses::of(graph);
    for at in 0..graph.nodes.len() {
        if as_affine(graph, &uses, at).is_some()
            || matches!(graph.nodes[at].operation, Operation::Affine(_))
        {
            if into_weights(graph, &uses, at).is_some() {
                uses = Uses::of(graph);
            }
        } else {
            let _ = from_input(graph, &uses, at);
        }
    }
    tidy(graph);
}

/// The axis of channels that a node with weights writes.
fn channel_axis(graph: &Graph, node: &Node) -> Option<usize> {
    match &node.operation {
        Operation::Convolution(conv) if conv.epilogue == Default::default() => Some(1),
        Operation::Transposed(conv) if conv.epilogue == Default::default() => Some(1),
        Operation::Product(epilogue) if *epilogue == Default::default() => {
            // The weight has no batch.
            let weight = &graph.values[node.inputs[1]];
            let rank = graph.shape(node.outputs[0]).len();
            (weight.constant.is_some() && weight.shape.len() == 2).then(|| rank - 1)
        }
        _ => None,
    }
}

/// Values by the index along one axis, the same along all others; `None` for others.
fn along(value: &Value, rank: usize, axis: usize, length: usize) -> Option<Vec<f64>> {
    let floats = value.floats()?;
    if floats.len() == 1 {
        return (value.shape.len() <= rank).then(|| vec![f64::from(floats[0]); length]);
    }
    let missing = rank.checked_sub(value.shape.len())?;
    let is_along = value
        .shape
        .iter()
        .enumerate()
        .all(|(at, &of)| of == 1 || (at + missing == axis && of == length));
    is_along.then(|| floats.iter().map(|&float| f64::from(float)).collect())
}

/// A sum, difference, product or quotient of what has weights and of a constant by channel becomes an affine function.
fn as_affine(graph: &mut Graph, uses: &Uses, at: usize) -> Option<()> {
    let node = &graph.nodes[at];
    let Operation::Elementwise(function) = node.operation else { return None };
    let &[a, b] = &node.inputs[..] else { return None };
    let (x, constant) = if graph.values[b].constant.is_some() { (a, b) } else { (b, a) };
    let (_, producer) = uses.producer(graph, x).filter(|_| uses.is_read_once(x))?;
    let axis = channel_axis(graph, producer)?;
    let shape = graph.shape(x).to_vec();
    if graph.shape(node.outputs[0]) != shape {
        return None;
    }
    let length = shape[axis];
    let values = along(&graph.values[constant], shape.len(), axis, length)?;
    let (ones, zeros) = (vec![1.0; length], vec![0.0; length]);
    let is_first = x == a;
    let (scale, shift) = match function {
        Function::Add => (ones, values),
        Function::Sub if is_first => (ones, values.iter().map(|value| -value).collect()),
        Function::Sub => (vec![-1.0; length], values),
        Function::Mul => (values, zeros),
        Function::Div if is_first => (values.iter().map(|value| 1.0 / value).collect(), zeros),
        _ => return None,
    };
    let node = &mut graph.nodes[at];
    node.operation = Operation::Affine(Affine { axis, scale: scale.into(), shift: shift.into() });
    node.inputs = vec![x];
    Some(())
}

/// An affine function of what has weights moves into these.
fn into_weights(graph: &mut Graph, uses: &Uses, at: usize) -> Option<()> {
    let node = &graph.nodes[at];
    let Operation::Affine(affine) = node.operation.clone() else { return None };
    let (x, output) = (node.inputs[0], node.outputs[0]);
    let (of, producer) = uses.producer(graph, x).filter(|_| uses.is_read_once(x))?;
    if channel_axis(graph, producer)? != affine.axis {
        return None;
    }
    let (weight, bias) = (producer.inputs[1], producer.inputs[2]);
    let weights = graph.values[weight].floats()?;
    let shape = graph.shape(weight).to_vec();
    // The output channel of a weight by its place.
    let channel: Box<dyn Fn(usize) -> usize> = match &producer.operation {
        Operation::Convolution(_) => {
            let inner: usize = shape[1..].iter().product();
            Box::new(move |at| at / inner.max(1))
        }
        Operation::Transposed(conv) => {
            let (area, per_group) = (shape[2] * shape[3], shape[1]);
            let inputs_per_group = shape[0] / conv.groups;
            Box::new(move |at| {
                let (input, m) = (at / area / per_group, at / area % per_group);
                input / inputs_per_group * per_group + m
            })
        }
        _ => {
            let num = shape[1];
            Box::new(move |at| at % num)
        }
    };
    let scaled = weights.iter().enumerate();
    let scaled: Vec<f32> =
        scaled.map(|(at, &value)| (f64::from(value) * affine.scale[channel(at)]) as f32).collect();
    let biases = graph.values[bias].floats()?;
    let biases = biases.iter().zip(&*affine.scale).zip(&*affine.shift);
    let shifted: Vec<f32> =
        biases.map(|((&b, scale), shift)| (f64::from(b) * scale + shift) as f32).collect();
    if scaled.iter().chain(&shifted).any(|value| !value.is_finite()) {
        return None;
    }
    let (name, num) = (graph.values[weight].name.clone(), shifted.len());
    let weight = graph.add_constant(&name, &shape, scaled);
    let bias = graph.add_constant(&name, &[num], shifted);
    let layer = graph.nodes[at].layer.clone();
    let producer = &mut graph.nodes[of];
    producer.layer.absorb(&layer);
    producer.inputs[1] = weight;
    producer.inputs[2] = bias;
    producer.outputs[0] = output;
    graph.nodes[at].outputs.clear();
    graph.nodes[at].inputs.clear();
    Some(())
}

/// A factor by channel of what a product of matrices reads moves into its weight.
fn from_input(graph: &mut Graph, uses: &Uses, at: usize) -> Option<()> {
    let node = &graph.nodes[at];
    let Operation::Product(_) = node.operation else { return None };
    let (x, weight) = (node.inputs[0], node.inputs[1]);
    let (_, scale) = uses.producer(graph, x)?;
    let (Operation::Elementwise(Function::Mul), &[a, b]) = (&scale.operation, &scale.inputs[..])
    else {
        return None;
    };
    let (source, factors): (Id, Id) =
        if graph.values[b].constant.is_some() { (a, b) } else { (b, a) };
    let shape = graph.shape(x).to_vec();
    let &[k, n] = graph.shape(weight) else { return None };
    if graph.shape(source) != shape {
        return None;
    }
    let factors = along(&graph.values[factors], shape.len(), shape.len() - 1, k)?;
    let weights = graph.values[weight].floats()?;
    let scaled = weights.iter().enumerate();
    let scaled: Vec<f32> =
        scaled.map(|(at, &value)| (f64::from(value) * factors[at / n.max(1)]) as f32).collect();
    let (name, layer) = (graph.values[weight].name.clone(), scale.layer.clone());
    let weight = graph.add_constant(&name, &[k, n], scaled);
    let node = &mut graph.nodes[at];
    node.layer.absorb(&layer);
    (node.inputs[0], node.inputs[1]) = (source, weight);
    Some(())
}

/// Affine functions that no weights took become products and sums.
pub(super) fn spell_out(graph: &mut Graph) {
    for at in 0..graph.nodes.len() {
        let node = &graph.nodes[at];
        let Operation::Affine(affine) = node.operation.clone() else { continue };
        let (layer, input, output) = (node.layer.clone(), node.inputs[0], node.outputs[0]);
        let shape = graph.shape(output).to_vec();
        let mut along = vec![1; shape.len() - affine.axis];
        along[0] = shape[affine.axis];
        let floats = |list: &Arc<[f64]>| list.iter().map(|&value| value as f32).collect();
        let scale = graph.add_constant("", &along, floats(&affine.scale));
        let shift = graph.add_constant("", &along, floats(&affine.shift));
        let product = graph.add_floats(&graph.values[output].name.clone(), &shape);
        let node = &mut graph.nodes[at];
        node.operation = Operation::Elementwise(Function::Add);
        node.inputs = vec![product, shift];
        let operation = Operation::Elementwise(Function::Mul);
        graph.nodes.push(Node {
            layer,
            operation,
            inputs: vec![input, scale],
            outputs: vec![product],
        });
    }
    tidy(graph);
}
