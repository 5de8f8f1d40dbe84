//! BEVFusion as Autoware has it, small: the detector of points, and of points and images, with weights
//! that follow from their places.

use std::io;
use std::path::Path;

use super::onnx::{Attr, Graph};
use super::sparse_onnx::{Conv, ENCODER, File, Node};
use det_post_types::ElementType;

/// Width and height of the network's images.
pub const IMAGE: [u32; 2] = [64, 32];
/// Channels, rows and columns of the features of images.
pub const FEATURES: [usize; 3] = [4, 4, 8];
/// Depth bins of a pixel.
pub const DEPTHS: usize = 6;
/// Features of a pixel.
pub const CHANNELS: usize = 5;
/// Rows and columns of the maps: along x and y.
pub const MAP: [usize; 2] = [4, 3];
/// Proposals: one a cell.
pub const NUM_PROPOSALS: usize = 12;

/// The encoder of a detector, up to its map of eight channels, `map`: on a grid with the axes z y x, or x y z with
/// the map's rows along x, as BEVFusion has it. Points have `num_values` numbers. Inputs `voxels`, `coors` and
/// `num_points`.
pub fn encoder(is_xyz: bool, num_values: i64) -> File {
    let reversed = |mut values: [i64; 3]| {
        values.reverse();
        values
    };
    let conv = |of: &Conv| match is_xyz {
        true => Conv { geometry: of.geometry.map(reversed), grids: of.grids.map(reversed), ..*of },
        false => *of,
    };
    let (dense, order, map) = match is_xyz {
        true => ([1, 4, 3, 2, 4], [0, 4, 3, 1, 2], [1, 8, 4, 3]),
        false => ([1, 2, 3, 4, 4], [0, 4, 1, 2, 3], [1, 8, 3, 4]),
    };
    let mut file = File::default();
    file.inputs.push(("voxels".into(), ElementType::F32, vec![-1, 10, num_values]));
    file.inputs.push(("coors".into(), ElementType::I32, vec![-1, 3]));
    file.inputs.push(("num_points".into(), ElementType::I32, vec![-1]));
    for (name, values) in [
        ("axis", &[1][..]),
        ("last", &[-1]),
        ("before", &[-1 << 40]),
        ("pads", &[0, 1, 0, 0]),
        ("grid", &dense),
        ("bev", &map),
    ] {
        file.integers.push((name.into(), values.to_vec()));
    }
    file.op("ReduceSum", &["voxels", "axis"], "sums", vec![("keepdims", Attr::Int(0))]);
    file.op("Cast", &["num_points"], "count", vec![("to", Attr::Int(1))]);
    file.op("Unsqueeze", &["count", "axis"], "counts", vec![]);
    file.op("Div", &["sums", "counts"], "means", vec![]);
    let columns = if is_xyz { "xyz" } else { "coors" };
    file.op("Slice", &["coors", "last", "before", "axis", "last"], "xyz", vec![]);
    file.op("Pad", &[columns, "pads"], "indices", vec![]);
    let [mut first, second, down, out] = ENCODER.each_ref().map(conv);
    first.channels[0] = num_values;
    file.autoware_pairs(&first, "indices", "p0");
    file.autoware_conv(&first, "means", "p0", "1");
    file.autoware_conv(&second, "1", "p0", "2");
    file.op("Add", &["2", "1"], "3", vec![]);
    file.op("Relu", &["3"], "4", vec![]);
    file.autoware_pairs(&down, "indices", "p2");
    file.autoware_conv(&down, "4", "p2", "5");
    file.autoware_pairs(&out, "p2.0", "p3");
    file.autoware_conv(&out, "5", "p3", "6");
    file.op("ConstantOfShape", &["grid"], "zeros", vec![]);
    file.op("ScatterND", &["zeros", "p3.0", "6"], "dense", vec![]);
    file.op("Transpose", &["dense"], "chw", vec![("perm", Attr::Ints(order.to_vec()))]);
    file.op("Reshape", &["chw", "bev"], "map", vec![]);
    file
}

/// Adds the network behind a map: a proposal a cell.
pub fn add_head(file: &mut File, map: &str, channels: i64) {
    let num = NUM_PROPOSALS as i64;
    file.integers.push(("boxes".into(), vec![10, num]));
    file.integers.push(("row".into(), vec![num]));
    for (name, num, seed) in [("box", 10, 3), ("logit", 1, 5), ("class", 3, 7)] {
        let weights = (0..channels * num).map(|at| ((at * 29 + seed) % 17 - 8) as f32 / 32.0);
        let dims = vec![num, channels, 1, 1];
        file.constants.push((format!("{name}.weight"), dims, weights.collect()));
        let attributes = vec![("kernel_shape", Attr::Ints(vec![1, 1]))];
        file.op("Conv", &[map, &format!("{name}.weight")], &format!("{name}.map"), attributes);
    }
    file.op("Reshape", &["box.map", "boxes"], "bbox_pred", vec![]);
    file.op("Sigmoid", &["logit.map"], "score.map", vec![]);
    file.op("Reshape", &["score.map", "row"], "score", vec![]);
    let by_class = vec![("axis", Attr::Int(1)), ("keepdims", Attr::Int(0))];
    file.op("ArgMax", &["class.map"], "label.map", by_class);
    file.op("Reshape", &["label.map", "row"], "label_pred", vec![]);
    file.outputs = vec![("bbox_pred".into(), vec![10, num]), ("score".into(), vec![num])];
    file.integer_outputs = vec![("label_pred".into(), vec![num])];
}

/// The detector of points.
pub fn lidar(is_xyz: bool) -> File {
    let mut file = encoder(is_xyz, 3);
    add_head(&mut file, "map", 8);
    file
}

/// The detector of points and images, for any number of cameras: `bevfusion_camera_lidar.onnx`. Points are x, y, z.
pub fn camera_lidar() -> File {
    camera_lidar_of(3)
}

/// As [`camera_lidar`], with so many numbers of a point.
pub fn camera_lidar_of(num_values: i64) -> File {
    let mut file = encoder(true, num_values);
    let [channels, rows, columns] = FEATURES.map(|size| size as i64);
    for (name, element, dims) in [
        ("points", ElementType::F32, vec![-1, num_values]),
        ("lidar2image", ElementType::F32, vec![-1, 4, 4]),
        ("img_aug_matrix", ElementType::F32, vec![-1, 4, 4]),
        ("geom_feats", ElementType::I32, vec![-1, 4]),
        ("kept", ElementType::I32, vec![-1]),
        ("ranks", ElementType::I64, vec![-1]),
        ("indices_of_ranks", ElementType::I64, vec![-1]),
        ("image_feats", ElementType::F32, vec![-1, channels, rows, columns]),
    ] {
        file.inputs.push((name.into(), element, dims));
    }
    add_depth_images(&mut file);
    add_camera_network(&mut file);
    add_pool(&mut file);
    file.op("Concat", &["camera.map", "map"], "maps", vec![("axis", Attr::Int(1))]);
    add_head(&mut file, "maps", 8 + CHANNELS as i64);
    file
}

/// From points to images of depths, `depths.image`.
fn add_depth_images(file: &mut File) {
    let [width, height] = IMAGE.map(i64::from);
    for (name, values) in [
        ("zero", &[0][..]),
        ("one", &[1]),
        ("two", &[2]),
        ("three", &[3]),
        ("pixels", &[width * height]),
        ("image", &[-1, 1, height, width]),
    ] {
        file.integers.push((name.into(), values.to_vec()));
    }
    let ints = |values: &[i64]| Attr::Ints(values.to_vec());
    file.op("Slice", &["points", "zero", "three", "one"], "points.xyz", vec![]);
    file.op("Transpose", &["points.xyz"], "points.columns", vec![("perm", ints(&[1, 0]))]);
    file.op("Slice", &["lidar2image", "zero", "three", "one"], "rows", vec![]);
    file.op("Slice", &["rows", "zero", "three", "two"], "rotations", vec![]);
    file.op("MatMul", &["rotations", "points.columns"], "coordinates", vec![]);
    file.op("Gather", &["coordinates", "two"], "distances", vec![("axis", Attr::Int(1))]);
    file.op("MatMul", &["img_aug_matrix", "lidar2image"], "both", vec![]);
    file.op("Cast", &["distances"], "pixel.indices", vec![("to", Attr::Int(7))]);
    file.op("ConstantOfShape", &["pixels"], "no.depths", vec![]);
    file.op("ScatterElements", &["no.depths", "pixel.indices", "distances"], "depths", vec![]);
    file.op("Reshape", &["depths", "image"], "depths.image", vec![]);
}

fn add_conv(
    file: &mut File,
    (name, input): (&str, &str),
    dims: [i64; 4],
    (stride, pad): (i64, i64),
    seed: i64,
) {
    let num = dims.iter().product::<i64>();
    let weights = (0..num).map(|at| ((at * 23 + seed) % 19 - 9) as f32 / 32.0);
    file.constants.push((format!("{name}.weight"), dims.to_vec(), weights.collect()));
    let attributes = vec![
        ("kernel_shape", Attr::Ints(dims[2..].to_vec())),
        ("strides", Attr::Ints(vec![stride; 2])),
        ("pads", Attr::Ints(vec![pad; 4])),
    ];
    file.op("Conv", &[input, &format!("{name}.weight")], name, attributes);
}

/// From images of depths and features of images to `product`, `[N, C, D, h, w]`.
fn add_camera_network(file: &mut File) {
    let [channels, ..] = FEATURES.map(|size| size as i64);
    let [depths, features] = [DEPTHS as i64, CHANNELS as i64];
    file.integers.push(("depth.end".into(), vec![depths]));
    file.integers.push(("feature.end".into(), vec![depths + features]));
    add_conv(file, ("dtransform.0", "depths.image"), [2, 1, 1, 1], (1, 0), 4);
    file.op("Relu", &["dtransform.0"], "dtransform.1", vec![]);
    add_conv(file, ("dtransform.2", "dtransform.1"), [3, 2, 5, 5], (8, 2), 2);
    file.op("Relu", &["dtransform.2"], "dtransform.3", vec![]);
    let along_channels = || vec![("axis", Attr::Int(1))];
    file.op("Concat", &["dtransform.3", "image_feats"], "joined", along_channels());
    add_conv(file, ("depthnet", "joined"), [depths + features, 3 + channels, 1, 1], (1, 0), 7);
    file.op("Slice", &["depthnet", "zero", "depth.end", "one"], "depth.logits", vec![]);
    file.op("Softmax", &["depth.logits"], "depth.shares", along_channels());
    file.op("Unsqueeze", &["depth.shares", "one"], "depth.factor", vec![]);
    file.op("Slice", &["depthnet", "depth.end", "feature.end", "one"], "context", vec![]);
    file.op("Unsqueeze", &["context", "two"], "context.factor", vec![]);
    file.op("Mul", &["depth.factor", "context.factor"], "product", vec![]);
}

/// From products to the map of the cameras, `camera.map`.
fn add_pool(file: &mut File) {
    let [_, rows, columns] = FEATURES.map(|size| size as i64);
    let [depths, channels] = [DEPTHS as i64, CHANNELS as i64];
    let frustums = vec![1, -1, channels, depths, rows, columns];
    file.integers.push(("frustums".into(), frustums));
    file.integers.push(("points.of.frustums".into(), vec![-1, channels]));
    let ints = |values: &[i64]| Attr::Ints(values.to_vec());
    let first = || vec![("axis", Attr::Int(0))];
    file.op("Reshape", &["product", "frustums"], "products", vec![]);
    let last = vec![("perm", ints(&[0, 1, 3, 4, 5, 2]))];
    file.op("Transpose", &["products"], "products.last", last);
    file.op("Reshape", &["products.last", "points.of.frustums"], "x", vec![]);
    file.op("Cast", &["kept"], "is.kept", vec![("to", Attr::Int(9))]);
    file.op("Compress", &["x", "is.kept"], "x.kept", first());
    file.op("Gather", &["x.kept", "indices_of_ranks"], "x.sorted", first());
    file.op("Cast", &["ranks"], "interval_lengths", vec![("to", Attr::Int(6))]);
    file.op("Cast", &["ranks"], "interval_starts", vec![("to", Attr::Int(6))]);
    let inputs = ["x.sorted", "geom_feats", "interval_lengths", "interval_starts"];
    file.nodes.push(Node {
        domain: "autoware",
        op: "QuickCumsumCuda",
        inputs: inputs.map(Into::into).to_vec(),
        outputs: vec!["pooled".into()],
        attributes: vec![
            ("batch_size", Attr::Int(1)),
            ("dimension", Attr::Int(1)),
            ("height", Attr::Int(MAP[0] as i64)),
            ("width", Attr::Int(MAP[1] as i64)),
        ],
    });
    let to_planes = vec![("perm", ints(&[0, 4, 1, 2, 3]))];
    file.op("Transpose", &["pooled"], "pooled.planes", to_planes);
    file.op("Squeeze", &["pooled.planes", "two"], "pooled.map", vec![]);
    add_conv(file, ("downsample", "pooled.map"), [channels, channels, 3, 3], (1, 1), 11);
    file.op("Relu", &["downsample"], "camera.map", vec![]);
}

/// Writes `bevfusion_image_backbone.onnx`: from bytes, `imgs`, to their features.
///
/// # Errors
/// Errors of writing the file.
pub fn save_backbone(path: &Path) -> io::Result<()> {
    let [width, height] = IMAGE.map(i64::from);
    let [channels, rows, columns] = FEATURES.map(|size| size as i64);
    let dims = [channels, 3, height / rows, width / columns];
    let num = dims.iter().product::<i64>();
    let weights: Vec<f32> = (0..num).map(|at| ((at * 31 + 5) % 23 - 11) as f32 / 512.0).collect();
    let stride = vec![dims[2], dims[3]];
    let graph = Graph::new("bevfusion_image_backbone", "")
        .input_bytes("imgs", &[-1, 3, height, width])
        .constant("mean", &[1, 3, 1, 1], &[123.675, 116.28, 103.53])
        .constant("std", &[1, 3, 1, 1], &[58.395, 57.12, 57.375])
        .constant("weight", &dims, &weights)
        .node("Cast", &["imgs"], &["floats"], &[("to", Attr::Int(1))])
        .node("Sub", &["floats", "mean"], &["centered"], &[])
        .node("Div", &["centered", "std"], &["normalized"], &[])
        .node(
            "Conv",
            &["normalized", "weight"],
            &["maps"],
            &[("kernel_shape", Attr::Ints(stride.clone())), ("strides", Attr::Ints(stride))],
        )
        .node("Relu", &["maps"], &["image_feats"], &[])
        .output("image_feats", ElementType::F32, &[-1, channels, rows, columns]);
    std::fs::write(path, graph.to_bytes())
}
