//! The end of a network with proposals, as mmdetection3d's TransFusion head exports it: peaks of a heat map, the
//! best of all classes, their classes and cells by integer arithmetic, their features, and boxes from both.

use super::onnx::{Attr, Graph};
use super::random::Random;
use det_post_types::ElementType;

/// Classes, rows and columns of the heat map.
pub const HEAT: [i64; 3] = [3, 12, 10];
/// Proposals.
pub const NUM: i64 = 16;
/// Channels of the input.
pub const CHANNELS: i64 = 8;

/// From maps `x` to `boxes` `[5, P]`, `score` `[P]` and `label` `[P]`, integers.
pub fn proposals() -> Graph {
    boxes(places(peaks(constants())))
        .output("boxes", ElementType::F32, &[5, NUM])
        .output("score", ElementType::F32, &[NUM])
        .output("label", ElementType::I64, &[NUM])
}

fn constants() -> Graph {
    let [classes, rows, columns] = HEAT;
    let cells = rows * columns;
    let mut random = Random::new(7);
    let mut weights =
        |num: i64| -> Vec<f32> { (0..num).map(|_| random.range(-0.5, 0.5)).collect() };
    let inner: Vec<i64> = (0..classes)
        .flat_map(|c| (1..rows - 1).flat_map(move |y| (1..columns - 1).map(move |x| [0, c, y, x])))
        .flatten()
        .collect();
    let zeros = vec![0.0; (classes * cells) as usize];
    let graph = Graph::new("proposals", "")
        .input("x", ElementType::F32, &[1, CHANNELS, rows, columns])
        .constant("heat.weight", &[classes, CHANNELS, 1, 1], &weights(classes * CHANNELS))
        .constant("feature.weight", &[6, CHANNELS, 1, 1], &weights(6 * CHANNELS))
        .constant("class.weight", &[6, classes, 1], &weights(6 * classes))
        .constant("box.weight", &[5, 6, 1], &weights(30))
        .constant("zeros", &[1, classes, rows, columns], &zeros)
        .constant("off.on", &[2], &[0.0, 1.0])
        .integers("inner.list", &inner)
        .integers("inner.shape", &[1, classes, rows - 2, columns - 2, 4]);
    let lists = [
        ("num", vec![NUM]),
        ("cells", vec![cells]),
        ("classes", vec![classes]),
        ("zero", vec![0]),
        ("one", vec![1]),
        ("heat.row", vec![1, classes * cells]),
        ("heat.rows", vec![1, classes, cells]),
        ("feature.rows", vec![1, 6, cells]),
        ("feature.index", vec![1, 6, NUM]),
        ("heat.index", vec![1, classes, NUM]),
        ("box.rows", vec![5, NUM]),
        ("list", vec![NUM]),
    ];
    lists.into_iter().fold(graph, |graph, (name, values)| graph.integers(name, &values))
}

fn ints(values: &[i64]) -> Attr {
    Attr::Ints(values.to_vec())
}

/// `best` values of peaks and their `index` among all classes and cells.
fn peaks(graph: Graph) -> Graph {
    let pool = [("kernel_shape", ints(&[3, 3])), ("strides", ints(&[1, 1]))];
    graph
        .op("Conv", &["x", "heat.weight"], "logits")
        .op("Sigmoid", &["logits"], "heat")
        .node("MaxPool", &["heat"], &["largest"], &pool)
        .op("Reshape", &["inner.list", "inner.shape"], "inner")
        .op("ScatterND", &["zeros", "inner", "largest"], "around")
        .op("Equal", &["heat", "around"], "is.peak")
        .node("Cast", &["is.peak"], &["peak"], &[("to", Attr::Int(1))])
        .op("Mul", &["heat", "peak"], "peaks")
        .op("Reshape", &["peaks", "heat.row"], "row")
        .node("TopK", &["row", "num"], &["best", "index"], &[("axis", Attr::Int(1))])
}

/// `class` and `cell`, as PyTorch spells out a division that rounds down.
fn places(graph: Graph) -> Graph {
    graph
        .op("Div", &["index", "cells"], "quotient")
        .op("Mul", &["quotient", "cells"], "multiple")
        .op("Sub", &["index", "multiple"], "rest")
        .op("Less", &["index", "zero"], "is.negative")
        .op("Less", &["cells", "zero"], "is.divisor.negative")
        .op("Xor", &["is.negative", "is.divisor.negative"], "signs.differ")
        .op("Equal", &["rest", "zero"], "is.exact")
        .op("Not", &["is.exact"], "is.inexact")
        .op("And", &["signs.differ", "is.inexact"], "rounds")
        .node("Cast", &["rounds"], &["fix"], &[("to", Attr::Int(7))])
        .op("Sub", &["quotient", "fix"], "class")
        .op("Mod", &["index", "cells"], "cell")
}

fn boxes(graph: Graph) -> Graph {
    let last = [("axis", Attr::Int(2))];
    let reduced = [("axes", ints(&[1])), ("keepdims", Attr::Int(0))];
    graph
        .op("Unsqueeze", &["cell", "one"], "cell.row")
        .op("Expand", &["cell.row", "feature.index"], "cell.features")
        .op("Expand", &["cell.row", "heat.index"], "cell.heat")
        .op("Conv", &["x", "feature.weight"], "maps")
        .op("Reshape", &["maps", "feature.rows"], "features")
        .node("GatherElements", &["features", "cell.features"], &["found"], &last)
        .node("OneHot", &["class", "classes", "off.on"], &["hot"], &[("axis", Attr::Int(1))])
        .op("Conv", &["hot", "class.weight"], "of.class")
        .op("Add", &["found", "of.class"], "both")
        .op("Conv", &["both", "box.weight"], "box.map")
        .op("Reshape", &["box.map", "box.rows"], "boxes")
        .op("Reshape", &["heat", "heat.rows"], "heat.cells")
        .node("GatherElements", &["heat.cells", "cell.heat"], &["scores"], &last)
        .op("Mul", &["scores", "hot"], "of.classes")
        .node("ReduceMax", &["of.classes"], &["score.row"], &reduced)
        .op("Reshape", &["score.row", "list"], "score")
        .op("Reshape", &["class", "list"], "label")
}
