//! What exporters of Autoware's dialect write around the convolutions.

use std::sync::Arc;

use det_post_infer::sparse::{GridAxes, Operator, SparseNetwork, parse};
use det_post_infer::{Engine, RtenEngine};
use det_post_testing::onnx::Attr;
use det_post_testing::sparse_onnx::{File, Node, autoware};
use det_post_types::{ElementType, TensorValues, TensorView};

fn read(file: &File) -> SparseNetwork {
    parse(&file.to_bytes()).unwrap().network
}

fn refusal(file: &File) -> String {
    parse(&file.to_bytes()).expect_err("the file is wrong").to_string()
}

/// Replaces the only node with an output by others.
fn replace(file: &mut File, output: &str, build: impl FnOnce(&mut File)) {
    let at = file.nodes.iter().position(|node| node.outputs[0] == output).unwrap();
    let after: Vec<Node> = file.nodes.split_off(at);
    build(file);
    file.nodes.extend(after.into_iter().skip(1));
}

fn convolution(network: &SparseNetwork, operation: usize) -> (Arc<[f32]>, Option<Arc<[f32]>>) {
    match &network.operations[operation].operator {
        Operator::Convolution(conv) => (conv.weight.clone(), conv.bias.clone()),
        other => panic!("{other:?}"),
    }
}

/// Exports before 2026 add the bias in a node of its own.
#[test]
fn a_bias_of_its_own_node_is_folded() {
    let mut file = autoware();
    let at = file.nodes.iter().position(|node| node.outputs[0] == "2").unwrap();
    let bias = file.nodes[at].inputs.pop().unwrap();
    file.nodes[at].outputs[0] = "2.unbiased".into();
    let after = file.nodes.split_off(at + 1);
    file.op("Add", &[&bias, "2.unbiased"], "2", vec![]);
    file.nodes.extend(after);
    let (network, expected) = (read(&file), read(&autoware()));
    for (a, b) in network.operations.iter().zip(&expected.operations) {
        assert_eq!(a.operator, b.operator);
    }
    // Nothing else may read what the bias is added to.
    let at = file.nodes.iter().position(|node| node.outputs[0] == "3").unwrap();
    file.nodes[at].inputs[0] = "2.unbiased".into();
    assert!(refusal(&file).contains("Add_9"), "{}", refusal(&file));
}

/// Exports before 2026 keep batch normalization.
#[test]
fn batch_normalization_is_folded() {
    let mut file = autoware();
    let at = file.nodes.iter().position(|node| node.outputs[0] == "2").unwrap();
    file.nodes[at].outputs[0] = "2.raw".into();
    let [gamma, beta, mean, variance] = [
        [1.5_f32, -0.5, 2.0, 1.0],
        [0.25, 0.5, -1.0, 0.0],
        [0.125, -0.25, 0.0, 3.0],
        [0.5, 2.0, 1.0, 0.0],
    ];
    let all = [("gamma", gamma), ("beta", beta), ("mean", mean), ("variance", variance)];
    file.constants.extend(all.map(|(name, values)| (name.into(), vec![4], values.to_vec())));
    let after = file.nodes.split_off(at + 1);
    let epsilon = vec![("epsilon", Attr::Float(1e-3))];
    let inputs = ["2.raw", "gamma", "beta", "mean", "variance"];
    file.op("BatchNormalization", &inputs, "2", epsilon);
    file.nodes.extend(after);
    let (network, plain) = (read(&file), read(&autoware()));
    let ((weight, bias), (raw, raw_bias)) = (convolution(&network, 2), convolution(&plain, 2));
    let (bias, raw_bias) = (bias.unwrap(), raw_bias.unwrap());
    let per_channel = raw.len() / 4;
    for channel in 0..4 {
        let epsilon = f64::from(1e-3_f32);
        let scale = f64::from(gamma[channel]) / (f64::from(variance[channel]) + epsilon).sqrt();
        for at in channel * per_channel..(channel + 1) * per_channel {
            assert_eq!(weight[at], (f64::from(raw[at]) * scale) as f32);
        }
        let shift = f64::from(beta[channel]) - f64::from(mean[channel]) * scale;
        assert_eq!(bias[channel], (f64::from(raw_bias[channel]) * scale + shift) as f32);
    }
    file.constants.iter_mut().find(|constant| constant.0 == "variance").unwrap().2[3] = -1.0;
    let text = refusal(&file);
    assert!(text.contains("BatchNormalization_8: variance 3 is -1"), "{text}");
}

/// The orders of the axes that exporters write, and how.
#[test]
fn coordinates_are_followed_to_the_axes_of_the_grid() {
    type Build = fn(&mut File);
    let cases: [(Build, Option<GridAxes>); 8] = [
        (|f| f.op("Pad", &["coors", "pads"], "indices", vec![]), Some(GridAxes::Zyx)),
        (
            |f| {
                f.integers.push(("minus_one".into(), vec![-1]));
                f.integers.push(("begin".into(), vec![i64::MIN + 1]));
                let inputs = ["coors", "minus_one", "begin", "axis", "minus_one"];
                f.op("Slice", &inputs, "xyz", vec![]);
                f.op("Pad", &["xyz", "pads"], "indices", vec![]);
            },
            Some(GridAxes::Xyz),
        ),
        (
            |f| {
                f.integers.push(("order".into(), vec![1, 2, 0]));
                f.op("Gather", &["coors", "order"], "yxz", vec![("axis", Attr::Int(1))]);
                f.op("Cast", &["yxz"], "yxz32", vec![("to", Attr::Int(6))]);
                f.op("Pad", &["yxz32", "pads"], "indices", vec![]);
            },
            Some(GridAxes::Yxz),
        ),
        (
            |f| {
                f.integers.push(("order".into(), vec![-1, -2, -3]));
                f.integers.push(("shape".into(), vec![5, 1]));
                f.op("Gather", &["coors", "order"], "xyz", vec![("axis", Attr::Int(1))]);
                f.op("ConstantOfShape", &["shape"], "batch", vec![]);
                f.op("Concat", &["batch", "xyz"], "indices", vec![("axis", Attr::Int(1))]);
            },
            Some(GridAxes::Xyz),
        ),
        // Orders and columns that no encoder has.
        (
            |f| {
                f.integers.push(("order".into(), vec![0, 2, 1]));
                f.op("Gather", &["coors", "order"], "zxy", vec![("axis", Attr::Int(1))]);
                f.op("Pad", &["zxy", "pads"], "indices", vec![]);
            },
            None,
        ),
        (|f| f.op("Identity", &["coors"], "indices", vec![]), None),
        (|f| f.op("Neg", &["coors"], "indices", vec![]), None),
        // Columns that double and double again.
        (
            |f| {
                let mut last = "coors".to_owned();
                for at in 0..40 {
                    let next = format!("twice{at}");
                    f.op("Concat", &[&last, &last], &next, vec![("axis", Attr::Int(1))]);
                    last = next;
                }
                f.op("Identity", &[&last], "indices", vec![]);
            },
            None,
        ),
    ];
    for (at, (build, expected)) in cases.into_iter().enumerate() {
        let mut file = autoware();
        replace(&mut file, "indices", build);
        match expected {
            Some(axes) => assert_eq!(read(&file).axes, axes, "case {at}"),
            None => {
                let text = refusal(&file);
                assert!(text.contains("GetIndicePairsImplicitGemm"), "case {at}: {text}");
            }
        }
    }
}

/// spconv's `dense()`: every column of the coordinates goes its own way.
#[test]
fn scatter_by_separate_columns_is_read() {
    let mut file = autoware();
    replace(&mut file, "dense", |f| {
        let mut columns = Vec::new();
        for at in 0..4 {
            let names = [format!("at{at}"), format!("column{at}"), format!("index{at}")];
            f.integers.push((names[0].clone(), vec![at]));
            let axis = vec![("axis", Attr::Int(1))];
            f.op("Gather", &["p3.0", &names[0]], &names[1], axis);
            columns.push(names[1].clone());
        }
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        f.op("Concat", &columns, "joined", vec![("axis", Attr::Int(-1))]);
        f.op("ScatterND", &["zeros", "joined", "6"], "dense", vec![]);
    });
    assert_eq!(read(&file), {
        let expected = read(&autoware());
        SparseNetwork { operations: read(&file).operations, ..expected }
    });
    // Two columns exchanged: the map would be transposed.
    let at = file.integers.iter().position(|(name, _)| name == "at2").unwrap();
    file.integers[at].1 = vec![3];
    let text = refusal(&file);
    assert!(text.contains("ScatterND") && text.contains("coordinates"), "{text}");
}

/// autoware-ml's `_to_dense`: rows of the dense tensor by linear indices.
#[test]
fn scatter_by_linear_indices_is_read() {
    let build = |strides: [i64; 3]| {
        let mut file = autoware();
        file.integers.push(("rows".into(), vec![24, 4]));
        file.integers.push(("shape".into(), vec![1, 2, 3, 4, 4]));
        file.integers.push(("ones".into(), vec![1; 4]));
        for (at, stride) in strides.into_iter().enumerate() {
            file.integers.push((format!("stride{at}"), vec![stride]));
        }
        replace(&mut file, "zeros", |f| f.op("ConstantOfShape", &["rows"], "zeros", vec![]));
        replace(&mut file, "dense", |f| {
            let columns = ["b", "y", "x", "z"];
            f.op("Cast", &["p3.0"], "long", vec![("to", Attr::Int(7))]);
            f.op("Split", &["long", "ones"], "b1", vec![("axis", Attr::Int(1))]);
            let split = f.nodes.last_mut().unwrap();
            split.outputs = columns.map(|column| format!("{column}1")).to_vec();
            for column in columns {
                f.op("Squeeze", &[&format!("{column}1"), "axis"], column, vec![]);
            }
            f.op("Mul", &["b", "stride0"], "m0", vec![]);
            f.op("Add", &["m0", "y"], "a0", vec![]);
            f.op("Mul", &["stride1", "a0"], "m1", vec![]);
            f.op("Add", &["m1", "x"], "a1", vec![]);
            f.op("Mul", &["a1", "stride2"], "m2", vec![]);
            f.op("Add", &["m2", "z"], "linear", vec![]);
            f.op("Unsqueeze", &["linear", "axis"], "column", vec![]);
            f.op("Expand", &["column", "rows"], "index", vec![]);
            f.op("ScatterElements", &["zeros", "index", "6"], "flat", vec![("axis", Attr::Int(0))]);
            f.op("Reshape", &["flat", "shape"], "dense", vec![]);
        });
        file
    };
    let (network, expected) = (read(&build([2, 3, 4])), read(&autoware()));
    assert_eq!((network.map, network.axes), (expected.map, expected.axes));
    assert_eq!(network.levels, expected.levels);
    let text = refusal(&build([2, 4, 3]));
    assert!(
        text.contains("linear indices with the strides [24, 12, 3, 1]; [24, 12, 4, 1]"),
        "{text}"
    );
}

/// Exports since September 2026: strided rulebooks are inputs of the graph.
#[test]
fn rulebooks_given_as_inputs_are_read() {
    let mut file = autoware();
    file.nodes.retain(|node| !["p2.0", "p3.0"].contains(&node.outputs[0].as_str()));
    let slots = ["out_indices", "pair_fwd", "pair_mask", "mask_argsort"];
    for (old, new, taps) in [("p2", "spconv1", 27), ("p3", "spconv_down2", 3)] {
        let shapes = [vec![-1, 4], vec![taps, -1], vec![-1, 1], vec![-1]];
        for ((at, slot), shape) in slots.iter().enumerate().zip(shapes) {
            let name = format!("rulebook/{new}/{slot}");
            for node in &mut file.nodes {
                for input in node.inputs.iter_mut().filter(|input| **input == format!("{old}.{at}"))
                {
                    input.clone_from(&name);
                }
            }
            file.inputs.push((name, ElementType::I32, shape));
        }
    }
    let text = refusal(&file);
    assert!(text.contains("rulebook/spconv1/pair_fwd is an input of the graph"), "{text}");
    let stages = r#"[{"onnx_base": "rulebook/spconv1", "ksize": [3, 3, 3], "stride": [2, 2, 2],
        "padding": [1, 1, 1], "dilation": [1, 1, 1], "spatial_shape": [9, 6, 8]},
        {"onnx_base": "rulebook/spconv_down2", "ksize": [3, 1, 1], "stride": [2, 1, 1],
        "padding": [0, 0, 0], "dilation": [1, 1, 1], "spatial_shape": [5, 3, 4]}]"#;
    file.metadata.push(("rulebook_stages".into(), stages.into()));
    let (network, expected) = (read(&file), read(&autoware()));
    assert_eq!(network.levels, expected.levels);
    for (a, b) in network.operations.iter().zip(&expected.operations) {
        assert_eq!(a.operator, b.operator);
    }
    file.metadata.push(("rulebook_coors_permutation".into(), "[0, 1, 2]".into()));
    assert_eq!(read(&file).axes, GridAxes::Zyx);
    for (at, value, expected) in [
        // The node in front of the first convolution says z y x.
        (1, "[1, 2, 0]", "GetIndicePairsImplicitGemm_5: coordinates"),
        (1, "[0, 2, 1]", "rulebook_coors_permutation is [0, 2, 1]"),
        (1, "[0, 1]", "rulebook_coors_permutation: invalid length"),
        (0, &stages.replace("[9, 6, 8]", "[9, 6, 7]"), "rulebook/spconv1: spatial_shape is"),
        (0, &stages.replace("[5, 3, 4]", "[5, 3, 3]"), "rulebook/spconv_down2: spatial_shape"),
        (0, &stages.replace("[3, 1, 1]", "[1, 3, 1]"), "[4, 1, 3, 1, 8] is expected"),
        (0, &stages.replace("ksize", "kernel"), "unknown field `kernel`"),
        (0, "[", "rulebook_stages: EOF"),
    ] {
        let mut file = file.clone();
        file.metadata[at].1 = value.into();
        let text = refusal(&file);
        assert!(text.contains(expected), "{text}");
    }
}

/// The whole detector in one file: the encoder ends at the map, the rest runs
/// on a general engine.
#[test]
fn what_follows_the_map_becomes_a_model_of_its_own() {
    let mut file = autoware();
    file.constants.push(("kernel".into(), vec![2, 8, 1, 1], vec![0.5; 16]));
    file.op("Conv", &["map", "kernel"], "conv", vec![("kernel_shape", Attr::Ints(vec![1, 1]))]);
    file.op("Relu", &["conv"], "scores", vec![]);
    file.op("Neg", &["conv"], "boxes", vec![]);
    file.op("Neg", &["map"], "unused", vec![]);
    file.outputs = vec![("scores".into(), vec![1, 2, 3, 4]), ("boxes".into(), vec![1, 2, 3, 4])];
    let parsed = parse(&file.to_bytes()).unwrap();
    assert_eq!(parsed.network.map_shape(), [1, 8, 3, 4]);
    let rest = parsed.rest.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rest.onnx");
    std::fs::write(&path, &rest).unwrap();
    let mut engine = RtenEngine::load(&path, Some(1)).unwrap();
    assert_eq!(engine.inputs().len(), 1);
    assert_eq!(engine.inputs()[0].to_string(), "map f32 [1, 8, 3, 4]");
    let map: Vec<f32> = (0..96).map(|at| (at % 7) as f32 - 3.0).collect();
    engine.run(&[TensorView::new(&[1, 8, 3, 4], TensorValues::F32(&map)).unwrap()]).unwrap();
    let names: Vec<_> = engine.outputs().iter().map(|output| output.name.as_str()).collect();
    assert_eq!(names, ["scores", "boxes"]);
    let TensorValues::F32(scores) = engine.output(0).unwrap().values() else { panic!() };
    let sum = |cell: usize| (0..8).map(|channel| map[channel * 12 + cell]).sum::<f32>() * 0.5;
    for (cell, &score) in scores[..12].iter().enumerate() {
        assert_eq!(score, sum(cell).max(0.0), "cell {cell}");
    }

    // An output that needs more than the map.
    file.op("Shape", &["voxels"], "size", vec![]);
    file.outputs.push(("size".into(), vec![3]));
    let text = refusal(&file);
    assert!(text.contains("depends on the input voxels, not only on map"), "{text}");
}

/// Wiring between convolutions that is not understood.
#[test]
fn wrong_wiring_is_refused() {
    type Edit = fn(&mut File);
    let cases: [(Edit, &str); 9] = [
        (|f| f.nodes[6].inputs.swap(2, 3), "input p0.2 is not output 1 of its rulebook"),
        (|f| f.nodes[11].inputs[2] = "p0.1".into(), "is not output 2 of its rulebook"),
        (|f| f.nodes[6].inputs[0] = "3".into(), "features, from"),
        (|f| f.nodes[9].op = "Sigmoid", "Sigmoid_9: it reads 3, which holds features"),
        (|f| f.nodes[12].inputs[0] = "indices".into(), "attribute spatial_shape is"),
        (|f| f.nodes[13].inputs[0] = "4".into(), "features and rulebook are of different"),
        (|f| f.nodes[15].inputs[1] = "p2.0".into(), "are of different levels"),
        (|f| f.integers[2].1[1] = 3, "zeros of [1, 3, 3, 4, 4]; [1, 2, 3, 4, 4]"),
        (|f| f.integers[3].1[1] = 16, "a shape of [1, 16, 3, 4]; [1, 8, 3, 4]"),
    ];
    for (case, (edit, expected)) in cases.into_iter().enumerate() {
        let mut file = autoware();
        edit(&mut file);
        let text = refusal(&file);
        assert!(text.contains(expected), "case {case}: {text}");
    }
}

/// What is folded into a convolution must not change under another name.
#[test]
fn a_tensor_has_one_name() {
    let mut file = autoware();
    file.nodes[7].outputs[0] = "2.unbiased".into();
    let after = file.nodes.split_off(8);
    file.op("Identity", &["2.unbiased"], "2.same", vec![]);
    file.op("Add", &["2.same", "spconv1.bias"], "2", vec![]);
    file.nodes.extend(after);
    assert_eq!(read(&file).operations.len(), read(&autoware()).operations.len());
    file.nodes[10].inputs[0] = "2.unbiased".into();
    assert!(refusal(&file).contains("2.unbiased"), "{}", refusal(&file));
}
