//! Nearest enlargements by 2.

use super::super::graph::{Coordinates, Graph, Operation, Resize, Rounding};
use super::uses::{Uses, tidy};

/// The most multiplications that a convolution may do more when it reads an enlargement.
const MAX_MORE: usize = 128 << 20;

/// Whether a resize repeats every element twice, down and right.
pub(in super::super) fn is_double(resize: &Resize, from: &[usize], to: &[usize]) -> bool {
    let rank = from.len();
    (rank - 2..rank).all(|axis| {
        let scale = f64::from(resize.scales[axis + 2 - rank]);
        to[axis] == 2 * from[axis]
            && scale == 2.0
            && (0..to[axis]).all(|x| nearest(resize, x, scale) == x / 2)
    }) && !resize.is_linear
}

fn nearest(resize: &Resize, x: usize, scale: f64) -> usize {
    let x = x as f64;
    let place = match resize.coordinates {
        Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => (x + 0.5) / scale - 0.5,
        Coordinates::Asymmetric => x / scale,
        // Other places than in a doubling.
        Coordinates::AlignCorners => return usize::MAX,
    };
    let rounded = match resize.rounding {
        Rounding::PreferFloor => (place - 0.5).ceil(),
        Rounding::PreferCeil => (place + 0.5).floor(),
        Rounding::Floor => place.floor(),
        Rounding::Ceil => place.ceil(),
    };
    rounded.max(0.0) as usize
}

/// Moves enlargements into the 1x1 convolution that writes what they read, or into all convolutions that read them.
pub(super) fn run(graph: &mut Graph) {
    for at in 0..graph.nodes.len() {
        let node = &graph.nodes[at];
        let Operation::Resize(resize) = &node.operation else { continue };
        let (input, output) = (node.inputs[0], node.outputs[0]);
        if is_double(resize, graph.shape(input), graph.shape(output))
            && graph.shape(input).len() == 4
        {
            let uses = Uses::of(graph);
            let _ = into_readers(graph, &uses, at).or_else(|| into_writer(graph, &uses, at));
        }
    }
    tidy(graph);
}

/// All readers are convolutions.
fn into_readers(graph: &mut Graph, uses: &Uses, at: usize) -> Option<()> {
    let (input, output) = (graph.nodes[at].inputs[0], graph.nodes[at].outputs[0]);
    let takes = |reader: &usize| match &graph.nodes[*reader].operation {
        Operation::Convolution(conv) => {
            conv.upsample == 1 && conv.groups == 1 && graph.nodes[*reader].inputs[0] == output
        }
        _ => false,
    };
    let readers = &uses.readers[output];
    if readers.is_empty() || uses.is_output[output] || !readers.iter().all(takes) {
        return None;
    }
    for &reader in readers {
        let node = &mut graph.nodes[reader];
        node.inputs[0] = input;
        if let Operation::Convolution(conv) = &mut node.operation {
            conv.upsample = 2;
        }
    }
    Some(())
}

/// A 1x1 convolution before it computes the same of the enlarged input.
fn into_writer(graph: &mut Graph, uses: &Uses, at: usize) -> Option<()> {
    let (input, output) = (graph.nodes[at].inputs[0], graph.nodes[at].outputs[0]);
    let (of, producer) = uses.producer(graph, input).filter(|_| uses.is_read_once(input))?;
    let Operation::Convolution(conv) = &producer.operation else { return None };
    let weight = graph.shape(producer.inputs[1]).to_vec();
    let is_pointwise = weight[2..] == [1, 1]
        && conv.stride == [1, 1]
        && conv.pads == [0; 4]
        && conv.groups == 1
        && conv.upsample == 1
        && conv.epilogue.residual.is_none();
    let [n, _, h, w] = graph.shape(input)[..] else { return None };
    let more = [n, h, w, 3, weight[0], weight[1]];
    let more = more.iter().try_fold(1_usize, |num, &of| num.checked_mul(of))?;
    if !is_pointwise || more > MAX_MORE {
        return None;
    }
    let producer = &mut graph.nodes[of];
    producer.outputs[0] = output;
    if let Operation::Convolution(conv) = &mut producer.operation {
        conv.upsample = 2;
    }
    graph.nodes[at].inputs.clear();
    graph.nodes[at].outputs.clear();
    Some(())
}
