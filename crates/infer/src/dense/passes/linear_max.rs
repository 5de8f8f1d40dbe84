//! Products whose rows are reduced to the largest: the PFN layers of PointPillars.

use super::super::graph::{Graph, Operation, Reduction};
use super::uses::{Uses, tidy};
use det_post_ops::dense::linear_max::LinearMax;

/// Finds the largest over rows of products with few inputs.
pub(super) fn run(graph: &mut Graph) {
    let uses = Uses::of(graph);
    for at in 0..graph.nodes.len() {
        let _ = of_reduction(graph, &uses, at);
    }
    tidy(graph);
}

fn of_reduction(graph: &mut Graph, uses: &Uses, at: usize) -> Option<()> {
    let node = &graph.nodes[at];
    let Operation::Reduce { kind: Reduction::Max, axes, .. } = &node.operation else {
        return None;
    };
    let rows = node.inputs[0];
    let (_, product) = uses.producer(graph, rows).filter(|_| uses.is_read_once(rows))?;
    let Operation::Product(epilogue) = &product.operation else { return None };
    let [input, weight] = [product.inputs[0], product.inputs[1]];
    let &[inputs, outputs] = graph.shape(weight) else { return None };
    let [max_inputs, max_outputs] = LinearMax::MAX_CHANNELS;
    let fits = graph.shape(input).len() == 3
        && axes[..] == [1]
        && epilogue.residual.is_none()
        && graph.values[weight].floats().is_some()
        && inputs <= max_inputs
        && outputs <= max_outputs;
    if !fits {
        return None;
    }
    let operation = Operation::LinearMax { activation: epilogue.activation };
    let (inputs, layer) = (product.inputs.clone(), product.layer.clone());
    let node = &mut graph.nodes[at];
    node.layer.absorb(&layer);
    (node.operation, node.inputs) = (operation, inputs);
    Some(())
}
