//! Nodes that read constants only.

use super::super::graph::{Convolution, Data, Graph, Id, Operation, fold_elementwise, fold_view};
use super::uses::tidy;

/// The most multiplications of a convolution that is computed when a network is loaded.
const MAX_PRODUCTS: usize = 1 << 26;

/// Computes convolutions of constants, which encode positions, and what follows them.
pub(super) fn run(graph: &mut Graph) {
    for at in 0..graph.nodes.len() {
        let node = &graph.nodes[at];
        let is_constant = |id: &Id| graph.values[*id].constant.is_some();
        if node.outputs.len() != 1 || !node.inputs.iter().all(is_constant) {
            continue;
        }
        let output = node.outputs[0];
        let shape = graph.shape(output);
        let data = match &node.operation {
            Operation::Convolution(conv) => convolution(graph, conv, &node.inputs, shape),
            Operation::Elementwise(function) => {
                let inputs: Vec<_> = node.inputs.iter().map(|&id| &graph.values[id]).collect();
                fold_elementwise(*function, &inputs, shape)
            }
            Operation::View(view) => {
                let value = &graph.values[node.inputs[0]];
                value.constant.as_ref().map(|data| fold_view(data, &value.shape, view, shape))
            }
            _ => None,
        };
        if let Some(data) = data {
            graph.values[output].constant = Some(data);
            graph.nodes[at].inputs.clear();
            graph.nodes[at].outputs.clear();
        }
    }
    tidy(graph);
}

fn convolution(graph: &Graph, conv: &Convolution, inputs: &[Id], shape: &[usize]) -> Option<Data> {
    let &[input, weight, bias] = inputs else { return None };
    let (x, w, b) = (
        graph.values[input].floats()?,
        graph.values[weight].floats()?,
        graph.values[bias].floats()?,
    );
    let &[_, c, h, width] = graph.shape(input) else { return None };
    let &[_, per_group, kh, kw] = graph.shape(weight) else { return None };
    let &[n, m, oh, ow] = shape else { return None };
    let num = [n, m, oh, ow, per_group, kh, kw]
        .iter()
        .try_fold(1_usize, |num, &of| num.checked_mul(of))?;
    if num > MAX_PRODUCTS || conv.upsample != 1 || conv.epilogue != Default::default() {
        return None;
    }
    let mut values = Vec::with_capacity(n * m * oh * ow);
    let inside = |axis: usize, at: usize, tap: usize, size: usize| {
        let at = at * conv.stride[axis] + tap * conv.dilation[axis];
        at.checked_sub(conv.pads[axis]).filter(|&at| at < size)
    };
    for index in 0..n * m * oh * ow {
        let (ox, rest) = (index % ow, index / ow);
        let (oy, rest) = (rest % oh, rest / oh);
        let (out, item) = (rest % m, rest / m);
        let first = out / (m / conv.groups) * per_group;
        let mut sum = f64::from(b[out]);
        for tap in 0..kh * kw {
            let Some(y) = inside(0, oy, tap / kw, h) else { continue };
            let Some(px) = inside(1, ox, tap % kw, width) else { continue };
            for channel in 0..per_group {
                let value = x[((item * c + first + channel) * h + y) * width + px];
                sum += f64::from(value) * f64::from(w[(out * per_group + channel) * kh * kw + tap]);
            }
        }
        values.push(sum as f32);
    }
    Some(Data::Floats(values.into()))
}
