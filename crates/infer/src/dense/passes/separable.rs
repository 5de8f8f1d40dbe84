//! Poolings of many taps become one along columns and one along rows.

use super::super::graph::{Graph, Node, Operation, Pool};

/// Taps along both axes from which two launches take less time than one.
const MIN_TAPS: usize = 7;

/// Divides poolings. The largest values are the same. A mean is the mean of the means of its rows,
/// since each row has the same number of taps in the map and in the padding.
pub(super) fn run(graph: &mut Graph) {
    for node in std::mem::take(&mut graph.nodes) {
        match &node.operation {
            Operation::Pool(pool) if pool.kernel.iter().all(|&taps| taps >= MIN_TAPS) => {
                let halves = divided(graph, &node, pool);
                graph.nodes.extend(halves);
            }
            _ => graph.nodes.push(node),
        }
    }
}

/// Along the columns of a row, and then along the rows.
fn divided(graph: &mut Graph, node: &Node, pool: &Pool) -> [Node; 2] {
    let [input, output] = [node.inputs[0], node.outputs[0]];
    let rows = graph.shape(input)[2];
    let mut value = graph.values[output].clone();
    value.shape[2] = rows;
    let between = graph.add(value);
    let along = |axis: usize| {
        let of = |numbers: [usize; 2], neutral| {
            let mut one = [neutral; 2];
            one[axis] = numbers[axis];
            one
        };
        let mut pads = [0; 4];
        [pads[axis], pads[axis + 2]] = [pool.pads[axis], pool.pads[axis + 2]];
        Operation::Pool(Pool {
            kernel: of(pool.kernel, 1),
            stride: of(pool.stride, 1),
            dilation: of(pool.dilation, 1),
            pads,
            ..pool.clone()
        })
    };
    let part = |axis, from, to| Node {
        layer: node.layer.clone(),
        operation: along(axis),
        inputs: vec![from],
        outputs: vec![to],
    };
    [part(1, input, between), part(0, between, output)]
}
