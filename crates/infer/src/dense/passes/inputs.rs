//! What a convolution or a pooling takes over from the nodes before it: pads, and YOLOX's focus.

use super::super::graph::{Graph, Id, Operation, View};
use super::uses::{Uses, tidy};

/// Moves pads and focus into the nodes that read them.
pub(super) fn run(graph: &mut Graph) {
    let uses = Uses::of(graph);
    for at in 0..graph.nodes.len() {
        let _ = focus(graph, &uses, at);
        while pads(graph, &uses, at).is_some() {}
    }
    tidy(graph);
}

/// Whether a value has this one float everywhere.
fn is_all(graph: &Graph, id: Id, value: f32) -> bool {
    graph.values[id].floats().is_some_and(|floats| floats.iter().all(|&float| float == value))
}

/// Constants of what a node adds around its input become pads.
fn pads(graph: &mut Graph, uses: &Uses, at: usize) -> Option<()> {
    let node = &graph.nodes[at];
    let value = match &node.operation {
        Operation::Convolution(conv) if conv.upsample == 1 => 0.0,
        Operation::Pool(pool) if pool.rounds_up => return None,
        Operation::Pool(pool) if pool.is_max => f32::NEG_INFINITY,
        Operation::Pool(pool) if pool.counts_pads || pool.pads == [0; 4] => 0.0,
        _ => return None,
    };
    let (_, concat) = uses.producer(graph, node.inputs[0])?;
    let Operation::Concat { axis: axis @ (2 | 3) } = concat.operation else { return None };
    let constant = |id: &Id| graph.values[*id].constant.is_some();
    let inner = concat.inputs.iter().position(|id| !constant(id))?;
    let parts = concat.inputs.clone();
    let added = |part: &[Id]| -> Option<usize> {
        part.iter().map(|&id| is_all(graph, id, value).then(|| graph.shape(id)[axis])).sum()
    };
    let (before, after) = (added(&parts[..inner])?, added(&parts[inner + 1..])?);
    let node = &mut graph.nodes[at];
    node.inputs[0] = parts[inner];
    let pads = match &mut node.operation {
        Operation::Convolution(conv) => &mut conv.pads,
        Operation::Pool(pool) => {
            // The pads of a mean were elements: they count.
            pool.counts_pads |= !pool.is_max;
            &mut pool.pads
        }
        _ => return None,
    };
    pads[axis - 2] += before;
    pads[axis] += after;
    Some(())
}

/// A convolution of the four quarters of a picture, one after another, is one of the picture with a
/// kernel and a stride twice as large.
fn focus(graph: &mut Graph, uses: &Uses, at: usize) -> Option<()> {
    let node = &graph.nodes[at];
    let Operation::Convolution(conv) = &node.operation else { return None };
    if conv.groups != 1 || conv.dilation != [1, 1] || conv.upsample != 1 {
        return None;
    }
    let (_, concat) = uses.producer(graph, node.inputs[0])?;
    let Operation::Concat { axis: 1 } = concat.operation else { return None };
    let quarter = |id: Id| {
        let (_, node) = uses.producer(graph, id)?;
        match &node.operation {
            Operation::View(View::Slice { starts, steps })
                if steps[..] == [1, 1, 2, 2]
                    && starts[..2] == [0, 0]
                    && starts[2..].iter().all(|&of| of < 2) =>
            {
                Some((node.inputs[0], [starts[2], starts[3]]))
            }
            _ => None,
        }
    };
    let quarters: Vec<(Id, [usize; 2])> =
        concat.inputs.iter().map(|&id| quarter(id)).collect::<Option<_>>()?;
    let (source, _) = *quarters.first()?;
    let &[_, channels, height, width] = graph.shape(source) else { return None };
    let is_whole = height % 2 == 0 && width % 2 == 0 && quarters.len() == 4;
    if !is_whole || quarters.iter().any(|(id, _)| *id != source) {
        return None;
    }
    let weight = graph.values[node.inputs[1]].floats()?;
    let &[m, _, kh, kw] = graph.shape(node.inputs[1]) else { return None };
    let name = graph.values[node.inputs[1]].name.clone();
    let mut enlarged = vec![0.0; m * channels * 4 * kh * kw];
    for (index, &value) in weight.iter().enumerate() {
        let (x, rest) = (index % kw, index / kw);
        let (y, rest) = (rest % kh, rest / kh);
        let (c, out) = (rest % (4 * channels), rest / (4 * channels));
        let [dy, dx] = quarters[c / channels].1;
        let row = (out * channels + c % channels) * 2 * kh + 2 * y + dy;
        enlarged[row * 2 * kw + 2 * x + dx] = value;
    }
    let weight = graph.add_constant(&name, &[m, channels, 2 * kh, 2 * kw], enlarged);
    let node = &mut graph.nodes[at];
    (node.inputs[0], node.inputs[1]) = (source, weight);
    if let Operation::Convolution(conv) = &mut node.operation {
        conv.stride = conv.stride.map(|stride| 2 * stride);
        conv.pads = conv.pads.map(|pad| 2 * pad);
    }
    Some(())
}
