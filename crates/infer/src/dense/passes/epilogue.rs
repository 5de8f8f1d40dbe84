//! Activations and residual sums move into the convolution or product before them.

use super::super::function::Function;
use super::super::graph::{Epilogue, Graph, Id, Node, Operation, Residual, View};
use super::uses::{Uses, tidy};

/// The epilogue of an operation that has one.
pub(super) fn epilogue_of(operation: &mut Operation) -> Option<&mut Epilogue> {
    match operation {
        Operation::Convolution(conv) => Some(&mut conv.epilogue),
        Operation::Transposed(conv) => Some(&mut conv.epilogue),
        Operation::Product(epilogue) => Some(epilogue),
        _ => None,
    }
}

fn peek(node: &Node) -> Option<Epilogue> {
    epilogue_of(&mut node.operation.clone()).cloned()
}

/// The node that can take an activation of a value: what it writes is read once, through views of
/// all its elements that are read once as well.
fn taker(graph: &Graph, uses: &Uses, id: Id) -> Option<usize> {
    let mut current = id;
    loop {
        if !uses.is_read_once(current) {
            return None;
        }
        let (at, node) = uses.producer(graph, current)?;
        match &node.operation {
            Operation::View(View::Reshape | View::Permute(_)) => current = node.inputs[0],
            _ => {
                let epilogue = peek(node)?;
                let is_free = epilogue.activation.is_none()
                    && epilogue.residual.is_none_or(|residual| residual.before_activation);
                return is_free.then_some(at);
            }
        }
    }
}

/// Moves activations.
pub(super) fn activations(graph: &mut Graph) {
    for at in 0..graph.nodes.len() {
        // Activations of one node meet only one taker: uses stay right but for the values below.
        let Operation::Elementwise(function) = graph.nodes[at].operation else { continue };
        if function.activation().is_none() || graph.nodes[at].inputs.len() != 1 {
            continue;
        }
        let uses = Uses::of(graph);
        let (input, output) = (graph.nodes[at].inputs[0], graph.nodes[at].outputs[0]);
        let takers = match uses.producer(graph, input) {
            Some((_, node))
                if matches!(node.operation, Operation::Concat { .. })
                    && uses.is_read_once(input) =>
            {
                let takers = node.inputs.iter().map(|&part| taker(graph, &uses, part));
                takers.collect::<Option<Vec<usize>>>()
            }
            _ => taker(graph, &uses, input).map(|at| vec![at]),
        };
        let Some(takers) = takers else { continue };
        let layer = graph.nodes[at].layer.clone();
        for taker in takers {
            graph.nodes[taker].layer.absorb(&layer);
            if let Some(epilogue) = epilogue_of(&mut graph.nodes[taker].operation) {
                epilogue.activation = Some(function);
            }
        }
        stand_in(graph, at, input, output);
    }
    tidy(graph);
}

/// What reads the output of a node reads its input instead, and the node goes.
fn stand_in(graph: &mut Graph, at: usize, input: Id, output: Id) {
    graph.nodes[at].inputs.clear();
    graph.nodes[at].outputs.clear();
    // The value keeps the name of the later one.
    let name = graph.values[output].name.clone();
    graph.values[input].name = name;
    for node in &mut graph.nodes {
        node.inputs.iter_mut().filter(|id| **id == output).for_each(|id| *id = input);
    }
    graph.outputs.iter_mut().filter(|id| **id == output).for_each(|id| *id = input);
}

/// Moves residual sums, and then activations of the sums.
pub(super) fn residuals(graph: &mut Graph) {
    for at in 0..graph.nodes.len() {
        let _ = residual(graph, at);
    }
    tidy(graph);
    activations(graph);
}

fn residual(graph: &mut Graph, at: usize) -> Option<()> {
    let node = &graph.nodes[at];
    let (Operation::Elementwise(Function::Add), &[a, b]) = (&node.operation, &node.inputs[..])
    else {
        return None;
    };
    let output = node.outputs[0];
    if a == b {
        return None;
    }
    let whole = graph.shape(output).to_vec();
    let uses = Uses::of(graph);
    let free = |id: Id| {
        if graph.shape(id) != whole {
            return None;
        }
        let (at, node) = uses.producer(graph, id).filter(|_| uses.is_read_once(id))?;
        peek(node)?.residual.is_none().then_some(at)
    };
    // The later of the two reads the earlier one.
    let (taker, sum, other) = [(a, b), (b, a)]
        .into_iter()
        .filter_map(|(sum, other)| Some((free(sum)?, sum, other)))
        .max_by_key(|(at, ..)| *at)?;
    // What is broadcast along rows or columns is added by a program; a map by the batch is read as it is.
    let is_map = |shape: &[usize]| {
        shape.len() == whole.len() && shape.len() == 4 && shape[1..] == whole[1..]
    };
    if graph.shape(other) != whole && !is_map(graph.shape(other)) {
        return None;
    }
    let layer = graph.nodes[at].layer.clone();
    let taker = &mut graph.nodes[taker];
    taker.layer.absorb(&layer);
    let epilogue = epilogue_of(&mut taker.operation)?;
    let before_activation = epilogue.activation.is_none();
    epilogue.residual = Some(Residual { before_activation, upsample: 1 });
    taker.inputs.push(other);
    stand_in(graph, at, sum, output);
    Some(())
}
