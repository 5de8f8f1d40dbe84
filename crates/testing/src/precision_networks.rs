//! Small networks in which 16-bit floats overflow or lose what matters, or whose layers need not follow each other.

use super::onnx::{Attr, Graph};
use det_post_types::ElementType::F32;

/// Values in [-scale / 2, scale / 2) that differ from place to place, the same every time.
fn noise(num: usize, scale: f32, seed: u32) -> Vec<f32> {
    let mut state = 0x2545_f491_u32 ^ seed.wrapping_mul(0x9e37_79b9);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        ((state >> 8) as f32 / (1 << 24) as f32 - 0.5) * scale
    };
    (0..num).map(|_| next()).collect()
}

/// A weight.
fn weight(graph: Graph, name: &str, dims: &[i64], scale: f32) -> Graph {
    let seed = name.bytes().fold(7_u32, |seed, byte| seed.wrapping_mul(31) + u32::from(byte));
    graph.constant(name, dims, &noise(dims.iter().product::<i64>() as usize, scale, seed))
}

/// `Conv_2` writes hundreds of thousands, which is pooled, joined with values of the size of 1, and made
/// small by `Conv_6`; `Conv_7` and `Conv_8` go on. The input is `[1, 8, 16, 16]`.
pub fn overflowing() -> Graph {
    let pads = [("pads", Attr::Ints(vec![1; 4]))];
    let pool = [("kernel_shape", Attr::Ints(vec![2; 2])), ("strides", Attr::Ints(vec![2; 2]))];
    let mut graph = Graph::new("overflowing", "").input("x", F32, &[1, 8, 16, 16]);
    for (name, dims, scale) in [
        ("w0", [16, 8, 3, 3], 0.5),
        ("w2", [16, 16, 1, 1], 1.2e5),
        ("w7", [16, 16, 3, 3], 0.3),
        ("w8", [8, 16, 1, 1], 0.5),
    ] {
        graph = weight(graph, name, &dims, scale);
    }
    // By output and input: what comes from `Conv_2` becomes small.
    let joined: Vec<f32> = noise(16 * 32, 0.5, 6)
        .into_iter()
        .enumerate()
        .map(|(at, value)| if at % 32 < 16 { value * 1e-5 } else { value })
        .collect();
    graph
        .constant("w6", &[16, 32, 1, 1], &joined)
        .node("Conv", &["x", "w0"], &["a"], &pads)
        .op("Relu", &["a"], "b")
        .op("Conv", &["b", "w2"], "c")
        .node("MaxPool", &["c"], &["d"], &pool)
        .node("AveragePool", &["b"], &["e"], &pool)
        .node("Concat", &["d", "e"], &["f"], &[("axis", Attr::Int(1))])
        .op("Conv", &["f", "w6"], "g")
        .node("Conv", &["g", "w7"], &["h"], &pads)
        .op("Conv", &["h", "w8"], "y")
        .output("y", F32, &[1, 8, 8, 8])
}

/// A pyramid of three maps with two branches each, joined at the end: most of its layers do not wait for each other. The
/// input is `[1, 8, 24, 32]`.
pub fn pyramid() -> Graph {
    let conv = |graph: Graph, from: &str, to: &str, [m, c, k, s]: [i64; 4]| {
        let (name, scale) = (format!("w{to}"), 4.0 / ((c * k * k) as f32).sqrt());
        let sizes = [("pads", vec![k / 2; 4]), ("strides", vec![s; 2])];
        let sizes = sizes.map(|(name, values)| (name, Attr::Ints(values)));
        weight(graph, &name, &[m, c, k, k], scale)
            .node("Conv", &[from, &name], &[&format!("{to}_sums")], &sizes)
            .op("Relu", &[&format!("{to}_sums")], to)
    };
    let mut graph = Graph::new("pyramid", "").input("x", F32, &[1, 8, 24, 32]);
    graph = conv(graph, "x", "map0", [16, 8, 3, 1]);
    graph = conv(graph, "map0", "map1", [24, 16, 3, 2]);
    graph = conv(graph, "map1", "map2", [32, 24, 3, 2]);
    graph = graph.integers("rows", &[1, 13, -1]).integers("five", &[5, 8]);
    let mut rows = Vec::new();
    for (level, channels) in [(2, 32), (1, 24), (0, 16)] {
        let [map, boxes, scores] = ["map", "boxes", "scores"].map(|of| format!("{of}{level}"));
        for (branch, num) in [(&boxes, 8), (&scores, 5)] {
            let inner = format!("{branch}_inner");
            graph = conv(graph, &map, &inner, [16, channels, 3, 1]);
            graph = conv(graph, &inner, branch, [num, 16, 1, 1]);
        }
        let (both, row) = (format!("both{level}"), format!("row{level}"));
        graph = graph.node("Concat", &[&boxes, &scores], &[&both], &[("axis", Attr::Int(1))]);
        graph = graph.op("Reshape", &[&both, "rows"], &row);
        rows.push(row);
    }
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    graph
        .node("Concat", &rows, &["all"], &[("axis", Attr::Int(2))])
        .node("Split", &["all", "five"], &["scores", "boxes"], &[("axis", Attr::Int(1))])
        .op("Sigmoid", &["scores"], "shares")
        .node("Concat", &["boxes", "shares"], &["y"], &[("axis", Attr::Int(1))])
        .output("y", F32, &[1, 13, 1008])
}

/// A transformer's block, normalizations first: attention and two layers, each added to the stream
/// that it reads. The input is `[1, 24, 32]`.
pub fn transformer() -> Graph {
    let last = [("axis", Attr::Int(-1))];
    let turned = [("perm", Attr::Ints(vec![0, 2, 1]))];
    let mut graph = Graph::new("transformer", "").input("x", F32, &[1, 24, 32]);
    for (name, dims) in [
        ("wi", [32, 32]),
        ("wq", [32, 32]),
        ("wk", [32, 32]),
        ("wv", [32, 32]),
        ("wp", [32, 32]),
        ("w1", [32, 64]),
        ("w2", [64, 32]),
        ("wo", [32, 8]),
    ] {
        graph = weight(graph, name, &dims, 0.6);
    }
    graph
        .constant("one", &[32], &[1.0; 32])
        .constant("zero", &[32], &[0.0; 32])
        .constant("scale", &[], &[0.25])
        .op("MatMul", &["x", "wi"], "s0")
        .node("LayerNormalization", &["s0", "one", "zero"], &["n1"], &last)
        .op("MatMul", &["n1", "wq"], "q")
        .op("MatMul", &["n1", "wk"], "k")
        .op("MatMul", &["n1", "wv"], "v")
        .node("Transpose", &["k"], &["kt"], &turned)
        .op("MatMul", &["q", "kt"], "dots")
        .op("Mul", &["dots", "scale"], "scaled")
        .node("Softmax", &["scaled"], &["shares"], &last)
        .op("MatMul", &["shares", "v"], "taken")
        .op("MatMul", &["taken", "wp"], "p")
        .op("Add", &["s0", "p"], "s1")
        .node("LayerNormalization", &["s1", "one", "zero"], &["n2"], &last)
        .op("MatMul", &["n2", "w1"], "m1")
        .op("Relu", &["m1"], "m2")
        .op("MatMul", &["m2", "w2"], "m3")
        .op("Add", &["s1", "m3"], "s2")
        .node("LayerNormalization", &["s2", "one", "zero"], &["n3"], &last)
        .op("MatMul", &["n3", "wo"], "y")
        .output("y", F32, &[1, 24, 8])
}

/// Rows of values up to a thousand, whose squares are beyond 16-bit floats, over the root of the mean
/// of these, before a product. The input is `[1, 24, 32]`.
pub fn norm_in_parts() -> Graph {
    let mean = [("axes", Attr::Ints(vec![-1])), ("keepdims", Attr::Int(1))];
    let graph = Graph::new("norm_in_parts", "").input("x", F32, &[1, 24, 32]);
    let graph = weight(graph, "w0", &[32, 32], 600.0);
    weight(graph, "w1", &[32, 8], 0.6)
        .constant("epsilon", &[], &[1e-5])
        .op("MatMul", &["x", "w0"], "a")
        .op("Mul", &["a", "a"], "squares")
        .node("ReduceMean", &["squares"], &["mean"], &mean)
        .op("Add", &["mean", "epsilon"], "sum")
        .op("Sqrt", &["sum"], "root")
        .op("Div", &["a", "root"], "normed")
        .op("MatMul", &["normed", "w1"], "y")
        .output("y", F32, &[1, 24, 8])
}

/// Networks and the layers that keep 32-bit floats in them, with which they are computed as with
/// 32-bit floats throughout.
pub fn cases() -> Vec<(&'static str, Graph, Vec<&'static str>)> {
    vec![
        ("overflowing, one layer", overflowing(), vec!["Conv_2"]),
        ("overflowing, first and one layer", overflowing(), vec!["Conv_0", "Conv_2"]),
        ("overflowing, all that are wide and the last", overflowing(), vec!["Conv_2", "Conv_8"]),
        ("overflowing, a pooling as well", overflowing(), vec!["Conv_2", "AveragePool_4"]),
        ("transformer", transformer(), vec![]),
        ("transformer, an attention", transformer(), vec!["MatMul_6", "MatMul_9"]),
        ("transformer, a residual", transformer(), vec!["Add_11"]),
        ("transformer, all", transformer(), vec!["MatMul", "Relu_14"]),
        ("norm in parts", norm_in_parts(), vec![]),
        ("norm in parts, its product", norm_in_parts(), vec!["MatMul_0"]),
    ]
}
