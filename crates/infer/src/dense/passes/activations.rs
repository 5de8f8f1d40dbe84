//! Functions that a file spells out.

use super::super::function::Function;
use super::super::graph::{Graph, Id, Layer, Operation};
use super::uses::{Uses, tidy};

/// Replaces `x * sigmoid(x)`, `x * hardsigmoid(x)`, `x * tanh(softplus(x))`, `x * clip(x + 3, 0, 6) / 6`.
pub(super) fn run(graph: &mut Graph) {
    let uses = Uses::of(graph);
    for at in 0..graph.nodes.len() {
        let found = match graph.nodes[at].operation {
            Operation::Elementwise(Function::Mul) => {
                gated(graph, &uses, at).or_else(|| sixth(graph, &uses, at))
            }
            Operation::Elementwise(Function::Div) => sixth(graph, &uses, at),
            _ => None,
        };
        if let Some((function, input)) = found {
            let taken = between(graph, &uses, at, input);
            let node = &mut graph.nodes[at];
            node.operation = Operation::Elementwise(function);
            node.inputs = vec![input];
            taken.iter().for_each(|layer| node.layer.absorb(layer));
        }
    }
    tidy(graph);
}

/// The layers of the functions between a value and a node.
fn between(graph: &Graph, uses: &Uses, at: usize, input: Id) -> Vec<Layer> {
    let mut layers = Vec::new();
    let mut open = graph.nodes[at].inputs.clone();
    while let Some(id) = open.pop() {
        if let Some((_, node)) = uses.producer(graph, id).filter(|_| id != input)
            && let Operation::Elementwise(_) = node.operation
            // The longest of the functions above has four.
            && layers.len() < 4
        {
            layers.push(node.layer.clone());
            open.extend(&node.inputs);
        }
    }
    layers
}

fn function_of(graph: &Graph, uses: &Uses, id: Id) -> Option<(Function, Vec<Id>)> {
    let (_, node) = uses.producer(graph, id)?;
    match node.operation {
        Operation::Elementwise(function) => Some((function, node.inputs.clone())),
        _ => None,
    }
}

/// `x * f(x)`.
fn gated(graph: &Graph, uses: &Uses, at: usize) -> Option<(Function, Id)> {
    let [a, b] = graph.nodes[at].inputs[..] else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(x, gate)| {
        let (function, inputs) = function_of(graph, uses, gate)?;
        let input = *inputs.first()?;
        match function {
            Function::Sigmoid if input == x => Some((Function::Silu, x)),
            Function::HardSigmoid(alpha, 0.5) if input == x && (alpha - 1.0 / 6.0).abs() < 1e-6 => {
                Some((Function::HardSwish, x))
            }
            Function::Tanh => match function_of(graph, uses, input)? {
                (Function::Softplus, inner) if inner == [x] => Some((Function::Mish, x)),
                _ => None,
            },
            _ => None,
        }
    })
}

/// `x * clip(x + 3, 0, 6)` over 6, or times its reciprocal.
fn sixth(graph: &Graph, uses: &Uses, at: usize) -> Option<(Function, Id)> {
    let node = &graph.nodes[at];
    let [product, factor] = node.inputs[..] else { return None };
    let factor = graph.values[factor].scalar()?;
    let is_sixth = match node.operation {
        Operation::Elementwise(Function::Div) => factor == 6.0,
        _ => (factor - 1.0 / 6.0).abs() < 1e-6,
    };
    let (Function::Mul, pair) = function_of(graph, uses, product).filter(|_| is_sixth)? else {
        return None;
    };
    let &[a, b] = &pair[..] else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(x, gate)| {
        let (Function::Clip(0.0, 6.0), clipped) = function_of(graph, uses, gate)? else {
            return None;
        };
        let (Function::Add, sum) = function_of(graph, uses, *clipped.first()?)? else {
            return None;
        };
        let &[p, q] = &sum[..] else { return None };
        let is_shift = |id: Id, three: Id| id == x && graph.values[three].scalar() == Some(3.0);
        (is_shift(p, q) || is_shift(q, p)).then_some((Function::HardSwish, x))
    })
}
