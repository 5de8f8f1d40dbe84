//! A small network with what a detector's backbone has: convolutions with a
//! stride, SiLU, pooling, a concatenation, and rows at the end.

use det_post_types::ElementType;

use super::onnx::{Attr, Graph};

/// Input of the network, `[1, 3, 96, 160]`.
pub const INPUT: [usize; 4] = [1, 3, 96, 160];

/// Values in [-1, 1) that differ from place to place, the same for a seed.
pub fn noise(num: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..num).map(|_| next()).collect()
}

/// The network, with the last two dimensions of its input open or not.
pub fn network(is_open: bool) -> Graph {
    let [n, c, h, w] = INPUT.map(|n| n as i64);
    let dims = if is_open { [n, c, -1, -1] } else { [n, c, h, w] };
    let graph = Graph::new("backbone", "small convolutions for tests");
    let graph = graph.input("images", ElementType::F32, &dims);
    let graph = conv(graph, "stem", "images", [3, 16, 3, 2]);
    let graph = conv(graph, "down", "stem", [16, 32, 3, 2]);
    let graph = conv(graph, "left", "down", [32, 16, 1, 1]);
    let graph = conv(graph, "right", "down", [32, 16, 3, 1]);
    let pool = [
        ("kernel_shape", Attr::Ints(vec![5, 5])),
        ("pads", Attr::Ints(vec![2; 4])),
        ("strides", Attr::Ints(vec![1, 1])),
    ];
    let graph = graph.node("MaxPool", &["left"], &["pooled"], &pool);
    let axis = [("axis", Attr::Int(1))];
    let graph = graph.node("Concat", &["pooled", "right", "left"], &["joined"], &axis);
    let graph = conv(graph, "head", "joined", [48, 24, 3, 1]);
    if is_open {
        return graph.output("head", ElementType::F32, &[1, 24, -1, -1]);
    }
    let graph = graph.integers("rows_shape", &[1, 24, 24 * 40]);
    let graph = graph.op("Reshape", &["head", "rows_shape"], "rows");
    graph.output("rows", ElementType::F32, &[1, 24, 24 * 40])
}

/// A convolution of `[channels in, channels out, kernel, stride]` and SiLU.
fn conv(graph: Graph, name: &str, input: &str, [from, to, size, stride]: [i64; 4]) -> Graph {
    let (weights, bias) = (format!("{name}_weights"), format!("{name}_bias"));
    let (raw, gate) = (format!("{name}_raw"), format!("{name}_gate"));
    let num = (to * from * size * size) as usize;
    let scale = (3.0 / (from * size * size) as f32).sqrt();
    let values: Vec<f32> = noise(num, num as u32).iter().map(|v| v * scale).collect();
    let attributes = [
        ("kernel_shape", Attr::Ints(vec![size, size])),
        ("strides", Attr::Ints(vec![stride, stride])),
        ("pads", Attr::Ints(vec![size / 2; 4])),
    ];
    graph
        .constant(&weights, &[to, from, size, size], &values)
        .constant(&bias, &[to], &noise(to as usize, to as u32))
        .node("Conv", &[input, &weights, &bias], &[&raw], &attributes)
        .op("Sigmoid", &[&raw], &gate)
        .op("Mul", &[&raw, &gate], name)
}
