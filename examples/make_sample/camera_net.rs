//! A camera network that was set by hand, not trained: it finds saturated
//! red, green and blue patches on grey.
//!
//! Input `images` [B, 3, 320, 320], RGB in 0..1. Output `output0`
//! [B, 4 + 3, 4800], the layout of YOLOv8: cx cy w h in network pixels, then
//! the scores of car (red rectangles), pedestrian (green rectangles) and
//! bicycle (blue discs). Row `1600 * class + cell` looks for one class around
//! one cell of a 40 x 40 grid.
//!
//! How: a 1x1 convolution gives each pixel's share of a class's colour. Sums
//! of that share, of its position and of the squared position over a window
//! give centre and extent of whatever is inside. A cell is sure of its find
//! when the centre of the patch is near its own.

use det_post_types::ElementType::F32;

use super::onnx::{Attr, Graph};

/// Width and height of the input.
pub const INPUT: usize = 320;
/// Class names by class index.
pub const CLASSES: [&str; 3] = ["car", "pedestrian", "bicycle"];
/// Rows of the output.
pub const NUM_ROWS: usize = CLASSES.len() * CELLS * CELLS;

const SHARE_STEP: usize = 4;
const SHARES: usize = INPUT / SHARE_STEP;
const CELLS: usize = 40;
/// Window of a cell, in shares.
const WINDOW: usize = 15;
/// Extent over standard deviation: a uniform interval and a disc.
const RECTANGLE: f32 = 3.464_101_6;
const DISC: f32 = 4.0;
/// Patches smaller than this, in square network pixels, lose score.
const SMALL_AREA: f32 = 60.0;

/// The network, for any number of images.
pub fn graph() -> Graph {
    let graph = Graph::new(
        "blobs_yolov8",
        "Set by hand, not trained. Finds saturated red, green and blue patches on grey.",
    );
    let graph = graph.input("images", F32, &[-1, 3, INPUT as i64, INPUT as i64]);
    output(scores(boxes(moments(shares(graph)))))
}

/// `shares` [B, 3, 80, 80]: how much of each square has the class's colour.
fn shares(graph: Graph) -> Graph {
    // Own channel minus the mean of the others: zero on any grey.
    let colors: Vec<f32> =
        (0..9).map(|place| if place / 3 == place % 3 { 1.4 } else { -0.7 }).collect();
    // rten takes the number of dimensions from here.
    let conv = [("kernel_shape", Attr::Ints(vec![1; 2]))];
    let pool = [
        ("kernel_shape", Attr::Ints(vec![SHARE_STEP as i64; 2])),
        ("strides", Attr::Ints(vec![SHARE_STEP as i64; 2])),
    ];
    graph
        .constant("zero", &[], &[0.0])
        .constant("one", &[], &[1.0])
        .constant("colors", &[3, 3, 1, 1], &colors)
        .node("Conv", &["images", "colors"], &["color"], &conv)
        .op("Clip", &["color", "zero", "one"], "share")
        .node("AveragePool", &["share"], &["shares"], &pool)
}

/// Sums over each cell's window, [B, 3, 40, 40] each: `s` of the shares, `sx`
/// and `sy` of share times position, `sxx` and `syy` of share times its square.
/// Positions are pixels from the middle of the image.
fn moments(graph: Graph) -> Graph {
    let position = |index: usize| (index as f32 + 0.5) * SHARE_STEP as f32 - INPUT as f32 / 2.0;
    let plane = |of: &dyn Fn(usize, usize) -> f32| -> Vec<f32> {
        (0..SHARES * SHARES).map(|place| of(place / SHARES, place % SHARES)).collect()
    };
    let dims = [1, 1, SHARES as i64, SHARES as i64];
    let pool = [
        ("kernel_shape", Attr::Ints(vec![WINDOW as i64; 2])),
        ("strides", Attr::Ints(vec![2; 2])),
        ("pads", Attr::Ints(vec![WINDOW as i64 / 2; 4])),
        ("count_include_pad", Attr::Int(1)),
    ];
    graph
        .constant("x", &dims, &plane(&|_, x| position(x)))
        .constant("y", &dims, &plane(&|y, _| position(y)))
        .op("Mul", &["shares", "x"], "share_x")
        .op("Mul", &["shares", "y"], "share_y")
        .op("Mul", &["share_x", "x"], "share_xx")
        .op("Mul", &["share_y", "y"], "share_yy")
        .node(
            "Concat",
            &["shares", "share_x", "share_y", "share_xx", "share_yy"],
            &["weighted"],
            &[("axis", Attr::Int(1))],
        )
        .node("AveragePool", &["weighted"], &["windows"], &pool)
        .integers("thirds", &[3; 5])
        .node(
            "Split",
            &["windows", "thirds"],
            &["s", "sx", "sy", "sxx", "syy"],
            &[("axis", Attr::Int(1))],
        )
}

/// `cx` and `cy` from the middle of the image, `w` and `h`, in pixels.
fn boxes(graph: Graph) -> Graph {
    let mut graph = graph
        .constant("tiny", &[], &[1e-6])
        // A share is spread over its square: the variance inside one.
        .constant("inside", &[], &[(SHARE_STEP * SHARE_STEP) as f32 / 12.0])
        .constant("extent", &[1, 3, 1, 1], &[RECTANGLE, RECTANGLE, DISC])
        .op("Add", &["s", "tiny"], "mass");
    for (center, size, sum, squares) in [("cx", "w", "sx", "sxx"), ("cy", "h", "sy", "syy")] {
        let name = |part: &str| format!("{size}_{part}");
        let [mean, square, raw, variance, all, deviation] =
            ["mean", "square", "raw", "variance", "all", "deviation"].map(name);
        graph = graph
            .op("Div", &[sum, "mass"], center)
            .op("Div", &[squares, "mass"], &mean)
            .op("Mul", &[center, center], &square)
            .op("Sub", &[&mean, &square], &raw)
            .op("Relu", &[&raw], &variance)
            .op("Add", &[&variance, "inside"], &all)
            .op("Sqrt", &[&all], &deviation)
            .op("Mul", &[&deviation, "extent"], size);
    }
    graph
}

/// `score` [B, 3, 40, 40]: falls with the squared distance between the patch's
/// centre and the cell's.
fn scores(graph: Graph) -> Graph {
    let cell = |index: usize| (index as f32 * 2.0 + 0.5) * SHARE_STEP as f32 - INPUT as f32 / 2.0;
    let plane = |of: &dyn Fn(usize) -> f32| (0..CELLS * CELLS).map(of).collect::<Vec<_>>();
    let dims = [1, 1, CELLS as i64, CELLS as i64];
    let window_area = (WINDOW * WINDOW * SHARE_STEP * SHARE_STEP) as f32;
    graph
        .constant("cell_x", &dims, &plane(&|place| cell(place % CELLS)))
        .constant("cell_y", &dims, &plane(&|place| cell(place / CELLS)))
        .constant("reach", &[], &[1.0 / 80.0])
        .constant("enough", &[], &[window_area / SMALL_AREA])
        // Width plus height from which on a find is two patches taken as one.
        .constant("most_span", &[1, 3, 1, 1], &[80.0, 60.0, 54.0])
        .constant("tenth", &[], &[0.1])
        .op("Sub", &["cx", "cell_x"], "dx")
        .op("Sub", &["cy", "cell_y"], "dy")
        .op("Mul", &["dx", "dx"], "dxx")
        .op("Mul", &["dy", "dy"], "dyy")
        .op("Add", &["dxx", "dyy"], "distance")
        .op("Mul", &["distance", "reach"], "far")
        .op("Sub", &["one", "far"], "near_raw")
        .op("Clip", &["near_raw", "zero", "one"], "near")
        .op("Mul", &["s", "enough"], "area")
        .op("Clip", &["area", "zero", "one"], "area_score")
        .op("Add", &["w", "h"], "span")
        .op("Sub", &["most_span", "span"], "span_left")
        .op("Mul", &["span_left", "tenth"], "span_raw")
        .op("Clip", &["span_raw", "zero", "one"], "span_score")
        .op("Mul", &["near", "area_score"], "found")
        .op("Mul", &["found", "span_score"], "score")
}

/// `output0`: rows of all classes behind each other, each with the score of
/// its own class only.
fn output(graph: Graph) -> Graph {
    let rows = NUM_ROWS as i64;
    let concat = |axis| [("axis", Attr::Int(axis))];
    let own: Vec<f32> = (0..9).map(|place| f32::from(place / 3 == place % 3)).collect();
    graph
        .constant("middle", &[], &[INPUT as f32 / 2.0])
        .constant("own", &[1, 3, 3, 1], &own)
        .integers("one_row", &[0, 1, rows])
        .integers("class_rows", &[0, 1, 3, rows / 3])
        .integers("score_rows", &[0, 3, rows])
        .op("Add", &["cx", "middle"], "cx_pixels")
        .op("Add", &["cy", "middle"], "cy_pixels")
        .op("Reshape", &["cx_pixels", "one_row"], "cx_row")
        .op("Reshape", &["cy_pixels", "one_row"], "cy_row")
        .op("Reshape", &["w", "one_row"], "w_row")
        .op("Reshape", &["h", "one_row"], "h_row")
        .op("Reshape", &["score", "class_rows"], "class_scores")
        .op("Mul", &["class_scores", "own"], "own_scores")
        .op("Reshape", &["own_scores", "score_rows"], "scores")
        .node("Concat", &["cx_row", "cy_row", "w_row", "h_row", "scores"], &["output0"], &concat(1))
        .output("output0", F32, &[-1, 4 + CLASSES.len() as i64, rows])
}
