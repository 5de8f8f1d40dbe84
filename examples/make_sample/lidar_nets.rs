//! A pillar encoder and a CenterPoint head that were set by hand, not trained:
//! they find boxes that stand on the ground plane z = 0.
//!
//! Encoder: `input_features` [8000, 32, 9] (x y z time_lag, offsets from the
//! pillar's mean, offsets from its centre) to `pillar_features` [8000, 32].
//! Channel 0 is how far the highest point of the current sweep is above 0.3 m,
//! the others are zero.
//!
//! Head: `spatial_features` [1, 32, 128, 128] to `heatmap` (logits of car,
//! pedestrian, bicycle), `reg`, `height`, `dim` (logarithms of width, length,
//! height), `rot` (sine, cosine of the angle that turns clockwise from -y) and
//! `vel`. One scan tells nothing of speed: `vel` is zero.
//!
//! How: sums of the occupied cells, their positions and the products of these
//! over a window give centre, length, width and direction of whatever is
//! inside. A cell is sure of its find when the centre lies near its own and no
//! neighbour is surer. Objects nearer to each other than the window see each
//! other.

use det_post_types::ElementType::F32;

use super::onnx::{Attr, Graph};

/// Rows of the encoder.
pub const NUM_PILLARS: usize = 8000;
/// Points a pillar.
pub const NUM_POINTS: usize = 32;
/// Features a point.
pub const NUM_FEATURES: usize = 9;
/// Channels of a pillar.
pub const NUM_CHANNELS: usize = 32;
/// Cells of the map along x and along y.
pub const CELLS: usize = 128;
/// Edge length of a cell, in metres.
pub const CELL: f32 = 0.4;
/// The map spans -RANGE..RANGE metres along x and y.
pub const RANGE: f32 = 25.6;
/// Class names by class index.
pub const CLASSES: [&str; 3] = ["car", "pedestrian", "bicycle"];

/// Lower than this, in metres, is ground.
const CLEARANCE: f32 = 0.3;
/// Window of a cell, in cells.
const WINDOW: usize = 15;
/// Squared distance in metres at which a cell is sure no more.
const REACH: f32 = 0.32;

/// The pillar encoder.
pub fn encoder() -> Graph {
    let mut weights = vec![0.0; NUM_FEATURES * NUM_CHANNELS];
    weights[2 * NUM_CHANNELS] = 1.0;
    // Points of past sweeps sink into the ground.
    weights[3 * NUM_CHANNELS] = -1e3;
    let mut bias = vec![0.0; NUM_CHANNELS];
    bias[0] = -CLEARANCE;
    let [pillars, points, features, channels] =
        [NUM_PILLARS, NUM_POINTS, NUM_FEATURES, NUM_CHANNELS].map(|n| n as i64);
    let reduce = [("axes", Attr::Ints(vec![1])), ("keepdims", Attr::Int(0))];
    Graph::new("pillar_encoder", "Set by hand, not trained. Height of each pillar above ground.")
        .input("input_features", F32, &[pillars, points, features])
        .constant("weights", &[features, channels], &weights)
        .constant("bias", &[channels], &bias)
        .op("MatMul", &["input_features", "weights"], "linear")
        .op("Add", &["linear", "bias"], "biased")
        .op("Relu", &["biased"], "active")
        .node("ReduceMax", &["active"], &["pillar_features"], &reduce)
        .output("pillar_features", F32, &[pillars, channels])
}

/// The CenterPoint head.
pub fn head() -> Graph {
    let cells = CELLS as i64;
    let graph =
        Graph::new("pillar_head", "Set by hand, not trained. Boxes that stand on the ground.")
            .input("spatial_features", F32, &[1, NUM_CHANNELS as i64, cells, cells]);
    let map =
        |graph: Graph, name: &str, channels| graph.output(name, F32, &[1, channels, cells, cells]);
    let mut graph = outputs(heatmap(shape(axes(moments(graph)))));
    for (name, channels) in
        [("heatmap", 3), ("reg", 2), ("height", 1), ("dim", 3), ("rot", 2), ("vel", 2)]
    {
        graph = map(graph, name, channels);
    }
    graph
}

/// Metres of the middle of a cell.
fn position(index: usize) -> f32 {
    (index as f32 + 0.5) * CELL - RANGE
}

fn window() -> Vec<(&'static str, Attr)> {
    vec![
        ("kernel_shape", Attr::Ints(vec![WINDOW as i64; 2])),
        ("strides", Attr::Ints(vec![1; 2])),
        ("pads", Attr::Ints(vec![WINDOW as i64 / 2; 4])),
    ]
}

/// Means over each cell's window: `s` of occupied cells, `sx` … `sxy` of their
/// positions in metres and the products of these. `above` is the height over
/// the clearance.
fn moments(graph: Graph) -> Graph {
    let cells = CELLS as i64;
    let planes: [fn(f32, f32) -> f32; 6] =
        [|_, _| 1.0, |x, _| x, |_, y| y, |x, _| x * x, |_, y| y * y, |x, y| x * y];
    let places =
        || (0..CELLS * CELLS).map(|place| (position(place % CELLS), position(place / CELLS)));
    let values: Vec<f32> =
        planes.iter().flat_map(|plane| places().map(|(x, y)| plane(x, y))).collect();
    let mut pool = window();
    pool.push(("count_include_pad", Attr::Int(1)));
    graph
        .constant("zero", &[], &[0.0])
        .constant("one", &[], &[1.0])
        .constant("half", &[], &[0.5])
        .constant("sharp", &[], &[10.0])
        .constant("planes", &[1, 6, cells, cells], &values)
        .integers("first", &[0])
        .integers("second", &[1])
        .integers("sixths", &[1; 6])
        .op("Slice", &["spatial_features", "first", "second", "second"], "above")
        .op("Mul", &["above", "sharp"], "much_above")
        .op("Clip", &["much_above", "zero", "one"], "occupied")
        .op("Mul", &["occupied", "planes"], "weighted")
        .node("AveragePool", &["weighted"], &["windows"], &pool)
        .node(
            "Split",
            &["windows", "sixths"],
            &["s", "sx", "sy", "sxx", "syy", "sxy"],
            &[("axis", Attr::Int(1))],
        )
}

/// Centre `cx` `cy`, the larger and the smaller variance `major` `minor`, and
/// the direction `cosine` `sine` of the larger, within a quarter turn of +x.
fn axes(graph: Graph) -> Graph {
    graph
        .constant("tiny", &[], &[1e-6])
        .constant("minus_one", &[], &[-1.0])
        .op("Add", &["s", "tiny"], "mass")
        .op("Div", &["sx", "mass"], "cx")
        .op("Div", &["sy", "mass"], "cy")
        .op("Div", &["sxx", "mass"], "xx")
        .op("Div", &["syy", "mass"], "yy")
        .op("Div", &["sxy", "mass"], "xy")
        .op("Mul", &["cx", "cx"], "cx_cx")
        .op("Mul", &["cy", "cy"], "cy_cy")
        .op("Mul", &["cx", "cy"], "cx_cy")
        .op("Sub", &["xx", "cx_cx"], "var_x")
        .op("Sub", &["yy", "cy_cy"], "var_y")
        .op("Sub", &["xy", "cx_cy"], "cov")
        .op("Add", &["var_x", "var_y"], "trace")
        .op("Sub", &["var_x", "var_y"], "along")
        .op("Add", &["cov", "cov"], "across")
        .op("Mul", &["along", "along"], "along_2")
        .op("Mul", &["across", "across"], "across_2")
        .op("Add", &["along_2", "across_2"], "spread_2")
        .op("Add", &["spread_2", "tiny"], "spread_2_safe")
        .op("Sqrt", &["spread_2_safe"], "spread")
        .op("Add", &["trace", "spread"], "major_2")
        .op("Sub", &["trace", "spread"], "minor_2")
        .op("Mul", &["major_2", "half"], "major")
        .op("Mul", &["minor_2", "half"], "minor_raw")
        .op("Relu", &["minor_raw"], "minor")
        // Half-angle formulas from the cosine of the doubled angle.
        .op("Div", &["along", "spread"], "cosine_2")
        .op("Add", &["one", "cosine_2"], "one_plus")
        .op("Sub", &["one", "cosine_2"], "one_minus")
        .op("Mul", &["one_plus", "half"], "cosine_square_raw")
        .op("Mul", &["one_minus", "half"], "sine_square_raw")
        .op("Relu", &["cosine_square_raw"], "cosine_square")
        .op("Relu", &["sine_square_raw"], "sine_square")
        .op("Sqrt", &["cosine_square"], "cosine")
        .op("Sqrt", &["sine_square"], "sine_size")
        .op("Less", &["across", "zero"], "is_clockwise")
        .op("Where", &["is_clockwise", "minus_one", "one"], "sine_sign")
        .op("Mul", &["sine_size", "sine_sign"], "sine")
}

/// `length`, `width` and `tall` in metres.
///
/// A box of extent E occupies cells over E plus one cell on average.
fn shape(graph: Graph) -> Graph {
    let mut graph = graph
        .constant("twelve", &[], &[12.0])
        .constant("cell", &[], &[CELL])
        .constant("cell_2", &[], &[CELL * CELL])
        .constant("least", &[], &[0.2])
        .constant("clearance", &[], &[CLEARANCE])
        .node("MaxPool", &["above"], &["highest"], &window())
        .op("Add", &["highest", "clearance"], "tall");
    for (variance, extent) in [("major", "length"), ("minor", "width")] {
        let [wide, square, root, raw] =
            ["wide", "square", "root", "raw"].map(|part| format!("{extent}_{part}"));
        graph = graph
            .op("Mul", &[variance, "twelve"], &wide)
            .op("Add", &[&wide, "cell_2"], &square)
            .op("Sqrt", &[&square], &root)
            .op("Sub", &[&root, "cell"], &raw)
            .op("Max", &[&raw, "least"], extent);
    }
    graph
}

/// `heatmap`: logits, high where a cell is surest, in the class that the
/// length speaks for.
fn heatmap(graph: Graph) -> Graph {
    let cells = CELLS as i64;
    let places = 0..CELLS * CELLS;
    let x: Vec<f32> = places.clone().map(|place| position(place % CELLS)).collect();
    let y: Vec<f32> = places.map(|place| position(place / CELLS)).collect();
    let neighbours = [
        ("kernel_shape", Attr::Ints(vec![3; 2])),
        ("strides", Attr::Ints(vec![1; 2])),
        ("pads", Attr::Ints(vec![1; 4])),
    ];
    graph
        .constant("cell_x", &[1, 1, cells, cells], &x)
        .constant("cell_y", &[1, 1, cells, cells], &y)
        .constant("reach", &[], &[1.0 / REACH])
        // Less than three occupied cells lose score.
        .constant("enough", &[], &[(WINDOW * WINDOW) as f32 / 3.0])
        // Classes by length: (length - low) * rise and (high - length) * fall.
        .constant("low", &[1, 3, 1, 1], &[2.8, -9.0, 1.2])
        .constant("high", &[1, 3, 1, 1], &[6.0, 1.4, 3.0])
        .constant("steep", &[], &[5.0])
        .constant("least_score", &[], &[1e-4])
        .constant("most_score", &[], &[1.0 - 1e-4])
        .op("Sub", &["cx", "cell_x"], "dx")
        .op("Sub", &["cy", "cell_y"], "dy")
        .op("Mul", &["dx", "dx"], "dxx")
        .op("Mul", &["dy", "dy"], "dyy")
        .op("Add", &["dxx", "dyy"], "distance")
        .op("Mul", &["distance", "reach"], "far")
        .op("Sub", &["one", "far"], "near_raw")
        .op("Clip", &["near_raw", "zero", "one"], "near")
        .op("Mul", &["s", "enough"], "many_raw")
        .op("Clip", &["many_raw", "zero", "one"], "many")
        .op("Mul", &["near", "many"], "sure")
        .node("MaxPool", &["sure"], &["surest"], &neighbours)
        .op("Equal", &["sure", "surest"], "is_peak")
        .op("Where", &["is_peak", "sure", "zero"], "peak")
        .op("Sub", &["length", "low"], "over")
        .op("Mul", &["over", "steep"], "over_raw")
        .op("Clip", &["over_raw", "zero", "one"], "long_enough")
        .op("Sub", &["high", "length"], "under")
        .op("Mul", &["under", "steep"], "under_raw")
        .op("Clip", &["under_raw", "zero", "one"], "short_enough")
        .op("Mul", &["long_enough", "short_enough"], "class")
        .op("Mul", &["class", "peak"], "score_raw")
        .op("Clip", &["score_raw", "least_score", "most_score"], "score")
        .op("Sub", &["one", "score"], "doubt")
        .op("Div", &["score", "doubt"], "odds")
        .op("Log", &["odds"], "heatmap")
}

/// The regression maps.
fn outputs(graph: Graph) -> Graph {
    let concat = [("axis", Attr::Int(1))];
    graph
        .constant("per_cell", &[], &[1.0 / CELL])
        .constant("still", &[1, 2, 1, 1], &[0.0; 2])
        .op("Mul", &["dx", "per_cell"], "cells_x")
        .op("Mul", &["dy", "per_cell"], "cells_y")
        .op("Add", &["cells_x", "half"], "reg_x")
        .op("Add", &["cells_y", "half"], "reg_y")
        .node("Concat", &["reg_x", "reg_y"], &["reg"], &concat)
        .op("Mul", &["tall", "half"], "height")
        .node("Concat", &["width", "length", "tall"], &["sizes"], &concat)
        .op("Log", &["sizes"], "dim")
        // The angle a from +x, counter-clockwise, is -a - 90 degrees there.
        .op("Neg", &["cosine"], "rot_sine")
        .op("Neg", &["sine"], "rot_cosine")
        .node("Concat", &["rot_sine", "rot_cosine"], &["rot"], &concat)
        .op("Mul", &["s", "still"], "vel")
}
